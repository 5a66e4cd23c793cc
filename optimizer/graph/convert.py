"""Model to graph and back: everything the graph does not hold stays as it was in the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ...catalog.onnx.operator_sets import with_effective_imports
from ...catalog.operators.contributed import DOMAINS
from ...catalog.subgraphs import captured_names, initializer_names, subgraphs
from ...profiles.kernel import dtype_name, element_type
from ...rules import ABSENT
from .graph import (
    Constant,
    Graph,
    Loader,
    Node,
    TensorType,
    constant_of,
)

FIRST_IR_WITH_OVERRIDABLE_INITIALIZERS = 4


def tensor_type(proto: onnx.TypeProto, stem: str = "") -> TensorType | None:
    """Read a tensor's type; None for a sequence, map, optional, sparse or undeclared one.

    An unnamed unknown dimension gets a name of its own, made from `stem`, so that no two of them
    are ever taken for equal.
    """
    if not proto.HasField("tensor_type") or not proto.tensor_type.elem_type:
        return None
    dtype = dtype_name(proto.tensor_type.elem_type)
    if not proto.tensor_type.HasField("shape"):
        return TensorType(dtype, None)
    return TensorType(
        dtype,
        tuple(
            dim.dim_value
            if dim.HasField("dim_value") and dim.dim_value >= 0
            else dim.dim_param or f"?{stem}.{axis}"
            for axis, dim in enumerate(proto.tensor_type.shape.dim)
        ),
    )


def type_proto(type_: TensorType) -> onnx.TypeProto:
    """Write a tensor's type; made-up names of unknown dimensions are left out again."""
    shape = None
    if type_.shape is not None:
        shape = [
            None if isinstance(size, str) and size.startswith("?") else size for size in type_.shape
        ]
    return helper.make_tensor_type_proto(element_type(type_.dtype), shape)


