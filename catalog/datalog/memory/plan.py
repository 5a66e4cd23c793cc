"""The plan of a program as data: which rows are joined in which order, by which indexes.

A solution of a clause under way is one tuple, its *binding*: the clause's constants, then the
values that the steps so far have found. Slots are places in it. So keys of indexes, rows of heads
and tests are taken out of a binding by place, and a plan holds nothing but numbers, names and
constants: it can be kept on disk (`catalog/disk_cache.py`), and read without what made it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Row = tuple[Any, ...]


class Slot(NamedTuple):
    """A value of the binding."""

    place: int


class Call(NamedTuple):
    """A function of `scalars.py` applied to values."""

    function: str
    arguments: tuple[Value, ...]


Value = Slot | Call


class Index(NamedTuple):
    """Rows of a relation by their values in `keys`: the distinct rows of their `columns`."""

    relation: int
    keys: tuple[int, ...]
    columns: tuple[int, ...]


class Scan(NamedTuple):
    """Add the `columns` of each row whose columns in `tested` are the values in `slots`.

    The rows are a relation's, those of its last round where `latest`.
    """

    relation: int
    latest: bool
    tested: tuple[int, ...]
    slots: tuple[int, ...]
    columns: tuple[int, ...]


class Probe(NamedTuple):
    """Add what an index has by the values in `slots`."""

    index_number: int
    slots: tuple[int, ...]


class Member(NamedTuple):
    """Go on where an index without keys has the row in `slots`; where `absent`, where it hasn't."""

    index_number: int
    slots: tuple[int, ...]
    absent: bool


class Filter(NamedTuple):
    """Go on where a value is true."""

    value: Value


class Compute(NamedTuple):
    """Add a value."""

    value: Value


class Enumerate(NamedTuple):
    """Add each of the values that a value is."""

    value: Value


class AggregateStep(NamedTuple):
    """Add the aggregate of `target` over what `steps` make of the binding.

    `function` is count, sum, min or max. `distinct` are the slots that tell solutions apart, None
    where each counts. Without solutions a min or max goes no further.
    """

    function: str
    steps: tuple[Step, ...]
    distinct: tuple[int, ...] | None
    target: Value


Step = Scan | Probe | Member | Filter | Compute | Enumerate | AggregateStep


class ClausePlan(NamedTuple):
    """A clause: `head` is made for each binding that passes the steps."""

    relation: int
    constants: Row
    steps: tuple[Step, ...]
    head: tuple[Value, ...]


class RelationPlan(NamedTuple):
    """A relation of so many columns.

    `keys` are columns by whose values at most one row is chosen each; with so many rows as `limit`
    a recursion ends.
    """

    name: str
    columns: int
    is_input: bool
    is_equivalence: bool
    facts: tuple[Row, ...]
    keys: tuple[tuple[int, ...], ...]
    limit: int | None


class StratumPlan(NamedTuple):
    """Relations that are derived together: by `start` once, by `rounds` until nothing is new."""

    relations: tuple[int, ...]
    start: tuple[ClausePlan, ...]
    rounds: tuple[ClausePlan, ...]


class ProgramPlan(NamedTuple):
    """Relations by number, indexes by number, and the strata in order."""

    relations: tuple[RelationPlan, ...]
    indexes: tuple[Index, ...]
    strata: tuple[StratumPlan, ...]
