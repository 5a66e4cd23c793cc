"""A conjunction as FROM and WHERE: the part of the compiler that knows about variables."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...terms.syntax_tree import Place
from ..analysis.constants import literal_value
from ..analysis.scope import (
    WHOLE,
    counts_rows,
    grounded,
    literal_required,
    named_wildcards,
    required,
)
from ..analysis.type_inference import FLOAT, NUMBER, UNSIGNED, Kinds
from ..language.structures import builds, fields, is_pattern
from ..language.syntax import (
    COUNTER,
    Aggregate,
    Atom,
    Cast,
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
    literal_variables,
    variables,
)
from .expressions import (
    RANGE_FUNCTION,
    SQL_TYPE,
    Fault,
    constant,
    cut,
    fault_text,
    field_sql,
    functor_sql,
    match_sql,
    pattern_text,
    quote,
    shape_sql,
    structure_sql,
)

_MAIN = ""  # stands among a group's variables for: read by the recursion
_REPEATED = 400  # an expression of up to so many characters is repeated, not named


@dataclass(frozen=True)
class Table:
    """What an atom reads: a FROM item, its columns, and a condition with @ for its alias."""

    sql: str
    columns: tuple[str, ...]
    condition: str | None = None


class Body:
    """One conjunction under translation; `symbols` spells its constants where they have numbers."""

    def __init__(
        self,
        kinds: Kinds,
        tables: Mapping[str, Table],
        special: Mapping[Atom, Table] | None = None,
        outer: Body | None = None,
        symbols: Mapping[str, str] | None = None,
    ) -> None:
        self.kinds = kinds
        self.tables = tables
        self.special = special or {}
        self.symbols: Mapping[str, str] | None = outer.symbols if outer else symbols
        self.names: itertools.count[int] = outer.names if outer else itertools.count()
        self.values: dict[str, str] = dict(outer.values) if outer else {}
        self.sources: list[str] = []
        self.conditions: list[str] = []
        self.faults: list[tuple[str, str]] = []
        self.counters: Iterator[str] = iter(())  # the values of counters, as they come in the head
        self._columns: list[str] = []
        self._shared: dict[str, str] = {}

    # -- clauses of the SELECT

    def tail(self) -> str:
        """Spell FROM and WHERE."""
        text = f" FROM {', '.join(self.sources)}" if self.sources else ""
        if self.conditions:
            text += f" WHERE {' AND '.join(self.conditions)}"
        return text

    def guard(self, value: str) -> str:
        """Wrap a selected value so that a fault met by a whole solution is an error."""
        if not self.faults:
            return value
        cases = " ".join(
            f"WHEN {condition} THEN error({quote(message)})" for condition, message in self.faults
        )
        return f"CASE {cases} ELSE {value} END"

    def order(self) -> str:
        """Spell an order of the solutions in which only equal ones have no place of their own."""
        values = dict.fromkeys([*self._columns, *self.values.values()])
        return f"ORDER BY {', '.join(values)}" if values else ""

    def share(self, sql: str) -> str:
        """Name an expression that is used more than once, unless repeating it is cheap.

        DuckDB computes equal subexpressions once, and laterals in laterals strain its planner.
        """
        if len(sql) <= _REPEATED:
            return sql
        if sql not in self._shared:
            alias = f"x{next(self.names)}"
            item = f"(SELECT {sql} AS v) AS {alias}"
            self.sources.append(f"LATERAL {item}" if self.sources else item)
            self._shared[sql] = f"{alias}.v"
        return self._shared[sql]

    # -- literals

    def add(
        self,
        literals: Sequence[Literal],
        needed: Iterable[str],
        *,
        rows: bool = False,
        whole: bool = False,
        tests: Collection[Atom] = (),
    ) -> Body:
        """Translate a conjunction whose variables are grounded.

        `needed` are the variables read outside of it. Atoms that bind nothing needed become
        EXISTS, unless `rows` says that each combination of rows counts, but of `tests`; `whole`
        says that the literals hang together.
        """
        components: list[list[Literal]] = []
        existential = set(tests)
        if not rows:
            if not whole:
                literals, components = self._split(literals, set(needed))
            existential = self._existential(literals, set(needed))
        pending: list[Comparison] = []
        columns: dict[Comparison, str] = {}
        for literal in literals:
            if isinstance(literal, Atom) and literal not in existential:
                self._atom(literal, pending, columns)
        pending.extend(b for b in literals if isinstance(b, Comparison))
        self._constraints(pending, columns)
        for atom in literals:
            if isinstance(atom, Atom) and atom in existential:
                self._exists(atom, "EXISTS")
        for literal in literals:
            if isinstance(literal, Negation):
                self._exists(literal.atom, "NOT EXISTS")
            elif isinstance(literal, Truth):
                self.conditions.append("TRUE" if literal.value else "FALSE")
        for part in components:
            other = Body(self.kinds, self.tables, self.special, self).add(part, (), whole=True)
            value = other.guard("1")
            self.conditions.append(f"EXISTS (SELECT {value}{other.tail()})")
        return self

    def _split(
        self, literals: Sequence[Literal], needed: set[str]
    ) -> tuple[list[Literal], list[list[Literal]]]:
        """Set apart the literals that share no variable with the rest: they are mere tests."""
        groups: list[tuple[set[str], list[Literal]]] = []
        main: list[Literal] = []
        for literal in literals:
            names = literal_required(literal) - self.values.keys()
            recursive = isinstance(literal, Atom) and literal in self.special
            if not names and not isinstance(literal, Atom):
                main.append(literal)
                continue
            touching = [g for g in groups if g[0] & names]
            joined = (
                names.union(*(g[0] for g in touching)) | ({_MAIN} if recursive else set()),
                [*(b for g in touching for b in g[1]), literal],
            )
            groups = [g for g in groups if g not in touching] + [joined]
        components = []
        for names, members in groups:
            whole = names & needed or _MAIN in names
            heavy = any(True for b in members for e in b.parts for _ in aggregates(e))
            if whole or heavy or (len(groups) == 1 and not main and _rowlike(members)):
                main.extend(members)
            else:
                components.append(members)
        staying = set(map(id, main))
        return [b for b in literals if id(b) in staying], components

    def _existential(self, literals: Sequence[Literal], needed: set[str]) -> set[Atom]:
        """Choose atoms that only test: all that they bind is bound elsewhere or unused."""
        uses: dict[str, int] = dict.fromkeys(needed, 2)
        for literal in literals:
            for variable in literal_variables(literal):
                uses[variable.name] = uses.get(variable.name, 0) + 1
        candidates = []
        for literal in literals:
            if not isinstance(literal, Atom) or literal in self.special:
                continue
            dropped = [
                a
                for a in literal.arguments
                if isinstance(a, Wildcard) or (isinstance(a, Variable) and uses[a.name] == 1)
            ]
            if dropped:
                candidates.append(literal)
        # One such atom multiplies nothing: the join with it is as good.
        if len(candidates) < 2:
            return set()
        chosen: set[Atom] = set()
        bound = frozenset(self.values)
        for atom in reversed(candidates):
            rest = [b for b in literals if b is not atom and b not in chosen]
            shared_names = {
                v.name
                for a in atom.arguments
                for v in variables(a, inside=False)
                if uses[v.name] > 1
            }
            if shared_names <= grounded(rest, bound) and any(isinstance(b, Atom) for b in rest):
                chosen.add(atom)
        return chosen

    def table(self, atom: Atom) -> Table:
        """Find what an atom reads."""
        return self.special.get(atom) or self.tables[atom.name]

    def _atom(self, atom: Atom, pending: list[Comparison], columns: dict[Comparison, str]) -> None:
        table = self.table(atom)
        alias = f"t{next(self.names)}"
        self.sources.append(f"{table.sql} AS {alias}")
        if table.condition:
            self.conditions.append(table.condition.replace("@", alias))
        self._columns.extend(f"{alias}.{column}" for column in table.columns)
        for column, argument in zip(table.columns, atom.arguments, strict=False):
            value = f"{alias}.{column}"
            if isinstance(argument, Wildcard):
                continue
            if isinstance(argument, Variable):
                if argument.name in self.values:
                    self.conditions.append(f"{value} = {self.values[argument.name]}")
                else:
                    self.values[argument.name] = value
            else:
                equal = Comparison("=", argument, argument, argument.position)
                columns[equal] = value
                pending.append(equal)

    def _bound(self, expression: Expression) -> bool:
        return required(expression) <= self.values.keys()

    def _constraints(self, pending: list[Comparison], columns: Mapping[Comparison, str]) -> None:
        # Aggregates last: they need the variables that other equalities bind.
        while pending:
            for late in (False, True):
                done = [c for c in pending if self._try(c, columns, late)]
                if done:
                    gone = set(done)
                    pending = [c for c in pending if c not in gone]
                    break
            else:
                sides = pending[0].parts
                reason = (
                    "these aggregates depend on each other"
                    if len(pending) > 1 and any(True for e in sides for _ in aggregates(e))
                    else "this constraint has a variable that nothing binds"
                )
                raise DatalogError.at(pending[0].position, reason)

    def _try(self, literal: Comparison, columns: Mapping[Comparison, str], late: bool) -> bool:
        left, right = literal.left, literal.right
        heavy = any(True for side in (left, right) for _ in aggregates(side))
        if heavy and not late:
            return False
        if literal in columns:
            if not self._bound(left):
                return False
            self._condition(lambda: f"{columns[literal]} = {self.sql(left)}")
            return True
        if isinstance(right, Functor) and right.name == "range":
            return self._range(left, right)
        left_bound = self._bound(left) and not is_pattern(left)
        right_bound = self._bound(right) and not is_pattern(right)
        if left_bound and right_bound:
            self._condition(lambda: self._compare(literal))
            return True
        if literal.operator == "=":
            for side, other, ready in ((left, right, right_bound), (right, left, left_bound)):
                if isinstance(side, Variable) and ready:
                    value = self.sql(other)
                    self.values[side.name] = self.share(value)
                    return True
                if ready and isinstance(side, Functor) and builds(side) and self._opens(side):
                    self.conditions.extend(self._destructure(self.share(self.sql(other)), side))
                    return True
        return False

    def _opens(self, node: Functor) -> bool:
        """Say whether each field of a structure is known or gets its value from it."""
        return all(
            isinstance(a, Variable | Wildcard)
            or (isinstance(a, Functor) and builds(a) and self._opens(a))
            or self._bound(a)
            for a in node.arguments
        )

    def _destructure(self, value: str, node: Functor) -> Iterator[str]:
        """Take a value apart: bind variables among the fields, and give tests of the rest."""
        yield shape_sql(node.name, value)
        for place, argument in fields(node):
            if isinstance(argument, Wildcard):
                continue
            field = field_sql(value, place, self.kinds.of(argument))
            if isinstance(argument, Variable) and argument.name not in self.values:
                self.values[argument.name] = self.share(field)
            elif (
                isinstance(argument, Functor)
                and builds(argument)
                and is_open(argument, self.values)
            ):
                yield from self._destructure(self.share(field), argument)
            else:
                yield f"{field} = {self.sql(argument)}"

    def _condition(self, build: object) -> None:
        before = len(self.faults)
        text = build()  # type: ignore[operator]
        # A fault makes the condition NULL: let it pass, and the guard reports it.
        self.conditions.append(f"({text}) IS NOT FALSE" if len(self.faults) > before else text)

    def _range(self, variable: Expression, node: Functor) -> bool:
        if not all(self._bound(a) for a in node.arguments):
            return False
        assert isinstance(variable, Variable)
        kind = self.kinds.of(node)
        arguments = [self.share(self.sql(a)) for a in node.arguments]
        start, end = arguments[:2]
        step = arguments[2] if len(arguments) == 3 else None
        alias = f"u{next(self.names)}"
        rows = _range_rows(start, end, step, kind)
        item = f"(SELECT unnest({rows})::{SQL_TYPE[kind]} AS v) AS {alias}"
        self.sources.append(f"LATERAL {item}" if self.sources else item)
        if variable.name in self.values:
            self.conditions.append(f"{alias}.v = {self.values[variable.name]}")
        else:
            self.values[variable.name] = f"{alias}.v"
        return True

    def _compare(self, literal: Comparison) -> str:
        operator = literal.operator
        pattern = literal.left if operator.lstrip("!") == "match" else None
        if isinstance(pattern, String):
            written = pattern_text(pattern.value, pattern.position)
            if written is None:
                return "FALSE"
            left, right = quote(written), self.sql(literal.right)
        else:
            left, right = self.sql(literal.left), self.sql(literal.right)
        if pattern is not None and not isinstance(pattern, String):
            fault = self._fault_at(literal.position)
            return match_sql(left, right, operator.startswith("!"), self.share, fault)
        if operator.endswith("match"):
            test = f"regexp_full_match({right}, {left})"
        elif operator.endswith("contains"):
            test = f"contains({right}, {left})"
        else:
            return f"{left} {'<>' if operator == '!=' else operator} {right}"
        return f"NOT {test}" if operator.startswith("!") else test

    def _exists(self, atom: Atom, word: str) -> None:
        table = self.table(atom)
        alias = f"n{next(self.names)}"
        tests = [table.condition.replace("@", alias)] if table.condition else []
        seen: dict[str, str] = {}
        for column, argument in zip(table.columns, atom.arguments, strict=False):
            if isinstance(argument, Wildcard):
                continue
            value = f"{alias}.{column}"
            if isinstance(argument, Variable) and argument.name not in self.values:
                # A variable of its own, met twice.
                if argument.name in seen:
                    tests.append(f"{value} = {seen[argument.name]}")
                seen.setdefault(argument.name, value)
                continue
            if isinstance(argument, Functor) and is_pattern(argument):
                tests.extend(self._destructure(value, argument))
            else:
                tests.append(f"{value} = {self.sql(argument)}")
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        self.conditions.append(f"{word} (SELECT 1 FROM {table.sql} AS {alias}{where})")

    # -- expressions

    def sql(self, node: Expression) -> str:
        """Translate an expression whose variables are bound."""
        if isinstance(node, Variable):
            return self.values[node.name]
        if isinstance(node, String) and self.symbols is not None:
            return self.symbols[node.value]
        if isinstance(node, Number | String):
            kind = self.kinds.of(node)
            return constant(literal_value(node, kind), kind)
        if isinstance(node, Cast):
            value, source, kind = (
                self.sql(node.value),
                self.kinds.of(node.value),
                self.kinds.of(node),
            )
            return value if source == kind else cut(f"({value})::HUGEINT", kind)
        if isinstance(node, Functor) and node.name == COUNTER:
            return next(self.counters)
        if isinstance(node, Functor):
            arguments = [self.sql(a) for a in node.arguments]
            if builds(node):
                kinds = map(self.kinds.of, node.arguments)
                return structure_sql(node.name, list(zip(arguments, kinds, strict=True)))
            fault = self._fault_at(node.position)
            return functor_sql(node, arguments, self.kinds, self.share, fault)
        if isinstance(node, Aggregate):
            return self._aggregate(node)
        raise DatalogError.at(node.position, "an underscore can't be a value")

    def _fault_at(self, position: Place) -> Fault:
        """Note faults of what stands at a position; one condition is told once."""

        def note(condition: str, message: str) -> None:
            if condition not in (known for known, _ in self.faults):
                self.faults.append((condition, fault_text(position, message)))

        return note

    def _aggregate(self, node: Aggregate) -> str:
        inner = Body(self.kinds, self.tables, self.special, self)
        rows = counts_rows(node)
        literals = node.body
        if node.name == "count" and not rows:
            literals = tuple(named_wildcards(b, self.names) for b in literals)
        every = {v.name for b in literals for v in literal_variables(b, inside=False)}
        inner.add(literals, every, rows=rows or node.name in ("min", "max"))
        kind = self.kinds.of(node)
        target = "1" if node.target is None else inner.sql(node.target)
        if inner.faults:
            target = inner.guard(target)
        outer = node.target is not None and required(node.target) & self.values.keys()
        if (rows or node.name in ("min", "max")) and outer:
            # SQL takes an aggregate over outer columns alone for one of the outer query.
            value = _combine(node, "target", kind, inner, False)
            select = f"SELECT {value} AS v FROM (SELECT {target} AS target{inner.tail()})"
        elif rows or node.name in ("min", "max"):
            select = f"SELECT {_combine(node, target, kind, inner, rows)} AS v{inner.tail()}"
        else:
            # Souffle knows no name for the whole of a record; of a count its fields tell it.
            names = sorted(
                name
                for name in every - self.values.keys()
                if node.name == "count" or not name.startswith(WHOLE)
            )
            distinct = [f"{inner.values[name]} AS v{i}" for i, name in enumerate(names)]
            distinct.append(f"{target} AS target")
            value = _combine(node, "target", kind, inner, rows)
            select = (
                f"SELECT {value} AS v FROM (SELECT DISTINCT {', '.join(distinct)}{inner.tail()})"
            )
        alias = f"g{next(self.names)}"
        item = f"({select}) AS {alias}"
        self.sources.append(f"LATERAL {item}" if self.sources else item)
        if node.name in ("min", "max", "mean"):
            self.conditions.append(f"{alias}.v IS NOT NULL")
        return f"{alias}.v"


def _combine(node: Aggregate, target: str, kind: str, inner: Body, rows: bool) -> str:
    if node.name == "count":
        return f"count({target})" if target != "1" else "count(*)"
    if node.name in ("min", "max"):
        return f"{node.name}({target})"
    order = ""
    if rows and (kind == FLOAT or node.name == "mean"):
        # Float sums depend on the order: take the rows', as a scan of Souffle's index would.
        columns = [value for name, value in inner.values.items() if value.startswith("t")]
        order = f" ORDER BY {', '.join(columns)}" if columns else ""
    if node.name == "mean":
        return f"sum(({target})::DOUBLE{order}) / count(*)"
    if kind == FLOAT:
        return f"coalesce(sum({target}{order}), 0::DOUBLE)"
    assert kind in (NUMBER, UNSIGNED)
    return cut(f"coalesce(sum({target}), 0)::HUGEINT", kind)


def _range_rows(start: str, end: str, step: str | None, kind: str) -> str:
    if kind == FLOAT:
        by = step or f"CASE WHEN {start} <= {end} THEN 1 ELSE -1 END::DOUBLE"
        return f'"{RANGE_FUNCTION}"({start}, {end}, {by})'
    first, last = f"({start})::BIGINT", f"({end})::BIGINT"
    if step is None:
        return f"range({first}, {last}, CASE WHEN {start} <= {end} THEN 1 ELSE -1 END)"
    by = f"({step})::BIGINT"
    once = f"CASE WHEN {start} = {end} THEN []::BIGINT[] ELSE [{first}] END"
    return f"CASE WHEN {step} = 0 THEN {once} ELSE range({first}, {last}, nullif({by}, 0)) END"


def is_open(node: Functor, values: Collection[str]) -> bool:
    """Say whether a structure has fields without value: underscores and variables to be bound."""
    return is_pattern(node) or not required(node) <= set(values)


def _rowlike(literals: Sequence[Literal]) -> bool:
    return sum(isinstance(b, Atom) for b in literals) == 1
