"""Expressions of the rule language over sizes that are unknown: their values are terms.

What the matcher leaves undecided, a comparison of unknown sizes, becomes a condition here. Where
the matcher's answer is "not known, so it does not hold" for every match, UnknownError says so.
Where the matcher would know a value of which no term speaks, such as the sum of as many numbers as
a size says, NoTermError does: a condition with one may hold or not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ....catalog.terms.index_notation import Term, apply, is_integer, product, select, total
from ...language.expressions import operand_name
from ...language.functions import FUNCTIONS as EXACT
from ...language.functions import (
    UnknownError,
    axes,
    axis,
    compose,
    inverse,
    items_at,
    normal_equation,
    others,
    permutation_of,
)
from ...language.syntax import Binary, Call, Expression, Index, ListOf, Literal, Name, Star, Unary
from .literals import read_literal

# A term, a string, or a tuple of values.
Value = Any


class NoTermError(UnknownError):
    """The value may be known where a rule is applied, but there is no term for it."""


@dataclass(frozen=True)
class Progression:
    """The integers from `first` on, one by one; `length`, how many, need not be known."""

    first: Term
    length: Term

    def written_out(self) -> tuple[int, ...] | Progression:
        """The integers one by one where they are known."""
        if isinstance(self.first, int) and isinstance(self.length, int):
            return tuple(range(self.first, self.first + self.length))
        return self


class TermFacts:
    """What expressions may ask about operands by name."""

    def shape_of(self, name: str) -> tuple[Term, ...]:
        """The shape of a tensor; UnknownError where it is absent."""
        raise NotImplementedError

    def dtype_of(self, name: str) -> str:
        """The element type of a tensor."""
        raise NotImplementedError

    def integers_of(self, name: str) -> tuple[Term, ...] | Progression:
        """The elements of a constant."""
        raise NotImplementedError

    def shapes_of(self, name: str) -> tuple[tuple[Term, ...], ...]:
        """The shapes of the tensors that `*name` stands for."""
        raise NotImplementedError

    def take_for_granted(self, term: Term) -> None:
        """Hear what must hold for a value to be known: that a quotient is exact."""
        raise NotImplementedError


def evaluate(expression: Expression, names: Mapping[str, Value], facts: TermFacts) -> Value:
    """The value of an expression; UnknownError where the matcher would not know it either."""
    match expression:
        case Literal(value):
            return read_literal(value) if isinstance(value, float) else value
        case Name(text):
            if text not in names:
                raise UnknownError
            return names[text]
        case ListOf(items):
            return spliced(items, names, facts)
        case Index(of, items) if len(items) == 1:
            values, place = evaluate(of, names, facts), _known(evaluate(items[0], names, facts))
            if isinstance(values, Progression) and place >= 0:
                facts.take_for_granted(apply("<", place, values.length))
                return apply("+", values.first, place)
            return _entry(as_list(values), place)
        case Call():
            return _call(expression, names, facts)
        case Unary("-", operand):
            return apply("neg", _number(evaluate(operand, names, facts)))
        case Unary("not", operand):
            return apply("not", condition(operand, names, facts))
        case Binary("and" | "or" as operator, left, right):
            return _junction(operator, left, right, names, facts)
        case Binary(operator, left, right):
            sides = evaluate(left, names, facts), evaluate(right, names, facts)
            return _binary(operator, *sides, facts)
    raise UnknownError


def condition(expression: Expression, names: Mapping[str, Value], facts: TermFacts) -> Term:
    """The value of a condition as a truth value."""
    value = evaluate(expression, names, facts)
    if value is None or isinstance(value, tuple | str | Progression):
        raise UnknownError
    term: Term = value
    return apply("!=", term, 0) if is_integer(term) else term


def spliced(
    items: tuple[Expression, ...], names: Mapping[str, Value], facts: TermFacts
) -> tuple[Value, ...]:
    """The values of list items, those of `*b` spliced in."""
    result: list[Value] = []
    for item in items:
        if isinstance(item, Star):
            result.extend(as_list(evaluate(Name(item.text), names, facts)))
        else:
            result.append(evaluate(item, names, facts))
    return tuple(result)


def fits(c: tuple[Term, ...], target: tuple[Term, ...]) -> Term:
    """Whether a shape broadcasts to exactly the target."""
    if len(c) > len(target):
        return False
    whole: Term = True
    for own, wanted in zip(reversed(c), reversed(target), strict=False):
        whole = apply("and", whole, apply("or", apply("=", own, 1), apply("=", own, wanted)))
    return whole


def same(left: Value, right: Value) -> Term:
    """Whether two values are equal."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        if len(left) != len(right):
            return False
        whole: Term = True
        for a, b in zip(left, right, strict=True):
            whole = apply("and", whole, same(a, b))
        return whole
    if isinstance(left, Progression) and isinstance(right, Progression):
        first = apply("or", apply("=", left.length, 0), apply("=", left.first, right.first))
        return apply("and", apply("=", left.length, right.length), first)
    if isinstance(left, Progression) or isinstance(right, Progression):
        raise NoTermError
    if isinstance(left, tuple | str) or isinstance(right, tuple | str):
        return bool(left == right)
    return apply("=", left, right)


