"""Rules to a Datalog program that finds where they match."""

from __future__ import annotations

from collections.abc import Sequence

from .syntax import Rule


def compile_program(rules: Sequence[Rule]) -> str:
    """Compile the left sides: rules/graph.dl and one relation `match_<Name>` a rule."""
    raise NotImplementedError


def attribute_text(value: object) -> str:
    """An attribute as the relation `attribute` spells it: `1`, `0.5`, `NOTSET`, `[0, 2, 1]`."""
    raise NotImplementedError
