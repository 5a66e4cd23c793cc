"""From a region to its kernel: the text of a function, and the tables that say how it is called."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from ...codegen.expressions import LoweringError
from ..configurations.loop_configuration import (
    CellConfiguration,
    ChosenLoops,
    ColumnConfiguration,
    LoopConfiguration,
    RowConfiguration,
)
from ..kernel import GRAIN, Kernel, flushes, label_of, named, shapes_of
from .affine import Extent, Ranges, SplitError
from .cells import Access, Cells
from .column_text import ColumnWriter
from .element_types import FULL, HALVES
from .kernel_region import Meanings, Region
from .merged_loops import Groups, inner_step, merged
from .row_text import RowWriter

# Parts of a row at most that conditions divide it into.
MOST_PARTS = 8
# Functions of elements.h.
_CONVERSION = re.compile(r"\b(rounded_b?float16|saturated)_32\(")


def lower_region(
    meanings: Meanings, region: Region, configuration: LoopConfiguration | None = None
) -> Kernel:
    """Return the kernel of a region; raise LoweringError with why there is none.

    A `configuration` is for one that reduces along rows, over columns, or nothing; of another it
    makes no difference.
    """
    axes = tuple(axis for axis, size in enumerate(region.space) if size != 1)
    if not axes:
        raise LoweringError("no loops")
    extents = tuple(region.space[axis] for axis in axes)
    if region.reduced and not set(region.over) & set(axes):
        raise LoweringError("a reduction over one element")
    parts, bounds = _parts(meanings, region, axes, extents)
    accesses: list[Access] = []
    for part in parts:
        accesses += [access for access in part.accesses if access not in accesses]
    picks = parts[0].picks
    if any(part.picks != picks for part in parts):
        raise LoweringError("rows that are picked in some parts of a row")
    read = [Access(pick.value, pick.map, pick.dtype) for pick in picks]
    inputs = tuple(dict.fromkeys(access.value for access in (*accesses, *read)))
    outputs = tuple((meanings.shape(value), parts[0].natural(value)) for value in region.outputs)
    reduced = parts[0].inner if region.reduced else frozenset()
    places = [(access.map, meanings.shape(access.value)) for access in (*accesses, *read)]
    places += [(place, shape) for shape, place in outputs]
    groups = merged(extents, reduced, places)
    inner = groups.loops(groups.count - 1)
    steps = [inner_step(access.map, meanings.shape(access.value), inner) for access in accesses]
    output_types = tuple(meanings.graph.dtype(value) or "" for value in region.outputs)
    shapes = shapes_of(
        meanings,
        inputs,
        (*extents, *(pick.size for pick in picks)),
        outputs,
        accesses=(*accesses, *read),
        groups=Groups((*groups.of, *range(groups.count, groups.count + len(picks)))),
        output_types=output_types,
        picked=len(picks),
    )
    arguments = (parts, bounds, accesses, inputs, steps, groups, extents, output_types)
    row, column, cell = RowConfiguration(), ColumnConfiguration(), CellConfiguration()
    match configuration:
        case RowConfiguration():
            row = configuration
        case ColumnConfiguration():
            column = configuration
        case CellConfiguration():
            cell = configuration
    columns = None
    if reduced and len(extents) - 1 not in reduced:
        if picks:
            raise LoweringError("columns of rows that are picked")
        if HALVES.intersection((*output_types, *(access.dtype for access in accesses))):
            raise LoweringError("columns of numbers of 16 bits")
        columns = ColumnWriter(*arguments, reduced=groups.of[min(reduced)])
        columns.column_configuration = column
    writer = columns or RowWriter(
        *arguments, row_configuration=row, cell_configuration=cell, picks=tuple(picks)
    )
    text = writer.text()
    cost = sum(part.cells[output].cost for part in parts for output in part.outputs) / len(parts)
    return named(
        Kernel(
            label_of(meanings, region.nodes),
            text,
            shapes,
            inputs,
            region.outputs,
            block=writer.block,
            grain=max(1024, int(GRAIN / max(1.0, cost / 4))),
            slots=0 if columns else writer.slots,
            room=0 if columns else writer.room,
            support=_support(
                text, (*output_types, *(access.dtype for access in accesses)), bool(picks)
            ),
            flushes=flushes(meanings, region.nodes),
            columns=columns.arranges if columns else (),
            drawn=tuple((pick.value, pick.table, pick.axis) for pick in picks),
        )
    )


def reconfigured(meanings: Meanings, region: Region, chosen: ChosenLoops) -> Kernel:
    """Return the kernel of a region of loops in another configuration."""
    kernel = lower_region(meanings, region, chosen.configuration)
    return replace(kernel, configuration=chosen)


def _support(text: str, dtypes: Iterable[str], picks: bool) -> str:
    """Name the files that conversions of elements, and of indices, are in where there are any."""
    converts = set(dtypes) - FULL or _CONVERSION.search(text)
    return " ".join(["elements.h"] * bool(converts) + ["indexed.h"] * picks)


def _parts(
    meanings: Meanings, region: Region, axes: tuple[int, ...], extents: tuple[Extent, ...]
) -> tuple[list[Cells], list[tuple[int, int | None]]]:
    """Return the region's cells, in parts of the innermost loop where conditions change there."""
    ends: list[int] = []
    while True:
        bounds = _bounds(ends)
        parts = []
        try:
            for first, end in bounds:
                ranges = Ranges(extents, first, end)
                parts.append(Cells(meanings, region, axes, ranges, picks=True))
            return parts, bounds
        except SplitError as error:
            if error.position in ends or len(ends) >= MOST_PARTS:
                raise LoweringError("too many parts of a row") from error
            ends = sorted([*ends, error.position])


def _bounds(ends: list[int]) -> list[tuple[int, int | None]]:
    starts: list[int] = [0, *ends]
    return [(first, end) for first, end in zip(starts, [*ends, None], strict=True)]
