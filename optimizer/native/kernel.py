"""What a kernel is: its text, the tables that say how it is called, and the region that it is for.

Each kind of kernel is lowered in a folder of its own. What all of them need is here: operands are
checked and read as `shapes_of` says, or refused there; `region_kernel` names the result, so that
equal ones are compiled once; `disjoint_kernels` looks for them in a graph. A LoweringError says why
there is none: whoever looks for kernels goes on with what is left.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeVar

from ..codegen.expressions import LoweringError
from ..graph.graph import Graph, TensorType
from .configurations.chosen import Chosen
from .loops.affine import Extent, Map
from .loops.cells import Access
from .loops.kernel_region import LaidOut, Meanings, Region, read_by
from .loops.merged_loops import Groups

# As many as the tables of call.h have room for.
MOST_OPERANDS, MOST_LOOPS, MOST_AXES, MOST_ACCESSES = 24, 8, 8, 40
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
_BRIEF = re.compile(r"\b(exp|exp_below|sigmoid|tanh|softplus|erf)_32\(")


@dataclass(frozen=True)
class Shapes:
    """How operands are checked and read: what operators.h asks for, as tuples.

    `inputs` are (element type, shape) of the operands; `accesses` (operand, place) of what is
    read; `extents` the loops before they are merged; `outputs` the shape of each output and which
    loop each of its axes is; `output_types` their element types, float32 where it is empty. The
    last loops, `picked` of them, are none: they stand for indices that are read.
    """

    inputs: tuple[tuple[str, tuple[Extent, ...]], ...]
    accesses: tuple[tuple[int, Map], ...]
    extents: tuple[Extent, ...]
    groups: Groups
    outputs: tuple[tuple[tuple[Extent, ...], Map], ...]
    output_types: tuple[str, ...] = ()
    picked: int = 0


@dataclass(frozen=True)
class Kernel:
    """A kernel's text and tables, and the values of the graph that it is called with.

    `label` names the operators that it computes; the `name` begins with it, and equal kernels have
    equal names. In the text, NAME stands for that of its function. `support` names
    files of C that the text needs, with spaces between, `arrange` a function that says how the work
    is divided, and `columns` what that, or arrange_columns, has to know. `skips` says that work is
    left out where a mask allows it. `packed` are inputs that constants become when they are laid
    out for it. `form` says how it computes, where there are several ways,
    `configuration` how its loops are tiled, None by default.
    `turned` are images that it reads or gives with their channels last: (image, operand). `drawn`
    are inputs that are indices: (indices, what they index, along which axis). `is_exact` says that
    its results are the runtime's to the bit: sums of integers, what is looked up, and steps that
    are each rounded as there.
    """

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
    packed: tuple[LaidOut, ...] = ()
    form: str = ""
    configuration: Chosen[Any, Any] | None = None
    turned: tuple[tuple[int, int], ...] = ()
    drawn: tuple[tuple[int, int, int], ...] = ()
    is_exact: bool = False
    name: str = ""

    @property
    def digest(self) -> int:
        """What tells it from others, as its name does."""
        return int(self.name.rsplit("_", 1)[1], 16)


@dataclass(frozen=True)
class RegionKernel:
    """A region and its kernel."""

    region: Region
    kernel: Kernel


def region_kernel(
    meanings: Meanings,
    nodes: tuple[int, ...],
    kernel: Kernel,
    sort: str,
    *,
    outputs: tuple[int, ...] | None = None,
    space: tuple[Extent, ...] | None = None,
    reduced: int = 0,
) -> RegionKernel:
    """Return a kernel, named, with the region of the `nodes` that it is for.

    The region's outputs are the kernel's unless others are given, its space the shape of the first
    of them; `reduced` is that of Region.
    """
    outputs = kernel.outputs if outputs is None else outputs
    space = meanings.shape(outputs[0]) if space is None else space
    region = Region(nodes, read_by(meanings.graph, nodes), outputs, space, reduced, sort=sort)
    return RegionKernel(region, named(kernel))


class _Match(Protocol):
    """What a kernel computes as a whole."""

    @property
    def nodes(self) -> Collection[int]: ...


Match = TypeVar("Match", bound=_Match)
Attempts = Callable[[int, set[int]], Iterable[Callable[[], RegionKernel]]]
"""What may be lowered from a node on, of those that are free: the first that can be is chosen."""


def disjoint_kernels(
    numbers: Iterable[int], allowed: Collection[int], attempts: Attempts
) -> list[RegionKernel]:
    """Find kernels of `allowed` nodes, no two with a common one, from each of some nodes on."""
    free, taken = set(allowed), set[int]()
    kernels: list[RegionKernel] = []
    for number in numbers:
        lowered = _first_lowered(attempts(number, free), taken) if number in free else None
        if lowered is not None:
            taken.update(lowered.region.nodes)
            free -= taken
            kernels.append(lowered)
    return kernels


def whole_kernels(
    matches: Mapping[int, Match], allowed: Collection[int], lower: Callable[[Match], RegionKernel]
) -> list[RegionKernel]:
    """Find kernels of matches of which all nodes are `allowed`, no two with a common one."""

    def attempts(number: int, free: set[int]) -> Iterator[Callable[[], RegionKernel]]:
        if free.issuperset(matches[number].nodes):
            yield partial(lower, matches[number])

    return disjoint_kernels(matches, allowed, attempts)


def _first_lowered(
    attempts: Iterable[Callable[[], RegionKernel]], taken: Collection[int]
) -> RegionKernel | None:
    """Return the first kernel that there is, without nodes that are taken.

    A LoweringError while attempts are made, and not by one of them, ends all.
    """
    with suppress(LoweringError):
        for attempt in attempts:
            with suppress(LoweringError):
                lowered = attempt()
                if set(taken).isdisjoint(lowered.region.nodes):
                    return lowered
    return None


def supply(graph: Graph, kernels: Iterable[Kernel]) -> None:
    """Lay out the constants that kernels read, as constants of the graph; each of them once."""
    for kernel in kernels:
        for value, source, how in kernel.packed:
            if value not in graph.constants:
                array = graph.constants[source].array()
                graph.set_constant(value, graph.shelve(how.lay(array)))


def extents_under(kernel: Kernel, types: Mapping[int, TensorType]) -> tuple[int, ...] | None:
    """Return the extents of a kernel's loops where its operands have types; None if not known."""
    sizes: dict[str, int] = {}
    for value, (_, shape) in zip(kernel.inputs, kernel.shapes.inputs, strict=True):
        operand_shape = types[value].shape if value in types else None
        for name, size in zip(shape, operand_shape or (), strict=False):
            if isinstance(name, str) and isinstance(size, int):
                sizes[name] = size
    extents = [
        extent if isinstance(extent, int) else sizes.get(extent, 0)
        for extent in kernel.shapes.extents
    ]
    return tuple(extents) if all(extents) else None


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


