"""What is to be proved of a rule in one case: at known ranks, list lengths and discrete attributes.

A rule is as many statements as it has cases. Sizes, strides, offsets and scalars stay symbols, so
one statement speaks of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ...catalog.operators.expand import Definition
from ...catalog.terms.index_notation import Symbol, Term

# Real numbers with + * / and a total order; integers modulo a power of two (a commutative ring
# whose order doesn't respect + and *, and whose / truncates); truth values.
Algebra = Literal["real", "integer", "boolean"]


@dataclass(frozen=True)
class Operand:
    """A tensor that may hold anything: an uninterpreted function of its indices.

    `limits` are the least and the largest integer that it may hold, of every element type that the
    statement speaks for; None where nothing is said.
    """

    name: str
    shape: tuple[Term, ...]
    algebra: Algebra = "real"
    limits: tuple[int, int] | None = None


@dataclass(frozen=True)
class Obligation:
    """What must follow from the assumptions: a requirement of the target, or two equal sizes."""

    text: str
    condition: Term


@dataclass(frozen=True)
class Equation:
    """An output: the tensor of the source and that of the target, of one shape."""

    output: str
    source: str
    target: str


@dataclass(frozen=True)
class Extent:
    """The length that something has which may have any; `most` is the largest that is looked at.

    `places` are the tensors of which it is the rank, or a part of it, and the first axis of that
    part; empty for the length of a list of operands or of numbers.
    """

    length: int
    most: int
    places: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Node:
    """An operator as it was put into a statement: attributes and their lists hold terms."""

    operator: str
    inputs: tuple[str | None, ...]
    attributes: Mapping[str, object]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Origin:
    """The graph that a statement speaks of, so that a model can be made of its left side.

    `nodes` are those of the left side, `types` the ONNX types of all tensors, `lists` the tensors
    that `*name` stands for. What is no operand and no output of a node is a constant.
    """

    opset: int
    nodes: tuple[Node, ...]
    types: Mapping[str, str]
    lists: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Statement:
    """Under the assumptions, the obligations hold and both sides of each equation are equal.

    `definitions` are the tensors of both sides in order of use, under unique names; a value reads
    operands and earlier definitions only. `source` names those of the source side: the elements it
    computes may be taken to be defined (divisors not 0, reads in bounds), and those of the target
    must then be, and be no more often defined than the source is. `algebras` gives the algebra of
    every definition. Dimensions are at least 0 unless an assumption says more. `region`, a term
    over the indices `region_indices` of the only equation's output, is where the two sides need not
    be equal. `free` gives, by its name (rank_bounds.py), what may have any length, and which it has
    here: ranks of operands, lists of dimensions, lists of operands and of numbers. `numbered` says
    that there are nodes with a number: sums over them, of elements that are cut out.
    """

    title: str
    symbols: tuple[Symbol, ...]
    assumptions: tuple[Term, ...]
    operands: tuple[Operand, ...]
    definitions: tuple[Definition, ...]
    source: frozenset[str]
    obligations: tuple[Obligation, ...]
    equations: tuple[Equation, ...]
    algebras: Mapping[str, Algebra] = field(default_factory=dict)
    region: Term | None = None
    region_indices: tuple[str, ...] = ()
    free: Mapping[str, Extent] = field(default_factory=dict)
    numbered: bool = False
    origin: Origin | None = None


@dataclass(frozen=True)
class Query:
    """A question put to a solver, as SMT-LIB 2.6, and what it said of it."""

    purpose: str
    script: str
    result: Literal["unsat", "sat", "unknown"]
    seconds: float


@dataclass(frozen=True)
class Outcome:
    """What the prover found: `open` is neither a proof nor a refutation.

    `reason` says what could not be shown; `failed` is the obligation at fault, if it was one.
    `model` gives sizes at which the solver sees a difference, a hint for the search for a
    counterexample, which alone refutes. `widest` is the largest number of terms in one coefficient
    class, which bounds the rank that a counterexample needs.
    """

    status: Literal["proved", "open"]
    reason: str = ""
    failed: Obligation | None = None
    model: Mapping[str, int] = field(default_factory=dict)
    queries: tuple[Query, ...] = ()
    widest: int = 0
    seconds: float = 0.0

    @property
    def vacuous(self) -> bool:
        """Whether the statement is open because nothing fulfils what it assumes."""
        return self.status == "open" and self.reason.startswith("vacuous:")
