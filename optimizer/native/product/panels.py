"""How kernels of products read a constant matrix: in panels, and which of these may be added up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...graph.graph import TensorType

# Columns of a panel, and half of a piece of the depth at most where seven products stand for eight,
# as call.h has them.
PANEL, DEEP = 48, 512
# Where columns are added up, the larger has at most so many times the magnitude of the other, and
# sums of products with it are finite.
APART, LARGEST = 8.0, 1e15


@dataclass(frozen=True)
class Panels:
    """How a matrix is laid out, or its transpose: in which element type, how wide a panel is."""

    transposed: bool
    dtype: str = "float32"
    width: int = PANEL

    @property
    def kind(self) -> str:
        """What the panels are called."""
        kind = "halves" if self.dtype == "float16" else "panels"
        return kind if self.width == PANEL else f"{kind}.{self.width}"

    def type_of(self, constant_type: TensorType) -> TensorType:
        """Return the type of the panels of a matrix: [panels, depth, width]."""
        depth, columns = sizes_of(constant_type, self.transposed)
        return TensorType(self.dtype, (-(-columns // self.width), depth, self.width))

    def lay(self, array: np.ndarray) -> np.ndarray:
        """Return the panels of it, see `packed`."""
        laid = packed(array.T if self.transposed else array, self.width)
        return laid.astype(self.dtype, copy=False)


@dataclass(frozen=True)
class Likeness:
    """Which panels of a matrix, or of its transpose, may be added up."""

    transposed: bool
    kind = "alike"

    def type_of(self, constant_type: TensorType) -> TensorType:
        """Return the type of as many numbers as there are two panels."""
        return TensorType("float32", (pairs_of(sizes_of(constant_type, self.transposed)[1]),))

    def lay(self, array: np.ndarray) -> np.ndarray:
        """Return 1 or 0 for each two panels, see `alike`."""
        return alike(array.T if self.transposed else array)


def sizes_of(constant_type: TensorType, transposed: bool) -> tuple[int, int]:
    """Return the depth and the columns of a constant matrix, or of its transpose."""
    depth, columns = map(int, constant_type.shape or ())
    return (columns, depth) if transposed else (depth, columns)


def packed(matrix: np.ndarray, width: int = PANEL) -> np.ndarray:
    """Lay out a matrix [k, n] as [panels, k, width], zeros beyond the last column."""
    depth, columns = matrix.shape
    panels = -(-columns // width)
    packed_panels = np.zeros((panels, depth, width), np.float32)
    whole = columns // width
    packed_panels[:whole] = (
        matrix[:, : whole * width].reshape(depth, whole, width).transpose(1, 0, 2)
    )
    if whole < panels:
        packed_panels[whole, :, : columns - whole * width] = matrix[:, whole * width :]
    return packed_panels


def fits_half(matrix: np.ndarray) -> bool:
    """Tell whether float16 holds each number of a matrix without loss."""
    with np.errstate(over="ignore"):
        return all(
            np.array_equal(rows.astype(np.float16), rows)
            for rows in np.array_split(matrix, max(1, len(matrix) // 64))
        )


def alike(matrix: np.ndarray) -> np.ndarray:
    """Tell for each two panels of a matrix [k, n] whether they may be added up: [pairs] of 1 or 0.

    Products with sums have errors relative to the larger summand. So the largest magnitudes of two
    columns, in both halves of each piece of the depth, lie within APART times of each other. A
    panel without another one has 0.
    """
    depth, columns = matrix.shape
    pairs, half = pairs_of(columns), depth // 2
    pieces = max(1, -(-half // DEEP))
    most = -(-half // pieces)
    starts = [
        start for k in range(0, 2 * half, 2 * most) for start in (k, k + min(most, half - k // 2))
    ]
    greatest = np.zeros((len(starts), 2 * PANEL * pairs), np.float32)
    greatest[:, :columns] = np.maximum.reduceat(np.abs(matrix), starts, axis=0)
    filled = max(columns, (2 * pairs - 1) * PANEL)
    # what lies beyond the last column is like what it is added to
    greatest[:, filled:] = greatest[:, filled - PANEL : 2 * pairs * PANEL - PANEL]
    quarters = greatest.reshape(-1, 2, pairs, 2, PANEL)
    largest, least = quarters.max(axis=(1, 3)), quarters.min(axis=(1, 3))
    close = (largest <= APART * least) & (largest <= LARGEST)
    result: np.ndarray = close.all(axis=(0, 2)).astype(np.float32)
    if columns <= (2 * pairs - 1) * PANEL:
        result[-1] = 0
    return result


def pairs_of(columns: int) -> int:
    """Count the panels of so many columns by twos."""
    return -(-columns // (2 * PANEL))
