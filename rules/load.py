"""The shipped rules, and the choice of those that apply to a model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from .syntax import Rule


def load_rules(paths: Sequence[Path] | None = None) -> tuple[Rule, ...]:
    """Read the given rule files, or all that are shipped."""
    raise NotImplementedError


def select_rules(
    rules: Sequence[Rule], *, opset: int, target: str, allow: Collection[str]
) -> tuple[Rule, ...]:
    """Keep the rules for an opset of the default domain, a target and the allowed classes."""
    raise NotImplementedError
