"""A checked program as SQL: one statement a relation, or one a recursive component."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ..analysis.growth import growing_expression
from ..analysis.stratify import Stratum, uses
from ..analysis.type_inference import SYMBOL
from ..language.syntax import Atom, Literal, Wildcard, counters
from ..language.syntax import variables as expression_variables
from ..steps import (
    KEYED,
    MAX_VALUES,
    Choice,
    Dominance,
    Growth,
    Loop,
    Numbered,
    Part,
    Relation,
    Rule,
    Statement,
    Step,
    create,
    quoted,
)
from .conjunction import Body, Table
from .expressions import constant
from .interning import Numbering, View, begin, moves_symbols, reads
from .liveness import needs
from .recursion import Layout, composes, extreme


class Compiler:
    """Translates the strata of one program."""

    def __init__(self, relations: Mapping[str, Relation]) -> None:
        self.relations = relations
        self.tables = {r.name: Table(r.sql, r.columns) for r in relations.values()}
        self.view = View(self.tables)
        self.kinds = {r.name: r.kinds for r in relations.values()}
        self._selected: dict[Rule, Part] = {}
        numbers = itertools.count()
        self._counters = {
            rule: [next(numbers) for _ in range(count)]
            for relation in relations.values()
            for rule in relation.rules
            if (count := sum(1 for _ in counters(rule.clause)))
        }

    def step(self, stratum: Stratum) -> Step | None:
        """Compile one stratum; None where its only relation is just read from outside."""
        members = [self.relations[name] for name in stratum.relations]
        if len(members) == 1 and not stratum.recursive:
            return self._plain(members[0])
        base, _ = self._split(members)
        parts = tuple(p for r in members for p in self._parts(r, base[r.name]))
        empty = tuple(create(r.sql, self._empty(r)) for r in members)
        growing = self._growing(members)
        step = Step(stratum.relations, True, (), parts, empty, growing=growing)
        limited = any(r.limit is not None or r.keys for r in members)
        if not limited and not any(r.dominances for r in members):
            statements, numbered = self._recursive(members), self._numbered(members)
            return replace(step, statements=tuple(statements), numbered=numbered)
        keyed = self._extreme(members[0]) if len(members) == 1 and not limited else None
        return replace(step, statements=tuple(keyed or ()), loop=self._loop(members))

    @staticmethod
    def _growing(members: Sequence[Relation]) -> tuple[Growth, ...]:
        names = {relation.name for relation in members}
        growing = (
            (relation.name, growing_expression(rule.clause, names))
            for relation in members
            for rule in relation.rules
        )
        return tuple(Growth(name, node.position) for name, node in growing if node is not None)

    # -- SELECTs

    def select(
        self, rule: Rule, special: Mapping[Atom, Table] | None = None, view: View | None = None
    ) -> tuple[list[str], str]:
        """Translate a clause into its selected values and its FROM and WHERE."""
        clause, view = rule.clause, view or self.view
        body = Body(rule.kinds, view.tables, special, symbols=view.symbols)
        needed = {v.name for a in clause.head.arguments for v in expression_variables(a)}
        if rule in self._counters:
            # Each combination of rows gets a number, but an atom of underscores is a mere test.
            body.add(clause.body, needed, rows=True, tests=_unnamed(clause.body))
            body.counters = self._numbers(rule, body.order())
        else:
            body.add(clause.body, needed)
        values = [body.sql(argument) for argument in clause.head.arguments] or ["TRUE"]
        values[0] = body.guard(values[0])
        return values, body.tail()

    def _numbers(self, rule: Rule, order: str) -> Iterator[str]:
        """Spell the values of a rule's counters: those of all rules interleave."""
        total = sum(map(len, self._counters.values()))
        for offset in self._counters[rule]:
            yield f"((row_number() OVER ({order}) - 1) * {total} + {offset})"

    def _select(self, rule: Rule, relation: Relation) -> str:
        values, tail = self.select(rule)
        return "SELECT " + _named(values, relation.columns) + tail

    def _initial_rows(self, relation: Relation) -> Iterator[str]:
        """Give the SELECTs of what was read and of the facts.

        What is read into a relation with keys enters it last: it isn't chosen from.
        """
        if relation.is_input:
            source = f"SELECT * FROM {relation.input_sql}"
            yield self._empty(relation) if relation.keys else source
        rows = list(dict.fromkeys(relation.facts))
        if len(rows) > MAX_VALUES:
            yield f"SELECT * FROM {relation.facts_sql}"
        elif rows:
            spelled = ", ".join(
                "("
                + ", ".join(constant(v, k) for v, k in zip(row, relation.kinds, strict=True))
                + ")"
                if row
                else "(TRUE)"
                for row in rows
            )
            yield f"SELECT * FROM (VALUES {spelled}) AS f({', '.join(relation.columns)})"

    def _base(self, relation: Relation, rules: Iterable[Rule]) -> list[str]:
        return [part.sql for part in self._parts(relation, rules)]

    def _parts(self, relation: Relation, rules: Iterable[Rule]) -> list[Part]:
        """Translate what a relation starts from, each rule once."""
        parts = [Part(sql, ()) for sql in self._initial_rows(relation)]
        for rule in rules:
            if rule not in self._selected:
                demand = needs(rule.clause, self.kinds)
                self._selected[rule] = Part(self._select(rule, relation), demand)
            parts.append(self._selected[rule])
        return parts

    def _empty(self, relation: Relation, view: View | None = None) -> str:
        columns = zip(relation.columns, (view or self.view).types(relation), strict=True)
        return "SELECT " + ", ".join(f"NULL::{t} AS {c}" for c, t in columns) + " WHERE FALSE"

    # -- statements

    def _plain(self, relation: Relation) -> Step | None:
        if relation.is_as_read:
            return None
        parts = tuple(self._parts(relation, relation.rules))
        empty = create(relation.sql, self._empty(relation))
        first = create(relation.sql, union([p.sql for p in parts])) if parts else empty
        statements: list[Statement] = [first]
        if relation.is_equivalence:
            statements.append(create(relation.sql, _closure(relation)))
        statements.extend(self._prune(relation))
        statements.extend(_choice(relation))
        return Step((relation.name,), False, tuple(statements), parts, (empty,))

    def _prune(self, relation: Relation) -> Iterator[str]:
        """Remove the tuples that another one subsumes, all at once."""
        if relation.dominances:
            yield self._remove(relation, relation.sql)

    def _remove(self, relation: Relation, winners: str) -> str:
        """Remove the tuples that those of another table subsume, all at once.

        A relation stays where it is: a round costs what it finds, not what has been found.
        """
        lost = self._beaten(relation, relation.sql, winners)
        return f"DELETE FROM {relation.sql} WHERE rowid IN ({lost})"

    def _beaten(self, relation: Relation, losers: str, winners: str) -> str:
        return " UNION ALL ".join(self.beaten(d, losers, winners) for d in relation.dominances)

    def beaten(self, dominance: Dominance, losers: str, winners: str) -> str:
        """Number the rows of `losers` that one of `winners` subsumes."""
        subsumption = dominance.subsumption
        relation = self.relations[subsumption.dominated.name]
        special = {
            subsumption.dominated: Table(losers, relation.columns),
            subsumption.dominating: Table(winners, relation.columns),
        }
        body = Body(dominance.kinds, self.tables, special)
        literals = (subsumption.dominated, subsumption.dominating, *subsumption.body)
        body.add(literals, (), rows=True)
        # The two atoms come first, under these two aliases.
        differ = " OR ".join(f"t0.{c} <> t1.{c}" for c in relation.columns)
        body.conditions.append(f"({differ})")
        return f"SELECT {body.guard('t0.rowid')} AS id" + body.tail()

    def _split(
        self, members: Sequence[Relation]
    ) -> tuple[dict[str, list[Rule]], list[tuple[Relation, Rule, list[Atom]]]]:
        """Part the rules into those outside the recursion and those in it."""
        names = {r.name for r in members}
        base: dict[str, list[Rule]] = {r.name: [] for r in members}
        recursive = []
        for relation in members:
            for rule in relation.rules:
                atoms = [b for b in rule.clause.body if isinstance(b, Atom) and b.name in names]
                if atoms:
                    recursive.append((relation, rule, atoms))
                else:
                    base[relation.name].append(rule)
        return base, recursive

    def _recursive(self, members: Sequence[Relation]) -> list[str]:
        base, _ = self._split(members)
        starts = {r.name: self._base(r, base[r.name]) for r in members}
        return self._fixpoint(members, starts, self.view)

    def _numbered(self, members: Sequence[Relation]) -> Numbered | None:
        """Compile a recursion with its symbols numbered; None where it computes with them."""
        base, recursive = self._split(members)
        rules = [rule for _, rule, _ in recursive]
        started = [r for r in members if self._base(r, base[r.name])]
        if not started or not any(SYMBOL in r.kinds for r in members):
            return None
        if not all(map(moves_symbols, rules)):
            return None
        member_names = {r.name for r in members}
        read = [self.relations[name] for name in reads(rules) if name not in member_names]
        numbering = Numbering(started, read, rules)
        starts = {r.name: [numbering.start(r)] if r in started else [] for r in members}
        statements = [
            *self._fixpoint(members, starts, numbering.view(self.tables)),
            *numbering.decode(members),
        ]
        every = reads(rule for r in members for rule in r.rules)
        return Numbered(
            tuple(name for name in every if name not in member_names),
            tuple(begin(r, union(self._base(r, base[r.name]))) for r in started),
            tuple(numbering.encode()),
            tuple(statements),
        )

    def _fixpoint(
        self, members: Sequence[Relation], starts: Mapping[str, Sequence[str]], view: View
    ) -> list[str]:
        """Compile the recursion of a component from the SELECTs that its relations start from."""
        _, recursive = self._split(members)
        if len(members) == 1 and len(recursive) == 1:
            relation, rule, atoms = recursive[0]
            if composes(rule.clause, atoms):
                return self._composition(relation, rule, atoms, starts[relation.name], view)
        layout = Layout(members, view)
        wrapped = [
            layout.wrap(relation, part) for relation in members for part in starts[relation.name]
        ]
        if not wrapped:
            return [create(view.target(r), self._empty(r, view)) for r in members]
        rounds = []
        for relation, rule, atoms in recursive:
            for delta in atoms:
                special = {
                    atom: layout.table(atom.name, "r" if atom is delta else "recurring.r")
                    for atom in atoms
                }
                values, tail = self.select(rule, special, view)
                rounds.append("SELECT " + layout.spread(relation, values) + tail)
        query = (
            f"WITH RECURSIVE r({', '.join(layout.slots)}) AS ("
            f"{union(wrapped)} UNION ({' UNION ALL '.join(rounds)}))"
        )
        if len(members) == 1:
            return [create(view.target(members[0]), f"{query} SELECT * FROM r")]
        shared = quoted(members[0].table + ":component")
        return [
            create(shared, f"{query} SELECT * FROM r"),
            *(create(view.target(r), layout.extract(r, shared)) for r in members),
            f"DROP TABLE {shared}",
        ]

    def _composition(
        self,
        relation: Relation,
        rule: Rule,
        atoms: Sequence[Atom],
        parts: Sequence[str],
        view: View,
    ) -> list[str]:
        """Compute p(x, z) :- p(x, y), p(y, z) from its base, linearly: composition associates."""
        target = view.target(relation)
        if not parts:
            return [create(target, self._empty(relation, view))]
        start = quoted(relation.table + ":base")
        special = {
            atoms[0]: Table("r", relation.columns),
            atoms[1]: Table(start, relation.columns),
        }
        values, tail = self.select(rule, special, view)
        query = (
            f"WITH RECURSIVE r({', '.join(relation.columns)}) AS (SELECT * FROM {start} UNION "
            f"SELECT {_named(values, relation.columns)}{tail}) SELECT * FROM r"
        )
        return [create(start, union(parts)), create(target, query), f"DROP TABLE {start}"]

    def _extreme(self, relation: Relation) -> list[str] | None:
        """Compute a min or max closure with one keyed CTE; None where it is none."""
        kind_and_place = extreme(relation)
        if kind_and_place is None or not KEYED:
            return None
        place, function = kind_and_place
        base, recursive = self._split([relation])
        parts = self._base(relation, base[relation.name])
        if not parts:
            return [create(relation.sql, self._empty(relation))]
        rounds = []
        for _, rule, atoms in recursive:
            for delta in atoms:
                special = {
                    atom: Table("r" if atom is delta else "recurring.r", relation.columns)
                    for atom in atoms
                }
                values, tail = self.select(rule, special)
                rounds.append("SELECT " + _named(values, relation.columns) + tail)
        key = [f"{function}({c})" if i == place else c for i, c in enumerate(relation.columns)]
        keys = [c for i, c in enumerate(relation.columns) if i != place]
        best = ", ".join(
            f"{function}({c}) AS {c}" if i == place else c for i, c in enumerate(relation.columns)
        )
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        started = f"SELECT {best} FROM ({union(parts)}) AS s{group}"
        again = f"SELECT {best} FROM ({' UNION ALL '.join(rounds)}) AS s{group}"
        query = (
            f"WITH RECURSIVE r({', '.join(relation.columns)}) USING KEY ({', '.join(key)}) AS "
            f"({started} UNION ({again})) SELECT * FROM r"
        )
        return [create(relation.sql, query)]

    def _loop(self, members: Sequence[Relation]) -> Loop:
        """Compile what runs round by round, since tuples must be taken away in between."""
        base, recursive = self._split(members)
        start: list[Statement] = []
        derive: dict[str, list[str]] = {r.name: [] for r in members}
        merge: list[Statement] = []
        for relation in members:
            parts = self._base(relation, base[relation.name])
            start.append(create(relation.sql, union(parts) if parts else self._empty(relation)))
        for relation in members:
            start.extend(self._prune(relation))
            start.extend(_choice(relation))
        for relation in members:
            delta, new = _delta(relation), _new(relation)
            if relation.keys:
                merge.append(Choice(new, relation.sql, relation.columns, _keys(relation)))
            start.append(create(delta, f"SELECT * FROM {relation.sql}"))
            columns = ", ".join(relation.columns)
            kept = f"SELECT {columns} FROM {new} AS n"
            if relation.dominances:
                every = f"(SELECT * FROM {new} UNION ALL SELECT * FROM {relation.sql})"
                beaten = self._beaten(relation, new, every)
                kept += f" ANTI JOIN ({beaten}) AS b ON n.rowid = b.id"
            merge.append(create(delta, kept))
            if relation.dominances and not _grows(relation, members):
                merge.append(self._remove(relation, delta))
            merge.append(f"INSERT INTO {relation.sql} SELECT {columns} FROM {delta}")
        for relation in members:
            if _grows(relation, members):
                # What makes a tuple lose may be new where both tuples are old.
                merge.append(self._remove(relation, relation.sql))
        for relation, rule, atoms in recursive:
            for atom in atoms:
                special = {
                    a: Table(
                        _delta(self.relations[a.name]) if a is atom else self.relations[a.name].sql,
                        self.relations[a.name].columns,
                    )
                    for a in atoms
                }
                values, tail = self.select(rule, special)
                derive[relation.name].append("SELECT " + _named(values, relation.columns) + tail)
        derived = []
        for relation in members:
            every = " UNION ALL ".join(derive[relation.name] or [self._empty(relation)])
            same = " AND ".join(f"r.{c} = n.{c}" for c in relation.columns)
            query = (
                f"SELECT DISTINCT n.* FROM ({every}) AS n ANTI JOIN {relation.sql} AS r ON {same}"
            )
            derived.append(create(_new(relation), query))
        counts = " + ".join(f"(SELECT count(*) FROM {_delta(r)})" for r in members)
        finish = [f"DROP TABLE IF EXISTS {t}" for r in members for t in (_delta(r), _new(r))]
        limits = [
            f"(SELECT count(*) FROM {r.sql}) >= {r.limit}" for r in members if r.limit is not None
        ]
        full = f"SELECT {' OR '.join(limits)}" if limits else None
        return Loop(
            tuple(start), tuple(derived), tuple(merge), f"SELECT {counts}", tuple(finish), full
        )


