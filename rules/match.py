"""Rows of the match relations to matches, and the conditions that Datalog can't express."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb

from .syntax import Rule
from .view import GraphView, Match


def matches(rule: Rule, relations: Mapping[str, duckdb.DuckDBPyRelation]) -> list[Match]:
    """Read the matches of one rule from the evaluated program, in a stable order."""
    raise NotImplementedError


def check_conditions(match: Match, view: GraphView) -> str | None:
    """Check what Datalog could not; None, or the first condition that fails with its values."""
    raise NotImplementedError
