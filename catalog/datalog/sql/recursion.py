"""Shapes of recursion: which clauses have a better query, and how relations share a table."""

from __future__ import annotations

from collections.abc import Sequence

from ..language.syntax import Atom, Clause, Expression, Variable
from ..steps import Relation
from .conjunction import Table
from .interning import View


class Layout:
    """The columns of a component's one table: a tag, and slots that its relations share."""

    def __init__(self, members: Sequence[Relation], view: View) -> None:
        self.single = len(members) == 1
        self.tags = {r.name: i for i, r in enumerate(members)}
        self.columns: dict[str, tuple[str, ...]] = {}
        self.slots: dict[str, str] = {}
        if self.single:
            relation = members[0]
            self.columns[relation.name] = relation.columns
            self.slots = dict(zip(relation.columns, view.types(relation), strict=True))
            return
        self.slots["tag"] = "USMALLINT"
        for relation in members:
            used: dict[str, int] = {}
            columns = []
            for kind in view.types(relation):
                used[kind] = used.get(kind, -1) + 1
                slot = f"{kind.lower()}{used[kind]}"
                self.slots[slot] = kind
                columns.append(slot)
            self.columns[relation.name] = tuple(columns)

    def table(self, name: str, source: str) -> Table:
        """Say how an atom reads the component's table."""
        condition = None if self.single else f"@.tag = {self.tags[name]}"
        return Table(source, self.columns[name], condition)

    def spread(self, relation: Relation, values: Sequence[str]) -> str:
        """Place a relation's values into the slots."""
        placed = dict(zip(self.columns[relation.name], values, strict=True))
        if not self.single:
            placed["tag"] = f"{self.tags[relation.name]}::USMALLINT"
        return ", ".join(
            f"{placed.get(slot, f'NULL::{kind}')} AS {slot}" for slot, kind in self.slots.items()
        )

    def wrap(self, relation: Relation, part: str) -> str:
        """Place a SELECT of the relation's columns into the slots."""
        if self.single:
            return part
        return f"SELECT {self.spread(relation, relation.columns)} FROM ({part}) AS b"

    def extract(self, relation: Relation, source: str) -> str:
        """Select one relation back."""
        columns = zip(self.columns[relation.name], relation.columns, strict=True)
        named = ", ".join(f"{slot} AS {column}" for slot, column in columns)
        return f"SELECT {named} FROM {source} WHERE tag = {self.tags[relation.name]}"


def composes(clause: Clause, atoms: Sequence[Atom]) -> bool:
    """Say whether a clause composes a relation with itself, as transitivity does.

    Every head position comes from the first atom, from the second one, or (a context) from both;
    where it comes from one, the other atom holds there a variable that links the two.
    """
    if len(atoms) != 2 or len(clause.body) != 2:
        return False
    rows: list[list[str]] = []
    for atom in (clause.head, *atoms):
        names = [a.name for a in atom.arguments if isinstance(a, Variable)]
        if len(names) != len(atom.arguments) or len(set(names)) != len(names):
            return False
        rows.append(names)
    head, first, second = rows
    links_first, links_second = [], []
    for h, a, b in zip(head, first, second, strict=True):
        if h == a == b:
            continue
        if h == a:
            links_second.append(b)
        elif h == b:
            links_first.append(a)
        else:
            return False
    return sorted(links_first) == sorted(links_second) and not set(links_first) & set(head)


def extreme(relation: Relation) -> tuple[int, str] | None:
    """Recognize a subsumption that keeps the least or greatest value of one column."""
    if len(relation.dominances) != 1:
        return None
    subsumption = relation.dominances[0].subsumption
    pairs = list(
        zip(subsumption.dominated.arguments, subsumption.dominating.arguments, strict=True)
    )
    names: list[tuple[str, str]] = []
    for lost, won in pairs:
        if not isinstance(lost, Variable) or not isinstance(won, Variable):
            return None
        names.append((lost.name, won.name))
    different = [i for i, (lost, won) in enumerate(names) if lost != won]
    every = [n for i, pair in enumerate(names) for n in (pair if i in different else pair[:1])]
    if len(different) != 1 or len(set(every)) != len(every) or len(subsumption.body) != 1:
        return None
    test = subsumption.body[0]
    sides: list[Expression] = list(test.parts)
    operator = getattr(test, "operator", "")
    if operator not in ("<", "<=", ">", ">=") or not all(isinstance(s, Variable) for s in sides):
        return None
    tested = tuple(s.name for s in sides if isinstance(s, Variable))
    smaller = operator.startswith("<")
    if tested == names[different[0]][::-1]:
        return different[0], "min" if smaller else "max"
    if tested == names[different[0]]:
        return different[0], "max" if smaller else "min"
    return None
