"""Equalities that no rule can say, added to an e-graph: what is needed to find and state them.

A rule names sizes and conditions on them; these look at the elements of constants, or through any
number of operators that change nothing but a factor or a layout. They are made once rules lead
nowhere new, compete by measured cost like anything else, and are compared numerically with what
they replace, on random shapes (tests/egraph/test_derived_*.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import helper

from ...graph.graph import Shape, TensorType, constant_of
from ...graph.infer import bind, sharpen
from ..congruence import NONE
from ..egraph import UNTYPED, EGraph
from ..extraction.e_node_costs import givers_of
from ..interning import Attributes
from ..provenance import Application


@dataclass(frozen=True)
class Giver:
    """An e-node that gives a class: its number, what it reads, its attributes."""

    node: int
    operands: tuple[int, ...]
    attributes: Mapping[str, Any]


@dataclass
class Derivation:
    """One derivation at work on an e-graph: what is there, and what was made."""

    egraph: EGraph
    applications: list[Application] = field(default_factory=list)
    _givers: dict[int, list[int]] = field(init=False)
    _pairs: list[tuple[int, int]] = field(default_factory=list)
    _names: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._givers = givers_of(self.egraph)

    # -------------------------------------------------------------------------------- reading

    def givers(self, class_: int, *names: str) -> Iterator[Giver]:
        """The e-nodes of some operators that give a class."""
        vocabulary, columns = self.egraph.vocabulary, self.egraph.columns
        for node in self._givers.get(self.egraph.find(class_), ()):
            if self._name(columns.operator(node)) in names:
                values = vocabulary.attributes[columns.attribute(node)].values
                yield Giver(node, columns.operands(node), values)

    def _name(self, operator: int) -> str:
        """An operator's name: it is asked for all the time."""
        operators = self.egraph.vocabulary.operators
        while len(self._names) <= operator:
            self._names.append(operators[len(self._names)].name)
        return self._names[operator]

    def every(self, *names: str) -> Iterator[tuple[int, Giver]]:
        """Each class that e-nodes of some operators give, with those."""
        for class_ in sorted(self._givers):
            for giver in self.givers(class_, *names):
                yield class_, giver

    def shape(self, class_: int) -> Shape | None:
        """The shape of a class of float32; None where it is not known, or of another type."""
        type_ = None if class_ == NONE else self.egraph.type(class_)
        return type_.shape if type_ is not None and type_.dtype == "float32" else None

    def number(self, class_: int) -> float | None:
        """The value of a class that is one known number."""
        constant = None if class_ == NONE else self.egraph.constant(class_)
        if constant is None or constant.type.shape is None:
            return None
        if constant.type.dtype != "float32" or any(size != 1 for size in constant.type.shape):
            return None
        return float(constant.array().reshape(-1)[0])

    def list(self, class_: int) -> list[int] | None:
        """The elements of a class that is a short known list of integers."""
        constant = None if class_ == NONE else self.egraph.constant(class_)
        if constant is None or constant.type.dtype not in ("int32", "int64"):
            return None
        array = constant.array()
        return [int(item) for item in array.reshape(-1)] if array.size <= 8 else None

    # --------------------------------------------------------------------------------- making

    def make(
        self,
        name: str,
        operands: Sequence[int],
        attributes: Mapping[str, Any],
        shape: Shape | None = None,
    ) -> int | None:
        """The e-node of an operator of one output; None where it takes no such operands.

        `shape` is that of the float32 it gives, where inference may not know.
        """
        vocabulary = self.egraph.vocabulary
        domain, _, op_type = name.rpartition(":")
        protos = {key: helper.make_attribute(key, value) for key, value in attributes.items()}
        row = (
            vocabulary.operator(domain, op_type),
            vocabulary.attribute(Attributes(protos, (True,))),
            tuple(self.egraph.find(value) for value in operands),
        )
        (node,) = self.egraph.intern([row])
        if node is None:
            return None
        output = self.output(node)
        if shape is not None:
            type_ = TensorType("float32", shape)
            for numbers, output_type in (
                (self.egraph.types, type_),
                (self.egraph.sized, bind(type_, self.egraph.sizes)),
            ):
                known_type = (
                    None if numbers[output] == UNTYPED else vocabulary.types[numbers[output]]
                )
                sharper = sharpen(known_type, output_type)
                assert sharper is not None
                numbers[output] = vocabulary.type(sharper)
        return node

    def output(self, node: int) -> int:
        """The class that an e-node of one output gives."""
        return self.egraph.columns.outputs(node)[0]

    def integers(self, values: Sequence[int]) -> int:
        """The class of a list of integers."""
        array = np.array(values, np.int64)
        return self.egraph.leaf(constant_of(array), ("integers", *values))

    def state(
        self,
        rule: str,
        summary: str,
        sources: Sequence[int],
        target_nodes: Sequence[int],
        old: int,
        equal: str = "rounding",
    ) -> None:
        """State that the last e-node made gives a class; unless its type would change."""
        new = self.output(target_nodes[-1])
        if not self.egraph.are_compatible(old, new):
            return
        application = Application(
            rule,
            tuple(sources),
            target_nodes=list(target_nodes),
            united=[(old, new)],
            equal=equal,
            summary=summary,
        )
        self.applications.append(application)
        for node in target_nodes:
            if node not in self.egraph.origin:
                self.egraph.made_by.setdefault(node, application)
        self._pairs.append((old, new))

    def unite_pairs(self) -> None:
        """Let what is equal be one class."""
        pairs = np.array(self._pairs, np.int64).reshape(-1, 2)
        self._pairs = []
        self.egraph.unite(pairs[:, 0], pairs[:, 1])
        self.egraph.rebuild()
        self._givers = givers_of(self.egraph)
