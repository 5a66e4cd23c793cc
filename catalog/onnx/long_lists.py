"""ONNX's inference of shapes, kept from reading long lists element by element.

Shapes are computed from lists, so that with data propagation the inference makes a list of every
one-dimensional tensor that certain operators read, whatever its elements are: 1 us and 100 bytes
for each, and no end of them where a Range gives 2^36 numbers. No shape is that long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx
import onnx.shape_inference
from onnx import helper

from ..operators.contributed import schema
from ..subgraphs import subgraphs
from .operator_sets import effective_imports

# So many elements may be sizes, or a list that sizes are picked from.
LONGEST = 4096
# Operators that give lists of any length, which may be computed.
MAKERS = frozenset({"ConstantOfShape", "Expand", "Pad", "Range", "Resize", "Tile"})
# How often it is looked for the lengths that hang on what lists of others hold.
_MOST_ROUNDS = 4
_Types = Mapping[str, onnx.TypeProto]


def infer_with_data(model: onnx.ModelProto, **options: Any) -> onnx.ModelProto:
    """Infer types and shapes, and small constants on the way; a model of the same nodes.

    Nodes that make lists of what they read get their types without that where one is long. Raises
    what onnx.shape_inference.infer_shapes, which `options` are for, raises.
    """
    infer = onnx.shape_inference.infer_shapes
    types = _types(infer(model).graph)
    readers = _Readers(model)
    for _ in range(_MOST_ROUNDS):
        open_ = {
            name
            for node in model.graph.node
            if node.op_type in MAKERS
            for name in node.output
            if _may_be_list(types.get(name))
        }
        if not any(readers.of(open_)):
            break
        shorter, _ = _without(model, readers.of(open_ | _long_lists(types)), types)
        learned = _types(infer(shorter, data_prop=True).graph)
        if not any(not _may_be_list(learned.get(name)) for name in open_):
            break
        types |= learned
    cut = readers.of(_long_lists(types))
    if not any(cut):
        return infer(model, data_prop=True, **options)
    typed = infer(model, **options)
    shorter, cut_values = _without(model, cut, types)
    inferred = infer(shorter, data_prop=True, **options)
    kept = iter(inferred.graph.node)
    nodes = [typed.graph.node[i] if is_cut else next(kept) for i, is_cut in enumerate(cut)]
    without_data = {value.name for value in cut_values}
    outputs = [
        value if value.name in without_data else with_data
        for value, with_data in zip(typed.graph.output, inferred.graph.output, strict=True)
    ]
    names = {value.name for value in outputs}
    values = [v for v in (*inferred.graph.value_info, *cut_values) if v.name not in names]
    result = onnx.ModelProto()
    result.CopyFrom(model)
    del result.graph.node[:], result.graph.value_info[:], result.graph.output[:]
    result.graph.node.extend(nodes)
    result.graph.value_info.extend(values)
    result.graph.output.extend(outputs)
    return result


def _without(
    model: onnx.ModelProto, cut: list[bool], types: _Types
) -> tuple[onnx.ModelProto, list[onnx.ValueInfoProto]]:
    """Return the model without some nodes, which takes what they give, and these values."""
    rest = onnx.ModelProto()
    rest.CopyFrom(model)
    names = {
        name
        for node, is_cut in zip(model.graph.node, cut, strict=True)
        for name in node.output
        if is_cut and name
    }
    cut_values = [onnx.ValueInfoProto(name=name, type=types.get(name)) for name in sorted(names)]
    declared = [value for value in model.graph.value_info if value.name not in names]
    del rest.graph.node[:], rest.graph.value_info[:]
    rest.graph.node.extend(
        node for node, is_cut in zip(model.graph.node, cut, strict=True) if not is_cut
    )
    rest.graph.value_info.extend(declared)
    rest.graph.input.extend(cut_values)
    return rest, cut_values


class _Readers:
    """Nodes of which the inference would make lists of what they read."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._nodes = model.graph.node
        self._functions = {(function.domain, function.name) for function in model.functions}
        self._imports = effective_imports(model.opset_import)

    def of(self, names: set[str]) -> list[bool]:
        """Mark those that read one of these values, or hold a node that does."""
        return [bool(names) and self._reads(node, names) for node in self._nodes]

    def _reads(self, node: onnx.NodeProto, names: set[str]) -> bool:
        for graph in subgraphs(node):
            if any(self._reads(inner, names) for inner in graph.node):
                return True
        if names.isdisjoint(node.input):
            return False
        if (node.domain, node.op_type) in self._functions:
            return True
        domain = "" if node.domain == "ai.onnx" else node.domain
        opset = self._imports[domain].version if domain in self._imports else 1
        known = schema(node.op_type, opset, domain)
        return known is not None and bool(known.has_data_propagation_function)


def _types(graph: onnx.GraphProto) -> dict[str, onnx.TypeProto]:
    """Give the types in a graph and those within it; of one name, that of the outer one."""
    types: dict[str, onnx.TypeProto] = {}
    for node in graph.node:
        for inner in subgraphs(node):
            types |= _types(inner)
    for item in graph.initializer:
        types[item.name] = helper.make_tensor_type_proto(item.data_type, item.dims)
    values = (*graph.value_info, *graph.input, *graph.output)
    return types | {value.name: value.type for value in values}


def _long_lists(types: _Types) -> set[str]:
    return {name for name, type_ in types.items() if _length(type_) > LONGEST}


def _length(type_: onnx.TypeProto) -> int:
    dims = type_.tensor_type.shape.dim
    return int(dims[0].dim_value) if len(dims) == 1 else 0


def _may_be_list(type_: onnx.TypeProto | None) -> bool:
    """Tell whether it is not known that a value is a list of known length, or none."""
    if type_ is None or not type_.tensor_type.HasField("shape"):
        return True
    dims = type_.tensor_type.shape.dim
    return len(dims) == 1 and not dims[0].HasField("dim_value")
