"""Kernels that scatter rows, with what is computed of them before, of rows that are gathered.

A message passes along an edge of a graph: rows of its ends are gathered, something is computed of
them element by element, and the result is added to a row, or is the largest so far, or takes its
place. Threads share columns, or tables, so that none waits for another, and each element is reached
by its updates in their order, as it is in ONNX Runtime: sums are equal to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial

from ...codegen.expressions import LoweringError
from ..grow import with_makers
from ..kernel import (
    Kernel,
    RegionKernel,
    disjoint_kernels,
    flushes,
    label_of,
    region_kernel,
    shapes_of,
)
from ..loops.affine import Affine, Extent, Map, Ranges, loop
from ..loops.cells import Access, Cells
from ..loops.kernel_region import Meanings, Region, read_by
from ..loops.merged_loops import Groups, merged
from ..regions.region_candidates import candidates
from .row_operators import Gather, Scatter, gather_of, scatter_of
from .scatter_text import ScatterText

# Elements that are worth a task.
GRAIN = 16384


def scattered_rows(meanings: Meanings, allowed: Collection[int]) -> list[RegionKernel]:
    """Find scatters of rows with what is computed for them alone, no two with a common node."""
    updated = candidates(meanings).scatters

    def attempts(number: int, free: set[int]) -> Iterator[Callable[[], RegionKernel]]:
        scatter = scatter_of(meanings, number)
        if free.issuperset(scatter.nodes):
            yield partial(_grown, meanings, scatter, updated[number] & free)

    return disjoint_kernels(meanings.in_order(updated)[::-1], allowed, attempts)[::-1]


def _grown(meanings: Meanings, scatter: Scatter, allowed: Collection[int]) -> RegionKernel:
    """Return the region of a scatter and of what updates are made of, of `allowed` nodes."""
    graph = meanings.graph

    def gathers(number: int) -> bool:
        return graph.nodes[number].operator == "Gather"

    def read(taken: Collection[int]) -> Iterator[int]:
        yield scatter.updates
        for number in taken:
            yield from () if gathers(number) else graph.nodes[number].inputs

    def lower(taken: tuple[int, ...]) -> RegionKernel:
        gathered = [gather_of(meanings, number) for number in taken if gathers(number)]
        computed = [number for number in taken if not gathers(number)]
        return _lowered(meanings, scatter, computed, gathered)

    return with_makers(meanings, scatter.nodes, read, allowed, lower)


def _lowered(
    meanings: Meanings, scatter: Scatter, computed: Iterable[int], gathers: Iterable[Gather]
) -> RegionKernel:
    graph = meanings.graph
    gathered = {graph.nodes[gather.node].outputs[0]: gather for gather in gathers}
    computed = meanings.in_order(computed)
    moved = meanings.shape(scatter.updates)
    axes = tuple(axis for axis, size in enumerate(moved) if size != 1)
    if scatter.axis not in axes:
        raise LoweringError("a single row")
    of_axis = {axis: loop(number) for number, axis in enumerate(axes)}
    places = tuple(of_axis.get(axis, Affine()) for axis in range(len(moved)))
    extents: list[Extent] = [moved[axis] for axis in axes]
    inner = Region(computed, read_by(graph, computed), (scatter.updates,), moved)
    cells = Cells(meanings, inner, axes, Ranges(tuple(extents)))
    updating = axes.index(scatter.axis)
    for access in cells.accesses:
        if access.dtype not in ("float32", "bool"):
            raise LoweringError("numbers of other types")
        if access.value in gathered and access.map[scatter.axis].single != updating:
            raise LoweringError("a row that is gathered for several updates")

    sizes = [(access.map, meanings.shape(access.value)) for access in cells.accesses]
    groups = merged(extents, {updating}, [*sizes, (places, moved)])
    target = meanings.shape(scatter.target)
    ends = scatter.axis + scatter.parts
    rows = tuple(range(len(extents), len(extents) + scatter.parts))
    extents += target[scatter.axis : ends]
    place: Map = (
        *places[: scatter.axis],
        *(loop(number) for number in rows),
        *places[scatter.axis + 1 :],
    )
    tables = {}
    for value, gather in gathered.items():
        tables[value] = len(extents)
        extents.append(meanings.shape(gather.table)[scatter.axis])
    groups = Groups((*groups.of, *range(groups.count, groups.count + len(extents) - len(axes))))

    named_rows = meanings.shape(scatter.indices)
    named_by: Map = tuple(
        of_axis.get(axis, Affine())
        if axis == scatter.axis or (axis < scatter.axis and not scatter.is_shared)
        else Affine()
        for axis in range(len(named_rows))
    )
    indices = [Access(scatter.indices, named_by, graph.dtype(scatter.indices) or "")]
    for lookup in gathered.values():
        indices.append(Access(lookup.indices, (loop(updating),), graph.dtype(lookup.indices) or ""))
    read = []
    for access in cells.accesses:
        gather_of_table = gathered.get(access.value)
        table = access.value if gather_of_table is None else gather_of_table.table
        read.append(Access(table, access.map, access.dtype))
    fill = meanings.uniform(scatter.target)
    accesses = (*read, *indices)
    inputs = tuple(dict.fromkeys(access.value for access in accesses))
    if fill is None:
        inputs = tuple(dict.fromkeys((*inputs, scatter.target)))
    text = ScatterText(
        cells,
        groups,
        tuple(extents),
        updating,
        rows,
        scatter,
        tuple(gathered.values()),
        tuple(tables.values()),
        tuple(gathered),
        tuple(inputs.index(access.value) for access in accesses),
        tuple(index.dtype for index in indices),
        None if fill is not None else inputs.index(scatter.target),
        0.0 if fill is None else fill,
    )
    shapes = shapes_of(
        meanings, inputs, tuple(extents), [(target, place)], accesses=accesses, groups=groups
    )
    nodes = {*scatter.nodes, *computed, *(gather.node for gather in gathered.values())}
    ordered = meanings.in_order(nodes)
    outputs = graph.nodes[scatter.nodes[-1]].outputs
    drawn = [(scatter.indices, scatter.target, axis) for axis in range(scatter.axis, ends)]
    drawn += [(gather.indices, gather.table, gather.axis) for gather in gathered.values()]
    kernel = Kernel(
        label_of(meanings, ordered),
        text.text(),
        shapes,
        inputs,
        outputs,
        grain=GRAIN,
        arrange="arrange_scatter",
        columns=text.arranges,
        support="indexed.h",
        flushes=flushes(meanings, computed),
        drawn=tuple(drawn),
    )
    return region_kernel(meanings, ordered, kernel, "rows", space=target)
