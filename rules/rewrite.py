"""The right side of a rule, made concrete for one match."""

from __future__ import annotations

from .view import GraphView, Match, Replacement


def instantiate(match: Match, view: GraphView) -> Replacement:
    """Build the replacement of a match whose conditions hold."""
    raise NotImplementedError
