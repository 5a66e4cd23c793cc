"""The arithmetic that programs are compared in: that of a field with the order of numbers.

Small fractions are below or above each other in it. Where exp or log occur, it is a ring in which
they keep their laws.

A residue modulo P Q, both prime, is one modulo P and one modulo Q, and Q divides P - 1. There is a
g whose powers modulo P repeat after Q steps, so that x -> g^x takes sums modulo Q to products
modulo P: exp(a + b) = exp(a) exp(b) holds modulo P for arguments that are right modulo Q, and
log(a b) = log(a) + log(b), log(exp(x)) = x hold modulo Q for arguments that are right modulo P
(Mirage: Wu et al., OSDI 2025, section 5, has exp so, once on a path). The other residue is random,
so that neither function seems to have any other law. Terms that agree modulo P, or modulo Q, are
candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ...catalog.terms.numpy_evaluator import PRIMITIVE
from ..gate.evaluation.arithmetic import Array
from ..gate.evaluation.field import Field, power, random_residues

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


# P Q is below 2^31, so that products fit into 64 bits; P - 1 is Q times something that Q does not
# divide.
P, Q = 2_122_937, 1_009
_COFACTOR = (P - 1) // Q
# What makes of residues modulo P and modulo Q one modulo P Q.
_OF_P, _OF_Q = Q * pow(Q, -1, P), P * pow(P, -1, Q)
# Of exp the residue modulo Q is the first of so many random ones that makes it a positive number.
_MOST_DRAWN = 24
EXPONENTIAL = frozenset({"exp", "log", "sinh", "cosh", "tanh"})


class ExponentialRing(OrderedField):
    """Residues modulo P Q, in which small fractions have the order of numbers."""

    name = "ring with exponentials"
    modulus = P * Q

    def views(self, array: Array) -> tuple[Array, ...]:
        """The residues of which either decides whether two terms are equal."""
        return array % P, array % Q

    def apply(self, function: str, arguments: Sequence[Array]) -> tuple[Array, Any]:
        """A primitive; functions that are neither rational nor exponential are random ones."""
        a = np.asarray(arguments[0])
        match function:
            case "/":
                b = np.asarray(arguments[1])
                inverse = _joined(power(b % P, P - 2, P), power(b % Q, Q - 2, Q))
                return a * inverse % self.modulus, b != 0
            case "exp":
                return self._exp(a), True
            case "log":
                residue = random_residues("log", (a % P,), P)
                return _joined(residue, _logarithms()[power(a % P, _COFACTOR, P)]), a % P != 0
            case "sinh" | "cosh" | "tanh":
                return self._hyperbolic(function, a)
            case "sqrt":
                return random_residues("sqrt", (a,), self.modulus), True
            case _:
                return super().apply(function, arguments)

    def _exp(self, a: Array) -> Array:
        raised = _powers()[a % Q]
        result = _joined(raised, random_residues("exp", (raised,), Q))
        for draw in range(1, _MOST_DRAWN):
            other = _joined(raised, random_residues("exp", (raised + draw * P,), Q))
            result = np.where(self.scaled(result) > 0, result, other)
        return np.asarray(result)

    def _hyperbolic(self, function: str, a: Array) -> tuple[Array, Any]:
        up, down = self._exp(a), self._exp(-a % self.modulus)
        difference, total = (up - down) % self.modulus, (up + down) % self.modulus
        if function == "tanh":
            return self.apply("/", (difference, total))
        return self.apply("/", (difference if function == "sinh" else total, np.asarray(2)))


def _joined(modulo_p: Array, modulo_q: Array) -> Array:
    return np.asarray((modulo_p * _OF_P + modulo_q * _OF_Q) % (P * Q))


@cache
def _powers() -> npt.NDArray[np.int64]:
    """g^x modulo P for all x modulo Q."""
    base = next(g for n in range(2, P) if (g := pow(n, _COFACTOR, P)) != 1)
    powers = [1]
    while len(powers) < Q:
        powers.append(powers[-1] * base % P)
    return np.array(powers, np.int64)


@cache
def _logarithms() -> npt.NDArray[np.int64]:
    """By y^((P - 1) / Q) the logarithm of y modulo Q, 0 for what is no such power."""
    logarithms = np.zeros(P, np.int64)
    logarithms[_powers()] = np.arange(Q) * pow(_COFACTOR, -1, Q) % Q
    return logarithms
