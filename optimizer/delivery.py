"""The winner's kernels, compiled for every processor that the result may run on.

Those that raced are for this processor alone. Compiling them for all takes several times as long,
so only the winner's are, and where there is no time for that the result has those that raced: it
runs on processors like this one, and is refused by others in one line.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from ..profiles.sessions.deployed import LIBRARY
from .codegen.compiler import CompilerError
from .codegen.unit import native_level
from .deadline import OutOfTimeError, remaining_s
from .native.loops.tables import PLAIN, SPOKEN
from .race.contest import Plan
from .race.final import ENOUGH_ROUNDS, run_final
from .state import Cut, State

# What the pass is called that compiles the winner's kernels.
DELIVERING = "compiling kernels for other processors"


def deliver_kernels(state: State) -> None:
    """Give the winner the library that goes with the result; what it computes is compared again.

    Where the compiler refuses some of its kernels, what is left of the plan has to win again.
    """
    raced, start = state.winner, time.monotonic()
    if not raced.kernels or state.libraries:
        return
    written = raced.graph, raced.execution, raced.source
    try:
        plan = _for_all(state, raced)
    except OutOfTimeError:
        raced.graph, raced.execution, raced.source = written
        plan, state.winner = raced, raced
        if native_level() != PLAIN:
            state.cut.append(Cut(DELIVERING, time.monotonic() - start))
            state.only_processors = SPOKEN[native_level()]
    except CompilerError as error:
        raced.refusal, state.winner = f"it doesn't compile: {error}", state.original
        return
    if state.winner is state.original:
        return
    (path,) = plan.execution.libraries
    state.libraries[LIBRARY] = state.candidate_files.file(path.name)
    plan.execution = replace(plan.execution, libraries=(Path(LIBRARY),))


def _for_all(state: State, raced: Plan) -> Plan:
    contest = state.contest
    with state.phases("compiling", raced.name):
        plan = state.kernel_plans.delivered(raced)
        if contest.verifying_s > remaining_s():
            raise OutOfTimeError
        contest.verify(plan)
    if plan is not raced:
        state.plans = [plan if other is raced else other for other in state.plans]
        plan = run_final(contest, [plan], min(contest.rounds_s(ENOUGH_ROUNDS), remaining_s()))
    state.winner = state.original if plan.refusal else plan
    return plan
