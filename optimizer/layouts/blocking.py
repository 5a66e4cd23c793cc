"""What an e-graph with blocked classes holds beside them: which e-node tells of which other's cost.

`grow` (growing.py) makes it; costs and explanations read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...catalog.datalog.memory.plan import Row
from ..egraph.congruence import NONE
from ..egraph.egraph import EGraph
from .values import BlockedValues

POOLS = {"MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"}
# Without one of these nothing is gained in blocks.
BLOCKED = {"Conv", "ConvTranspose", *POOLS}


@dataclass(frozen=True)
class Operation:
    """An e-node as what converts it reads it: operator, attributes, and its classes."""

    node: int
    name: str
    attributes: Mapping[str, Any]
    operands: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def output(self) -> int:
        """The class of the first output."""
        return self.outputs[0]


def operation_of(egraph: EGraph, node: int) -> Operation:
    """Read an e-node."""
    columns, vocabulary = egraph.columns, egraph.vocabulary
    return Operation(
        node,
        vocabulary.operators[columns.operator(node)].name,
        vocabulary.attributes[columns.attribute(node)].values,
        columns.operands(node),
        tuple(value for value in columns.outputs(node) if value != NONE),
    )


@dataclass
class Blocking:
    """Blocked classes and e-nodes of one e-graph."""

    egraph: EGraph
    values: BlockedValues
    # e-node of a convolution or pool -> the blocked one that does the same and no more
    twins: dict[int, int] = field(default_factory=dict)
    # blocked convolution -> what takes as long: one without what it ends in, or one outside
    likes: dict[int, int] = field(default_factory=dict)
    # blocked convolution -> the one without a sum and an activation that take no time of their own
    same: dict[int, int] = field(default_factory=dict)
    # the rows of the relations of layouts.dl
    derived: Mapping[str, Iterable[Row]] = field(default_factory=dict)
    # e-node -> why it isn't computed in blocks
    refusals: dict[int, str] = field(default_factory=dict)
    _done: set[tuple[object, ...]] = field(default_factory=set)

    @property
    def count(self) -> int:
        """How much was done so far: it grows as long as anything is new."""
        return len(self._done)

    def is_new(self, *key: object) -> bool:
        """Whether something is to be done for the first time; it counts as done then."""
        if key in self._done:
            return False
        self._done.add(key)
        return True

    def operation(self, node: int) -> Operation:
        """Read an e-node."""
        return operation_of(self.egraph, node)

    def refuse(self, node: int, reason: str) -> None:
        """Note why an e-node stays as it is, unless it was converted somehow."""
        self.refusals.setdefault(node, reason)

    def unconverted(self) -> dict[int, str]:
        """E-node -> why it is computed in no layout of blocks."""
        converted = {node for application in self.values.applications for node in application.nodes}
        return {node: why for node, why in self.refusals.items() if node not in converted}
