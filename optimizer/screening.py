"""Rules tried one by one, end to end: what a rule does to the whole model shows in no kernel.

A rewrite that saves a kernel can cost more than it saves, since it hides a pattern from the
runtime's own optimizer; one that saves none can gain, since it shows or hides such a pattern.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..profiles.race import Lap, verdict
from .contest import Contest, Plan
from .planner import Planner
from .realize import Workshop

# More rules than this share too little time to be told apart; the first ones are tried.
MOST_RULES = 16
BASE = "no rules"


@dataclass(frozen=True)
class Screening:
    """Laps of the plans with one rule each, their ratios against the plan with none."""

    laps: dict[str, Lap]

    def harmful(self) -> set[str]:
        """Name the rules that made the model slower."""
        return {name for name, lap in self.laps.items() if verdict(lap) == "slower"}

    def helpful(self) -> set[str]:
        """Name the rules that made the model faster."""
        return {name for name, lap in self.laps.items() if verdict(lap) == "faster"}


def screen(planner: Planner, contest: Contest, workshop: Workshop, budget_s: float) -> Screening:
    """Race a plan for each rule that has a place in the model, applied wherever it matches.

    The reference is the plan with no rule, folded and shared alike.
    """
    base = planner.simplify(BASE, rules=())
    tried = planner.matching(base)[:MOST_RULES]
    if not tried:
        return Screening({})
    field = [base, *(planner.force(rule.name, base, [rule]) for rule in tried)]
    for plan in field:
        plan.source = workshop.place(plan.name, workshop.skeleton(plan.graph))
    laps = contest.time(field, budget_s, phase="screening", reference=BASE)
    return Screening({plan.name: laps[plan.name] for plan in field[1:]})


def select(planner: Planner, contest: Contest, screening: Screening) -> Plan:
    """Derive the plan that leaves out what did harm and forces what helped."""
    harmful, helpful = screening.harmful(), screening.helpful()
    kept = [r for r in (*planner.always, *planner.explorative) if r.name not in harmful]
    forced = [rule for rule in planner.explorative if rule.name in helpful]
    plan = planner.simplify("selected", kept)
    if forced:
        plan = planner.force("selected", plan, [*forced, *(r for r in kept if r.tag == "always")])
    return planner.explore("selected", plan, contest.sizes, kept)
