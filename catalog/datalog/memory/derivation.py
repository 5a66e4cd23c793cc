"""Rows in, rows out: of few rows a program is evaluated in memory, of many by DuckDB.

Which one it is, is decided before: by the number of rows given, and by what the program asks for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from ...terms.syntax_tree import Place
from ..language.structures import Structures, decode, encode
from ..language.syntax import DatalogError
from ..limits import NO_LIMITS, Limits
from ..program import Program
from ..steps import Row
from .clause_plans import DatabaseOnlyError
from .execution import Evaluator
from .program_plans import plan_of

# Imported within functions: the database, which few rows do without.

# From so many rows on a database's joins make up for the planning of its statements.
FEW_ROWS = 1_000

_TYPES: Mapping[str, type] = {"number": int, "unsigned": int, "float": float, "symbol": str}
_LEAST = {"number": -(1 << 63), "unsigned": 0}
_evaluators: WeakKeyDictionary[Program, Evaluator | None] = WeakKeyDictionary()


def derive(
    program: Program,
    input_rows: Mapping[str, Iterable[Row]],
    *,
    functors: Mapping[str, Callable[..., object]] | None = None,
    limits: Limits = NO_LIMITS,
) -> dict[str, list[Row]]:
    """Return the rows of every relation, each once, from those of the inputs.

    An input without `input_rows` is empty. Rows are tuples of int, float and str as the relation's
    columns are declared. A record is a tuple, nil None, and a branch a tuple that begins with its
    name; a relation without columns holds where it has the row (). `functors`, `limits` and errors
    are those of evaluate.
    """
    inputs: dict[str, list[Row]] = {
        n: [] for n, relation in program.relations.items() if relation.is_input
    }
    for name, rows in input_rows.items():
        inputs[name] = list(dict.fromkeys(rows))
        _check(program, name, inputs[name])
    facts = sum(len(relation.facts) for relation in program.relations.values())
    is_small = facts + sum(map(len, inputs.values())) < FEW_ROWS
    if is_small and not limits.apply_to(program.steps) and _are_plain(inputs):
        evaluator = _evaluator(program)
        if evaluator is not None:
            try:
                return {name: list(rows) for name, rows in evaluator(inputs).items()}
            except UnicodeDecodeError:
                reason = "evaluating failed: substr cuts a character in two"
                raise DatalogError.at(Place(program.path, 1, 1), reason) from None
    return _queried(program, inputs, functors, limits)


def _evaluator(program: Program) -> Evaluator | None:
    """Return what evaluates a program in memory, None where a database has to; made once."""
    if program not in _evaluators:
        try:
            _evaluators[program] = Evaluator(plan_of(program))
        except DatabaseOnlyError:
            _evaluators[program] = None
    return _evaluators[program]


def _check(program: Program, name: str, rows: Iterable[Row]) -> None:
    relation = program.relations.get(name)
    if relation is None or not relation.is_input:
        reason = f"there is no relation {name} with .input to give rows to"
        raise DatalogError.at(Place(program.path, 1, 1), reason)
    for row in rows:
        fits = [_fits(v, k, program.structures) for v, k in zip(row, relation.kinds, strict=False)]
        if len(row) != len(relation.kinds) or not all(fits):
            reason = f"{row!r} is no row of {name}({', '.join(relation.kinds)})"
            raise DatalogError.at(program.declarations[name].position, reason)


def _fits(value: object, kind: str, structures: Structures) -> bool:
    if kind in structures:
        try:
            encode(value, kind, structures)
        except ValueError:
            return False
        return True
    if type(value) is not _TYPES[kind]:
        return False
    least = _LEAST.get(kind)
    return least is None or 0 <= value - least < 1 << 64  # type: ignore[operator]


def _are_plain(inputs: Mapping[str, Iterable[Row]]) -> bool:
    """Whether there is no NaN: that is equal to itself in a database, and the largest number."""
    values = (value for rows in inputs.values() for row in rows for value in row)
    return not any(isinstance(value, float) and math.isnan(value) for value in values)


def _queried(
    program: Program,
    inputs: Mapping[str, list[Row]],
    functors: Mapping[str, Callable[..., object]] | None,
    limits: Limits,
) -> dict[str, list[Row]]:
    """Evaluate a program by a database in memory."""
    import duckdb
    import pyarrow as pa

    from ...interruption import endable
    from ..sql.engine import arrow_type, evaluate, load
    from ..steps import quoted

    with duckdb.connect() as connection:
        endable(connection, duckdb.DuckDBPyConnection.interrupt)
        tables = {}
        for number, (name, rows) in enumerate(inputs.items()):
            kinds = program.kinds[name]
            columns = [
                pa.array([_stored(row[i], kind, program) for row in rows], type=arrow_type(kind))
                for i, kind in enumerate(kinds)
            ]
            if not kinds:
                columns = [pa.array([True] * len(rows), type=pa.bool_())]
            tables[name] = quoted(f"given {number}")
            load(tables[name], columns, program.relations[name], connection)
        relations = evaluate(program, connection, inputs=tables, functors=functors, limits=limits)
        return {
            name: [_returned(program, name, row) for row in relations[name].fetchall()]
            for name in relations
        }


def _stored(value: Any, kind: str, program: Program) -> Any:
    if kind in program.structures:
        return encode(value, kind, program.structures)
    return value


def _returned(program: Program, name: str, row: Row) -> Row:
    kinds = program.kinds[name]
    if not program.structures:
        return row if kinds else ()
    return tuple(
        decode(str(value), kind, program.structures) if kind in program.structures else value
        for value, kind in zip(row, kinds, strict=False)
    )
