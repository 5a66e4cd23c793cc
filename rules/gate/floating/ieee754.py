"""Scalar terms in floating-point arithmetic: as formulas of Z3, and computed with NumPy.

Every operation rounds once, to nearest and ties to even, as IEEE 754 has it. What it leaves open,
the sign of max(-0.0, 0.0), is for a kernel to choose: a formula holds for every choice, each kernel
(`max:Relu`, `max:Y`) making its own. A NaN among the operands of max and min makes a NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import z3
from numpy.typing import NDArray

from ....catalog.terms.comparisons import COMPARISONS
from ....catalog.terms.index_notation import (
    Apply,
    Read,
    Select,
    Symbol,
    Term,
    Variable,
    is_integer,
    reads,
    symbols,
)
from ....catalog.terms.numpy_evaluator import PRIMITIVE
from ....catalog.terms.term_evaluator import TermEvaluator
from ..evaluation.solver_terms import SolverTerms

Array = NDArray[Any]
Formula = Any  # the solver's expressions are not typed

# Integers up to here are numbers of every element type.
_EXACT = 2048


class NotFloatingError(Exception):
    """A term that is no arithmetic that IEEE 754 fixes, and why."""


def number(value: int | float, dtype: str) -> np.floating[Any]:
    """Return a number as the constant of a model holds it."""
    if isinstance(value, int) and abs(value) > _EXACT:
        raise NotFloatingError(f"{value} may be no {dtype}")
    with np.errstate(all="ignore"):
        rounded: np.floating[Any] = np.dtype(dtype).type(value)
    return rounded


def is_of_indices(term: Term) -> bool:
    """Tell whether a condition or number is made of sizes and indices only."""
    match term:
        case bool():
            return True
        case Read() | float():
            return False
        case Apply(_, arguments):
            return all(map(is_of_indices, arguments))
        case Select(condition, then, otherwise):
            return all(map(is_of_indices, (condition, then, otherwise)))
        case _:
            return is_integer(term)


class Formulas:
    """Translates terms; `places` names the unknown that stands for an element of an operand.

    `results` are the results of arithmetic in what was translated.
    """

    def __init__(self, dtype: str, places: Mapping[Read, str], truths: frozenset[str]) -> None:
        """`truths` names the operands that hold truth values."""
        self.dtype = dtype
        self.sort = z3.Float32() if dtype == "float32" else z3.Float16()
        self.places, self.truths = places, truths
        self.even = z3.RNE()
        self.results: list[Formula] = []

    def value(self, term: Term) -> Formula:
        """Return an element's value; raises NotFloatingError."""
        match term:
            case bool():
                raise NotFloatingError("a truth value is computed with")
            case int() | float():
                return self._number(term)
            case Symbol(name, "real"):
                return z3.FP(name, self.sort)
            case Read(tensor) if tensor not in self.truths:
                return z3.FP(self.places[term], self.sort)
            case Select(condition, then, otherwise):
                return z3.If(self.truth(condition), self.value(then), self.value(otherwise))
            case Apply(function, arguments):
                return self._apply(function, arguments)
        raise NotFloatingError(f"{term} is no floating-point number")

    def _number(self, value: int | float) -> Formula:
        rounded = number(value, self.dtype)
        if np.isnan(rounded):
            return z3.fpNaN(self.sort)
        return z3.FPVal(float(rounded), self.sort)

    def _apply(self, function: str, arguments: Sequence[Term]) -> Formula:
        kind, _, kernel = function.partition(":")
        if kind not in ARITHMETIC or not any(map(is_of_elements, arguments)):
            raise NotFloatingError(f"{Apply(function, tuple(arguments))} is not fixed by IEEE 754")
        values = [self.value(argument) for argument in arguments]
        if kind in ("max", "min"):
            return self._extreme(kind, kernel, *values)
        rounded = kind in _ROUNDED
        result = _ROUNDED[kind](self.even, *values) if rounded else _UNROUNDED[kind](*values)
        self.results.append(result)
        return result

    def _extreme(self, kind: str, kernel: str, left: Formula, right: Formula) -> Formula:
        first = z3.Bool(f"{kind} of -0.0 and 0.0 is -0.0 in {kernel}")
        second = z3.Bool(f"{kind} of 0.0 and -0.0 is -0.0 in {kernel}")
        minus, plus = z3.fpMinusZero(self.sort), z3.fpPlusZero(self.sort)
        chosen = z3.If(z3.fpIsNegative(left), first, second)
        # equal numbers are the same number but for zeros of two signs
        tie = z3.If(left == right, left, z3.If(chosen, minus, plus))
        wins = z3.fpGT(left, right) if kind == "max" else z3.fpLT(left, right)
        loses = z3.fpLT(left, right) if kind == "max" else z3.fpGT(left, right)
        unordered = z3.Or(z3.fpIsNaN(left), z3.fpIsNaN(right))
        number = z3.If(wins, left, z3.If(loses, right, tie))
        return z3.If(unordered, z3.fpNaN(self.sort), number)

    def truth(self, term: Term) -> Formula:
        """Return a condition on elements, or on sizes and indices."""
        match term:
            case bool() | int():
                return z3.BoolVal(bool(term))
            case Read(tensor) if tensor in self.truths:
                return z3.Bool(self.places[term])
            case Select(condition, then, otherwise):
                return z3.If(self.truth(condition), self.truth(then), self.truth(otherwise))
            case Apply(function, arguments) if function in _LOGIC:
                return _LOGIC[function](*(self.truth(argument) for argument in arguments))
            case Apply(function, (left, right)) if function in COMPARISONS:
                if is_of_indices(left) and is_of_indices(right):
                    return condition_formula(term)
                return _COMPARE[function](self.value(left), self.value(right))
        raise NotFloatingError(f"{term} is no condition")


