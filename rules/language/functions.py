"""The functions of the rule language, and what their values are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Value = Any
"""int, float, str, bool, a Symbol, or a tuple of these."""


class Symbol(str):
    """A symbolic dimension: equal to itself, unknown against everything else."""

    __slots__ = ()


class UnknownError(Exception):
    """The value depends on something not known: a symbolic size, an unset attribute."""


@dataclass(frozen=True)
class Function:
    """A function of the rule language; `operands` are the argument positions that name values."""

    name: str
    signature: str
    meaning: str
    arity: tuple[int, int]
    apply: Callable[..., Value]
    operands: tuple[int, ...] = ()


def integer(value: Value) -> int:
    """The value as a known integer."""
    if isinstance(value, bool | int):
        return int(value)
    raise UnknownError


def sequence(value: Value) -> tuple[Value, ...]:
    """The value as a list."""
    if isinstance(value, tuple):
        return value
    raise UnknownError


def integers(value: Value) -> tuple[int, ...]:
    """The value as a list of known integers."""
    return tuple(integer(item) for item in sequence(value))


def permutation(value: Value) -> tuple[int, ...]:
    """The value as a permutation of 0..n-1."""
    items = integers(value)
    if sorted(items) != list(range(len(items))):
        raise UnknownError
    return items


def compose(first: Value, second: Value) -> tuple[int, ...]:
    """The permutation that transposing by `first`, then by `second`, amounts to."""
    p, q = permutation(first), permutation(second)
    if len(p) != len(q):
        raise UnknownError
    return tuple(p[i] for i in q)


def inverse(value: Value) -> tuple[int, ...]:
    """The permutation that undoes one."""
    p = permutation(value)
    return tuple(p.index(i) for i in range(len(p)))


def axis(value: Value, shape: tuple[int | str, ...]) -> int:
    """An axis counted from the front."""
    place = integer(value)
    if not -len(shape) <= place < len(shape):
        raise UnknownError
    return place % len(shape)


def axes(value: Value, rank: Value) -> tuple[int, ...]:
    """Axes counted from the front, in ascending order."""
    n = integer(rank)
    places = integers(value)
    if not all(-n <= place < n for place in places):
        raise UnknownError
    return tuple(sorted(place % n for place in places))


def size_at(shape: tuple[int | str, ...], place: Value) -> int | str:
    """One dimension of a shape, negative places from the end."""
    i = integer(place)
    if not -len(shape) <= i < len(shape):
        raise UnknownError
    return shape[i]


def sizes_at(shapes: tuple[tuple[int | str, ...], ...], place: Value) -> tuple[int | str, ...]:
    """One dimension of each of several shapes."""
    return tuple(size_at(shape, place) for shape in shapes)


def items_at(value: Value, places: Value) -> tuple[Value, ...]:
    """The items of a list at some places, in their order."""
    return tuple(size_at(sequence(value), place) for place in sequence(places))


def others(value: Value, places: Value) -> tuple[Value, ...]:
    """The items of a list that are not at some places."""
    items = sequence(value)
    left = {axis(place, items) for place in sequence(places)}
    return tuple(item for i, item in enumerate(items) if i not in left)


def normal_equation(equation: Value) -> str:
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
        Function("rank", "rank(X)", "number of dimensions", (1, 1), len, (0,)),
        Function("dim", "dim(X, i)", "size of one dimension", (2, 2), size_at, (0,)),
        Function("shape", "shape(X)", "list of all sizes", (1, 1), tuple, (0,)),
        Function(
            "size",
            "size(X)",
            "number of elements",
            (1, 1),
            lambda s: math.prod(integers(tuple(s))),
            (0,),
        ),
        Function("dtype", "dtype(X)", 'element type: "float32"', (1, 1), str, (0,)),
        Function("ints", "ints(X)", "elements of a constant, as a list", (1, 1), tuple, (0,)),
        Function("axis", "axis(a, X)", "axis a of X counted from the front", (2, 2), axis, (1,)),
        Function("axes", "axes(l, r)", "axes counted from the front, sorted", (2, 2), axes),
        Function("fits", "fits(c, Y)", "c broadcasts to the shape of Y", (2, 2), bool, (0, 1)),
        Function("len", "len(l)", "length of a list, or of `*l`", (1, 1), len),
        Function(
            "range",
            "range(n), range(a, b)",
            "integers from a (0) up to b",
            (1, 2),
            lambda *a: tuple(range(*(integer(x) for x in a))),
        ),
        Function(
            "repeat",
            "repeat(x, n)",
            "n times x",
            (2, 2),
            lambda x, n: (x,) * integer(n),
        ),
        Function("prod", "prod(l)", "product of a list", (1, 1), lambda v: math.prod(integers(v))),
        Function("sum", "sum(l)", "sum of a list", (1, 1), lambda v: sum(integers(v))),
        Function("min", "min(a, b), min(l)", "the least", (1, 2), lambda *a: min(numbers(a))),
        Function("max", "max(a, b), max(l)", "the largest", (1, 2), lambda *a: max(numbers(a))),
        Function(
            "plus",
            "plus(l, m)",
            "two lists added item by item",
            (2, 2),
            lambda v, w: tuple(
                a + b for a, b in zip(integers(v), integers(w), strict=same_length(v, w))
            ),
        ),
        Function(
            "times",
            "times(l, m)",
            "two lists multiplied item by item",
            (2, 2),
            lambda v, w: tuple(
                a * b for a, b in zip(integers(v), integers(w), strict=same_length(v, w))
            ),
        ),
        Function("at", "at(l, p)", "the items of a list at places", (2, 2), items_at),
        Function("without", "without(l, p)", "a list without the items at places", (2, 2), others),
        Function("sizes", "sizes(A, i)", "dimension i of each of `*A`", (2, 2), sizes_at, (0,)),
        Function(
            "place",
            "place(i, n)",
            "a bound of Slice among n elements: counted from the front, clamped",
            (2, 2),
            lambda i, n: max(0, min(integer(n), integer(i) + (integer(n) if i < 0 else 0))),
        ),
        Function(
            "take",
            "take(l, n)",
            "the first n of a list",
            (2, 2),
            lambda v, n: sequence(v)[: natural(n)],
        ),
        Function(
            "drop",
            "drop(l, n)",
            "a list without its first n",
            (2, 2),
            lambda v, n: sequence(v)[natural(n) :],
        ),
        Function("compose", "compose(p, q)", "transposing by p, then by q", (2, 2), compose),
        Function("inverse", "inverse(p)", "the permutation that undoes p", (1, 1), inverse),
        Function(
            "identity",
            "identity(n)",
            "the permutation that moves nothing",
            (1, 1),
            lambda n: tuple(range(integer(n))),
        ),
        Function(
            "permute",
            "permute(l, p)",
            "list l in the order p",
            (2, 2),
            lambda v, p: tuple(sequence(v)[i] for i in permutation_of(p, len(sequence(v)))),
        ),
        Function(
            "equation",
            "equation(e)",
            "an Einsum equation in normal spelling",
            (1, 1),
            normal_equation,
        ),
    )
}


def numbers(values: tuple[Value, ...]) -> tuple[int | float, ...]:
    """The values, or the items of a list that is the only one, as known numbers."""
    items = sequence(values[0]) if len(values) == 1 else values
    if not items:
        raise UnknownError
    return tuple(number(item) for item in items)


def same_length(left: Value, right: Value) -> bool:
    """True for lists of one length; UnknownError otherwise."""
    if len(sequence(left)) != len(sequence(right)):
        raise UnknownError
    return True


def natural(value: Value) -> int:
    """The value as an integer that is not negative."""
    n = integer(value)
    if n < 0:
        raise UnknownError
    return n


def permutation_of(value: Value, length: int) -> tuple[int, ...]:
    """The value as a permutation of a given length."""
    p = permutation(value)
    if len(p) != length:
        raise UnknownError
    return p


def number(value: Value) -> int | float:
    """The value as a known number."""
    if isinstance(value, bool | int | float):
        return value
    raise UnknownError
