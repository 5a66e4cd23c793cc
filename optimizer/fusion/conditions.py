"""The memo table and the interesting points of programs: what templates.dl derives.

Its rules are loops of Python (templates.py, generated from them): the relations are small, and take
a millisecond or two that way, where DuckDB plans a hundred statements. What is derived depends on
the structure and on how extents compare, so that it is kept by just that: a program of a known
structure costs nothing, whatever its sizes are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..program.dag import Program
from .facts import Facts, facts, ranked
from .templates import derive

Edge = tuple[int, int]

_KEPT = 256


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
        (found,) = _divide(derive(dict(described)), [len(program.nodes)])
        _kept[described] = found
        if len(_kept) > _KEPT:
            _kept.popitem(last=False)
    return found


def all_conditions(
    programs: Sequence[Program], refused: frozenset[str] = frozenset()
) -> list[Conditions]:
    """Derive the conditions of many programs in one run."""
    sizes = [len(program.nodes) for program in programs]
    return _divide(derive(dict(facts(programs, refused))), sizes)


def _divide(
    derived: Mapping[str, Iterable[tuple[Any, ...]]], sizes: Sequence[int]
) -> list[Conditions]:
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
