"""In which algebra a term is an element, and the sign that its form shows.

Signs are seen before products of sums are multiplied out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from ....catalog.operators.expand import Definition
from ....catalog.terms.comparisons import COMPARISONS
from ....catalog.terms.index_notation import (
    Apply,
    Read,
    Reduce,
    Select,
    Symbol,
    Term,
    Variable,
    is_integer,
)
from ..normal.context import Context
from ..normal.definedness import Condition
from ..normal.sums import Product
from ..solve.polynomials import Polynomial, variable
from ..statement import Algebra, Operand


@dataclass
class Signs:
    """1 for a term that is positive wherever it has a value, 0 for one never negative, or None.

    `integer` says so of integers; `of_symbols` of real symbols.
    """

    definitions: Mapping[str, Definition]
    integer: Callable[[Term], int | None]
    of_symbols: dict[str, int] = field(default_factory=dict)
    _of_definitions: dict[str, int | None] = field(default_factory=dict)

    def of(self, term: Term) -> int | None:
        """Return the sign of a real term."""
        match term:
            case bool():
                return 0
            case int() | float():
                return None if not term >= 0 else 1 if term > 0 else 0
            case Symbol(name, "real"):
                return self.of_symbols.get(name)
            case Apply(function, arguments):
                return self._apply(function, arguments, term)
            case Select(_, then, otherwise):
                return _least(self.of(then), self.of(otherwise))
            case Reduce("sum" | "min" | "max" as kind, _, _, _, body):
                inner = self.of(body)
                return None if inner is None else 0 if kind == "sum" else inner
            case Reduce("prod", _, _, _, body):
                return self.of(body)
            case Read(tensor, _):
                return self._definition(tensor)
            case _:
                return self.integer(term) if is_integer(term) else None

    def _definition(self, name: str) -> int | None:
        if name not in self.definitions:
            return None
        if name not in self._of_definitions:
            self._of_definitions[name] = None
            self._of_definitions[name] = self.of(self.definitions[name].value)
        return self._of_definitions[name]

    def _apply(self, function: str, arguments: tuple[Term, ...], term: Term) -> int | None:
        if is_integer(term):
            return self.integer(term)
        signs = [self.of(argument) for argument in arguments]
        match function:
            case "+":
                if None in signs:
                    return None
                return 1 if 1 in signs else 0
            case "*":
                if arguments[0] == arguments[1]:
                    return 1 if signs[0] == 1 else 0
                return _least(*signs)
            case "/":
                if None in signs:
                    return None
                return signs[0]
            case "max":
                return max((sign for sign in signs if sign is not None), default=None)
            case "min":
                return _least(*signs)
            case "exp":
                return 1
            case "abs" | "sqrt":
                return 1 if signs[0] == 1 else 0
            case "real":
                return signs[0]
            case "pow":
                even = isinstance(arguments[1], int) and arguments[1] % 2 == 0
                return signs[0] if signs[0] is not None else 0 if even else None
            case _:
                return None


def _least(*signs: int | None) -> int | None:
    return None if None in signs else min(sign for sign in signs if sign is not None)


INDEX = ("+", "-", "*", "//", "%", "neg", "max", "min", "abs", "floor", "ceil")
CONNECTIVES = ("and", "or", "not", "xor", "to_bool")
PREDICATES = ("isnan", "is_positive_inf", "is_negative_inf")
INTEGERS: Mapping[str, tuple[int, int]] = {
    **{f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (4, 8, 16, 32, 64)},
    **{f"uint{bits}": (0, 2**bits - 1) for bits in (4, 8, 16, 32, 64)},
}


@dataclass
class Kinds:
    """The definitions of one statement, and the kinds of their terms."""

    context: Context
    definitions: Mapping[str, Definition]
    operands: Mapping[str, Operand]
    algebras: Mapping[str, Algebra]
    types: Mapping[str, str] = field(default_factory=dict)
    signs: Signs = field(default_factory=lambda: Signs({}, lambda _: None))
    facts: list[Condition] = field(default_factory=list)
    # Whether |x| and the larger of two are chosen by their order, case by case.
    by_order: bool = False
    # Whether what holds where an element is read simplifies the element.
    in_context: bool = False
    # Whether bounds and choices among indices are decided by it, too.
    by_guards: bool = False
    # Whether an element to which sizes are added is an integer, as an index.
    exact_sums: bool = False
    # Sizes that have become others (solve/size_facts.py).
    symbol_values: Mapping[str, Polynomial] = field(default_factory=dict)
    _memory: dict[tuple[str, str, str], tuple[list[Product], list[Condition]]] = field(
        default_factory=dict
    )

    def symbol(self, name: str) -> Polynomial:
        """Return what an integer symbol is."""
        return self.symbol_values.get(name, variable(name))

    def algebra(self, tensor: str) -> Algebra:
        """Return the algebra of the elements of a tensor."""
        if tensor in self.operands:
            return self.operands[tensor].algebra
        return self.algebras.get(tensor, "real")

    def is_index(self, term: Term) -> bool:
        """Whether a term is an integer made of dimensions, indices and elements."""
        match term:
            case bool() | float():
                return False
            case int() | Variable():
                return True
            case Symbol(_, kind):
                return kind != "real"
            case Apply("floor" | "ceil", (inner,)):
                return self.is_index(inner) or is_fraction(inner)
            case Apply(function, arguments):
                return function in INDEX and all(map(self.is_index, arguments))
            case Select(_, then, otherwise):
                return self.is_index(then) and self.is_index(otherwise)
            case Read(tensor, _):
                return self.algebra(tensor) == "integer"
            case _:
                return False

    def is_truth(self, term: Term) -> bool:
        """Whether a term is a truth value."""
        match term:
            case bool():
                return True
            case Apply(function, _):
                return function in (*COMPARISONS, *PREDICATES, *CONNECTIVES)
            case Read(tensor, _):
                return self.algebra(tensor) == "boolean"
            case Reduce(kind):
                return kind in ("any", "all")
            case Select(_, then, otherwise):
                return self.is_truth(then) and self.is_truth(otherwise)
            case _:
                return False

    def kind(self, *terms: Term) -> Algebra:
        """Return the algebra in which terms are elements."""
        if all(map(self.is_truth, terms)):
            return "boolean"
        if all(self._integral(term) for term in terms):
            return "integer"
        return "real"

    def _integral(self, term: Term) -> bool:
        match term:
            case Apply(function, arguments):
                if function == "int32" or function[3:] in INTEGERS:
                    return True
                if function in ("real", "pi") or function.startswith("to_"):
                    return False
                return all(map(self._integral, arguments))
            case Select(_, then, otherwise):
                return self._integral(then) and self._integral(otherwise)
            case Reduce():
                return self._integral(term.body)
            case _:
                return self.is_index(term) or self.is_truth(term)


def is_fraction(term: Term) -> bool:
    """Whether a term is a quotient of integers made of dimensions and indices."""
    match term:
        case bool():
            return False
        case float():  # no decimal that is written in the place of an irrational number
            return math.isfinite(term) and Fraction(repr(term)) == Fraction(term)
        case Apply("real" | "neg" | "+" | "-" | "*" | "/", arguments):
            return all(map(is_fraction, arguments))
        case Select(condition, then, otherwise):
            return not reads_elements(condition) and is_fraction(then) and is_fraction(otherwise)
        case _:
            return is_integer(term)


def reads_elements(term: Term) -> bool:
    """Whether a term reads an element outside of a reduction."""
    match term:
        case Read():
            return True
        case Apply(_, arguments):
            return any(map(reads_elements, arguments))
        case Select(condition, then, otherwise):
            return reads_elements(condition) or reads_elements(then) or reads_elements(otherwise)
        case _:
            return False
