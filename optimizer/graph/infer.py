"""Types of values: of a whole graph, of it under given sizes of free dimensions, of new nodes."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import helper, numpy_helper, shape_inference

from ...catalog.operators import schema_for
from ...profiles.kernel import element_type
from ...rules import ABSENT
from .convert import model_around, node_proto, tensor_type, type_proto
from .graph import Constant, Graph, TensorType
from .runtime_types import inferred_with_runtime

# Constants up to this size can decide a shape (Reshape's target, Slice's starts); larger ones are
# shown to the inference by type alone.
SHAPE_DECIDING_BYTES = 4096


def infer_types(graph: Graph, sizes: Mapping[str, int] | None = None) -> dict[int, TensorType]:
    """Infer every value's type that ONNX's own shape inference can, or the runtime's.

    `sizes` binds names of free dimensions; types that were declared for intermediate values are
    not consulted then, as they speak of the free ones.
    """
    model = _typed_model(graph, sizes)
    try:
        inferred = inferred_with_runtime(model)
    except Exception:  # the inference raises its own type and, on odd models, plain RuntimeErrors
        inferred = model
    ids = {name: number for number, name in enumerate(graph.names)}
    types = {value: constant.type for value, constant in graph.constants.items()}
    for entry in (*inferred.graph.value_info, *inferred.graph.output, *inferred.graph.input):
        number = ids.get(entry.name)
        if number is not None and number not in types:
            type_ = tensor_type(entry.type, entry.name)
            if type_ is not None:
                types[number] = type_
    return types


def bound_types(graph: Graph, sizes: Mapping[str, int]) -> dict[int, TensorType]:
    """Give the types under the sizes that costs are asked for.

    As they are inferred from those, and by the names that sizes have in the graph's own types: how
    many elements a Range has is told by its name alone.
    """
    if not sizes:
        return dict(graph.types)
    types = infer_types(graph, sizes)
    for value, type_ in graph.types.items():
        sharper = sharpen(types.get(value), bind(type_, sizes))
        if sharper is not None and same_type(types.get(value), sharper):
            types[value] = sharper
    return types


def refine_types(graph: Graph) -> bool:
    """Infer types again where more is known by now, in place; tell whether that led anywhere."""
    before = dict(graph.types)
    for value, type_ in infer_types(graph).items():
        type_before = graph.types.get(value)
        if type_before is None or same_type(type_before, type_):
            sharper = sharpen(type_before, type_)
            if sharper is not None:
                graph.types[value] = sharper
    return graph.types != before


def infer_node(graph: Graph, number: int) -> dict[int, TensorType]:
    """Infer the output types of one node from its inputs' types; {} where ONNX has no schema.

    Raises onnx.shape_inference.InferenceError where the node is ill-typed.
    """
    node = graph.nodes[number]
    version = graph.opset(node.domain)
    if schema_for(node.domain, node.op_type, version) is None:
        return {}
    schema = onnx.defs.get_schema(node.op_type, version, node.domain)
    types: dict[str, onnx.TypeProto] = {}
    data: dict[str, onnx.TensorProto] = {}
    for value in node.inputs:
        if value == ABSENT or value not in graph.types:
            continue
        types[graph.names[value]] = type_proto(graph.types[value])
        constant = graph.constants.get(value)
        if constant is not None and _decides_shapes(constant):
            data[graph.names[value]] = numpy_helper.from_array(constant.array())
    try:
        inferred = shape_inference.infer_node_outputs(
            schema,
            node_proto(graph, node),
            types,
            data,
            opset_imports=list(graph.base.opset_import),
            ir_version=graph.base.ir_version,
        )
    except onnx.checker.ValidationError as error:  # operands of two types where one is asked
        raise shape_inference.InferenceError(str(error)) from error
    result: dict[int, TensorType] = {}
    for value in node.outputs:
        if value != ABSENT and graph.names[value] in inferred:
            type_ = tensor_type(inferred[graph.names[value]], graph.names[value])
            if type_ is not None:
                result[value] = type_
    return result


def bind(type_: TensorType, sizes: Mapping[str, int]) -> TensorType:
    """Put sizes in the place of named dimensions."""
    if type_.shape is None:
        return type_
    return TensorType(
        type_.dtype,
        tuple(sizes.get(size, size) if isinstance(size, str) else size for size in type_.shape),
    )


def _decides_shapes(constant: Constant) -> bool:
    size = constant.type.size_bytes
    return size is not None and size <= SHAPE_DECIDING_BYTES and constant.type.dtype != "string"


def _typed_model(graph: Graph, sizes: Mapping[str, int] | None) -> onnx.ModelProto:
    proto = onnx.GraphProto(name="types")
    for value in graph.graph_inputs:
        if value in graph.types:
            type_ = type_proto(bind(graph.types[value], sizes or {}))
            proto.input.append(helper.make_value_info(graph.names[value], type_))
    declared = {entry.name: entry for entry in (*graph.base.graph.input, *graph.base.graph.output)}
    for value in graph.graph_inputs:
        if value not in graph.types and graph.names[value] in declared:
            proto.input.append(declared[graph.names[value]])
    for value, constant in graph.constants.items():
        name = graph.names[value]
        if _decides_shapes(constant):
            tensor = numpy_helper.from_array(constant.array(), name)
            proto.initializer.append(tensor)
        else:
            type_ = helper.make_tensor_type_proto(
                element_type(constant.type.dtype), constant.type.shape
            )
            proto.input.append(helper.make_value_info(name, type_))
    # Defaults that a caller may override have a type, but no value to reason with.
    defined_names = {entry.name for entry in proto.input} | {t.name for t in proto.initializer}
    for tensor in graph.base.graph.initializer:
        if tensor.name not in defined_names and tensor.name in declared:
            proto.input.append(declared[tensor.name])
    for number in graph.order():
        proto.node.append(node_proto(graph, graph.nodes[number]))
    for value in graph.graph_outputs:
        name = graph.names[value]
        if sizes:
            proto.output.append(onnx.ValueInfoProto(name=name))
        elif name in declared:
            proto.output.append(declared[name])
    model = model_around(graph, proto)
    if not sizes:
        produced = {graph.names[value] for value in graph.producer}
        model.graph.value_info.extend(
            entry for entry in graph.base.graph.value_info if entry.name in produced
        )
    return model


def same_type(old: TensorType | None, new: TensorType | None) -> bool:
    """Tell whether two types can be the same one: no known part of them differs."""
    if old is None or new is None:
        return True
    if old.dtype != new.dtype:
        return False
    if old.shape is None or new.shape is None:
        return True
    if len(old.shape) != len(new.shape):
        return False
    return all(
        a == b or isinstance(a, str) or isinstance(b, str)
        for a, b in zip(old.shape, new.shape, strict=True)
    )


def sharpen(old: TensorType | None, new: TensorType | None) -> TensorType | None:
    """Take of two types of one value what is known better in each dimension."""
    if old is None or new is None or new.shape is None:
        return old or new
    if old.shape is None:
        return new
    return TensorType(
        old.dtype,
        tuple(
            min(pair, key=lambda size: (isinstance(size, str), str(size).startswith("?")))
            for pair in zip(old.shape, new.shape, strict=True)
        ),
    )
