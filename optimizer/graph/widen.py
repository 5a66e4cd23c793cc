"""The same model in float64: the reference that rounding errors are measured with.

ONNX Runtime has kernels in float64 for most operators. Sums that it forms in float32 alone are
spelled by others (float64_sums.py): a convolution as products of matrices, tap by tap. What else
has no such kernel runs in float32 between two casts, operators of other domains too where the types
of what they take and give are known; of a function element by element that is a rounding like one
of the original's, of a sum it is told (`narrow_sums`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx.inliner
from onnx import TensorProto, helper, numpy_helper

from ...catalog.onnx.operator_sets import with_effective_imports
from ...profiles.sessions.float64_kernels import runs_in_float64
from .float64_sums import CONTRIBUTED, Shapes, spelled
from .runtime_types import inferred_with_runtime

Double = Callable[[TensorProto], TensorProto]

NARROW = (TensorProto.FLOAT, TensorProto.FLOAT16)
# Sums over which float32 is told where they have no kernel in float64 and are not spelled either.
SUMS = frozenset(
    {
        *("Conv", "ConvTranspose", "GRU", "LSTM", "RNN", "AveragePool", "GlobalAveragePool"),
        *("InstanceNormalization", "LRN", "LpPool", "GlobalLpPool", "MeanVarianceNormalization"),
        *("DeformConv", "Attention", "Einsum", "LpNormalization", *CONTRIBUTED),
    }
)


def why_not_widened(model: onnx.ModelProto) -> str:
    """Say why a model has no counterpart in float64; nothing if it has one.

    In subgraphs a cast might have to stand where nobody sees it, and of operators of other domains
    it has to be known which of what they take and give are floats.
    """
    for node in model.graph.node:
        if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
            return f"{node.op_type} has a graph of its own"
    names = {function.name for function in model.functions}
    known_operators = names | CONTRIBUTED
    for node in (node for function in model.functions for node in function.node):
        if _is_foreign(node) and node.op_type not in known_operators:
            return f"{node.domain}:{node.op_type} is no operator of ONNX's own"
    foreign = [n for n in model.graph.node if _is_foreign(n) and n.op_type not in known_operators]
    typed = _typed_values(_inferred(model)) if foreign else set()
    for node in foreign:
        if not typed.issuperset(filter(None, (*node.input, *node.output))):
            return f"nobody tells the types of {node.domain}:{node.op_type}"
    return ""


def _is_foreign(node: onnx.NodeProto) -> bool:
    return node.domain not in ("", "ai.onnx")


def _typed_values(graph: onnx.GraphProto | None) -> set[str]:
    """Name the values whose element types are known."""
    if graph is None:
        return set()
    entries = (*graph.value_info, *graph.input, *graph.output)
    named = {e.name for e in entries if e.type.tensor_type.elem_type}
    return named | {tensor.name for tensor in graph.initializer}


def narrow_sums(wide: onnx.ModelProto) -> list[str]:
    """Name the sums of a widened model that run in float32 all the same."""
    opset = _opset(wide)
    kinds = dict.fromkeys((node.op_type, node.domain) for node in wide.graph.node)
    return [
        name
        for name, domain in kinds
        if (name in SUMS or domain not in ("", "ai.onnx"))
        and not runs_in_float64(name, opset, domain)
    ]


def widen(model: onnx.ModelProto, double: Double) -> onnx.ModelProto | None:
    """Turn float32 and float16 into float64 throughout; None where `why_not_widened` says why not.

    So it is where declared shapes contradict each other.

    `double` turns a tensor of one of these types into one of float64.
    """
    if why_not_widened(model):
        return None
    wide = onnx.ModelProto()
    model = with_effective_imports(model)
    wide.CopyFrom(onnx.inliner.inline_local_functions(model) if model.functions else model)
    narrow, opset = _inferred(wide), _opset(wide)
    if narrow is None:
        return None
    graph = wide.graph
    del graph.value_info[:]
    for tensor in graph.initializer:
        if tensor.data_type in NARROW:
            tensor.CopyFrom(double(tensor))
    for entry in (*graph.input, *graph.output):
        if entry.type.tensor_type.elem_type in NARROW:
            entry.type.tensor_type.elem_type = TensorProto.DOUBLE
    nodes = [_widened(node, double) for node in graph.node]
    floats, shapes = _float_values(narrow), _shapes(narrow)
    del graph.node[:]
    for node in nodes:
        if runs_in_float64(node.op_type, opset, node.domain):
            graph.node.append(node)
            continue
        by_others = spelled(node, shapes, opset)
        graph.node.extend(_between_casts(node, floats) if by_others is None else by_others)
    return wide


def _opset(model: onnx.ModelProto) -> int:
    return next((int(e.version) for e in model.opset_import if e.domain in ("", "ai.onnx")), 1)


def _inferred(model: onnx.ModelProto) -> onnx.GraphProto | None:
    """Infer types and shapes; None where declared shapes contradict each other.

    The runtime may warn of these, and accept them.
    """
    try:
        return inferred_with_runtime(model).graph
    except Exception:  # the inference raises its own type and, on odd models, plain RuntimeErrors
        return None


def _float_values(graph: onnx.GraphProto) -> set[str]:
    """Name the values known to hold float32 or float16, by ONNX's own inference."""
    entries = (*graph.value_info, *graph.input, *graph.output)
    named = {e.name for e in entries if e.type.tensor_type.elem_type in NARROW}
    return named | {t.name for t in graph.initializer if t.data_type in NARROW}


def _shapes(graph: onnx.GraphProto) -> Shapes:
    """Give the sizes that are known, by value; None for one that is free."""
    shapes: Shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for entry in (*graph.value_info, *graph.input, *graph.output):
        type_ = entry.type.tensor_type
        if type_.HasField("shape"):
            shapes[entry.name] = tuple(
                size.dim_value if size.HasField("dim_value") else None for size in type_.shape.dim
            )
    return shapes


def _widened(node: onnx.NodeProto, double: Double) -> onnx.NodeProto:
    wide = onnx.NodeProto()
    wide.CopyFrom(node)
    for attribute in wide.attribute:
        if attribute.HasField("t") and attribute.t.data_type in NARROW:
            attribute.t.CopyFrom(double(attribute.t))
        if attribute.name in ("to", "dtype") and attribute.i in NARROW:
            attribute.i = TensorProto.DOUBLE
    if node.op_type == "Constant" and node.attribute[0].name in ("value_float", "value_floats"):
        value_attribute = node.attribute[0]
        array = np.array(
            value_attribute.f
            if value_attribute.name == "value_float"
            else list(value_attribute.floats)
        )
        del wide.attribute[:]
        wide.attribute.append(helper.make_attribute("value", numpy_helper.from_array(array)))
    return wide


def _between_casts(node: onnx.NodeProto, floats: set[str]) -> list[onnx.NodeProto]:
    before, after = [], []
    inner = onnx.NodeProto()
    inner.CopyFrom(node)
    for position, name in enumerate(node.input):
        if name in floats:
            inner.input[position] = f"{name}/narrow/{node.output[0]}/{position}"
            before.append(helper.make_node("Cast", [name], [inner.input[position]], to=1))
    for position, name in enumerate(node.output):
        if name in floats:
            inner.output[position] = f"{name}/narrow"
            after.append(helper.make_node("Cast", [inner.output[position]], [name], to=11))
    return [*before, inner, *after]