def label_of(meanings: Meanings, nodes: Iterable[int]) -> str:
    """Name a kernel by the operators of nodes, as far as that is readable."""
    return label([meanings.graph.nodes[number].op_type for number in nodes])


def label(operators: Sequence[str]) -> str:
    """Name a kernel by its operators, as far as that is readable."""
    text = "".join(operators[:6])
    return text if len(operators) <= 6 else f"{text}{len(operators) - 6}More"


def named(kernel: Kernel) -> Kernel:
    """Name a kernel by what it is: equal ones have one text in a library."""
    kernel = replace(kernel, shapes=_renamed(kernel.shapes))
    if kernel.flushes:
        kernel = replace(kernel, text=_BRIEF.sub(r"brief_\1_32(", kernel.text))
    parts = (kernel.text, kernel.shapes, kernel.block, kernel.grain, kernel.slots, kernel.room)
    how = (kernel.flushes, kernel.arrange, *kernel.columns)
    digest = hashlib.sha256(repr((*parts, *how)).encode()).hexdigest()[:12]
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
    outputs: Sequence[tuple[tuple[Extent, ...], Map]],
    *,
    accesses: Iterable[Access] = (),
    groups: Groups | None = None,
    output_types: tuple[str, ...] = (),
    picked: int = 0,
) -> Shapes:
    """Return how operands are checked and read; `groups` are loops one by one unless given.

    `accesses` are to operands among `inputs`. Raises LoweringError where a size isn't known when it
    runs, and where call.h has no room for as many operands, axes or loops.
    """
    shapes = Shapes(
        tuple((meanings.graph.dtype(value) or "", meanings.shape(value)) for value in inputs),
        tuple((inputs.index(access.value), access.map) for access in accesses),
        extents,
        Groups(tuple(range(len(extents)))) if groups is None else groups,
        tuple(outputs),
        output_types,
        picked,
    )
    _check(shapes)
    return shapes


def _check(shapes: Shapes) -> None:
    """Raise LoweringError where tables of these shapes have no room, or sizes no source."""
    operands = [shape for _, shape in shapes.inputs]
    results = [shape for shape, _ in shapes.outputs]
    if len(shapes.extents) > MOST_LOOPS or any(len(s) > MOST_AXES for s in (*operands, *results)):
        raise LoweringError("too many loops, or axes")
    most_operands = max(len(operands), len(results))
    if most_operands > MOST_OPERANDS or len(shapes.accesses) > MOST_ACCESSES:
        raise LoweringError("too many operands")
    operand_sizes = {size for shape in operands for size in shape}
    if any(isinstance(extent, str) and extent not in operand_sizes for extent in shapes.extents):
        raise LoweringError("a loop whose extent no operand tells")
    for size in operand_sizes:
        if isinstance(size, str) and size not in shapes.extents:
            raise LoweringError("an operand with an axis of unknown size that is no loop")
