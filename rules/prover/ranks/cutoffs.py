"""How far the numbers in a rule's text reach along lists that may have any length.

That what holds at a length R holds at all lengths is argued from texts which treat all entries of
a list alike. Operators do; a rule may not: `take(p, 3)`, `dim(X, 4)` and `rank(X) < 6` tell places
and lengths apart, and what they do to a list of 5 can't be seen of one of 3. So numbers that count
places, axes or lengths must be small against R: those from the front and those from the end must
leave an entry between them that no number speaks of, and lengths must be compared with numbers
below R. Numbers that are sizes or elements don't count. What isn't understood reaches to infinity.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import inf

from ....catalog.operators import specification
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
from ...language.conditions import bindings
from ...language.schemas import EARLIEST_OPSET
from ...language.syntax import PatternNode, Rule, Star
from ..cases.axis_notation import notation_use
from ..cases.element_types import opsets
from .operand_lists import expressions_of

# Attributes and inputs that hold axes, and the functions whose values are lengths, axes or lists of
# axes.
_AXES = frozenset(("axis", "axes", "perm", "batch_dims", "batch_axis", "time_axis"))
_COUNTS = frozenset(("rank", "len", "axis", "axes", "range", "identity", "compose", "inverse"))
# Arguments that count places.
_PLACES = {
    "dim": (1,),
    "sizes": (1,),
    "axis": (0,),
    "axes": (0, 1),
    "at": (1,),
    "without": (1,),
    "permute": (1,),
    "compose": (0, 1),
    "inverse": (0,),
}
_INDEX = re.compile(r"i\d+")
_LENGTHS = {"take": (1,), "drop": (1,), "repeat": (1,), "range": (0, 1), "identity": (0,)}


@cache
def _lists(rule: Rule) -> frozenset[str]:
    """The operands that are lists of axes, sizes or bounds, as operators read them."""
    return frozenset(
        item.value
        for node in rule.match
        for operator in node.operators
        for opset in opsets(rule, EARLIEST_OPSET)
        if (meaning := specification(*_domain_and_name(operator), opset)) is not None
        for position, item in enumerate(node.inputs)
        if position in meaning.known_inputs and item.value is not None
    )


def _domain_and_name(operator: str) -> tuple[str, str]:
    domain, _, name = operator.rpartition(":")
    return domain, name


# Numbers by name.
Fixed = tuple[tuple[str, int], ...]


@dataclass
class Cutoffs:
    """How many entries from the front and from the end of a list are told apart."""

    front: float = 0
    end: float = 0

    @property
    def whole(self) -> float:
        """How long a list must be at least so that an entry is left."""
        return self.front + self.end


@cache
def cutoffs(rule: Rule, fixed: Fixed = ()) -> Cutoffs:
    """How far the numbers of a rule reach.

    `fixed` are the ranks and lengths that are the same in every match, by the names of tensors and
    attributes: `rank(W)` is such a number, too, where W has a declared shape.
    """
    reader = _Reader(rule, dict(fixed))
    for operand in rule.operands:
        for size in operand.shape or ():
            reader.visit(size, axes=False)
    for expression in rule.given:
        reader.visit(expression, axes=False)
    if rule.region is not None:
        reader.visit(rule.region, axes=False)
    for node in (*rule.match, *rule.rewrite, *rule.correct):
        for name, expression in node.attributes:
            reader.visit(expression, axes=name in _AXES)
        for position, item in enumerate(node.inputs):
            if isinstance(item.literal, ListOf) and _holds_axes(node, position):
                for axis in item.literal.items:  # so many, whichever rank there is
                    reader.visit(axis, axes=True)
            elif item.literal is not None:
                reader.visit(item.literal, axes=_holds_axes(node, position))
    for alias in rule.aliases:
        if alias.source.literal is not None:
            reader.visit(alias.source.literal, axes=False)
    return reader.reach


def permutation_steps(rule: Rule) -> int:
    """How often the text of a rule looks up a place in a permutation or a list of axes.

    Two ways through permutations that end at one place in all permutations of a few axes may end
    at two where there are more: p applied six times leaves three axes where they are. That is seen
    on the places that the ways pass by: on one more axes than there are steps.
    """
    attributes = bindings(rule).attributes
    turned = {name for name, (_, attribute) in attributes.items() if attribute == "perm"}
    count = 0
    for expression in expressions_of(rule):
        for part in walk(expression):
            if isinstance(part, Name) and part.text in turned:
                count += 1
            count += sum(
                isinstance(axis_name, Name) and axis_name.text not in turned
                for axis_name in _looked_up(part)
            )
    return count


def _looked_up(part: Expression) -> Iterator[Expression]:
    """Yield what is used as a permutation."""
    match part:
        case Index(of, items) if not all(isinstance(item, Literal) for item in items):
            yield from walk(of)
        case Call("compose" | "inverse", arguments) | Call("permute" | "at", (_, *arguments)):
            for argument in arguments:
                yield from walk(argument)


def _holds_axes(node: PatternNode, position: int) -> bool:
    """Whether an input may hold axes: those of a few operators do, and they are no data."""
    if node.op_type in ("Pad", "Slice"):
        return position == 3
    return position > 0 and node.op_type.startswith(("Reduce", "Squeeze", "Unsqueeze", "CumSum"))


class _Reader:
    """Reads the expressions of a rule."""

    def __init__(self, rule: Rule, fixed: Mapping[str, int]) -> None:
        self.reach = Cutoffs()
        stars, attributes = bindings(rule).stars, bindings(rule).attributes
        self.axes = {name for name, (_, attribute) in attributes.items() if attribute in _AXES}
        self.axes |= {
            item.value
            for node in rule.match
            for position, item in enumerate(node.inputs)
            if item.value is not None and _holds_axes(node, position)
        }
        self.listed = _lists(rule)
        shapes = {operand.name: operand.shape or () for operand in rule.operands}
        # of a list without a declared shape a condition tells the length, by a number that counts
        self.fixed = {
            name: number
            for name, number in fixed.items()
            if name not in self.listed or shapes.get(name)
        }
        self.lengths = {
            size.text
            for list_name in self.listed
            for size in shapes.get(list_name, ())
            if isinstance(size, Name)
        }
        self.partial = rule.region is not None
        self.stated_lengths = notation_use(rule).lengths
        self.beside = dict.fromkeys(stars, 0)
        for operand in rule.operands:
            for size in operand.shape or ():
                if isinstance(size, Star):
                    more = len(operand.shape or ()) - 1
                    self.beside[size.text] = max(self.beside.get(size.text, 0), more)

    def _front(self, number: float) -> None:
        self.reach.front = max(self.reach.front, number)

    def visit(self, part: Expression, *, axes: bool) -> None:
        """Take in an expression; `axes`: its numbers are axes."""
        match part:
            case Literal(int() as number) if axes:
                self._place(number)
            case Unary("-", Literal(int() as number)) if axes:
                self._place(-number)
            case Binary("-", Call("rank", (Name(),)), Literal(int() as number)) if axes:
                self._place(-number)
            case Name(text) if self.partial and _INDEX.fullmatch(text):
                self._place(int(text[1:]))
            case ListOf(items) if all(map(_is_text, items)):
                return  # types or equations
            case ListOf(items):
                self._front(sum(not isinstance(item, Star) for item in items))
                for item in items:
                    self.visit(item, axes=axes)
            case Index(of, items):
                self.visit(of, axes=axes)
                for item in items:
                    self.visit(item, axes=not self._is_stated(of))
            case Binary("=", Call("len", (of,)), Literal()) if self._is_stated(of):
                return
            case Binary("=", Call("drop", (Name() as of, start)), ListOf(items)) if _from_end(
                start
            ) == len(items):
                for item in (of, start, *items):  # as many on both sides, whatever the length
                    self.visit(item, axes=True)
            case Call(function, arguments):
                for position, argument in enumerate(arguments):
                    if position in _LENGTHS.get(function, ()):
                        offset = self._offset(argument)
                        self._front(offset)
                        if any(map(self._from_end, walk(argument))):
                            self.reach.end = max(self.reach.end, offset)
                    inner = axes and function in ("min", "max", "plus", "sum")
                    self.visit(argument, axes=inner or position in _PLACES.get(function, ()))
                if function in ("min", "max") and any(map(self._counts, arguments)):
                    self._front(self._offset(part))
            case Unary(_, operand):
                self.visit(operand, axes=axes)
            case Binary("and" | "or", left, right):
                self.visit(left, axes=False)
                self.visit(right, axes=False)
            case Binary(operator, left, right):
                if axes or self._counts(left) or self._counts(right):
                    self._front(self._offset(part))
                inner = axes and operator in ("+", "-", "++")
                listed = operator in ("=", "!=", "in") and (self._axes(left) or self._axes(right))
                self.visit(left, axes=inner or listed)
                self.visit(right, axes=inner or listed)

    def _is_stated(self, part: Expression) -> bool:
        """Whether it is a list that the rule gives a length: its entries are told one by one.

        So none of them is like the others, nor like those of lists that may have any length.
        """
        match part:
            case Call("ints", (Name(text),)):
                return text in self.stated_lengths
            case _:
                return False

    def _place(self, number: int) -> None:
        if number < 0:
            self.reach.end = max(self.reach.end, -number)
        else:
            self._front(number + 1)

    def _counts(self, part: Expression) -> bool:
        """Whether the value is a length, an axis or a list of axes."""
        match part:
            case Call(function) if function in _COUNTS:
                return True
            case Call("ints", (Name(text),)):
                return text in self.axes
            case Name(text):
                return text in self.axes or text in self.lengths
            case Call("dim" | "shape" | "size", (Name(text), *_)):
                return text in self.listed  # as many as there are axes
            case Call("dim" | "sizes" | "shape" | "size" | "dtype" | "fits"):
                return False
            case Call("sum" | "prod", arguments):
                return any(
                    self._counts(argument) or self._as_many(argument) for argument in arguments
                )
            case Call("repeat" | "take" | "drop" | "at" | "without" | "permute", (item, _)):
                return self._counts(item)
            case Call(_, arguments):
                return any(map(self._counts, arguments))
            case Index(of):
                return self._counts(of)
            case Unary("-", operand):
                return self._counts(operand)
            case Binary("+" | "-" | "*" | "/" | "//" | "%" | "++", left, right):
                return self._counts(left) or self._counts(right)
            case ListOf(items):
                return any(map(self._counts, items))
            case _:
                return False

    def _from_end(self, part: Expression) -> bool:
        """Whether it is a length less a number."""
        return isinstance(part, Binary) and part.operator == "-" and self._counts(part.left)

    def _as_many(self, part: Expression) -> bool:
        """Whether a list is of numbers that are told, as many as a length says."""
        match part:
            case Call("repeat", (_, number)):
                return self._counts(number)
            case Call("plus" | "times" | "take" | "drop", arguments):
                return any(map(self._as_many, arguments))
            case Binary("++", left, right):
                return self._as_many(left) or self._as_many(right)
            case _:
                return False

    def _axes(self, part: Expression) -> bool:
        """Whether the value is an axis or a list of axes, not merely a length."""
        match part:
            case Call("rank" | "len"):
                return False
            case Binary(_, left, right):
                return self._axes(left) or self._axes(right)
            case _:
                return self._counts(part)

    def _offset(self, part: Expression) -> float:
        """The largest number that a sum of lengths and numbers differs by from the lengths."""
        match part:
            case Literal(int() | float() as number):
                return abs(number)
            case Literal() | Name() | Star() | Index():
                return 0
            case Call("len", (Name(text) | Star(text),)):
                return max(self.beside.get(text, 0), self.fixed.get(text, 0))
            case Call("rank" | "dim" | "size", (Name(text), *_)):
                return self.fixed.get(text, 0)
            case Call("len", (Call("shape" | "ints", (Name(text),)),)):
                return self.fixed.get(text, 0)
            case Call("min" | "max" | "plus", arguments):
                return sum(map(self._offset, arguments))
            case Call("sum" | "prod" | "times") if self._counts(part):
                return inf
            case Call("repeat", (item, _)):
                return self._offset(item)
            case Call():
                return 0
            case ListOf(items):
                return max(map(self._offset, items), default=0)
            case Unary(_, operand):
                return self._offset(operand)
            case Binary("*", left, right):
                left_offset, right_offset = self._offset(left), self._offset(right)
                if _is_number(left) and _is_number(right):
                    return left_offset * right_offset
                if _is_number(left) and left_offset >= 1:  # less of it would be more of a length
                    return right_offset
                return left_offset if _is_number(right) and right_offset >= 1 else inf
            case Binary("/" | "//" | "%"):
                return inf
            case Binary(_, left, right):
                return self._offset(left) + self._offset(right)
        return inf


def _from_end(part: Expression) -> int | None:
    """How far before the end a place is that is told from there."""
    match part:
        case Binary("-", Call("rank", (Name(),)), Literal(int() as number)):
            return number
        case _:
            return None


def _is_text(part: Expression) -> bool:
    return isinstance(part, Literal) and isinstance(part.value, str)


def _is_number(part: Expression) -> bool:
    match part:
        case Literal():
            return True
        case Unary("-", operand):
            return _is_number(operand)
        case _:
            return False
