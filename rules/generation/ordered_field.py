"""The field with the order of numbers: small fractions are below or above each other in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...catalog.operators.evaluate import PRIMITIVE
from ..gate.evaluation.arithmetic import Array
from ..gate.evaluation.field import Field

# Operands are halves: products of up to six are integers times this.
SCALE = 1 << 6
# Residues this close to 0 stand for fractions; those of quotients and functions hardly ever are.
_SMALL = 1 << 28
_ROUNDING = {"round": np.rint, "floor": np.floor, "ceil": np.ceil}


class OrderedField(Field):
    """The field, in which small fractions of a power of two have the order of numbers.

    Times `SCALE` they are small integers, as residues around 0; what is none, the quotient of two
    operands or a random function of them, has an order too, which means nothing.
    """

    largest = 1 << 62

    def apply(self, function: str, arguments: Sequence[Array]) -> tuple[Array, Any]:
        """A primitive; a function that is not rational is a random one, exp a positive one."""
        a = np.asarray(arguments[0])
        if function in ("max", "min"):
            first = np.greater_equal if function == "max" else np.less_equal
            return np.where(first(self.scaled(a), self.scaled(arguments[1])), a, arguments[1]), True
        if function == "abs":
            return np.where(self.scaled(a) < 0, -a % self.modulus, a), True
        if function == "sign":
            return np.sign(self.scaled(a)) % self.modulus, True
        values, defined = super().apply(function, arguments)
        if function in _ROUNDING:
            scaled = self.scaled(a)
            whole = np.asarray(_ROUNDING[function](scaled / SCALE)).astype(np.int64) % self.modulus
            values = np.where(np.abs(scaled) < _SMALL, whole, values)
        elif function == "exp":
            values = self._of_scaled(values % (self.modulus // 2) + 1)
        return values, defined

    def compare(self, relation: str, left: Array, right: Array) -> Array:
        """Truth values, as of numbers."""
        return np.asarray(PRIMITIVE[relation](self.scaled(left), self.scaled(right)))

    def reduce(self, kind: str, body: Array, axes: tuple[int, ...]) -> Array:
        """A reduction of what isn't empty."""
        if kind in ("max", "min"):
            pick = np.max if kind == "max" else np.min
            return self._of_scaled(np.asarray(pick(self.scaled(body), axis=axes)))
        return super().reduce(kind, body, axes)

    def neutral(self, kind: str) -> Any:
        """What changes no reduction."""
        if kind in ("max", "min"):
            return int(
                self._of_scaled(
                    np.asarray(-(self.modulus // 2) if kind == "max" else self.modulus // 2)
                )
            )
        return super().neutral(kind)

    def truncate(self, array: Array) -> npt.NDArray[np.int64]:
        """Small fractions are rounded towards 0."""
        return np.trunc(self.scaled(array) / SCALE).astype(np.int64)

    def views(self, array: Array) -> tuple[Array, ...]:
        """What decides whether two terms are equal: all of their values."""
        return (array,)

    def scaled(self, array: Any) -> Array:
        """Residues times the common denominator, as integers around 0."""
        times = np.asarray(array) * SCALE % self.modulus
        return np.asarray(np.where(times > self.modulus // 2, times - self.modulus, times))

    def _of_scaled(self, array: Array) -> Array:
        inverse = pow(SCALE, -1, self.modulus)
        return np.asarray(array % self.modulus * inverse % self.modulus)
