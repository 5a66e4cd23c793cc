"""Clauses of Datalog joined set-wise in numpy, where need be from what is new alone.

The catalog's engine plans each clause as SQL, which takes longer than these joins do: rules are
many, matches few, and the columns are in memory already. What clauses of rules need is here:
conjunctions over given and derived relations, negation, comparisons, arithmetic on integers;
neither recursion nor aggregates. Relations are sets; symbols are numbers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...catalog.datalog.language.syntax import (
    Atom,
    Clause,
    Comparison,
    DatalogError,
    Expression,
    Functor,
    Negation,
    Number,
    Position,
    String,
    Truth,
    Variable,
    Wildcard,
    variables,
)
from .arrays import Flags, Ints, Keys, mixed, segments

Values = NDArray[Any]  # int64, or float64 for the numbers that constants are
Table = Sequence[Values]
Constant = int | float | str

_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_COMPUTE: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "%": np.fmod,  # the remainder has the sign of the dividend, as in C
}


@dataclass(frozen=True)
class Goal:
    """An atom: what its columns must be, by number or by variable."""

    relation: str
    constants: tuple[tuple[int, Constant], ...]
    variables: tuple[tuple[int, str], ...]
    negated: bool


@dataclass(frozen=True)
class Test:
    """A comparison, and the variables on either side."""

    operator: str
    left: Expression
    right: Expression
    position: Position
    names: tuple[frozenset[str], frozenset[str]]

    @classmethod
    def of(cls, literal: Comparison) -> Test:
        """Read a comparison."""
        left, right = (
            frozenset(variable.name for variable in variables(side))
            for side in (literal.left, literal.right)
        )
        return cls(literal.operator, literal.left, literal.right, literal.position, (left, right))

    def missing(self, bound: Collection[str]) -> tuple[bool, bool]:
        """Whether a variable on the left is unbound, and whether one on the right is."""
        left, right = self.names
        return not left <= bound, not right <= bound  # type: ignore[operator]


@dataclass(frozen=True)
class Conjunction:
    """A clause: the terms of its head, its atoms and its comparisons."""

    head: tuple[Expression, ...]
    goals: tuple[Goal, ...]
    tests: tuple[Test, ...]


def conjunction_of(clause: Clause) -> Conjunction:
    """Read a clause; raises DatalogError for what isn't joined here."""
    goals: list[Goal] = []
    tests: list[Test] = []
    for literal in clause.body:
        if isinstance(literal, Comparison) and literal.operator in _COMPARE:
            tests.append(Test.of(literal))
        elif isinstance(literal, Atom):
            goals.append(_goal(literal, negated=False, tests=tests))
        elif isinstance(literal, Negation):
            goals.append(_goal(literal.atom, negated=True, tests=tests))
        elif not (isinstance(literal, Truth) and literal.value):
            raise DatalogError.at(literal.position, "joins can't join this literal")
    return Conjunction(clause.head.arguments, tuple(goals), tuple(tests))


def _goal(atom: Atom, *, negated: bool, tests: list[Test]) -> Goal:
    constants: list[tuple[int, Constant]] = []
    variables: list[tuple[int, str]] = []
    for column, argument in enumerate(atom.arguments):
        if isinstance(argument, Number | String):
            constants.append((column, argument.value))
        elif isinstance(argument, Variable):
            variables.append((column, argument.name))
        elif not isinstance(argument, Wildcard):  # computed: a variable that must equal it
            name = f"={len(tests)}"
            variables.append((column, name))
            here = Variable(name, argument.position)
            tests.append(Test.of(Comparison("=", here, argument, argument.position)))
    return Goal(atom.name, tuple(constants), tuple(variables), negated)


@dataclass(frozen=True)
class Frame:
    """Bindings of variables, one row each."""

    columns: Mapping[str, Values]
    size: int

    def take(self, which: Ints | Flags, more: Mapping[str, Values] | None = None) -> Frame:
        """Some of the rows, with more columns beside them."""
        size = int(which.sum()) if which.dtype == bool else len(which)
        kept = {name: column[which] for name, column in self.columns.items()}
        return Frame({**kept, **(more or {})}, size)


