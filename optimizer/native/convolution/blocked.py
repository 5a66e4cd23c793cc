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
from ...codegen.expressions import LoweringError, literal
from ...graph.graph import Graph
from ...layouts.runtime import block_size
from ..configurations.chosen import no_others
from ..configurations.convolution_configuration import (
    LEAST_TOGETHER,
    ChosenConvolution,
    ConvolutionConfiguration,
    ConvolutionSizes,
)
from ..kernel import Kernel, RegionKernel, flushes, region_kernel, shapes_of
from ..loops.affine import Affine, Extent
from ..loops.kernel_region import LaidOut, Laying, Meanings
from ..regions.region_candidates import candidates
from .epilogue import bounds_of, end_of
from .filters import Filters, Merged, Outer, Padded
from .grouped import Sliding, check_sliding, sliding_text
from .winograd import filtering
from .winograd_text import LINE, PANEL, Plan, minimal_text

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
    none. `end` are statements that change the result, by elements of `reads`. `group_channels` are
    the channels that a group reads and makes; where these fill no blocks, filters are laid out by
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
    group_channels: tuple[int, int]
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
        in_tiles = self.taps in TILES and self.group_channels != (1, 1) and merged <= MOST_MERGED
        return in_tiles and self.steps == self.dilations == (1, 1)


# The configurations that a convolution by minimal filtering is tried in besides the default.
Choose = Callable[[ConvolutionSizes], Sequence[ConvolutionConfiguration]]


def convolutions(
    meanings: Meanings, allowed: Collection[int], choose: Choose = no_others
) -> list[RegionKernel]:
    """Find the convolutions that kernels can compute, each in all forms that there are.

    The forms of one convolution, and the configurations of a form that `choose` names, have its
    node in common: they are alternatives.
    """
    kernels: list[RegionKernel] = []
    legal = candidates(meanings).convolutions
    for number in meanings.order:
        if number not in allowed or number not in legal:
            continue
        try:
            convolution = _convolution(meanings, number, allowed)
        except LoweringError:
            continue
        kernels += forms(meanings, convolution, choose)
    return kernels


def forms(
    meanings: Meanings, convolution: Convolution, choose: Choose = no_others
) -> list[RegionKernel]:
    """Return the kernels of a convolution, for tiles of each size, and of groups multiplied out."""
    kernels: list[RegionKernel] = []
    if convolution.group_channels[0] < int(convolution.image[1]):
        kernels += filter(None, [_sliding(meanings, convolution)])
    for tile in TILES[convolution.taps] if convolution.may_filter else ():
        kernels.append(_lowered(meanings, convolution, tile))
        sizes = sizes_of(convolution, tile)
        if sizes is not None:
            kernels += [
                _lowered(meanings, convolution, tile, ChosenConvolution(configuration, sizes))
                for configuration in choose(sizes)
            ]
    distinct: dict[str, RegionKernel] = {}
    for kernel in kernels:
        distinct.setdefault(kernel.kernel.name, kernel)
    return list(distinct.values())


