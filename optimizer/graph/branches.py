"""Subgraphs that needn't be: branches whose condition is known, loops of few trips, known too.

No rule says this, since no specification describes what a subgraph means: it is done by code, which
tests compare with ONNX Runtime, and nothing of it is proved. A loop that is too long to be written
out has what doesn't change in it computed once, before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, helper, numpy_helper

from ...catalog.operators import schema_for
from ...catalog.subgraphs import captured_names, free_names, subgraphs
from ...rules import ABSENT
from .convert import tensor_type
from .graph import Constant, Graph, Loader, Node, TensorType

# What a loop may grow to where it is written out.
MOST_TRIPS = 32
MOST_NODES = 128
# Before, Scan went through batches.
_FIRST_SCAN = 9
_BRANCHES = {True: "then_branch", False: "else_branch"}


def inline_branches(graph: Graph) -> int:
    """Put the branch that is taken in the place of each If with a known condition; count them."""
    count = 0
    for number in graph.order():
        node = graph.nodes[number]
        condition = _constant(graph, node.inputs[0]) if node.operator == "If" else None
        if condition is None:
            continue
        body = node.attributes[_BRANCHES[bool(condition.reshape(-1)[0])]].g
        if (load := _loader(graph, [body])) is None:
            continue
        graph.remove_node(number)
        values = _paste(graph, body, _captured(graph, node), load)
        for output, value in zip(node.outputs, values, strict=True):
            _pass_on(graph, value, output)
        count += 1
    return count


def unroll_loops(graph: Graph) -> int:
    """Write out each Loop or Scan of few trips, of known number, that nothing ends early; count."""
    count = 0
    for number in graph.order():
        node = graph.nodes[number]
        trips = _trips(graph, node)
        if trips is None or not 1 <= trips <= MOST_TRIPS:
            continue
        body = node.attributes["body"].g
        if trips * len(body.node) > MOST_NODES or (load := _loader(graph, [body])) is None:
            continue
        _write_out(graph, number, trips, load)
        count += 1
    return count


def write_out(graph: Graph, number: int, trips: int) -> None:
    """Write out so many trips of a Loop or Scan, however many it has; ValueError where none can be.

    What stands behind a loop that runs on after these reads something else than before.
    """
    node = graph.nodes[number]
    body = node.attributes["body"].g
    load = _loader(graph, [body])
    if load is None or (node.operator == "Scan" and graph.opset() < _FIRST_SCAN):
        raise ValueError("a body that can't be taken out of its node")
    _write_out(graph, number, trips, load)


def trips_of(graph: Graph, number: int) -> int | None:
    """How often a Loop or Scan runs; None where that isn't known before it does."""
    return _trips(graph, graph.nodes[number])


def hoist_invariants(graph: Graph) -> int:
    """Compute what is the same in each trip before a Loop or Scan that runs at all; count nodes."""
    count = 0
    for number in graph.order():
        node = graph.nodes[number]
        trips = _trips(graph, node)
        if trips is None or trips < 1:
            continue
        body = node.attributes["body"].g
        moved = _invariant(graph, body)
        if not moved or (load := _loader(graph, [body])) is None:
            continue
        graph.remove_node(number)
        _hoist(graph, number, node, moved, load)
        count += len(moved)
    return count


# ------------------------------------------------------------------ what is known


def _constant(graph: Graph, value: int) -> np.ndarray | None:
    constant = graph.constants.get(value)
    return None if constant is None or constant.type.size_bytes == 0 else constant.array()


def _trips(graph: Graph, node: Node) -> int | None:
    """How often a Loop or Scan runs; None where that isn't known before it does."""
    if node.operator == "Scan":
        return _scanned(graph, node)
    if node.operator != "Loop" or node.inputs[0] == ABSENT:
        return None
    count = _constant(graph, node.inputs[0])
    if count is None:
        return None
    if len(node.inputs) > 1 and node.inputs[1] != ABSENT:
        going = _constant(graph, node.inputs[1])
        if going is None or not going.reshape(-1)[0]:
            return None
    body = node.attributes["body"].g
    return int(count.reshape(-1)[0]) if _goes_on(body) else None


