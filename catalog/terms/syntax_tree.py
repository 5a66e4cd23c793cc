"""Expressions as they are written, in rules and in specifications: one syntax tree, and its walks.

Each language adds nodes of its own (rules/language/syntax.py, catalog/operators/syntax.py), which
say of what they are made as these do. Those of Datalog (catalog/datalog/language/syntax.py) are all
its own: they are told apart by where they stand, since equal ones may be of different types. What
an expression means is another matter: a specification's becomes terms
(catalog/operators/instantiate.py), a rule's is evaluated where it may match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar


class Place(NamedTuple):
    """A line and a column of a file, both from 1."""

    path: str
    line: int
    column: int


NOWHERE = Place("", 0, 0)


class Expression:
    """A node of the tree; two are equal that say the same, wherever it is written."""

    __slots__ = ()

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The expressions that it is made of, from left to right."""
        return ()

    def with_parts(self, change: Callable[[Expression], Expression]) -> Expression:
        """The same node made of what a function gives for its parts."""
        return self


E = TypeVar("E", bound=Expression)  # all that an expression is made of is of its language


@dataclass(frozen=True)
class Literal(Expression):
    """A number or a string."""

    value: int | float | str


@dataclass(frozen=True)
class Name(Expression):
    """A name: of a dimension, list, attribute, operand, index or constant."""

    text: str
    place: Place = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class ListOf(Expression):
    """`[a, b]`; an item may stand for the items of another list."""

    items: tuple[Expression, ...]

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The items."""
        return self.items

    def with_parts(self, change: Callable[[Expression], Expression]) -> ListOf:
        """A list of other items."""
        return ListOf(tuple(map(change, self.items)))


@dataclass(frozen=True)
class Call(Expression):
    """A named function applied to arguments."""

    function: str
    arguments: tuple[Expression, ...]
    place: Place = field(default=NOWHERE, compare=False, repr=False)

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The arguments."""
        return self.arguments

    def with_parts(self, change: Callable[[Expression], Expression]) -> Call:
        """The function applied to other arguments."""
        return Call(self.function, tuple(map(change, self.arguments)), self.place)


@dataclass(frozen=True)
class Index(Expression):
    """`p[0]`: an item of a list; `X[i, *j]`: an element of a tensor."""

    of: Expression
    items: tuple[Expression, ...]
    place: Place = field(default=NOWHERE, compare=False, repr=False)

    @property
    def parts(self) -> tuple[Expression, ...]:
        """What is read, and the indices."""
        return (self.of, *self.items)

    def with_parts(self, change: Callable[[Expression], Expression]) -> Index:
        """Another thing read, at other indices."""
        return Index(change(self.of), tuple(map(change, self.items)), self.place)


@dataclass(frozen=True)
class Unary(Expression):
    """`-x` or `not x`."""

    operator: str
    operand: Expression
    place: Place = field(default=NOWHERE, compare=False, repr=False)

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The operand."""
        return (self.operand,)

    def with_parts(self, change: Callable[[Expression], Expression]) -> Unary:
        """The operator applied to another operand."""
        return Unary(self.operator, change(self.operand), self.place)


@dataclass(frozen=True)
class Binary(Expression):
    """Arithmetic, a comparison, `and`, `or`, `in`, or the joining of lists `++`."""

    operator: str
    left: Expression
    right: Expression
    place: Place = field(default=NOWHERE, compare=False, repr=False)

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The operands."""
        return (self.left, self.right)

    def with_parts(self, change: Callable[[Expression], Expression]) -> Binary:
        """The operator applied to other operands."""
        return Binary(self.operator, change(self.left), change(self.right), self.place)


def walk(expression: E) -> Iterator[E]:
    """Yield an expression and all that it is made of, outermost first and from left to right."""
    waiting: list[Any] = [expression]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += reversed(part.parts)


def replace_names(expression: Expression, replacements: Mapping[str, Expression]) -> Expression:
    """Return an expression with others in the places of names."""
    if isinstance(expression, Name):
        return replacements.get(expression.text, expression)
    return expression.with_parts(lambda part: replace_names(part, replacements))


def mentions(expression: Expression, name: str) -> bool:
    """Whether a name stands in an expression."""
    return any(isinstance(part, Name) and part.text == name for part in walk(expression))
