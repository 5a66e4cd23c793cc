"""The final: heats find the plan that is best, and against the original alone it must be sure.

That a plan is the best of many flatters its time, so what counts is raced again, in sessions and
laps of its own, beside the few that may be as fast: however many plans there were, only these have
that chance to win by noise, and their intervals are widened for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...profiles.races.race import Lap, verdict
from .contest import ORIGINAL, Contest, Plan
from .shortlist import ExpectedCost, shortlist

# Of a budget, what is kept for the final.
FINAL_SHARE = 0.3
# Of the time for it, what the winner's race against the original has at least and at most, and the
# rounds for which it takes more than the least: a gain of three percent shows in so many.
LEAST_CONFIRMING, MOST_CONFIRMING, ENOUGH_ROUNDS = 0.3, 0.5, 50
# How many plans at most race again beside the one that the heats left, and with how many rounds.
# A gain so small needs all rounds to be shown at all, whichever plan it is of.
MOST_CONTENDERS, CONTENDING_ROUNDS, SMALL_GAIN = 2, 20, 0.95
# Where there is time for so many rounds, this share of it is kept to recall plans that dropped out.
PLENTY_ROUNDS, RECALLING_SHARE = 150, 0.35
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
    contest: Contest,
    plans: Sequence[Plan],
    budget_s: float,
    expected_cost: ExpectedCost | None = None,
) -> Plan:
    """Time the plans that are not refused; return the winner, the original where none is sure.

    Whoever may be as fast as the one that the heats leave races again beside it, as far as there is
    time: heats drop plans after a few rounds, which may have been unlike the others. One that needs
    options to be fast must not be slower than the original where it is opened without them, and be
    worth them. `expected_cost` tells whom to leave out where the time is too short for all.
    """
    end = contest.clock() + budget_s
    original, sound = contest.original, [plan for plan in plans if not plan.refusal]
    if not sound:
        original.lap = contest.time([original], min(budget_s, ALONE_S), phase="racing")[ORIGINAL]
        return original
    reserved = _confirming_s(contest, budget_s)
    if expected_cost is not None:
        sound = shortlist(contest, sound, budget_s - reserved, expected_cost)
    share = budget_s - reserved if len(sound) > 1 else budget_s * LOOK_SHARE
    if len(sound) == 1 and contest.rounds_s(CLEAR_ROUNDS) > share:
        # What a look takes would be missing where it counts.
        best, placing, reserved = sound[0], sound, budget_s
    else:
        laps = contest.time([original, *sound], share, phase="racing", finalists=1)
        for plan in (original, *sound):
            plan.lap = laps[plan.name]
        order = list(laps)
        placing = sorted(sound, key=lambda plan: order.index(plan.name))
        placing = _that_open_in_time(contest, placing, budget_s * OPENING_SHARE)
        if not placing:
            return original
        best = placing[0]
    seconds = max(reserved, end - contest.clock())
    likely = _likely(best, placing)
    count = contest.affordable(seconds, CONTENDING_ROUNDS) - 1
    again = likely[: max(0, min(MOST_CONTENDERS, count))]
    behind = []
    for plan in placing:
        if plan in likely and plan not in again:
            plan.lacks_s = contest.rounds_s(CONTENDING_ROUNDS)
        elif plan is not best and plan not in again:
            plan.behind = best.name
            behind.append(plan)
    recalling_s = 0.0
    if behind and contest.affordable(seconds, PLENTY_ROUNDS) > len(again):
        recalling_s = RECALLING_SHARE * seconds
    winner = _confirmed(contest, [best, *again], placing, seconds - recalling_s, best)
    return _with_recalled(contest, winner, behind, placing, end)


def _with_recalled(
    contest: Contest, winner: Plan, behind: Sequence[Plan], placing: Sequence[Plan], end: float
) -> Plan:
    """Race the winner beside plans that dropped out when they were faster than it is now.

    One of both times was disturbed. A winner that was sure once stays where this tells nothing.
    """
    lap_before = winner.lap
    reached = 1.0 if lap_before is None else lap_before.ratio
    recalled = [
        (plan.lap.ratio, place)
        for place, plan in enumerate(behind)
        if plan.lap is not None and plan.lap.ratio < min(reached, SMALL_GAIN)
        if plan.naive is None
    ]
    remaining_s = end - contest.clock()
    if not recalled or contest.affordable(remaining_s, CONTENDING_ROUNDS) < 2:
        return winner
    again = [behind[place] for _, place in sorted(recalled)[:MOST_CONTENDERS]]
    if winner is contest.original:
        return _confirmed(contest, again, placing, remaining_s, winner)
    best = _confirmed(contest, [winner, *again], placing, remaining_s, winner)
    if best is contest.original:
        winner.lap, winner.refusal = lap_before, ""
        return winner
    return best


def _likely(best: Plan, placing: Sequence[Plan]) -> list[Plan]:
    """List the plans that may be as fast as the one that the heats left, the most likely first.

    Those are the ones whose lap shows a smaller ratio, or whose interval reaches below its own.
    """
    if best.lap is None or best.lap.ratio > SMALL_GAIN:
        return []
    beside = {best.name, *(plan.name for plan in _rivals(best, placing))}
    by_time = [
        (plan.lap.ratio, place)
        for place, plan in enumerate(placing)
        if plan.lap is not None and plan.lap.ratio_low < best.lap.ratio_high
        if plan.name not in beside and (plan.naive is None or plan.naive.name in beside)
    ]
    return [placing[place] for _, place in sorted(by_time)]


def _confirmed(
    contest: Contest,
    contenders: Sequence[Plan],
    placing: Sequence[Plan],
    budget_s: float,
    opened: Plan,
) -> Plan:
    """Race plans once more; return the fastest of the contenders that is surely faster.

    Where options are in vain, it may be one of the rivals that need none. That one of them,
    `opened`, opens in time is known.
    """
    original, best = contest.original, contenders[0]
    rivals = [plan for plan in _rivals(best, placing) if plan not in contenders]
    clear = best.lap is not None and best.lap.ratio < CLEAR_RATIO
    opening_s = 0.0 if all(plan is opened for plan in contenders) else budget_s * OPENING_SHARE
    raced = [original, *contenders, *rivals]
    early = {plan.name: plan.lap for plan in raced}
    again = contest.time(
        raced,
        budget_s - opening_s,
        phase="confirming",
        least_rounds=CLEAR_ROUNDS if clear else 1,
        seed=1,
    )
    for plan in raced:
        plan.lap, plan.behind = again[plan.name], ""

    def ratio(plan: Plan) -> float:
        return again[plan.name].ratio

    plain = [rival for rival in rivals if rival.execution.is_default]
    for plan in (*sorted(contenders, key=ratio), *sorted(plain, key=ratio)):
        lap, early_lap = again[plan.name], early[plan.name]
        plan.refusal = options_in_vain(plan, raced)
        if plan.refusal:
            continue
        if verdict(lap, among=len(contenders)) == "faster":
            if plan in contenders and plan is not opened:
                plan.refusal = _refusal_to_open(contest, plan, opening_s)
            if not plan.refusal:
                return plan
        elif early_lap is not None and verdict(early_lap) == "faster":
            plan.refusal = "won once, but not when raced again"
    return original


def _that_open_in_time(contest: Contest, placing: Sequence[Plan], budget_s: float) -> list[Plan]:
    """Leave out plans before the first that opens in time; all if none of these is faster."""
    for place, plan in enumerate(placing):
        if plan.lap is None or plan.lap.ratio >= 1.0:
            break
        plan.refusal = _refusal_to_open(contest, plan, budget_s)
        if not plan.refusal:
            return list(placing[place:])
    return []


def _refusal_to_open(contest: Contest, plan: Plan, budget_s: float) -> str:
    """Say by how much a plan gives its first result later than the original; nothing if not."""
    opening = contest.opening(plan, budget_s)
    if opening is None or plan.lap is None or not _is_felt(opening, plan.lap):
        return ""
    return f"takes {opening.ratio:.2f} times as long to open"


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
    by_name = {plan.name: plan for plan in (best.naive, plain) if plan.name != ORIGINAL}
    return list(by_name.values())


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