def _choice(relation: Relation) -> Iterator[Statement]:
    """Choose among what a relation starts from, and add what it was given."""
    if relation.keys:
        input_table = relation.input_sql if relation.is_input else None
        yield Choice(relation.sql, input_table, relation.columns, _keys(relation))
        if input_table is not None:
            yield f"INSERT INTO {relation.sql} SELECT * FROM {input_table}"


def _keys(relation: Relation) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(relation.columns[c] for c in key) for key in relation.keys)


def _unnamed(literals: Iterable[Literal]) -> list[Atom]:
    """Name the atoms all of whose arguments are underscores."""
    atoms = (b for b in literals if isinstance(b, Atom))
    return [b for b in atoms if all(isinstance(a, Wildcard) for a in b.arguments)]


def _grows(relation: Relation, members: Sequence[Relation]) -> bool:
    """Say whether the body of a subsumption reads what the recursion is still computing."""
    names = {r.name for r in members}
    return any(
        use.relation in names
        for dominance in relation.dominances
        for use in uses(dominance.subsumption.body)
    )


def _delta(relation: Relation) -> str:
    return quoted(relation.table + ":delta")


def _new(relation: Relation) -> str:
    return quoted(relation.table + ":new")


def _named(values: Sequence[str], columns: Sequence[str]) -> str:
    return ", ".join(f"{v} AS {c}" for v, c in zip(values, columns, strict=True))


def union(parts: Sequence[str]) -> str:
    """Spell the union of SELECTs as a set."""
    if len(parts) > 1:
        return " UNION ".join(parts)
    return parts[0].replace("SELECT ", "SELECT DISTINCT ", 1)


def _closure(relation: Relation) -> str:
    """Close a binary relation under reflexivity, symmetry and transitivity."""
    return (
        f"WITH RECURSIVE e AS MATERIALIZED (SELECT c0, c1 FROM {relation.sql} "
        f"UNION SELECT c1, c0 FROM {relation.sql}), "
        "r(c0, c1) AS (SELECT c0, c1 FROM e UNION "
        "SELECT r.c0, e.c1 FROM r, e WHERE r.c1 = e.c0) SELECT * FROM r"
    )
