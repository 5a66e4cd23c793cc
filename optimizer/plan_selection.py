"""Passes that find the best plan: plans are predicted, verified, given generated kernels and raced.

Each is listed in `passes.PASSES`, takes the state and its seconds, and yields the plans that it
makes of others.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ..catalog.errors import ModelError
from ..profiles.sessions.deployed import DOMAIN
from ..profiles.sessions.session import reason_of
from .deadline import OutOfTimeError, remaining_s
from .delivery import deliver_kernels
from .graph.free_sizes import not_given
from .layouts.blocking import BLOCKED
from .phases import FORETOLD
from .race.contest import ORIGINAL, Contest, Plan
from .race.final import ENOUGH_ROUNDS, FINAL_SHARE, run_final
from .race.qualifying import qualify
from .race.session_options import alternatives, on_one_thread, promising
from .race.shortlist import LEAST_ROUNDS, NO_TIME
from .race.verify import EndlessError, NoTimeError, NotOpenedError
from .setting import Setting
from .state import State

# The longest budget where none was asked for: the final race of a model that takes long to open and
# to run needs it.
STRETCHED_S = 100.0
# How the runtime says that it has no such operator, of ONNX's domain and of others.
UNKNOWN_OPERATOR = ("No Op registered for", "is not a registered function/op")
# The part of the budget that an early race of one plan may take, and the rounds without which it
# tells nothing.
EARLY_SHARE, EARLY_ROUNDS = 0.1, 5
# The least predicted gain that is reported: a sum of kernels is not as exact as a race.
TELLING_GAIN = 1.05
# The parts of the seconds for session options that asking the runtime takes, and measuring.
ASKING_WAYS, MEASURING_WAYS = 0.15, 0.25


def run_original(state: State, seconds: float) -> Iterator[Plan]:
    """Run the original on generated inputs; ModelError where it can't be run.

    Without that, nothing could be verified or measured. Where there is no time for it, that is
    stored as `state.problem`, and the result is the original. EndlessError where it never ends.
    """
    size_bytes = state.size_bytes()
    with state.phases("running the original"):
        try:
            state.contest = Contest(
                state.original,
                state.setting,
                state.phases,
                fixed_sizes=state.sizes,
                size_bytes=size_bytes,
                widened=partial(state.candidate_files.place_widened, state.skeleton, size_bytes),
                end=state.schedule.end,
            )
        except EndlessError:
            raise
        except NoTimeError as error:
            state.problem = str(error)
        except Exception as error:  # whatever the runtime raises is its reason to refuse
            raise ModelError(_not_run(state, error)) from error
        else:
            state.schedule.seconds += stretch_s(state.setting, state.contest)
    yield from ()


def stretch_s(setting: Setting, contest: Contest) -> float:
    """Return the seconds by which a default budget is extended, for enough rounds in the final."""
    if not setting.stretches:
        return 0.0
    needed_s = contest.rounds_s(ENOUGH_ROUNDS) / FINAL_SHARE
    return max(0.0, min(needed_s, STRETCHED_S) - setting.budget)


def foretell(state: State, seconds: float) -> Iterator[Plan]:
    """Report the plan of the largest predicted gain, until a race has found a faster plan.

    The prediction is a sum over kernels, measured or predicted, of both graphs as they are written:
    fusions that the runtime makes of the original by itself count as a gain here, not in a race.
    """
    plans = [plan for plan in _derived(state) if plan.lap is None and not plan.refusal]
    if plans and state.contest.incumbent is None:
        foretold = [(state.predicted_ns(plan), place) for place, plan in enumerate(plans)]
        own_ns, (plan_ns, place) = state.predicted_ns(state.original), min(foretold)
        if plan_ns > 0 and own_ns / plan_ns >= TELLING_GAIN:
            gain = f"{own_ns / plan_ns:.2f}x, plan {plans[place].name!r}"
            state.phases.tell(FORETOLD, 0, 0, gain)
    yield from ()


def race_newest(state: State, seconds: float) -> Iterator[Plan]:
    """Race, for a few rounds, the cheapest plan that was not raced yet, for an early answer."""
    contest = state.contest
    short_s = contest.rounds_s(EARLY_ROUNDS)
    news = [plan for plan in state.plans if plan.lap is None and not plan.refusal]
    if news and short_s <= EARLY_SHARE * state.setting.budget:
        plan = min(news, key=state.expected_cost)
        _verify(state, plan, "first race")
        if plan.is_verified:
            raced = [contest.original, plan]
            contest.time_runnable(raced, short_s, phase="first race", reference=ORIGINAL)
            state.phases.tell(FORETOLD, 0, 0, "")  # it is known better now
    yield from ()


def fuse_first(state: State, seconds: float) -> Iterator[Plan]:
    """Put generated kernels into the first plan, unless convolutions take most of its time.

    Generated convolutions need values in blocks, and layouts are chosen later.
    """
    if _mostly_convolves(state):
        return
    base = state.first
    if base is not state.original:
        _verify(state, base)
    if not base.is_verified:
        base = state.original
    with state.phases.as_part_of("first kernels"):
        yield from state.kernel_plans.first_plans(base, seconds)


def ask_runtime(state: State, seconds: float) -> Iterator[Plan]:
    """Ask the runtime which kernels it runs for the original and for each plan."""
    state.rivals = _derived(state)
    for plan in state.rivals:
        state.candidate_files.placed(plan)
    state.prediction.ask([state.original, *state.rivals], seconds)
    yield from ()


def predict(state: State, seconds: float) -> Iterator[Plan]:
    """Measure the kernels that run; refuse plans that are surely slower or run the same ones."""
    state.run_prices.remaining_s = seconds
    state.rivals = state.prediction.rivals(_derived(state))
    yield from ()


def verify(state: State, seconds: float) -> Iterator[Plan]:
    """Compare the outputs of plans with those of the original."""
    for plan in _derived(state):
        _verify(state, plan)
    yield from ()


def choose_finalists(state: State, seconds: float) -> Iterator[Plan]:
    """Race all rivals for a few rounds; the fastest are finalists, with the plans with kernels."""
    rivals = [plan for plan in state.rivals if plan.is_verified]
    state.finalists = [
        plan for plan in state.plans if plan.base is not None and not _is_surely_slower(plan)
    ]
    state.finalists += qualify(state.contest, rivals, seconds)
    yield from ()


def fuse(state: State, seconds: float) -> Iterator[Plan]:
    """Put generated kernels into the finalists, and into plans in blocks."""
    bases = [plan for plan in state.finalists if plan.base is None]
    fused = state.kernel_plans.plans([*bases, *_alike(state)], state.laid_out, seconds)
    for plan in fused:
        yield plan
        state.finalists.append(plan)


def open_otherwise(state: State, seconds: float) -> Iterator[Plan]:
    """Race the finalists with other session options: without some of the runtime's own fusions.

    What may win at the end is a plan on one thread too, of a tiny model.
    """
    contest = state.contest
    state.run_prices.remaining_s = MEASURING_WAYS * seconds
    plans = [contest.original, *(plan for plan in state.finalists if plan.base is None)]
    sound = promising(state.prediction, plans, _alike(state), ASKING_WAYS * seconds)
    for plan in alternatives(contest, sound, seconds * (1 - ASKING_WAYS - MEASURING_WAYS)):
        yield plan
        state.finalists.append(plan)
    for plan in on_one_thread(contest, [contest.original, *state.finalists]):
        yield plan
        state.finalists.append(plan)


def race_finalists(state: State, seconds: float) -> Iterator[Plan]:
    """Let the finalists race the original, and the best one of them race it again."""
    if state.schedule.remaining_s < state.contest.rounds_s(1):
        for plan in state.finalists or state.plans:
            is_open = plan.is_verified and plan.lap is None and not plan.refusal
            if is_open and not plan.same_kernels_as:
                _leave_open(plan, state.contest.rounds_s(LEAST_ROUNDS))
        state.take_incumbent()
        raise OutOfTimeError
    state.winner = run_final(state.contest, state.finalists, seconds, state.expected_cost)
    yield from ()


def deliver(state: State, seconds: float) -> Iterator[Plan]:
    """Compile the winner's kernels for all processors; without the time, for those like this one.

    This uses the time until the end of the optimization, and is not charged to the budget.
    """
    deliver_kernels(state)
    yield from ()


def predict_winner(state: State, seconds: float) -> Iterator[Plan]:
    """Ask what the runtime runs for the winner, and measure that."""
    state.run_prices.remaining_s = seconds
    state.prediction.ask([state.winner], seconds)
    state.prediction.measure([state.winner])
    yield from ()


def fuses(state: State) -> bool:
    """Whether plans may have generated kernels."""
    return state.setting.fuses


def foretells(state: State) -> bool:
    """Whether there are predictions for kernels that were not measured."""
    return state.forecast is not None


def is_for_runtime(state: State) -> bool:
    """Whether the result is for ONNX Runtime, and may be opened in a way of its own."""
    return state.setting.for_runtime


def _derived(state: State) -> list[Plan]:
    """Plans without generated kernels."""
    return [plan for plan in state.plans if plan.base is None]


def _is_surely_slower(plan: Plan) -> bool:
    return bool(plan.refusal) or (plan.lap is not None and plan.lap.verdict == "slower")


def _mostly_convolves(state: State) -> bool:
    """Tell whether more than half of the model's time goes to what is best laid out in blocks."""
    costs = {True: 0.0, False: 0.0}
    for kernel in state.kernels(state.original).values():
        costs[kernel.op_type in BLOCKED] += state.prices.cost(kernel).ns
    return costs[True] > costs[False]


