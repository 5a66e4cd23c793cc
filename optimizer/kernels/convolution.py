"""Convolutions over blocks of channels as kernels, by minimal filtering (winograd.py).

They take the place of ONNX Runtime's own Conv of its blocked layout (optimizer/layouts), with the
bias, the sum and the activation that it has: image and result lie in memory as they did. A tile
whose result isn't finite is computed again, multiplied out, so that what is no number spoils no
neighbour.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import ceil

import numpy as np

from ...rules import ABSENT
from ..codegen.scalar import LoweringError
from ..graph import TensorType
from ..layouts.runtime import NCHWC, block_size
from .affine import Affine, Extent
from .convolution_text import PANEL, Plan, minimal_text
from .grow import Found
from .loops import Groups
from .lower import Kernel, Shapes, check, named
from .region import Meanings, Region, read_by
from .winograd import filtering, transformed

# Tiles of outputs by the filter's size: rows and columns of a tile.
TILES = {
    (3, 3): ((2, 2), (4, 4)),
    (5, 5): ((2, 2), (4, 4)),
    (1, 3): ((1, 4),),
    (3, 1): ((4, 1),),
    (1, 7): ((1, 2), (1, 4)),
    (7, 1): ((2, 1), (4, 1)),
}
# Bytes that the tiles which are multiplied at once may take, and how many there are at least.
TOGETHER_BYTES, LEAST_TOGETHER = 256 << 10, 28
# Filters are transformed in advance up to so many bytes, where so many tiles or more are multiplied
# by them, so that they come from memory meanwhile; where there are fewer, as far as the cache goes.
LAID_OUT_BYTES, LAID_OUT_TILES = 40 << 20, 14
CACHED_BYTES = 2 << 20
# Channels whose filters are transformed at a time, otherwise.
PIECE = 32
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
class Filters:
    """How filters are laid out before a model runs: transformed for tiles, in panels."""

    taps: tuple[int, int]
    tile: tuple[int, int]
    block: int
    groups: int = 1

    def lay(self, weights: np.ndarray) -> np.ndarray:
        """Return [panels, products, channels read, PANEL], zeros beyond a group's last channel.

        `weights` are ONNX Runtime's: [m, c, rows, columns] as (block of m, block of c, row, column,
        c of the block, m of it).
        """
        (m, c), b = weights.shape[:2], self.block
        parts = weights.reshape(m // b, c // b, *self.taps, b, b).transpose(0, 5, 1, 4, 2, 3)
        rows, columns = map(filtering, self.tile, self.taps)
        made = transformed(parts.reshape(m, c, *self.taps), rows, columns)
        made = made.reshape(self.groups, m // self.groups, c, -1)
        panels = ceil(made.shape[1] / PANEL)
        whole = np.zeros((self.groups, panels * PANEL, *made.shape[2:]), np.float32)
        whole[:, : made.shape[1]] = made
        parts = whole.reshape(self.groups * panels, PANEL, *made.shape[2:])
        return np.ascontiguousarray(parts.transpose(0, 3, 2, 1))


@dataclass(frozen=True)
class Convolution:
    """A convolution over blocks of channels that minimal filtering can compute."""

    number: int
    image: tuple[Extent, ...]
    result: tuple[Extent, ...]
    taps: tuple[int, int]
    pads: tuple[int, int]
    groups: int
    block: int
    activation: tuple[str, ...]


def convolutions(meanings: Meanings, allowed: Collection[int]) -> list[Found]:
    """Find the convolutions that kernels can compute, each in all forms that there are.

    The forms of one convolution have its node in common: they are alternatives.
    """
    found: list[Found] = []
    for number in meanings.graph.order():
        node = meanings.graph.nodes[number]
        if number not in allowed or node.domain != NCHWC or node.op_type != "Conv":
            continue
        try:
            one = _convolution(meanings, number)
        except LoweringError:
            continue
        for tile in TILES[one.taps]:
            found.append(_lowered(meanings, one, tile))
    return found


# ------------------------------------------------------------------------------------ matching


def _convolution(meanings: Meanings, number: int) -> Convolution:
    graph = meanings.graph
    node, attributes = graph.nodes[number], graph.attributes(number)
    image, weights, (result,) = node.inputs[0], node.inputs[1], node.outputs
    if any(graph.dtype(value) != "float32" for value in (*node.reads, result)):
        raise LoweringError("a convolution of another type")
    given, made, filters = (meanings.shape(value) for value in (image, result, weights))
    sizes = (*given[1:], *made[1:], *filters)
    if not all(isinstance(size, int) for size in sizes) or len(sizes) != 10:
        raise LoweringError("a convolution whose sizes aren't known")
    if weights not in graph.constants or 0 in made:
        raise LoweringError("filters that are computed, or no result")
    if _numbers(attributes, "strides", 1) != (1, 1) or _numbers(attributes, "dilations", 1) != (
        1,
        1,
    ):
        raise LoweringError("a convolution that leaves out places")
    (m, c, high, wide) = map(int, filters)
    groups = int(attributes.get("group", 1))  # type: ignore[call-overload]
    if c * groups != given[1] or m != made[1] or m % groups:
        raise LoweringError("channels of other numbers than the filters are for")
    if (high, wide) not in TILES:
        raise LoweringError("filters of another size")
    values = graph.constants[weights].array()
    if not np.isfinite(values).all():
        raise LoweringError("filters that aren't finite")
    if any(meanings.shape(value) != made for value in node.inputs[3:] if value != ABSENT):
        raise LoweringError("a sum of other sizes")
    return Convolution(
        number, given, made, (high, wide), _pads(attributes, given, made, (high, wide)),
        groups, _block(m // groups, c), _activation(attributes),
    )  # fmt: skip


def _block(m: int, c: int) -> int:
    block = block_size()
    if block not in (8, 16) or m % block or c % block:
        raise LoweringError("channels that fill no blocks")
    return block


def _numbers(attributes: dict[str, object], name: str, default: int) -> tuple[int, ...]:
    given: tuple[int, ...] = attributes.get(name) or (default, default)  # type: ignore[assignment]
    return tuple(given)


def _pads(
    attributes: dict[str, object],
    image: tuple[Extent, ...],
    result: tuple[Extent, ...],
    taps: tuple[int, int],
) -> tuple[int, int]:
    """Return how many rows and columns of zeros lie before the image."""
    auto = attributes.get("auto_pad", "NOTSET")
    whole = [int(r) + k - 1 - int(x) for r, k, x in zip(result[2:], taps, image[2:], strict=True)]
    if auto == "NOTSET":
        given = attributes.get("pads") or (0, 0, 0, 0)
        top, left, bottom, right = map(int, given)  # type: ignore[call-overload]
        if [top + bottom, left + right] != whole:
            raise LoweringError("a result of another size")
        return top, left
    if auto == "SAME_LOWER":
        whole = [size + 1 for size in whole]
    return whole[0] // 2, whole[1] // 2


def _activation(attributes: dict[str, object]) -> tuple[str, ...]:
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


def _lowered(meanings: Meanings, one: Convolution, tile: tuple[int, int]) -> Found:
    graph = meanings.graph
    node = graph.nodes[one.number]
    rows, columns = map(filtering, tile, one.taps)
    depth, width = int(one.image[1]), int(one.result[1])
    products = rows.products * columns.products
    tiles = ceil(int(one.result[2]) / tile[0]) * ceil(int(one.result[3]) / tile[1])
    most = max(LEAST_TOGETHER, TOGETHER_BYTES // (4 * products * depth))
    own = depth // one.groups
    panels = ceil(width // one.groups / PANEL) * one.groups
    laid_out = _is_laid_out(4 * products * own * panels * PANEL, tiles)
    plan = Plan(
        rows, columns, one.block, depth, width, one.groups,
        (int(one.image[2]), int(one.image[3])), (int(one.result[2]), int(one.result[3])), one.pads,
        together=ceil(tiles / ceil(tiles / most)),
        piece=0 if laid_out else min(PIECE, own),
    )  # fmt: skip
    image, weights, *rest = node.inputs
    inputs = [image, weights]
    packed: tuple[tuple[int, int, Filters], ...] = ()
    if laid_out:
        filters = Filters(one.taps, tile, one.block, one.groups)
        laid = _laid_out(meanings, weights, filters, (panels, products, own, PANEL))
        inputs.append(laid)
        packed = ((laid, weights, filters),)
    added = [-1, -1]
    for at, value in enumerate(rest):
        if value != ABSENT:
            added[at] = len(inputs)
            inputs.append(value)
    text = minimal_text(plan, added[0], added[1], one.activation)
    shapes = Shapes(
        tuple((graph.dtype(v) or "float32", meanings.shape(v)) for v in inputs),
        (),
        (one.image[0], plan.units),
        Groups((0, 1)),
        ((one.result, (Affine(((0, 1),)), Affine(), Affine(), Affine())),),
    )
    check(shapes)
    name = f"minimal filtering {tile[0]}x{tile[1]} of {one.taps[0]}x{one.taps[1]}"
    kernel = Kernel(
        "",
        f"Conv{one.taps[0]}x{one.taps[1]}By{tile[0]}x{tile[1]}",
        text,
        shapes,
        tuple(inputs),
        node.outputs,
        block=1,
        grain=1,
        room=plan.room,
        arrange="arrange_convolution",
        support="convolution.h",
        packed=packed,
        form=name,
    )
    nodes = (one.number,)
    region = Region(nodes, read_by(graph, nodes), node.outputs, one.result, 0)
    return Found(region, named(kernel))


def _is_laid_out(size_bytes: int, tiles: int) -> bool:
    """Tell whether filters are transformed in advance."""
    return size_bytes <= (LAID_OUT_BYTES if tiles >= LAID_OUT_TILES else CACHED_BYTES)


def _laid_out(meanings: Meanings, weights: int, filters: Filters, shape: tuple[int, ...]) -> int:
    """Return the value that filters are when they are laid out, one for each form."""
    key = (weights, filters)
    if key not in meanings.packed:
        graph = meanings.graph
        name = f"{graph.names[weights]}.{filters.tile[0]}x{filters.tile[1]}"
        meanings.packed[key] = graph.new_value(name, TensorType("float32", shape))
    return meanings.packed[key]
