"""Specifications computed with NumPy, over grids of all indices at once: slow and obviously right.

Floating-point values are computed in float64 (long doubles in their own type) and rounded once to
the type of the output; integers in their own type, as the runtime does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..terms.numpy_evaluator import EvaluationError, NumpyEvaluator, known_extent
from ..terms.term_evaluator import by_index, grid_elements
from .derive import saturated
from .expand import Definition, Expansion

Array = npt.NDArray[Any]

# A grid of more elements than this is computed in pieces.
_GRID = 1 << 22


def evaluate(expansion: Expansion, inputs: Sequence[Array | None]) -> list[Array]:
    """Return the outputs of an expansion at known dimensions."""
    tensors: dict[str, Array] = {}
    first: Array | None = None
    types: dict[str, np.dtype[Any]] = {}
    for tensor, array in zip(expansion.inputs, inputs, strict=True):
        if array is not None and first is None:
            first = array
        if tensor is not None and array is not None:
            types[tensor.name] = array.dtype
            tensors[tensor.name] = _computing(array)
    for local in expansion.locals:
        tensors[local.name] = _definition(local, tensors)
    default = np.dtype(np.float32) if first is None else first.dtype
    outputs = []
    for output in expansion.outputs:
        dtype = _type(output, default, types)
        exact = replace(output, value=saturated(output.value, dtype.name))
        outputs.append(_cast(_definition(exact, tensors), dtype))
    return outputs


def _type(
    output: Definition, default: np.dtype[Any], types: Mapping[str, np.dtype[Any]]
) -> np.dtype[Any]:
    if output.like is not None:
        return types.get(output.like, default)
    if output.type is None:
        return default
    return numpy_type(output.type)


def numpy_type(name: str | int) -> np.dtype[Any]:
    """Return the NumPy type of an ONNX type, by name in lower case or by its code."""
    import onnx

    code = name if isinstance(name, int) else onnx.TensorProto.DataType.Value(name.upper())
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))


def is_floating(dtype: np.dtype[Any]) -> bool:
    """Whether a type holds real numbers, those of ml_dtypes among them."""
    return dtype.kind == "f" or dtype.name.startswith(("bfloat", "float"))


def _computing(array: Array) -> Array:
    if not is_floating(array.dtype) or array.dtype == np.longdouble:
        return array
    return array.astype(np.float64)


def _cast(array: Array, dtype: np.dtype[Any]) -> Array:
    if dtype.name.startswith("float8") and array.dtype.kind == "f":
        _refuse_saturation(array, dtype)
    if dtype.kind in "iu" and array.dtype.kind == "f":
        with np.errstate(all="ignore"):
            return (
                array.astype(np.int64).astype(dtype) if dtype.itemsize < 8 else array.astype(dtype)
            )
    with np.errstate(all="ignore"):
        return array.astype(dtype)


def _refuse_saturation(array: Array, dtype: np.dtype[Any]) -> None:
    """What lies beyond the range of an 8-bit type depends on `saturate`, which isn't described."""
    import ml_dtypes

    finfo: Any = ml_dtypes.finfo
    largest = float(finfo(dtype).max)
    if "e8m0" in dtype.name or (np.abs(array) > largest).any():
        raise EvaluationError(f"rounding to {dtype.name} beyond its range is not described")


def _definition(definition: Definition, tensors: Mapping[str, Array]) -> Array:
    shape = tuple(known_extent(d) for d in definition.shape)
    if 0 in shape:
        probe = np.zeros(shape)
        return probe
    inner = grid_elements(definition.value, known_extent)
    rows = shape[0] if shape else 1
    step = max(1, int(rows * _GRID / max(1.0, math.prod(shape) * inner)))
    with np.errstate(all="ignore"):
        pieces = [
            _piece(definition, shape, range(start, min(rows, start + step)), tensors)
            for start in range(0, rows, step)
        ]
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _piece(
    definition: Definition, shape: tuple[int, ...], rows: range, tensors: Mapping[str, Array]
) -> Array:
    grid = NumpyEvaluator(tensors)
    extents = (len(rows), *shape[1:]) if shape else ()
    for axis, (variable, extent) in enumerate(zip(definition.indices, extents, strict=True)):
        grid.bind(variable, range(extent) if axis else rows)
    return by_index(grid.value(definition.value), extents).copy()
