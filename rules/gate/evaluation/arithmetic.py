"""Numbers for a statement, of its symbols and elements, and what computing with real ones asks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from ....catalog.errors import TensologError
from ....catalog.terms.comparisons import COMPARISONS
from ....catalog.terms.index_notation import Symbol, Term
from ....catalog.terms.term_evaluator import TermEvaluator
from ...prover.statement import Algebra

Array = npt.NDArray[Any]
Number = int | float | Fraction | bool

# "index": made of dimensions and indices, so that `/` divides as reals; "integer": an element of an
# integer tensor, whose `/` truncates.
Kind = Literal["index", "integer", "real", "boolean"]


class NoValueError(TensologError):
    """Sizes for which a statement can't be computed: a negative dimension, a division by 0."""


class TooLargeError(TensologError):
    """Sizes for which computing a statement would take too many steps."""


@dataclass(frozen=True)
class Assignment:
    """Numbers for the symbols of a statement, and an array for each operand.

    Arrays are float64, int64 or bool by the operand's algebra.
    """

    symbols: Mapping[str, Number]
    arrays: Mapping[str, Array]


@dataclass(frozen=True)
class Tensor:
    """The elements of a tensor, and which of them have a value (of the same shape)."""

    values: Array
    defined: Array
    kind: Kind


@dataclass(frozen=True)
class Element:
    """A term on a grid of indices; `values` and `defined` broadcast to the grid."""

    values: Any
    defined: Any
    kind: Kind


class Arithmetic(Protocol):
    """What real numbers are, as arrays, and how they are computed with."""

    name: str
    # grids of more elements than this are not computed
    largest: int

    def real(self, array: Any) -> Array:
        """Numbers that are known (integers, truth values, float64, Fractions) as real numbers."""

    def pi(self) -> Array:
        """The number pi."""

    def apply(self, function: str, arguments: Sequence[Array]) -> tuple[Array, Any]:
        """A primitive of reals, and where it has a value."""

    def compare(self, relation: str, left: Array, right: Array) -> Array:
        """Truth values of = != < <= > >=."""

    def reduce(self, kind: str, body: Array, axes: tuple[int, ...]) -> Array:
        """The sum, prod, max or min over axes of a body that isn't empty."""

    def neutral(self, kind: str) -> Any:
        """What changes no reduction of a kind."""

    def truncate(self, array: Array) -> npt.NDArray[np.int64]:
        """Reals as integers, rounded towards 0."""


KINDS: Mapping[Algebra, Kind] = {"real": "real", "integer": "integer", "boolean": "boolean"}


def stored_as(kind: Kind) -> type:
    """The type of NumPy that holds elements of a kind, real ones before an arithmetic has them."""
    return {"real": np.float64, "boolean": np.bool_}.get(kind, np.int64)


REDUCE: Mapping[str, Callable[..., Any]] = {
    "sum": np.sum,
    "prod": np.prod,
    "max": np.max,
    "min": np.min,
    "any": np.any,
    "all": np.all,
}


# ------------------------------------------------------------------------------------ sizes


class Scalars(TermEvaluator[Any]):
    """Evaluates terms of symbols with Python's numbers; raises NoValueError."""

    def __init__(self, symbols: Mapping[str, Number]) -> None:
        self.symbols = symbols

    def refusal(self, term: Term) -> NoValueError:
        """Say that elements and indices are no known numbers."""
        return NoValueError(f"{term} is no number")

    def constant(self, value: bool | int | float) -> Any:
        """A known number."""
        return value

    def symbol(self, symbol: Symbol) -> Any:
        """The number that a symbol stands for."""
        if symbol.name not in self.symbols:
            raise NoValueError(f"{symbol.name} has no value")
        return self.symbols[symbol.name]

    def apply(self, function: str, arguments: Sequence[Any]) -> Any:
        """A primitive, where it has a value."""
        if function not in _SCALAR:
            raise NoValueError(f"{function} is not computed")
        try:
            return _SCALAR[function](*arguments)
        except (ZeroDivisionError, ValueError, OverflowError):
            raise NoValueError(f"{function} of {arguments} has no value") from None

    def junction(self, function: str, left: Term, right: Term) -> bool:
        """`and` or `or`; the right side is looked at where the left one doesn't decide."""
        if bool(self.value(left)) is (function == "or"):
            return function == "or"
        return bool(self.value(right))

    def select(self, condition: Term, then: Term, otherwise: Term) -> Any:
        """The value that is chosen."""
        return self.value(then if self.value(condition) else otherwise)


def number(term: Term, symbols: Mapping[str, Number]) -> Any:
    """A term of symbols alone, such as a dimension or a condition on sizes, as a number."""
    return Scalars(symbols).value(term)


def _ratio(a: Number, b: Number) -> Number:
    if isinstance(a, float) or isinstance(b, float):
        return float(a) / float(b)
    return Fraction(a) / Fraction(b)


_SCALAR: Mapping[str, Callable[..., Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _ratio,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "mod": lambda a, b: a % b,
    "neg": lambda a: -a,
    "max": max,
    "min": min,
    "abs": abs,
    "floor": math.floor,
    "ceil": math.ceil,
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "erf": math.erf,
    "tanh": math.tanh,
    "pi": lambda: math.pi,
    "real": lambda a: a,
    "not": lambda a: not a,
    **COMPARISONS,
}


def shape_at(shape: Sequence[Term], symbols: Mapping[str, Number]) -> tuple[int, ...]:
    """A shape as numbers; NoValueError where one is negative or no integer."""
    sizes = tuple(number(size, symbols) for size in shape)
    if any(size != int(size) or size < 0 for size in sizes):
        raise NoValueError(f"{', '.join(map(str, sizes))} is no shape")
    return tuple(int(size) for size in sizes)
