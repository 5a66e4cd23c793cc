"""An e-graph as rules see a graph: e-nodes are its nodes, classes its values."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ....catalog.operators import schema_for
from ....rules import ABSENT
from ...graph.graph import Shape
from ..egraph import EGraph


class View:
    """The GraphView of an e-graph, so that conditions and rewrites are those of any graph."""

    def __init__(self, egraph: EGraph) -> None:
        self.egraph = egraph
        self._attributes: dict[int, Mapping[str, object]] = {}
        self._defaults: dict[int, Mapping[str, object]] = {}

    def shape(self, value: int) -> Shape | None:
        """A class's shape, None where not even the rank is known."""
        type_ = None if value == ABSENT else self.egraph.type(value)
        return type_.shape if type_ else None

    def dtype(self, value: int) -> str | None:
        """A class's element type, None where it is not known."""
        type_ = None if value == ABSENT else self.egraph.type(value)
        return type_.dtype if type_ else None

    def is_constant(self, value: int) -> bool:
        """Whether a class is known before the model runs."""
        return value != ABSENT and self.egraph.is_known(value)

    def constant(self, value: int) -> np.ndarray | None:
        """A class's value; None where it is none, or too large to have been computed yet."""
        constant = None if value == ABSENT else self.egraph.constant(value)
        return None if constant is None else constant.array()

    def op_type(self, node: int) -> str:
        """An e-node's operator."""
        return self.egraph.vocabulary.operators[self.egraph.columns.operator(node)].name

    def attributes(self, node: int) -> Mapping[str, object]:
        """The attributes that are set on an e-node."""
        number = self.egraph.columns.attribute(node)
        if number not in self._attributes:
            self._attributes[number] = self.egraph.vocabulary.attributes[number].values
        return self._attributes[number]

    def defaults(self, node: int) -> Mapping[str, object]:
        """The defaults of an e-node's operator in the model's opset."""
        number = self.egraph.columns.operator(node)
        if number not in self._defaults:
            op = self.egraph.vocabulary.operators[number]
            spec = schema_for(op.domain, op.op_type, self.egraph.inference.opset(op.domain))
            self._defaults[number] = spec.defaults if spec else {}
        return self._defaults[number]

    def attribute(self, node: int, name: str) -> object:
        """One attribute, its default where absent, None where there is no default."""
        value = self.attributes(node).get(name)
        return self.defaults(node).get(name) if value is None else value

    def inputs(self, node: int) -> tuple[int, ...]:
        """The classes that an e-node reads by position."""
        return self.egraph.columns.operands(node)

    def outputs(self, node: int) -> tuple[int, ...]:
        """The classes that an e-node gives by position."""
        return self.egraph.columns.outputs(node)
