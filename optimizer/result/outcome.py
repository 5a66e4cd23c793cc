"""How an optimization ended, in words: of each plan, and of all."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...profiles.races.race import Lap
from ..match.rewrite import Step
from ..phases import Phases
from ..race.contest import ORIGINAL, Plan
from ..race.final import FINAL_SHARE
from ..race.shortlist import NO_TIME
from ..rewrites.unproved import NOT_PROVED, is_unproved
from ..setting import CLASSES, FINITE_MATH, MOST_S, Setting

if TYPE_CHECKING:
    from ..native.region_kinds import Kind
    from ..state import Cut

# Of fewer rounds than this an interval is so wide that it says nothing.
FEW_ROUNDS = 5
# A smaller gap is within what costs are uncertain by.
LEAST_GAP = 0.01
# Plans that are named where there was no time for them, and seconds that nobody would add.
SHOWN_PLANS, MOST_MORE_S = 3, 3600.0
# By so many seconds a budget may be passed without a word; the phases that took most are told.
UNTOLD_S, SHOWN_PHASES = 1.0, 5
# Kernels or nodes that a sentence names at most.
SHOWN_KERNELS = 3


@dataclass(frozen=True)
class Candidate:
    """One plan measured end to end; times in nanoseconds, ratios to the original's time."""

    candidate: str
    nodes: int
    verdict: str
    predicted_ns: float | None = None
    median_ns: float | None = None
    spread_ns: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    samples: int = 0


def candidate_of(plan: Plan, *, winner: bool, reference: Lap | None = None) -> Candidate:
    """Describe a plan and how it fared, in nanoseconds of the machine as `reference` found it.

    Who dropped out early was timed when the machine may have been quicker or slower: what compares
    is the ratio to the original in the same rounds, so its time is that of `reference`, the
    original's last lap, times the ratio.
    """
    lap = plan.lap
    if lap is not None and reference is not None and lap is not reference:
        ns = reference.median_ns * lap.ratio
        lap = replace(lap, median_ns=ns, spread_ns=lap.spread_ns * ns / lap.median_ns)
    return Candidate(
        candidate=plan.name,
        nodes=plan.nodes,
        verdict=_verdict(plan, winner=winner),
        predicted_ns=plan.predicted_ns,
        median_ns=lap.median_ns if lap else None,
        spread_ns=lap.spread_ns if lap else None,
        ratio=lap.ratio if lap else None,
        ratio_low=lap.ratio_low if lap else None,
        ratio_high=lap.ratio_high if lap else None,
        samples=lap.samples if lap else 0,
    )


def _verdict(plan: Plan, *, winner: bool) -> str:
    if winner:
        return "chosen"
    if plan.name == ORIGINAL:
        return "the reference"
    if plan.refusal:
        return f"refused: {plan.refusal}"
    if plan.same_kernels_as:
        return f"runs what {plan.same_kernels_as} runs"
    if plan.lap is None:
        return "beaten" if plan.is_verified else "not raced"
    if plan.lap.verdict == "noise" and plan.lap.samples < FEW_ROUNDS:
        return "too few rounds to tell"
    if plan.behind and plan.lap.verdict == "faster":
        return f"faster, but behind {plan.behind} when both raced"
    return {"faster": "faster, but not the fastest", "slower": "slower", "noise": "no faster"}[
        plan.lap.verdict
    ]


def verdict_of(
    winner: Plan, plans: Sequence[Plan], losing: Sequence[Step] = (), problem: str = ""
) -> str:
    """Say in one sentence how it ended, and in others what was left out and left open.

    `losing` are steps of rules that lose NaN or infinities of this model; `problem` says why
    nothing was raced.
    """
    if problem:
        return f"The original is kept: {problem}."
    return _ending(winner, plans) + _not_proved(winner) + _left_out(losing) + _gap(plans)


def _not_proved(winner: Plan) -> str:
    accepted = [step.rule for step in winner.steps if step.accepted]
    names = [name for name in dict.fromkeys(accepted) if is_unproved(name)]
    if not names:
        return ""
    return (
        f" {NOT_PROVED.capitalize()}, but compared with the original's outputs: {', '.join(names)}."
    )


def _left_out(losing: Sequence[Step]) -> str:
    names = list(dict.fromkeys(step.rule for step in losing))
    if not names:
        return ""
    return (
        f" {', '.join(names)} had a place, and would lose NaN or infinities: "
        f"--allow {','.join((*CLASSES, FINITE_MATH))} applies such rules."
    )


def kernel_times_text(winner: Plan, kinds: Iterable[Kind]) -> Iterator[str]:
    """Say in a sentence what kernels took that were raced alone, where no plan has any of them."""
    if winner.kernels:
        return
    slower = {kind.regions[0].kernel.label: kind.times for kind in kinds if kind.no_gain_alone}
    if not slower:
        return
    shown = ", ".join(f"{label} {times}" for label, times in list(slower.items())[:SHOWN_KERNELS])
    more = f" and {len(slower) - SHOWN_KERNELS} more" if len(slower) > SHOWN_KERNELS else ""
    yield f"The runtime's own operators stay where a kernel is no faster alone: {shown}{more}."


