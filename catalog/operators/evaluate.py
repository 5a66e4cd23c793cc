"""Specifications computed with NumPy, over grids of all indices at once: slow and obviously right.

Floating-point values are computed in float64 (long doubles in their own type) and rounded once to
the type of the output; integers in their own type, as the runtime does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import TensologError
from .derive import saturated
from .expand import Definition, Expansion
from .term_evaluator import GridEvaluator, by_index, grid_elements
from .terms import Read, Reduce, Term, Variable

Array = npt.NDArray[Any]

# A grid of more elements than this is computed in pieces.
_GRID = 1 << 22


class EvaluationError(TensologError):
    """Data on which an operator has no value, such as an index outside of a tensor."""


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
    shape = tuple(_known(d) for d in definition.shape)
    if 0 in shape:
        probe = np.zeros(shape)
        return probe
    inner = grid_elements(definition.value, _known)
    rows = shape[0] if shape else 1
    step = max(1, int(rows * _GRID / max(1.0, math.prod(shape) * inner)))
    with np.errstate(all="ignore"):
        pieces = [
            _piece(definition, shape, range(start, min(rows, start + step)), tensors)
            for start in range(0, rows, step)
        ]
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _known(term: Term) -> int:
    if isinstance(term, int):
        return term
    raise EvaluationError(f"{term} must be known to compute values")


def _piece(
    definition: Definition, shape: tuple[int, ...], rows: range, tensors: Mapping[str, Array]
) -> Array:
    grid = _Grid(tensors)
    extents = (len(rows), *shape[1:]) if shape else ()
    for axis, (variable, extent) in enumerate(zip(definition.indices, extents, strict=True)):
        grid.bind(variable, range(extent) if axis else rows)
    return by_index(grid.value(definition.value), extents).copy()


class _Grid(GridEvaluator[Any]):
    """Evaluates with NumPy's own types; where `mask` doesn't hold, a value is not used."""

    def __init__(self, tensors: Mapping[str, Array]) -> None:
        super().__init__()
        self.tensors = tensors
        self.mask: Any = True

    def refusal(self, term: Term) -> EvaluationError:
        return EvaluationError(f"{term} must be known to compute values")

    @contextmanager
    def _where(self, condition: Any) -> Iterator[None]:
        before = self.mask
        self.mask = np.logical_and(before, condition)
        try:
            yield
        finally:
            self.mask = before

    def constant(self, value: bool | int | float) -> Any:
        return value

    def variable(self, variable: Variable) -> Any:
        return self.bound[variable]

    def apply(self, function: str, arguments: Sequence[Any]) -> Any:
        return PRIMITIVE[function](*arguments)

    def junction(self, function: str, left: Term, right: Term) -> Any:
        first = self.value(left)
        with self._where(first if function == "and" else np.logical_not(first)):
            return PRIMITIVE[function](first, self.value(right))

    def select(self, condition: Term, then: Term, otherwise: Term) -> Any:
        chosen = np.asarray(self.value(condition))
        if not np.logical_and(self.mask, ~chosen).any():
            return self.value(then)
        if not np.logical_and(self.mask, chosen).any():
            return self.value(otherwise)
        with self._where(chosen):
            first = self.value(then)
        with self._where(~chosen):
            return np.where(chosen, first, self.value(otherwise))

    def read(self, element: Read) -> Any:
        array = self.tensors[element.tensor]
        places = []
        for axis, (index, extent) in enumerate(zip(element.indices, array.shape, strict=True)):
            place = np.asarray(self.value(index))
            if np.logical_and(self.mask, (place < 0) | (place >= extent)).any():
                raise EvaluationError(
                    f"an index outside of axis {axis} of {element.tensor} {array.shape}"
                )
            places.append(np.clip(place, 0, max(extent - 1, 0)).astype(np.int64))
        if 0 in array.shape:
            return np.zeros((), array.dtype)
        return array[tuple(places)]

    def reduce(self, reduction: Reduce) -> Any:
        extents = [_known(extent) for extent in reduction.extents]
        with self.binding(reduction.variables, extents):
            guard = self.value(reduction.condition)
            with self._where(guard):
                body = np.asarray(self.value(reduction.body))
        empty = _empty(reduction.kind, body.dtype)
        if 0 in extents:
            return empty
        if guard is not True:
            body = np.where(guard, body, np.asarray(empty).astype(body.dtype))
        return _REDUCE[reduction.kind](self.spread(body, extents), axis=tuple(range(len(extents))))


def _empty(kind: str, dtype: np.dtype[Any]) -> Any:
    """Return the reduction of nothing, in the type of what would be reduced."""
    if kind not in ("max", "min") or dtype.kind == "f":
        return _EMPTY[kind]
    if dtype.kind == "b":
        return kind == "min"
    return np.iinfo(dtype).min if kind == "max" else np.iinfo(dtype).max


def _any_float(*values: Any) -> bool:
    return any(
        isinstance(v, float) or (isinstance(v, np.ndarray | np.generic) and v.dtype.kind == "f")
        for v in values
    )


def _divide(a: Any, b: Any) -> Any:
    """Division of reals, and of integers truncated as in C."""
    if _any_float(a, b) or not (isinstance(a, np.ndarray) or isinstance(b, np.ndarray)):
        return np.divide(a, b)
    quotient = np.floor_divide(a, b)
    exact = np.multiply(quotient, b) == a
    return np.where(exact | (quotient >= 0), quotient, quotient + 1).astype(quotient.dtype)


def _power(a: Any, b: Any) -> Any:
    if _any_float(a, b):
        wide = np.longdouble if np.asarray(a).dtype == np.longdouble else np.float64
        result = np.power(np.asarray(a, wide), np.asarray(b, wide))
        return result if _any_float(a) else np.asarray(result).astype(np.asarray(a).dtype)
    return np.power(a, np.asarray(b).astype(np.asarray(a).dtype))


_erf = np.frompyfunc(math.erf, 1, 1)

PRIMITIVE: Mapping[str, Callable[..., Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": _divide,
    "//": np.floor_divide,
    "%": np.mod,
    "neg": np.negative,
    "=": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
    "xor": np.logical_xor,
    "max": np.maximum,
    "min": np.minimum,
    "abs": np.abs,
    "sign": np.sign,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "erf": lambda a: np.asarray(_erf(a)).astype(np.float64),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "isnan": np.isnan,
    "is_positive_inf": np.isposinf,
    "is_negative_inf": np.isneginf,
    "real": lambda a: np.asarray(a, np.float64),
    "int32": lambda a: np.asarray(a, np.int32),
    "pow": _power,
    "mod": np.mod,
    "fmod": np.fmod,
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
    "bit_not": np.bitwise_not,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
}

_REDUCE: Mapping[str, Callable[..., Any]] = {
    "sum": lambda a, axis: np.sum(a, axis=axis, dtype=a.dtype),
    "prod": lambda a, axis: np.prod(a, axis=axis, dtype=a.dtype),
    "max": np.max,
    "min": np.min,
    "any": np.any,
    "all": np.all,
}
_EMPTY: Mapping[str, Any] = {
    "sum": 0,
    "prod": 1,
    "max": -math.inf,
    "min": math.inf,
    "any": False,
    "all": True,
}
