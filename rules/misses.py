"""Near misses: where all conditions of a rule but one hold."""

from __future__ import annotations

from collections.abc import Sequence

from .syntax import Rule
from .view import Match, NamedView


def compile_misses(rules: Sequence[Rule]) -> str:
    """Compile a program with one relation for each rule and condition that is dropped."""
    raise NotImplementedError


def describe_miss(rule: Rule, condition: str, match: Match, view: NamedView) -> str:
    """Say in one sentence which condition of a rule failed, for which values and shapes."""
    raise NotImplementedError
