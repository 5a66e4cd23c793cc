"""Clauses of Datalog joined set-wise in numpy, where need be from what is new alone.

The catalog's engine plans each clause as SQL, which takes longer than these joins do: rules are
many, matches few, and the columns are in memory already. Here is what programs over graphs need:
conjunctions over given and derived relations, negation, comparisons, arithmetic on integers,
recursion and aggregates. Relations are sets; symbols are numbers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...catalog.datalog.analysis.scope import counts_rows, needs, rename, resolve
from ...catalog.datalog.language.syntax import (
    Aggregate,
    Atom,
    Clause,
    Comparison,
    DatalogError,
    Expression,
    Functor,
    Literal,
    Negation,
    Number,
    String,
    Truth,
    Variable,
    Wildcard,
    aggregates,
    variables,
)
from ...catalog.terms.comparisons import COMPARISONS
from ...catalog.terms.syntax_tree import Place
from .arrays import Flags, Ints, Keys, mixed, segments

Values = NDArray[Any]  # int64, or float64 for the numbers that constants are
Table = Sequence[Values]
Constant = int | float | str

_ROW = "=row"  # numbers the rows of the frame around an aggregate
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
    position: Place
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
class Group:
    """An aggregate: over `body`, whose head is the target, for the values of the `outer` variables.

    Its value is that of the variable `name`.
    """

    name: str
    function: str
    outer: tuple[str, ...]
    body: Conjunction
    position: Place


@dataclass(frozen=True)
class Conjunction:
    """A clause: the terms of its head, its atoms, its comparisons and its aggregates."""

    head: tuple[Expression, ...]
    goals: tuple[Goal, ...]
    tests: tuple[Test, ...]
    groups: tuple[Group, ...] = ()

    @cached_property
    def reads(self) -> Mapping[str, bool]:
        """The relations that it reads, and whether as a whole: negated or aggregated."""
        read: dict[str, bool] = {}
        for goal in self.goals:
            read[goal.relation] = goal.negated or read.get(goal.relation, False)
        return read | {name: True for group in self.groups for name in group.body.reads}


def conjunction_of(clause: Clause) -> Conjunction:
    """Read a clause; raises DatalogError for what isn't joined here."""
    expressions = (e for b in (clause.head, *clause.body) for e in b.parts)
    if any(True for e in expressions for _ in aggregates(e)):
        clause = resolve(clause)
    return _Reader().read(clause.head.arguments, clause.body)