def _junction(
    operator: str,
    left: Expression,
    right: Expression,
    names: Mapping[str, Value],
    facts: TermFacts,
) -> Term:
    """Kleene's `and` and `or`: what is not known decides only where the other side does not."""
    found: list[Term] = []
    undecided = False
    for side in (left, right):
        try:
            found.append(condition(side, names, facts))
        except UnknownError as error:
            undecided = undecided or isinstance(error, NoTermError)
    if len(found) == 2:
        return apply(operator, *found)
    if found and found[0] is (operator == "or"):
        return found[0]
    if undecided or (found and operator == "and"):
        raise NoTermError  # it is known where the side that is known decides
    if found:
        return found[0]
    raise UnknownError


def _binary(operator: str, left: Value, right: Value, facts: TermFacts) -> Value:
    if operator in ("=", "!="):
        equal = same(left, right)
        return equal if operator == "=" else apply("not", equal)
    if operator == "in":
        whole: Term = False
        for item in as_list(right):
            whole = apply("or", whole, same(left, item))
        return whole
    if operator == "++":
        return as_list(left) + as_list(right)
    a, b = _number(left), _number(right)
    if operator in ("/", "//", "%"):
        if b == 0:
            raise UnknownError
        facts.take_for_granted(apply("!=", b, 0))
    if operator == "/" and is_integer(a) and is_integer(b):
        rest = apply("%", a, b)
        if rest != 0:
            if isinstance(rest, int):
                raise UnknownError
            facts.take_for_granted(apply("=", rest, 0))
        return apply("//", a, b)
    return apply(operator, a, b)


def _call(call: Call, names: Mapping[str, Value], facts: TermFacts) -> Value:
    name, arguments = call.function, call.arguments
    if name in ("rank", "shape", "size"):
        shape = facts.shape_of(operand_name(arguments[0]))
        return {"rank": len(shape), "shape": shape, "size": _product(shape)}[name]
    if name == "dim":
        place = _known(evaluate(arguments[1], names, facts))
        return _entry(facts.shape_of(operand_name(arguments[0])), place)
    if name == "dtype":
        return facts.dtype_of(operand_name(arguments[0]))
    if name == "ints":
        return facts.integers_of(operand_name(arguments[0]))
    if name == "axis":
        shape = facts.shape_of(operand_name(arguments[1]))
        return axis(_known(evaluate(arguments[0], names, facts)), ("",) * len(shape))
    if name == "fits":
        c, target = (facts.shape_of(operand_name(argument)) for argument in arguments)
        return fits(c, target)
    if name == "sizes":
        place = _known(evaluate(arguments[1], names, facts))
        return tuple(_entry(s, place) for s in facts.shapes_of(operand_name(arguments[0])))
    if name == "len" and isinstance(arguments[0], Star | Name):
        text = arguments[0].text
        return len(as_list(names[text])) if text in names else len(facts.shapes_of(text))
    values = [evaluate(argument, names, facts) for argument in arguments]
    for at in _PLACES.get(name, ()):
        if not _is_exact(values[at]):
            raise NoTermError
    if name not in FUNCTIONS and not all(map(_is_exact, values)):
        raise UnknownError
    try:
        return FUNCTIONS[name](*values) if name in FUNCTIONS else EXACT[name].apply(*values)
    except (TypeError, IndexError, ValueError):
        raise UnknownError from None


