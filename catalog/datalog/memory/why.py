"""Why a row was derived, or why it was not: asked of the clauses' trees, down to given facts.

Of a row that holds, the answer is a clause and what its literals stand on. Of one that doesn't it
is the clause that comes nearest, and the first of its literals that nothing makes true together
with those before it: what a nearest miss is for a rule. Subsumption is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...terms.syntax_tree import Place
from ..analysis.scope import literal_required, required
from ..language.syntax import (
    Atom,
    Clause,
    Comparison,
    Expression,
    Literal,
    Negation,
    Number,
    String,
    Variable,
    Wildcard,
    literal_variables,
)
from ..language.unparse import body_text, clause_text
from ..program import Program
from ..steps import Row, Rule
from .clause_plans import ClausePlanner
from .execution import Lookup, Rows
from .plan import Index, RelationPlan

# How many reasons lie between what doesn't hold and the fact that is missing, and below what does.
MOST_DEPTH, MOST_GROUNDS = 12, 2
_GIVEN, _ANSWER = "=given", "=answer"
_HERE = Place("<question>", 1, 1)


@dataclass(frozen=True)
class Why:
    """A row of a relation, whether it holds, and what decides that.

    `row` has None where anything would do. `clause` is the text of the clause that makes it, or
    comes nearest to making it, empty for a fact that is given or missing; of the latter `literal`
    is the one that fails. `because` are the rows that it stands on, or what the literal is about.
    """

    relation: str
    row: tuple[Any, ...]
    holds: bool
    clause: str = ""
    literal: str = ""
    because: tuple[Why, ...] = ()

    def lines(self, depth: int = 0) -> list[str]:
        """Spell it for people, a reason below what it is of."""
        values = ", ".join("_" if value is None else repr(value) for value in self.row)
        text = f"{self.relation}({values}) {'holds' if self.holds else 'does not hold'}"
        if self.clause:
            text += f": {self.clause}"
        if self.literal:
            text += f"  // not: {self.literal}"
        below = [line for reason in self.because for line in reason.lines(depth + 1)]
        return ["  " * depth + text, *below]


class Reasons:
    """Answers about one evaluation of a program; `rows` has the rows of all its relations."""

    def __init__(self, program: Program, rows: Mapping[str, Iterable[Row]]) -> None:
        self.program = program
        self.rows = {name: dict.fromkeys(rows.get(name, ())) for name in program.relations}
        names = [*program.relations, _GIVEN, _ANSWER]
        self._numbers = {name: number for number, name in enumerate(names)}
        plans = [_plan(name, len(relation.kinds)) for name, relation in program.relations.items()]
        self._lookup = Lookup(plans, list(self.rows.values()))

    def why(self, relation: str, row: Row) -> Why:
        """Say why a row holds, or why it doesn't."""
        if row in self.rows[relation]:
            return self._derived(relation, row, MOST_GROUNDS)
        return self._missing(relation, row, MOST_DEPTH)

    def _derived(self, relation: str, row: Row, depth: int) -> Why:
        for rule in self.program.relations[relation].rules:
            bindings = self._bindings(rule, row, rule.clause.body)
            if bindings is None:
                continue
            because = []
            for atom in rule.clause.body if depth else ():
                # a recursion is followed no further
                if isinstance(atom, Atom) and atom.name != relation and self._is_derived(atom.name):
                    values = _values(atom, bindings)
                    if None not in values:
                        because.append(self._derived(atom.name, values, depth - 1))
            return Why(relation, row, True, _text(rule.clause), because=tuple(because))
        return Why(relation, row, True)

    def _missing(self, relation: str, row: Row, depth: int) -> Why:
        best: tuple[int, Rule, Literal, dict[str, Any]] | None = None
        for rule in self.program.relations[relation].rules if depth else ():
            known = self._bindings(rule, row, (), computed=0)
            if known is None:
                continue  # its head is about other rows
            passed: list[Literal] = []
            for literal in _in_order(rule.clause, known):
                further = self._bindings(rule, row, (*passed, literal), computed=0)
                if further is None:
                    if best is None or len(passed) > best[0]:
                        best = (len(passed), rule, literal, known)
                    break
                passed.append(literal)
                known = further
            else:
                best = (len(passed), rule, self._computed(rule, row), known)
        if best is None:
            return Why(relation, row, False)
        _, rule, literal, bindings = best
        missing = Why(relation, row, False, _text(rule.clause), body_text(literal))
        atom = literal.atom if isinstance(literal, Negation) else literal
        if not isinstance(atom, Atom):
            return missing
        values = _values(atom, bindings)
        if isinstance(literal, Negation):
            present = next((r for r in self.rows[atom.name] if _fits(r, values)), None)
            return (
                missing
                if present is None
                else replace(missing, because=(self._derived(atom.name, present, MOST_GROUNDS),))
            )
        if None in values or (atom.name, values) == (relation, row):
            return replace(missing, because=(Why(atom.name, values, False),))
        return replace(missing, because=(self._missing(atom.name, values, depth - 1),))

    def _computed(self, rule: Rule, row: Row) -> Comparison:
        """Return the first argument of a head that comes to something else than in a row."""
        asked = enumerate(zip(rule.clause.head.arguments, row, strict=True), 1)
        argument, value = next(
            pair
            for count, pair in asked
            if self._bindings(rule, row, rule.clause.body, computed=count) is None
        )
        constant = String(value, _HERE) if isinstance(value, str) else Number(value, None, _HERE)
        return Comparison("=", argument, constant, _HERE)

    def _is_derived(self, relation: str) -> bool:
        return bool(self.program.relations[relation].rules)

    def _bindings(
        self, rule: Rule, row: Row, body: Sequence[Literal], *, computed: int | None = None
    ) -> dict[str, Any] | None:
        """Return the variables' values in a solution of some literals and the head's row.

        What the head computes, but for the first `computed` arguments, may have any value: where
        not all of the body is there, nothing binds its variables.
        """
        whole = rule.clause.head.arguments
        asked = len(whole) if computed is None else computed
        arguments = (
            value if position < asked or _is_plain(value) else Wildcard(_HERE)
            for position, value in enumerate(whole)
        )
        head = Atom(_GIVEN, tuple(arguments), _HERE)
        literals = (head, *body)
        names = dict.fromkeys(
            v.name
            for literal in literals
            for v in literal_variables(literal, inside=False)
            if not isinstance(literal, Negation)
        )
        answer = Atom(_ANSWER, tuple(Variable(name, _HERE) for name in names), _HERE)
        indexes: dict[Index, int] = {}
        clause = Clause(answer, literals, _HERE)
        plan = ClausePlanner(clause, rule.kinds, self._numbers, indexes).plan()
        head_rows: Rows = {row: None}
        solution = self._lookup.first(
            plan,
            tuple(indexes),
            [(_plan(_GIVEN, len(row)), head_rows), (_plan(_ANSWER, len(names)), {})],
        )
        return None if solution is None else dict(zip(names, solution, strict=True))


