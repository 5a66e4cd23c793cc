"""Which nodes gather rows by indices, or scatter some: Gather, ScatterElements, ScatterND.

PyTorch has an index for each element. To move rows, programs expand one index over each of them,
and exporters write ScatterElements with an Expand. A row lies behind one axis: `before` of that
axis are as many tables as there are, each with rows of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ....rules import ABSENT
from ...codegen.expressions import LoweringError
from ...graph.graph import Graph
from ..loops.affine import Extent
from ..loops.kernel_region import Meanings

INDICES = frozenset({"int32", "int64"})
REDUCTIONS = frozenset({"none", "add", "mul", "max", "min"})
SCATTERS = frozenset({"ScatterElements", "ScatterND"})


@dataclass(frozen=True)
class Scatter:
    """Rows of `updates` that go into a copy of `target`, at the rows that `indices` name.

    `nodes` are the scatter, and what expands its indices where that is read here alone. An index
    has `parts` numbers, of as many axes of the target from `axis` on. `updates` have one axis in
    their place. Those in front of it are tables of their own, and `is_shared` tells whether all of
    them have the same indices.
    """

    nodes: tuple[int, ...]
    target: int
    indices: int
    updates: int
    axis: int
    reduction: str
    parts: int = 1
    is_shared: bool = True


@dataclass(frozen=True)
class Gather:
    """Rows of `table` along `axis`, at `indices` of one axis."""

    node: int
    table: int
    indices: int
    axis: int


def scatter_of(meanings: Meanings, number: int) -> Scatter:
    """Return the rows that a node scatters; raise LoweringError where it is no such node."""
    graph = meanings.graph
    node = graph.nodes[number]
    if node.operator not in SCATTERS or ABSENT in node.inputs:
        raise LoweringError("no scatter")
    reduction = str(graph.attribute(number, "reduction") or "none")
    if reduction not in REDUCTIONS:
        raise LoweringError(f"a scatter that reduces by {reduction}")
    target, indices, updates = node.inputs
    (result,) = node.outputs
    if any(graph.dtype(value) != "float32" for value in (target, updates, result)):
        raise LoweringError("a scatter of other numbers than float32")
    rows = _by_elements if node.op_type == "ScatterElements" else _by_places
    scatter = rows(meanings, number, Scatter((number,), target, indices, updates, 0, reduction))
    if graph.dtype(scatter.indices) not in INDICES:
        raise LoweringError("indices of another type")
    return scatter


def gather_of(meanings: Meanings, number: int) -> Gather:
    """Return the rows that a node gathers; raise LoweringError where it is no such node."""
    graph = meanings.graph
    node = graph.nodes[number]
    if node.operator != "Gather":
        raise LoweringError("no gather")
    table, indices = node.inputs
    axis = int(graph.attribute(number, "axis"))  # type: ignore[call-overload]
    axis %= max(1, len(meanings.shape(table)))
    if len(meanings.shape(indices)) != 1 or graph.dtype(indices) not in INDICES:
        raise LoweringError("a gather that isn't of rows by one list of indices")
    if graph.dtype(table) != "float32":
        raise LoweringError("a gather of other numbers than float32")
    return Gather(number, table, indices, axis)


def separate_indices(graph: Graph) -> None:
    """Give each scatter an expansion of its indices of its own, which its kernel does without."""
    for number in graph.order():
        node = graph.nodes[number]
        if node.operator != "Expand" or graph.is_pinned(node.outputs[0]):
            continue
        (value,) = node.outputs
        readers = sorted(graph.users.get(value, ()))
        scattering = [
            user
            for user in readers
            if graph.nodes[user].operator in SCATTERS
            and [
                position
                for position, input_ in enumerate(graph.nodes[user].inputs)
                if input_ == value
            ]
            == [1]
        ]
        for user in scattering[0 if len(scattering) < len(readers) else 1 :]:
            reader = graph.nodes[user]
            copied = graph.new_value(graph.names[value], graph.types.get(value))
            graph.add_node(replace(node, outputs=(copied,), name="", proto=None))
            graph.remove_node(user)
            inputs = tuple(copied if input_ == value else input_ for input_ in reader.inputs)
            graph.put_node(user, replace(reader, inputs=inputs, proto=None))


def _by_elements(meanings: Meanings, number: int, scatter: Scatter) -> Scatter:
    graph = meanings.graph
    shape, moved = meanings.shape(scatter.target), meanings.shape(scatter.updates)
    axis = int(graph.attribute(number, "axis"))  # type: ignore[call-overload]
    axis %= max(1, len(shape))
    index_shape = meanings.shape(scatter.indices)
    if index_shape != moved or len(moved) != len(shape):
        raise LoweringError("indices of another shape than what they place")
    if _without(shape, axis) != _without(moved, axis):
        raise LoweringError("updates of parts of rows")
    nodes, indices = scatter.nodes, scatter.indices
    maker = graph.producer.get(indices)
    if maker is not None and graph.nodes[maker].operator == "Expand":
        source = graph.nodes[maker].inputs[0]
        if len(meanings.shape(source)) == len(shape):
            if graph.is_pinned(indices) or graph.users.get(indices, set()) != {number}:
                raise LoweringError("expanded indices that others read")
            nodes, indices, index_shape = (maker, number), source, meanings.shape(source)
    if any(size != 1 for size in index_shape[axis + 1 :]) or index_shape[axis] != moved[axis]:
        raise LoweringError("indices that differ along a row")
    shared = all(size == 1 for size in index_shape[:axis])
    if not shared and index_shape[:axis] != moved[:axis]:
        raise LoweringError("indices of some of the tables")
    return replace(scatter, nodes=nodes, indices=indices, axis=axis, is_shared=shared)


def _by_places(meanings: Meanings, number: int, scatter: Scatter) -> Scatter:
    shape, moved = meanings.shape(scatter.target), meanings.shape(scatter.updates)
    index_shape = meanings.shape(scatter.indices)
    if (
        len(index_shape) != 2
        or not isinstance(index_shape[1], int)
        or not 0 < index_shape[1] <= len(shape)
    ):
        raise LoweringError("indices that aren't one list")
    if moved != (index_shape[0], *shape[index_shape[1] :]):
        raise LoweringError("updates of parts of rows")
    return replace(scatter, parts=index_shape[1])


def _without(shape: tuple[Extent, ...], axis: int) -> tuple[Extent, ...]:
    return (*shape[:axis], *shape[axis + 1 :])
