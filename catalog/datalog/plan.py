"""A checked program as SQL: one statement a relation, or one a recursive component."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import duckdb

from .bodies import Body, Table
from .expressions import SQL_TYPE, constant
from .kinds import Kinds
from .liveness import Need, needs
from .stratify import Stratum
from .syntax import Atom, Clause, Expression, Subsumption, Variable, literal_expressions
from .syntax import variables as expression_variables

MAX_VALUES = 64  # more facts than these are loaded through Arrow, not parsed as SQL
KEYED = int(duckdb.__version__.split(".")[0]) >= 2  # USING KEY takes aggregates since 2.0
Row = tuple[int | float | str, ...]


@dataclass(frozen=True, eq=False)
class Rule:
    """A clause ready for translation: scopes resolved, kinds inferred."""

    clause: Clause
    kinds: Kinds


@dataclass(frozen=True)
class Dominance:
    """A subsumption ready for translation."""

    subsumption: Subsumption
    kinds: Kinds


@dataclass
class Relation:
    """A relation under compilation."""

    name: str
    table: str
    kinds: tuple[str, ...]
    is_input: bool = False
    is_equivalence: bool = False
    facts: list[Row] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    dominances: list[Dominance] = field(default_factory=list)

    @property
    def columns(self) -> tuple[str, ...]:
        """Column names of its table; a relation without columns keeps one, always true."""
        return tuple(f"c{i}" for i in range(len(self.kinds))) or ("present",)

    @property
    def types(self) -> tuple[str, ...]:
        """SQL types of its table."""
        return tuple(SQL_TYPE[k] for k in self.kinds) or ("BOOLEAN",)

    @property
    def sql(self) -> str:
        """The quoted table name."""
        return quoted(self.table)

    @property
    def input_sql(self) -> str:
        """The quoted table that holds what was read, where rules add to it."""
        return quoted(self.table + ":input")

    @property
    def facts_sql(self) -> str:
        """The quoted table that holds many facts."""
        return quoted(self.table + ":facts")


@dataclass(frozen=True)
class Part:
    """One SELECT of a union, and what has to be there for it to select something."""

    sql: str
    needs: tuple[Need, ...]


@dataclass(frozen=True)
class Step:
    """Statements that compute relations; `loop` holds the parts of a driven iteration.

    `parts` are what the relations start from. Where none can select anything, `empty` computes
    the step; of a step without recursion, those that can are enough.
    """

    relations: tuple[str, ...]
    recursive: bool
    statements: tuple[str, ...]
    parts: tuple[Part, ...]
    empty: tuple[str, ...]
    loop: Loop | None = None


@dataclass(frozen=True)
class Loop:
    """A semi-naive iteration that one query can't express: general subsumption.

    Each round runs `derive`, then `settle`; it ends when `count` gives 0.
    """

    start: tuple[str, ...]
    derive: tuple[str, ...]
    settle: tuple[str, ...]
    count: str
    finish: tuple[str, ...]


def quoted(name: str) -> str:
    """Quote an identifier."""
    return '"' + name.replace('"', '""') + '"'


def create(table: str, query: str) -> str:
    """Spell the statement that makes a temporary table."""
    return f"CREATE OR REPLACE TEMP TABLE {table} AS {query}"


class Compiler:
    """Translates the strata of one program."""

    def __init__(self, relations: Mapping[str, Relation]) -> None:
        self.relations = relations
        self.tables = {r.name: Table(r.sql, r.columns) for r in relations.values()}
        self.kinds = {r.name: r.kinds for r in relations.values()}
        self._selected: dict[Rule, Part] = {}

    def step(self, stratum: Stratum) -> Step | None:
        """Compile one stratum; None where its only relation is just read from outside."""
        members = [self.relations[name] for name in stratum.relations]
        if len(members) == 1 and not stratum.recursive:
            return self._plain(members[0])
        base, _ = self._split(members)
        parts = tuple(p for r in members for p in self._parts(r, base[r.name]))
        empty = tuple(create(r.sql, self._empty(r)) for r in members)
        if any(r.dominances for r in members):
            statements = self._extreme(members[0]) if len(members) == 1 else None
            if statements is None:
                loop = self._loop(members)
                return Step(stratum.relations, True, (), parts, empty, loop)
        else:
            statements = self._recursive(members)
        return Step(stratum.relations, True, tuple(statements), parts, empty)

    # -- SELECTs

    def select(
        self, rule: Rule, special: Mapping[Atom, Table] | None = None
    ) -> tuple[list[str], str]:
        """Translate a clause into its selected values and its FROM and WHERE."""
        clause = rule.clause
        body = Body(rule.kinds, self.tables, special)
        needed = {v.name for a in clause.head.arguments for v in expression_variables(a)}
        body.add(clause.body, needed)
        values = [body.sql(argument) for argument in clause.head.arguments] or ["TRUE"]
        values[0] = body.guard(values[0])
        return values, body.tail()

    def _select(self, rule: Rule, relation: Relation) -> str:
        values, tail = self.select(rule)
        return "SELECT " + _named(values, relation.columns) + tail

    def _given(self, relation: Relation) -> Iterator[str]:
        """Give the SELECTs of what was read and of the facts."""
        if relation.is_input:
            yield f"SELECT * FROM {relation.input_sql}"
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
        parts = [Part(sql, ()) for sql in self._given(relation)]
        for rule in rules:
            if rule not in self._selected:
                demand = needs(rule.clause, self.kinds)
                self._selected[rule] = Part(self._select(rule, relation), demand)
            parts.append(self._selected[rule])
        return parts

    def _empty(self, relation: Relation) -> str:
        columns = zip(relation.columns, relation.types, strict=True)
        return "SELECT " + ", ".join(f"NULL::{t} AS {c}" for c, t in columns) + " WHERE FALSE"

    # -- statements

    def _plain(self, relation: Relation) -> Step | None:
        if relation.is_input and not (
            relation.rules or relation.facts or relation.dominances or relation.is_equivalence
        ):
            return None
        parts = tuple(self._parts(relation, relation.rules))
        empty = create(relation.sql, self._empty(relation))
        statements = [create(relation.sql, union([p.sql for p in parts])) if parts else empty]
        if relation.is_equivalence:
            statements.append(create(relation.sql, _closure(relation)))
        statements.extend(self._prune(relation))
        return Step((relation.name,), False, tuple(statements), parts, (empty,))

    def _prune(self, relation: Relation) -> Iterator[str]:
        """Remove the tuples that another one subsumes, all at once."""
        if relation.dominances:
            beaten = " UNION ALL ".join(
                self.beaten(d, relation.sql, relation.sql) for d in relation.dominances
            )
            columns = ", ".join(relation.columns)
            yield create(relation.sql, f"SELECT {columns} FROM {relation.sql} EXCEPT ({beaten})")

    def beaten(self, dominance: Dominance, losers: str, winners: str) -> str:
        """Select the tuples of `losers` that one of `winners` subsumes."""
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
        columns = [f"t0.{c}" for c in relation.columns]
        columns[0] = body.guard(columns[0])
        return "SELECT " + _named(columns, relation.columns) + body.tail()

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
        base, recursive = self._split(members)
        if len(members) == 1 and len(recursive) == 1:
            relation, rule, atoms = recursive[0]
            if composes(rule.clause, atoms):
                return self._composition(relation, rule, atoms, base[relation.name])
        layout = _Layout(members)
        starts = [
            layout.wrap(relation, part)
            for relation in members
            for part in self._base(relation, base[relation.name])
        ]
        if not starts:
            return [create(r.sql, self._empty(r)) for r in members]
        rounds = []
        for relation, rule, atoms in recursive:
            for delta in atoms:
                special = {
                    atom: layout.table(atom.name, "r" if atom is delta else "recurring.r")
                    for atom in atoms
                }
                values, tail = self.select(rule, special)
                rounds.append("SELECT " + layout.spread(relation, values) + tail)
        query = (
            f"WITH RECURSIVE r({', '.join(layout.slots)}) AS ("
            f"{union(starts)} UNION ({' UNION ALL '.join(rounds)}))"
        )
        if len(members) == 1:
            return [create(members[0].sql, f"{query} SELECT * FROM r")]
        shared = quoted(members[0].table + ":component")
        return [
            create(shared, f"{query} SELECT * FROM r"),
            *(create(r.sql, layout.extract(r, shared)) for r in members),
            f"DROP TABLE {shared}",
        ]

    def _composition(
        self, relation: Relation, rule: Rule, atoms: Sequence[Atom], base: Sequence[Rule]
    ) -> list[str]:
        """Compute p(x, z) :- p(x, y), p(y, z) from its base, linearly: composition associates."""
        parts = self._base(relation, base)
        if not parts:
            return [create(relation.sql, self._empty(relation))]
        start = quoted(relation.table + ":base")
        special = {
            atoms[0]: Table("r", relation.columns),
            atoms[1]: Table(start, relation.columns),
        }
        values, tail = self.select(rule, special)
        query = (
            f"WITH RECURSIVE r({', '.join(relation.columns)}) AS (SELECT * FROM {start} UNION "
            f"SELECT {_named(values, relation.columns)}{tail}) SELECT * FROM r"
        )
        return [create(start, union(parts)), create(relation.sql, query), f"DROP TABLE {start}"]

    def _extreme(self, relation: Relation) -> list[str] | None:
        """Compute a min or max closure with one keyed CTE; None where it is none."""
        found = extreme(relation)
        if found is None or not KEYED:
            return None
        place, function = found
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
        start: list[str] = []
        derive: dict[str, list[str]] = {r.name: [] for r in members}
        settle: list[str] = []
        for relation in members:
            parts = self._base(relation, base[relation.name])
            start.append(create(relation.sql, union(parts) if parts else self._empty(relation)))
            start.extend(self._prune(relation))
            delta, new = _delta(relation), _new(relation)
            start.append(create(delta, f"SELECT * FROM {relation.sql}"))
            columns = ", ".join(relation.columns)
            beaten = [
                *(self.beaten(d, new, new) for d in relation.dominances),
                *(self.beaten(d, new, relation.sql) for d in relation.dominances),
            ]
            if beaten:
                settle.append(
                    create(
                        delta, f"SELECT {columns} FROM {new} EXCEPT ({' UNION ALL '.join(beaten)})"
                    )
                )
                lost = " UNION ALL ".join(
                    self.beaten(d, relation.sql, delta) for d in relation.dominances
                )
                settle.append(
                    create(relation.sql, f"SELECT {columns} FROM {relation.sql} EXCEPT ({lost})")
                )
            else:
                settle.append(create(delta, f"SELECT {columns} FROM {new}"))
            settle.append(f"INSERT INTO {relation.sql} SELECT {columns} FROM {delta}")
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
            query = f"SELECT * FROM ({every}) EXCEPT SELECT * FROM {relation.sql}"
            derived.append(create(_new(relation), query))
        counts = " + ".join(f"(SELECT count(*) FROM {_delta(r)})" for r in members)
        finish = [f"DROP TABLE IF EXISTS {t}" for r in members for t in (_delta(r), _new(r))]
        return Loop(tuple(start), tuple(derived), tuple(settle), f"SELECT {counts}", tuple(finish))


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


class _Layout:
    """The columns of a component's one table: a tag, and slots that its relations share."""

    def __init__(self, members: Sequence[Relation]) -> None:
        self.single = len(members) == 1
        self.tags = {r.name: i for i, r in enumerate(members)}
        self.columns: dict[str, tuple[str, ...]] = {}
        self.slots: dict[str, str] = {}
        if self.single:
            relation = members[0]
            self.columns[relation.name] = relation.columns
            self.slots = dict(zip(relation.columns, relation.types, strict=True))
            return
        self.slots["tag"] = "USMALLINT"
        for relation in members:
            used: dict[str, int] = {}
            columns = []
            for kind in relation.types:
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


def _closure(relation: Relation) -> str:
    """Close a binary relation under reflexivity, symmetry and transitivity."""
    return (
        f"WITH RECURSIVE e AS MATERIALIZED (SELECT c0, c1 FROM {relation.sql} "
        f"UNION SELECT c1, c0 FROM {relation.sql}), "
        "r(c0, c1) AS (SELECT c0, c1 FROM e UNION "
        "SELECT r.c0, e.c1 FROM r, e WHERE r.c1 = e.c0) SELECT * FROM r"
    )


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
    sides: list[Expression] = list(literal_expressions(test))
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
