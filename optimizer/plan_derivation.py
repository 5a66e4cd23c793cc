"""Passes that derive plans: by rules, by search, by layouts, and by rewrites that no rule can say.

Each is listed in `passes.PASSES`, takes the state and its seconds, and yields the plans that it
derives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from .layouts.blocking import BLOCKED
from .layouts.plans import LEAST_MOVES, moves, reorders_less
from .layouts.runtime import NCHWC
from .race.contest import Plan
from .race.nonfinite import losing_rules, refused_steps
from .race.qualifying import is_roomy
from .race.screening import screen, select
from .state import State

# How many plans of the e-graph may race.
BEST_PLANS = 4


def simplify(state: State, seconds: float) -> Iterator[Plan]:
    """Derive the first plan: what is always an improvement."""
    yield state.planner.simplify("simplified")


def leave_out_losing(state: State, seconds: float) -> Iterator[Plan]:
    """Derive the first plan again without the rules that lose NaN or infinities of this model.

    Rules that there was no time to try are left out as well.
    """
    first = state.first
    losing = state.planner.assuming_finite(first)
    try:
        losing = losing_rules(state.planner, state.contest, state.candidate_files, first, losing)
    finally:
        if losing:
            state.planner.forbid(losing)
            state.losing = refused_steps(first, losing)
            state.plans.remove(first)
    if losing:
        yield state.planner.simplify(first.name)


def search(state: State, seconds: float) -> Iterator[Plan]:
    """Derive plans by the costs of kernels: by single rewrites, and by an e-graph."""
    state.prices.remaining_s = seconds
    start, planner = state.first, state.planner
    state.explored = planner.apply_gains("explored", start, state.sizes)
    yield state.explored
    if state.setting.search == "egraph":
        # From the model as it is: there, even rules that are always applied are a choice.
        bare = planner.simplify("no rules", rules=())
        count = BEST_PLANS if is_roomy(state.contest) else 1
        yield from planner.search_egraph(
            bare,
            state.sizes,
            count,
            state.search_file,
            lays_out=may_lay_out(state),
        )


def screen_rules(state: State, seconds: float) -> Iterator[Plan]:
    """Race plans that apply one rule each; the next pass chooses rules by the outcome."""
    state.screening = screen(state.planner, state.contest, state.candidate_files, seconds)
    yield from ()


def choose_rules(state: State, seconds: float) -> Iterator[Plan]:
    """Derive a plan with the rules that helped when tried alone, without those that did harm."""
    state.prices.remaining_s = seconds
    state.start = select(state.planner, state.contest, state.screening)
    yield state.start


def lay_out(state: State, seconds: float) -> Iterator[Plan]:
    """Choose the layout of each value, where the runtime's own choice leaves blocks often.

    Once for the plan that screening led to, and once together with rules, in the e-graph; each may
    measure for half of the seconds. Generated convolutions are put into plans in blocks: these are
    derived even where the runtime's own choice is as good, and from the e-graph where rules made
    convolutions that such kernels may compute.

    Rules that are always applied stay, whatever they did alone: that they gained nothing is told of
    operators that the runtime fuses itself, and to those that a plan has in blocks it does nothing.
    """
    planner, sizes = state.planner, state.sizes
    try:
        run = state.contest.operators_run(state.original)
    except Exception:  # what doesn't run under the runtime's profiler stays as it is
        run = Counter()
    often = moves(run) > LEAST_MOVES
    if not often:
        if not planner.makes_convolutions():
            planner.last_search = None
        if not state.setting.fuses:
            return
    state.prices.remaining_s = seconds / 2
    screened = state.screening.without(planner.always)
    start = state.start or state.first
    if screened.harmful() != state.screening.harmful():
        start = select(planner, state.contest, screened)
    laid_out, *state.laid_out = planner.choose_layouts("laid out", start, sizes)
    state.prices.remaining_s += seconds / 2
    joint, further = planner.choose_rules_and_layouts(
        "laid out with rules", screened.harmful(), state.search_file
    )
    if further is not None:
        state.laid_out.append(further)
    for plan in (laid_out, joint):
        if plan is None:
            continue
        if any(node.domain == NCHWC for node in plan.graph.nodes.values()):
            state.laid_out.append(plan)
        if often and reorders_less(plan.graph, run):
            yield plan


def derive_beyond_rules(state: State, seconds: float) -> Iterator[Plan]:
    """Derive plans by rewrites that no rule can say, as the model decides how often they repeat."""
    planner, first = state.planner, state.first
    yield planner.split_masked_attention("by blocks", (*state.plans[::-1], state.original))
    yield planner.merge_lookups("one table", state.explored or first)
    yield planner.merge_products("one product a matrix", first, state.sizes)


def may_lay_out(state: State) -> bool:
    """Whether the model has operators that the runtime can do on blocked values."""
    if not state.setting.for_runtime or not may_round(state):
        return False
    return any(node.op_type in BLOCKED for node in state.original.graph.nodes.values())


def may_round(state: State) -> bool:
    """Whether plans may round otherwise than the original."""
    return "rounding" in state.setting.allow


def must_keep_nonfinite(state: State) -> bool:
    """Whether NaN and infinities must come out as the original gives them."""
    return not state.setting.finite_math


def was_screened(state: State) -> bool:
    """Whether any rule was tried alone."""
    return bool(state.screening.laps)
