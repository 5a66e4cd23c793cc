"""A model of an older operator set as one of a newer one, where rules need that.

From release 18 on, all reductions have their axes as an input, which many rules speak of; exporters
still write 13 to 17. Each node is looked at: what its operator meant then it must mean now, by the
changes between the releases (github.com/onnx/onnx/blob/main/docs/Changelog.md), or be written anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx
from onnx import AttributeProto, helper

from ...catalog.operators import schema_for
from ...rules import ABSENT, Rule
from ..setting import Setting
from .graph import Graph, Node

OLDEST, RAISED = 13, 18
# Files that may contain the newer operator set.
IR_VERSION = 8
# Those whose axes were an attribute, and are an input now.
REDUCTIONS = frozenset(
    {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean"}
    | {"ReduceMin", "ReduceProd", "ReduceSumSquare"}
)
# Those that took more types since, more attributes with a default that is what they did, or inputs
# that may be left out.
WIDENED = frozenset(
    {"Add", "CumSum", "Div", "GRU", "GreaterOrEqual", "Identity", "LSTM", "LeakyRelu"}
    | {"LessOrEqual", "LpPool", "Mul", "PRelu", "Pad", "Pow", "RNN", "Relu", "Reshape", "Resize"}
    | {"ScatterElements", "ScatterND", "Shape", "Size", "Sub", "Where"}
)
SUBGRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)


def raised_for(graph: Graph, setting: Setting, rules: Sequence[Rule]) -> Graph:
    """Return the graph for a newer operator set if more of `rules` may match in it, or itself.

    What is for any runtime stays in its own set: the one it is for may know no newer one. Nodes and
    values keep their numbers and names.
    """
    if not setting.for_runtime or not OLDEST <= graph.opset() < RAISED:
        return graph
    newer = raised(graph)
    if newer is None or _count(newer, setting, rules) <= _count(graph, setting, rules):
        return graph
    return newer


def raised(graph: Graph) -> Graph | None:
    """Return the same model in the newer operator set; None where a node's operator has changed."""
    if graph.base.functions:  # they have operator sets of their own
        return None
    opset = graph.opset()
    changed = [number for number, node in graph.nodes.items() if _has_changed(node, opset)]
    if not all(_is_understood(graph.nodes[number]) for number in changed):
        return None
    newer = graph.copy()
    newer.base = onnx.ModelProto()
    newer.base.CopyFrom(graph.base)
    newer.base.ir_version = max(IR_VERSION, graph.base.ir_version)
    for entry in newer.base.opset_import:
        if entry.domain in ("", "ai.onnx"):
            entry.version = RAISED
    for number in changed:
        _rewrite(newer, number)
    return newer


def _count(graph: Graph, setting: Setting, rules: Sequence[Rule]) -> int:
    """Count the rules that may be applied, and whose operators there are."""
    there = {node.operator for node in graph.nodes.values()}
    chosen = (rule for tag in ("always", "explore") for rule in setting.select(rules, graph, tag))
    return sum(
        all(any(name in there for name in node.operators) for node in rule.match) for rule in chosen
    )


def _has_changed(node: Node, opset: int) -> bool:
    if any(proto.type in SUBGRAPHS for proto in node.attributes.values()):
        return True
    if node.domain not in ("", "ai.onnx"):
        return False
    versions = [schema_for("", node.op_type, release) for release in (opset, RAISED)]
    return versions[0] is None or versions[0] != versions[1]


def _is_understood(node: Node) -> bool:
    if any(proto.type in SUBGRAPHS for proto in node.attributes.values()):
        return False
    if node.op_type == "BatchNormalization":  # in training it gives more, and means something else
        return sum(value != ABSENT for value in node.outputs) == 1
    return node.op_type in REDUCTIONS or node.op_type in WIDENED or node.op_type == "Split"


def _rewrite(graph: Graph, number: int) -> None:
    """Put a node as the newer operator set has it, under its number and name."""
    node = graph.nodes[number]
    attributes, inputs = dict(node.attributes), node.inputs
    if node.op_type in REDUCTIONS:
        proto = attributes.pop("axes", None)
        axes = [] if proto is None else list(proto.ints)
        if axes:
            inputs = (*inputs, graph.add_constant(np.array(axes, np.int64), "axes"))
    elif node.op_type == "Split" and (len(inputs) < 2 or inputs[1] == ABSENT):
        count = len(node.outputs)
        attributes["num_outputs"] = helper.make_attribute("num_outputs", count)
    else:
        return
    graph.remove_node(number)
    graph.put_node(number, replace(node, inputs=inputs, attributes=attributes, proto=None))
