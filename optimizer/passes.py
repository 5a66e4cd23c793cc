"""All passes of an optimization, from the model that was read to the winner: PASSES, top to bottom.

A pass is a function that takes the state (`state.State`) and the seconds that it may plan with,
and yields the plans that it derives; what else it finds out it notes in the state. Passes that
derive plans are in `plan_derivation`, those that find the best one in `plan_selection`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from . import plan_derivation as derivation
from . import plan_selection as selection
from .deadline import OutOfTimeError, cut_at
from .delivery import DELIVERING
from .race.contest import Plan
from .race.final import FINAL_SHARE
from .state import Cut, State


def always(state: State) -> bool:
    """Whether a pass runs that always does."""
    return True


def nothing(state: State) -> float:
    """Give no seconds."""
    return 0.0


def delivering_s(state: State) -> float:
    """Give the seconds that delivering a winner's kernels takes about."""
    return state.delivering_s


@dataclass(frozen=True)
class Pass:
    """A step of an optimization, the part of the budget for it, and the condition for it to run.

    `share` is kept for it while passes before it run; it is granted up to `most` where these left
    so much. One that `measures` kernels is charged for that alone, and not for its search: what
    that takes is bounded by the time at which all is over. Any pass that `may_be_cut` ends when it
    would take what is kept for those after it, and what it has yielded by then counts. One that is
    no part of the budget, but of the time until the end, has the seconds kept that are `expected_s`
    of it.
    """

    name: str
    run: Callable[[State, float], Iterator[Plan]]
    share: float = 0.0
    most: float = 0.0
    applies: Callable[[State], bool] = always
    measures: bool = False
    may_be_cut: bool = True
    expected_s: Callable[[State], float] = nothing

    def seconds(self, part: float, state: State) -> float:
        """Give a part of the budget in seconds: races may be given longer, measuring isn't."""
        return part * (state.setting.budget if self.measures else state.schedule.seconds)


PASSES = (
    # A first plan that is right, and its time.
    Pass("rewriting", derivation.simplify),
    Pass("running the original", selection.run_original, may_be_cut=False),
    Pass("foretelling", selection.foretell, applies=selection.foretells),
    Pass(
        "trying rules on NaN and infinities",
        derivation.leave_out_losing,
        applies=derivation.must_keep_nonfinite,
    ),
    Pass("a first race", selection.race_newest),
    Pass("first kernels", selection.fuse_first, share=0.12, most=0.25, applies=selection.fuses),
    Pass("a first race", selection.race_newest, applies=selection.fuses),
    # Plans by rules and what kernels cost; then by what rules did when each was tried alone.
    Pass("the search", derivation.search, share=0.12, most=0.22, measures=True),
    Pass("foretelling", selection.foretell, applies=selection.foretells),
    Pass("a first race", selection.race_newest),
    Pass("trying rules alone", derivation.screen_rules, share=0.08, most=0.18),
    Pass(
        "choosing rules",
        derivation.choose_rules,
        most=0.05,
        applies=derivation.was_screened,
        measures=True,
    ),
    Pass(
        "choosing layouts",
        derivation.lay_out,
        share=0.08,
        most=0.08,
        applies=derivation.may_lay_out,
        measures=True,
    ),
    Pass(
        "deriving what no rule can say",
        derivation.derive_beyond_rules,
        applies=derivation.may_round,
    ),
    # Of these the few that are right, and may be the fastest.
    Pass("asking what runs", selection.ask_runtime, share=0.02, most=0.06),
    Pass("predicting", selection.predict, share=0.06, most=0.16, measures=True),
    Pass("verifying", selection.verify),
    Pass("qualifying", selection.choose_finalists, share=0.05, most=0.1),
    # The same with generated kernels, and opened in other ways.
    Pass("kernels", selection.fuse, share=0.12, most=0.35, applies=selection.fuses),
    Pass("a first race", selection.race_newest, applies=selection.fuses),
    Pass(
        "opening plans in other ways",
        selection.open_otherwise,
        share=0.05,
        most=0.25,
        applies=selection.is_for_runtime,
    ),
    # The winner.
    Pass(
        "the final race",
        selection.race_finalists,
        share=FINAL_SHARE,
        most=1.0,
        may_be_cut=False,
    ),
    Pass(
        DELIVERING,
        selection.deliver,
        applies=selection.fuses,
        expected_s=delivering_s,
    ),
    Pass("predicting", selection.predict_winner, most=0.05, measures=True),
)


def run_passes(state: State, passes: Sequence[Pass] = PASSES) -> None:
    """Run passes in their order, each within its seconds, and note which of them were cut."""
    for place, each in enumerate(passes):
        if state.is_over:
            return
        if each.applies(state):
            _run(each, state, [later for later in passes[place + 1 :] if later.applies(state)])


def _run(each: Pass, state: State, later: Sequence[Pass]) -> None:
    schedule = state.schedule
    kept_s = sum(other.seconds(other.share, state) + other.expected_s(state) for other in later)
    share_s, most_s = (each.seconds(part, state) for part in (each.share, each.most))
    granted_s = schedule.grant(share_s, most_s, kept_s)
    start, measuring_s = time.monotonic(), state.measuring_s
    try:
        with cut_at(schedule.cut(kept_s) if each.may_be_cut else math.inf):
            for plan in each.run(state, granted_s):
                state.propose(plan)
    except OutOfTimeError:
        state.cut.append(Cut(each.name, time.monotonic() - start))
    took_s = time.monotonic() - start
    if each.measures:
        schedule.charge(state.measuring_s - measuring_s)
    elif each.most:
        schedule.charge(took_s)
