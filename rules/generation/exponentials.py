"""Arithmetic in which exp and log keep their laws, for programs that have them.

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

from ..gate.evaluation.arithmetic import Array
from ..gate.evaluation.field import power, random_residues
from .ordered_field import OrderedField

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