_LOGIC: Mapping[str, Callable[..., Formula]] = {
    "and": z3.And,
    "or": z3.Or,
    "not": z3.Not,
    "xor": z3.Xor,
}
ARITHMETIC = ("+", "-", "*", "/", "neg", "abs", "sqrt", "max", "min")
_ROUNDED: Mapping[str, Callable[..., Formula]] = {
    "+": z3.fpAdd,
    "-": z3.fpSub,
    "*": z3.fpMul,
    "/": z3.fpDiv,
    "sqrt": z3.fpSqrt,
}
_UNROUNDED: Mapping[str, Callable[..., Formula]] = {"neg": z3.fpNeg, "abs": z3.fpAbs}
_COMPARE: Mapping[str, Callable[[Formula, Formula], Formula]] = {
    "=": z3.fpEQ,
    "!=": z3.fpNEQ,
    "<": z3.fpLT,
    "<=": z3.fpLEQ,
    ">": z3.fpGT,
    ">=": z3.fpGEQ,
}


def is_of_elements(term: Term) -> bool:
    """Tell whether a term reads an element or a scalar of the rule."""
    return reads(term) or any(symbol.kind == "real" for symbol in symbols(term))


class _IndexTerms(SolverTerms):
    """Writes sizes and indices, as far as Z3 computes with them as numbers do."""

    def refusal(self, term: Term) -> NotFloatingError:
        return NotFloatingError(f"{term} is no size or index")

    def symbol(self, symbol: Symbol) -> Formula:
        if symbol.kind == "real":
            raise self.refusal(symbol)
        return super().symbol(symbol)

    def variable(self, variable: Variable) -> Formula:
        return z3.Int(str(variable))

    def constant(self, value: bool | int | float) -> Formula:
        if isinstance(value, float):
            raise self.refusal(value)
        return super().constant(value)

    def apply(self, function: str, arguments: Sequence[Formula]) -> Formula:
        # division and remainder of Z3 are those of numbers where the divisor is positive only
        if function not in _OF_INDICES:
            raise NotFloatingError(f"{function} of sizes and indices")
        return super().apply(function, arguments)


