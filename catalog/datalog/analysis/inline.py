"""Relations marked `inline` whose clauses bind too little to be computed: unfolded where read.

An inline relation that stands on its own feet is computed like any other, which gives the same
result; only add(x, y, z) :- z = x + y and its like need their callers.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence

from ..language.formulas import negate
from ..language.syntax import (
    Aggregate,
    Atom,
    Clause,
    Comparison,
    DatalogError,
    Declaration,
    Expression,
    Literal,
    Negation,
    Subsumption,
    Variable,
    Wildcard,
    aggregates,
    literal_variables,
    variables,
)
from .scope import grounded, rename, rename_literal, substitution
from .stratify import reachable, uses

MAX_CLAUSES = 4096


def inline(
    clauses: Sequence[Clause],
    subsumptions: Sequence[Subsumption],
    declarations: Mapping[str, Declaration],
    directed: Collection[str],
) -> tuple[list[Clause], list[Subsumption]]:
    """Unfold the inline relations that can't be computed, where clauses and subsumptions read them.

    `directed` names the relations of directives. Raises DatalogError for cycles, and for what can't
    be unfolded: a relation that is read or written, one of several clauses inside of an aggregate.
    """
    # Rows are chosen from a relation that is computed.
    marked = {n for n, d in declarations.items() if "inline" in d.qualifiers and not d.keys}
    if not marked:
        return list(clauses), list(subsumptions)
    unsafe = {c.head.name for c in clauses if c.head.name in marked and not _safe(c)}
    # One that reads an unsafe one may be unsafe itself: unfold it, too.
    changed = True
    while changed:
        changed = False
        for clause in clauses:
            name = clause.head.name
            if name in marked - unsafe and any(_reads(b, unsafe) for b in clause.body):
                unsafe.add(name)
                changed = True
    if not unsafe:
        return list(clauses), list(subsumptions)
    for name in (n for n in declarations if n in unsafe):
        if name in directed or any(s.dominated.name == name for s in subsumptions):
            obstacle = "a directive" if name in directed else "a subsumption"
            raise DatalogError.at(
                declarations[name].position,
                f"relation {name} is inline, its clauses need what their callers bind, and "
                f"{obstacle} needs its rows",
            )
    bodies: dict[str, list[Clause]] = {name: [] for name in unsafe}
    for clause in clauses:
        if clause.head.name in unsafe:
            bodies[clause.head.name].append(clause)
    _check_cycles(bodies)
    unfolder = _Unfolder(bodies)
    unfolded: list[Clause] = []
    for clause in clauses:
        if clause.head.name not in unsafe:
            unfolded.extend(unfolder.unfold(clause))
    losing = [u for subsumption in subsumptions for u in _unfolded(subsumption, unfolder)]
    for literals, heads in (
        *((c.body, c.head.arguments) for c in unfolded),
        *((s.body, ()) for s in losing),
    ):
        for use in uses(literals, heads):
            if use.relation in unsafe:
                raise DatalogError.at(
                    use.position, f"the inline relation {use.relation} can't be unfolded here"
                )
    return unfolded, losing


def _check_cycles(bodies: Mapping[str, Sequence[Clause]]) -> None:
    """Refuse relations that are unfolded by way of themselves."""
    reads = {
        name: {
            use.relation
            for clause in clauses
            for use in uses(clause.body, clause.head.arguments)
            if use.relation in bodies
        }
        for name, clauses in bodies.items()
    }
    for name, clauses in bodies.items():
        if name in reachable(reads[name], reads.__getitem__):
            reason = f"inline relations call each other in a cycle, {name} among them"
            raise DatalogError.at(clauses[0].position, reason)


def _unfolded(subsumption: Subsumption, unfolder: _Unfolder) -> Iterator[Subsumption]:
    """Unfold the calls in a subsumption's body."""
    pair = (subsumption.dominated, subsumption.dominating)
    clause = Clause(subsumption.dominated, (*pair, *subsumption.body), subsumption.position)
    for unfolded in unfolder.unfold(clause):
        yield Subsumption(*pair, unfolded.body[2:], subsumption.position)


def _safe(clause: Clause) -> bool:
    bound = grounded(clause.body)
    return all(v.name in bound for b in clause.literals for v in literal_variables(b, inside=False))


def _reads(literal: Literal, names: set[str]) -> bool:
    atom = literal.atom if isinstance(literal, Negation) else literal
    return isinstance(atom, Atom) and atom.name in names


