"""Types of values that ONNX knows no schema for: the runtime tells those of operators of its own.

Models of language are written with these (GroupQueryAttention, SimplifiedLayerNormalization), and
what follows one would be of no known type, so that no rule and no kernel fits.
"""

from __future__ import annotations

import onnx
from onnx import helper

from ...catalog.onnx.long_lists import infer_with_data
from ...catalog.operators import schema_for
from ...catalog.operators.contributed import register_imported
from ...profiles.sessions.session import AS_WRITTEN, open_session

# Domains whose operators the runtime has without a library.
_DOMAINS = frozenset({"", "ai.onnx", "com.microsoft"})
# Constants of so many bytes may decide a shape: larger ones are shown by type alone.
_SHOWN_BYTES = 4096
_ELEMENTS = {
    f"tensor({name.lower()})": number for name, number in onnx.TensorProto.DataType.items()
}


def inferred_with_runtime(model: onnx.ModelProto) -> onnx.ModelProto:
    """Infer types and shapes as onnx does, behind operators that only the runtime knows as well."""
    register_imported(model)
    inferred = infer_with_data(model)
    versions = {entry.domain: entry.version for entry in model.opset_import}
    if all(_is_known(node, versions) for node in model.graph.node):
        return inferred
    graph = inferred.graph
    typed = {entry.name for entry in (*graph.value_info, *graph.input) if _has_shape(entry)}
    untyped = [
        name
        for node in graph.node
        for name in node.output
        if name and name not in typed and not _is_known(node, versions)
    ]
    typed_by_runtime = _typed_by_runtime(model, untyped) if untyped else []
    if not typed_by_runtime:
        return inferred
    declared = onnx.ModelProto()
    declared.CopyFrom(model)
    names = {entry.name for entry in typed_by_runtime}
    kept = [entry for entry in declared.graph.value_info if entry.name not in names]
    del declared.graph.value_info[:]
    declared.graph.value_info.extend([*kept, *typed_by_runtime])
    return infer_with_data(declared)


def _is_known(node: onnx.NodeProto, versions: dict[str, int]) -> bool:
    """Tell whether onnx can infer what a node gives, or nobody but a library of others can."""
    if node.domain not in _DOMAINS:
        return True
    return schema_for(node.domain, node.op_type, versions.get(node.domain, 1)) is not None


def _has_shape(entry: onnx.ValueInfoProto) -> bool:
    return bool(entry.type.HasField("tensor_type") and entry.type.tensor_type.HasField("shape"))


def _typed_by_runtime(model: onnx.ModelProto, names: list[str]) -> list[onnx.ValueInfoProto]:
    """Ask the runtime for the types of some values; none where it can't open the model so."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    graph = bare.graph
    input_names = {entry.name for entry in graph.input}
    shown = []
    for tensor in graph.initializer:
        is_here = tensor.data_location != onnx.TensorProto.EXTERNAL
        if is_here and tensor.ByteSize() <= _SHOWN_BYTES:
            shown.append(tensor)
        elif tensor.name not in input_names:
            type_ = helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))
            graph.input.append(helper.make_value_info(tensor.name, type_))
    shown = [onnx.TensorProto.FromString(tensor.SerializeToString()) for tensor in shown]
    del graph.initializer[:], graph.output[:]
    graph.initializer.extend(shown)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    try:
        session = open_session(bare.SerializeToString(), threads=1, execution=AS_WRITTEN)
    except Exception:  # whatever it lacks: what onnx knows has to do
        return []
    return [
        helper.make_tensor_value_info(entry.name, _ELEMENTS[entry.type], entry.shape)
        for entry in session.get_outputs()
        if entry.type in _ELEMENTS
    ]
