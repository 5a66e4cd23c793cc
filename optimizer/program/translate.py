"""A program as a graph of ONNX operators, as the rules read it, and back.

What the rules have no say in, sparse values and NumPy's own functions, is a node of a domain that
no rule names. Lists that ONNX passes as inputs are constants in the graph, attributes in a program.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper

from ..graph.graph import Graph, TensorType, attribute_value
from ..graph.graph import Node as GraphNode
from ..match.rewrite import attribute_proto
from .dag import LISTS, Node, Program, type_code
from .own import FUNCTIONS, OPSET
from .rebuild import Builder

# Of the nodes that no rule may touch; they are numbered as in the program.
_OWN = "tensolog"


class TranslationError(Exception):
    """A graph that is no program: a value that no node of a program has."""


def graph_of(program: Program) -> Graph:
    """Return a program as a graph: value n is what node n computes."""
    version = min(OPSET, onnx.defs.onnx_opset_version())
    base = onnx.ModelProto()
    base.opset_import.append(helper.make_opsetid("", version))
    graph = Graph(base, [f"v{node.id}" for node in program.nodes])
    for node in program.nodes:
        graph.types[node.id] = TensorType(node.dtype, node.shape)
        if node.op == "Constant":
            graph.constants[node.id] = _constant(graph, node.attributes["value"], node.dtype)
    for node in program.nodes:
        if not node.is_leaf:
            graph.add_node(_graph_node(graph, program, node))
    graph.graph_inputs = program.inputs
    graph.graph_outputs = program.outputs
    return graph


def _constant(graph: Graph, value: Any, dtype: str) -> Any:
    return graph.shelve(np.asarray(value, dtype=dtype))


def _graph_node(graph: Graph, program: Program, node: Node) -> GraphNode:
    operands = [program.nodes[at] for at in node.inputs]
    own = node.op == "Call" or node.op in FUNCTIONS
    if own or any(one.layout != "dense" for one in (node, *operands)):
        return GraphNode(str(node.id), _OWN, node.inputs, (node.id,), {})
    attributes: dict[str, Any] = {}
    listed = LISTS.get(node.op, ())
    inputs = list(node.inputs)
    for name in listed:
        if name not in node.attributes:
            continue
        value = np.asarray(node.attributes[name], np.int64)
        inputs.append(graph.add_constant(value, f"v{node.id}/{name}"))
    for name, value in node.attributes.items():
        if name not in listed:
            attributes[name] = type_code(node.dtype) if node.op == "Cast" else value
    if node.op.startswith("Reduce") and node.attributes.get("axes") == ():
        attributes["noop_with_empty_axes"] = 1
    protos = {
        name: attribute_proto(graph, "", node.op, name, list(value) if _is_list(value) else value)
        for name, value in attributes.items()
    }
    return GraphNode(node.op, "", tuple(inputs), (node.id,), protos)


def _is_list(value: object) -> bool:
    return isinstance(value, tuple)


def program_of(graph: Graph, before: Program) -> Program:
    """Return the graph, made of a program's, as a program; raise TranslationError if it is none."""
    builder = Builder()
    place: dict[int, int] = {at: builder.keep(before.nodes[at]) for at in before.inputs}

    def operand(value: int) -> int:
        if value not in place:
            constant = graph.constants.get(value)
            if constant is None or constant.array().ndim:
                raise TranslationError(f"{graph.value_name(value)} is no number")
            array = constant.array()
            place[value] = builder.constant(array.item(), array.dtype.name)
        return place[value]

    for number in graph.order():
        node = graph.nodes[number]
        (value,) = node.outputs
        if node.domain == _OWN:
            kept = before.nodes[int(node.op_type)]
            place[value] = builder.copy(kept, [operand(at) for at in node.inputs])
            continue
        type_ = graph.types.get(value)
        if node.domain or type_ is None or type_.shape is None:
            raise TranslationError(f"{node.operator} is no operator of programs")
        # Of what has lists as inputs, the first one is the array.
        count = 1 if node.op_type in LISTS else len(node.inputs)
        shape = tuple(int(extent) for extent in type_.shape)
        attributes = _attributes(graph, node, shape)
        operands = [operand(at) for at in node.inputs[:count]]
        place[value] = builder.add(node.op_type, operands, shape, type_.dtype, attributes)
    outputs = [operand(value) for value in graph.graph_outputs]
    return builder.program([place[at] for at in before.inputs], outputs)


def _attributes(graph: Graph, node: GraphNode, shape: tuple[int, ...]) -> Mapping[str, Any]:
    """Return a node's attributes as a program spells them: none is negative, none is left out."""
    found = {name: attribute_value(proto) for name, proto in node.attributes.items()}
    found.pop("noop_with_empty_axes", None)
    for name, value in zip(LISTS.get(node.op_type, ()), node.inputs[1:], strict=False):
        constant = graph.constant(value)
        if constant is None:
            raise TranslationError(f"{name} of {node.operator} isn't known")
        found[name] = tuple(int(one) for one in constant) if constant.ndim else int(constant)
    extents = tuple(int(extent) for extent in graph.types[node.inputs[0]].shape or ())
    rank = len(extents)
    match node.op_type:
        case "Cast":
            return {"to": graph.types[node.outputs[0]].dtype}
        case "Reshape" | "Expand":
            return {"shape": shape}
        case "Transpose":
            return {"perm": tuple(found.get("perm", reversed(range(rank))))}
        case "Concat" | "CumSum":
            return {"axis": int(found["axis"]) % rank}
        case "Slice":
            return _slice(found, extents)
        case "Unsqueeze":
            return {"axes": tuple(sorted(axis % len(shape) for axis in found["axes"]))}
        case "Squeeze":
            ones = tuple(axis for axis, extent in enumerate(extents) if extent == 1)
            return {"axes": tuple(sorted(axis % rank for axis in found.get("axes", ones)))}
    if node.op_type.startswith("Reduce"):
        axes = found.get("axes", tuple(range(rank)))
        keepdims = int(found.get("keepdims", 1))
        return {"axes": tuple(sorted(axis % rank for axis in axes)), "keepdims": keepdims}
    return found


def _slice(given: Mapping[str, Any], extents: tuple[int, ...]) -> Mapping[str, Any]:
    starts, ends = given["starts"], given["ends"]
    axes = given.get("axes", tuple(range(len(starts))))
    rows = []
    for axis, start, end, step in zip(
        axes, starts, ends, given.get("steps", (1,) * len(starts)), strict=True
    ):
        extent = extents[axis]
        open_end = None if step < 0 and end < -extent else end
        first, last, _ = slice(start, open_end, step).indices(extent)
        rows.append((axis % len(extents), first, last if last >= 0 else -1 - extent, step))
    columns = [tuple(column) for column in zip(*sorted(rows), strict=True)]
    return dict(zip(("axes", "starts", "ends", "steps"), columns, strict=True))