def _plan(name: str, columns: int) -> RelationPlan:
    return RelationPlan(name, columns, True, False, (), (), None)


def _in_order(clause: Clause, bindings: Mapping[str, Any]) -> Iterable[Literal]:
    """Yield a clause's literals: tests as soon as they can be made, then atoms known best."""
    known, pending = set(bindings), list(clause.body)
    while pending:
        ready = [
            literal
            for literal in pending
            if not isinstance(literal, Atom) and literal_required(literal) <= known
        ]
        atoms = [atom for atom in pending if isinstance(atom, Atom)]
        literal = ready[0] if ready else min(atoms or pending, key=lambda atom: _order(atom, known))
        pending.remove(literal)
        known.update(v.name for v in literal_variables(literal, inside=False))
        yield literal


def _order(literal: Literal, known: set[str]) -> tuple[bool, int]:
    """Put atoms last that compute with what isn't known yet, and first what is known best."""
    names = {v.name for v in literal_variables(literal, inside=False)}
    if not isinstance(literal, Atom):
        return False, len(names - known)
    bound = known | {
        argument.name for argument in literal.arguments if isinstance(argument, Variable)
    }
    needed = {
        name
        for argument in literal.arguments
        if not _is_plain(argument)
        for name in required(argument)
    }
    return not needed <= bound, len(names - known)


def _is_plain(argument: Expression) -> bool:
    """Tell whether an argument computes nothing."""
    return isinstance(argument, Variable | Wildcard | Number | String)


def _values(atom: Atom, bindings: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return an atom's row, with None for what isn't known."""
    return tuple(_value(argument, bindings) for argument in atom.arguments)


def _value(argument: Expression, bindings: Mapping[str, Any]) -> Any:
    if isinstance(argument, Variable):
        return bindings.get(argument.name)
    return argument.value if isinstance(argument, Number | String) else None


def _fits(row: Row, values: tuple[Any, ...]) -> bool:
    return all(wanted is None or value == wanted for value, wanted in zip(row, values, strict=True))


def _text(clause: Clause) -> str:
    return " ".join(clause_text(clause.head, clause.body).split())
