"""Which values of a model rules show to be equal, and which rules it takes.

What generates rules asks this: an equality that the rules known so far derive within a bounded
saturation needs no rule of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx

from ...rules import Rule, select_rules
from ...rules.gate.onnx_models import SideModels, draw_sides
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

# Draws of a rule's sizes: at one alone it may be a special case. So many times as many are drawn,
# of which the largest stand: what a rule says of lists and ranks follows from less where a list has
# one item, or a tensor few dimensions. Where sizes are tied, a draw may fail: it is tried anew so
# often.
DRAWS, _TIMES, _SEEDS = 3, 4, 8

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
    rules_by_name = {rule.name: rule for rule in rules}
    egraph, growth = _grown(model, rules_by_name.values(), budget)
    if not all(_equal(egraph, pairs)):
        return None
    used = [a.rule for a in growth.applications if a.united and a.rule in rules_by_name]
    needed = list(dict.fromkeys(used))
    for name in needed[:_MOST_LEFT_OUT]:
        fewer = [rules_by_name[other] for other in needed if other != name]
        if all(derived_equalities(model, pairs, fewer, budget)):
            needed.remove(name)
    return tuple(needed)


def derives(rule: Rule, rules: Iterable[Rule], budget: Budget = BUDGET) -> bool:
    """Whether rules derive another one where its sizes are drawn; not where none can be."""
    other_rules = [other for other in rules if other.name != rule.name]
    drawn = large_sides(rule)
    return bool(drawn) and all(
        all(derived_equalities(*both_sides(sides), other_rules, budget)) for sides in drawn
    )


def large_sides(rule: Rule, draws: int = DRAWS) -> Sequence[SideModels]:
    """Draw a rule's sizes so often, the largest first; none where none can be drawn."""
    tried = (draw_sides(rule, _TIMES * draws, seed, "float32") for seed in range(_SEEDS))
    return sorted(next(filter(None, tried), ()), key=_size, reverse=True)[:draws]


def _size(sides: SideModels) -> tuple[int, int]:
    """How many values the nodes of both sides read and give, and the operands' dimensions."""
    nodes = (*sides.source.graph.node, *sides.target.graph.node)
    values = sum(len(node.input) + len(node.output) for node in nodes)
    return values, sum(len(operand.shape) for operand in sides.operands)


def both_sides(sides: SideModels) -> tuple[onnx.ModelProto, list[Pair]]:
    """One model with the outputs of both sides, and which of them are to be equal."""
    model, target = onnx.ModelProto(), sides.target.graph
    model.CopyFrom(sides.source)
    graph = model.graph
    inputs = {value.name for value in graph.input}
    constants = {value.name for value in graph.initializer}
    names = {name: f"target/{name}" for node in target.node for name in node.output if name}
    for tensor in target.initializer:
        if tensor.name not in inputs and tensor.name not in constants:
            graph.initializer.append(tensor)
    for node in target.node:
        copy = graph.node.add()
        copy.CopyFrom(node)
        copy.name = ""
        copy.input[:] = [names.get(name, name) for name in node.input]
        copy.output[:] = [names.get(name, name) for name in node.output]
    pairs = []
    for value, other in zip(list(graph.output), target.output, strict=True):
        twin = graph.output.add()
        twin.CopyFrom(other)
        twin.name = names.get(other.name, other.name)
        # One more Identity on either side: congruence ends it, so that no rule about it is needed.
        ends = f"source/{value.name}/end", f"{twin.name}/end"
        for name, end in zip((value.name, _behind(graph, twin.name)), ends, strict=True):
            graph.node.append(onnx.helper.make_node("Identity", [name], [end]))
            graph.output.add().CopyFrom(onnx.helper.make_empty_tensor_value_info(end))
        pairs.append(ends)
    return model, pairs


def _behind(graph: onnx.GraphProto, name: str) -> str:
    """What an output that is an Identity copies."""
    producer = {node.output[0]: node for node in graph.node}
    node = producer.get(name)
    return node.input[0] if node is not None and node.op_type == "Identity" else name


def _grown(model: onnx.ModelProto, rules: Iterable[Rule], budget: Budget) -> tuple[EGraph, Growth]:
    graph = load_graph(model)
    refine_types(graph)
    usable = select_rules(tuple(rules), opset=graph.opset(), target=_TARGET, allow=CLASSES)
    egraph = EGraph(graph)
    rules = [rule for rule in usable if _has_one_root(rule)]
    # A law for any operands is one for equal ones, of which the left side has fewer nodes.
    return egraph, saturate(egraph, rules, budget, distinct=False)


def _has_one_root(rule: Rule) -> bool:
    """Whether one node gives all outputs: with several roots any two of their nodes may match."""
    return any(
        {output.value for output in node.outputs} >= set(rule.outputs) for node in rule.match
    )


def _equal(egraph: EGraph, pairs: Sequence[Pair]) -> list[bool]:
    numbers = {name: value for value, name in enumerate(egraph.graph.names)}
    return [egraph.find(numbers[first]) == egraph.find(numbers[other]) for first, other in pairs]
