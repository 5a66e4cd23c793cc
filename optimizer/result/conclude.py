"""What came of an optimization: explained, recorded, and handed over."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...catalog.onnx.reader import store_model
from ...catalog.onnx.side_file import referring
from ...catalog.store.constants import LARGE_BYTES
from ...profiles.sessions.execution import embed
from ..deadline import cut_at
from ..delivery import deliver_kernels
from ..explain.near_misses import near_misses
from ..explain.node_story import Question
from ..graph.infer import bound_types
from ..match.rewrite import Step
from ..race.contest import Plan
from ..race.unlocked_sums import unlocked_sums
from ..report.graph_view import calls_of, calls_run, drawn_graph, operator_costs
from ..setting import GRACE_S
from ..state import State
from ..target import TargetChoice
from .optimization import Optimization
from .outcome import (
    candidate_of,
    kernel_times_text,
    more_time,
    predicted_text,
    processors,
    time_over,
    unlocked_text,
    verdict_of,
)
from .plan_tables import keep_plans, record_plan
from .region_rows import region_rows
from .summary import details, version_of

if TYPE_CHECKING:
    from ..report.schema import DrawnGraph, Headline, OperatorCost, PredictedKernel


# Smaller weights are read in a few milliseconds.
MAPPED_BYTES = 8 << 20


def conclude(state: State, choice: TargetChoice) -> Optimization:
    """Explain, record, and hand over."""
    with cut_at(time.monotonic() + GRACE_S):  # what was interrupted is not delivered yet
        deliver_kernels(state)
    winner, original = state.winner, state.original
    with state.phases("explaining"):
        rules = (*state.planner.always, *state.planner.explorative)
        closest = _closest(state) if winner is original else winner
        near = near_misses(rules, closest.graph)
        steps = closest.steps
        if winner is original:
            steps = [lost(step, closest) for step in steps]
        steps = [*steps, *state.losing]
    candidates = [
        candidate_of(plan, winner=plan is winner, reference=original.lap)
        for plan in (original, *state.plans)
    ]
    deviations = [item for plan in state.plans for item in plan.deviations]
    if state.search_file is not None:
        keep_plans((original, *state.plans), candidates, state.search_file)
    with state.phases("explaining"):
        regions = region_rows(state.fused, winner)
    with state.phases("recording"), state.catalog.transaction():
        result_id = state.model_id
        if winner is not original:
            skeleton = state.candidate_files.skeleton(winner.graph)
            embed(skeleton, winner.execution)
            result_id = store_model(state.catalog, skeleton, parent_model_id=state.model_id)
        plan_id = record_plan(state, result_id, steps, candidates, deviations, regions)
    predicted = _predicted(state, original, winner)
    headline: Headline = {
        "tensolog": version_of("tensolog"),
        "chosen": winner.name,
        "verdict": " ".join(
            [
                *(["Interrupted."] if state.is_interrupted else ()),
                verdict_of(winner, state.plans, state.losing, state.problem),
                *more_time(winner, state.plans, state.round_s, state.schedule.seconds),
                *kernel_times_text(
                    winner, (kind for fusing in state.fused for kind in fusing.kinds)
                ),
                *time_over(state.cut, state.phases, state.setting),
                *processors(state.only_processors),
                *unlocked_text(unlocked_sums(original.graph), state.setting.threads),
                *predicted_text([kernel["kernel"] for kernel in predicted]),
            ]
        ),
        "nodes_before": original.nodes,
        "nodes_after": winner.nodes,
    }
    return Optimization(
        plan_id=plan_id,
        model_id=state.model_id,
        result_model_id=result_id,
        plan=steps,
        candidates=candidates,
        deviations=deviations,
        details=details(headline, state, result_id, choice.to_json()),
        near_misses=near,
        execution=winner.execution,
        libraries=state.libraries,
        outside_bytes=outside_bytes(original, winner),
        weights_files=_weights_files(state),
        operators=_operators(state, original, winner),
        predicted=predicted,
        graphs=(_drawn(state, original, steps), _drawn(state, winner, ())),
        question=Question(state.setting, state.planner.base, dict(state.sizes)),
        catalog=state.catalog,
        catalog_path=state.catalog.path,
        interrupted=state.is_interrupted,
    )


def _closest(state: State) -> Plan:
    """The plan that came closest to winning, the last one derived where none was raced."""
    raced = [(plan.lap.ratio, place) for place, plan in enumerate(state.plans) if plan.lap]
    if raced:
        return state.plans[min(raced)[1]]
    return state.plans[-1] if state.plans else state.original


def outside_bytes(original: Plan, winner: Plan) -> int | None:
    """Say how large weights are that the runtime shall map from a file beside the result.

    Inside of a model they are read and copied, which takes longer the larger one is: nobody should
    wait for what a plan has put together or transformed. None: all stay where they were.
    """
    if winner is original:
        return None
    if winner.execution.libraries:  # it is no single file in any case
        return LARGE_BYTES
    sizes = (constant.type.size_bytes for constant in original.graph.constants.values())
    return max(MAPPED_BYTES, 1 + max((size or 0 for size in sizes), default=0))


def _weights_files(state: State) -> frozenset[Path]:
    """Give the files that large weights of the model that was read lie in."""
    constants = (constant for _, constant in referring(state.catalog, state.skeleton))
    return frozenset(
        Path(constant.location).resolve() for constant in constants if constant.location
    )


def _operators(state: State, original: Plan, winner: Plan) -> list[OperatorCost]:
    """Compare what the runtime runs; where that is not known of both, the models' own nodes."""
    if original.run is not None and winner.run is not None:
        return operator_costs(
            calls_run(original.run, state.run_prices), calls_run(winner.run, state.run_prices)
        )
    return operator_costs(
        calls_of(original.graph, state.kernels(original), state.prices),
        calls_of(winner.graph, state.kernels(winner), state.prices),
    )


def _predicted(state: State, *plans: Plan) -> list[PredictedKernel]:
    """List the kernels of plans that are predicted, those first that take most."""
    kernels = {kernel.hash: kernel for plan in plans for kernel in state.kernels(plan).values()}
    costs = [(kernel.label(), state.prices.cost(kernel)) for kernel in kernels.values()]
    return [
        {
            "kernel": label,
            "time_ns": cost.ns,
            "least_ns": cost.least_ns,
            "most_ns": cost.most_ns,
        }
        for label, cost in sorted(costs, key=lambda pair: (-pair[1].ns, pair[0]))
        if cost.source == "predicted"
    ]


def _drawn(state: State, plan: Plan, steps: Sequence[Step]) -> DrawnGraph:
    graph = plan.graph
    rules = {name: step.rule for step in steps if step.accepted for name in step.nodes}
    return drawn_graph(
        graph,
        bound_types(graph, state.sizes),
        state.kernels(plan),
        state.prices,
        {number: rules.get(graph.node_name(number), "") for number in graph.nodes},
    )


def lost(step: Step, plan: Plan) -> Step:
    """Mark a step of a plan that lost: it was tried, and is in no model."""
    if not step.accepted:
        return step
    reason = plan.refusal or "not faster end to end"
    return replace(step, accepted=False, reason=f"tried in the {plan.name} plan: {reason}")
