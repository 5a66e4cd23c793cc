"""Arithmetic in a prime field, to suspect a difference.

In the field of 2**31 - 1 elements a polynomial that isn't zero is zero at a random point with
probability degree / 2**31 (Schwartz and Zippel); a function that isn't rational becomes a fixed
random one, so that laws of its own, such as exp(a + b) = exp(a) exp(b), look false there: a
difference in the field is a suspicion.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from ....catalog.terms.comparisons import COMPARISONS
from .arithmetic import Array, NoValueError

PRIME = 2**31 - 1


def residue(value: Any, modulus: int = PRIME) -> int:
    """A rational number in the field, or modulo something else that its denominator has."""
    if isinstance(value, float) and not math.isfinite(value):
        raise NoValueError(f"{value} is no real number")
    fraction = Fraction(str(value)) if isinstance(value, float) else Fraction(value)
    if math.gcd(fraction.denominator, modulus) > 1:
        raise NoValueError(f"{value} is not in the field")
    return fraction.numerator * pow(fraction.denominator, -1, modulus) % modulus


def power(base: Array, exponent: int, modulus: int) -> Array:
    """Residues to a power."""
    result, square = np.ones_like(base), base
    while exponent:
        if exponent & 1:
            result = result * square % modulus
        square = square * square % modulus
        exponent >>= 1
    return result


def random_residues(function: str, arguments: Sequence[Array], modulus: int) -> Array:
    """A fixed random function of residues (the mixing steps of splitmix64)."""
    seed = int.from_bytes(function.encode()[:7], "little")
    state: Any = np.uint64(seed * 0x9E3779B97F4A7C15 % 2**64)
    for argument in arguments:
        state = state ^ argument.astype(np.uint64)
        state = state * np.uint64(0xBF58476D1CE4E5B9)
        state = state ^ (state >> np.uint64(27))
        state = state * np.uint64(0x94D049BB133111EB)
        state = state ^ (state >> np.uint64(31))
    return np.asarray(state % np.uint64(modulus)).astype(np.int64)


class Field:
    """Real numbers as residues modulo 2**31 - 1, in int64; order is that of small integers."""

    name = "prime field"
    largest = 1 << 21
    modulus = PRIME

    def real(self, array: Any) -> Array:
        """Known numbers as residues."""
        values = np.asarray(array)
        if values.dtype.kind in "iub":
            return np.asarray(values.astype(np.int64) % self.modulus)
        residues = [residue(value, self.modulus) for value in values.reshape(-1).tolist()]
        return np.asarray(residues, np.int64).reshape(values.shape)

    def pi(self) -> Array:
        """A random residue in the place of pi."""
        return np.asarray(1234567891)

    def apply(self, function: str, arguments: Sequence[Array]) -> tuple[Array, Any]:
        """A primitive; only a division by 0 has no value here."""
        a = np.asarray(arguments[0])
        match function:
            case "+":
                return (a + arguments[1]) % self.modulus, True
            case "-":
                return (a - arguments[1]) % self.modulus, True
            case "*":
                return a * arguments[1] % self.modulus, True
            case "neg":
                return -a % self.modulus, True
            case "/":
                return a * power(
                    np.asarray(arguments[1]), PRIME - 2, PRIME
                ) % self.modulus, arguments[1] != 0
            case "max" | "min":
                pick = np.maximum if function == "max" else np.minimum
                return pick(self._centred(a), self._centred(arguments[1])) % self.modulus, True
            case "abs":
                return np.abs(self._centred(a)), True
            case "sign":
                return np.sign(self._centred(a)) % self.modulus, True
            case "sqrt":
                # p is 3 mod 4: multiplicative, and a root of every square
                return power(a, (PRIME + 1) // 4, PRIME), True
            case "pow":
                return self._pow(a, np.asarray(arguments[1]))
            case _:
                return random_residues(function, arguments, self.modulus), True

    def _pow(self, a: Array, b: Array) -> tuple[Array, Any]:
        exponents = self._centred(b)
        if exponents.size == 1 and 0 <= int(exponents.reshape(-1)[0]) <= 64:
            return power(a, int(exponents.reshape(-1)[0]), self.modulus), True
        return random_residues("pow", (a, b), self.modulus), True

    def compare(self, relation: str, left: Array, right: Array) -> Array:
        """Truth values, as of small integers."""
        a, b = self._centred(left), self._centred(right)
        return np.asarray(COMPARISONS[relation](a, b))

    def reduce(self, kind: str, body: Array, axes: tuple[int, ...]) -> Array:
        """A reduction of what isn't empty."""
        if kind == "sum":
            return np.asarray(np.sum(body, axis=axes) % self.modulus)
        if kind in ("max", "min"):
            pick = np.max if kind == "max" else np.min
            return np.asarray(pick(self._centred(body), axis=axes) % self.modulus)
        flat = np.moveaxis(body, axes, range(len(axes)))
        flat = flat.reshape((-1, *flat.shape[len(axes) :]))
        result = flat[0]
        for row in flat[1:]:
            result = result * row % self.modulus
        return np.asarray(result)

    def neutral(self, kind: str) -> Any:
        """What changes no reduction."""
        return {"sum": 0, "prod": 1, "max": self.modulus // 2 + 1, "min": self.modulus // 2}[kind]

    def truncate(self, array: Array) -> npt.NDArray[np.int64]:
        """Residues are integers."""
        return np.asarray(self._centred(array))

    def _centred(self, array: Array) -> Array:
        """Residues as integers around 0, so that small integers keep their order."""
        return np.where(array > self.modulus // 2, array - self.modulus, array)
