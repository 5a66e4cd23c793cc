"""Rules that lose NaN or infinities of a model, left out of its plans.

A rule that promises its equality for finite numbers only (`finite_math`) may keep NaN and
infinities in most models all the same: that an infinite weight would spoil a folded scale is no
matter where the weights are constants. So the plan of all rules is tried, on inputs with NaN and
infinities; where they come out otherwise than the original gives them, its rules are tried one by
one.
"""

from __future__ import annotations

from dataclasses import replace

from ..match.rewrite import Step
from ..planner import Planner
from ..setting import FINITE_MATH
from .contest import Contest, Plan
from .realize import Workshop

REASON = (
    "NaN or infinities among the inputs come out otherwise than the original gives them, "
    f"and {FINITE_MATH} is not allowed"
)


def leave_out_losing(
    planner: Planner, contest: Contest, workshop: Workshop, plan: Plan
) -> list[Step]:
    """Forbid the planner those rules of a plan that lose NaN or infinities on drawn inputs.

    Returns the steps of the plan that were made by these, as refused ones; none where the plan
    loses nothing.
    """
    suspects = {rule.name: rule for rule in planner.always if rule.finite_math}
    used = dict.fromkeys(step.rule for step in plan.steps if step.rule in suspects)
    if not used or contest.keeps_nonfinite(_placed(workshop, plan)):
        return []
    bare = planner.simplify("no rules", rules=())
    losing = {
        name
        for name in used
        if not contest.keeps_nonfinite(
            _placed(workshop, planner.force(name, bare, [suspects[name]]))
        )
    }
    # What no rule does alone, some do together.
    planner.forbid(losing or set(used))
    return [
        replace(step, accepted=False, reason=REASON)
        for step in plan.steps
        if step.rule in (losing or used)
    ]


def _placed(workshop: Workshop, plan: Plan) -> Plan:
    plan.source = workshop.place_plan(plan.name, plan.graph)
    return plan