_OF_INDICES = frozenset((*COMPARISONS, "and", "or", "not", "+", "-", "*", "neg", "max", "min"))


def index_formula(term: Term) -> Formula:
    """Return a size or an index as an integer of Z3; raises NotFloatingError."""
    formula = _IndexTerms({}).value(term)
    if z3.is_bool(formula):
        raise NotFloatingError("a truth value stands for an index")
    return formula


def condition_formula(term: Term) -> Formula:
    """Return a condition on sizes and indices; raises NotFloatingError."""
    formula = _IndexTerms({}).value(term)
    if not z3.is_bool(formula):
        raise NotFloatingError(f"{term} is no condition on sizes")
    return formula


class Numbers(TermEvaluator[Array]):
    """Computes terms on arrays of numbers, one for each unknown; a kernel's choice is `zeros`.

    `finite` tells of each sample whether every result so far was a finite number. `value` raises
    NotFloatingError.
    """

    def __init__(
        self,
        dtype: str,
        places: Mapping[Read, str],
        known: Mapping[str, Array],
        zeros: Callable[[Array, Array], Array],
    ) -> None:
        self.dtype, self.places, self.values, self.zeros = dtype, places, known, zeros
        self.finite: Array = np.asarray(True)

    def value(self, term: Term) -> Array:
        """Return a number or truth value for each sample."""
        if isinstance(term, Apply) and is_of_indices(term):
            raise NotFloatingError(f"{term} depends on sizes")
        return super().value(term)

    def refusal(self, term: Term) -> NotFloatingError:
        """Say that indices and sums are none."""
        return NotFloatingError(f"{term} is no floating-point number")

    def constant(self, value: bool | int | float) -> Array:
        """Return a number as the constant of a model holds it."""
        return np.asarray(value if isinstance(value, bool) else number(value, self.dtype))

    def symbol(self, symbol: Symbol) -> Array:
        """Return the numbers of a scalar of the rule."""
        if symbol.kind != "real":
            raise self.refusal(symbol)
        return self.values[symbol.name]

    def read(self, element: Read) -> Array:
        """Return the numbers of an element."""
        return self.values[self.places[element]]

    def select(self, condition: Term, then: Term, otherwise: Term) -> Array:
        """Return the numbers that are chosen."""
        return np.where(self.value(condition), self.value(then), self.value(otherwise))

    def apply(self, function: str, arguments: Sequence[Array]) -> Array:
        """Return what a primitive gives, rounded once."""
        kind = function.partition(":")[0]
        if kind in ("max", "min"):
            return self._extreme(kind, *arguments)
        if kind not in _NUMPY:
            raise NotFloatingError(f"{function} is not fixed by IEEE 754")
        with np.errstate(all="ignore"):
            result: Array = _NUMPY[kind](*arguments)
        if result.dtype.kind == "f":
            self.finite = self.finite & np.isfinite(result)
        return result

    def _extreme(self, kind: str, left: Array, right: Array) -> Array:
        first = left > right if kind == "max" else left < right
        second = right > left if kind == "max" else right < left
        result = np.where(first, left, np.where(second, right, self.zeros(left, right)))
        nan = np.asarray(np.nan, left.dtype)
        return np.where(np.isnan(left) | np.isnan(right), nan, result)


# What IEEE 754 defines to the bit; a division by zero is one here.
_DEFINED = ("+", "-", "*", "neg", "abs", "sqrt", *COMPARISONS, "and", "or", "not", "xor")
_NUMPY: Mapping[str, Callable[..., Any]] = {
    **{name: PRIMITIVE[name] for name in _DEFINED},
    "/": np.divide,
}

# What kernels may make of two zeros of different signs.
CHOICES: tuple[Callable[[Array, Array], Array], ...] = (
    lambda left, right: left,
    lambda left, right: right,
    lambda left, right: np.where(np.signbit(left), left, right),
    lambda left, right: np.where(np.signbit(left), right, left),
)