def _scanned(graph: Graph, node: Node) -> int | None:
    """How many elements a Scan goes through; before operator set 9 it meant something else."""
    if graph.opset() < _FIRST_SCAN:
        return None
    scan_inputs = int(node.attributes["num_scan_inputs"].i)
    axes = _scanned_integers(node, "scan_input_axes", scan_inputs)
    for value, axis in zip(node.inputs[len(node.inputs) - scan_inputs :], axes, strict=True):
        shape = graph.shape(value)
        size = None if shape is None else shape[axis]
        if isinstance(size, int):
            return size
    return None


def _scanned_integers(node: Node, name: str, count: int) -> list[int]:
    """An attribute with a number for each input or output that is scanned, 0 by default."""
    proto = node.attributes.get(name)
    return [0] * count if proto is None else list(proto.ints)


def _goes_on(body: GraphProto) -> bool:
    """Whether the condition that a body gives is the one it got, or always true."""
    name = body.output[0].name
    makers = {output: node for node in body.node for output in node.output}
    while name in makers and makers[name].op_type == "Identity":
        name = makers[name].input[0]
    if name == body.input[1].name:
        return True
    for tensor in body.initializer:
        if tensor.name == name and not tensor.external_data:
            return bool(numpy_helper.to_array(tensor).reshape(-1)[0])
    maker = makers.get(name)
    if maker is None or maker.op_type != "Constant":
        return False
    (attribute,) = maker.attribute
    return attribute.type == AttributeProto.TENSOR and bool(
        numpy_helper.to_array(attribute.t).reshape(-1)[0]
    )


def _loader(graph: Graph, bodies: Sequence[GraphProto]) -> Loader | None:
    """How the tensors of bodies are read; None where a body can't be taken out of its node.

    What is nested deeper goes by the names of this one's values, which change.
    """
    for body in bodies:
        names_inside = _names_inside(body)
        if body.sparse_initializer:
            return None
        for node in body.node:
            if any(free_names(inner) & names_inside for inner in subgraphs(node)):
                return None
    outside = [
        constant.load
        for constant in graph.constants.values()
        if isinstance(constant.tensor, TensorProto) and constant.tensor.external_data
    ]
    if outside:
        return outside[0]
    elsewhere = any(tensor.external_data for body in bodies for tensor in body.initializer)
    return None if elsewhere else numpy_helper.to_array


def _names_inside(body: GraphProto) -> set[str]:
    names = {entry.name for entry in (*body.input, *body.initializer)}
    return names | {output for node in body.node for output in node.output}


def _captured(graph: Graph, node: Node) -> dict[str, int]:
    return {graph.names[value]: value for value in node.captures}


# ---------------------------------------------------------------------- taking out


def _paste(graph: Graph, body: GraphProto, bound: Mapping[str, int], load: Loader) -> list[int]:
    """Add the nodes of a body; return its outputs. `bound` are the values of its outer names.

    What a body says of sizes isn't taken over: a name of a size may mean another one each trip.
    """
    values = dict(bound)
    for tensor in body.initializer:
        values[tensor.name] = graph.new_value(tensor.name)
        type_ = tensor_type(helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims)))
        assert type_ is not None
        graph.set_constant(values[tensor.name], Constant(type_, tensor, load))
    for node in body.node:
        outputs = []
        for name in node.output:
            if name:
                values[name] = graph.new_value(name)
            outputs.append(values[name] if name else ABSENT)
        graph.add_node(_node(node, values, outputs))
    return [values[entry.name] for entry in body.output]


