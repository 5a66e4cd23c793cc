"""What rules do to a model without anything being measured: which fire where, which nearly do."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..match.rewrite import Step
from ..report.notebook import Text
from ..report.schema import steps_json
from .reason_text import explanation_text
from .reasons import Reason


@dataclass
class Explanation:
    """What the rules do to a model without anything being measured.

    `fired` lists the rewrites that are always made, `weighed` the places where measured costs
    would decide, `near_misses` those where all conditions of a rule but one hold, `idle` the rules
    that have no such place, `foreign` those of them about operators that do not occur, `barred`
    those that may not be applied to the model, and why. `reason` says of a rule that was asked for
    why it has no place. `opset_in_file` is the operator set of the model, `opset` the one in which
    the rules read it.
    """

    model: str
    fired: list[Step]
    weighed: list[Step]
    near_misses: list[Reason]
    idle: list[str]
    foreign: list[str] = field(default_factory=list)
    barred: dict[str, str] = field(default_factory=dict)
    reason: str = ""
    opset_in_file: int = 0
    opset: int = 0

    def text(self) -> str:
        """Lay the explanation out for a terminal."""
        return explanation_text(self)

    def _repr_html_(self) -> str:
        return Text(self.text())._repr_html_()

    def to_json(self) -> dict[str, object]:
        """Give the explanation as plain values."""
        return {
            "model": self.model,
            "fired": steps_json(self.fired),
            "weighed": steps_json(self.weighed),
            "near_misses": [miss.near_miss_json() for miss in self.near_misses],
            "idle": self.idle,
            "foreign": self.foreign,
            "barred": self.barred,
            "reason": self.reason,
            "opset_in_file": self.opset_in_file,
            "opset": self.opset,
        }
