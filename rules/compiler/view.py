"""What the rules ask of a graph, and what they hand back: matches and replacements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ..language.syntax import Rule

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ABSENT = -1  # the value id of an optional input that is not there


class GraphView(Protocol):
    """A graph as the rules see it; values and nodes are ids."""

    def shape(self, value: int) -> tuple[int | str, ...] | None:
        """Sizes, a name where one is symbolic; None when the rank is unknown."""

    def dtype(self, value: int) -> str | None:
        """ONNX's name in lower case: "float32", "int64", "bool"; None when unknown."""

    def attribute(self, node: int, name: str) -> object:
        """The attribute, the schema's default when it is not set, None without either."""

    def attributes(self, node: int) -> Mapping[str, object]:
        """The attributes that are set on the node."""

    def is_constant(self, value: int) -> bool:
        """Whether the value is known at optimize time."""

    def constant(self, value: int) -> NDArray[np.generic] | None:
        """The value of a constant."""

    def op_type(self, node: int) -> str:
        """The operator: "Conv", "com.microsoft:FusedConv"."""

    def inputs(self, node: int) -> Sequence[int]:
        """The value ids of the node's inputs by position; -1 (ABSENT) where one is left out."""

    def outputs(self, node: int) -> Sequence[int]:
        """The value ids of the node's outputs by position; -1 (ABSENT) where one is left out."""


class NamedView(GraphView, Protocol):
    """A graph view that can also be talked about: what `why_missed` needs."""

    def value_name(self, value: int) -> str:
        """The value's name in the model."""

    def node_name(self, node: int) -> str:
        """The node's name, or something a reader finds it by ("Conv_12")."""

    def use_count(self, value: int) -> int:
        """How many node inputs, graph outputs and subgraphs use the value."""


@dataclass(frozen=True)
class Match:
    """Where a rule's left side occurs in a graph.

    `nodes`: pattern node (named after its first output) -> node id. `values`: name in the pattern
    -> value id, -1 for an absent optional input. `dims`: dimensions and integer attributes that
    Datalog bound (negative: an interned symbolic dimension). `positions`: for a pattern node with
    `*operands`, "Node:in" or "Node:out" -> position of the operand between the two stars.
    """

    rule: Rule
    nodes: Mapping[str, int]
    values: Mapping[str, int]
    dims: Mapping[str, int] = field(default_factory=dict)
    positions: Mapping[str, int] = field(default_factory=dict)


Reference = int | str
"""A matched value by its id, a new value or constant by its local name; "" = left out."""


@dataclass(frozen=True)
class NewNode:
    """A node to create. `outputs` are names local to the replacement.

    `fold`: all its inputs are constants and the rule asks to evaluate it at optimize time; a rule
    is not applied when that is impossible (size limit, no kernel).
    """

    op_type: str
    domain: str
    inputs: tuple[Reference, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, object]
    fold: bool = False


@dataclass(frozen=True)
class Replacement:
    """What takes the place of a match.

    Add `constants` and `nodes` (in topological order), then let every user of a key of `outputs`
    use its value instead: a local name, or the id of a value that exists already. The nodes in
    `removed` are then dead unless a `shared` interior value keeps one alive: dead-code
    elimination decides. Shapes and dtypes of the outputs are those of the values they replace.
    """

    rule: Rule
    nodes: tuple[NewNode, ...]
    constants: Mapping[str, NDArray[np.generic]]
    outputs: Mapping[int, Reference]
    removed: tuple[int, ...]
