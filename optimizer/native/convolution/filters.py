"""How the filters of convolutions are laid out before a model runs."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

import numpy as np

from ...graph.graph import TensorType
from ...layouts.filters import dense, outer
from ...layouts.layout import Layout
from .winograd import filtering, transformed
from .winograd_text import PANEL


@dataclass(frozen=True)
class Merged:
    """How filters of `groups` groups are laid out when `merged` of them count as one."""

    groups: int
    merged: int
    block: int
    kind = "merged"

    def type_of(self, constant_type: TensorType) -> TensorType:
        """Return the type of filters [m, c, h, w] when they are merged."""
        m, c, h, w = map(int, constant_type.shape or ())
        channels = ceil(self.groups / self.merged) * self.merged * (m // self.groups)
        return TensorType("float32", (channels, self.merged * c, h, w))

    def lay(self, array: np.ndarray) -> np.ndarray:
        """Return filters as ONNX Runtime's convolution in blocks reads them.

        [m, c, h, w], c being the channels of one group, becomes [m, merged * c, h, w], 0 on the
        channels of the other groups, and as many groups of 0 more as make whole ones.
        """
        m, c, h, w = array.shape
        count = ceil(self.groups / self.merged)
        group_width = m // self.groups
        parts = np.zeros((count * self.merged, group_width, c, h, w), array.dtype)
        parts[: self.groups] = array.reshape(self.groups, group_width, c, h, w)
        m = count * self.merged * group_width
        parts = parts.reshape(count, self.merged, group_width, c, h, w)
        whole = np.zeros((*parts.shape[:3], self.merged, c, h, w), array.dtype)
        for member in range(self.merged):
            whole[:, member, :, member] = parts[:, member]
        whole = whole.reshape(m, self.merged * c, h, w)
        return dense(whole, Layout((m,), self.block), Layout((self.merged * c,), self.block))


@dataclass(frozen=True)
class Outer:
    """How filters of narrow groups are laid out when each lane reads its own group's channel."""

    block: int
    kind = "outer"

    def type_of(self, constant_type: TensorType) -> TensorType:
        """Return the type of filters [m, c, h, w], with channels that fill blocks."""
        m, c, h, w = map(int, constant_type.shape or ())
        return TensorType("float32", (ceil(m / self.block) * self.block, c, h, w))

    def lay(self, array: np.ndarray) -> np.ndarray:
        """Return filters [m, c, h, w] as (block of m, c, row, column, m of the block)."""
        return outer(array, Layout((array.shape[0],), self.block))


@dataclass(frozen=True)
class Padded:
    """How numbers for each channel are laid out where there are `width` places."""

    width: int
    kind = "padded"

    def type_of(self, constant_type: TensorType) -> TensorType:
        """Return the type of so many numbers."""
        return TensorType(constant_type.dtype, (self.width,))

    def lay(self, array: np.ndarray) -> np.ndarray:
        """Return the numbers, and zeros behind them."""
        return np.pad(array.reshape(-1), (0, self.width - array.size))


@dataclass(frozen=True)
class Filters:
    """How filters are laid out before a model runs: transformed for tiles, in panels.

    `before` is how they come to lie as ONNX Runtime's do in blocks, where they don't.
    """

    taps: tuple[int, int]
    tile: tuple[int, int]
    block: int
    groups: int = 1
    before: Merged | None = None

    @property
    def kind(self) -> str:
        """The size of a tile."""
        return f"{self.tile[0]}x{self.tile[1]}"

    def type_of(self, constant_type: TensorType) -> TensorType:
        """Return the type of the panels."""
        if self.before is not None:
            constant_type = self.before.type_of(constant_type)
        m, c, *_ = map(int, constant_type.shape or ())
        panels = ceil(m // self.groups / PANEL) * self.groups
        products = prod(
            outputs + taps - 1 for outputs, taps in zip(self.tile, self.taps, strict=True)
        )
        return TensorType("float32", (panels, products, c, PANEL))

    def lay(self, weights: np.ndarray) -> np.ndarray:
        """Return [panels, products, channels read, PANEL], zeros beyond a group's last channel.

        `weights` are ONNX Runtime's: [m, c, rows, columns] as (block of m, block of c, row, column,
        c of the block, m of it).
        """
        if self.before is not None:
            weights = self.before.lay(weights)
        (m, c), b = weights.shape[:2], self.block
        parts = weights.reshape(m // b, c // b, *self.taps, b, b).transpose(0, 5, 1, 4, 2, 3)
        rows, columns = map(filtering, self.tile, self.taps)
        products = transformed(parts.reshape(m, c, *self.taps), rows, columns)
        products = products.reshape(self.groups, m // self.groups, c, -1)
        panels = ceil(products.shape[1] / PANEL)
        whole = np.zeros((self.groups, panels * PANEL, *products.shape[2:]), np.float32)
        whole[:, : products.shape[1]] = products
        parts = whole.reshape(self.groups * panels, PANEL, *products.shape[2:])
        return np.ascontiguousarray(parts.transpose(0, 3, 2, 1))
