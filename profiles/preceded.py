"""Kernels behind what comes before them in a model: all threads awake, inputs just written by them.

A run of a kernel alone begins with waking threads, which takes tens of microseconds on some
machines; a model does that once. And a kernel alone reads what lay still, where in a model each
core finds parts of its input in the cache of another one. So operators are put in front: a product
of matrices, long enough for the slowest thread to join in, and for each input a sum that writes it.
What these take is measured apart.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]

# Rows a thread, and what they are multiplied by: some 0.1 ms on a current core.
_ROWS, _DEPTH = 256, 256
# What the runtime adds up on all threads.
_ADDED = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT32, TensorProto.INT64)


@dataclass(frozen=True)
class Preceded:
    """Serialized models of what comes before and of that with the kernels, and feeds of both."""

    before: bytes
    whole: bytes
    feeds: dict[str, Array]


def preceded(model: bytes, feeds: Mapping[str, Array], threads: int) -> Preceded | None:
    """Put before the nodes of a model what wakes threads and writes its inputs, unchanged.

    None where it has no input that all threads could write. To be loaded as it is written: an
    optimizer would take some of it away.
    """
    whole = onnx.load_model_from_string(model)
    graph = whole.graph
    written = [each for each in graph.input if each.type.tensor_type.elem_type in _ADDED]
    if not written:
        return None
    nodes = [
        helper.make_node("MatMul", ["waking", "by zero"], ["zeros"]),
        helper.make_node("Gather", ["zeros", "first"], ["row of zeros"], axis=0),
        helper.make_node("Gather", ["row of zeros", "first"], ["zero"], axis=0),
    ]
    own = {each.name: f"{each.name} written" for each in written}
    for element in sorted({each.type.tensor_type.elem_type for each in written}):
        nodes.append(helper.make_node("Cast", ["zero"], [f"zero {element}"], to=element))
    for each in written:
        zero = f"zero {each.type.tensor_type.elem_type}"
        nodes.append(helper.make_node("Add", [each.name, zero], [own[each.name]]))
    kernels = list(graph.node)
    for node in kernels:
        node.input[:] = [own.get(name, name) for name in node.input]
    by_zero = numpy_helper.from_array(np.zeros((_DEPTH, _DEPTH), np.float32), "by zero")
    first = numpy_helper.from_array(np.array(0, np.int64), "first")
    waking = np.ones((threads * _ROWS, _DEPTH), np.float32)
    graph.input.append(helper.make_tensor_value_info("waking", TensorProto.FLOAT, waking.shape))
    if all(entry.domain for entry in whole.opset_import):
        whole.opset_import.append(helper.make_opsetid("", 13))
    before = onnx.ModelProto()
    before.CopyFrom(whole)
    _fill(whole, [*nodes, *kernels], [*graph.initializer, by_zero, first])
    _fill(before, nodes, [by_zero, first])
    _keep(before, {name for node in nodes for name in node.input})
    given = {**feeds, "waking": waking}
    return Preceded(before.SerializeToString(), whole.SerializeToString(), given)


def _fill(
    model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto], constants: Sequence[TensorProto]
) -> None:
    """Give a model other nodes and constants."""
    nodes, constants = list(nodes), list(constants)
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(constants)


def _keep(model: onnx.ModelProto, read: Collection[str]) -> None:
    """Leave inputs out that nothing reads, and let the first output be the only one."""
    inputs = [each for each in model.graph.input if each.name in read]
    del model.graph.input[:], model.graph.output[:]
    model.graph.input.extend(inputs)
    model.graph.output.append(onnx.ValueInfoProto(name="zero"))
