"""What came of an optimization: explained, recorded, and handed over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..catalog.onnx.reader import store_model
from ..catalog.onnx.side_file import referring
from ..catalog.store.constants import LARGE_BYTES
from ..profiles.sessions.deployed import LIBRARY
from ..profiles.sessions.execution import embed
from .campaign import Campaign
from .explain import near_misses
from .keep import keep_plans
from .match.rewrite import Step
from .node_story import Question
from .race.contest import Plan
from .record import record_plan
from .result import Optimization
from .search import bound_types
from .target import TargetChoice
from .view import calls_of, calls_run, drawn_graph, operator_costs
from .words import candidate_of, details, time_over, verdict_of, version_of

if TYPE_CHECKING:
    from .report.schema import DrawnGraph, Headline, OperatorCost


# Smaller weights are read in a few milliseconds.
MAPPED_BYTES = 8 << 20


def conclude(run: Campaign, choice: TargetChoice) -> Optimization:
    """Explain, record, and hand over."""
    winner, original = run.winner, run.original
    libraries: dict[str, bytes] = {}
    for path in winner.execution.libraries:  # a plan has one for all of its kernels
        libraries[LIBRARY] = run.workshop.file(path.name)
        winner.execution = replace(winner.execution, libraries=(Path(LIBRARY),))
    with run.phases("explaining"):
        rules = (*run.planner.always, *run.planner.explorative)
        closest = _closest(run) if winner is original else winner
        near = near_misses(rules, closest.graph)
        steps = closest.steps
        if winner is original:
            steps = [lost(step, closest) for step in steps]
        steps = [*steps, *run.losing]
    candidates = [
        candidate_of(plan, winner=plan is winner, reference=original.lap)
        for plan in (original, *run.plans)
    ]
    deviations = [item for plan in run.plans for item in plan.deviations]
    if run.kept is not None:
        keep_plans((original, *run.plans), candidates, run.kept)
    with run.phases("recording"), run.catalog.transaction():
        result_id = run.model_id
        if winner is not original:
            skeleton = run.workshop.skeleton(winner.graph)
            embed(skeleton, winner.execution)
            result_id = store_model(run.catalog, skeleton, parent_model_id=run.model_id)
        plan_id = record_plan(
            run.catalog,
            run.setting,
            run.model_id,
            result_id,
            winner.name,
            steps,
            candidates,
            deviations,
        )
    headline: Headline = {
        "tensolog": version_of("tensolog"),
        "chosen": winner.name,
        "verdict": " ".join(
            [
                *(["Interrupted."] if run.is_interrupted else ()),
                verdict_of(winner, run.plans, run.losing, run.problem),
                *time_over(run.cut, run.phases, run.setting),
            ]
        ),
        "nodes_before": original.nodes,
        "nodes_after": winner.nodes,
    }
    return Optimization(
        plan_id=plan_id,
        model_id=run.model_id,
        result_model_id=result_id,
        plan=steps,
        candidates=candidates,
        deviations=deviations,
        details=details(
            headline,
            run.catalog,
            run.setting,
            run.phases,
            run.model_id,
            result_id,
            run.skeleton,
            run.sizes,
            choice.to_json(),
            (original.graph.opset(), winner.graph.opset()),
        ),
        near_misses=near,
        execution=winner.execution,
        libraries=libraries,
        outside_bytes=outside_bytes(original, winner),
        weights_files=_weights_files(run),
        operators=_operators(run, original, winner),
        graphs=(_drawn(run, original, steps), _drawn(run, winner, ())),
        question=Question(run.setting, run.planner.base, dict(run.sizes)),
        catalog=run.catalog,
        catalog_path=run.catalog.path,
        interrupted=run.is_interrupted,
    )


def _closest(run: Campaign) -> Plan:
    """The plan that came closest to winning, the last one derived where none was raced."""
    raced = [(plan.lap.ratio, place) for place, plan in enumerate(run.plans) if plan.lap]
    if raced:
        return run.plans[min(raced)[1]]
    return run.plans[-1] if run.plans else run.original


def outside_bytes(original: Plan, winner: Plan) -> int | None:
    """Say how large weights are that the runtime shall map from a file beside the result.

    Inside of a model they are read and copied, which takes longer the larger one is: nobody should
    wait for what a plan has put together or transformed. None: all stay where they were.
    """
    if winner is original:
        return None
    if winner.execution.libraries:  # it is no single file in any case
        return LARGE_BYTES
    known = (constant.type.size_bytes for constant in original.graph.constants.values())
    return max(MAPPED_BYTES, 1 + max((size or 0 for size in known), default=0))


def _weights_files(run: Campaign) -> frozenset[Path]:
    """Give the files that large weights of the model that was read lie in."""
    constants = (constant for _, constant in referring(run.catalog, run.skeleton))
    return frozenset(Path(one.location).resolve() for one in constants if one.location)


def _operators(run: Campaign, original: Plan, winner: Plan) -> list[OperatorCost]:
    """Compare what the runtime runs; where that is not known of both, the models' own nodes."""
    if original.run is not None and winner.run is not None:
        return operator_costs(
            calls_run(original.run, run.run_prices), calls_run(winner.run, run.run_prices)
        )
    return operator_costs(
        calls_of(original.graph, run.kernels(original), run.prices),
        calls_of(winner.graph, run.kernels(winner), run.prices),
    )


def _drawn(run: Campaign, plan: Plan, steps: Sequence[Step]) -> DrawnGraph:
    graph = plan.graph
    rules = {name: step.rule for step in steps if step.accepted for name in step.nodes}
    return drawn_graph(
        graph,
        bound_types(graph, run.sizes),
        run.kernels(plan),
        run.prices,
        {number: rules.get(graph.node_name(number), "") for number in graph.nodes},
    )


def lost(step: Step, plan: Plan) -> Step:
    """Mark a step of a plan that lost: it was tried, and is in no model."""
    if not step.accepted:
        return step
    reason = plan.refusal or "not faster end to end"
    return replace(step, accepted=False, reason=f"tried in the {plan.name} plan: {reason}")
