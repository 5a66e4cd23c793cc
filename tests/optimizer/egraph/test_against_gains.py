"""The default search against the simpler one: its best plan is expected to take no longer."""

import random

import pytest
from tensolog.optimizer.phases import Phases
from tensolog.optimizer.planner import Planner
from tensolog.optimizer.price import Prices, kernels_of_graph
from tensolog.optimizer.setting import Setting
from tensolog.profiles.kernels.costs import Cost

from benchmarks.zoo import build

from .pricing import graph_of, shipped_rules


class Costs:
    """A cost model in which everything is measured: bytes, and a call that costs the more."""

    predictions = None

    def cost(self, kernel):
        drawn = random.Random(kernel.hash).uniform(1500, 2000)
        moved = sum(spec.size_bytes for spec in kernel.inputs if spec is not None) / 20
        return Cost(0.0 if kernel.is_constant else moved + drawn, 0.0, "measured")

    def failure(self, kernel):
        return None

    def unmeasured(self, kernels):
        return []

    def measure(self, kernels, *, budget_s, progress=None):
        return 0


@pytest.mark.parametrize("name", ["bert", "convnext", "inception", "t5"])
def test_the_best_plan_costs_no_more_than_that_of_single_gains(name):
    prices = Prices(Costs(), budget_s=1.0)
    planner = Planner(
        Setting(), Phases(), shipped_rules(), graph_of(build(name, tiny=True)), prices
    )

    def cost(plan):
        return prices.total(list(kernels_of_graph(plan.graph, plan.graph.types).values())).ns

    gained = planner.apply_gains("explored", planner.simplify("simplified"), {})
    bare = planner.simplify("no rules", rules=())
    grown = planner.search_egraph(bare, {}, 2, None)
    assert cost(grown[0]) <= cost(gained) * (1 + 1e-9) < cost(bare)
    assert [step.rule for step in grown[0].steps if step.accepted]
