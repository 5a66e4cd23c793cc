"""Graph -> kernels: what each node of a model would be measured as."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto

from ..kernel import Kernel, TensorSpec, attribute_value, small_value

Array = np.ndarray[Any, Any]

# Where an input that is computed at run time holds the shape of the output.
_HOLDS_OUTPUT_SHAPE = {("Expand", 1), ("ConstantOfShape", 0), ("Reshape", 1), ("Resize", 3)}


def kernels_of(
    graph: GraphProto,
    shapes: Mapping[str, tuple[str, tuple[int, ...]]],
    constant: Callable[[str], Array | None],
    opsets: Mapping[str, int],
) -> list[tuple[str, Kernel]]:
    """Return (node name, kernel) in node order, for each node whose tensors are all known.

    `shapes` maps a value to (dtype, concrete shape). `constant` returns the array of a constant
    small enough to matter (up to 64 elements), or of a computed value that is known, else None.
    `opsets` maps domains to versions. Initializers and Constant nodes are known at load time. A
    node without a name is named by its first output; Constant nodes are left out.
    """
    constants = {tensor.name for tensor in graph.initializer}
    constants |= {tensor.values.name for tensor in graph.sparse_initializer}
    constants |= {node.output[0] for node in graph.node if node.op_type == "Constant"}
    kernels = []
    for node in graph.node:
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
            continue
        kernel = kernel_of(node, shapes, constant, opsets, constants.__contains__)
        if kernel is not None:
            kernels.append((node.name or next(filter(None, node.output), ""), kernel))
    return kernels


def kernel_of(
    node: NodeProto,
    shapes: Mapping[str, tuple[str, tuple[int, ...]]],
    constant: Callable[[str], Array | None],
    opsets: Mapping[str, int],
    is_constant: Callable[[str], bool],
) -> Kernel | None:
    """Return the kernel of one node; None where an input's dtype or shape is not known."""
    inputs: list[TensorSpec | None] = []
    for position, name in enumerate(node.input):
        if not name:
            inputs.append(None)
            continue
        if name not in shapes:
            return None
        dtype, shape = shapes[name]
        fixed = is_constant(name)
        value = small_value(node.op_type, position, constant(name))
        if value is None and (node.op_type, position) in _HOLDS_OUTPUT_SHAPE and not fixed:
            output = shapes.get(node.output[0])
            if output is not None and shape == (len(output[1]),):
                value = tuple(output[1])
        inputs.append(TensorSpec(dtype, shape, fixed, value))
    outputs = max((place + 1 for place, name in enumerate(node.output) if name), default=0)
    domain = "" if node.domain == "ai.onnx" else node.domain
    attributes = tuple((entry.name, attribute_value(entry)) for entry in node.attribute)
    opset = opsets.get(domain, opsets.get("ai.onnx", 1) if domain == "" else 1)
    return Kernel(domain, node.op_type, opset, attributes, tuple(inputs), outputs)
