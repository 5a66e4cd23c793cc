"""Prices that owe nothing to a machine, so that a search can be led anywhere."""

import functools
import random

from tensolog.optimizer.egraph.search import search
from tensolog.optimizer.graph.convert import load_graph, to_model
from tensolog.optimizer.graph.infer import infer_types
from tensolog.optimizer.match.rewrite import clean
from tensolog.optimizer.setting import Setting
from tensolog.profiles.kernels.costs import Cost
from tensolog.rules import load_rules

FOLD_LIMIT = 64 * 1024


class Prices:
    """A cost for each kernel, drawn from its hash and a seed; all of them count as measured."""

    predictions = None

    def __init__(self, seed=0, price=None):
        self.seed, self.price, self.remaining_s = seed, price or self.drawn, 1.0
        self.model = self

    def drawn(self, kernel):
        return random.Random(f"{self.seed}/{kernel.hash}").uniform(1, 1000)

    def cost(self, kernel):
        return Cost(0.0 if kernel.is_constant else self.price(kernel), 0.0, "measured")

    def failure(self, kernel):
        return None

    def unmeasured(self, kernels):
        return []

    def measure(self, kernels, progress=None):
        raise AssertionError("everything is measured")


@functools.cache
def shipped_rules():
    """The rules that a search is given: those that passes ask for may need a newer operator set."""
    return [rule for rule in load_rules() if rule.tag != "pass"]


def graph_of(model):
    graph = load_graph(model)
    graph.types = infer_types(graph)
    return graph


def searched(model, rules, seed=0, price=None, target="onnxruntime-cpu", **options):
    """Search a model; returns (the best plan as a model, what was found)."""
    graph = graph_of(model)
    setting = Setting(target=target)
    chosen = [r for tag in ("always", "explore") for r in setting.select(rules, graph, tag)]
    search_result = search(
        graph,
        chosen,
        Prices(seed, price),
        sizes={},
        fold_limit=FOLD_LIMIT,
        **options,
    )
    return modelled(search_result.plans[0]), search_result


def modelled(plan):
    """A plan that was taken out, as a model."""
    clean(plan.graph, FOLD_LIMIT)
    return to_model(plan.graph)
