"""From a region to its kernel: the text of a function, and the tables that say how it is called."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from ...codegen.expressions import LoweringError
from ...graph.graph import TensorType
from ..configurations.attention_configuration import ChosenAttention
from ..configurations.convolution_configuration import ChosenConvolution
from ..configurations.loop_configuration import (
    CellConfiguration,
    ChosenLoops,
    ColumnConfiguration,
    LoopConfiguration,
    RowConfiguration,
)
from ..configurations.pair_configuration import ChosenPair
from ..configurations.product_configuration import Chosen
from .affine import Extent, Map, Ranges, SplitError
from .cells import Access, Cells
from .column_text import ColumnWriter
from .elements import FULL, HALVES
from .kernel_region import Meanings, Region
from .loops import Groups, inner_step, merged
from .row_text import Writer

# As many as the tables of call.h have room for.
MOST_OPERANDS, MOST_LOOPS, MOST_AXES, MOST_ACCESSES = 24, 8, 8, 40
MOST_PARTS = 8
# Cells that make a task worth its dispatch, where a cell costs as much as a load.
GRAIN = 16384.0
# Operators that tell subnormal numbers from zero, or make large ones of them.
MAGNIFYING = frozenset(
    {
        "Log",
        "Sqrt",
        "Reciprocal",
        "Div",
        "QuantizeLinear",
        "Pow",
        "Sign",
        "Mod",
        "Asin",
        "Atanh",
        "Sinh",
        "Tan",
    }
    | {"Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"}
    | {"LpNormalization", "ReduceLogSum", "ReduceLogSumExp", "ReduceL2"}
)
# A number by which dividing doesn't count as that.
LEAST_DIVISOR = 1e-3
# Functions that are shorter where subnormal numbers don't count (brief.h).
_CONVERSION = re.compile(r"\b(rounded_b?float16|saturated)_32\(")
_BRIEF = re.compile(r"\b(exp|exp_below|sigmoid|tanh|softplus|erf)_32\(")


ChosenConfiguration = Chosen | ChosenConvolution | ChosenAttention | ChosenLoops | ChosenPair


@dataclass(frozen=True)
class Shapes:
    """How operands are checked and read: what operators.h asks for, as tuples.

    `inputs` are (element type, shape) of the operands; `accesses` (operand, place) of what is
    read; `extents` the loops before they are merged; `outputs` the shape of each output and which
    loop each of its axes is; `made` the outputs' element types, float32 where it is empty. The
    last loops, `picked` of them, are none: they stand for indices that are read.
    """

    inputs: tuple[tuple[str, tuple[Extent, ...]], ...]
    accesses: tuple[tuple[int, Map], ...]
    extents: tuple[Extent, ...]
    groups: Groups
    outputs: tuple[tuple[tuple[Extent, ...], Map], ...]
    made: tuple[str, ...] = ()
    picked: int = 0


class Laying(Protocol):
    """How a constant is laid out before a model runs."""

    def lay(self, array: np.ndarray) -> np.ndarray:
        """Return the constant as a kernel reads it."""


@dataclass(frozen=True)
class Kernel:
    """A kernel's text and tables, and the values of the graph that it is called with.

    `label` names the operators that it computes. Equal kernels have equal names. `support` names
    files of C that the text needs, with spaces between, `arrange` a function that says how the work
    is divided, and `columns` what that, or arrange_columns, has to know. `skips` says that work is
    left out where a mask allows it. `packed` are inputs that constants become when they are laid
    out for it: (input, constant, how). `form` says how it computes, where there are several ways,
    `configuration` how its loops are tiled, None by default.
    `turned` are images that it reads or gives with their channels last: (image, operand). `drawn`
    are inputs that are indices: (indices, what they index, along which axis). `is_exact` says that
    its results are the runtime's to the bit: sums of integers, what is looked up, and steps that
    are each rounded as there.
    """

    name: str
    label: str
    text: str
    shapes: Shapes
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    block: int = 0
    grain: int = int(GRAIN)
    slots: int = 0
    room: int = 0
    flushes: bool = True
    arrange: str = ""
    columns: tuple[int, ...] = ()
    support: str = ""
    skips: bool = False
    packed: tuple[tuple[int, int, Laying], ...] = ()
    form: str = ""
    configuration: ChosenConfiguration | None = None
    turned: tuple[tuple[int, int], ...] = ()
    drawn: tuple[tuple[int, int, int], ...] = ()
    is_exact: bool = False

    @property
    def digest(self) -> int:
        """What tells it from others, as its name does."""
        return int(self.name.rsplit("_", 1)[1], 16)


def extents_under(kernel: Kernel, types: Mapping[int, TensorType]) -> tuple[int, ...] | None:
    """Return the extents of a kernel's loops where its operands have types; None if not known."""
    sizes: dict[str, int] = {}
    for value, (_, shape) in zip(kernel.inputs, kernel.shapes.inputs, strict=True):
        known = types[value].shape if value in types else None
        for name, size in zip(shape, known or (), strict=False):
            if isinstance(name, str) and isinstance(size, int):
                sizes[name] = size
    extents = [
        extent if isinstance(extent, int) else sizes.get(extent, 0)
        for extent in kernel.shapes.extents
    ]
    return tuple(extents) if all(extents) else None


