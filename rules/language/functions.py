"""The functions of the rule language, and what they ask of numbers and lists.

What a number is, an `Arithmetic` says: Python's for the matcher (expressions.py), terms of sizes
that are not known for the prover (rules/prover/cases/symbolic_expressions.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

Value = Any
"""A number of the arithmetic, str, or a tuple of values."""


class Symbol(str):
    """A symbolic dimension: equal to itself, unknown against everything else."""

    __slots__ = ()


class UnknownError(Exception):
    """The value depends on something not known: a symbolic size, an unset attribute."""


class Arithmetic:
    """What numbers and lists are to the functions, and how they are computed with.

    All of it raises UnknownError for what is no number or no list, or is not known.
    """

    def sequence(self, value: Value) -> tuple[Value, ...]:
        """The value as a list."""
        raise NotImplementedError

    def integer(self, value: Value) -> int:
        """The value as an integer that is known: a count, a place, an axis."""
        raise NotImplementedError

    def size(self, value: Value) -> Value:
        """The value as an integer."""
        raise NotImplementedError

    def number(self, value: Value) -> Value:
        """The value as a number."""
        raise NotImplementedError

    def operate(self, operator: str, left: Value, right: Value) -> Value:
        """Two numbers under + - * / // % min max, or a comparison of their order."""
        raise NotImplementedError

    def select(self, condition: Value, then: Value, otherwise: Value) -> Value:
        """One of two numbers."""
        raise NotImplementedError

    def progression(self, first: Value, end: Value) -> Value:
        """The integers from the first up to the end, which is not among them."""
        raise NotImplementedError

    def fits(self, c: tuple[Value, ...], target: tuple[Value, ...]) -> Value:
        """Whether shape c broadcasts to exactly the target."""
        raise NotImplementedError

    def item(self, values: Value, place: Value) -> Value:
        """One item of a list, negative places from the end."""
        items, position = self.sequence(values), self.integer(place)
        if not -len(items) <= position < len(items):
            raise UnknownError
        return items[position]

    def fold(self, operator: str, numbers: Iterable[Value]) -> Value:
        """Numbers under an operator, from the first one on."""
        return reduce(lambda left, right: self.operate(operator, left, right), numbers)


@dataclass(frozen=True)
class Function:
    """A function of the rule language; `operands` are the argument positions that name values.

    `apply` takes the arithmetic first, and what is asked of an operand in the operand's place: its
    shape, but its element type for `dtype`, its elements for `ints`, and the shapes of all that are
    listed for `sizes`.
    """

    name: str
    signature: str
    meaning: str
    arity: tuple[int, int]
    apply: Callable[..., Value]
    operands: tuple[int, ...] = ()


def _asked_for(_: Arithmetic, answer: Value) -> Value:
    return answer


def _natural(numbers: Arithmetic, value: Value) -> int:
    n = numbers.integer(value)
    if n < 0:
        raise UnknownError
    return n


def _permutation(numbers: Arithmetic, value: Value) -> tuple[int, ...]:
    """The value as a permutation of 0..n-1."""
    items = tuple(numbers.integer(item) for item in numbers.sequence(value))
    if sorted(items) != list(range(len(items))):
        raise UnknownError
    return items


def _compose(numbers: Arithmetic, first: Value, second: Value) -> tuple[int, ...]:
    p, q = _permutation(numbers, first), _permutation(numbers, second)
    if len(p) != len(q):
        raise UnknownError
    return tuple(p[i] for i in q)


def _inverse(numbers: Arithmetic, value: Value) -> tuple[int, ...]:
    p = _permutation(numbers, value)
    return tuple(p.index(i) for i in range(len(p)))


def _permute(numbers: Arithmetic, values: Value, order: Value) -> tuple[Value, ...]:
    items, p = numbers.sequence(values), _permutation(numbers, order)
    if len(p) != len(items):
        raise UnknownError
    return tuple(items[i] for i in p)


def _axis(numbers: Arithmetic, value: Value, rank: int) -> int:
    """An axis counted from the front."""
    place = numbers.integer(value)
    if not -rank <= place < rank:
        raise UnknownError
    return place % rank


def _axes(numbers: Arithmetic, values: Value, rank: Value) -> tuple[int, ...]:
    n = numbers.integer(rank)
    return tuple(sorted(_axis(numbers, place, n) for place in numbers.sequence(values)))


def _without(numbers: Arithmetic, values: Value, places: Value) -> tuple[Value, ...]:
    items = numbers.sequence(values)
    dropped = {_axis(numbers, place, len(items)) for place in numbers.sequence(places)}
    return tuple(item for i, item in enumerate(items) if i not in dropped)


def _place(numbers: Arithmetic, index: Value, count: Value) -> Value:
    i, n = numbers.size(index), numbers.size(count)
    wrapped = numbers.select(numbers.operate("<", i, 0), numbers.operate("+", i, n), i)
    return numbers.operate("max", 0, numbers.operate("min", n, wrapped))


def _extreme(operator: str) -> Callable[..., Value]:
    """The least or the largest of numbers, or of the items of a list that is the only one."""

    def fold(numbers: Arithmetic, *values: Value) -> Value:
        items = numbers.sequence(values[0]) if len(values) == 1 else values
        if not items:
            raise UnknownError
        return numbers.fold(operator, [numbers.number(item) for item in items])

    return fold


