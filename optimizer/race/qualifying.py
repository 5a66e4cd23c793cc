"""Many plans, few finalists: a short race of all, so that the long one tells the best apart.

What comes in far behind the others needs no more laps to be left out, and neither ways to open it
nor kernels for it are worth a try. Models so large that few sessions may be alive at once race in
small groups anyway, and to load them again takes longer than it saves: of these, the plans race on
that are predicted to be the fastest, if that is known of all.
"""

from __future__ import annotations

from collections.abc import Sequence

from .contest import ORIGINAL, Contest, Plan

FINALISTS = 3


def qualify(contest: Contest, plans: Sequence[Plan], budget_s: float) -> list[Plan]:
    """The plans that race on, in their order: all where they are few, else the fastest ones.

    The others keep the lap with which they were left out.
    """
    sound = [plan for plan in plans if not plan.refusal]
    if len(sound) <= FINALISTS:
        return sound
    if not is_roomy(contest):
        expected = [plan.predicted_ns for plan in sound if plan.predicted_ns is not None]
        if len(expected) < len(sound):
            return sound
        worst = sorted(expected)[FINALISTS - 1]
        return [plan for plan in sound if (plan.predicted_ns or 0.0) <= worst]
    laps = contest.time_runnable(
        [contest.original, *sound],
        budget_s,
        phase="qualifying",
        reference=ORIGINAL,
        finalists=FINALISTS,
    )
    for plan in sound:
        plan.lap = laps.get(plan.name)
    chosen = [name for name in laps if name != ORIGINAL][:FINALISTS]
    return [plan for plan in sound if plan.name in chosen]


def is_roomy(contest: Contest) -> bool:
    """Whether the finalists' sessions may be alive at once: where not, each plan costs loading."""
    return contest.seats >= FINALISTS
