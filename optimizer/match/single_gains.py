"""Single rewrites whose gain depends on the machine, taken where costs say so, the best first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from onnx.shape_inference import InferenceError

from ...profiles.kernel import Kernel
from ...profiles.kernels.costs import Cost
from ...rules import ABSENT, Match, correction, promise
from ..deadline import checkpoint
from ..graph.fold import becomes_constant
from ..graph.graph import Graph, TensorType, constant_of
from ..graph.infer import bind, bound_types, infer_node, sharpen
from ..graph.simplify import remove_dead
from ..price import Prices, kernel_of
from .matcher import Matcher
from .rewrite import RewriteError, Step, apply_match, simplify

# A search whose every round finds a gain ends long before; this guards against prices that cycle.
ROUNDS = 20
# Kernels that are measured before it is asked again which trials are still open.
AT_ONCE = 8

Report = Callable[[str, int, int, str], None]


@dataclass(frozen=True)
class Trial:
    """A match weighed: what it would remove and add, as kernels with prices."""

    match: Match
    names: tuple[str, ...]
    removed: int
    added: int
    before: tuple[Kernel, ...]
    after: tuple[Kernel, ...]

    @property
    def changed(self) -> tuple[Counter[Kernel], Counter[Kernel]]:
        """Count the kernels that go, and those that come, without what does both."""
        before, after = Counter(self.before), Counter(self.after)
        return before - after, after - before

    def is_open(self, prices: Prices) -> bool:
        """Tell whether intervals leave open which of the two takes longer."""
        (least, most), (other_least, other_most) = (
            prices.interval_ns(part.elements()) for part in self.changed
        )
        is_exact = least == most and other_least == other_most
        return not is_exact and least <= other_most and other_least <= most


def explore(
    graph: Graph,
    explorer: Matcher,
    simplifier: Matcher,
    prices: Prices,
    *,
    sizes: Mapping[str, int],
    fold_limit: int,
    progress: Report,
) -> list[Step]:
    """Apply the rewrites that measured costs favour, best first, until none does; in place.

    A rewrite counts as a gain when what it adds costs less than what it removes by more than the
    spread of both measurements. Where the budget left a kernel unmeasured nothing is concluded.
    """
    steps: list[Step] = []
    weighed: dict[tuple[str, tuple[str, ...]], Step] = {}
    for _ in range(ROUNDS):
        matches = explorer.find(graph)
        types = bound_types(graph, sizes)
        trials = [t for m in matches if (t := weigh(graph, m, types, sizes)) is not None]
        _measure(trials, prices, progress)
        chosen: list[Step] = []
        touched: set[int] = set()
        for trial, step in sorted(
            ((trial, judge(trial, prices)) for trial in trials), key=lambda pair: _loss(pair[1])
        ):
            key = (step.rule, step.nodes)
            nodes = set(trial.match.nodes.values())
            values = set(trial.match.values.values())
            if not step.accepted:
                weighed.setdefault(key, step)
                continue
            if touched & nodes or not nodes <= set(graph.nodes):
                continue
            if any(v != ABSENT and _is_gone(graph, v) for v in values):
                continue
            try:
                apply_match(graph, trial.match)
            except RewriteError as error:
                weighed[key] = replace(step, accepted=False, reason=str(error))
                continue
            touched |= nodes
            weighed.pop(key, None)
            chosen.append(step)
        if not chosen:
            break
        steps += chosen
        steps += simplify(graph, simplifier, fold_limit=fold_limit)
        progress("searching", len(steps), 0, f"{len(graph.nodes)} nodes")
    return steps + list(weighed.values())


def _measure(trials: Sequence[Trial], prices: Prices, progress: Report) -> None:
    """Measure what trials need to be decided, as far as the budget goes.

    That is all of their kernels; of those that are predicted, what makes intervals of what goes and
    of what comes overlap, the widest first.
    """

    def tell(done: int, total: int, detail: str) -> None:
        progress("measuring", done, total, detail)

    if prices.model.predictions is None:
        prices.measure([k for trial in trials for k in (*trial.before, *trial.after)], tell)
        return
    prices.model.adapt(k for trial in trials for k in (*trial.before, *trial.after))
    while True:
        often = Counter(k for t in trials if t.is_open(prices) for pair in t.changed for k in pair)
        costs = {kernel: prices.cost(kernel) for kernel in prices.unmeasured(often)}
        open_ = sorted(
            costs, key=lambda k: often[k] * (costs[k].most_ns - costs[k].least_ns), reverse=True
        )[:AT_ONCE]
        if not open_ or prices.remaining_s <= 0:
            return
        before = prices.measured
        prices.measure(open_, tell)
        if prices.measured == before:
            return


def weigh(
    graph: Graph, match: Match, types: Mapping[int, TensorType], sizes: Mapping[str, int]
) -> Trial | None:
    """Apply a match to a copy and list the kernels that go and come; None where it can't apply."""
    checkpoint()
    trial = graph.copy()
    trial.shelve = constant_of
    try:
        added, moves = apply_match(trial, match)
        return _weighed(graph, match, types, sizes, trial, added, moves)
    except (RewriteError, InferenceError):
        return None


