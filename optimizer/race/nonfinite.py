"""Rules that lose NaN or infinities of a model, left out of its plans.

A rule that promises its equality for finite numbers only (`finite_math`) may keep NaN and
infinities in most models all the same: that an infinite weight would spoil a folded scale is no
matter where the weights are constants. So the plan of all rules is tried, on inputs with NaN and
infinities; where they come out otherwise than the original gives them, its rules are tried one by
one.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ..match.rewrite import Step
from ..planner import Planner
from ..setting import FINITE_MATH
from .candidate_files import CandidateFiles
from .contest import Contest, Plan

REASON = (
    "NaN or infinities among the inputs come out otherwise than the original gives them, "
    f"and {FINITE_MATH} is not allowed"
)


def losing_rules(
    planner: Planner,
    contest: Contest,
    candidate_files: CandidateFiles,
    plan: Plan,
    suspects: Collection[str],
) -> set[str]:
    """Name those rules of a plan that lose NaN or infinities on drawn inputs, among some of them.

    All of them where none does alone, and together they do.
    """
    if not suspects or contest.keeps_nonfinite(candidate_files.placed(plan)):
        return set()
    bare = planner.simplify("no rules", rules=())
    forced = (
        planner.apply_everywhere(rule.name, bare, [rule])
        for rule in planner.always
        if rule.name in suspects
    )
    losing = {
        plan.name for plan in forced if not contest.keeps_nonfinite(candidate_files.placed(plan))
    }
    return losing or set(suspects)


def refused_steps(plan: Plan, rules: Collection[str]) -> list[Step]:
    """List the steps of a plan that some rules made, as refused ones."""
    return [
        replace(step, accepted=False, reason=REASON) for step in plan.steps if step.rule in rules
    ]
