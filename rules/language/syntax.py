"""The syntax tree of a rule: operands, pattern nodes, rules.

Expressions are those of catalog/terms/syntax_tree.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...catalog.terms.syntax_tree import Expression
from .rank_bounds import Within


@dataclass(frozen=True)
class Star(Expression):
    """`*b`: the dimensions, attributes or operands that are not named one by one."""

    text: str


# ---------------------------------------------------------------------------------- operands


@dataclass(frozen=True)
class Operand:
    """What `given` says of one value: shape (None: any rank), dtypes, and flags.

    `const`: known at optimize time. `scalar`: a constant of one element, whose number the name
    stands for in expressions. `default`: what an absent optional input counts as. `shared`: an
    interior value that may have users outside the match.
    """

    name: str
    shape: tuple[Expression, ...] | None = None
    dtypes: tuple[str, ...] = ()
    const: bool = False
    scalar: bool = False
    shared: bool = False
    default: Expression | None = None
    line: int = 0
    column: int = 0

    @property
    def star(self) -> int | None:
        """The place of `*b` in the shape; None where it has none."""
        places = (i for i, size in enumerate(self.shape or ()) if isinstance(size, Star))
        return next(places, None)


# ------------------------------------------------------------------------------------- nodes


@dataclass(frozen=True)
class Input:
    """One input of a pattern node: a value, `*values`, `value?`, a literal, or nothing."""

    value: str | None = None
    star: bool = False
    optional: bool = False
    literal: Expression | None = None


@dataclass(frozen=True)
class Output:
    """One output of a pattern node: a value or `*values`."""

    value: str
    star: bool = False


@dataclass(frozen=True)
class PatternNode:
    """`outputs = domain.Op<attributes, *rest>(inputs)`; named after its first output.

    `choices` is empty but for an operator variable, which `given` declares: `Op in [Relu, Tanh]`.
    `each`: as many nodes as its lists have items, one for each; with a `count`, as many as that
    says, and `index` is the number of each of them, from 0 on (repetition.py).
    """

    name: str
    op_type: str
    domain: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    attributes: tuple[tuple[str, Expression], ...] = ()
    rest: str | None = None
    fold: bool = False
    choices: tuple[str, ...] = ()
    each: bool = False
    index: str = ""
    count: Expression | None = None
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)

    @property
    def operator(self) -> str:
        """The operator as the Datalog relations name it: `Conv`, `com.microsoft:FusedConv`."""
        return f"{self.domain}:{self.op_type}" if self.domain else self.op_type

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators that the node may be: one, or the choices of a variable."""
        return self.choices or (self.operator,)

    @property
    def mentioned(self) -> tuple[str, ...]:
        """The names of the attributes that the node mentions."""
        return tuple(name for name, _ in self.attributes)


@dataclass(frozen=True)
class Alias:
    """`Y = X`, `*B = *A` or `Y = 0` in a rewrite: an output taken over by something known."""

    output: str
    source: Input
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Rule:
    """A substitution: its text, read; the status of its proof is not part of it.

    `opset_from` and `opset_to` are inclusive, None when open; `region` is the expression after
    `equal partial except`, in which `i0`, `i1`, … are the indices of the output, and `correct`
    makes the output whole again, from the partial one among others; `hash` identifies the rule's
    meaning and changes with any edit of it except in comments and spacing. `proved_for`, no part
    of the text, keeps a rule that is not proved for all ranks to those it is proved for; `items` is
    how many items the lists of repeated nodes have in a rule that is written out for so many.
    `places` are lines and columns: of the clauses `tags` and `equal`, and of conditions by their
    number.
    """

    name: str
    family: str
    summary: str
    comment: str
    tag: str
    equal: str
    region: Expression | None
    finite_math: bool
    target: str | None
    opset_from: int | None
    opset_to: int | None
    sources: tuple[str, ...]
    operands: tuple[Operand, ...]
    given: tuple[Expression, ...]
    choices: tuple[tuple[str, tuple[str, ...]], ...]
    match: tuple[PatternNode, ...]
    rewrite: tuple[PatternNode, ...]
    aliases: tuple[Alias, ...]
    text: str = field(compare=False)
    hash: str = field(compare=False)
    path: str = field(default="<rules>", compare=False)
    line: int = field(default=0, compare=False)
    correct: tuple[PatternNode, ...] = ()
    proved_for: tuple[Within, ...] = ()
    items: int | None = None
    places: tuple[tuple[str | int, int, int], ...] = field(default=(), compare=False)

    def place(self, clause: str | int) -> tuple[int, int]:
        """The line and column of a clause, or of a condition; of the rule where it isn't known."""
        places = ((line, column) for name, line, column in self.places if name == clause)
        return next(places, (self.line, 1))

    def __hash__(self) -> int:
        return hash(self.hash)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names bound on both sides, in the order of the match."""
        bound = {o.value for n in self.rewrite for o in n.outputs} | {
            a.output for a in self.aliases
        }
        return tuple(o.value for n in self.match for o in n.outputs if o.value in bound)

    def operand(self, name: str) -> Operand:
        """What `given` says of a value; an empty operand when it says nothing."""
        return next((o for o in self.operands if o.name == name), Operand(name))