def names_of(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield every value name that occurs in a graph or in one nested in it."""
    for entry in (*graph.input, *graph.output, *graph.value_info):
        yield entry.name
    yield from initializer_names(graph)
    for node in graph.node:
        yield from node.input
        yield from node.output
        for inner in subgraphs(node):
            yield from names_of(inner)


def constant_initializers(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    """List the initializers that no caller can override.

    From IR version 4 on, one that is also a graph input is only a default. Below it every
    initializer had to be listed as an input, and ONNX Runtime takes all of them as constants.
    """
    if model.ir_version < FIRST_IR_WITH_OVERRIDABLE_INITIALIZERS:
        return list(model.graph.initializer)
    inputs = {entry.name for entry in model.graph.input}
    return [tensor for tensor in model.graph.initializer if tensor.name not in inputs]


def load_graph(model: onnx.ModelProto, load: Loader = numpy_helper.to_array) -> Graph:
    """Build the graph of a model; `load` reads a tensor whose bytes lie elsewhere."""
    proto = model.graph
    constants = {tensor.name: tensor for tensor in constant_initializers(model)}
    reserved = {
        name for node in proto.node for inner in subgraphs(node) for name in names_of(inner)
    }
    reserved.update(tensor.name for tensor in proto.initializer)
    reserved.update(sparse.values.name for sparse in proto.sparse_initializer)
    base = _without_graph(with_effective_imports(model))
    graph = Graph(base=base, names=[], reserved=frozenset(reserved))
    ids: dict[str, int] = {}

    def value(name: str) -> int:
        if not name:
            return ABSENT
        if name not in ids:
            ids[name] = len(graph.names)
            graph.names.append(name)
        return ids[name]

    for name, tensor in constants.items():
        type_ = TensorType(dtype_name(tensor.data_type), tuple(tensor.dims))
        graph.set_constant(value(name), Constant(type_, tensor, load))
    graph.graph_inputs = tuple(
        value(entry.name) for entry in proto.input if entry.name not in constants
    )
    for node in proto.node:
        captured = set(captured_names(node))
        graph.add_node(
            Node(
                op_type=node.op_type,
                domain="" if node.domain == "ai.onnx" else node.domain,
                inputs=tuple(value(name) for name in node.input),
                outputs=tuple(value(name) for name in node.output),
                attributes={attribute.name: attribute for attribute in node.attribute},
                captures=frozenset(value(name) for name in captured),
                name=node.name,
                proto=node,
            )
        )
    graph.graph_outputs = tuple(value(entry.name) for entry in proto.output)
    for entry in (*proto.value_info, *proto.input, *proto.output):
        number = value(entry.name)
        if number not in graph.types:
            type_of_entry = tensor_type(entry.type, entry.name)
            if type_of_entry:
                graph.types[number] = type_of_entry
    graph.reserved = frozenset(reserved - set(ids))
    _absorb_constant_nodes(graph, load)
    return graph


def to_model(graph: Graph) -> onnx.ModelProto:
    """Write the graph as a model; constants that lie elsewhere are referred to.

    An untouched node comes back as it was; a value's declared type comes back where it still
    exists. Graph inputs that only named a constant of an old IR version go with the constant.
    """
    model = onnx.ModelProto()
    model.CopyFrom(graph.base)
    proto = model.graph
    original = graph.base.graph
    order = graph.order()
    used = {value for number in order for value in graph.nodes[number].reads} | set(
        graph.graph_outputs
    )
    live_names = {graph.names[value] for value in used}
    constant_names = {graph.names[value] for value in graph.constants}

    del proto.node[:], proto.initializer[:], proto.value_info[:]
    for number in order:
        proto.node.append(node_proto(graph, graph.nodes[number]))
    kept = [tensor for tensor in original.initializer if tensor.name not in constant_names]
    proto.initializer.extend(
        tensor for tensor in kept if tensor.name in live_names or _is_input(original, tensor.name)
    )
    for value, constant in graph.constants.items():
        if value in used:
            proto.initializer.append(tensor_proto(graph.names[value], constant))

    del proto.input[:]
    inputs = {graph.names[value] for value in graph.graph_inputs}
    initialized = {tensor.name for tensor in proto.initializer}
    proto.input.extend(
        entry for entry in original.input if entry.name in inputs or entry.name in initialized
    )
    if model.ir_version < FIRST_IR_WITH_OVERRIDABLE_INITIALIZERS:
        listed = {entry.name for entry in proto.input}
        for tensor in proto.initializer:
            if tensor.name not in listed:
                shape = list(tensor.dims)
                proto.input.append(
                    helper.make_tensor_value_info(tensor.name, tensor.data_type, shape)
                )
    produced = {graph.names[value] for value in graph.producer}
    proto.value_info.extend(entry for entry in original.value_info if entry.name in produced)
    import_contributed(model)
    return model


def model_around(graph: Graph, proto: onnx.GraphProto) -> onnx.ModelProto:
    """Make a model of other nodes that mean what they do in the graph's own: its operator sets.

    Nothing else of it is copied: the constants of a model that was read whole are as large as it.
    """
    model = onnx.ModelProto(
        ir_version=graph.base.ir_version,
        opset_import=graph.base.opset_import,
        functions=graph.base.functions,
        graph=proto,
    )
    import_contributed(model)
    return model


def import_contributed(model: onnx.ModelProto) -> None:
    """Import the operator sets that rules bring operators of, where nodes use them."""
    imported = {entry.domain for entry in model.opset_import}
    for domain in sorted({node.domain for node in model.graph.node} & DOMAINS.keys() - imported):
        model.opset_import.add(domain=domain, version=DOMAINS[domain])


def node_proto(graph: Graph, node: Node) -> onnx.NodeProto:
    """Write one node."""
    proto = onnx.NodeProto()
    if node.proto is not None:
        proto.CopyFrom(node.proto)
    else:
        proto.op_type = node.op_type
        if node.domain:
            proto.domain = node.domain
        if node.name:
            proto.name = node.name
        proto.attribute.extend(node.attributes.values())
    del proto.input[:], proto.output[:]
    proto.input.extend("" if value == ABSENT else graph.names[value] for value in node.inputs)
    proto.output.extend("" if value == ABSENT else graph.names[value] for value in node.outputs)
    return proto


def tensor_proto(name: str, constant: Constant) -> onnx.TensorProto:
    """Write a constant under a name; one that lies elsewhere stays there."""
    if isinstance(constant.tensor, np.ndarray):
        return numpy_helper.from_array(constant.tensor, name)
    tensor = onnx.TensorProto()
    tensor.CopyFrom(constant.tensor)
    tensor.name = name
    return tensor


def _is_input(graph: onnx.GraphProto, name: str) -> bool:
    return any(entry.name == name for entry in graph.input)


def _without_graph(model: onnx.ModelProto) -> onnx.ModelProto:
    """Copy a model without nodes; constants stay, as the skeleton holds no large ones."""
    base = onnx.ModelProto()
    base.CopyFrom(model)
    del base.graph.node[:]
    return base


def _absorb_constant_nodes(graph: Graph, load: Loader) -> None:
    """Turn Constant nodes into constants, which is what every rule takes them for."""
    for number, node in list(graph.nodes.items()):
        if node.operator != "Constant" or len(node.attributes) != 1:
            continue
        (attribute,) = node.attributes.values()
        constant = _constant_attribute(attribute, load)
        if constant is None or attribute.ref_attr_name:
            continue
        graph.remove_node(number)
        graph.set_constant(node.outputs[0], constant)


def _constant_attribute(attribute: onnx.AttributeProto, load: Loader) -> Constant | None:
    if attribute.name == "value":
        tensor = attribute.t
        return Constant(TensorType(dtype_name(tensor.data_type), tuple(tensor.dims)), tensor, load)
    scalars: dict[str, Callable[[], np.ndarray]] = {
        "value_float": lambda: np.array(attribute.f, np.float32),
        "value_floats": lambda: np.array(list(attribute.floats), np.float32),
        "value_int": lambda: np.array(attribute.i, np.int64),
        "value_ints": lambda: np.array(list(attribute.ints), np.int64),
    }
    make = scalars.get(attribute.name)
    return constant_of(make()) if make else None