# Arguments that are axes or permutations, by function: what stands there must be numbers.
_PLACES = {
    "axes": (0, 1),
    "at": (1,),
    "compose": (0, 1),
    "inverse": (0,),
    "permute": (1,),
    "without": (1,),
}


def as_list(value: Value) -> tuple[Value, ...]:
    """The value as a list."""
    if isinstance(value, tuple):
        return value
    if isinstance(value, Progression):
        raise NoTermError
    raise UnknownError


def _is_exact(value: Value) -> bool:
    """Whether a value is known through and through."""
    if isinstance(value, tuple):
        return all(map(_is_exact, value))
    return isinstance(value, int | float | str)


def _number(value: Value) -> Term:
    if isinstance(value, Progression):
        raise NoTermError
    if value is None or isinstance(value, tuple | str):
        raise UnknownError
    term: Term = value
    return term


def _known(value: Value) -> int:
    if isinstance(value, int):
        return int(value)
    if value is None or isinstance(value, tuple | str | float):
        raise UnknownError
    raise NoTermError


def _entry(values: tuple[Value, ...], place: int) -> Value:
    if not -len(values) <= place < len(values):
        raise UnknownError
    return values[place]


def _count(value: Value) -> int:
    n = _known(value)
    if n < 0:
        raise UnknownError
    return n


def _product(values: tuple[Value, ...]) -> Term:
    return product([_number(value) for value in values])


def _total(values: Value) -> Term:
    return total([_number(value) for value in as_list(values)])


def _extreme(function: str) -> Callable[..., Term]:
    def fold(*values: Value) -> Term:
        items = as_list(values[0]) if len(values) == 1 else values
        if not items:
            raise UnknownError
        whole = _number(items[0])
        for item in items[1:]:
            whole = apply(function, whole, _number(item))
        return whole

    return fold


def _pairwise(function: str) -> Callable[..., tuple[Term, ...]]:
    def pair(left: Value, right: Value) -> tuple[Term, ...]:
        pairs = zip(as_list(left), as_list(right), strict=True)
        return tuple(apply(function, _number(a), _number(b)) for a, b in pairs)

    return pair


def _range(*bounds: Value) -> tuple[int, ...] | Progression:
    if all(isinstance(bound, int) for bound in bounds):
        return tuple(range(*bounds))
    first = _number(bounds[0]) if len(bounds) == 2 else 0
    length = apply("-", _number(bounds[-1]), first)
    return Progression(first, apply("max", length, 0))


def _place(index: Value, n: Value) -> Term:
    at, size = _number(index), _number(n)
    wrapped = select(apply("<", at, 0), apply("+", at, size), at)
    return apply("max", 0, apply("min", size, wrapped))


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "axes": axes,
    "len": lambda values: len(as_list(values)),
    "range": lambda *bounds: _range(*bounds),
    "repeat": lambda value, count: (value,) * _known(count),
    "prod": lambda values: _product(as_list(values)),
    "sum": _total,
    "min": _extreme("min"),
    "max": _extreme("max"),
    "plus": _pairwise("+"),
    "times": _pairwise("*"),
    "at": items_at,
    "without": others,
    "place": _place,
    "take": lambda values, count: as_list(values)[: _count(count)],
    "drop": lambda values, count: as_list(values)[_count(count) :],
    "compose": compose,
    "inverse": inverse,
    "identity": lambda n: tuple(range(_known(n))),
    "permute": lambda values, p: tuple(
        as_list(values)[i] for i in permutation_of(p, len(as_list(values)))
    ),
    "equation": normal_equation,
}
