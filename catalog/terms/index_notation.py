"""Index notation at known ranks: the terms that an expanded specification consists of.

Numbers are Python's own. Integers of dimensions and indices and the elements of tensors share one
kind of term, so that a tensor of indices can be read as an index.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from .comparisons import COMPARISONS


@dataclass(frozen=True)
class Symbol:
    """An unknown number: a dimension (a non-negative integer), an integer or a real one."""

    name: str
    kind: str = "dimension"

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, order=True)
class Variable:
    """An index; `number` keeps apart those of one name."""

    name: str
    number: int

    def __str__(self) -> str:
        return f"{self.name}{self.number}"


@dataclass(frozen=True)
class Apply:
    """A named primitive applied to terms."""

    function: str
    arguments: tuple[Term, ...]

    @cached_property
    def integral(self) -> bool:
        """Whether it is made of dimensions and indices only; terms are asked again and again."""
        return self.function in _INTEGRAL and all(map(is_integer, self.arguments))

    def __str__(self) -> str:
        if self.function.isidentifier() and self.function not in ("and", "or"):
            return f"{self.function}({', '.join(map(str, self.arguments))})"
        return f" {self.function} ".join(map(_operand, self.arguments))


@dataclass(frozen=True)
class Select:
    """`then` where the condition holds; the other term need not be defined there."""

    condition: Term
    then: Term
    otherwise: Term

    def __str__(self) -> str:
        return f"if {self.condition} then {self.then} else {self.otherwise}"


@dataclass(frozen=True)
class Read:
    """An element of an input or of a local tensor."""

    tensor: str
    indices: tuple[Term, ...]

    def __str__(self) -> str:
        return f"{self.tensor}[{', '.join(map(str, self.indices))}]"


@dataclass(frozen=True)
class Reduce:
    """sum | prod | max | min | any | all of `body` over the variables where `condition` holds."""

    kind: str
    variables: tuple[Variable, ...]
    extents: tuple[Term, ...]
    condition: Term
    body: Term

    def __str__(self) -> str:
        items = [f"{v} < {n}" for v, n in zip(self.variables, self.extents, strict=True)]
        items += [] if self.condition is True else [f"if {self.condition}"]
        return f"{self.kind}({', '.join(items)}) {_operand(self.body)}"


Term = int | float | bool | Symbol | Variable | Apply | Select | Read | Reduce


def _operand(term: Term) -> str:
    infix = isinstance(term, Apply) and (
        not term.function.isidentifier() or term.function in ("and", "or")
    )
    return f"({term})" if infix or isinstance(term, Select | Reduce) else str(term)


# -------------------------------------------------------------------------------- what is inside


def children(term: Term) -> tuple[Term, ...]:
    """Return the terms that a term is made of, the variables that it binds included."""
    match term:
        case Apply(_, arguments):
            return arguments
        case Select(condition, then, otherwise):
            return (condition, then, otherwise)
        case Read(_, indices):
            return indices
        case Reduce(_, variables, extents, condition, body):
            return (*variables, *extents, condition, body)
        case _:
            return ()


def subterms(term: Term) -> Iterator[Term]:
    """Yield a term and all terms inside of it, each before those that it is made of."""
    waiting = [term]
    while waiting:
        term = waiting.pop()
        yield term
        waiting += reversed(children(term))


def map_children(function: Callable[[Term], Term], term: Term) -> Term:
    """Return a term made of what a function gives for the terms inside; nothing is folded."""
    match term:
        case Apply(name, arguments):
            return Apply(name, tuple(map(function, arguments)))
        case Select(condition, then, otherwise):
            return Select(function(condition), function(then), function(otherwise))
        case Read(tensor, indices):
            return Read(tensor, tuple(map(function, indices)))
        case Reduce(kind, variables, extents, condition, body):
            sizes = tuple(map(function, extents))
            return Reduce(kind, variables, sizes, function(condition), function(body))
        case _:
            return term


def elements(term: Term) -> set[Read]:
    """Return the elements that a term reads."""
    return {part for part in subterms(term) if isinstance(part, Read)}


def tensors_read(term: Term) -> set[str]:
    """Return the names of the tensors of which a term reads elements."""
    return {read.tensor for read in elements(term)}


def symbols(term: Term) -> Iterator[Symbol]:
    """Yield the symbols of a term."""
    return (part for part in subterms(term) if isinstance(part, Symbol))


def symbol_names(term: Term) -> set[str]:
    """Return the names of a term's symbols."""
    return {symbol.name for symbol in symbols(term)}


def reads(term: Term) -> bool:
    """Whether a term reads an element of a tensor, or reduces."""
    return any(isinstance(part, Read | Reduce) for part in subterms(term))


def is_constant(term: Term) -> bool:
    """Whether a term is made of known numbers alone."""
    return all(isinstance(part, Apply | int | float) for part in subterms(term))


def looks_up(term: Term) -> bool:
    """Whether elements of a tensor are read where other elements say."""
    return any(any(map(reads, read.indices)) for read in elements(term))


# ---------------------------------------------------------------------------------- what is folded

# What makes integers of integers; of two, the laws of `_integer` hold.
_PAIRS = frozenset({"+", "-", "*", "//", "%", "max", "min"})
_INTEGRAL = _PAIRS | {"neg"}
# What exporters write for "to the end"; no dimension is larger, nor what dimensions come to in a
# model that there is: sizes and indices are integers of 64 bits.
_LARGEST = 2**63 - 1


def _modulo(a: int, b: int) -> int:
    return a % b


