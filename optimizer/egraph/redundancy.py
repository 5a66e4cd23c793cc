"""Whether a rule says nothing new: others lead from its left side to its right side.

A rule is drawn at some sizes, several times; both sides go into an e-graph, in which the others are
applied for some rounds. That the sides become one class at all of these draws says that the rule
holds by the others; where they don't, nothing is known, since the rounds are few. A search finds as
much by the others, but for what has equal operands, where a left side has fewer nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...rules import Rule
from .equalities import BUDGET, DRAWS, both_sides, derivation, large_sides
from .saturation.saturate import Budget


@dataclass(frozen=True)
class Redundancy:
    """Whether others derive a rule: `derived` by these, `new` to them, or no `instance` drawn."""

    rule: str
    status: str
    derived_by: tuple[str, ...] = ()

    def by(self, form: str = "{}") -> str:
        """Say by which it is derived, for people; `form` is that of a name."""
        names = ", ".join(map(form.format, self.derived_by))
        return names or "sums and products in another order"


def redundancy(
    rule: Rule, others: Sequence[Rule], *, draws: int = DRAWS, budget: Budget = BUDGET
) -> Redundancy:
    """Try to derive a rule by others, at so many draws of its sizes."""
    drawn = large_sides(rule, draws)
    other_rules = [other for other in others if other.name != rule.name]
    needed: dict[str, None] = {}
    for sides in drawn:
        by = derivation(*both_sides(sides), other_rules, budget)
        if by is None:
            return Redundancy(rule.name, "new")
        needed.update(dict.fromkeys(by))
    return Redundancy(rule.name, "derived" if drawn else "no instance", tuple(needed))