class Tables:
    """Relations: given ones as columns, and derived ones, computed when they are asked for.

    `symbols` numbers the texts that columns hold.
    """

    def __init__(
        self,
        given: Mapping[str, Table],
        clauses: Mapping[str, Sequence[Conjunction]],
        symbols: Mapping[str, int],
    ) -> None:
        self._rows: dict[str, Table] = dict(given)
        self._clauses, self._symbols = dict(clauses), symbols
        self.was_cut = False  # whether a body had more bindings than were asked for
        self._chosen: dict[object, Ints] = {}
        self._indexes: dict[object, tuple[Values, Ints]] = {}

    def define(self, clauses: Mapping[str, Sequence[Conjunction]]) -> None:
        """Derive more relations."""
        self._clauses |= clauses

    def rows(self, name: str) -> Table:
        """The columns of a relation."""
        if name not in self._rows:
            found = [self.solve(clause) for clause in self._clauses[name]]
            self._rows[name] = union(found)
        return self._rows[name]

    def solve(
        self,
        clause: Conjunction,
        first: Goal | None = None,
        start: Table | None = None,
        most: int | None = None,
    ) -> Table:
        """The head's columns for all that the body holds for; rows may come repeatedly.

        With `first`, an atom of the body, its relation is taken to have the rows `start` alone.
        With `most`, of more bindings than that the first are kept wherever an atom is joined, so
        that some rows may be missing: `was_cut` tells. What is derived on the way is never cut.
        """
        frame = self._body(clause, first, start, most)
        if not frame.size:
            return [np.empty(0, np.int64) for _ in clause.head]
        return [_spread(self._value(term, frame), frame.size) for term in clause.head]

    def _body(
        self, clause: Conjunction, first: Goal | None, start: Table | None, most: int | None
    ) -> Frame:
        nothing = Frame({}, 0)
        goals = [goal for goal in clause.goals if goal is not first]
        tests = list(clause.tests)
        if any(self._is_empty(goal) for goal in goals):
            return nothing
        frame = Frame({}, 1)
        if first is not None and start is not None:
            frame = self._first(first, start)
        while goals or tests:
            if not frame.size:
                return nothing
            ready = [test for test in tests if _is_ready(test, frame)]
            for test in ready:
                frame = self._test(test, frame)
            tests = [test for test in tests if test not in ready]
            if goals and frame.size:
                goal = min(goals, key=lambda goal: self._rank(goal, frame))
                goals.remove(goal)
                frame = self._joined(goal, frame, most)
            elif not ready and not goals:
                raise DatalogError.at(tests[0].position, "a variable is bound by nothing")
        return frame

    def chosen(self, goal: Goal) -> Table:
        """The rows in which an atom's constants stand, and its repeated variables agree."""
        chosen = self._choose(goal)
        return [column[chosen] for column in self.rows(goal.relation)]

    # ------------------------------------------------------------------------------- atoms

    def _is_empty(self, goal: Goal) -> bool:
        """Whether an atom is known to hold for nothing; what isn't computed yet may hold."""
        return not goal.negated and goal.relation in self._rows and not len(self._choose(goal))

    def _rank(self, goal: Goal, frame: Frame) -> tuple[int, int]:
        """What to join next: tests, then what is known of what is bound, then its neighbours."""
        bound = [name in frame.columns for _, name in goal.variables]
        if all(bound):
            return 0, 0
        if goal.negated:
            return 4, 0
        if bound[0] and goal.variables[0][0] == 0:
            return 1, 0
        return (2, 0) if any(bound) else (3, len(self._choose(goal)))

    def _first(self, goal: Goal, rows: Table) -> Frame:
        columns: dict[str, Values] = {}
        chosen = self._matching(goal, rows)
        for column, name in goal.variables:
            columns.setdefault(name, rows[column][chosen])
        return Frame(columns, len(chosen))

    def _joined(self, goal: Goal, frame: Frame, most: int | None) -> Frame:
        rows = self.rows(goal.relation)
        bound = tuple((c, name) for c, name in goal.variables if name in frame.columns)
        new = {name: c for c, name in goal.variables if name not in frame.columns}
        which, found = self._pairs(goal, bound, frame, most if new and not goal.negated else None)
        if goal.negated or not new:
            holds = np.zeros(frame.size, bool)
            holds[which] = True
            return frame.take(~holds if goal.negated else holds)
        return frame.take(which, {name: rows[c][found] for name, c in new.items()})

    def _pairs(
        self, goal: Goal, bound: tuple[tuple[int, str], ...], frame: Frame, most: int | None
    ) -> tuple[Ints, Ints]:
        """Rows of the frame and rows of the relation that agree in what is bound."""
        if not bound:
            chosen = self._choose(goal)
            kept = self._kept(np.full(frame.size, len(chosen)), most)
            return np.repeat(np.arange(kept), len(chosen)), np.tile(chosen, kept)
        keys, places = self._index(goal, tuple(column for column, _ in bound))
        wanted = _key([frame.columns[name] for _, name in bound])
        low = np.searchsorted(keys, wanted, "left")
        counts = np.searchsorted(keys, wanted, "right") - low
        kept = self._kept(counts, most)
        which = np.repeat(np.arange(kept), counts[:kept])
        found = places[segments(low[:kept], counts[:kept])]
        if len(bound) > 1:  # equal keys need not mean equal values
            rows = self.rows(goal.relation)
            equal = np.ones(len(which), bool)
            for column, name in bound:
                equal &= rows[column][found] == frame.columns[name][which]
            which, found = which[equal], found[equal]
        return which, found

    def _kept(self, counts: Ints, most: int | None) -> int:
        """How many rows of a frame, the first ones, have at most `most` partners together."""
        if most is None or counts.sum() <= most:
            return len(counts)
        self.was_cut = True
        return max(1, int(np.searchsorted(np.cumsum(counts), most, "right")))

    def _choose(self, goal: Goal) -> Ints:
        repeated = _repeated(goal)
        key = (goal.relation, goal.constants, repeated)
        if key not in self._chosen:
            self._chosen[key] = self._matching(goal, self.rows(goal.relation))
        return self._chosen[key]

    def _matching(self, goal: Goal, rows: Table) -> Ints:
        chosen = np.arange(len(rows[0]))
        for column, value in goal.constants:
            wanted = self._symbols.get(value, -1) if isinstance(value, str) else value
            chosen = chosen[rows[column][chosen] == wanted]
        for a, b in _repeated(goal):
            chosen = chosen[rows[a][chosen] == rows[b][chosen]]
        return chosen

    def _index(self, goal: Goal, columns: tuple[int, ...]) -> tuple[Values, Ints]:
        key = (goal.relation, goal.constants, _repeated(goal), columns)
        if key not in self._indexes:
            chosen, rows = self._choose(goal), self.rows(goal.relation)
            keys = _key([rows[column][chosen] for column in columns])
            order = np.argsort(keys, kind="stable")
            self._indexes[key] = (keys[order], chosen[order])
        return self._indexes[key]

    # ------------------------------------------------------------------------- comparisons

    def _test(self, test: Test, frame: Frame) -> Frame:
        for side, other, missing in zip(
            (test.left, test.right),
            (test.right, test.left),
            test.missing(frame.columns.keys()),
            strict=True,
        ):
            if missing and isinstance(side, Variable):
                value = _spread(self._value(other, frame), frame.size)
                return Frame({**frame.columns, side.name: value}, frame.size)
        left, right = self._value(test.left, frame), self._value(test.right, frame)
        holds = np.broadcast_to(_COMPARE[test.operator](left, right), frame.size)
        return frame if holds.all() else frame.take(holds)

    def _value(self, term: Expression, frame: Frame) -> Any:
        """A term's value: one per row, or one for all."""
        if isinstance(term, Variable):
            return frame.columns[term.name]
        if isinstance(term, Number):
            return term.value
        if isinstance(term, String):
            return self._symbols.get(term.value, -1)
        if isinstance(term, Functor) and term.name in _COMPUTE and len(term.arguments) == 2:
            left, right = (self._value(argument, frame) for argument in term.arguments)
            with np.errstate(divide="ignore", over="ignore"):  # another literal rules it out
                return _COMPUTE[term.name](left, right)
        raise DatalogError.at(term.position, "joins can't compute this term")


