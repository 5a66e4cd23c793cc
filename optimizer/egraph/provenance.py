"""Where e-nodes come from: the matches that were applied."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...rules import Rule


@dataclass
class Application:
    """One match that was applied: the e-nodes it read and made, the classes it united.

    `refusal` says why it was not applied: its right side was ill-typed, or of another type.
    """

    rule: Rule
    nodes: tuple[int, ...]
    made: list[int] = field(default_factory=list)
    united: list[tuple[int, int]] = field(default_factory=list)
    refusal: str = ""
