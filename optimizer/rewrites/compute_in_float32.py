"""Models in float16 as the runtime computes them: in float32, cast where they begin and end.

ONNX Runtime has few kernels in float16 for processors: it puts a Cast to float32 before each
operator and one back behind it, takes most of these away again, and widens weights when a session
opens. That hides what it would fuse otherwise, and all that rules, layouts and kernels are for. So
plans for it are derived from the model in float32, where weights are widened once and for all, and
take twice the space:

    f16(Y) = f(f16(X), f16(W))   =   Y = Cast_f16(f(Cast_f32(X), W))

Nothing is rounded between operators then, by a Cast to float16 that the model has either, as the
runtime takes such pairs away, too. Like any plan, it is compared with the original, and judged by
its distance from the model in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from ...rules import Rule
from ..graph.graph import Graph, Node, TensorType
from ..graph.infer import infer_types
from ..graph.raise_opset import raised_for
from ..match.rewrite import Step
from ..setting import Setting

NAME = "ComputeInFloat32"
SUMMARY = "computes in float32 throughout, as the runtime does operator by operator"
HALF, SINGLE = "float16", "float32"
# Domains whose operators take float32 wherever they take float16.
_DOMAINS = frozenset({"", "ai.onnx", "com.microsoft"})
# Attributes that name an element type, and an operator that means the bits of one.
_TYPED = frozenset({"to", "dtype", "output_dtype"})
_BITWISE = "BitCast"
_GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)


def basis_of(graph: Graph, setting: Setting, rules: Sequence[Rule]) -> tuple[Graph, list[Step]]:
    """Return the graph that plans are derived from, and what was done for it.

    In a newer operator set where rules need that (raise_opset.py), and in float32 where all is
    computed in that anyhow.
    """
    basis = raised_for(graph, setting, rules)
    if not setting.contributes:
        return basis, []
    wide = in_float32(basis)
    if wide is None:
        return basis, []
    count = sum(type_.dtype == HALF for type_ in basis.types.values())
    added = len(wide.nodes) - len(basis.nodes)
    reason = f"{count} values in float16, for which the runtime has no kernels of its own"
    step = Step(NAME, (), 0, added, accepted=True, reason=reason, equal="rounding", summary=SUMMARY)
    return wide, [step]


def in_float32(graph: Graph) -> Graph | None:
    """Return the same model in float32 between its inputs and outputs.

    None where nothing in it computes in float16, or where somebody may read what is widened as it
    is: subgraphs, functions, and operators of other domains.
    """
    halves = {value for value, type_ in graph.types.items() if type_.dtype == HALF}
    computed = [
        node for node in graph.nodes.values() if halves & {*node.outputs} and node.op_type != "Cast"
    ]
    if not computed or graph.base.functions or not all(map(_may_widen, graph.nodes.values())):
        return None
    wide = graph.copy()
    wide.base = _without_declared(graph.base)
    for value in halves & wide.constants.keys():
        if value not in wide.graph_outputs:
            array = wide.constants[value].array()
            wide.set_constant(value, wide.shelve(array.astype(np.float32)))
    for number, node in list(wide.nodes.items()):
        attributes = {name: _widened(proto) for name, proto in node.attributes.items()}
        _put(wide, number, replace(node, attributes=attributes, proto=None))
    for value in halves & set(wide.graph_inputs):
        new_value = _new(wide, value)
        wide.replace_uses(value, new_value)
        wide.add_node(_cast(value, new_value, TensorProto.FLOAT))
    for value in halves & set(wide.graph_outputs) & wide.producer.keys():
        new_value = _new(wide, value)
        number = wide.producer[value]
        node = wide.nodes[number]
        wide.replace_uses(value, new_value)
        outputs = tuple(new_value if name == value else name for name in node.outputs)
        _put(wide, number, replace(wide.nodes[number], outputs=outputs))
        wide.add_node(_cast(new_value, value, TensorProto.FLOAT16))
    wide.types = {value: type_ for value, type_ in wide.types.items() if type_.dtype != HALF}
    wide.types = {**infer_types(wide), **wide.types}
    return wide


def _may_widen(node: Node) -> bool:
    has_graph = any(proto.type in _GRAPHS for proto in node.attributes.values())
    return (
        node.domain in _DOMAINS and node.op_type != _BITWISE and not node.captures and not has_graph
    )


def _without_declared(base: onnx.ModelProto) -> onnx.ModelProto:
    """Copy what a graph doesn't hold, without types declared for values in between."""
    kept = onnx.ModelProto()
    kept.CopyFrom(base)
    entries = [
        entry
        for entry in kept.graph.value_info
        if entry.type.tensor_type.elem_type != TensorProto.FLOAT16
    ]
    del kept.graph.value_info[:]
    kept.graph.value_info.extend(entries)
    return kept


def _widened(proto: AttributeProto) -> AttributeProto:
    if proto.name in _TYPED and proto.i == TensorProto.FLOAT16:
        return helper.make_attribute(proto.name, TensorProto.FLOAT)
    if proto.type == AttributeProto.TENSOR and proto.t.data_type == TensorProto.FLOAT16:
        array = numpy_helper.to_array(proto.t).astype(np.float32)
        return helper.make_attribute(proto.name, numpy_helper.from_array(array, proto.t.name))
    return proto


def _put(graph: Graph, number: int, node: Node) -> None:
    graph.remove_node(number)
    graph.put_node(number, node)


def _new(graph: Graph, value: int) -> int:
    type_ = graph.types[value]
    return graph.new_value(f"{graph.names[value]}/{SINGLE}", TensorType(SINGLE, type_.shape))


def _cast(operand: int, result: int, to: int) -> Node:
    attributes = {"to": helper.make_attribute("to", to)}
    return Node("Cast", "", (operand,), (result,), attributes, rule=NAME)
