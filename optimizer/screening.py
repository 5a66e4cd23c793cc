"""Rules tried one by one, end to end, where all together gained nothing.

A rewrite that saves a kernel can still cost more than it saves: it may hide a pattern from the
runtime's own optimizer. That shows in no single kernel, only in the whole model.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..profiles.race import Lap, verdict
from ..rules import Rule
from .contest import Contest, Plan
from .planner import Planner
from .realize import Workshop

# More rules than this share too little time to be told apart.
MOST_RULES = 12
BASE = "no rules"


def screen(
    planner: Planner, contest: Contest, workshop: Workshop, plans: Sequence[Plan], budget_s: float
) -> dict[str, Lap]:
    """Race a plan for each rule that `plans` applied, that rule alone, against one with none.

    Returns each rule's lap, its ratio against the plan with no rule: above 1 the rule does harm.
    """
    applied = applied_rules(planner, plans)
    if not applied or len(applied) > MOST_RULES:
        return {}
    field = [planner.simplify(BASE, rules=())]
    for rule in applied:
        alone = planner.simplify(rule.name, rules=(rule,))
        if rule.tag == "explore":
            alone = planner.explore(rule.name, alone, contest.sizes, rules=(rule,))
        field.append(alone)
    for plan in field:
        plan.source = workshop.place(plan.name, workshop.skeleton(plan.graph))
    laps = contest.time(field, budget_s, phase="screening", reference=BASE)
    return {rule.name: laps[rule.name] for rule in applied}


def applied_rules(planner: Planner, plans: Sequence[Plan]) -> list[Rule]:
    """List the rules that some plan applied, in the order of the rule base."""
    names = {step.rule for plan in plans for step in plan.steps if step.accepted}
    return [rule for rule in (*planner.always, *planner.explorative) if rule.name in names]


def harmless(planner: Planner, laps: dict[str, Lap]) -> list[Rule]:
    """List the rules that did not make the model slower on their own."""
    harmful = {name for name, lap in laps.items() if verdict(lap) == "slower"}
    return [rule for rule in (*planner.always, *planner.explorative) if rule.name not in harmful]
