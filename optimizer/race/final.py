"""The final: heats find the plan that is best, and against the original alone it must be sure.

That a plan is the best of many flatters its time, so what counts is raced again, in sessions and
laps of its own: however many plans there were, only one of them has that chance to win by noise.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...profiles.races.race import Lap, verdict
from .contest import ORIGINAL, Contest, Plan
from .shortlist import Promise, shortlist

# Of a budget, what is kept for the final.
FINAL_SHARE = 0.3
# Of the time for it, what the winner's race against the original has at least and at most, and the
# rounds for which it takes more than the least: a gain of three percent shows in so many.
LEAST_CONFIRMING, MOST_CONFIRMING, ENOUGH_ROUNDS = 0.3, 0.5, 50
# Of the time, what a plan without a rival may take to show that it is worth that race.
LOOK_SHARE = 0.25
# The original alone is timed for the record.
ALONE_S = 2.0
# From here on a gain is no noise, and a race that has no time left is carried on to show it.
CLEAR_RATIO, CLEAR_ROUNDS = 0.8, 4
# A model that has to be opened in a certain way must be worth it.
LEAST_GAIN_BY_OPTIONS = 0.02
# Nobody should wait longer for a session than for the original's: by so much more it is no noise,
# and by so many nanoseconds it is felt, where a small model loads a library of kernels; unless the
# first run makes up for it, so that nobody waits longer for a result. Of the time, what finding out
# may take for each plan that is about to win.
SLOWER_TO_OPEN, FELT_NS, OPENING_SHARE = 0.1, 1e6, 0.1


def run_final(
    contest: Contest, plans: Sequence[Plan], budget_s: float, promise: Promise | None = None
) -> Plan:
    """Time the plans that are not refused; return the winner, the original where none is sure.

    One that needs options to be fast must not be slower than the original where it is opened
    without them, and be worth them. `promise` tells whom to leave out where the time is too short
    for all.
    """
    end = contest.clock() + budget_s
    original, sound = contest.original, [plan for plan in plans if not plan.refusal]
    if not sound:
        original.lap = contest.time([original], min(budget_s, ALONE_S), phase="racing")[ORIGINAL]
        return original
    reserved = _confirming_s(contest, budget_s)
    if promise is not None:
        sound = shortlist(contest, sound, budget_s - reserved, promise)
    share = budget_s - reserved if len(sound) > 1 else budget_s * LOOK_SHARE
    if len(sound) == 1 and contest.rounds_s(CLEAR_ROUNDS) > share:
        # What a look takes would be missing where it counts.
        best, placing, laps, reserved = sound[0], sound, {}, budget_s
    else:
        laps = contest.time([original, *sound], share, phase="racing", finalists=1)
        for plan in (original, *sound):
            plan.lap = laps[plan.name]
        order = list(laps)
        placing = sorted(sound, key=lambda plan: order.index(plan.name))
        fastest = _best(contest, placing, budget_s * OPENING_SHARE)
        if fastest is None:
            return original
        best = fastest
    rivals = _rivals(best, placing)
    clear = best.lap is not None and best.lap.ratio < CLEAR_RATIO
    again = contest.time(
        [original, best, *rivals],
        max(reserved, end - contest.clock()),
        phase="confirming",
        least_rounds=CLEAR_ROUNDS if clear else 1,
        seed=1,
    )
    raced = [original, best, *rivals]
    for plan in raced:
        plan.lap = again[plan.name]
    plain = [rival for rival in rivals if rival.execution.is_default]
    for plan in (best, *sorted(plain, key=lambda rival: again[rival.name].ratio)):
        plan.refusal = options_in_vain(plan, raced)
        if plan.refusal:
            continue
        if verdict(again[plan.name]) == "faster":
            return plan
        if plan.name in laps and verdict(laps[plan.name]) == "faster":
            plan.refusal = "won once, but not when raced again"
        break
    return original


def _best(contest: Contest, placing: Sequence[Plan], budget_s: float) -> Plan | None:
    """Choose the fastest plan that gives no result later than the original, if one is faster."""
    for plan in placing:
        if plan.lap is None or plan.lap.ratio >= 1.0:
            break
        opening = contest.opening(plan, budget_s)
        if opening is None or not _is_felt(opening, plan.lap):
            return plan
        plan.refusal = f"takes {opening.ratio:.2f} times as long to open"
    return None


def _is_felt(opening: Lap, run: Lap) -> bool:
    """Tell whether opening takes so much longer than the original's that somebody waits for it."""
    lost_ns = opening.median_ns * (1 - 1 / opening.ratio)
    gained_ns = run.median_ns * (1 / run.ratio - 1)
    is_slower = verdict(opening, SLOWER_TO_OPEN) == "slower"
    return is_slower and lost_ns > FELT_NS and lost_ns > gained_ns


def _confirming_s(contest: Contest, budget_s: float) -> float:
    """Give the seconds that are kept for the race of the winner."""
    enough = contest.rounds_s(ENOUGH_ROUNDS)
    return max(LEAST_CONFIRMING * budget_s, min(MOST_CONFIRMING * budget_s, enough))


def _rivals(best: Plan, placing: Sequence[Plan]) -> list[Plan]:
    """List what a plan that needs options is measured by, beside the original: nothing for others.

    That is the same model without them, and the best of those that need none.
    """
    if best.naive is None:
        return []
    faster = (plan for plan in placing if plan.lap is not None and plan.lap.ratio < 1.0)
    plain = next((plan for plan in faster if plan.execution.is_default), best.naive)
    found = {plan.name: plan for plan in (best.naive, plain) if plan.name != ORIGINAL}
    return list(found.values())


def options_in_vain(plan: Plan, raced: Sequence[Plan]) -> str:
    """Say why the options that a raced plan is opened with don't count; nothing if they do."""
    if plan.naive is None or plan.naive.lap is None or plan.lap is None:
        return ""
    if verdict(plan.naive.lap) == "slower":
        return "slower than the original where it is opened without its options"
    plain = [other.lap.ratio for other in raced if other.lap and other.execution.is_default]
    if plan.lap.ratio > min(plain) * (1 - LEAST_GAIN_BY_OPTIONS):
        return "hardly faster than what needs no options"
    return ""
