"""Convolutions over blocks of channels as kernels: by minimal filtering (winograd.py), or sliding.

They take the place of ONNX Runtime's own Conv of its blocked layout (optimizer/layouts), with the
bias, the sum and the activation that it has: image and result lie in memory as they did. A tile
whose result isn't finite is computed again, multiplied out, so that what is no number spoils no
neighbour. Groups have one form more, which multiplies out (grouped.py), by any steps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import ceil, prod

import numpy as np

from ....rules import ABSENT
from ...codegen.expressions import LoweringError
from ...graph.graph import TensorType
from ...layouts.runtime import NCHWC, block_size
from ..configurations.convolution_configuration import (
    LEAST_TOGETHER,
    ChosenConvolution,
    ConvolutionConfiguration,
    ConvolutionSizes,
)
from ..grow import RegionKernel
from ..loops.affine import Affine, Extent
from ..loops.kernel_region import Meanings, Region, read_by
from ..loops.loops import Groups
from ..loops.lower import Kernel, Laying, Shapes, check, flushes, named
from .epilogue import bounds_of, end_of
from .filters import Filters, Merged, Outer, Padded
from .grouped import Sliding, check_sliding, sliding_text
from .text import LINE, PANEL, Plan, minimal_text
from .winograd import filtering

# Tiles of outputs by the filter's size: rows and columns of a tile.
TILES = {
    (3, 3): ((2, 2), (4, 4)),
    (5, 5): ((2, 2), (4, 4)),
    (1, 3): ((1, 4),),
    (3, 1): ((4, 1),),
    (1, 7): ((1, 2), (1, 4)),
    (7, 1): ((2, 1), (4, 1)),
}
# What kernels have where nothing was measured.
DEFAULT = ConvolutionConfiguration()
# Filters are transformed in advance up to so many bytes, where so many tiles or more are multiplied
# by them, so that they come from memory meanwhile; where there are fewer, as far as the cache goes.
LAID_OUT_BYTES, LAID_OUT_TILES = 40 << 20, 14
CACHED_BYTES = 2 << 20
# Filters that are 0 on other groups' channels cost as many times the arithmetic.
MOST_MERGED = 8
# Channels whose filters are transformed at a time, otherwise.
PIECE = 32
# How constants are laid out for kernels of convolutions.
Layings = Filters | Merged | Outer | Padded
# Bytes that a task has where it needs none: how many tasks there are depends on them.
LINE_BYTES = 4 * LINE
# Statements that change t as an activation does, by its name; `{0}` and `{1}` are its parameters.
ACTIVATIONS = {
    "Relu": "t = 0.0f > t ? 0.0f : t;",
    "LeakyRelu": "t = t >= 0.0f ? t : t * {0};",
    "Clip": "t = {0} > t ? {0} : t; t = t > {1} ? {1} : t;",
    "HardSigmoid": "t = FMA_32(t, {0}, {1}); t = t > 1.0f ? 1.0f : t; t = 0.0f > t ? 0.0f : t;",
    "Sigmoid": "t = sigmoid_32(t);",
    "Tanh": "t = tanh_32(t);",
}


@dataclass(frozen=True)
class Convolution:
    """A convolution over blocks of channels.

    `nodes` compute it, of `values`: the image, filters, a bias and a summand, ABSENT where there is
    none. `end` are statements that change the result, by elements of `reads`. `own` are the
    channels that a group reads and makes; where these fill no blocks, filters are laid out by
    `before`, and a group of `groups` has several, which make `filled` channels together. It ends in
    `bounds`, where these are None in `end`. `steps` and `dilations` come rows first.
    """

    nodes: tuple[int, ...]
    values: tuple[int, int, int, int]
    output: int
    image: tuple[Extent, ...]
    result: tuple[Extent, ...]
    taps: tuple[int, int]
    pads: tuple[int, int]
    groups: int
    own: tuple[int, int]
    filled: int
    block: int
    end: tuple[str, ...]
    reads: tuple[int, ...] = ()
    flushes: bool = True
    before: Merged | None = None
    bounds: tuple[float, float] | None = None
    steps: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)

    @property
    def may_filter(self) -> bool:
        """Tell whether minimal filtering can compute it."""
        merged = 1 if self.before is None else self.before.merged
        in_tiles = self.taps in TILES and self.own != (1, 1) and merged <= MOST_MERGED
        return in_tiles and self.steps == self.dilations == (1, 1)


# The configurations that a convolution by minimal filtering is tried in besides the default.
Choose = Callable[[ConvolutionSizes], Sequence[ConvolutionConfiguration]]


def no_others(sizes: ConvolutionSizes) -> Sequence[ConvolutionConfiguration]:
    """Choose no configurations."""
    del sizes
    return ()


def convolutions(
    meanings: Meanings, allowed: Collection[int], choose: Choose = no_others
) -> list[RegionKernel]:
    """Find the convolutions that kernels can compute, each in all forms that there are.

    The forms of one convolution, and the configurations of a form that `choose` names, have its
    node in common: they are alternatives.
    """
    found: list[RegionKernel] = []
    for number in meanings.graph.order():
        node = meanings.graph.nodes[number]
        if number not in allowed or node.domain != NCHWC or node.op_type != "Conv":
            continue
        try:
            one = _convolution(meanings, number, allowed)
        except LoweringError:
            continue
        found += forms(meanings, one, choose)
    return found


def forms(meanings: Meanings, one: Convolution, choose: Choose = no_others) -> list[RegionKernel]:
    """Return the kernels of a convolution, for tiles of each size, and of groups multiplied out."""
    found = [_sliding(meanings, one)] if one.own[0] < int(one.image[1]) else []
    made = [*filter(None, found)]
    for tile in TILES[one.taps] if one.may_filter else ():
        made.append(_lowered(meanings, one, tile))
        sizes = sizes_of(one, tile)
        if sizes is not None:
            made += [
                _lowered(meanings, one, tile, ChosenConvolution(configuration, sizes))
                for configuration in choose(sizes)
            ]
    distinct: dict[str, RegionKernel] = {}
    for each in made:
        distinct.setdefault(each.kernel.name, each)
    return list(distinct.values())


def sizes_of(one: Convolution, tile: tuple[int, int]) -> ConvolutionSizes | None:
    """Return the sizes that configurations depend on, None where some are known as it runs."""
    image, result = one.image, one.result
    sizes = (*image[:2], result[1], int(image[1]) // one.groups, *result[2:])
    known = [size for size in sizes if isinstance(size, int)]
    if len(known) < len(sizes):
        return None
    (images, depth, width, own, height, across), (high, wide) = known, one.taps
    return ConvolutionSizes(images, depth, width, own, height, across, high, wide, *tile)


# ------------------------------------------------------------------------------------ matching


def _convolution(meanings: Meanings, number: int, allowed: Collection[int]) -> Convolution:
    graph = meanings.graph
    node, attributes = graph.nodes[number], graph.attributes(number)
    image, weights, (result,) = node.inputs[0], node.inputs[1], node.outputs
    if any(graph.dtype(value) != "float32" for value in (*node.reads, result)):
        raise LoweringError("a convolution of another type")
    given, made, filters = (meanings.shape(value) for value in (image, result, weights))
    if not all(isinstance(size, int) for size in (given[1], made[1], *filters)) or not (
        len(given) == len(made) == len(filters) == 4
    ):
        raise LoweringError("a convolution whose channels aren't known")
    if weights not in graph.constants or 0 in made:
        raise LoweringError("filters that are computed, or no result")
    (m, c, high, wide) = map(int, filters)
    groups = int(attributes.get("group", 1))  # type: ignore[call-overload]
    if c * groups != given[1] or m != made[1] or m % groups:
        raise LoweringError("channels of other numbers than the filters are for")
    values = graph.constants[weights].array()
    if not np.isfinite(values).all():
        raise LoweringError("filters that aren't finite")
    if any(meanings.shape(value) != made for value in node.inputs[3:] if value != ABSENT):
        raise LoweringError("a sum of other sizes")
    bias, summand = (*node.inputs[2:], ABSENT, ABSENT)[:2]
    end = end_of(meanings, number, allowed)
    own = (c, m // groups)
    steps, dilations = (numbers_of(attributes, name, 1) for name in ("strides", "dilations"))
    return Convolution(
        (number, *end.nodes), (image, weights, bias, summand), end.output, given, made,
        (high, wide), pads_of(attributes, given, made, (high, wide), steps, dilations), groups, own,
        m, block_of(m, m) if own == (1, 1) else block_of(m // groups, c),
        (*activation_text(attributes), *end.text), end.reads, flushes(meanings, end.nodes),
        bounds=bounds_of(attributes, end), steps=steps, dilations=dilations,
    )  # fmt: skip


def block_of(m: int, c: int) -> int:
    """Return how many channels a block has, where so many that are made and read fill blocks."""
    block = block_size()
    if block not in (8, 16) or m % block or c % block:
        raise LoweringError("channels that fill no blocks")
    return block


def numbers_of(attributes: dict[str, object], name: str, default: int) -> tuple[int, int]:
    """Return an attribute of two numbers, rows first."""
    given: tuple[int, int] = attributes.get(name) or (default, default)  # type: ignore[assignment]
    return given[0], given[1]


def pads_of(
    attributes: dict[str, object],
    image: tuple[Extent, ...],
    result: tuple[Extent, ...],
    taps: tuple[int, int],
    steps: tuple[int, int] = (1, 1),
    dilations: tuple[int, int] = (1, 1),
) -> tuple[int, int]:
    """Return how many rows and columns of zeros lie before the image.

    Of a size that is known when the model runs, the result must have the same.
    """
    auto = str(attributes.get("auto_pad", "NOTSET"))
    given: tuple[int, ...] = attributes.get("pads") or (0, 0, 0, 0)  # type: ignore[assignment]
    found = []
    for at, (size, wanted) in enumerate(zip(image[2:], result[2:], strict=True)):
        k, step = (taps[at] - 1) * dilations[at] + 1, steps[at]
        if isinstance(size, int) and isinstance(wanted, int):
            missing = (wanted - 1) * step + k - size
        elif size == wanted and step == 1:
            missing = k - 1
        else:
            raise LoweringError("a result of another size, known when the model runs")
        before = max(0, missing) // 2 if auto == "SAME_UPPER" else max(0, missing + 1) // 2
        if auto in ("NOTSET", "VALID"):
            before, after = (int(given[at]), int(given[at + 2])) if auto == "NOTSET" else (0, 0)
            if not missing <= before + after < missing + step:
                raise LoweringError("a result of another size")
        found.append(before)
    return found[0], found[1]


def activation_text(attributes: dict[str, object]) -> tuple[str, ...]:
    """Return the statements that change t as a convolution's activation does."""
    name = attributes.get("activation", "")
    if not name:
        return ()
    if name == "HardSwish":
        return ("const float h = FMA_32(t, 0x1.555556p-3f, 0.5f), g = h > 1.0f ? 1.0f : h;",
                "t *= 0.0f > g ? 0.0f : g;")  # fmt: skip
    if name not in ACTIVATIONS:
        raise LoweringError(f"a convolution with {name}")
    parameters: tuple[float, ...] = attributes.get("activation_params") or ()  # type: ignore[assignment]
    return (ACTIVATIONS[str(name)].format(*(f"{np.float32(p):.9e}f" for p in parameters)),)