def _all_of(operator: str, neutral: int) -> Callable[..., Value]:
    """A list of integers under an operator."""

    def fold(numbers: Arithmetic, values: Value) -> Value:
        items = [numbers.size(item) for item in numbers.sequence(values)]
        return numbers.fold(operator, [neutral, *items])

    return fold


def _pairwise(operator: str) -> Callable[..., tuple[Value, ...]]:
    """Two lists of integers of one length under an operator, item by item."""

    def pair(numbers: Arithmetic, left: Value, right: Value) -> tuple[Value, ...]:
        v, w = numbers.sequence(left), numbers.sequence(right)
        if len(v) != len(w):
            raise UnknownError
        pairs = zip(v, w, strict=True)
        return tuple(numbers.operate(operator, numbers.size(a), numbers.size(b)) for a, b in pairs)

    return pair


def _normal_equation(_: Arithmetic, equation: Value) -> str:
    """An einsum equation without blanks, its letters renamed in order of occurrence."""
    if not isinstance(equation, str):
        raise UnknownError
    names: dict[str, str] = {}
    text = ""
    for letter in equation.replace(" ", ""):
        if letter.isalpha():
            letter = names.setdefault(letter, chr(ord("a") + len(names)))
        text += letter
    return text


FUNCTIONS: Mapping[str, Function] = {
    f.name: f
    for f in (
        Function("rank", "rank(X)", "number of dimensions", (1, 1), lambda _, s: len(s), (0,)),
        Function(
            "dim", "dim(X, i)", "size of one dimension", (2, 2), lambda n, s, i: n.item(s, i), (0,)
        ),
        Function("shape", "shape(X)", "list of all sizes", (1, 1), _asked_for, (0,)),
        Function("size", "size(X)", "number of elements", (1, 1), _all_of("*", 1), (0,)),
        Function("dtype", "dtype(X)", 'element type: "float32"', (1, 1), _asked_for, (0,)),
        Function(
            "ints", "ints(X)", "elements of a constant, as a list", (1, 1), lambda _, v: v, (0,)
        ),
        Function(
            "axis",
            "axis(a, X)",
            "axis a of X counted from the front",
            (2, 2),
            lambda numbers, place, shape: _axis(numbers, place, len(shape)),
            (1,),
        ),
        Function("axes", "axes(l, r)", "axes counted from the front, sorted", (2, 2), _axes),
        Function(
            "fits",
            "fits(c, Y)",
            "c broadcasts to the shape of Y",
            (2, 2),
            lambda numbers, c, target: numbers.fits(c, target),
            (0, 1),
        ),
        Function(
            "len",
            "len(l)",
            "length of a list, or of `*l`",
            (1, 1),
            lambda numbers, values: len(numbers.sequence(values)),
        ),
        Function(
            "range",
            "range(n), range(a, b)",
            "integers from a (0) up to b",
            (1, 2),
            lambda numbers, *bounds: numbers.progression(*(0, *bounds)[-2:]),
        ),
        Function(
            "repeat",
            "repeat(x, n)",
            "n times x",
            (2, 2),
            lambda numbers, x, n: (x,) * numbers.integer(n),
        ),
        Function("prod", "prod(l)", "product of a list", (1, 1), _all_of("*", 1)),
        Function("sum", "sum(l)", "sum of a list", (1, 1), _all_of("+", 0)),
        Function("min", "min(a, b), min(l)", "the least", (1, 2), _extreme("min")),
        Function("max", "max(a, b), max(l)", "the largest", (1, 2), _extreme("max")),
        Function("plus", "plus(l, m)", "two lists added item by item", (2, 2), _pairwise("+")),
        Function(
            "times", "times(l, m)", "two lists multiplied item by item", (2, 2), _pairwise("*")
        ),
        Function(
            "at",
            "at(l, p)",
            "the items of a list at places",
            (2, 2),
            lambda numbers, values, places: tuple(
                numbers.item(values, place) for place in numbers.sequence(places)
            ),
        ),
        Function(
            "without", "without(l, p)", "a list without the items at places", (2, 2), _without
        ),
        Function(
            "sizes",
            "sizes(A, i)",
            "dimension i of each of `*A`",
            (2, 2),
            lambda numbers, shapes, place: tuple(numbers.item(shape, place) for shape in shapes),
            (0,),
        ),
        Function(
            "place",
            "place(i, n)",
            "a bound of Slice among n elements: counted from the front, clamped",
            (2, 2),
            _place,
        ),
        Function(
            "take",
            "take(l, n)",
            "the first n of a list",
            (2, 2),
            lambda numbers, v, n: numbers.sequence(v)[: _natural(numbers, n)],
        ),
        Function(
            "drop",
            "drop(l, n)",
            "a list without its first n",
            (2, 2),
            lambda numbers, v, n: numbers.sequence(v)[_natural(numbers, n) :],
        ),
        Function("compose", "compose(p, q)", "transposing by p, then by q", (2, 2), _compose),
        Function("inverse", "inverse(p)", "the permutation that undoes p", (1, 1), _inverse),
        Function(
            "identity",
            "identity(n)",
            "the permutation that moves nothing",
            (1, 1),
            lambda numbers, n: tuple(range(numbers.integer(n))),
        ),
        Function("permute", "permute(l, p)", "list l in the order p", (2, 2), _permute),
        Function(
            "equation",
            "equation(e)",
            "an Einsum equation in normal spelling",
            (1, 1),
            _normal_equation,
        ),
    )
}