def _node(node: NodeProto, values: Mapping[str, int], outputs: Sequence[int]) -> Node:
    captured = set(captured_names(node))
    return Node(
        op_type=node.op_type,
        domain="" if node.domain == "ai.onnx" else node.domain,
        inputs=tuple(values[name] if name else ABSENT for name in node.input),
        outputs=tuple(outputs),
        attributes={attribute.name: attribute for attribute in node.attribute},
        captures=frozenset(values[name] for name in captured),
        name=node.name,
    )


def _pass_on(graph: Graph, value: int, output: int) -> None:
    """Let an output have a value; a rule takes the Identity out where it may."""
    if output != ABSENT:
        graph.add_node(Node("Identity", "", (value,), (output,), {}))


def _write_out(graph: Graph, number: int, trips: int, load: Loader) -> None:
    node = graph.nodes[number]
    graph.remove_node(number)
    unroll = _unroll_scan if node.operator == "Scan" else _unroll
    unroll(graph, node, node.attributes["body"].g, trips, load)


def _unroll(graph: Graph, node: Node, body: GraphProto, trips: int, load: Loader) -> None:
    carried = list(node.inputs[2:])
    rows: list[list[int]] = [[] for _ in node.outputs[len(carried) :]]
    outer = _captured(graph, node)
    count, going, *states = body.input
    for trip in range(trips):
        bound = {
            **outer,
            count.name: graph.add_constant(np.full(_sizes(count), trip, np.int64), count.name),
            going.name: graph.add_constant(np.full(_sizes(going), True), going.name),
            **{state.name: value for state, value in zip(states, carried, strict=True)},
        }
        values = _paste(graph, body, bound, load)[1:]
        carried = values[: len(carried)]
        for row, value in zip(rows, values[len(carried) :], strict=True):
            row.append(value)
    for value, output in zip(carried, node.outputs, strict=False):
        _pass_on(graph, value, output)
    for row, output in zip(rows, node.outputs[len(carried) :], strict=True):
        _stack(graph, row, output)


def _unroll_scan(graph: Graph, node: Node, body: GraphProto, trips: int, load: Loader) -> None:
    scan_inputs = int(node.attributes["num_scan_inputs"].i)
    first = len(node.inputs) - scan_inputs
    carried, sources = list(node.inputs[:first]), node.inputs[first:]
    results = node.outputs[first:]
    rows: list[list[int]] = [[] for _ in results]
    outer = _captured(graph, node)
    axes = _scanned_integers(node, "scan_input_axes", scan_inputs)
    backwards = _scanned_integers(node, "scan_input_directions", scan_inputs)
    for trip in range(trips):
        elements = [
            _element(graph, source, axis, trips - 1 - trip if back else trip)
            for source, axis, back in zip(sources, axes, backwards, strict=True)
        ]
        parameters = [entry.name for entry in body.input]
        bound = {**outer, **dict(zip(parameters, [*carried, *elements], strict=True))}
        values = _paste(graph, body, bound, load)
        carried = values[:first]
        for row, value in zip(rows, values[first:], strict=False):
            row.append(value)
    for value, output in zip(carried, node.outputs, strict=False):
        _pass_on(graph, value, output)
    axes = _scanned_integers(node, "scan_output_axes", len(results))
    backwards = _scanned_integers(node, "scan_output_directions", len(results))
    for row, output, axis, back in zip(rows, results, axes, backwards, strict=False):
        _stack(graph, row[::-1] if back else row, output, axis)


def _element(graph: Graph, source: int, axis: int, place: int) -> int:
    """Take out what stands at a place of an axis, without that axis."""
    source_type = graph.types.get(source)
    type_ = None
    if source_type is not None and source_type.shape is not None:
        rest = [
            size for i, size in enumerate(source_type.shape) if i != axis % len(source_type.shape)
        ]
        type_ = TensorType(source_type.dtype, tuple(rest))
    index = graph.add_constant(np.array(place, np.int64), "place")
    value = graph.new_value(f"{graph.names[source]}_element", type_)
    axis_proto = {"axis": helper.make_attribute("axis", axis)}
    graph.add_node(Node("Gather", "", (source, index), (value,), axis_proto))
    return value


