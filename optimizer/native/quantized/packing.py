"""How kernels of 8-bit integers read filters: in panels, four numbers of an output side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from ....profiles.kernel import numpy_dtype
from ...graph.graph import TensorType

# Outputs of a panel, as call.h has them, and numbers that are multiplied at a time.
PANEL, FOUR = 64, 4
# Outputs of a vector.
LANES = 16


@dataclass(frozen=True)
class FixedNumbers:
    """Numbers that are known, whatever constant stands for them in the graph."""

    numbers: bytes
    dtype: str
    kind: str

    @classmethod
    def of(cls, numbers: Iterable[float], kind: str) -> FixedNumbers:
        """Return numbers as float32."""
        return cls(np.array([*numbers], np.float32).tobytes(), "float32", kind)

    def type_of(self, constant_type: TensorType) -> TensorType:
        """Return their type, whatever constant is given."""
        return TensorType(self.dtype, (len(self.numbers) // numpy_dtype(self.dtype).itemsize,))

    def lay(self, array: np.ndarray) -> np.ndarray:
        """Return them."""
        return np.frombuffer(self.numbers, numpy_dtype(self.dtype))


@dataclass(frozen=True)
class Filters:
    """Filters, or a matrix, less the zero points of their outputs, as int8.

    They lie as [panels, depth / 4, PANEL, 4].
    `axes` bring a constant's axes into the order outputs, segments, depth of a segment, of which
    there are `segments`; each is filled up with zeros. `zeros` are int32, one for each output.
    A panel has outputs of one of the `groups`.
    """

    axes: tuple[int, ...]
    segments: int
    zeros: bytes
    groups: int = 1
    kind = "filters"

    def type_of(self, constant_type: TensorType) -> TensorType:
        """Return the type of the panels."""
        panels, length = self._sizes(constant_type)
        return TensorType(
            "int8", (panels, self.segments * padded(length, FOUR) // FOUR, PANEL, FOUR)
        )

    def _sizes(self, constant_type: TensorType) -> tuple[int, int]:
        """Return the panels of a constant's outputs, and the length of a segment."""
        outputs, *others = (int((constant_type.shape or ())[axis]) for axis in self.axes)
        panels = self.groups * padded(outputs // self.groups) // PANEL
        return panels, math.prod(others) // self.segments

    def lay(self, array: np.ndarray) -> np.ndarray:
        """Return the panels."""
        numbers = self.centred(array)
        length = numbers.shape[-1]
        fours = np.zeros((*numbers.shape[:2], -(-length // FOUR) * FOUR), np.int8)
        fours[:, :, :length] = numbers
        whole = self.in_panels(fours)
        panels = whole.reshape(-1, PANEL, whole[0].size // FOUR, FOUR)
        return np.ascontiguousarray(panels.transpose(0, 2, 1, 3))

    def in_panels(self, numbers: np.ndarray) -> np.ndarray:
        """Return numbers of outputs, the first axis, those of each group filled up with zeros."""
        grouped = numbers.reshape(self.groups, -1, *numbers.shape[1:])
        outputs = grouped.shape[1]
        whole = np.zeros((self.groups, padded(outputs), *numbers.shape[1:]), numbers.dtype)
        whole[:, :outputs] = grouped
        return whole.reshape(-1, *numbers.shape[1:])

    def filled(self, numbers: np.ndarray, kind: str) -> FixedNumbers:
        """Return numbers of outputs as they lie beside the panels."""
        return FixedNumbers(self.in_panels(numbers).tobytes(), str(numbers.dtype), kind)

    def centred(self, array: np.ndarray) -> np.ndarray:
        """Return the filters less their zero points: [outputs, segments, length] of int32."""
        numbers = array.transpose(self.axes).astype(np.int32)
        zeros = np.frombuffer(self.zeros, np.int32)
        flat: np.ndarray = numbers.reshape(len(numbers), -1) - zeros[:, None]
        return flat.reshape(len(numbers), self.segments, -1)

    def fitted(self, array: np.ndarray) -> tuple[Filters, np.ndarray | None]:
        """Return filters that 8 bits hold, and what is left over for each output, None for nothing.

        Where they don't hold them less their zero points, they are stored as signed numbers.
        """
        numbers = self.centred(array)
        if numbers.min() >= -128 and numbers.max() <= 127:
            return self, None
        zeros = np.frombuffer(self.zeros, np.int32)
        stored = np.full_like(zeros, 128 if array.dtype == np.uint8 else 0)
        return replace(self, zeros=stored.tobytes()), stored - zeros


@dataclass(frozen=True)
class ApartFilters(Filters):
    """Filters of each channel by itself, of which a segment is a tap.

    They lie as quantized_apart.h has them: [panels, taps / 4, vectors, quarters, channels, taps],
    four of each of the last.
    """

    def type_of(self, constant_type: TensorType) -> TensorType:
        """Return the type of the panels."""
        taps = padded(self.segments, FOUR) // FOUR
        return TensorType("int8", (self._sizes(constant_type)[0], taps, 4, 4, 4, FOUR))

    def lay(self, array: np.ndarray) -> np.ndarray:
        """Return the panels."""
        numbers = self.centred(array)[:, :, 0]
        taps = numbers.shape[1]
        fours = np.zeros((len(numbers), -(-taps // FOUR) * FOUR), np.int8)
        fours[:, :taps] = numbers
        whole = self.in_panels(fours)
        panels = whole.reshape(-1, 4, 4, 4, whole.shape[1] // FOUR, FOUR)
        return np.ascontiguousarray(panels.transpose(0, 4, 2, 1, 3, 5))


@dataclass(frozen=True)
class NarrowFilters(Filters):
    """Filters of groups of few outputs, of which a segment is a tap.

    They lie as quantized_narrow.h has them: [panels, taps, depth / 4, PANEL, 4], groups side by
    side.
    """


def padded(count: int, size: int = PANEL) -> int:
    """Give as many as fill whole panels, or parts of another size."""
    return -(-count // size) * size