def lower_region(
    meanings: Meanings, region: Region, configuration: LoopConfiguration | None = None
) -> Kernel:
    """Return the kernel of a region; raise LoweringError with why there is none.

    A `configuration` is for one that reduces along rows, over columns, or nothing; of another it
    makes no difference.
    """
    axes = tuple(axis for axis, size in enumerate(region.space) if size != 1)
    if not axes or len(axes) > MOST_LOOPS or len(region.space) > MOST_AXES:
        raise LoweringError("no loops, or too many")
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
    if len(extents) + len(picks) > MOST_LOOPS:
        raise LoweringError("too many indices that are read")
    if max(len(inputs), len(outputs)) > MOST_OPERANDS or (
        len(accesses) + len(picks) > MOST_ACCESSES
    ):
        raise LoweringError("too many operands")
    reduced = parts[0].inner if region.reduced else frozenset()
    places = [(access.map, meanings.shape(access.value)) for access in (*accesses, *read)]
    places += [(place, shape) for shape, place in outputs]
    groups = merged(extents, reduced, places)
    inner = groups.loops(groups.count - 1)
    steps = [inner_step(access.map, meanings.shape(access.value), inner) for access in accesses]
    output_types = tuple(meanings.graph.dtype(value) or "" for value in region.outputs)
    what = ("NAME", parts, bounds, accesses, inputs, steps, groups, extents, output_types)
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
        columns = ColumnWriter(*what, reduced=groups.of[min(reduced)])
        columns.column_configuration = column
    writer = columns or Writer(
        *what, row_configuration=row, cell_configuration=cell, picks=tuple(picks)
    )
    text = writer.text()
    shapes = shapes_of(
        meanings,
        inputs,
        (*extents, *(pick.size for pick in picks)),
        outputs,
        accesses=(*accesses, *read),
        groups=Groups((*groups.of, *range(groups.count, groups.count + len(picks)))),
        made=output_types,
        picked=len(picks),
    )
    cost = sum(part.cells[output].cost for part in parts for output in part.outputs) / len(parts)
    operators = [meanings.graph.nodes[number].op_type for number in region.nodes]
    return named(
        Kernel(
            "",
            label(operators),
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


def flushes(meanings: Meanings, nodes: Iterable[int]) -> bool:
    """Tell whether nodes have no use for subnormal numbers, so that these may count as zero."""
    for number in nodes:
        node = meanings.graph.nodes[number]
        if node.op_type not in MAGNIFYING:
            continue
        second = meanings.scalar(node.inputs[1]) if len(node.inputs) > 1 else None
        divides = (
            node.op_type in ("Div", "QuantizeLinear")
            and second is not None
            and abs(second) >= LEAST_DIVISOR
        )
        grows = node.op_type == "Pow" and second is not None and second >= 1
        if not divides and not grows:
            return False
    return True


def label(operators: list[str]) -> str:
    """Name a kernel by its operators, as far as that is readable."""
    text = "".join(operators[:6])
    return text if len(operators) <= 6 else f"{text}{len(operators) - 6}More"


def named(kernel: Kernel) -> Kernel:
    """Name a kernel by what it is: equal ones have one text in a library."""
    kernel = replace(kernel, shapes=_renamed(kernel.shapes))
    if kernel.flushes:
        kernel = replace(kernel, text=_BRIEF.sub(r"brief_\1_32(", kernel.text))
    told = (kernel.text, kernel.shapes, kernel.block, kernel.grain, kernel.slots, kernel.room)
    how = (kernel.flushes, kernel.arrange, *kernel.columns)
    digest = hashlib.sha256(repr((*told, *how)).encode()).hexdigest()[:12]
    name = f"{kernel.label}_{digest}"
    return replace(kernel, name=name, text=kernel.text.replace("NAME", f"run_{name}"))


def _renamed(shapes: Shapes) -> Shapes:
    """Number the dimensions that are known at run time: their names differ from layer to layer."""
    names: dict[str, str] = {}

    def new(size: Extent) -> Extent:
        return size if isinstance(size, int) else names.setdefault(size, f"n{len(names)}")

    return replace(
        shapes,
        inputs=tuple((dtype, tuple(map(new, shape))) for dtype, shape in shapes.inputs),
        extents=tuple(map(new, shapes.extents)),
        outputs=tuple((tuple(map(new, shape)), place) for shape, place in shapes.outputs),
    )


def shapes_of(
    meanings: Meanings,
    inputs: Sequence[int],
    extents: tuple[Extent, ...],
    outputs: tuple[tuple[tuple[Extent, ...], Map], ...],
    *,
    accesses: Iterable[Access] = (),
    groups: Groups | None = None,
    made: tuple[str, ...] = (),
    picked: int = 0,
) -> Shapes:
    """Return how operands are checked and read; `groups` are loops one by one unless given.

    `accesses` are to operands among `inputs`. Raises LoweringError where a
    size isn't known when it runs.
    """
    shapes = Shapes(
        tuple((meanings.graph.dtype(value) or "", meanings.shape(value)) for value in inputs),
        tuple((inputs.index(access.value), access.map) for access in accesses),
        extents,
        Groups(tuple(range(len(extents)))) if groups is None else groups,
        outputs,
        made,
        picked,
    )
    _check(shapes)
    return shapes


def _check(shapes: Shapes) -> None:
    """Raise LoweringError where a loop's extent, or an operand's, isn't known when it runs."""
    given = {size for _, shape in shapes.inputs for size in shape}
    if any(isinstance(extent, str) and extent not in given for extent in shapes.extents):
        raise LoweringError("a loop whose extent no operand tells")
    for size in given:
        if isinstance(size, str) and size not in shapes.extents:
            raise LoweringError("an operand with an axis of unknown size that is no loop")


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
            if error.at in ends or len(ends) >= MOST_PARTS:
                raise LoweringError("too many parts of a row") from error
            ends = sorted([*ends, error.at])


def _bounds(ends: list[int]) -> list[tuple[int, int | None]]:
    starts: list[int] = [0, *ends]
    return [(first, end) for first, end in zip(starts, [*ends, None], strict=True)]
