"""Where e-nodes come from: the matches that were applied, and what was reordered."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Application:
    """What was done by one rule at one place: the e-nodes read and made, the classes united.

    `refusal` says why nothing was done: the right side was ill-typed, or of another type. `always`
    says that the rule never makes anything worse. `correction` says where a partial equivalence
    differs and what makes it whole: the last `corrected` of the e-nodes made.
    """

    rule: str
    nodes: tuple[int, ...]
    target_nodes: list[int] = field(default_factory=list)
    united: list[tuple[int, int]] = field(default_factory=list)
    refusal: str = ""
    equal: str = "exact"
    summary: str = ""
    always: bool = False
    correction: str = ""
    corrected: int = 0
