"""Real numbers as float64, rounded at every step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ....catalog.terms.numpy_evaluator import PRIMITIVE
from .arithmetic import REDUCE, Array, NoValueError


def has_value(function: str, arguments: Sequence[Array]) -> Any:
    """Where a primitive of float64 numbers has a value among the reals."""
    a = arguments[0]
    match function:
        case "/" | "%" | "mod" | "fmod" | "//":
            return np.not_equal(arguments[1], 0)
        case "sqrt":
            return np.greater_equal(a, 0)
        case "log":
            return np.greater(a, 0)
        case "asin" | "acos":
            return np.less_equal(np.abs(a), 1)
        case "acosh":
            return np.greater_equal(a, 1)
        case "atanh":
            return np.less(np.abs(a), 1)
        case "pow":
            b = arguments[1]
            root = np.logical_and(np.less(a, 0), np.not_equal(b, np.rint(b)))
            pole = np.logical_and(np.equal(a, 0), np.less(b, 0))
            return np.logical_not(np.logical_or(root, pole))
        case _:
            return True


class Float:
    """Real numbers as float64, rounded at every step."""

    name = "float64"
    largest = 1 << 22

    def real(self, array: Any) -> Array:
        """Known numbers as float64."""
        return np.asarray(array, np.float64)

    def pi(self) -> Array:
        """The float64 next to pi."""
        return np.asarray(math.pi)

    def apply(self, function: str, arguments: Sequence[Array]) -> tuple[Array, Any]:
        """A primitive, and where it has a value."""
        if function not in PRIMITIVE:
            raise NoValueError(f"{function} is not computed")
        with np.errstate(all="ignore"):
            return np.asarray(PRIMITIVE[function](*arguments)), has_value(function, arguments)

    def compare(self, relation: str, left: Array, right: Array) -> Array:
        """Truth values."""
        return np.asarray(PRIMITIVE[relation](left, right))

    def reduce(self, kind: str, body: Array, axes: tuple[int, ...]) -> Array:
        """A reduction of what isn't empty."""
        return np.asarray(REDUCE[kind](body, axis=axes))

    def neutral(self, kind: str) -> Any:
        """What changes no reduction."""
        return {"sum": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}[kind]

    def truncate(self, array: Array) -> npt.NDArray[np.int64]:
        """Rounded towards 0."""
        finite = np.where(np.isfinite(array), array, 0)
        return np.trunc(finite).astype(np.int64)
