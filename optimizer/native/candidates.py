"""Plans with kernels: of the plan that changed least, and of one that lays values out in blocks.

Other rewrites take operators apart, or name the runtime's own, for the sake of the kernels that the
runtime has; so kernels go into the plan with the fewest of them, and what proved good there into
one other plan as well, where rules and kernels together promise more. Convolutions have kernels in
blocks alone: for these the layout is part of the plan, whether it is the runtime's own or not. That
plan has all other kernels too; where convolutions gain more than these, no other plan needs any.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from ...profiles.kernels.costs import Cost
from ..phases import Phases
from ..race.contest import Contest, Plan
from ..race.realize import Workshop
from .kernel_trial import KERNEL
from .kind_race import Alone
from .plan_kernels import Fusing

# Of the time, what racing kernels alone may take, and of what is left racing them in the model.
ALONE_SHARE, SCREENING_SHARE = 0.3, 0.5
# Another plan has to promise to take less than this of the time, for kernels to be carried to it.
LEAST_PROMISE = 0.98
# How often a plan that rounds too much is made anew with smaller tiles.
MOST_MILDER = 2


def fused_plans(
    contest: Contest,
    workshop: Workshop,
    phases: Phases,
    plans: Sequence[Plan],
    laid: Sequence[Plan],
    budget_s: float,
    costs: dict[str, Cost],
) -> list[Plan]:
    """Return the plans with kernels that may race, verified, of `plans` and of one in `laid`.

    `laid` are plans with blocked values, whether they take part themselves or not. What kernels
    were measured to cost is added to `costs`, by the names of their operators. Raises
    CompilerError where there is no C compiler.
    """
    end = time.monotonic() + budget_s
    alone = Alone(contest, workshop, phases)
    found: list[Plan] = []
    looked: list[Fusing] = []

    def left_s() -> float:
        return max(0.0, end - time.monotonic())

    def fuse(base: Plan, share: float) -> Fusing:
        if not base.source:
            base.source = workshop.place_plan(base.name, base.graph)
        fusing = Fusing(base, contest, workshop, phases, alone)
        fusing.look(left_s() * share * ALONE_SHARE)
        looked.append(fusing)
        return fusing

    def verified(fusing: Fusing, made: Sequence[Plan]) -> None:
        for plan in made:
            found.extend(_verified(fusing, plan))

    sound = [plan for plan in plans if not plan.refusal and plan.execution.is_default]
    in_laid = {plan.name for plan in laid}
    outside = [plan for plan in sound if plan.name not in in_laid]
    in_blocks = _best(laid)
    is_met = False
    if in_blocks is not None:
        fusing = fuse(in_blocks, 0.5)
        if fusing.gains:
            verified(fusing, fusing.plans(left_s() * 0.5 * SCREENING_SHARE))
            is_met = fusing.convolves and any(not plan.refusal for plan in found)
    if not is_met:
        fusing = fuse(min(outside, key=_changes, default=contest.original), 1.0)
        made = fusing.plans(left_s() * SCREENING_SHARE)
        further = fusing.carried(outside if found else sound, LEAST_PROMISE)
        made += [] if further is None else [further]
        verified(fusing, made)
    for fusing in looked:
        for kind in fusing.kinds:
            if kind.alone is not None:
                lap = kind.alone[KERNEL]
                costs[kind.name] = Cost(lap.median_ns, lap.spread_ns, "measured")
    return found


def _best(laid: Sequence[Plan]) -> Plan | None:
    """Choose among plans with blocked values.

    The one with the fewest convolutions outside of blocks, where no kernel computes them, and of
    several such the one that did best so far, if that is known.
    """
    unknown = float("inf")

    def order(plan: Plan) -> tuple[float, ...]:
        outside = sum(node.operator == "Conv" for node in plan.graph.nodes.values())
        lap = unknown if plan.lap is None else plan.lap.ratio
        return outside, lap, plan.predicted_ns or unknown

    return min((plan for plan in laid if not plan.refusal), key=order, default=None)


def _verified(fusing: Fusing, plan: Plan) -> list[Plan]:
    """Verify a plan; where convolutions round too much, with one that does less beside it."""
    tried = [plan]
    while True:
        plan = tried[-1]
        with fusing.phases("verifying", plan.name):
            plan.source = fusing.workshop.place_plan(plan.name, plan.graph)
            fusing.contest.verify(plan)
        if not plan.refusal or len(tried) > MOST_MILDER:
            return tried
        milder = fusing.milder(plan)
        if milder is None:
            return tried
        tried.append(milder)


def _changes(plan: Plan) -> int:
    return sum(step.accepted for step in plan.steps)
