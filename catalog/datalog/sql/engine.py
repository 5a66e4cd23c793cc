"""Running a program's plan on a DuckDB connection."""

from __future__ import annotations

import itertools
import operator
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa

from ...terms.syntax_tree import Place
from ..analysis.stratify import reachable, uses
from ..language.structures import decode
from ..language.syntax import DatalogError
from ..limits import NO_LIMITS, Limits, interrupted_after
from ..memory.program_plans import database_only
from ..program import Program
from ..steps import (
    MAX_VALUES,
    Choice,
    Loop,
    Numbered,
    Relation,
    Statement,
    Step,
    create,
    quoted,
)
from .compiler import union
from .expressions import ORDINAL_FUNCTION, STRUCTURE_TYPE, fault_of
from .functions import OURS, Function, registered
from .liveness import Liveness
from .ordinals import Ordinals

ARROW = {
    "number": pa.int64(),
    "unsigned": pa.uint64(),
    "float": pa.float64(),
    "symbol": pa.string(),
}


def arrow_type(kind: str) -> pa.DataType:
    """Name the Arrow type of a kind; a structure comes as the text of its JSON."""
    return ARROW.get(kind, ARROW["symbol"])


_PREFIX = "dl:"
MAX_GROWTHS = 5  # places that an error names
MANY_ROWS = 1_000  # symbols of a recursion that reads fewer rows stay strings