def time_over(cut: Sequence[Cut], phases: Phases, setting: Setting) -> Iterator[str]:
    """Say what was cut, and where the time went, in a sentence each, if it was over."""
    if cut:
        had_s: dict[str, float] = {}
        for cut_phase in cut:
            had_s[cut_phase.name] = had_s.get(cut_phase.name, 0.0) + cut_phase.seconds
        named = ", ".join(f"{name} (cut after {had:.0f} s)" for name, had in had_s.items())
        yield f"There was no time for all of this: {named}; a larger budget gives more."
    seconds = time.monotonic() - phases.start
    asked_s = MOST_S if setting.stretches else setting.budget
    if seconds > asked_s + UNTOLD_S:
        longest = sorted(phases.seconds.items(), key=lambda entry: -entry[1])[:SHOWN_PHASES]
        parts = ", ".join(f"{name} {taken:.0f} s" for name, taken in longest if taken >= 0.5)
        yield f"All took {seconds:.0f} s, the budget being {asked_s:.0f} s: {parts}."


def predicted_text(kernels: Sequence[str]) -> Iterator[str]:
    """Say in a sentence which kernels were predicted and not measured, by their labels."""
    if kernels:
        named = ", ".join(kernels[:SHOWN_KERNELS])
        rest = len(kernels) - SHOWN_KERNELS
        more = f" and {rest} more" if rest > 0 else ""
        yield f"Predicted and not measured: {named}{more}; plans were raced all the same."


def processors(only: str) -> Iterator[str]:
    """Say in a sentence which processors a result's kernels run on, where not on all."""
    if only:
        yield f"Its kernels run on processors with {only} alone, as this one; others refuse them."


def unlocked_text(names: Sequence[str], threads: int) -> Iterator[str]:
    """Say in a sentence that the original itself may be wrong on so many threads, and where."""
    if names and threads > 1:
        named = ", ".join(names[:SHOWN_KERNELS]) + (" and others" if names[SHOWN_KERNELS:] else "")
        yield (
            f"ONNX Runtime adds up {named} (ScatterND) in several threads without a lock, and may "
            "lose an update: plans were compared with what the original gives on one thread."
        )


def more_time(
    winner: Plan, plans: Sequence[Plan], round_s: float, budget_s: float
) -> Iterator[str]:
    """Say in a sentence which budget would decide about plans that there was no time for.

    `round_s` is what a round of a plan and the original takes, `budget_s` what there was. Plans
    count that were refused since there was no time, and those that look faster than what was chosen
    and had too few rounds to show it.
    """
    reached = 1.0 if winner.lap is None else winner.lap.ratio
    lacking = {plan.name: plan.lacks_s for plan in plans if plan.lacks_s}
    rounds = [
        (rounds_to_decide(plan.lap, reached) * round_s, plan.name)
        for plan in plans
        if plan is not winner and plan.lap is not None and _is_open(plan) and not plan.lacks_s
    ]
    if rounds:
        seconds, name = min(rounds)
        lacking[name] = seconds
    more_s = sum(lacking.values()) / FINAL_SHARE
    if not 0 < more_s < MOST_MORE_S:
        return
    names = list(lacking)
    shown = ", ".join(names[:SHOWN_PLANS])
    if len(names) > SHOWN_PLANS:
        shown += f" and {len(names) - SHOWN_PLANS} more"
    more = math.ceil(more_s)
    yield f"About {more} s more would decide about {shown}: --budget {math.ceil(budget_s) + more}."


def rounds_to_decide(lap: Lap, reached: float = 1.0) -> float:
    """Estimate how many rounds more it takes until the interval of a lap leaves out `reached`.

    It shrinks as the square root of their number grows. Infinite where the ratio is no gain.
    """
    if lap.ratio >= reached:
        return math.inf
    needed = lap.samples * ((lap.ratio_high - lap.ratio) / (reached - lap.ratio)) ** 2
    return max(needed, FEW_ROUNDS) - lap.samples


def _gap(plans: Sequence[Plan]) -> str:
    most = max((plan.gap for plan in plans), default=0.0)
    if most < LEAST_GAP:
        return ""
    return (
        " The search ended before it had ruled out that its rules make a plan that costs up to "
        f"{most:.0%} less, by the sum of its kernels."
    )


def _ending(winner: Plan, plans: Sequence[Plan]) -> str:
    if winner.lap is not None and winner in plans:
        lap = winner.lap
        return (
            f"The {winner.name} plan is {1 / lap.ratio:.2f}x as fast as the original "
            f"(95 % interval {1 / lap.ratio_high:.2f}x to {1 / lap.ratio_low:.2f}x)."
            f"{_opening(winner)}"
        )
    if not plans:
        return "The original is kept: no rewrite applies to it."
    refused = [plan for plan in plans if plan.refusal]
    if len(refused) == len(plans):
        return f"The original is kept: every plan was refused ({refused[0].refusal})."
    if any(_is_open(plan) for plan in plans):
        return (
            "The original is kept: no plan was faster beyond the noise in the time that there was; "
            "a larger budget gives more."
        )
    return "The original is kept: no plan was faster beyond the noise."


def _is_open(plan: Plan) -> bool:
    """Whether a plan may be faster, and had too little time to show it."""
    if plan.refusal:
        return plan.refusal.startswith(NO_TIME)
    lap = plan.lap
    return lap is not None and lap.ratio < 1 and lap.verdict == "noise" and lap.samples < FEW_ROUNDS


def _opening(winner: Plan) -> str:
    """Say how to open a plan that is not opened as the runtime does by itself."""
    if winner.execution.is_default:
        return ""
    text = f" Open it with tensolog.open_session(path): {winner.execution.describe()}"
    if winner.naive is not None and winner.naive.lap is not None:
        text += f"; opened otherwise it is {1 / winner.naive.lap.ratio:.2f}x as fast"
    return f"{text}."
