"""What ONNX Runtime's own optimizer would still do to a plan, as alternatives to be measured.

At its full level it replaces operators by fused ones, and lays out convolutions anew. Most of that
gains; where something does not, on this machine and release, the same plan is faster at a lower
level, or at the full one without that fusion. Such a way to open it is a plan of its own. So is one
thread for a tiny model: it is done by the time that others have been woken.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from ...profiles.races.race import verdict
from ...profiles.sessions.session import DEFAULTS, Execution
from .contest import Contest, Plan
from .final import LEAST_GAIN_BY_OPTIONS
from .prediction import Prediction

# Operators that ONNX Runtime's graph transformers make, and the transformers to leave out so that
# they don't, by the names that `optimization.disable_specified_optimizers` knows them by.
FUSIONS = {
    "Attention": ("AttentionFusion",),
    "BiasGelu": ("BiasGeluFusion",),
    "EmbedLayerNormalization": ("EmbedLayerNormFusion",),
    "FusedConv": ("ConvActivationFusion", "ConvAddActivationFusion"),
    "FusedGemm": ("GemmActivationFusion",),
    "FusedMatMul": ("MatmulTransposeFusion", "MatMulScaleFusion"),
    "Gemm": ("MatMulAddFusion",),
    "QuickGelu": ("QuickGeluFusion",),
    "ReorderInput": ("NchwcTransformer",),
    "SkipLayerNormalization": ("SkipLayerNormFusion", "BiasSkipLayerNormFusion"),
    "SkipSimplifiedLayerNormalization": ("SkipLayerNormFusion", "BiasSkipLayerNormFusion"),
}
LEAST_ENTRY_S = 1e-3
# A model is tiny whose run and another one take less than this together.
TINY_ROUND_S = 1e-3
# The level at which only operators of ONNX's own remain, apart from what stands in the model.
PLAIN_LEVEL = "basic"


def alternatives(contest: Contest, plans: Sequence[Plan], budget_s: float) -> list[Plan]:
    """Race each plan's ways to be opened against the runtime's own, briefly; return the best.

    `plans` come in the order of their promise; the later ones may find the time spent, and of large
    models few ways are tried. What is returned is verified, and counts only if it wins the final
    race too.
    """
    end = time.monotonic() + budget_s
    best: list[Plan] = []
    for number, plan in enumerate(plans):
        remaining_s = end - time.monotonic()
        # No less than a plan takes with one way beside it, and to see what it runs.
        share = max(remaining_s / (len(plans) - number), 3 * contest.entry_s)
        if share > remaining_s:
            break
        best += _of_one(contest, plan, share)
    for plan in best:
        contest.verify(plan)
    return best


def on_one_thread(contest: Contest, plans: Sequence[Plan]) -> list[Plan]:
    """Give plans of a tiny model for the calling thread alone, verified; none of a larger one.

    Nor of one with free sizes: more rows would want more threads.
    """
    if contest.setting.threads == 1 or contest.sizes or contest.round_s > TINY_ROUND_S:
        return []
    single = [
        replace(
            plan,
            name=f"{plan.name} on 1 thread",
            execution=replace(plan.execution, threads=1),
            naive=plan.naive or plan,
            lap=None,
            is_verified=False,
        )
        for plan in plans
        if not plan.refusal
    ]
    for plan in single:
        contest.verify(plan)
    return single


def promising(
    prediction: Prediction, plans: Sequence[Plan], like: Sequence[Plan], budget_s: float
) -> list[Plan]:
    """Sort plans by what they are predicted to take, opened by default or at the plain level.

    Of those in `like`, which run what another one runs by default, only such take part as run
    something else at the plain level, and don't clearly lose by it.
    """
    plain = {plan.name: with_execution(plan, Execution(PLAIN_LEVEL)) for plan in (*plans, *like)}
    prediction.ask(list(plain.values()), budget_s)
    rivals = prediction.rivals(list(plain.values()))
    sound = [*plans, *(plan for plan in like if plain[plan.name] in rivals)]
    unknown = float("inf")

    def least_ns(plan: Plan) -> float:
        ways = (plan, plain[plan.name])
        return min(way.predicted_ns or unknown for way in ways)

    return sorted(sound, key=least_ns)


def _of_one(contest: Contest, plan: Plan, budget_s: float) -> list[Plan]:
    ways = list(_ways(contest, plan))
    ways = ways[: max(1, int(budget_s / max(contest.entry_s, LEAST_ENTRY_S)) - 2)]
    if not ways:
        return []
    laps = contest.time_runnable([plan, *ways], budget_s, phase="opening", reference=plan.name)
    timed = [way for way in ways if way.name in laps]
    best = min(timed, key=lambda way: laps[way.name].ratio, default=plan)
    # The race is too short to be sure; what is not worth its options anyway may not take part.
    if best is plan or laps[best.name].ratio > 1 - LEAST_GAIN_BY_OPTIONS:
        return []
    faster = [way for way in timed if verdict(laps[way.name]) == "faster"]
    left_out = [name for way in faster for name in way.execution.left_out]
    together = with_execution(plan, plan.execution.without(*left_out)) if left_out else best
    return [best] if together.execution == best.execution else [best, together]


def _ways(contest: Contest, plan: Plan) -> Iterator[Plan]:
    """Yield the ways to open a plan that change what the runtime runs."""
    with suppress(Exception):  # a plan that does not run under its profiler races as it is
        run = contest.operators_run(plan)
        inserted = run - Counter(node.op_type for node in plan.graph.nodes.values())
        often = (name for name, _ in inserted.most_common() if name in FUSIONS)
        left_out = dict.fromkeys(FUSIONS[name] for name in often)
        yield with_execution(plan, Execution(PLAIN_LEVEL))
        for transformers in left_out:
            yield with_execution(plan, DEFAULTS.without(*transformers))


def with_execution(plan: Plan, execution: Execution) -> Plan:
    """Make the plan that is the same model opened another way."""
    return Plan(
        f"{plan.name} ({execution.describe()})",
        plan.graph,
        steps=plan.steps,
        source=plan.source,
        execution=execution,
        naive=plan,
    )
