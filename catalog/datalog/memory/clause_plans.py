"""A clause as a plan: in which order its literals are taken, and by which indexes.

Literals are taken in the order in which they are bound: tests as soon as they can be made, then
atoms that are known in some column, then others as they stand; aggregates last.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..analysis.constants import literal_value
from ..analysis.scope import WHOLE, counts_rows, literal_required, named_wildcards, required
from ..analysis.type_inference import FLOAT, NUMBER, SYMBOL, UNSIGNED, Kinds
from ..language.structures import BRANCH, NIL, builds, fields, is_pattern
from ..language.syntax import (
    COUNTER,
    GIVEN,
    Aggregate,
    Atom,
    Cast,
    Clause,
    Comparison,
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
    literal_variables,
    walk_inside,
)
from .plan import (
    AggregateStep,
    Call,
    ClausePlan,
    Compute,
    Enumerate,
    Filter,
    Index,
    Member,
    Probe,
    Scan,
    Slot,
    Step,
    Value,
)


class DatabaseOnlyError(Exception):
    """What isn't evaluated in memory: DuckDB does it."""


class ClausePlanner:
    """One clause under translation.

    `numbers` has the numbers of relations; `indexes` takes up those that the plan needs.
    """

    def __init__(
        self,
        clause: Clause,
        kinds: Kinds,
        numbers: Mapping[str, int],
        indexes: dict[Index, int],
    ) -> None:
        self.clause, self.kinds = clause, kinds
        self.numbers, self.indexes = numbers, indexes
        self.steps: list[Step] = []
        self.bound: dict[str, int] = {}
        self.joins = 0  # atoms, aggregates too, that have been joined
        self.fresh = itertools.count(1)
        literals: tuple[Literal, ...] = clause.literals
        # Of equal constants of two types each has a slot: 1 is 1.0 to Python.
        constants = ((type(c), c) for c in _constants(literals, kinds))
        self.constants = {key: slot for slot, key in enumerate(dict.fromkeys(constants))}
        self.width = len(self.constants)
        mentioned = [v.name for b in literals for v in literal_variables(b)]
        outside = {v.name for b in literals for v in literal_variables(b, inside=False)}
        # What is mentioned once only has to be there; aggregates tell its values apart.
        self.once = {name for name in outside if mentioned.count(name) == 1}

    def plan(self, latest: Atom | None = None) -> ClausePlan:
        """Plan the clause; `latest`, an atom of the body, ranges over the last round's rows alone.

        Raises DatabaseOnlyError, naming what isn't evaluated in memory.
        """
        body = [literal for literal in self.clause.body if literal is not latest]
        if latest is not None:
            self._scan(latest, body, latest=True, rows=False)
        self._conjunction(body, rows=False)
        head = tuple(self._value(argument) for argument in self.clause.head.arguments)
        constants = tuple(value for _, value in self.constants)
        relation = self.numbers[self.clause.head.name]
        return ClausePlan(relation, constants, tuple(self.steps), head)

    # -- literals

    def _conjunction(self, literals: Sequence[Literal], *, rows: bool) -> None:
        """Plan a conjunction; `rows` says that each row of an atom counts."""
        pending = list(literals)
        while pending:
            literal = self._next(pending)
            pending.remove(literal)
            if isinstance(literal, Atom):
                self._atom(literal, pending, rows)
            elif isinstance(literal, Negation):
                self._absent(literal.atom)
            elif isinstance(literal, Truth):
                self._test("=" if literal.value else "!=", Slot(0), Slot(0))
            else:
                self._compare(literal)

    def _next(self, pending: Sequence[Literal]) -> Literal:
        heavy: list[Literal] = []
        atoms: list[Atom] = []
        for literal in pending:
            if isinstance(literal, Atom):
                atoms.append(literal)
            elif self._ready(literal):
                if not any(True for e in literal.parts for _ in aggregates(e)):
                    return literal
                heavy.append(literal)
        if atoms:
            return min(atoms, key=self._rank)
        if heavy:
            return heavy[0]
        raise DatabaseOnlyError("a constraint has a variable that nothing binds")

    def _ready(self, literal: Literal) -> bool:
        if literal_required(literal) <= self.bound.keys():
            return True
        if not isinstance(literal, Comparison) or literal.operator != "=":
            return False
        pairs = ((literal.left, literal.right), (literal.right, literal.left))
        return any(self._binds(side) and self._is_bound(other) for side, other in pairs)

    def _binds(self, side: Expression) -> bool:
        """Say whether an equality may bind a side: a variable, or the fields of a structure."""
        if isinstance(side, Variable | Wildcard):
            return True
        if not isinstance(side, Functor) or not builds(side):
            return False
        return all(self._binds(a) or self._is_bound(a) for a in side.arguments)

    def _rank(self, atom: Atom) -> int:
        known = [self._is_bound(a) for a in atom.arguments if not self._dropped(a)]
        return 0 if all(known) else 1 if any(known) else 2

    def _is_bound(self, expression: Expression) -> bool:
        return not is_pattern(expression) and required(expression) <= self.bound.keys()

    def _dropped(self, expression: Expression) -> bool:
        if isinstance(expression, Variable):
            return expression.name in self.once
        return isinstance(expression, Wildcard)

    # -- atoms

    def _atom(self, atom: Atom, pending: list[Literal], rows: bool) -> None:
        known, others = self._columns(atom)
        needed = [c for c in others if rows or not self._dropped(atom.arguments[c])]
        if not needed:
            self._member(atom, known, absent=False)
        elif (known and not self.joins) or len(needed) == len(atom.arguments):
            self._scan(atom, pending, latest=False, rows=rows)
        else:
            slots = self._slots(atom, known)
            self.steps.append(Probe(self._index(atom.name, known, needed), slots))
            self._bind(atom, needed, pending)

    def _columns(self, atom: Atom) -> tuple[list[int], list[int]]:
        """Return the columns whose values are known, and the others."""
        known = [c for c, a in enumerate(atom.arguments) if self._is_bound(a)]
        return known, [c for c in range(len(atom.arguments)) if c not in known]

    def _absent(self, atom: Atom) -> None:
        known = [c for c, a in enumerate(atom.arguments) if not isinstance(a, Wildcard)]
        if any(is_pattern(atom.arguments[c]) for c in known):
            raise DatabaseOnlyError("a negated record with an underscore")
        self._member(atom, known, absent=True)

    def _member(self, atom: Atom, known: Sequence[int], *, absent: bool) -> None:
        slots = self._slots(atom, known)
        self.steps.append(Member(self._index(atom.name, (), known), slots, absent))

    def _scan(self, atom: Atom, pending: list[Literal], *, latest: bool, rows: bool) -> None:
        """Go through all rows, and test what is known of them: an index is for repeated use."""
        known, others = self._columns(atom)
        needed = [c for c in others if rows or not self._dropped(atom.arguments[c])]
        relation = self.numbers[atom.name]
        slots = self._slots(atom, known)
        self.steps.append(Scan(relation, latest, tuple(known), slots, tuple(needed)))
        self._bind(atom, needed, pending)

    def _bind(self, atom: Atom, columns: Sequence[int], pending: list[Literal]) -> None:
        """Name the values that a step has added, and test those that are known already."""
        self.joins += 1
        added = [(self._added(), atom.arguments[column]) for column in columns]
        repeated: list[tuple[int, Expression]] = []
        for slot, argument in added:
            if isinstance(argument, Variable) and argument.name not in self.bound:
                self.bound[argument.name] = slot
            elif not isinstance(argument, Wildcard):
                repeated.append((slot, argument))
        for slot, argument in repeated:
            if self._is_bound(argument) and not any(True for _ in aggregates(argument)):
                self._test("=", Slot(slot), self._value(argument))
            else:
                here = Variable(f"={slot}", argument.position)
                self.bound[here.name] = slot
                pending.append(Comparison("=", here, argument, argument.position))

    def _slots(self, atom: Atom, columns: Sequence[int]) -> tuple[int, ...]:
        return tuple(self._slot(self._value(atom.arguments[column])) for column in columns)

    def _slot(self, value: Value) -> int:
        """Return the slot of a value, one that it is computed into where it has none."""
        if isinstance(value, Slot):
            return value.place
        self.steps.append(Compute(value))
        return self._added()

    def _added(self) -> int:
        self.width += 1
        return self.width - 1

    def _index(self, name: str, keys: Sequence[int], columns: Sequence[int]) -> int:
        index = Index(self.numbers[name], tuple(keys), tuple(columns))
        return self.indexes.setdefault(index, len(self.indexes))

    # -- constraints

    def _test(self, function: str, *values: Value) -> None:
        self.steps.append(Filter(Call(function, values)))

    def _compare(self, literal: Comparison) -> None:
        left, right, operator = literal.left, literal.right, literal.operator
        if isinstance(right, Functor) and right.name == "range":
            self._range(left, right)
            return
        if operator == "=":
            for side, other in ((left, right), (right, left)):
                if isinstance(side, Variable) and side.name not in self.bound:
                    self.bound[side.name] = self._slot(self._value(other))
                    return
                if isinstance(side, Functor) and builds(side) and not self._is_bound(side):
                    self._take_apart(side, self._slot(self._value(other)))
                    return
        if operator.endswith("match"):
            raise DatabaseOnlyError("patterns")
        self._test(operator, self._value(left), self._value(right))

    def _take_apart(self, node: Functor, whole: int) -> None:
        """Test what a value is built of, and bind the variables among its fields."""
        if node.name == NIL:
            self._test("is nil", Slot(whole))
            return
        if node.name[0] == BRANCH:
            self._test("is branch", Slot(whole), self._constant(node.name[1:]))
        else:
            self._test("is record", Slot(whole))
        for place, argument in fields(node):
            value = Call("field", (Slot(whole), self._constant(place)))
            if isinstance(argument, Wildcard):
                continue
            if isinstance(argument, Variable) and argument.name not in self.bound:
                self.bound[argument.name] = self._slot(value)
            elif (
                isinstance(argument, Functor) and builds(argument) and not self._is_bound(argument)
            ):
                self._take_apart(argument, self._slot(value))
            else:
                self._test("=", value, self._value(argument))

    def _range(self, variable: Expression, node: Functor) -> None:
        assert isinstance(variable, Variable)
        if self.kinds.of(node) != NUMBER:
            raise DatabaseOnlyError("range over what is no number")
        bounds = tuple(self._value(argument) for argument in node.arguments)
        if variable.name in self.bound:
            self._test("in range", self._value(variable), *bounds)
            return
        self.steps.append(Enumerate(Call("range", bounds)))
        self.joins += 1
        self.bound[variable.name] = self._added()

    # -- expressions

    def _constant(self, value: Any) -> Slot:
        return Slot(self.constants[type(value), value])

    def _value(self, node: Expression) -> Value:
        """Plan an expression whose variables are bound; aggregates are steps before it."""
        if isinstance(node, Variable):
            return Slot(self.bound[node.name])
        if isinstance(node, Number | String):
            return self._constant(literal_value(node, self.kinds.of(node)))
        if isinstance(node, Cast):
            return self._converted(node, node.value)
        if isinstance(node, Aggregate):
            return self._aggregate(node)
        assert isinstance(node, Functor)
        if node.name in ("to_number", "to_unsigned", "to_float", "to_string", "ord"):
            return self._converted(node, node.arguments[0])
        return self._functor(node, tuple(self._value(a) for a in node.arguments))

    def _converted(self, node: Expression, operand: Expression) -> Value:
        source, kind = self.kinds.of(operand), self.kinds.of(node)
        value = self._value(operand)
        if source == kind:
            return value
        if FLOAT in (source, kind) or source == SYMBOL:
            raise DatabaseOnlyError(f"a {source} converted to a {kind}")
        return Call("to_string" if kind == SYMBOL else f"{kind} cut", (value,))

    def _functor(self, node: Functor, values: tuple[Value, ...]) -> Value:
        name, kind = node.name, self.kinds.of(node)
        if name[0] == GIVEN:
            raise DatabaseOnlyError("functors of users")
        if builds(node):
            if FLOAT in map(self.kinds.of, node.arguments):
                raise DatabaseOnlyError("floats in records or algebraic data types")
            if name == NIL:
                return self._constant(None)
            branch = (self._constant(name[1:]),) if name[0] == BRANCH else ()
            return Call("tuple", (*branch, *values))
        if name == COUNTER:
            raise DatabaseOnlyError("autoinc()")
        if name in ("min", "max", "cat", "strlen", "substr"):
            return Call(name, values)
        if name == "+" and kind == SYMBOL:
            return Call("cat", values)
        if kind not in (NUMBER, UNSIGNED):
            raise DatabaseOnlyError("arithmetic of floats")
        if name in ("/", "%"):
            divisor = node.arguments[1]
            if not isinstance(divisor, Number) or not divisor.value:
                raise DatabaseOnlyError("a divisor that may be zero")
        return Call(f"{kind} {name}", values)

    # -- aggregates

    def _aggregate(self, node: Aggregate) -> Value:
        """Plan an aggregate as one step, and return its value."""
        kind = self.kinds.of(node)
        if node.name == "mean" or (node.name == "sum" and kind == FLOAT):
            raise DatabaseOnlyError(f"a {node.name} of floats")
        rows = counts_rows(node)
        literals: Sequence[Literal] = node.body
        if node.name == "count" and not rows:
            literals = [named_wildcards(literal, self.fresh) for literal in literals]
        outer, steps, width, joins = dict(self.bound), self.steps, self.width, self.joins
        self.steps = []
        # Its atoms are joined for each solution around it: by indexes.
        self.joins += 1
        self._conjunction(literals, rows=rows)
        distinct: tuple[int, ...] | None = None
        if not rows and node.name not in ("min", "max"):
            names = {v.name for b in literals for v in literal_variables(b, inside=False)}
            # Souffle knows no name for the whole of a record; of a count its fields tell it.
            distinguished = sorted(
                name
                for name in names - outer.keys()
                if node.name == "count" or not name.startswith(WHOLE)
            )
            distinct = tuple(self.bound[name] for name in distinguished)
        target: Value = Slot(0)
        if node.name != "count":
            assert node.target is not None
            target = self._value(node.target)
        function = f"{kind} sum" if node.name == "sum" else node.name
        aggregate = AggregateStep(function, tuple(self.steps), distinct, target)
        self.bound, self.steps, self.width, self.joins = outer, steps, width, joins
        self.steps.append(aggregate)
        return Slot(self._added())


def _constants(literals: Iterable[Literal], kinds: Kinds) -> Iterator[Any]:
    """Visit the constants of literals, and what structures are tested for and taken apart by."""
    yield None  # nil, so that there is a slot in any case
    for literal in literals:
        for expression in literal.parts:
            for node in walk_inside(expression):
                if isinstance(node, Number | String):
                    yield literal_value(node, kinds.of(node))
                elif isinstance(node, Functor) and builds(node):
                    yield node.name[1:]
                    yield from (place for place, _ in fields(node))
