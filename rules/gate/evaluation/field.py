"""Arithmetic in a prime field, to suspect a difference.

In the field of 2**31 - 1 elements a polynomial that isn't zero is zero at a random point with
probability degree / 2**31 (Schwartz and Zippel); a function that isn't rational becomes a fixed
random one, so that laws of its own, such as exp(a + b) = exp(a) exp(b), look false there: a
difference in the field is a suspicion.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from .arithmetic import Array, NoValueError

PRIME = 2**31 - 1


def residue(value: Any) -> int:
    """A rational number in the field."""
    if isinstance(value, float) and not math.isfinite(value):
        raise NoValueError(f"{value} is no real number")
    fraction = Fraction(str(value)) if isinstance(value, float) else Fraction(value)
    if fraction.denominator % PRIME == 0:
        raise NoValueError(f"{value} is not in the field")
    return fraction.numerator * pow(fraction.denominator, -1, PRIME) % PRIME


def _power(base: Array, exponent: int) -> Array:
    result, square = np.ones_like(base), base
    while exponent:
        if exponent & 1:
            result = result * square % PRIME
        square = square * square % PRIME
        exponent >>= 1
    return result


def _centred(array: Array) -> Array:
    """Residues as integers around 0, so that small integers keep their order."""
    return np.where(array > PRIME // 2, array - PRIME, array)


def _random(function: str, arguments: Sequence[Array]) -> Array:
    """A fixed random function of residues (the mixing steps of splitmix64)."""
    seed = int.from_bytes(function.encode()[:7], "little")
    state: Any = np.uint64(seed * 0x9E3779B97F4A7C15 % 2**64)
    for argument in arguments:
        state = state ^ argument.astype(np.uint64)
        state = state * np.uint64(0xBF58476D1CE4E5B9)
        state = state ^ (state >> np.uint64(27))
        state = state * np.uint64(0x94D049BB133111EB)
        state = state ^ (state >> np.uint64(31))
    return np.asarray(state % np.uint64(PRIME)).astype(np.int64)


class Field:
    """Real numbers as residues modulo 2**31 - 1, in int64; order is that of small integers."""

    name = "prime field"
    largest = 1 << 21

    def real(self, array: Any) -> Array:
        """Known numbers as residues."""
        given = np.asarray(array)
        if given.dtype.kind in "iub":
            return np.asarray(given.astype(np.int64) % PRIME)
        found = [residue(value) for value in given.reshape(-1).tolist()]
        return np.asarray(found, np.int64).reshape(given.shape)

    def pi(self) -> Array:
        """A random residue in the place of pi."""
        return np.asarray(1234567891)

    def apply(self, function: str, arguments: Sequence[Array]) -> tuple[Array, Any]:
        """A primitive; only a division by 0 has no value here."""
        a = np.asarray(arguments[0])
        match function:
            case "+":
                return (a + arguments[1]) % PRIME, True
            case "-":
                return (a - arguments[1]) % PRIME, True
            case "*":
                return a * arguments[1] % PRIME, True
            case "neg":
                return -a % PRIME, True
            case "/":
                return a * _power(np.asarray(arguments[1]), PRIME - 2) % PRIME, arguments[1] != 0
            case "max" | "min":
                pick = np.maximum if function == "max" else np.minimum
                return pick(_centred(a), _centred(arguments[1])) % PRIME, True
            case "abs":
                return np.abs(_centred(a)), True
            case "sign":
                return np.sign(_centred(a)) % PRIME, True
            case "sqrt":
                # p is 3 mod 4: multiplicative, and a root of every square
                return _power(a, (PRIME + 1) // 4), True
            case "pow":
                return self._pow(a, np.asarray(arguments[1]))
            case _:
                return _random(function, arguments), True

    def _pow(self, a: Array, b: Array) -> tuple[Array, Any]:
        exponents = _centred(b)
        if exponents.size == 1 and 0 <= int(exponents.reshape(-1)[0]) <= 64:
            return _power(a, int(exponents.reshape(-1)[0])), True
        return _random("pow", (a, b)), True

    def compare(self, relation: str, left: Array, right: Array) -> Array:
        """Truth values, as of small integers."""
        a, b = _centred(left), _centred(right)
        return np.asarray(_COMPARE[relation](a, b))

    def reduce(self, kind: str, body: Array, axes: tuple[int, ...]) -> Array:
        """A reduction of what isn't empty."""
        if kind == "sum":
            return np.asarray(np.sum(body, axis=axes) % PRIME)
        if kind in ("max", "min"):
            pick = np.max if kind == "max" else np.min
            return np.asarray(pick(_centred(body), axis=axes) % PRIME)
        flat = np.moveaxis(body, axes, range(len(axes)))
        flat = flat.reshape((-1, *flat.shape[len(axes) :]))
        result = flat[0]
        for row in flat[1:]:
            result = result * row % PRIME
        return np.asarray(result)

    def neutral(self, kind: str) -> Any:
        """What changes no reduction."""
        return {"sum": 0, "prod": 1, "max": PRIME // 2 + 1, "min": PRIME // 2}[kind]

    def truncate(self, array: Array) -> npt.NDArray[np.int64]:
        """Residues are integers."""
        return np.asarray(_centred(array))


_COMPARE: Mapping[str, Callable[..., Any]] = {
    "=": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
