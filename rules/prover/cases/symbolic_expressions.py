"""Expressions of the rule language over sizes that are unknown: their values are terms.

What the matcher leaves undecided, a comparison of unknown sizes, becomes a condition here. Where
the matcher's answer is "not known, so it does not hold" for every match, UnknownError says so.
Where the matcher would know a value of which no term speaks, such as the sum of as many numbers as
a size says, NoTermError does: a condition with one may hold or not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ....catalog.terms.index_notation import Term, apply, is_integer, select
from ....catalog.terms.syntax_tree import Expression
from ...language.expressions import ExpressionEvaluator
from ...language.functions import UnknownError
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


class TermExpressions(ExpressionEvaluator):
    """Evaluates with terms; UnknownError where the matcher would not know a value either."""

    def take_for_granted(self, term: Term) -> None:
        """Hear what must hold for a value to be known: that a quotient is exact."""
        raise NotImplementedError

    def sequence(self, value: Value) -> tuple[Value, ...]:
        """The value as a list."""
        if isinstance(value, tuple):
            return value
        if isinstance(value, Progression):
            raise NoTermError
        raise UnknownError

    def integer(self, value: Value) -> int:
        """The value as a known integer."""
        if isinstance(value, int):
            return int(value)
        if value is None or isinstance(value, tuple | str | float):
            raise UnknownError
        raise NoTermError

    def number(self, value: Value) -> Term:
        """The value as a term."""
        if isinstance(value, Progression):
            raise NoTermError
        if value is None or isinstance(value, tuple | str):
            raise UnknownError
        term: Term = value
        return term

    size = number

    def operate(self, operator: str, left: Value, right: Value) -> Term:
        """Two terms under an operator, of integers exact where it is `/`."""
        a, b = self.number(left), self.number(right)
        if operator in ("/", "//", "%"):
            if b == 0:
                raise UnknownError
            self.take_for_granted(apply("!=", b, 0))
        if operator == "/" and is_integer(a) and is_integer(b):
            rest = apply("%", a, b)
            if rest != 0:
                if isinstance(rest, int):
                    raise UnknownError
                self.take_for_granted(apply("=", rest, 0))
            return apply("//", a, b)
        return apply(operator, a, b)

    def select(self, condition: Term, then: Term, otherwise: Term) -> Term:
        """One of two terms."""
        return select(condition, then, otherwise)

    def progression(self, first: Value, end: Value) -> tuple[int, ...] | Progression:
        """The integers from the first up to the end, which is not among them."""
        if isinstance(first, int) and isinstance(end, int):
            return tuple(range(first, end))
        start = self.number(first)
        return Progression(start, apply("max", apply("-", self.number(end), start), 0))

    def item(self, values: Value, place: Value) -> Value:
        """One item of a list, or of a progression that is long enough."""
        if isinstance(values, Progression) and (position := self.integer(place)) >= 0:
            self.take_for_granted(apply("<", position, values.length))
            return apply("+", values.first, position)
        return super().item(values, place)

    def fits(self, c: tuple[Term, ...], target: tuple[Term, ...]) -> Term:
        """Whether a shape broadcasts to exactly the target."""
        if len(c) > len(target):
            return False
        whole: Term = True
        for size, wanted in zip(reversed(c), reversed(target), strict=False):
            whole = apply("and", whole, apply("or", apply("=", size, 1), apply("=", size, wanted)))
        return whole

    def literal(self, value: int | float | str) -> Value:
        """A number that is written down, as what it is the rounding of."""
        return read_literal(value) if isinstance(value, float) else value

    def truth(self, value: Value) -> Term:
        """A value as a truth value."""
        if value is None or isinstance(value, tuple | str | Progression):
            raise UnknownError
        term: Term = value
        return apply("!=", term, 0) if is_integer(term) else term

    def negation(self, truth: Term) -> Term:
        """Whether a condition doesn't hold."""
        return apply("not", truth)

    def any_of(self, truths: Iterable[Term]) -> Term:
        """Whether one of several conditions holds."""
        whole: Term = False
        for truth in truths:
            whole = apply("or", whole, truth)
        return whole

    def junction(self, word: str, left: Expression, right: Expression) -> Term:
        """Kleene's `and` and `or`: what is not known decides only where the other side does not."""
        decided: list[Term] = []
        undecided = False
        for side in (left, right):
            try:
                decided.append(self.condition(side))
            except UnknownError as error:
                undecided = undecided or isinstance(error, NoTermError)
        if len(decided) == 2:
            return apply(word, *decided)
        if decided and decided[0] is (word == "or"):
            return decided[0]
        if undecided or (decided and word == "and"):
            raise NoTermError  # it is known where the side that is known decides
        if decided:
            return decided[0]
        raise UnknownError

    def negative(self, value: Value) -> Term:
        """A term with the other sign."""
        return apply("neg", self.number(value))

    def same(self, left: Value, right: Value) -> Term:
        """Whether two values are equal."""
        if isinstance(left, tuple) and isinstance(right, tuple):
            if len(left) != len(right):
                return False
            whole: Term = True
            for a, b in zip(left, right, strict=True):
                whole = apply("and", whole, self.same(a, b))
            return whole
        if isinstance(left, Progression) and isinstance(right, Progression):
            first = apply("or", apply("=", left.length, 0), apply("=", left.first, right.first))
            return apply("and", apply("=", left.length, right.length), first)
        if isinstance(left, Progression) or isinstance(right, Progression):
            raise NoTermError
        if isinstance(left, tuple | str) or isinstance(right, tuple | str):
            return bool(left == right)
        return apply("=", left, right)
