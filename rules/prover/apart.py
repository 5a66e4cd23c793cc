"""Leaving an axis out of a statement that has nothing to do with the others, in whatever order."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from ...catalog.operators.expand import Definition
from ...catalog.operators.terms import Apply, Read, Reduce, Select, Term, Variable, select
from .separation import Apart, separated
from .slicing import Program, canonical
from .statement import Outcome, Statement
from .walk import parts, symbol_names

T = TypeVar("T")


def leaves_out(statement: Statement, name: str, outcome: Outcome, smaller: Collection[str]) -> bool:
    """Whether each axis of a list can be left out so that a case is left that was looked at.

    No constraint connects two of the axes, and the list is long enough for all terms (separation).
    `smaller` are the cases in which what `name` measures is one shorter, in canonical spelling.
    """
    if statement.region is not None:
        return False
    apart = separated(statement, name, outcome)
    if apart is None:
        return False
    program = Program.of(statement)
    for axis in range(statement.free[name].length):
        try:
            without = _Without(program, apart, axis).program()
        except _StaysError:
            return False
        if canonical(without) not in smaller:
            return False
    return True


class _StaysError(Exception):
    """Something else depends on the axis."""


@dataclass
class _Without:
    """What is left of a program without an axis: its guards hold, its indices aren't read at.

    That is the program at indices along the axis where all its guards hold.
    """

    whole: Program
    apart: Apart
    axis: int

    def program(self) -> Program:
        """The program that is left; _StaysError where the axis is more than a place to read at."""
        own = {name for name, axis in self.apart.symbols.items() if axis == self.axis}
        operands = tuple(
            replace(one, shape=self._kept(one.name, one.shape)) for one in self.whole.operands
        )
        definitions = tuple(map(self._definition, self.whole.definitions))
        shapes = [*(one.shape for one in operands), *(one.shape for one in definitions)]
        terms = [*(size for shape in shapes for size in shape), *(d.value for d in definitions)]
        if any(own & symbol_names(term) for term in terms):
            raise _StaysError
        left = tuple(one for one in self.whole.assumptions if not own & symbol_names(one))
        return Program(operands, definitions, self.whole.equations, left, ())

    def _definition(self, one: Definition) -> Definition:
        value = self._term(one.name, one.value)
        if any(isinstance(part, Variable) and self._goes(one.name, part) for part in parts(value)):
            raise _StaysError
        return Definition(
            one.name, self._kept(one.name, one.shape), self._kept(one.name, one.indices), value
        )

    def _goes(self, own: str, index: Variable) -> bool:
        return self.apart.indices.get((own, index)) == self.axis

    def _kept(self, tensor: str, items: Iterable[T]) -> tuple[T, ...]:
        return tuple(
            item
            for at, item in enumerate(items)
            if self.apart.places.get((tensor, at)) != self.axis
        )

    def _belongs(self, own: str, term: Term) -> bool:
        """Whether a condition is one on the axis."""
        return any(
            (isinstance(part, Variable) and self._goes(own, part))
            or any(self.apart.symbols.get(name) == self.axis for name in symbol_names(part))
            for part in parts(term)
        )

    def _guard(self, own: str, term: Term) -> Term:
        match term:
            case Apply("and", arguments):
                left = [one for part in arguments if (one := self._guard(own, part)) is not True]
                return _all(left)
            case _:
                return True if self._belongs(own, term) else term

    def _term(self, own: str, term: Term) -> Term:
        match term:
            case Read(tensor, indices):
                return Read(tensor, self._kept(tensor, indices))
            case Select(condition, then, otherwise):
                guard = self._guard(own, condition)
                return select(guard, self._term(own, then), self._term(own, otherwise))
            case Apply(function, arguments):
                return Apply(function, tuple(self._term(own, one) for one in arguments))
            case Reduce():
                raise _StaysError  # how often an element is taken may depend on the axis
            case _:
                return term


def _all(conditions: list[Term]) -> Term:
    """Conditions joined as they were: from the left."""
    whole: Term = True
    for one in conditions:
        whole = one if whole is True else Apply("and", (whole, one))
    return whole
