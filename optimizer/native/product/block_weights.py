"""How weights of 4 bits with a scale by block lie in a model, and how kernels read them.

    W[l, j] = (Q[l, j] - zero[l / size, j]) scale[l / size, j]

A `MatMulNBits` has blocks of a column one after another, two numbers in a byte; a DequantizeLinear
has the matrix as it is multiplied. Kernels read panels of columns, eight numbers of one in a word.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ....rules import ABSENT
from ...codegen.expressions import LoweringError
from ...graph.graph import Graph, TensorType
from ..regions.region_candidates import BlockProduct
from .panels import PANEL, packed

# Numbers of 4 bits in a word.
IN_WORD = 8
# Attributes of these operators that a kernel knows what to do with.
_KNOWN = frozenset(
    {"K", "N", "bits", "block_size", "accuracy_level", "weight_prepacked", "axis", "output_dtype"}
)
Part = Literal["numbers", "scales", "zeros", "from zero"]


@dataclass(frozen=True)
class Layout:
    """How a model has weights [depth, width]: in blocks of `size` of the depth, or the last less.

    `by_column` tells the layout of MatMulNBits from that of DequantizeLinear, which may be
    of the weights `transposed`.
    """

    depth: int
    width: int
    size: int
    by_column: bool
    transposed: bool = False

    @property
    def blocks(self) -> int:
        """Blocks of a column."""
        return -(-self.depth // self.size)


@dataclass(frozen=True)
class BlockWeights:
    """Weights of 4 bits: their numbers, scales and zero points, as constants of a graph.

    `zeros` is None where a model has none; these are 8 less than 0 then, as kernels read unsigned
    numbers, where `is_from_zero`.
    """

    numbers: int
    scales: int
    zeros: int | None
    layout: Layout
    is_from_zero: bool


@dataclass(frozen=True)
class BlockLayout:
    """How one part of block weights is laid out in panels, and as which type."""

    part: Part
    layout: Layout
    dtype: str

    @property
    def kind(self) -> str:
        """What the panels are called."""
        return self.part.replace(" ", "_")

    def type_of(self, constant_type: TensorType) -> TensorType:
        """Return the type of the panels."""
        groups = -(-self.layout.depth // IN_WORD) if self.part == "numbers" else self.layout.blocks
        return TensorType(self.dtype, (-(-self.layout.width // PANEL), groups, PANEL))

    def lay(self, array: np.ndarray) -> np.ndarray:
        """Return the panels; of integers that have no sign, what they are less by 8."""
        if self.part == "numbers":
            return _words(self._numbers(array))
        return packed(self._by_block(array).astype(np.float32)).astype(self.dtype)

    def _numbers(self, array: np.ndarray) -> np.ndarray:
        if not self.layout.by_column:
            return self._upright(_centred(array))
        numbers = halves(array).reshape(self.layout.width, -1)[:, : self.layout.depth]
        return (numbers - np.int8(8)).T

    def _by_block(self, array: np.ndarray) -> np.ndarray:
        """Return scales or zero points as [blocks, width]."""
        width, blocks = self.layout.width, self.layout.blocks
        if self.part == "from zero":
            return np.full((blocks, width), -8, np.int8)
        if not self.layout.by_column:
            return self._upright(_centred(array) if self.part == "zeros" else array)
        if self.part == "zeros":
            return (halves(array.reshape(width, -1))[:, :blocks] - np.int8(8)).T
        return array.reshape(width, blocks).T

    def _upright(self, array: np.ndarray) -> np.ndarray:
        return array.T if self.layout.transposed else array


def _centred(array: np.ndarray) -> np.ndarray:
    """Return integers of 4 bits as int8, less by 8 where they have no sign."""
    return array.astype(np.int8) - np.int8(8 if array.dtype.name == "uint4" else 0)


def halves(array: np.ndarray) -> np.ndarray:
    """Return the two numbers of each byte side by side, the lower half first, as int8."""
    both = np.stack([array & 15, array >> 4], axis=-1)
    return both.astype(np.int8).reshape(*array.shape[:-1], 2 * array.shape[-1])


def _words(rows: np.ndarray) -> np.ndarray:
    """Pack numbers [depth, width] from -8 to 7 into int32 words [panels, depth / 8, PANEL]."""
    depth, width = rows.shape
    panels, groups = -(-width // PANEL), -(-depth // IN_WORD)
    full = np.zeros((groups, IN_WORD, panels, PANEL), np.uint8)
    full.reshape(groups * IN_WORD, panels * PANEL)[:depth, :width] = rows.view(np.uint8) & 15
    pairs = full[:, 0::2] | full[:, 1::2] << 4
    # the lowest byte of a word comes first, whatever the order of bytes is here
    words = np.ascontiguousarray(pairs.transpose(2, 0, 3, 1)).view("<u4")
    return words.reshape(panels, groups, PANEL).astype(np.uint32).view(np.int32)


def block_weights(graph: Graph, product: int, candidate: BlockProduct) -> BlockWeights:
    """Return the weights of a product, as itself or a DequantizeLinear says they are.

    Raises LoweringError where kernels don't read them.
    """
    source = candidate.source
    by_column = source == product
    node, attributes = graph.nodes[source], graph.attributes(source)
    numbers, scales, zeros = (*node.inputs[by_column:], ABSENT)[:3]
    size = attributes.get("block_size")
    if not isinstance(size, int) or size <= 0 or size % IN_WORD:
        raise LoweringError("blocks of a size that is no multiple of 8")
    if not _KNOWN.issuperset(attributes) or attributes.get("weight_prepacked"):
        raise LoweringError("weights of 4 bits in another order")
    stored = graph.constants[numbers].type
    sizes = (attributes["K"], attributes["N"]) if by_column else stored.shape or (None, None)
    depth, width = sizes[::-1] if candidate.transposed else sizes
    if not isinstance(depth, int) or not isinstance(width, int):
        raise LoweringError("weights whose sizes aren't known")
    blocks = -(-depth // size)
    counts = {scales: width * blocks}
    if zeros != ABSENT:
        counts[zeros] = width * (-(-blocks // 2) if by_column else blocks)
    for value, count in counts.items():
        if math.prod(map(int, graph.constants[value].type.shape or ())) != count:
            raise LoweringError("scales or zero points that aren't those of blocks")
    if graph.constants[scales].type.dtype not in ("float32", "float16"):
        raise LoweringError("scales of another type")
    if zeros != ABSENT and graph.constants[zeros].type.dtype != stored.dtype:
        raise LoweringError("zero points that are no integers")
    how = Layout(depth, width, size, by_column, candidate.transposed)
    return BlockWeights(
        numbers,
        scales,
        None if zeros == ABSENT else zeros,
        how,
        is_from_zero=zeros == ABSENT and stored.dtype == "uint4",
    )


def laid_parts(weights: BlockWeights) -> list[tuple[int, BlockLayout]]:
    """Return what a kernel reads: numbers, scales and maybe zero points, how they are laid out."""
    layout = weights.layout
    parts = [
        (weights.numbers, BlockLayout("numbers", layout, "int32")),
        (weights.scales, BlockLayout("scales", layout, "float32")),
    ]
    if weights.zeros is not None:
        parts.append((weights.zeros, BlockLayout("zeros", layout, "int8")))
    elif weights.is_from_zero:
        parts.append((weights.scales, BlockLayout("from zero", layout, "int8")))
    return parts