class Relations(Mapping[str, duckdb.DuckDBPyRelation]):
    """The relations of an evaluated program, read lazily from its temporary tables.

    Columns bear the declared names. A relation without columns has one named `present`, and one
    row where it holds. The next evaluation on the same connection replaces them all.
    """

    def __init__(self, program: Program, connection: duckdb.DuckDBPyConnection) -> None:
        self._program = program
        self._connection = connection

    def __getitem__(self, name: str) -> duckdb.DuckDBPyRelation:
        return self._connection.sql(f"SELECT {self._columns(name)} FROM {self.sql(name)}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._program.relations)

    def __len__(self) -> int:
        return len(self._program.relations)

    def sql(self, name: str) -> str:
        """Name the temporary table of a relation, quoted for use in SQL; columns c0, c1, …."""
        return self._program.relations[name].sql

    def _columns(self, name: str) -> str:
        relation = self._program.relations[name]
        names = [a.name for a in self._program.declarations[name].attributes]
        used: set[str] = set()
        columns = []
        for column, label in zip(relation.columns, names or ["present"], strict=True):
            # DuckDB's names ignore case; ours don't.
            while label.lower() in used:
                label += "_"
            used.add(label.lower())
            columns.append(f"{column} AS {quoted(label)}")
        return ", ".join(columns)


def evaluate(
    program: Program,
    connection: duckdb.DuckDBPyConnection,
    *,
    inputs: Mapping[str, str] | None = None,
    schema: str | None = None,
    only: Collection[str] | None = None,
    functors: Mapping[str, Callable[..., object]] | None = None,
    limits: Limits = NO_LIMITS,
) -> Relations:
    """Evaluate a program; everything made is temporary and replaced by the next evaluation.

    `inputs` maps relation names to SQL (a table's name or a query) whose columns are taken by
    position; an input relation without entry is read from the table of its name, in `schema` if
    given. `only` restricts the work to these relations and what they need. `functors` are the
    functions of the functors that the program declares; they take and return int, float and str.
    `limits` end what runs too long. Raises DatalogError for functors that aren't given, for inputs
    that are missing or don't fit, for limits that are reached, and for what stops Souffle too:
    division by zero, to_number of a symbol without number.
    """
    input_sources = dict(inputs or {})
    for name in input_sources:
        if name not in program.relations:
            raise _error(program, name, f"there is no relation {name} to read an input into")
        if not program.relations[name].is_input:
            raise _error(program, name, f"relation {name} is given an input but has no .input")
    needed_relations = None if only is None else needed(program, only)
    kept = {r.table for r in program.relations.values() if _in(r.name, needed_relations)}
    called = {
        name: position
        for relation in program.relations.values()
        if _in(relation.name, needed_relations)
        for name, position in relation.calls.items()
    }
    ordinals = Ordinals(program.symbols) if ORDINAL_FUNCTION in called else None
    run = _Run(program, connection, _drop(connection, kept), ordinals, limits)
    for relation in program.relations.values():
        if not _in(relation.name, needed_relations):
            continue
        if relation.is_input:
            run.read(relation, input_sources.get(relation.name), schema)
        if len(set(relation.facts)) > MAX_VALUES:
            _load_facts(relation, connection)
    ours: dict[str, Function] = dict(OURS)
    if ordinals is not None:
        ours[ORDINAL_FUNCTION] = (ordinals, ["VARCHAR"], "BIGINT")
    with registered(connection, program.functors, called, functors or {}, ours):
        for step in program.steps:
            if needed_relations is None or needed_relations & set(step.relations):
                run.step(step)
    return Relations(program, connection)


def needed(program: Program, names: Collection[str]) -> set[str]:
    """Name the relations that some relations depend on, themselves included."""

    def read(name: str) -> Iterator[str]:
        relation = program.relations[name]
        for rule in relation.rules:
            yield from (u.relation for u in uses(rule.clause.body, rule.clause.head.arguments))
        for dominance in relation.dominances:
            yield from (u.relation for u in uses(dominance.subsumption.body))

    return reachable(names, read)


def _in(name: str, needed_relations: Collection[str] | None) -> bool:
    return needed_relations is None or name in needed_relations


def _drop(connection: duckdb.DuckDBPyConnection, kept: Collection[str]) -> dict[str, int]:
    """Drop what an earlier evaluation left and this one won't replace; size up the rest."""
    tables = connection.execute(
        "SELECT table_name, estimated_size FROM duckdb_tables() "
        "WHERE temporary AND starts_with(table_name, ?)",
        [_PREFIX],
    ).fetchall()
    stale = [f"DROP TABLE temp.{quoted(name)}" for name, _ in tables if name not in kept]
    if stale:
        connection.execute(";".join(stale)).fetchall()
    return {name: rows for name, rows in tables if name in kept}


class _Run:
    """One evaluation: what has been computed, and the sizes known so far."""

    def __init__(
        self,
        program: Program,
        connection: duckdb.DuckDBPyConnection,
        row_counts: Mapping[str, int],
        ordinals: Ordinals | None,
        limits: Limits,
    ) -> None:
        self.program = program
        self.connection = connection
        self.row_counts = row_counts
        self.ordinals = ordinals
        self.limits = limits
        self.until = None if limits.seconds is None else time.monotonic() + limits.seconds
        tables = {r.name: r.sql for r in program.relations.values()}
        self.liveness = Liveness(connection, tables, program.probes)
        # What a relation with keys was given enters it after it was made.
        self.created = {
            create(r.sql, ""): r.name
            for r in program.relations.values()
            if not (r.keys and r.is_input)
        }
        self.rows_read: dict[str, int] = {}  # how many rows were read into each input

    def read(self, relation: Relation, source: str | None, schema: str | None) -> None:
        """Copy an input, cast to the declared kinds, without duplicates."""
        if source is None:
            source = quoted(relation.name)
            if schema is not None:
                source = f"{quoted(schema)}.{source}"
        if re.match(r"\s*(select|with|from|values)\b", source, re.IGNORECASE):
            source = f"({source})"
        names = ", ".join(f"i{n}" for n in range(len(relation.columns)))
        values = ", ".join(
            f"{_cast(f'coalesce(i{n}, {_null(n, kind)})', kind)} AS {column}"
            for n, (column, kind) in enumerate(zip(relation.columns, relation.types, strict=True))
        )
        if not relation.kinds:
            query = f"SELECT DISTINCT TRUE AS present FROM {source} AS i"
        else:
            query = f"SELECT DISTINCT {values} FROM {source} AS i({names})"
        self._check(relation, source)
        self._number(relation, source)
        try:
            table = relation.sql if relation.is_as_read else relation.input_sql
            self.rows_read[relation.name] = self._execute(create(table, query))
        except duckdb.Error as error:
            text = _first_line(error)
            raise _error(
                self.program,
                relation.name,
                f"can't read the input of relation {relation.name}: {text}",
            ) from None

    def _number(self, relation: Relation, source: str) -> None:
        """Number the symbols of an input in the order of its rows."""
        places = [place for place, kind in enumerate(relation.kinds) if kind == "symbol"]
        if self.ordinals is not None and places:
            names = ", ".join(f"i{n}" for n in range(len(relation.columns)))
            symbols = ", ".join(f"i{place}::VARCHAR" for place in places)
            query = f"SELECT {symbols} FROM {source} AS i({names})"
            for row in self._asked(relation, query):
                self.ordinals.add(symbol for symbol in row if symbol is not None)

    def _asked(self, relation: Relation, query: str) -> list[tuple[Any, ...]]:
        """Query what an input is read from."""
        try:
            return self.connection.execute(query).fetchall()
        except duckdb.Error as error:
            reason = f"can't read the input of relation {relation.name}: {_first_line(error)}"
            raise _error(self.program, relation.name, reason) from None

    def _check(self, relation: Relation, source: str) -> None:
        """Refuse inputs with texts that are no values of the column's record or algebraic type."""
        structures = self.program.structures
        for place, kind in enumerate(relation.kinds):
            if kind not in structures:
                continue
            names = ", ".join(f"i{n}" for n in range(len(relation.columns)))
            query = f"SELECT DISTINCT i{place}::VARCHAR FROM {source} AS i({names}) "
            for (text,) in self._asked(relation, f"{query} WHERE i{place} IS NOT NULL"):
                try:
                    decode(text, kind, structures)
                except ValueError:
                    shown = text if len(text) <= 60 else text[:57] + "..."
                    reason = (
                        f"can't read the input of relation {relation.name}: {shown} in column "
                        f"{place + 1} is no {kind} as JSON"
                    )
                    raise _error(self.program, relation.name, reason) from None

    def step(self, step: Step) -> None:
        """Compute the relations of a step; raises DatalogError."""
        seconds = self.limits.growth_s if step.growing else None
        if self.until is not None:
            seconds = max(0.0, self.until - time.monotonic())
        try:
            with interrupted_after(self.connection, seconds) as has_expired:
                try:
                    self._step(step)
                except duckdb.InternalException:
                    # A defect of DuckDB's planner; it is met where laterals are correlated twice.
                    with _simpler_plans(self.connection):
                        self._step(step)
        except duckdb.Error as error:
            if has_expired():
                allowed = self.limits.seconds or self.limits.growth_s
                raise self._ended(step, f"{allowed:g} s have passed", "--limit-s") from None
            if step.growing and isinstance(error, duckdb.OutOfMemoryException):
                raise self._ended(step, "memory is full", "more memory") from None
            fault = fault_of(_first_line(error))
            if fault is not None:
                raise fault from None
            names = ", ".join(step.relations)
            raise _error(
                self.program,
                step.relations[0],
                f"evaluating {names} failed: {_first_line(error)}",
            ) from None

    def _ended(self, step: Step, reached: str, option: str) -> DatalogError:
        """Build the error for a step that was ended: it names what makes values."""
        ended = f"{', '.join(step.relations)}: ended, since {reached}"
        if not step.growing:
            return _error(self.program, step.relations[0], f"{ended}; {option} allows more")
        first, *others = (
            DatalogError.at(
                growth.position,
                f"{ended}: this makes a value of {growth.relation} in each round; bound it, set "
                f".limitsize {growth.relation}(n=...), or allow more ({option})",
            )
            for growth in step.growing[:MAX_GROWTHS]
        )
        return DatalogError(first.path, first.line, first.column, first.reason, others)

    def _step(self, step: Step) -> None:
        alive = [part.sql for part in step.parts if self.liveness.alive(part.needs)]
        if not alive:
            for name, statement in zip(step.relations, step.empty, strict=True):
                if self.row_counts.get(self.program.relations[name].table) != 0:
                    self.connection.execute(statement).fetchall()
                self.liveness.rows[name] = 0
            return
        if self.limits.rows is not None:
            self._check_parts(step, alive, self.limits.rows)
        if step.loop is not None and (not step.statements or self.limits.rows is not None):
            self._iterate(step, step.loop)
        elif not step.recursive and len(alive) < len(step.parts):
            first = create(self.program.relations[step.relations[0]].sql, union(alive))
            self._compute(step, (first, *step.statements[1:]))
        elif step.numbered is not None and self._reads_much(step, step.numbered):
            self._compute(step, step.numbered.start)
            for statement in step.numbered.encode:
                self._execute(statement)
            self._compute(step, step.numbered.statements)
        else:
            self._compute(step, step.statements)

    def _check_parts(self, step: Step, parts: Iterable[str], most: int) -> None:
        """Refuse a SELECT of too many rows before it runs as a whole, since DISTINCT needs all."""
        if any(self.program.relations[name].keys for name in step.relations):
            return
        for sql in parts:
            rows, size = most, most
            while rows == size:
                size *= 4
                sample = f"SELECT s FROM ({sql}) AS s LIMIT {size}"
                rows, distinct = self.connection.execute(
                    f"SELECT count(*), count(DISTINCT s) FROM ({sample})"
                ).fetchall()[0]
                self._check_rows(step, distinct)

    def _check_rows(self, step: Step, rows: int) -> None:
        most = self.limits.rows
        if most is not None and rows > most:
            raise self._ended(step, f"there are more than {most:,} rows", "--limit-rows")

    def _compute(self, step: Step, statements: Iterable[Statement]) -> None:
        """Run statements that make relations, none with more rows than may be."""
        most = self.limits.rows
        chosen = any(self.program.relations[name].keys for name in step.relations)
        for statement in statements:
            if most is None or chosen or not str(statement).startswith("CREATE"):
                self._execute(statement)
            else:
                self._check_rows(step, self._execute(f"{statement} LIMIT {most + 1}"))

    def _iterate(self, step: Step, loop: Loop) -> None:
        """Run rounds until nothing is new.

        Driven from here because of what no recursive query can say: tuples leave again between
        rounds, or a size ends the recursion.
        """
        _execute_all(loop.start, self.connection)
        while True:
            # Fetch all: an unfinished result would block the connection.
            if not self.connection.execute(loop.count).fetchall()[0][0]:
                break
            if loop.full is not None and self.connection.execute(loop.full).fetchall()[0][0]:
                break
            self._check_size(step)
            _execute_all((*loop.derive, *loop.merge), self.connection)
        _execute_all(loop.finish, self.connection)
        self._check_size(step)

    def _check_size(self, step: Step) -> None:
        if self.limits.rows is not None:
            tables = (self.program.relations[name].sql for name in step.relations)
            query = " + ".join(f"(SELECT count(*) FROM {table})" for table in tables)
            self._check_rows(step, self.connection.execute(f"SELECT {query}").fetchall()[0][0])

    def _reads_much(self, step: Step, numbered: Numbered) -> bool:
        """Say whether a recursion reads so much that numbering its symbols first may pay."""
        member_rows = sum(
            self.rows_read.get(name, 0) + len(self.program.relations[name].facts)
            for name in step.relations
        )
        return (
            member_rows + sum(self.liveness.rows.get(name, 0) for name in numbered.reads)
            >= MANY_ROWS
        )

    def _execute(self, statement: Statement) -> int:
        """Run a statement; where it makes a table, give its number of rows.

        If the table is a relation's, the number is noted.
        """
        if isinstance(statement, Choice):
            _choose(statement, self.connection)
            return 0
        result = self.connection.execute(statement).fetchall()
        rows = int(result[0][0]) if result and isinstance(result[0][0], int) else 0
        head = statement.partition(" AS ")[0] + " AS "
        name = self.created.get(head)
        if name is not None and result:
            self.liveness.rows[name] = rows
        return rows


def _null(place: int, kind: str) -> str:
    message = f"error('NULL in column {place + 1}')"
    return f"{message}::VARCHAR" if kind == STRUCTURE_TYPE else message


def _cast(value: str, kind: str) -> str:
    """Cast to a SQL type; JSON in the one spelling that equal values have."""
    return f"json({value})" if kind == STRUCTURE_TYPE else f"{value}::{kind}"


def _load_facts(relation: Relation, connection: duckdb.DuckDBPyConnection) -> None:
    rows = list(dict.fromkeys(relation.facts))
    columns = [
        pa.array(values, type=arrow_type(kind))
        for values, kind in zip(zip(*rows, strict=True), relation.kinds, strict=True)
    ]
    load(relation.facts_sql, columns, relation, connection)


def load(
    table: str,
    columns: Sequence[pa.Array],
    relation: Relation,
    connection: duckdb.DuckDBPyConnection,
) -> None:
    """Copy columns of a relation into a temporary table."""
    view = f"{_PREFIX}arrow"
    connection.register(view, pa.table(list(columns), names=list(relation.columns)))
    named = zip(relation.columns, relation.types, strict=True)
    values = ", ".join(f"{_cast(column, kind)} AS {column}" for column, kind in named)
    try:
        connection.execute(create(table, f"SELECT {values} FROM {quoted(view)}")).fetchall()
    finally:
        connection.unregister(view)


@contextmanager
def _simpler_plans(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Leave out the optimizer's pass that removes duplicate-eliminating joins."""
    before = connection.execute("SELECT current_setting('disabled_optimizers')").fetchall()[0][0]
    connection.execute("SET disabled_optimizers = 'deliminator'")
    try:
        yield
    finally:
        connection.execute(f"SET disabled_optimizers = '{before or ''}'")


def _execute_all(statements: Iterable[Statement], connection: duckdb.DuckDBPyConnection) -> None:
    """Run statements, those between choices at once."""
    for is_choice, group in itertools.groupby(statements, lambda s: isinstance(s, Choice)):
        if is_choice:
            for statement in group:
                assert isinstance(statement, Choice)
                _choose(statement, connection)
        else:
            connection.execute(";".join(map(str, group))).fetchall()


def _choose(choice: Choice, connection: duckdb.DuckDBPyConnection) -> None:
    """Delete the candidates that aren't chosen.

    Row by row, since with several keys what one row takes decides whether the next one stays.
    """
    numbers = [f"dense_rank() OVER (ORDER BY {', '.join(key)})" for key in choice.keys]
    known = [
        f"NOT EXISTS (SELECT 1 FROM {choice.relation} AS r WHERE "
        f"{' AND '.join(f'r.{c} = n.{c}' for c in key)})"
        for key in choice.keys
        if choice.relation is not None
    ]
    rows = connection.execute(
        f"SELECT n.rowid AS id, {', '.join(f'{n} AS k{i}' for i, n in enumerate(numbers))} "
        f"FROM {choice.candidates} AS n {'WHERE ' if known else ''}{' AND '.join(known)} "
        f"ORDER BY {', '.join(choice.columns)}"
    ).fetchnumpy()
    taken: list[set[int]] = [set() for _ in choice.keys]
    chosen: list[int] = []
    keys = zip(*(rows[f"k{i}"].tolist() for i in range(len(choice.keys))), strict=True)
    for identifier, key in zip(rows["id"].tolist(), keys, strict=True):
        if not any(map(operator.contains, taken, key)):
            chosen.append(identifier)
            for values, value in zip(taken, key, strict=True):
                values.add(value)
    view = f"{_PREFIX}chosen"
    connection.register(view, pa.table({"id": pa.array(chosen, type=pa.int64())}))
    try:
        connection.execute(
            f"DELETE FROM {choice.candidates} WHERE rowid NOT IN (SELECT id FROM {quoted(view)})"
        ).fetchall()
    finally:
        connection.unregister(view)


def _first_line(error: Exception) -> str:
    text = str(error).split("\n")[0]
    return re.sub(r"^[A-Za-z ]*Error: ", "", text)


def _error(program: Program, name: str, reason: str) -> DatalogError:
    declaration = program.declarations.get(name)
    place = declaration.position if declaration else Place(program.path, 1, 1)
    return DatalogError.at(place, reason)


def explain(program: Program) -> str:
    """Describe the strata and the SQL that computes them."""
    lines: list[str] = []
    by_name = {name: step for step in program.steps for name in step.relations}
    for number, stratum in enumerate(program.strata, 1):
        names = ", ".join(stratum.relations)
        step = by_name.get(stratum.relations[0])
        how = "recursive" if stratum.recursive else "input" if step is None else "not recursive"
        lines.append(f"-- stratum {number}: {names} ({how})")
        if step is None:
            continue
        if step.loop is None or step.statements:
            lines.extend(f"{statement};" for statement in step.statements)
            if step.numbered is not None:
                lines.append(f"-- its symbols are numbered first where it reads {MANY_ROWS:,} rows")
        else:
            lines.extend(f"{statement};" for statement in step.loop.start)
            lines.append("-- repeat while something is new")
            lines.extend(f"{s};" for s in (*step.loop.derive, *step.loop.merge))
        lines.append("")
    reason = database_only(program)
    evaluation = "in memory" if reason is None else f"statements, too: it has {reason}"
    lines.append(f"-- derive() of few rows: {evaluation}")
    lines.extend(f"-- note: {note}" for note in program.notes)
    return "\n".join(lines).rstrip() + "\n"


__all__ = ["Relations", "arrow_type", "evaluate", "explain", "load", "needed"]
