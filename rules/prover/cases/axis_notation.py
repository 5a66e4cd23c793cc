"""Notations that say the same: axes counted from either end, in any order; flags and targets.

A case is built with axes written in one way. Wherever it looks at them, it is seen whether it would
see the same in all other ways: each expression must have one value, and each node must expand to
one meaning. A case is made of nothing else, so that it is the same case in all of them, also where
several axes are written in several ways. Where something is seen to differ, how that one is written
becomes a choice (enumeration.py).

The entries of lists that go with axes change places with them: `starts` and `axes` of a Slice.
Numbers in such lists are symbols, and which symbol is which says nothing.

What depends on the notation in the whole text of a rule is told from the text alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from itertools import permutations, product
from typing import TypeVar

from ....catalog.operators import ShapeError
from ....catalog.operators.expand import Expansion
from ....catalog.terms.index_notation import Apply, Term
from ....catalog.terms.syntax_tree import (
    Binary,
    Call,
    Expression,
    Index,
    ListOf,
    Literal,
    Name,
    Unary,
    walk,
)
from ...language.functions import FUNCTIONS, UnknownError
from ...language.syntax import Rule, Star
from ..assumptions import spread
from .symbolic_expressions import Value


@dataclass(frozen=True)
class NotationUse:
    """The names for which it matters in the whole rule how they are spelled: axes, flags, targets.

    `signs`: whether axes are counted from the front or from the end, which word or flag it is.
    `orders`: which of several axes comes first. `lengths`: how many of them the rule asks for.
    """

    signs: frozenset[str]
    orders: frozenset[str]
    lengths: Mapping[str, int]


@cache
def notation_use(rule: Rule) -> NotationUse:
    """The names with which expressions do more than to hand them on.

    `axis(i, X)`, `dim(X, i)`, `sizes(A, i)` and `axes(ints(a), r)` mean the same however an axis is
    counted, and the last one in whichever order they are; `i + 1` doesn't, and `axis(ints(a)[0],
    X)` depends on the order.
    """
    signs: set[str] = set()
    orders: set[str] = set()

    def visit(part: Expression, plain: bool) -> None:
        match part:
            case Name(text) | Star(text):
                if not plain:
                    signs.add(text)
            case Call("axis" | "axes" | "dim" | "sizes", arguments):
                for argument in arguments:
                    visit(argument, True)
            case Call("ints", (Name(text),)):
                visit(Name(text), plain)
            case Call("len" | "rank" | "shape" | "dtype"):
                return
            case Call(_, arguments) | ListOf(arguments):
                for argument in arguments:
                    visit(argument, False)
            case Index(of, items):
                orders.update(name.text for name in walk(of) if isinstance(name, Name | Star))
                for argument in (of, *items):
                    visit(argument, plain)
            case Unary(_, operand):
                visit(operand, False)
            case Binary("=" | "!=" | "in" | "and" | "or" | "++", left, right):
                visit(left, plain)
                visit(right, plain)
            case Binary(_, left, right):
                visit(left, False)
                visit(right, False)

    expressions = [
        *rule.given,
        *(size for operand in rule.operands for size in operand.shape or ()),
    ]
    expressions += [] if rule.region is None else [rule.region]
    for expression in expressions:
        visit(expression, False)
    for node in (*rule.match, *rule.rewrite, *rule.correct):
        for name, expression in node.attributes:
            visit(expression, name in ("axis", "axes"))
        for item in node.inputs:
            if item.literal is not None:
                visit(item.literal, False)
    for alias in rule.aliases:
        if alias.source.literal is not None:
            visit(alias.source.literal, False)
    lengths = dict(length for condition in rule.given for length in _lengths_said(condition))
    return NotationUse(frozenset(signs), frozenset(signs | orders), lengths)


def _lengths_said(condition: Expression) -> Iterator[tuple[str, int]]:
    """The lengths of lists that a condition says as numbers."""
    match condition:
        case Binary("and", left, right):
            yield from _lengths_said(left)
            yield from _lengths_said(right)
        case Binary("=", Call("len", (Call("ints", (Name(text),)),)), Literal(int() as number)):
            yield text, number


R = TypeVar("R")

# In how many ways what is looked at at once is written at most; more count as a difference.
_MOST = 4000
# Functions of which the order of the arguments says nothing.
_IN_ANY_ORDER = frozenset(("and", "or", "+", "*", "min", "max", "="))


class NotationMattersError(Exception):
    """It makes a difference how these names are written."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__()
        self.names = frozenset(names)


class Notations:
    """The names that may be written in several ways, and what each stands for in each way.

    The first way is that in which the case is built.
    """

    def __init__(self) -> None:
        self._ways: dict[str, list[dict[str, Value]]] = {}
        self._orders: dict[str, list[tuple[int, ...]]] = {}
        self._leader: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._ways)

    def add(self, name: str, values: Sequence[Value]) -> None:
        """Note the values of a name, in all ways to write it."""
        self._ways[name] = [{name: value} for value in values]
        self._orders[name] = [()] * len(values)
        self._leader[name] = name

    def add_axes(self, name: str, places: Sequence[int], rank: int) -> None:
        """Note axes in any order, each counted from the front or from the end."""
        orders = [
            (order, ends)
            for order in permutations(range(len(places)))
            for ends in product((0, rank), repeat=len(places))
        ]
        listed = [
            tuple(places[position] - end for position, end in zip(order, ends, strict=True))
            for order, ends in orders
        ]
        self.add(name, listed)
        self._orders[name] = [order for order, _ in orders]

    def add_beside(self, axes: str, name: str, contents: tuple[Term, ...]) -> None:
        """Note a list with an entry for each axis, or with several runs of them.

        MattersError where the list goes with other axes too.
        """
        if name in self._leader:
            raise NotationMattersError((axes, self._leader[name]))
        self._leader[name] = axes
        for way, order in zip(self._ways[axes], self._orders[axes], strict=True):
            runs = range(0, len(contents), len(order)) if order else ()
            way[name] = tuple(contents[start + position] for start in runs for position in order)

    def leaders(self, names: Iterable[str]) -> frozenset[str]:
        """Those that decide how the names among these are written."""
        return frozenset(self._leader[name] for name in names if name in self._leader)

    def others(self, leaders: Iterable[str]) -> Iterator[dict[str, Value]]:
        """What names stand for in all ways to write these together, but the first."""
        wanted = sorted(leaders)
        count = 1
        for leader in wanted:
            count *= len(self._ways[leader])
        if count > _MOST:
            raise NotationMattersError(wanted)
        together = product(*(self._ways[leader] for leader in wanted))
        next(together)
        for parts in together:
            yield {name: value for part in parts for name, value in part.items()}

    def require_same(
        self,
        leaders: frozenset[str],
        compute: Callable[[Mapping[str, Value]], R],
    ) -> None:
        """Raise MattersError unless a value is the same in all ways."""
        if not leaders:
            return
        first = _value_of(compute, {})
        for way in self.others(leaders):
            if not equivalent(first, _value_of(compute, way)):
                raise NotationMattersError(leaders)


def _value_of(compute: Callable[[Mapping[str, Value]], R], way: Mapping[str, Value]) -> object:
    """A value, or the kind of error that there is instead of one."""
    try:
        return compute(way)
    except (UnknownError, ShapeError) as error:
        return type(error)


def equivalent(left: object, right: object) -> bool:
    """Whether two values say the same, where conditions and sums may stand in any order."""
    return left == right or _ordered(left) == _ordered(right)


def _ordered(value: object) -> object:
    match value:
        case Expansion():
            needs = {repr(_ordered(p)) for c, _ in value.requirements for p in spread(c)}
            signature = (value.inputs, value.names, value.locals, value.outputs)
            return (*map(_ordered, signature), frozenset(needs - {"True"}))
        case Apply("and", _):
            return ("and", frozenset(repr(_ordered(part)) for part in spread(value)))
        case Apply(function, arguments) if function in _IN_ANY_ORDER:
            return (
                function,
                sorted(repr(_ordered(argument)) for argument in _flat(function, arguments)),
            )
        case tuple():
            return tuple(map(_ordered, value))
        case _ if is_dataclass(value) and not isinstance(value, type):
            field_values = (getattr(value, field.name) for field in fields(value))
            return (type(value).__name__, *map(_ordered, field_values))
        case _:
            return value


def _flat(function: str, arguments: tuple[Term, ...]) -> Iterator[Term]:
    for argument in arguments:
        match argument:
            case Apply(inner, parts) if inner == function != "=":
                yield from _flat(function, parts)
            case _:
                yield argument


def names_in(expression: Expression) -> frozenset[str]:
    """All names in an expression, of numbers and of operands."""
    return frozenset(part.text for part in walk(expression) if isinstance(part, Name | Star))


def parts(expression: Expression) -> tuple[Expression, ...]:
    """The expressions of whose values alone that of an expression is made; none of a simple one."""
    if isinstance(expression, Call) and FUNCTIONS[expression.function].operands:
        return ()
    return expression.parts
