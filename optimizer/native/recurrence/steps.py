"""Finds loops that are written out: equal steps, each of which reads what the one before has made.

From the results of all steps, which a Concat has side by side, all steps are followed back at once.
Where they have the same operator, it belongs to a step; where they pick one element after another
along an axis, that is a place that moves; where each but the first reads what another part of the
step before has made, that is a state.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from ....rules import ABSENT
from ...codegen.expressions import LoweringError
from ...graph.graph import Graph, Node
from ..loops.affine import Extent

# Fewer steps are hardly a loop.
LEAST_STEPS = 3
# Constants of several steps that are larger are taken for different ones.
MOST_COMPARED_BYTES = 1 << 12

Values = tuple[int, ...]


@dataclass(frozen=True)
class Moving:
    """What a step reads: the element of `source` at `first + step * t` along an axis.

    It has the axis, of one element, where `keeps` is true.
    """

    source: int
    axis: int
    first: int
    step: int
    keeps: bool


@dataclass(frozen=True)
class Stacked:
    """What a step makes, and the value that has that of all steps along an axis."""

    value: int
    axis: int
    result: int


@dataclass
class Steps:
    """A loop of `count` steps, told by the second one, whose nodes are `body`.

    `moving` and `states` are values that it reads: of these, `(before the loop, made in a step)`.
    `last` are states that are read when all is done. `nodes` are those of all steps.
    """

    count: Extent
    stacked: tuple[Stacked, ...]
    nodes: set[int] = field(default_factory=set)
    body: set[int] = field(default_factory=set)
    moving: dict[int, Moving] = field(default_factory=dict)
    states: dict[int, tuple[int, int]] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)


def written_out(graph: Graph, concats: Collection[int], allowed: Collection[int]) -> Steps:
    """Return the loop whose results nodes put side by side; LoweringError where it is none."""
    rows = [graph.nodes[number].inputs for number in concats]
    stacked = tuple(_stacked(graph, number) for number in concats)
    steps = Steps(len(rows[0]), stacked, set(concats))
    follower = _Follower(graph, allowed, steps)
    for values in rows:
        if len(values) != len(rows[0]):
            raise LoweringError("loops of several lengths")
        follower.follow(tuple(values))
    if not steps.states:
        raise LoweringError("steps that don't depend on each other")
    _refuse_others(graph, steps)
    return steps


def _stacked(graph: Graph, number: int) -> Stacked:
    node = graph.nodes[number]
    if node.operator != "Concat" or len(node.inputs) < LEAST_STEPS:
        raise LoweringError("no results of several steps")
    (result,) = node.outputs
    first = node.inputs[1]
    shape = graph.shape(first)
    if shape is None or len(set(node.inputs)) != len(node.inputs):
        raise LoweringError("results that aren't those of several steps")
    axis = int(graph.attribute(number, "axis")) % len(shape)  # type: ignore[call-overload]
    if any((graph.shape(value) or ())[axis : axis + 1] != (1,) for value in node.inputs):
        raise LoweringError("several elements of a step")
    return Stacked(first, axis, result)


class _Follower:
    """Follows all steps of a loop back at once."""

    def __init__(self, graph: Graph, allowed: Collection[int], steps: Steps) -> None:
        self.graph, self.allowed, self.steps = graph, allowed, steps
        self.followed: set[Values] = set()
        # what steps made, by all but the last of it
        self.next_values: dict[Values, Values] = {}
        # what all steps read where the second one, which tells the loop, reads a value
        self.read: dict[int, Values] = {}

    def follow(self, first: Values) -> None:
        """Follow values back, one of each step; raise LoweringError where steps differ."""
        waiting = [first]
        while waiting:
            values = waiting.pop()
            is_one = len(set(values)) == 1
            if values in self.followed or (not is_one and _are_equal(self.graph, values)):
                continue
            if self.read.setdefault(values[1], values) != values:
                raise LoweringError("a value that the other steps read as two")
            self.followed.add(values)
            if is_one:
                continue
            before = self.next_values.get(values[1:])
            if before is not None:
                self._refuse_growing(before)
                self.steps.states[values[1]] = (values[0], before[1])
                self.steps.last[before[-1]] = before[1]
                continue
            self._refuse_growing(values)
            nodes = self._nodes(values)
            moving = self._moving(values, nodes)
            self.steps.nodes |= set(nodes)
            if moving is not None:
                self.steps.moving[values[1]] = moving
                continue
            if not set(nodes) <= set(self.allowed):
                raise LoweringError("steps that no kernel may have")
            self.steps.body.add(nodes[1])
            self.next_values[values[:-1]] = values
            operands = [self.graph.nodes[node].inputs for node in nodes]
            waiting += reversed(list(zip(*operands, strict=True)))

    def _refuse_growing(self, values: Values) -> None:
        """Raise LoweringError where what a step has is larger than what the one before has."""
        types = {self.graph.types.get(value) for value in values}
        if len(types) > 1 or None in types:
            raise LoweringError("steps of several sizes")

    def _nodes(self, values: Values) -> Values:
        graph = self.graph
        nodes = tuple(graph.producer.get(value, ABSENT) for value in values)
        if ABSENT in nodes:
            raise LoweringError("a value of a step that no node makes")
        signatures = {
            _signature(graph.nodes[node], value) for node, value in zip(nodes, values, strict=True)
        }
        if len(signatures) == 1 and len(set(nodes)) == len(nodes):
            return nodes
        if len(set(nodes)) == 1 and graph.nodes[nodes[0]].operator == "Split":
            return nodes
        raise LoweringError("steps that differ")

    def _moving(self, values: Values, nodes: Values) -> Moving | None:
        """Return the place that moves along an axis, None where values are none of such places."""
        graph = self.graph
        node = graph.nodes[nodes[0]]
        if len(set(nodes)) == 1:
            shape, axis = graph.shape(values[0]), _axis(graph, nodes[0])
            if values != node.outputs or shape is None or shape[axis] != 1:
                raise LoweringError("parts of several elements")
            return Moving(node.inputs[0], axis, 0, 1, True)
        if node.operator not in ("Gather", "Slice"):
            return None
        sources = {graph.nodes[node].inputs[0] for node in nodes}
        if len(sources) > 1:
            return None
        places = [_place(graph, node) for node in nodes]
        axis, first, keeps = places[0]
        step = places[1][1] - first
        if step == 0 or places != [(axis, first + step * t, keeps) for t in range(len(nodes))]:
            raise LoweringError("places that aren't equally far apart")
        return Moving(node.inputs[0], axis, first, step, keeps)


def _are_equal(graph: Graph, values: Values) -> bool:
    """Tell whether all steps read equal small constants."""
    constants = [graph.constants.get(value) for value in values]
    first = constants[0]
    if first is None or any(
        constant is None or constant.type != first.type for constant in constants
    ):
        return False
    if all(constant is not None and constant.tensor is first.tensor for constant in constants):
        return True  # a body's own, written out several times
    if (first.type.size_bytes or 0) > MOST_COMPARED_BYTES:
        return False
    array = first.array()
    return all(
        constant is not None and np.array_equal(constant.array(), array)
        for constant in constants[1:]
    )


def _signature(node: Node, value: int) -> tuple[object, ...]:
    """What has to be the same in all steps; where a node picks an element is looked at later."""
    attributes = sorted(
        (name, proto.SerializeToString()) for name, proto in node.attributes.items()
    )
    return node.operator, tuple(attributes), len(node.inputs), node.outputs.index(value)


def _axis(graph: Graph, number: int) -> int:
    rank = len(graph.shape(graph.nodes[number].inputs[0]) or ())
    axis: int = graph.attribute(number, "axis") or 0  # type: ignore[assignment]
    return axis % max(1, rank)


def _place(graph: Graph, number: int) -> tuple[int, int, bool]:
    """Return the axis and the place of what a node picks, and whether it keeps the axis."""
    node = graph.nodes[number]
    shape = graph.shape(node.inputs[0])
    constants = [graph.constant(value) for value in node.inputs[1:] if value != ABSENT]
    if shape is None or any(constant is None or constant.size != 1 for constant in constants):
        raise LoweringError("a place that isn't known")
    numbers = [int(constant.reshape(())) for constant in constants if constant is not None]
    if node.operator == "Gather":
        axis, place = _axis(graph, number), numbers[0]
        keeps = constants[0] is not None and constants[0].ndim == 1
        if constants[0] is not None and constants[0].ndim > 1:
            raise LoweringError("a place of several axes")
    else:
        if len(node.inputs) < 4 or ABSENT in node.inputs or numbers[3:] not in ([], [1]):
            raise LoweringError("a slice of several axes")
        place, end, axis = numbers[:3]
        axis, keeps = axis % len(shape), True
        cut = graph.shape(node.outputs[0])
        if cut is None or cut[axis] != 1 or (end - place != 1 and place >= 0):
            raise LoweringError("a slice of several elements")
    if place < 0:
        size = shape[axis]
        if not isinstance(size, int):
            raise LoweringError("a place counted from an end that isn't known")
        place += size
    return axis, place, keeps


def _refuse_others(graph: Graph, steps: Steps) -> None:
    """Raise LoweringError where others read what a step makes, but for states at the end.

    Of the states, `last` keeps those that are read.
    """
    read = {}
    results = {stacked.result for stacked in steps.stacked}
    for number in steps.nodes:
        for value in graph.nodes[number].outputs:
            outside = graph.users.get(value, set()) - steps.nodes
            if value in results or (not outside and not graph.is_pinned(value)):
                continue
            if value not in steps.last:
                raise LoweringError("what a step makes is read elsewhere")
            read[value] = steps.last[value]
    steps.last = read
