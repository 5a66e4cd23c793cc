"""All passes of an optimization, from the model that was read to the winner: PASSES, top to bottom.

A pass is a function that takes the state (`state.State`) and a number of seconds, and yields the
plans that it derives; whatever else it learns it stores in the state. Passes that derive plans are
in `plan_derivation`, those that find the best one in `plan_selection`.
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
    """Run the pass in any case."""
    return True


def nothing(state: State) -> float:
    """Reserve no seconds."""
    return 0.0


def delivering_s(state: State) -> float:
    """Reserve about the seconds that compiling a winner's kernels for delivery takes."""
    return state.delivering_s


@dataclass(frozen=True)
class Pass:
    """A step of an optimization, its part of the budget, and the condition for it to run.

    `share` and `most` are parts of the budget: the share is reserved while earlier passes run, and
    the pass gets up to `most` if these used less than theirs. A pass that `measures` kernels is
    charged only the time of measuring; its search is bounded by the end of the optimization. A pass
    that `may_be_cut` is ended before it uses what is reserved for later passes; the plans that it
    yielded by then count. `expected_s` are seconds to reserve for a pass that is not charged to the
    budget at all.
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
        """Return a part of the budget in seconds; for races the budget may have been extended."""
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
    Pass("trying rules alone", derivation.screen_rules, share=0.05, most=0.12),
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
        share=0.1,
        most=0.2,
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
    """Run passes in their order, each within its seconds; `state.cut` lists those that were cut."""
    for place, pass_ in enumerate(passes):
        if state.is_over:
            return
        if pass_.applies(state):
            _run(pass_, state, [later for later in passes[place + 1 :] if later.applies(state)])


def _run(pass_: Pass, state: State, later: Sequence[Pass]) -> None:
    schedule = state.schedule
    reserved_s = sum(other.seconds(other.share, state) + other.expected_s(state) for other in later)
    share_s, most_s = (pass_.seconds(part, state) for part in (pass_.share, pass_.most))
    granted_s = schedule.grant(share_s, most_s, reserved_s)
    start, measuring_s = time.monotonic(), state.measuring_s
    try:
        with cut_at(schedule.cut(reserved_s) if pass_.may_be_cut else math.inf):
            for plan in pass_.run(state, granted_s):
                state.propose(plan)
    except OutOfTimeError:
        state.cut.append(Cut(pass_.name, time.monotonic() - start))
    took_s = time.monotonic() - start
    if pass_.measures:
        schedule.charge(state.measuring_s - measuring_s)
    elif pass_.most:
        schedule.charge(took_s)
