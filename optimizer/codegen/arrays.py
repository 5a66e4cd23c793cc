"""Arrays as kernels see them: address, strides, and the type they are converted from."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..program.dag import Node
from .cells import held_dtype
from .scalar import LoweringError

Array = Any  # an ndarray of a known dtype

# The codes of runtime.h's CONVERT.
CODES: Mapping[str, int] = {
    "float32": 1,
    "float64": 2,
    "uint8": 3,
    "bool": 3,
    "int8": 4,
    "uint16": 5,
    "int16": 6,
    "uint32": 7,
    "int32": 8,
    "uint64": 9,
    "int64": 10,
}


# Codes of the types that kernels hold, where an array has to be copied all the same.
FROM: Mapping[str, int] = {"float32": 1, "float64": 2, "bool": 3}

# What a view of a sparse matrix says of it (common.h).
DISTINCT, WIDE = 1, 2

# To compare with: asking a dtype for its name takes NumPy several microseconds.
DTYPES: Mapping[str, Any] = {name: np.dtype(name) for name in CODES}


def prepared(array: Array, node: Node) -> Array:
    """Return an array in the machine's byte order; raise LoweringError if it isn't the node's.

    A kernel is made for types and shapes; others must not reach it.
    """
    if array.shape == node.shape and array.dtype == DTYPES.get(node.dtype):
        return array
    if array.shape != node.shape or array.dtype.name != node.dtype:
        raise LoweringError(
            f"%{node.id} is {array.dtype.name} {array.shape}, "
            f"but was planned as {node.dtype} {node.shape}"
        )
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def code(array: Array, node: Node) -> int:
    """Return 0 for an array that a kernel reads where it lies, else what it is converted from."""
    if array.dtype == DTYPES[held_dtype(node)] and array.flags.aligned:
        return 0
    return CODES[array.dtype.name]


def _told_address(array: Array) -> int:
    data: int = array.__array_interface__["data"][0]
    return data


_pointer = ctypes.c_void_p.from_address


def _read_address(array: Array) -> int:
    return _pointer(id(array) + _HEAD).value or 0


# An array's own pointer follows the head of an object, in the struct that NumPy's headers publish.
# Asking NumPy takes ten times as long; what is read is compared with what it tells once.
_HEAD = object.__basicsize__


def _agree() -> bool:
    base = np.arange(12.0).reshape(3, 4)
    return ctypes.sizeof(ctypes.c_void_p) + _HEAD <= np.ndarray.__basicsize__ and all(
        _read_address(one) == _told_address(one) for one in (base, base[1:, ::2], base.T, base[:0])
    )


# Return where an array's first element lies.
address = _read_address if sys.implementation.name == "cpython" and _agree() else _told_address


def contiguous(array: Array, dtype: str) -> Array:
    """Return an array in C's order, aligned, of a kernel's type."""
    flags = array.flags
    if flags.c_contiguous and flags.aligned and array.dtype == DTYPES[dtype]:
        return array
    return np.require(array, dtype=dtype, requirements=["C", "A"])


def row_begins(matrix: Array) -> tuple[Array, int]:
    """Return where the rows of a sparse matrix begin, and WIDE if that is told in 64 bits.

    SciPy has 32 bits for it unless there are too many entries, or the caller chose otherwise.
    """
    wide = matrix.indptr.dtype.itemsize > 4
    return contiguous(matrix.indptr, "int64" if wide else "int32"), WIDE if wide else 0