class _Unfolder:
    def __init__(self, bodies: Mapping[str, list[Clause]]) -> None:
        self.bodies = bodies
        self.numbers = itertools.count()

    def unfold(self, clause: Clause) -> list[Clause]:
        """Replace every call in a clause; several clauses where a relation has several."""
        done: list[Clause] = []
        work = [clause]
        while work:
            current = work.pop()
            self._check_aggregates(current)
            index = next(
                (i for i, b in enumerate(current.body) if _reads(b, set(self.bodies))), None
            )
            if index is None:
                done.append(current)
                if len(done) > MAX_CLAUSES:
                    raise DatalogError.at(
                        clause.position, f"inlining gives more than {MAX_CLAUSES} clauses"
                    )
                continue
            literal = current.body[index]
            options = (
                self._absent(literal) if isinstance(literal, Negation) else self._present(literal)
            )
            for option in options:
                body = (*current.body[:index], *option, *current.body[index + 1 :])
                work.append(Clause(current.head, body, current.position))
        return done[::-1]

    def _check_aggregates(self, clause: Clause) -> None:
        for literal in clause.literals:
            for expression in literal.parts:
                for node in aggregates(expression):
                    self._replace_in(node)

    def _replace_in(self, node: Aggregate) -> None:
        """Unfold inside an aggregate, where only a relation of one clause can be."""
        body = list(node.body)
        index = 0
        while index < len(body):
            literal = body[index]
            if _reads(literal, set(self.bodies)):
                if isinstance(literal, Negation):
                    options = self._absent(literal)
                else:
                    options = self._present(literal)
                if len(options) != 1:
                    raise DatalogError.at(
                        literal.position, "this inline relation has several clauses, not for here"
                    )
                body[index : index + 1] = options[0]
                continue
            for expression in literal.parts:
                for inner in aggregates(expression):
                    self._replace_in(inner)
            index += 1
        node.body = tuple(body)

    def _fresh(self, clause: Clause) -> Clause:
        number = next(self.numbers)
        names: dict[str, Expression] = {
            v.name: Variable(f"{v.name}@i{number}", v.position)
            for b in clause.literals
            for v in literal_variables(b)
        }
        change = substitution(names)
        return Clause(
            clause.head.with_parts(lambda part: rename(part, change)),
            tuple(rename_literal(b, change) for b in clause.body),
            clause.position,
        )

    def _present(self, literal: Literal) -> list[tuple[Literal, ...]]:
        assert isinstance(literal, Atom)
        options = []
        for clause in self.bodies[literal.name]:
            fresh = self._fresh(clause)
            names, equalities = self._match(fresh.head, literal)
            change = substitution(names)
            body = tuple(rename_literal(b, change) for b in fresh.body)
            options.append((*(rename_literal(e, change) for e in equalities), *body))
        return options

    def _match(self, head: Atom, call: Atom) -> tuple[dict[str, Expression], list[Comparison]]:
        """Match a head's arguments with a call's: substitute variables, equate the rest."""
        names: dict[str, Expression] = {}
        equalities = []
        for formal, actual in zip(head.arguments, call.arguments, strict=True):
            if isinstance(actual, Wildcard):
                actual = Variable(f"_@i{next(self.numbers)}", actual.position)
            if isinstance(formal, Variable) and formal.name not in names:
                names[formal.name] = actual
            else:
                equalities.append(Comparison("=", formal, actual, actual.position))
        return names, equalities

    def _absent(self, literal: Negation) -> list[tuple[Literal, ...]]:
        """Negate a call: each clause of the relation must fail in one of its literals."""
        options: list[tuple[Literal, ...]] = [()]
        for clause in self.bodies[literal.atom.name]:
            fresh = self._fresh(clause)
            if any(isinstance(a, Wildcard) for a in literal.atom.arguments):
                raise DatalogError.at(
                    literal.position, "a negated inline relation needs all its arguments"
                )
            names, equalities = self._match(fresh.head, literal.atom)
            heads = {v.name for a in fresh.head.arguments for v in variables(a)}
            for b in fresh.body:
                for v in literal_variables(b):
                    if v.name not in heads:
                        raise DatalogError.at(
                            literal.position,
                            f"{literal.atom.name} is inline with a variable of its own, "
                            "so it can't be negated",
                        )
            change = substitution(names)
            literals = [rename_literal(b, change) for b in (*equalities, *fresh.body)]
            options = [(*left, negate(right)) for left in options for right in literals]
        return options