def sizes_of(convolution: Convolution, tile: tuple[int, int]) -> ConvolutionSizes | None:
    """Return the sizes that configurations depend on, None where some are known as it runs."""
    image, result = convolution.image, convolution.result
    sizes = (*image[:2], result[1], int(image[1]) // convolution.groups, *result[2:])
    integers = [size for size in sizes if isinstance(size, int)]
    if len(integers) < len(sizes):
        return None
    (images, depth, width, group_depth, height, across), (high, wide) = integers, convolution.taps
    return ConvolutionSizes(images, depth, width, group_depth, height, across, high, wide, *tile)


# ------------------------------------------------------------------------------------ matching


def _convolution(meanings: Meanings, number: int, allowed: Collection[int]) -> Convolution:
    """Return one of those that blocked_convolutions.dl derives, with what it ends in."""
    graph = meanings.graph
    node, attributes = graph.nodes[number], graph.attributes(number)
    image, weights, (result,) = node.inputs[0], node.inputs[1], node.outputs
    image_shape, result_shape, filters = (
        meanings.shape(value) for value in (image, result, weights)
    )
    (m, c, high, wide) = map(int, filters)
    groups = int(attributes.get("group", 1))  # type: ignore[call-overload]
    bias, summand = (*node.inputs[2:], ABSENT, ABSENT)[:2]
    end = end_of(meanings, number, allowed)
    steps, dilations = (numbers_of(attributes, name) for name in ("strides", "dilations"))
    return Convolution(
        (number, *end.nodes), (image, weights, bias, summand), end.output,
        image_shape, result_shape, (high, wide),
        pads_of(attributes, image_shape, result_shape, (high, wide), steps, dilations),
        groups, (c, m // groups),
        m, block_of(m, m) if c == m // groups == 1 else block_of(m // groups, c),
        (*activation_text(attributes), *end.text), end.reads, flushes(meanings, end.nodes),
        bounds=bounds_of(attributes, end), steps=steps, dilations=dilations,
    )  # fmt: skip


def check_filters(graph: Graph, value: int) -> None:
    """Raise LoweringError where filters aren't constants of finite numbers."""
    constant = graph.constants.get(value)
    if constant is None or not np.isfinite(constant.array()).all():
        raise LoweringError("filters that are computed, or aren't finite")


def block_of(m: int, c: int) -> int:
    """Return how many channels a block has, where so many that are made and read fill blocks."""
    block = block_size()
    if block not in (8, 16) or m % block or c % block:
        raise LoweringError("channels that fill no blocks")
    return block


def numbers_of(attributes: dict[str, object], name: str) -> tuple[int, int]:
    """Return an attribute of two numbers, rows first; ones where it isn't given."""
    numbers: tuple[int, int] = attributes.get(name) or (1, 1)  # type: ignore[assignment]
    return numbers[0], numbers[1]


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
    pads: tuple[int, ...] = attributes.get("pads") or (0, 0, 0, 0)  # type: ignore[assignment]
    padding = []
    for axis, (size, wanted) in enumerate(zip(image[2:], result[2:], strict=True)):
        k, step = (taps[axis] - 1) * dilations[axis] + 1, steps[axis]
        if isinstance(size, int) and isinstance(wanted, int):
            missing = (wanted - 1) * step + k - size
        elif size == wanted and step == 1:
            missing = k - 1
        else:
            raise LoweringError("a result of another size, known when the model runs")
        before = max(0, missing) // 2 if auto == "SAME_UPPER" else max(0, missing + 1) // 2
        if auto in ("NOTSET", "VALID"):
            before, after = (int(pads[axis]), int(pads[axis + 2])) if auto == "NOTSET" else (0, 0)
            if not missing <= before + after < missing + step:
                raise LoweringError("a result of another size")
        padding.append(before)
    return padding[0], padding[1]


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
    return (ACTIVATIONS[str(name)].format(*(literal(float(np.float32(p))) for p in parameters)),)


# ------------------------------------------------------------------------------------ lowering


def _lowered(
    meanings: Meanings,
    convolution: Convolution,
    tile: tuple[int, int],
    chosen: ChosenConvolution | None = None,
) -> RegionKernel:
    configuration = DEFAULT if chosen is None else chosen.configuration
    rows, columns = map(filtering, tile, convolution.taps)
    depth, width = int(convolution.image[1]), int(convolution.result[1])
    products = rows.products * columns.products
    sides = [convolution.result[2], convolution.result[3]]
    most = max(LEAST_TOGETHER, configuration.block // (products * depth))
    tiles = None  # nobody knows yet, where sizes are free: mostly there are many
    if all(isinstance(side, int) for side in sides):
        tiles = prod(ceil(int(side) / t) for side, t in zip(sides, tile, strict=True))
    least = 1 if tiles is None else min(configuration.run, tiles)
    group_depth = depth // convolution.groups
    panels = ceil(width // convolution.groups / PANEL) * convolution.groups
    laid_out = is_laid_out(4 * products * group_depth * panels * PANEL, tiles)
    if configuration.prepared is not None:
        laid_out = bool(configuration.prepared)
    plan = Plan(
        rows,
        columns,
        block=convolution.block,
        depth=depth,
        width=width,
        groups=convolution.groups,
        group_channels=convolution.group_channels,
        filled=convolution.filled,
        image=(convolution.image[2], convolution.image[3]),
        result=(convolution.result[2], convolution.result[3]),
        pads=convolution.pads,
        together=most if tiles is None else ceil(tiles / max(1, ceil(tiles / most), least)),
        piece=0 if laid_out else min(PIECE, group_depth),
        fetch_next=bool(configuration.fetch_next),
        loop_order=configuration.loop_order,
    )
    filters = Filters(
        convolution.taps, tile, convolution.block, convolution.groups, convolution.before
    )
    inputs, packed, added = _operands(
        meanings, convolution, convolution.before, filters if laid_out else None
    )
    down, across = convolution.taps
    more = range(len(inputs) - len(convolution.reads), len(inputs))
    text = minimal_text(plan, added[0], added[1], convolution.end, more)
    units = 1 if tiles is None else ceil(tiles / plan.together) * panels
    extents = (convolution.image[0], *plan.free, units)
    sides_at = [plan.free.index(side) + 1 if isinstance(side, str) else 0 for side in sides]
    place = (
        Affine(((0, 1),)),
        Affine(),
        *(Affine(((number, 1),)) if number else Affine() for number in sides_at),
    )
    return _of_form(
        meanings,
        convolution,
        (inputs, packed),
        extents,
        place,
        op_type=f"Conv{down}x{across}By{tile[0]}x{tile[1]}",
        text=text,
        room=plan.room,
        support="convolution_blocks.h convolution.h",
        form=f"minimal filtering {tile[0]}x{tile[1]} of {down}x{across}",
        chosen=chosen,
    )


def _sliding(meanings: Meanings, convolution: Convolution) -> RegionKernel | None:
    """Return the kernel that multiplies groups out; None where blocks or sizes don't allow it."""
    image, result = convolution.image, convolution.result
    if not all(isinstance(size, int) for size in (*image[1:], *result[1:])):
        return None
    depth, high, wide = map(int, image[1:])
    plan = Sliding(
        block=convolution.block,
        group_channels=convolution.group_channels,
        depth=depth,
        width=int(result[1]),
        image=(high, wide),
        result=(int(result[2]), int(result[3])),
        taps=convolution.taps,
        steps=convolution.steps,
        dilations=convolution.dilations,
        pads=convolution.pads,
        is_dense=convolution.before is None,
    )
    try:
        check_sliding(plan)
    except LoweringError:
        return None
    outer = None if convolution.before is None else Outer(convolution.block)
    inputs, packed, added = _operands(meanings, convolution, outer)
    more = range(len(inputs) - len(convolution.reads), len(inputs))
    text = sliding_text(plan, added[0], added[1], convolution.bounds, convolution.end, more)
    place = (Affine(((0, 1),)), Affine(), Affine(), Affine())
    return _of_form(
        meanings,
        convolution,
        (inputs, packed),
        (image[0], plan.units),
        place,
        op_type=f"ConvApart{convolution.taps[0]}x{convolution.taps[1]}",
        text=text,
        room=LINE_BYTES,
        support="convolution_blocks.h convolution_apart.h",
        form="groups multiplied out",
    )


def _operands(
    meanings: Meanings,
    convolution: Convolution,
    before: Laying | None,
    transformed: Laying | None = None,
) -> tuple[list[int], list[LaidOut], list[int]]:
    """Return a kernel's inputs, those laid out, and the numbers of bias and summand, -1 for none.

    These are the image, filters, laid out by `before` where that is given, the same `transformed`,
    bias and summand, and what the end reads.
    """
    image, weights, bias, summand = convolution.values
    width = int(convolution.result[1])
    inputs = [image, weights]
    packed: list[LaidOut] = []
    if before is not None:
        packed.append(meanings.laid_out(weights, before))
        inputs[1] = packed[-1].value
    if transformed is not None:
        packed.append(meanings.laid_out(weights, transformed))
        inputs.append(packed[-1].value)
    if convolution.filled < width and bias != ABSENT:
        packed.append(meanings.laid_out(bias, Padded(width)))
        bias = packed[-1].value
    added = [-1, -1]
    for position, value in enumerate((bias, summand)):
        if value != ABSENT:
            added[position] = len(inputs)
            inputs.append(value)
    return [*inputs, *convolution.reads], packed, added


def _of_form(
    meanings: Meanings,
    convolution: Convolution,
    operands: tuple[Sequence[int], Sequence[LaidOut]],
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
    inputs, packed = operands
    shapes = shapes_of(meanings, inputs, extents, [(convolution.result, place)])
    kernel = Kernel(
        op_type,
        text,
        shapes,
        tuple(inputs),
        (convolution.output,),
        block=1,
        grain=1,
        room=room,
        arrange="arrange_convolution",
        support=support,
        flushes=convolution.flushes,
        packed=tuple(packed),
        form=form,
        configuration=chosen,
    )
    return region_kernel(
        meanings, convolution.nodes, kernel, "convolution", space=convolution.result
    )


def is_laid_out(size_bytes: int, tiles: int | None) -> bool:
    """Tell whether filters are transformed in advance."""
    has_many = tiles is None or tiles >= LAID_OUT_TILES
    return size_bytes <= (LAID_OUT_BYTES if has_many else CACHED_BYTES)
