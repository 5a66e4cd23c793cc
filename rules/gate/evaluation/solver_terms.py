"""Terms of sizes and indices as Z3's terms, over integers and reals without end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import z3

from ....catalog.terms.comparisons import COMPARISONS
from ....catalog.terms.index_notation import Symbol, Term
from ....catalog.terms.term_evaluator import TermEvaluator
from .arithmetic import Number


class NotInSolverError(Exception):
    """A term that isn't about sizes."""


class SolverTerms(TermEvaluator[Any]):
    """Writes terms for Z3, whose // and % are those of numbers where divisors are positive only."""

    def __init__(self, symbols: Mapping[str, Symbol]) -> None:
        """`symbols` says by name which are real, where a term may say it otherwise."""
        self.symbols = symbols

    def refusal(self, term: Term) -> Exception:
        """What isn't about sizes is not written."""
        return NotInSolverError(f"{term} is not about sizes")

    def truth(self, term: Term) -> Any:
        """A condition, as Z3 adds it."""
        condition = self.value(term)
        return z3.BoolVal(condition) if isinstance(condition, bool) else condition

    def constant(self, value: bool | int | float) -> Any:
        """A known number; a float is the decimal fraction that it is printed as."""
        if isinstance(value, bool):
            return z3.BoolVal(value)
        return solver_number(Fraction(str(value)) if isinstance(value, float) else value)

    def symbol(self, symbol: Symbol) -> Any:
        """A size, an integer or a scalar of the rule."""
        return solver_variable(self.symbols.get(symbol.name, symbol))

    def apply(self, function: str, arguments: Sequence[Any]) -> Any:
        """A primitive of integers and reals."""
        if function not in _PRIMITIVES:
            raise NotInSolverError(f"{function} is not written for Z3")
        return _PRIMITIVES[function](*arguments)

    def select(self, condition: Term, then: Term, otherwise: Term) -> Any:
        """One of two numbers."""
        return z3.If(self.truth(condition), self.value(then), self.value(otherwise))


def solver_variable(symbol: Symbol) -> Any:
    """The unknown number that a symbol is."""
    return z3.Real(symbol.name) if symbol.kind == "real" else z3.Int(symbol.name)


def solver_number(value: Number) -> Any:
    """A known number."""
    if isinstance(value, int):
        return z3.IntVal(int(value))
    fraction = Fraction(value)
    return z3.Q(fraction.numerator, fraction.denominator)


def _ratio(a: Any, b: Any) -> Any:
    return z3.ToReal(a) / z3.ToReal(b) if z3.is_int(a) and z3.is_int(b) else a / b


_PRIMITIVES: Mapping[str, Callable[..., Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _ratio,
    "//": lambda a, b: a / b,
    "%": lambda a, b: a % b,
    "mod": lambda a, b: a % b,
    "neg": lambda a: -a,
    "real": lambda a: a,
    "max": lambda a, b: z3.If(a >= b, a, b),
    "min": lambda a, b: z3.If(a <= b, a, b),
    "abs": lambda a: z3.If(a >= 0, a, -a),
    **COMPARISONS,
    "and": z3.And,
    "or": z3.Or,
    "not": z3.Not,
}
