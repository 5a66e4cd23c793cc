"""Large models, many plans, little time: the plans race that promise most, for rounds that tell.

A plan costs its session and a few laps before a race learns anything. Shared among too many, the
time gives each of them a lap or two: who is first then was lucky, and is found out when raced
again, with no time left for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .contest import Contest, Plan

ExpectedCost = Callable[[Plan], tuple[bool, float]]
"""Plan -> whether its cost is a guess, and ns, on a scale that need only order plans."""

# What the refusal of a plan that was left out begins with.
NO_TIME = "no time to race it"
# Rounds from which on a race of two tells a gain of several percent, and those that tell two such
# plans apart: where there aren't so many for each, the two that promise most share the time.
LEAST_ROUNDS, TELLING_ROUNDS, FEWEST = 5, 12, 2


def shortlist(
    contest: Contest, plans: Sequence[Plan], budget_s: float, expected_cost: ExpectedCost
) -> list[Plan]:
    """The plans for which there is time, in their order; the others are refused, and say so.

    What is known comes before guesses. Two stay as long as a few rounds can be had of each, one
    however little time there is.
    """
    count = contest.affordable(budget_s, TELLING_ROUNDS)
    if count < FEWEST:
        count = max(1, min(FEWEST, contest.affordable(budget_s, LEAST_ROUNDS)))
    if count >= len(plans):
        return list(plans)
    # Not `plan in chosen`: plans of equal contents are not the same plan.
    order = sorted(range(len(plans)), key=lambda i: expected_cost(plans[i]))
    for plan in (plans[i] for i in order[count:]):
        better = plans[order[0]].name
        plan.refusal = f"{NO_TIME}, and {better} promises more: give a larger budget"
        plan.lacks_s = contest.rounds_s(TELLING_ROUNDS)
    return [plans[i] for i in sorted(order[:count])]