def _alike(state: State) -> list[Plan]:
    """Plans that run what another one runs: they may differ opened otherwise, or with kernels."""
    return [plan for plan in state.plans if plan.same_kernels_as and plan.is_verified]


def _leave_open(plan: Plan, lacks_s: float) -> None:
    """Say of a plan that there is no time to find out whether it is faster."""
    plan.refusal, plan.lacks_s = f"{NO_TIME}: give a larger budget", lacks_s


def _verify(state: State, plan: Plan, phase: str = "verifying") -> None:
    """Verify a plan unless that was done, where the pass has the time for it."""
    if plan.refusal or plan.is_verified:
        return
    if state.contest.verifying_s > remaining_s():
        lacks_s = state.contest.verifying_s + state.contest.rounds_s(LEAST_ROUNDS)
        _leave_open(plan, lacks_s)
        return
    with state.phases(phase, plan.name):
        state.contest.verify(state.candidate_files.placed(plan))


def _not_run(state: State, error: Exception) -> str:
    if any(entry.domain.startswith(DOMAIN) for entry in state.skeleton.opset_import):
        return "the model is a result of tensolog with native code: optimize its original"
    reason = reason_of(error)
    if isinstance(error, NotOpenedError):
        if any(words in reason for words in UNKNOWN_OPERATOR):
            reason += "; export it again with operators that this version of ONNX Runtime has"
    elif not_given(state.original.graph, state.sizes):
        reason += "; if its sizes were guessed wrong, give them with --input-shape"
    return (
        "ONNX Runtime can't run the model here, so that nothing can be verified or measured, "
        f"and nothing is written: {reason}"
    )
