"""Rows of the match relations to matches, and the conditions that Datalog can't express."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..language.conditions import conditions
from ..language.syntax import Rule
from .bindings import Bindings
from .compile import columns, remainder
from .view import GraphView, Match


class Rows(Protocol):
    """The rows of an evaluated relation."""

    def fetchall(self) -> Sequence[tuple[Any, ...]]:
        """Give them all."""


def matches(rule: Rule, relations: Mapping[str, Rows]) -> list[Match]:
    """Read the matches of one rule from the evaluated program, in a stable order."""
    rows = relations[f"match_{rule.name}"].fetchall()
    return [match_of(rule, row) for row in sorted(rows)]


def match_of(rule: Rule, row: tuple[int, ...]) -> Match:
    """One row of a match relation as a match."""
    nodes: dict[str, int] = {}
    values: dict[str, int] = {}
    dims: dict[str, int] = {}
    positions: dict[str, int] = {}
    for column, number in zip(columns(rule), row, strict=True):
        kind, _, name = column.partition("_")
        if kind == "n":
            nodes[name] = number
        elif kind == "v":
            values[name] = number
        elif kind == "p":
            node, _, side = name.rpartition("_")
            positions[f"{node}:{side}"] = number
        else:
            dims[name] = number
    return Match(rule, nodes, values, dims, positions)


def check_conditions(match: Match, view: GraphView) -> str | None:
    """Check what Datalog could not; None, or the first condition that fails with its values."""
    left = remainder(match.rule)
    if not left:
        return None
    bound = Bindings(match, view)
    return next((bound.explain(c) for c in left if not bound.holds(c)), None)


def check_all(match: Match, view: GraphView) -> str | None:
    """Check every condition but use counts without Datalog; None, or the first that fails."""
    bound = Bindings(match, view)
    return next((bound.explain(c) for c in conditions(match.rule) if not bound.holds(c)), None)
