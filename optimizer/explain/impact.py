"""What a rule would do to models: where it fires, how often, and what that changes in cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...catalog import Catalog
from ...profiles.kernels.costs import CostModel
from ...profiles.machine import cores
from ...rules import Rule
from ..graph.free_sizes import guesses
from ..graph.infer import bound_types
from ..match.matcher import Matcher
from ..match.single_gains import judge, order_by_bound, weigh
from ..phases import Progress
from ..price import Prices, kernels_of_graph
from ..setting import Setting
from ..target import for_rules
from .model_graph import read_graph
from .near_misses import near_misses

if TYPE_CHECKING:
    from ..driver import Source


@dataclass(frozen=True)
class RulePlace:
    """Where a rule fires: the nodes it takes, and what they and their successors cost.

    Costs are None where a shape is not known; `measured` tells them from bounds.
    """

    nodes: tuple[str, ...]
    removed: int
    added: int
    before_ns: float | None = None
    after_ns: float | None = None
    measured: bool = False


@dataclass(frozen=True)
class Impact:
    """A rule in one model. `why_not` says why it can't be applied there at all.

    Places may overlap: at most one of those that share a node is taken. `model_ns` is the sum over
    all of the model's kernels.
    """

    model: str
    nodes: int
    places: tuple[RulePlace, ...]
    near_misses: tuple[str, ...]
    model_ns: float
    why_not: str = ""

    @property
    def gain_ns(self) -> float:
        """What taking every place would save, of what is known; negative for a loss."""
        return sum(
            place.before_ns - place.after_ns
            for place in self.places
            if place.before_ns is not None and place.after_ns is not None
        )

    @property
    def measured(self) -> bool:
        """Whether all costs of the places are measured."""
        return all(place.measured for place in self.places)


def impact_of(
    rule: Rule,
    model: Source,
    *,
    name: str,
    catalog: Catalog,
    budget: float,
    threads: int | None,
    target: str,
    input_shapes: Mapping[str, Sequence[int]] | None,
    progress: Progress | None,
) -> Impact:
    """Find a rule's places in a model as it is, and price them; the model is not changed.

    Kernels are measured for up to `budget` seconds, what is stored in `catalog` is reused, the rest
    is bounded. Raises as `optimize` does.
    """
    tell = progress or (lambda phase, done, total, detail: None)
    setting = Setting(target=for_rules(target), threads=cores() if threads is None else threads)
    with read_graph(model, input_shapes) as read:
        graph, nodes = read.graph, read.nodes_in_file
        sizes = next(guesses(graph, read.sizes))
        types = bound_types(graph, sizes)
        prices = Prices(CostModel(catalog, threads=setting.threads), budget_s=budget)
        if not setting.select([rule], graph, rule.tag):
            total = prices.total(list(kernels_of_graph(graph, types).values())).ns
            why = f"it is not for opset {graph.opset()} or not for {target}"
            return Impact(name, nodes, (), (), total, why)
        tell("matching", 0, 1, name)
        matches = Matcher([rule]).find(graph)
        trials = [(match, weigh(graph, match, types, sizes)) for match in matches]
        kernels = [k for _, trial in trials if trial for k in (*trial.before, *trial.after)]
        prices.measure(
            order_by_bound(kernels, prices),
            lambda done, total, label: tell("measuring", done, total, label),
        )
        places = []
        for match, trial in trials:
            names = tuple(graph.node_name(number) for number in match.nodes.values())
            if trial is None:
                places.append(
                    RulePlace(names, len(match.nodes), len(rule.rewrite) + len(rule.correct))
                )
                continue
            step = judge(trial, prices)
            places.append(
                RulePlace(
                    names,
                    trial.removed,
                    trial.added,
                    step.cost_before_ns,
                    step.cost_after_ns,
                    measured="measured" not in step.reason,
                )
            )
        near = near_misses([rule], graph)
        return Impact(
            name,
            nodes,
            tuple(places),
            tuple(miss.near_miss_json()["detail"] for miss in near),
            prices.total(list(kernels_of_graph(graph, types).values())).ns,
        )
