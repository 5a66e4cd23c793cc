"""Which of the named types values have: no head takes a variable of another type.

Kinds decide how values are computed. Names over one kind, as `.type Even <: number`, are
for the reader, and Souffle's rule for them is checked here. A variable has the types that all atoms
of the body leave it; where none is left, or where the head wants a type that those are no subtypes
of, the clause is refused. Constants and what is computed have every type of their kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ...terms.syntax_tree import walk
from ..language.syntax import (
    Aggregate,
    Atom,
    Cast,
    Clause,
    Comparison,
    DatalogError,
    Declaration,
    Errors,
    Literal,
    TypeDeclaration,
    Variable,
)
from .scope import shown


class Subtypes:
    """The order of a program's types."""

    def __init__(self, types: Iterable[TypeDeclaration]) -> None:
        self._declared = {declaration.name: declaration for declaration in types}
        self._within_cache: dict[tuple[str, str], bool] = {}

    def within(self, name: str, other: str) -> bool:
        """Say whether each value of a type is one of another."""
        pair = (name, other)
        if pair not in self._within_cache:
            self._within_cache[pair] = self._within(name, other)
        return self._within_cache[pair]

    def _within(self, name: str, other: str) -> bool:
        if name == other:
            return True
        lower, upper = self._declared.get(name), self._declared.get(other)
        below = lower.parts if lower is not None else ()
        above = upper.parts if upper is not None and upper.form in ("alias", "union") else ()
        if any(self.within(name, part) for part in above):
            return True
        return bool(below) and all(self.within(part, other) for part in below)

    def meet(self, names: frozenset[str], other: str) -> frozenset[str]:
        """Give the greatest types within one of some types and within another."""
        common: set[str] = set()
        for name in names:
            if self.within(name, other):
                common.add(name)
            elif self.within(other, name):
                common.add(other)
            else:
                below = (t for t in self._declared if self.within(t, name))
                common.update(t for t in below if self.within(t, other))
        return frozenset(t for t in common if not any(u != t and self.within(t, u) for u in common))

    def check(self, clause: Clause, declarations: Mapping[str, Declaration]) -> None:
        """Refuse a resolved clause whose variables have no type, or another than the head's."""
        errors = Errors()
        types: dict[str, frozenset[str]] = {}
        same = _equal(clause.body)
        for atom in _atoms(clause.body):
            for argument, wanted in _typed(atom, declarations):
                if not isinstance(argument, Variable):
                    continue
                name = same.get(argument.name, argument.name)
                before = types.get(name)
                types[name] = frozenset({wanted}) if before is None else self.meet(before, wanted)
                if before and not types[name]:
                    names = " and ".join(sorted(before | {wanted}))
                    reason = f"variable {shown(argument.name)} would have to be both {names}"
                    errors.reported.append(DatalogError.at(argument.position, reason))
        for argument, wanted in _typed(clause.head, declarations):
            if isinstance(argument, Variable):
                have = types.get(same.get(argument.name, argument.name), frozenset())
                subject = f"variable {shown(argument.name)}"
            elif isinstance(argument, Cast):
                have, subject = frozenset({argument.type_name}), "this value"
            else:
                continue
            if not all(self.within(name, wanted) for name in have):
                reason = (
                    f"{subject} is {' or '.join(sorted(have))}, which is no subtype of {wanted}"
                )
                errors.reported.append(DatalogError.at(argument.position, reason))
        errors.check()


def _typed(atom: Atom, declarations: Mapping[str, Declaration]) -> Iterator[tuple[object, str]]:
    attributes = declarations[atom.name].attributes
    for argument, attribute in zip(atom.arguments, attributes, strict=True):
        yield argument, attribute.type_name


def _atoms(literals: Iterable[Literal]) -> Iterator[Atom]:
    """Visit the positive atoms of a body and of its aggregates."""
    for literal in literals:
        if isinstance(literal, Atom):
            yield literal
        for expression in literal.parts:
            for node in walk(expression):
                if isinstance(node, Aggregate):
                    yield from _atoms(node.body)


def _equal(literals: Iterable[Literal]) -> dict[str, str]:
    """Name one variable for all that a body equates with it."""
    representatives: dict[str, str] = {}
    for literal in literals:
        if isinstance(literal, Comparison) and literal.operator == "=":
            left, right = literal.left, literal.right
            if isinstance(left, Variable) and isinstance(right, Variable):
                first, second = (representatives.get(v.name, v.name) for v in (left, right))
                for name in [second, *(n for n, of in representatives.items() if of == second)]:
                    representatives[name] = first
    return representatives