class _Reader:
    """Reads one conjunction; `every` gives underscores names, so that they count."""

    def __init__(self, *, every: bool = False) -> None:
        self.every = every
        self.goals: list[Goal] = []
        self.tests: list[Test] = []
        self.groups: list[Group] = []
        self.numbers = count()

    def read(self, head: Sequence[Expression], body: Sequence[Literal]) -> Conjunction:
        """Read a head and a body."""
        for literal in body:
            if isinstance(literal, Comparison) and literal.operator in COMPARISONS:
                left, right = self._plain(literal.left), self._plain(literal.right)
                self._test(Comparison(literal.operator, left, right, literal.position))
            elif isinstance(literal, Atom):
                self._goal(literal, negated=False)
            elif isinstance(literal, Negation):
                self._goal(literal.atom, negated=True)
            elif not (isinstance(literal, Truth) and literal.value):
                raise DatalogError.at(literal.position, "joins can't join this literal")
        terms = tuple(self._plain(term) for term in head)
        return Conjunction(terms, tuple(self.goals), tuple(self.tests), tuple(self.groups))

    def _test(self, literal: Comparison) -> None:
        self.tests.append(Test.of(literal))

    def _goal(self, atom: Atom, *, negated: bool) -> None:
        constants: list[tuple[int, Constant]] = []
        variables: list[tuple[int, str]] = []
        for column, argument in enumerate(atom.arguments):
            if isinstance(argument, Number | String):
                constants.append((column, argument.value))
            elif isinstance(argument, Variable):
                variables.append((column, argument.name))
            elif not isinstance(argument, Wildcard):  # computed: a variable that must equal it
                name = f"={next(self.numbers)}"
                variables.append((column, name))
                here = Variable(name, argument.position)
                self._test(Comparison("=", here, self._plain(argument), argument.position))
            elif self.every and not negated:
                variables.append((column, f"={next(self.numbers)}"))
        self.goals.append(Goal(atom.name, tuple(constants), tuple(variables), negated))

    def _plain(self, expression: Expression) -> Expression:
        """Put a variable in the place of each aggregate."""
        if not any(True for _ in aggregates(expression)):
            return expression

        def change(node: Expression) -> Expression | None:
            return self._group(node) if isinstance(node, Aggregate) else None

        return rename(expression, change)

    def _group(self, node: Aggregate) -> Variable:
        """Read an aggregate: over rows of one atom or over distinct bindings, as `scope` has it."""
        reader = _Reader(every=node.name == "count" or counts_rows(node))
        head = () if node.target is None else (node.target,)
        body = reader.read(head, node.body)
        variable = Variable(f"={next(self.numbers)}", node.position)
        outer = tuple(sorted(needs(node)))
        self.groups.append(Group(variable.name, node.name, outer, body, node.position))
        return variable


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
        relations: Mapping[str, Table],
        clauses: Mapping[str, Sequence[Conjunction]],
        symbols: Mapping[str, int],
    ) -> None:
        self._rows: dict[str, Table] = dict(relations)
        self._clauses, self._symbols = dict(clauses), symbols
        self.was_cut = False  # whether a body had more bindings than were asked for
        self._chosen: dict[tuple[object, ...], Ints] = {}
        self._indexes: dict[tuple[object, ...], tuple[Values, Ints]] = {}

    def define(self, clauses: Mapping[str, Sequence[Conjunction]]) -> None:
        """Derive more relations."""
        self._clauses |= clauses

    def rows(self, name: str) -> Table:
        """The columns of a relation."""
        if name not in self._rows:
            recursive = self._recursive(name)
            if recursive:
                self._close(recursive)
            else:
                rows = [self.solve(clause) for clause in self._clauses[name]]
                self._rows[name] = union(rows)
        return self._rows[name]

    def _recursive(self, name: str) -> set[str]:
        """The relations that a relation is recursive with; nothing where it is not."""
        reached = self._reached(name)
        members = {other for other in reached if name in self._reached(other)}
        for member in members:
            for clause in self._clauses.get(member, ()):
                if any(whole and read in members for read, whole in clause.reads.items()):
                    reason = f"{member} negates or aggregates what it is recursive with"
                    raise DatalogError.at(clause.head[0].position, reason)
        return members

    def _reached(self, name: str) -> set[str]:
        """The relations still to be derived that a relation reads, at any depth."""
        reached: set[str] = set()
        queue = [name]
        while queue:
            for clause in self._clauses.get(queue.pop(), ()):
                for read in clause.reads:
                    if read not in reached and read not in self._rows:
                        reached.add(read)
                        queue.append(read)
        return reached

    def _close(self, members: Collection[str]) -> None:
        """Derive relations that are recursive with each other, semi-naively."""
        rounds: list[tuple[str, Conjunction, Goal]] = []
        derived: dict[str, list[Table]] = {}
        for name in members:
            derived[name] = [[np.empty(0, np.int64) for _ in self._clauses[name][0].head]]
            for clause in self._clauses[name]:
                inner = [goal for goal in clause.goals if goal.relation in members]
                rounds += [(name, clause, goal) for goal in inner]
                if not inner:
                    derived[name].append(self.solve(clause))
        latest = {name: union(tables) for name, tables in derived.items()}
        self._rows |= latest
        while any(len(rows[0]) for rows in latest.values() if rows):
            derived = {name: [[column[:0] for column in latest[name]]] for name in members}
            for name, clause, goal in rounds:
                derived[name].append(self.solve(clause, goal, latest[goal.relation]))
            latest = {name: _difference(union(derived[name]), self._rows[name]) for name in members}
            for name in members:
                self._rows[name] = union([self._rows[name], latest[name]])
            self._forget(members)

    def _forget(self, members: Collection[str]) -> None:
        """Drop what was noted of relations that have grown."""
        for noted in (self._chosen, self._indexes):
            for key in [key for key in noted if key[0] in members]:
                del noted[key]

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
        if any(self._is_empty(goal) for goal in goals):
            return nothing
        frame = Frame({}, 1)
        if first is not None and start is not None:
            frame = self._first(first, start)
        return self._extended(clause, goals, frame, most)

    def _extended(
        self, clause: Conjunction, goals: list[Goal], frame: Frame, most: int | None = None
    ) -> Frame:
        """The rows of a frame with all that the rest of a body binds."""
        nothing = Frame({}, 0)
        tests, groups = list(clause.tests), list(clause.groups)
        while goals or tests or groups:
            if not frame.size:
                return nothing
            ready = [test for test in tests if _is_ready(test, frame)]
            for test in ready:
                frame = self._test(test, frame)
            tests = [test for test in tests if test not in ready]
            if not frame.size:
                return nothing
            goal = min(goals, key=lambda goal: self._rank(goal, frame)) if goals else None
            group = self._due(groups, goal, frame) if groups else None
            if group is not None:
                groups.remove(group)
                frame = self._grouped(group, frame)
            elif goal is not None:
                goals.remove(goal)
                frame = self._joined(goal, frame, most)
            elif not ready and groups:
                raise DatalogError.at(groups[0].position, "these aggregates depend on each other")
            elif not ready:
                raise DatalogError.at(tests[0].position, "a variable is bound by nothing")
        return frame

    def _due(self, groups: Sequence[Group], goal: Goal | None, frame: Frame) -> Group | None:
        """The aggregate to compute now: after all atoms but those that wait for its value."""
        if goal is not None and not (goal.negated and self._rank(goal, frame)[0] > 0):
            return None
        return next((g for g in groups if frame.columns.keys() >= set(g.outer)), None)

    def _grouped(self, group: Group, frame: Frame) -> Frame:
        """The rows of a frame with an aggregate's value; none where an extreme is of nothing."""
        size = frame.size
        start = {name: frame.columns[name] for name in group.outer}
        start[_ROW] = np.arange(size)
        inner = self._extended(group.body, list(group.body.goals), Frame(start, size))
        if inner.size:
            rows = union([list(inner.columns.values())])
            inner = Frame(dict(zip(inner.columns, rows, strict=True)), len(rows[0]))
        places = inner.columns.get(_ROW, np.empty(0, np.int64))
        counts = np.bincount(places, minlength=size)
        if group.function == "count":
            return Frame({**frame.columns, group.name: counts}, size)
        (target,) = group.body.head
        values = np.empty(0, np.int64)
        if inner.size:
            values = _spread(self._value(target, inner), inner.size)
        totals: Values = np.zeros(size, values.dtype)
        if group.function in ("sum", "mean"):
            np.add.at(totals, places, values)
        else:
            better = np.minimum if group.function == "min" else np.maximum
            totals[places] = values
            better.at(totals, places, values)
        if group.function == "sum":
            return Frame({**frame.columns, group.name: totals}, size)
        present = counts > 0
        if group.function == "mean":
            totals = totals / np.maximum(counts, 1)
        return frame.take(present, {group.name: totals[present]})

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
        which, others = self._pairs(goal, bound, frame, most if new and not goal.negated else None)
        if goal.negated or not new:
            holds = np.zeros(frame.size, bool)
            holds[which] = True
            return frame.take(~holds if goal.negated else holds)
        return frame.take(which, {name: rows[c][others] for name, c in new.items()})

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
        positions = places[segments(low[:kept], counts[:kept])]
        if len(bound) > 1:  # equal keys need not mean equal values
            rows = self.rows(goal.relation)
            equal = np.ones(len(which), bool)
            for column, name in bound:
                equal &= rows[column][positions] == frame.columns[name][which]
            which, positions = which[equal], positions[equal]
        return which, positions

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
        holds = np.broadcast_to(COMPARISONS[test.operator](left, right), frame.size)
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


def _difference(rows: Table, old_rows: Table) -> Table:
    """The rows that aren't known, of tables without duplicates."""
    old = np.repeat([0, 1], [len(old_rows[0]), len(rows[0])])
    columns = [np.concatenate(parts) for parts in zip(old_rows, rows, strict=True)]
    order = np.lexsort([old, *columns[::-1]])
    fresh = old[order] == 1
    if len(order) > 1:
        same = np.all([column[order][1:] == column[order][:-1] for column in columns], axis=0)
        fresh[1:] &= ~same
    return [column[order][fresh] for column in columns]


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
