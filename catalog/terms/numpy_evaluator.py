"""Terms of known dimensions evaluated with NumPy, over grids of all indices at once.

Values are of NumPy's own types, as the caller gives elements: what is computed in float64 and what
in an integer's own type, catalog/operators/evaluate.py says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import TensologError
from .index_notation import Read, Reduce, Term, Variable
from .term_evaluator import GridEvaluator

Array = npt.NDArray[Any]


class EvaluationError(TensologError):
    """Data on which an operator has no value, such as an index outside of a tensor."""


def known_extent(term: Term) -> int:
    """Return how far an index runs; raises EvaluationError where that is not known."""
    if isinstance(term, int):
        return term
    raise EvaluationError(f"{term} must be known to compute values")


class NumpyEvaluator(GridEvaluator[Any]):
    """Evaluates with NumPy's own types; where `mask` doesn't hold, a value is not used."""

    def __init__(self, tensors: Mapping[str, Array]) -> None:
        super().__init__()
        self.tensors = tensors
        self.mask: Any = True

    def refusal(self, term: Term) -> EvaluationError:
        """Say that a term has no value while something in it is unknown."""
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
        """Return a known number."""
        return value

    def variable(self, variable: Variable) -> Any:
        """Return an index, all of its values at once."""
        return self.bound[variable]

    def apply(self, function: str, arguments: Sequence[Any]) -> Any:
        """Return what a primitive gives, entry by entry."""
        return PRIMITIVE[function](*arguments)

    def junction(self, function: str, left: Term, right: Term) -> Any:
        """Return `and` or `or`; the right side is not used where the left one decides."""
        first = self.value(left)
        with self._where(first if function == "and" else np.logical_not(first)):
            return PRIMITIVE[function](first, self.value(right))

    def select(self, condition: Term, then: Term, otherwise: Term) -> Any:
        """Return one of two values at each index; the other one is not used there."""
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
        """Return elements; raises EvaluationError where an index that is used lies outside."""
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
        """Return a reduction over all of its indices where the condition holds."""
        extents = [known_extent(extent) for extent in reduction.extents]
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
