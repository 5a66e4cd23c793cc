"""The memo table and the interesting points of programs: templates.dl, run by the engine.

One run costs about 50 ms of planning in DuckDB, whether it is of one program or of a hundred.
What it derives depends on the structure and on how extents compare, so that it is kept by just
that, here and on disk: a program of the same structure costs nothing, whatever its sizes are.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from ...catalog.datalog import evaluate
from ..program.dag import Program
from . import kept
from .facts import Facts, Row, facts, ranked

if TYPE_CHECKING:
    import duckdb

Edge = tuple[int, int]

# A row of each relation that may be empty, for the types of its columns.
_EMPTY = {
    "fusible": "SELECT 0",
    "reads": "SELECT 0, 0, 0",
    "reduces": "SELECT 0, '', ''",
    "sparse": "SELECT 0",
    "wanted": "SELECT 0",
    "node": "SELECT 0, '', '', 0, 0, 0",
}
_KEPT = 256
_DERIVED = ("fuses", "opens", "closes", "point", "joins", "partition")

Relations = dict[str, list[tuple[Any, ...]]]


@dataclass
class Conditions:
    """What templates.dl derives of one program; edges are (consumer, producer)."""

    fuses: dict[Edge, frozenset[str]] = field(default_factory=dict)
    opens: dict[int, frozenset[str]] = field(default_factory=dict)
    closes: dict[int, frozenset[str]] = field(default_factory=dict)
    points: dict[Edge, str] = field(default_factory=dict)
    joins: set[Edge] = field(default_factory=set)
    partition: dict[int, int] = field(default_factory=dict)


_kept: OrderedDict[Facts, Conditions] = OrderedDict()


def conditions(program: Program, refused: frozenset[str] = frozenset()) -> Conditions:
    """Derive the conditions of one program, or find those of an earlier one with its facts."""
    described = ranked(facts([program], refused))
    found = _kept.get(described)
    if found is None:
        relations = kept.load(described)
        if relations is None:
            relations = _derive(described)
            kept.keep(described, relations)
        (found,) = _divide(relations, [len(program.nodes)])
        _kept[described] = found
        if len(_kept) > _KEPT:
            _kept.popitem(last=False)
    return found


def all_conditions(
    programs: Sequence[Program], refused: frozenset[str] = frozenset()
) -> list[Conditions]:
    """Derive the conditions of many programs in one run."""
    sizes = [len(program.nodes) for program in programs]
    return _divide(_derive(facts(programs, refused)), sizes)


@cache
def _connection(process: int) -> duckdb.DuckDBPyConnection:
    """Return a database in memory; a forked process can't use that of its parent."""
    import duckdb

    # The tables are tiny: more threads only wait for each other.
    return duckdb.connect(config={"threads": 1})


def _derive(described: Facts) -> Relations:
    # A cursor of its own: another thread may plan at the same time.
    with _connection(os.getpid()).cursor() as cursor:
        inputs = {name: _values(name, rows) for name, rows in described}
        relations = evaluate(kept.rules(), cursor, inputs=inputs)
        return {name: relations[name].fetchall() for name in _DERIVED}


def _divide(derived: Relations, sizes: Sequence[int]) -> list[Conditions]:
    """Return what was derived of each of several programs of so many nodes."""
    owner: list[tuple[Conditions, int]] = []
    found = []
    for size in sizes:
        found.append(Conditions())
        owner += [(found[-1], len(owner))] * size
    for h, c, template in derived["fuses"]:
        one, first = owner[h]
        edge = (h - first, c - first)
        one.fuses[edge] = one.fuses.get(edge, frozenset()) | {template}
    for n, template in derived["opens"]:
        one, first = owner[n]
        one.opens[n - first] = one.opens.get(n - first, frozenset()) | {template}
    for n, template in derived["closes"]:
        one, first = owner[n]
        one.closes[n - first] = one.closes.get(n - first, frozenset()) | {template}
    for h, c, why in derived["point"]:
        one, first = owner[h]
        one.points[h - first, c - first] = why
    for a, b in derived["joins"]:
        one, first = owner[a]
        one.joins.add((a - first, b - first))
    for n, p in derived["partition"]:
        one, first = owner[n]
        one.partition[n - first] = p - first
    return found


def _values(name: str, rows: Sequence[Row]) -> str:
    """Write rows as a query; numbers, and names of operators and classes, need no quoting."""
    if not rows:
        return f"SELECT * FROM ({_EMPTY[name]}) WHERE false"
    return "VALUES " + ", ".join(f"({', '.join(map(repr, row))})" for row in rows)