def _weighed(
    graph: Graph,
    match: Match,
    types: Mapping[int, TensorType],
    sizes: Mapping[str, int],
    trial: Graph,
    added: list[int],
    moves: Mapping[int, int],
) -> Trial | None:
    names = tuple(graph.node_name(number) for number in match.nodes.values())
    remove_dead(trial)
    added = [number for number in added if number in trial.nodes]
    gone = [number for number in graph.nodes if number not in trial.nodes]
    trial.types = {
        **{value: bind(type_, sizes) for value, type_ in trial.types.items()},
        **types,
        **{new: types[old] for old, new in moves.items() if old in types},
    }
    free: set[int] = set()
    after: list[Kernel] = []
    for number in added:
        node = trial.nodes[number]
        for value, type_ in infer_node(trial, number).items():
            trial.types[value] = sharpen(trial.types.get(value), type_) or type_
        if becomes_constant(trial, node, free):
            free.update(node.outputs)
            continue
        kernel = kernel_of(trial, number, trial.types, constants=free)
        if kernel is None:
            return None
        after.append(kernel)
    before = [kernel_of(graph, number, types) for number in gone]
    if any(kernel is None for kernel in before):
        return None
    return Trial(
        match=match,
        names=names,
        removed=len(gone),
        added=len(added),
        before=tuple(kernel for kernel in before if kernel is not None),
        after=tuple(after),
    )


def judge(trial: Trial, prices: Prices) -> Step:
    """Decide a trial by what is measured."""
    before, after = prices.total(trial.before), prices.total(trial.after)
    rule = trial.match.rule
    step = Step(
        rule=rule.name,
        nodes=trial.names,
        removed=trial.removed,
        added=trial.added,
        accepted=False,
        reason="",
        equal=promise(rule),
        summary=rule.summary,
        correction=correction(rule),
        cost_before_ns=before.ns,
        cost_after_ns=after.ns,
    )
    if "bound" in (before.source, after.source) or trial.is_open(prices):
        return replace(step, reason="not measured within the budget")
    gain = before.ns - after.ns
    noise = (before.spread_ns**2 + after.spread_ns**2) ** 0.5
    change = f"{_microseconds(before)} -> {_microseconds(after)}"
    if "predicted" in (before.source, after.source):
        change += ", predicted"
    if gain > noise:
        return replace(step, accepted=True, reason=f"cheaper: {change}")
    word = "higher cost" if gain < -noise else "not cheaper beyond noise"
    return replace(step, reason=f"{word}: {change}")


def _microseconds(cost: Cost) -> str:
    return f"{cost.ns / 1000:.1f} µs"


def _loss(step: Step) -> float:
    return (step.cost_after_ns or 0.0) - (step.cost_before_ns or 0.0)


def _is_gone(graph: Graph, value: int) -> bool:
    """Tell whether an earlier rewrite of the round took a value away."""
    return (
        value not in graph.constants
        and value not in graph.producer
        and value not in graph.graph_inputs
    )


def order_by_bound(kernels: Iterable[Kernel], prices: Prices) -> list[Kernel]:
    """Sort kernels by their bound, largest first: what a budget is best spent on."""
    distinct = list(dict.fromkeys(kernels))
    return sorted(distinct, key=lambda kernel: -prices.total((kernel,)).ns)