def _sizes(entry: onnx.ValueInfoProto) -> tuple[int, ...]:
    """The shape of a counter or a condition: of rank 0, or 1 where a body says so."""
    return (1,) * len(entry.type.tensor_type.shape.dim)


def _stack(graph: Graph, row: Sequence[int], output: int, axis: int = 0) -> None:
    """Put what the trips give side by side along a new axis."""
    if output == ABSENT:
        return
    attributes: dict[str, AttributeProto] = {}
    extra: tuple[int, ...] = ()
    if graph.opset() >= 13:
        extra = (graph.add_constant(np.array([axis], np.int64), "axes"),)
    else:
        attributes = {"axes": helper.make_attribute("axes", [axis])}
    parts = []
    for value in row:
        value_type = graph.types.get(value)
        shape = None
        if value_type is not None and value_type.shape is not None:
            place = axis % (len(value_type.shape) + 1)
            shape = (*value_type.shape[:place], 1, *value_type.shape[place:])
        type_ = None if value_type is None else TensorType(value_type.dtype, shape)
        parts.append(graph.new_value(f"{graph.names[value]}_row", type_))
        graph.add_node(Node("Unsqueeze", "", (value, *extra), (parts[-1],), attributes))
    along = {"axis": helper.make_attribute("axis", axis)}
    graph.add_node(Node("Concat", "", tuple(parts), (output,), along))


# -------------------------------------------------------------------------- moving


def _invariant(graph: Graph, body: GraphProto) -> list[NodeProto]:
    """The nodes of a body that read nothing which changes from trip to trip, in order."""
    changing = {entry.name for entry in body.input}
    output_names = {entry.name for entry in body.output}
    invariant = []
    for node in body.node:
        spec = schema_for(node.domain, node.op_type, graph.opset(node.domain))
        pure = spec is not None and spec.deterministic and not any(True for _ in subgraphs(node))
        fixed = (
            pure
            and not changing.intersection(node.input)
            and not output_names.intersection(node.output)
        )
        if fixed and node.op_type != "Constant":
            invariant.append(node)
        elif node.op_type != "Constant":
            changing.update(node.output)
    return invariant


def _hoist(graph: Graph, number: int, node: Node, moved: Sequence[NodeProto], load: Loader) -> None:
    """Put a Loop or Scan back without `moved`, which it reads as values of the graph around it."""
    body = GraphProto()
    body.CopyFrom(node.attributes["body"].g)
    outside = GraphProto()
    needed = {name for node in moved for name in node.input}
    outside.initializer.extend(tensor for tensor in body.initializer if tensor.name in needed)
    constants = [
        node for node in body.node if node.op_type == "Constant" and node.output[0] in needed
    ]
    outside.node.extend([*constants, *moved])
    results = [name for node in moved for name in node.output if name]
    outside.output.extend(onnx.ValueInfoProto(name=name) for name in results)
    values = _paste(graph, outside, _captured(graph, node), load)
    names = {name: graph.names[value] for name, value in zip(results, values, strict=True)}
    gone = {name for node in moved for name in node.output}
    kept = [node for node in body.node if not gone.intersection(node.output)]
    del body.node[:]
    for kept_node in kept:
        kept_node.input[:] = [names.get(name, name) for name in kept_node.input]
    body.node.extend(kept)
    read = {name for node in kept for name in node.input} | {output.name for output in body.output}
    initializers = [tensor for tensor in body.initializer if tensor.name in read]
    del body.initializer[:]
    body.initializer.extend(initializers)
    captures = (node.captures | set(values)) & {
        *values,
        *(value for name, value in _captured(graph, node).items() if name in free_names(body)),
    }
    attributes = {**node.attributes, "body": helper.make_attribute("body", body)}
    graph.put_node(number, replace(node, attributes=attributes, captures=captures, proto=None))
