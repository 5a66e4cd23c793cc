"""Which values of a model rules show to be equal, and which rules it takes.

What generates rules asks this: an equality that the rules known so far derive within a bounded
saturation needs no rule of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx

from ...rules import Rule, select_rules
from ..graph.convert import load_graph
from ..graph.infer import refine_types
from ..setting import CLASSES
from .egraph import EGraph
from .saturation.saturate import Budget, Growth, saturate

# Rounds, e-nodes and matches of a rule in a round: what counts decides alike on any machine.
BUDGET = Budget(rounds=4, nodes=3_000, factor=4, matches=300, seconds=20.0, share=1.0)
_TARGET = "onnx"
# An explanation is made smaller by leaving out one rule after the other, up to so many.
_MOST_LEFT_OUT = 12

Pair = tuple[str, str]


def derived_equalities(
    model: onnx.ModelProto,
    pairs: Sequence[Pair],
    rules: Iterable[Rule],
    budget: Budget = BUDGET,
) -> list[bool]:
    """Say of each pair of outputs whether saturation by the rules makes them one class."""
    egraph, _ = _grown(model, rules, budget)
    return _equal(egraph, pairs)


def derivation(
    model: onnx.ModelProto, pairs: Sequence[Pair], rules: Iterable[Rule], budget: Budget = BUDGET
) -> tuple[str, ...] | None:
    """The names of rules that suffice to make each pair of outputs one class; None if none do.

    None of those named can be left out; () where sums and products in another order suffice.
    """
    known = {rule.name: rule for rule in rules}
    egraph, growth = _grown(model, known.values(), budget)
    if not all(_equal(egraph, pairs)):
        return None
    used = [a.rule for a in growth.applications if a.united and a.rule in known]
    needed = list(dict.fromkeys(used))
    for name in needed[:_MOST_LEFT_OUT]:
        fewer = [known[other] for other in needed if other != name]
        if all(derived_equalities(model, pairs, fewer, budget)):
            needed.remove(name)
    return tuple(needed)


def _grown(model: onnx.ModelProto, rules: Iterable[Rule], budget: Budget) -> tuple[EGraph, Growth]:
    graph = load_graph(model)
    refine_types(graph)
    usable = select_rules(tuple(rules), opset=graph.opset(), target=_TARGET, allow=CLASSES)
    egraph = EGraph(graph)
    return egraph, saturate(egraph, [rule for rule in usable if _has_one_root(rule)], budget)


def _has_one_root(rule: Rule) -> bool:
    """Whether one node gives all outputs: with several roots any two of their nodes may match."""
    return any(
        {output.value for output in node.outputs} >= set(rule.outputs) for node in rule.match
    )


def _equal(egraph: EGraph, pairs: Sequence[Pair]) -> list[bool]:
    numbers = {name: value for value, name in enumerate(egraph.graph.names)}
    return [egraph.find(numbers[first]) == egraph.find(numbers[other]) for first, other in pairs]