_FOLD: Mapping[str, Callable[..., Term]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": _modulo,
    "neg": lambda a: -a,
    "max": max,
    "min": min,
    "abs": abs,
    "sqrt": lambda a: math.sqrt(a) if a >= 0 else math.nan,
    "floor": lambda a: math.floor(a),
    "ceil": lambda a: math.ceil(a),
    **COMPARISONS,
    "not": lambda a: not a,
    "exp": math.exp,
    "real": float,
}


def is_number(term: object) -> bool:
    """Whether the term is a known number."""
    return isinstance(term, int | float)


def is_integer(term: Term) -> bool:
    """Whether the term is made of dimensions and indices only, so that integer laws hold."""
    if isinstance(term, Apply):
        return term.integral
    match term:
        case bool():
            return False
        case int() | Variable():
            return True
        case Symbol(_, kind):
            return kind != "real"
        case Select():
            return is_integer(term.then) and is_integer(term.otherwise)
        case _:
            return False


def apply(function: str, *arguments: Term) -> Term:
    """Return a primitive applied to terms, folded where all is known."""
    are_numbers = all(map(is_number, arguments))
    if function == "/" and are_numbers:
        left, right = arguments
        if isinstance(left, float) or isinstance(right, float) or left % right == 0:  # type: ignore[operator]
            return _divide(left, right)
        return Apply(function, arguments)
    if function in ("//", "%") and arguments[1] == 0:
        return Apply(function, arguments)
    if are_numbers and function in _FOLD:
        return _FOLD[function](*arguments)
    if function in ("and", "or"):
        return _logical(function, *arguments)
    if function in ("floor", "ceil") and is_integer(arguments[0]):
        return arguments[0]
    if function in ("=", "<=", ">=") and is_integer(arguments[0]) and arguments[0] == arguments[1]:
        return True
    if function in ("!=", "<", ">") and is_integer(arguments[0]) and arguments[0] == arguments[1]:
        return False
    if function in _PAIRS and all(map(is_integer, arguments)):
        return _integer(function, *arguments)
    if function == "+" and any(type(argument) is int and argument == 0 for argument in arguments):
        return arguments[0] if type(arguments[1]) is int else arguments[1]  # an absent bias
    return Apply(function, arguments)


def _divide(left: object, right: object) -> Term:
    if isinstance(left, int) and isinstance(right, int):
        return left // right
    try:
        return float(left) / float(right)  # type: ignore[arg-type]
    except ZeroDivisionError:
        return math.nan if left == 0 else math.copysign(math.inf, float(left))  # type: ignore[arg-type]


def _logical(function: str, left: Term, right: Term) -> Term:
    for side, other in ((left, right), (right, left)):
        if isinstance(side, bool):
            return other if side == (function == "and") else side
    return Apply(function, (left, right))


def _integer(function: str, left: Term, right: Term) -> Term:
    match function, left, right:
        case ("+", 0, other) | ("+", other, 0) | ("-", other, 0):
            return other
        case ("*", 1, other) | ("*", other, 1) | ("//", other, 1):
            return other
        case ("*", 0, _) | ("*", _, 0) | ("%", _, 1) | ("//", 0, _) | ("%", 0, _):
            return 0
        case ("max" | "min", a, b) if a == b:
            return a
        case ("max", 0, Symbol(_, "dimension") as d) | ("max", Symbol(_, "dimension") as d, 0):
            return d
        case ("min", int() as most, d) if most >= _LARGEST:
            return d
        case ("min", 0, Symbol(_, "dimension")) | ("min", Symbol(_, "dimension"), 0):
            return 0
        case ("-", a, b) if a == b:
            return 0
        # (a + c) - c and its like, as they come from sizes and offsets
        case ("-", Apply("+", (a, b)), c) if b == c:
            return a
        case ("-", Apply("+", (a, b)), c) if a == c:
            return b
        case ("+" | "-", Apply("+" | "-" as inner, (a, int() as b)), int() as c):
            offset = (b if inner == "+" else -b) + (c if function == "+" else -c)
            return apply("+", a, offset) if offset >= 0 else apply("-", a, -offset)
        case _:
            return Apply(function, (left, right))


def select(condition: Term, then: Term, otherwise: Term) -> Term:
    """Return a choice, made at once where the condition is known."""
    if isinstance(condition, bool):
        return then if condition else otherwise
    if then == otherwise:
        return then
    return Select(condition, then, otherwise)


def never_negative(term: Term) -> bool:
    """Whether an integer is seen to be at least 0 whatever the dimensions are."""
    match term:
        case int():
            return term >= 0
        case Symbol(_, kind):
            return kind == "dimension"
        case Apply("max", arguments):
            return any(map(never_negative, arguments))
        case Apply("+" | "*" | "//" | "%" | "min", arguments):
            return all(map(never_negative, arguments))
        case Select():
            return never_negative(term.then) and never_negative(term.otherwise)
        case _:
            return False


def product(terms: list[Term]) -> Term:
    """Return the product of integers."""
    whole: Term = 1
    for term in terms:
        whole = apply("*", whole, term)
    return whole


def total(terms: list[Term]) -> Term:
    """Return the sum of integers."""
    whole: Term = 0
    for term in terms:
        whole = apply("+", whole, term)
    return whole


def substitute(term: Term, values: Mapping[str, Term]) -> Term:
    """Return a term with symbols replaced, folded anew."""
    match term:
        case Symbol(name):
            return values.get(name, term)
        case Apply(function, arguments):
            return apply(function, *(substitute(argument, values) for argument in arguments))
        case Select(condition, then, otherwise):
            chosen = substitute(condition, values)
            if isinstance(chosen, bool):
                return substitute(then if chosen else otherwise, values)
            return select(chosen, substitute(then, values), substitute(otherwise, values))
        case _:
            return map_children(lambda part: substitute(part, values), term)
