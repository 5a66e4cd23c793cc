"""Of predicted kernels those are measured that may change the plan: against measuring all."""

import random

import pytest
from tensolog.optimizer.egraph import search as module
from tensolog.optimizer.egraph.active_measurement import cheapest_within_intervals
from tensolog.optimizer.egraph.egraph import EGraph
from tensolog.optimizer.egraph.extraction.e_node_costs import Costs
from tensolog.optimizer.egraph.extraction.extract import MOST_STEPS
from tensolog.optimizer.egraph.extraction.merges import MergeResult
from tensolog.optimizer.egraph.extraction.problem import cost_of
from tensolog.optimizer.egraph.saturation.saturate import saturate
from tensolog.optimizer.egraph.search import search
from tensolog.optimizer.price import Prices
from tensolog.optimizer.setting import Setting
from tensolog.profiles.kernels.costs import Cost

from benchmarks.zoo import build

from .pricing import FOLD_LIMIT, graph_of, shipped_rules
from .pricing import Prices as DrawnPrices


class Uncertain:
    """A cost model whose predictions are off by up to a factor, and true once measured."""

    def __init__(self, seed, factor):
        self.true, self.seed, self.factor = DrawnPrices(seed), seed, factor
        self.known = set()
        self.predictions = self

    def cost(self, kernel):
        true = self.true.cost(kernel)
        if kernel.is_constant or kernel.hash in self.known:
            return true
        off = self.factor ** random.Random(f"off {self.seed}/{kernel.hash}").uniform(-1, 1)
        return Cost(true.ns * off, 0.0, "predicted", self.factor)

    def failure(self, kernel):
        return None

    def adapt(self, kernels):
        pass

    def unmeasured(self, kernels):
        distinct = {kernel.hash: kernel for kernel in kernels}
        return [k for key, k in distinct.items() if key not in self.known and not k.is_constant]

    def measure(self, kernels, *, budget_s, progress=None):
        self.known |= {kernel.hash for kernel in kernels}
        return len(kernels)


def cheapest(model, prices):
    graph = graph_of(model)
    rules = rules_of(graph)
    return search(graph, rules, prices, sizes={}, fold_limit=FOLD_LIMIT, rounding=False)


def rules_of(graph):
    setting, tags = Setting(target="onnxruntime-cpu"), ("always", "explore")
    return [rule for tag in tags for rule in setting.select(shipped_rules(), graph, tag)]


@pytest.mark.parametrize(("name", "seed"), [("bert", 0), ("bert", 1), ("nasrnn", 2), ("dlrm", 3)])
def test_the_plan_is_that_of_measuring_everything(name, seed, monkeypatch):
    """With time enough, intervals that hold lead to the best plan, and spare measurements."""
    monkeypatch.setattr(module, "merge", unmerged)
    model, uncertain = build(name, tiny=True), Uncertain(seed, 1.5)
    search_result = cheapest(model, Prices(uncertain, budget_s=1e9))
    best = cheapest(model, DrawnPrices(seed))
    true = {choice.node: uncertain.true.cost(search_result.costs.kernel(choice.node)).ns
            for choice in search_result.extraction.selection.values()}  # fmt: skip
    assert sum(true.values()) == pytest.approx(best.extraction.cost)
    every = set()
    for node in search_result.egraph.columns.living().tolist():
        kernel = search_result.costs.kernel(node)
        if kernel is not None and not kernel.is_constant:
            every.add(kernel.hash)
    assert len(uncertain.known) < len(every)


def test_without_time_what_is_predicted_is_used():
    model, uncertain = build("bert", tiny=True), Uncertain(0, 1.0001)
    search_result = cheapest(model, Prices(uncertain, budget_s=0.0))
    assert not uncertain.known
    best = cheapest(model, DrawnPrices(0))
    assert search_result.cost_ns == pytest.approx(best.cost_ns, rel=1e-3)


def test_what_is_certain_is_not_measured():
    graph, uncertain = graph_of(build("dlrm", tiny=True)), Uncertain(0, 1.0)
    egraph = EGraph(graph, {}, FOLD_LIMIT)
    saturate(egraph, rules_of(graph), rounding=False)
    costs = Costs(egraph, Prices(uncertain, budget_s=1e9))
    best, own_ns = cheapest_within_intervals(egraph, costs, MOST_STEPS)
    assert best.cost < own_ns and not uncertain.known


def unmerged(egraph, rules, costs, selection):
    """Leave merges of neighbours away: whether they are tried depends on the plan before them."""
    return MergeResult(selection, cost_of(selection, selection), [], 0, [])