def _is_ready(test: Test, frame: Frame) -> bool:
    """Whether all variables are bound, or an equality binds the one that isn't."""
    left, right = test.missing(frame.columns.keys())
    if not left and not right:
        return True
    side = test.left if left else test.right
    return test.operator == "=" and not (left and right) and isinstance(side, Variable)


def _repeated(goal: Goal) -> tuple[tuple[int, int], ...]:
    """Pairs of columns in which one variable stands."""
    if len({name for _, name in goal.variables}) == len(goal.variables):
        return ()
    first: dict[str, int] = {}
    return tuple(
        (first[name], column)
        for column, name in goal.variables
        if first.setdefault(name, column) != column
    )


def _spread(value: Any, size: int) -> Values:
    """One value a row."""
    return np.broadcast_to(np.asarray(value), size)


def _bits(column: Values) -> Ints:
    """Integers that are equal where values are; a negative zero is zero."""
    if column.dtype == np.float64:
        return (column + 0.0).view(np.int64)
    return column


def _key(columns: Sequence[Values]) -> Values:
    """One number a row: the column itself, or 64 bits in which equal rows agree."""
    if len(columns) == 1:
        return _bits(columns[0])
    mix: Keys = np.zeros(len(columns[0]), np.uint64)
    for place, column in zip(count(1), columns, strict=False):
        mix += mixed(_bits(column) ^ (place << 56))
    return mix


def union(tables: Sequence[Table]) -> Table:
    """All rows of tables of one width, each once, sorted."""
    filled = [table for table in tables if len(table[0])]
    if not filled:
        return tables[0]
    columns = [np.concatenate(parts) for parts in zip(*filled, strict=True)]
    order = np.lexsort(columns[::-1])
    columns = [column[order] for column in columns]
    fresh = np.ones(len(order), bool)
    if len(order) > 1:
        fresh[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    return [column[fresh] for column in columns]