# ------------------------------------------------------------------------------------ lowering


def _lowered(
    meanings: Meanings,
    one: Convolution,
    tile: tuple[int, int],
    chosen: ChosenConvolution | None = None,
) -> RegionKernel:
    configuration = DEFAULT if chosen is None else chosen.configuration
    rows, columns = map(filtering, tile, one.taps)
    depth, width = int(one.image[1]), int(one.result[1])
    products = rows.products * columns.products
    sides = [one.result[2], one.result[3]]
    most = max(LEAST_TOGETHER, configuration.block // (products * depth))
    tiles = None  # nobody knows yet, where sizes are free: mostly there are many
    if all(isinstance(side, int) for side in sides):
        tiles = prod(ceil(int(side) / t) for side, t in zip(sides, tile, strict=True))
    least = 1 if tiles is None else min(configuration.run, tiles)
    own = depth // one.groups
    panels = ceil(width // one.groups / PANEL) * one.groups
    laid_out = is_laid_out(4 * products * own * panels * PANEL, tiles)
    if configuration.prepared is not None:
        laid_out = bool(configuration.prepared)
    plan = Plan(
        rows, columns, one.block, depth, width, one.groups, one.own, one.filled,
        (one.image[2], one.image[3]), (one.result[2], one.result[3]), one.pads,
        together=most if tiles is None else ceil(tiles / max(1, ceil(tiles / most), least)),
        piece=0 if laid_out else min(PIECE, own), fetch_next=bool(configuration.fetch_next),
        loop_order=configuration.loop_order,
    )  # fmt: skip
    filters = Filters(one.taps, tile, one.block, one.groups, one.before)
    transformed = ((filters, (panels, products, own, PANEL)),) if laid_out else ()
    inputs, packed, added = _operands(meanings, one, one.before, own, transformed)
    more = range(len(inputs) - len(one.reads), len(inputs))
    text = minimal_text(plan, added[0], added[1], one.end, more)
    units = 1 if tiles is None else ceil(tiles / plan.together) * panels
    extents = (one.image[0], *plan.free, units)
    sides_at = [plan.free.index(side) + 1 if isinstance(side, str) else 0 for side in sides]
    place = (
        Affine(((0, 1),)),
        Affine(),
        *(Affine(((at, 1),)) if at else Affine() for at in sides_at),
    )
    return _region_kernel(
        meanings,
        one,
        (inputs, packed),
        extents,
        place,
        op_type=f"Conv{one.taps[0]}x{one.taps[1]}By{tile[0]}x{tile[1]}",
        text=text,
        room=plan.room,
        support="convolution_blocks.h convolution.h",
        form=f"minimal filtering {tile[0]}x{tile[1]} of {one.taps[0]}x{one.taps[1]}",
        chosen=chosen,
    )


def _sliding(meanings: Meanings, one: Convolution) -> RegionKernel | None:
    """Return the kernel that multiplies groups out; None where blocks or sizes don't allow it."""
    image, result = one.image, one.result
    if not all(isinstance(size, int) for size in (*image[1:], *result[1:])):
        return None
    depth, high, wide = map(int, image[1:])
    plan = Sliding(
        one.block, one.own, depth, int(result[1]), (high, wide), (int(result[2]), int(result[3])),
        one.taps, one.steps, one.dilations, one.pads, is_dense=one.before is None,
    )  # fmt: skip
    try:
        check_sliding(plan)
    except LoweringError:
        return None
    outer = None if one.before is None else Outer(one.block)
    inputs, packed, added = _operands(meanings, one, outer, one.own[0])
    more = range(len(inputs) - len(one.reads), len(inputs))
    text = sliding_text(plan, added[0], added[1], one.bounds, one.end, more)
    place = (Affine(((0, 1),)), Affine(), Affine(), Affine())
    return _region_kernel(
        meanings,
        one,
        (inputs, packed),
        (image[0], plan.units),
        place,
        op_type=f"ConvApart{one.taps[0]}x{one.taps[1]}",
        text=text,
        room=LINE_BYTES,
        support="convolution_blocks.h convolution_apart.h",
        form="groups multiplied out",
    )


def _operands(
    meanings: Meanings,
    one: Convolution,
    before: Merged | Outer | None,
    depth: int,
    transformed: Sequence[tuple[Filters, tuple[int, ...]]] = (),
) -> tuple[list[int], list[tuple[int, int, Laying]], list[int]]:
    """Return a kernel's inputs, those laid out, and the numbers of bias and summand, -1 for none.

    These are the image, filters of `depth` channels, laid out by `before` where that is given, the
    same `transformed`, bias and summand, and what the end reads.
    """
    image, weights, bias, summand = one.values
    width = int(one.result[1])
    inputs = [image, weights]
    packed: list[tuple[int, int, Laying]] = []
    if before is not None:
        inputs[1] = _laid_out(meanings, weights, before, (width, depth, *one.taps))
        packed.append((inputs[1], weights, before))
    for how, shape in transformed:
        inputs.append(_laid_out(meanings, weights, how, shape))
        packed.append((inputs[-1], weights, how))
    if one.filled < width and bias != ABSENT:
        padded = Padded(width)
        laid = _laid_out(meanings, bias, padded, (width,))
        packed.append((laid, bias, padded))
        bias = laid
    added = [-1, -1]
    for at, value in enumerate((bias, summand)):
        if value != ABSENT:
            added[at] = len(inputs)
            inputs.append(value)
    return [*inputs, *one.reads], packed, added


def _region_kernel(
    meanings: Meanings,
    one: Convolution,
    operands: tuple[Sequence[int], Sequence[tuple[int, int, Laying]]],
    extents: tuple[Extent, ...],
    place: tuple[Affine, ...],
    *,
    op_type: str,
    text: str,
    room: int,
    support: str,
    form: str,
    chosen: ChosenConvolution | None = None,
) -> RegionKernel:
    """Return a convolution with a kernel of one form, which loops over `extents`.

    `operands` are its inputs, and those that are laid out; `place` is where its result goes.
    """
    graph, (inputs, packed) = meanings.graph, operands
    shapes = Shapes(
        tuple((graph.dtype(v) or "float32", meanings.shape(v)) for v in inputs),
        (),
        extents,
        Groups(tuple(range(len(extents)))),
        ((one.result, place),),
    )
    check(shapes)
    kernel = Kernel(
        "",
        op_type,
        text,
        shapes,
        tuple(inputs),
        (one.output,),
        block=1,
        grain=1,
        room=room,
        arrange="arrange_convolution",
        support=support,
        flushes=one.flushes,
        packed=tuple(packed),
        form=form,
        configuration=chosen,
    )
    read = read_by(graph, one.nodes)
    region = Region(one.nodes, read, (one.output,), one.result, sort="convolution")
    return RegionKernel(region, named(kernel))


def is_laid_out(size_bytes: int, tiles: int | None) -> bool:
    """Tell whether filters are transformed in advance."""
    has_many = tiles is None or tiles >= LAID_OUT_TILES
    return size_bytes <= (LAID_OUT_BYTES if has_many else CACHED_BYTES)


def _laid_out(meanings: Meanings, weights: int, how: Layings, shape: tuple[int, ...]) -> int:
    """Return the value that filters are when they are laid out, one for each way."""
    key = (weights, how)
    if key not in meanings.packed:
        graph = meanings.graph
        name = graph.names[weights]
        if isinstance(how, Filters):
            name = f"{name}.{how.tile[0]}x{how.tile[1]}"
        meanings.packed[key] = graph.new_value(name, TensorType("float32", shape))
    return meanings.packed[key]
