"""Constant folding: what depends on constants alone is computed now, by ONNX Runtime itself.

A tensor is only folded where that can't blow the model up: its result is small, or no larger than
what went into it. What is dequantized stays: of integers that are dequantized for one operator the
runtime makes an operator of integers, and of a bias that is folded it makes none.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from ...profiles.kernel import element_type, numpy_dtype
from ...profiles.kernels.faults import DIVISIONS, FATAL_WHEN_EMPTY, fatal_input
from ...profiles.sessions.session import run_session
from ...rules import ABSENT
from .convert import model_around, node_proto
from .graph import Constant, Graph, Node, TensorType
from .simplify import is_pure

FOLD_LIMIT = 64 * 1024
DEQUANTIZE = "DequantizeLinear"
# Results are computed in parts of about this size, and shelved before the next part.
BATCH_BYTES = 32 << 20


def fold_constants(graph: Graph, limit_bytes: int = FOLD_LIMIT) -> int:
    """Fold to a fixpoint; return how many nodes went.

    `limit_bytes` bounds a result that is larger than its constant inputs together.
    """
    folded = 0
    while batch := _foldable(graph, limit_bytes):
        done = _fold_batch(graph, batch, limit_bytes)
        folded += done
        if done == 0:
            break
    return folded


def is_shape_known(graph: Graph, node: Node) -> bool:
    """Tell whether a Shape or Size node asks for what is known before the model runs."""
    if node.operator not in ("Shape", "Size") or not node.inputs:
        return False
    shape = graph.shape(node.inputs[0])
    return shape is not None and all(isinstance(size, int) for size in shape)


def becomes_constant(graph: Graph, node: Node, constants: Iterable[int]) -> bool:
    """Tell whether a node would fold if `constants` were added to the graph's own."""
    if node.operator == DEQUANTIZE:
        return False
    extra = set(constants)
    return is_shape_known(graph, node) or (
        is_pure(graph, node)
        and all(v == ABSENT or v in graph.constants or v in extra for v in node.inputs)
    )


def _foldable(graph: Graph, limit_bytes: int) -> list[int]:
    constants: set[int] = set()
    batch: list[int] = []
    for number in graph.order():
        node = graph.nodes[number]
        if not becomes_constant(graph, node, constants) or not _fits(graph, node, limit_bytes):
            continue
        if not _is_harmless(graph, node):
            continue
        batch.append(number)
        constants.update(value for value in node.outputs if value != ABSENT)
    return batch


def _is_harmless(graph: Graph, node: Node) -> bool:
    """Tell whether running a node can't end the process; its operands must be known for that.

    Where one is computed in the same batch, the node waits for the next.
    """
    if node.op_type not in FATAL_WHEN_EMPTY | DIVISIONS:
        return True
    if any(v != ABSENT and v not in graph.constants for v in node.inputs):
        return False
    arrays = [None if v == ABSENT else graph.constants[v].array() for v in node.inputs]
    return not fatal_input(node.op_type, arrays)


def _fits(graph: Graph, node: Node, limit_bytes: int) -> bool:
    """Decide by the inferred size; an unknown one is decided when the result is there."""
    sizes = [_size(graph.types.get(value)) for value in node.outputs if value != ABSENT]
    if any(size is None for size in sizes):
        return True
    return sum(size for size in sizes if size is not None) <= _allowance(graph, node, limit_bytes)


def _allowance(graph: Graph, node: Node, limit_bytes: int) -> int:
    inputs = [_size(graph.types.get(value)) or 0 for value in node.inputs if value != ABSENT]
    return max(limit_bytes, sum(inputs))


def _size(type_: TensorType | None) -> int | None:
    return None if type_ is None or type_.dtype == "string" else type_.size_bytes


def _fold_batch(graph: Graph, batch: list[int], limit_bytes: int) -> int:
    shapes = [number for number in batch if is_shape_known(graph, graph.nodes[number])]
    for number in shapes:
        node = graph.nodes[number]
        result = _shape_result(graph, number)
        graph.remove_node(number)
        graph.set_constant(node.outputs[0], graph.shelve(result))
    rest = [number for number in batch if number not in set(shapes)]
    folded = len(shapes)
    for part in _parts(graph, rest):
        ready = [number for number in part if _is_ready(graph, number, part)]
        folded += _store(graph, ready, _compute(graph, ready), limit_bytes)
    return folded


def _parts(graph: Graph, batch: list[int]) -> list[list[int]]:
    """Cut a batch so that no part's results take much memory at once."""
    parts: list[list[int]] = [[]]
    room = BATCH_BYTES
    for number in batch:
        room -= sum(_size(graph.types.get(v)) or 0 for v in graph.nodes[number].outputs)
        if room < 0 and parts[-1]:
            parts.append([])
            room = BATCH_BYTES
        parts[-1].append(number)
    return parts


def _is_ready(graph: Graph, number: int, part: list[int]) -> bool:
    """Tell whether what a node reads is known, or is computed along with it."""
    inside = {value for other in part for value in graph.nodes[other].outputs}
    return all(
        v == ABSENT or v in graph.constants or v in inside for v in graph.nodes[number].inputs
    )


def _compute(graph: Graph, batch: list[int]) -> dict[int, np.ndarray]:
    """Compute nodes together or, where that fails, one by one; what can't be is missing."""
    if not batch:
        return {}
    try:
        return _run(graph, batch)
    except Exception:  # one node the runtime has no kernel for must not keep the others
        results: dict[int, np.ndarray] = {}
        for number in batch:
            if all(v == ABSENT or v in graph.constants for v in graph.nodes[number].inputs):
                try:
                    results.update(_run(graph, [number]))
                except Exception:  # the runtime can't compute it now; it stays as it is
                    continue
        return results


def _store(graph: Graph, batch: list[int], results: dict[int, np.ndarray], limit_bytes: int) -> int:
    """Keep what fits; a node whose result is too large stays, and so does all it feeds on."""
    kept_back: set[int] = set()
    for number in reversed(batch):
        node = graph.nodes[number]
        outputs = [value for value in node.outputs if value != ABSENT and _is_read(graph, value)]
        allowed = _allowance(graph, node, limit_bytes)
        if not all(_is_result(graph, value, results.get(value)) for value in outputs) or (
            sum(results[value].nbytes for value in outputs) > allowed
        ):
            kept_back.add(number)
    folded = 0
    for number in batch:
        node = graph.nodes[number]
        outputs = [value for value in node.outputs if value != ABSENT and _is_read(graph, value)]
        if number in kept_back:
            continue
        graph.remove_node(number)
        folded += 1
        for value in outputs:
            graph.set_constant(value, graph.shelve(results[value]))
    return folded


def _is_result(graph: Graph, value: int, result: object) -> bool:
    """Tell whether the runtime gave the tensor that was asked for.

    Sequences are no constants, and the runtime hands float8 over as plain bytes.
    """
    type_ = graph.types.get(value)
    return (
        isinstance(result, np.ndarray)
        and type_ is not None
        and result.dtype == numpy_dtype(type_.dtype)
    )


def _is_read(graph: Graph, value: int) -> bool:
    return bool(graph.users.get(value)) or value in graph.graph_outputs


def _shape_result(graph: Graph, number: int) -> np.ndarray:
    node = graph.nodes[number]
    shape = np.array(graph.shape(node.inputs[0]), np.int64)
    if node.operator == "Size":
        return np.array(shape.prod(), np.int64)
    attributes = graph.attributes(number)
    start, end = attributes.get("start") or 0, attributes.get("end")
    return shape[slice(start, end)]


def _run(graph: Graph, batch: list[int]) -> dict[int, np.ndarray]:
    """Compute the outputs of nodes, given in topological order, in one session."""
    inside = {v for number in batch for v in graph.nodes[number].outputs if v != ABSENT}
    feeds: dict[int, Constant] = {
        value: graph.constants[value]
        for number in batch
        for value in graph.nodes[number].inputs
        if value != ABSENT and value not in inside
    }
    wanted = sorted(value for value in inside if _is_read(graph, value))
    proto = onnx.GraphProto(name="constants")
    proto.node.extend(node_proto(graph, graph.nodes[number]) for number in batch)
    for value, constant in feeds.items():
        proto.input.append(
            helper.make_tensor_value_info(
                graph.names[value], element_type(constant.type.dtype), constant.type.shape
            )
        )
    proto.output.extend(onnx.ValueInfoProto(name=graph.names[value]) for value in wanted)
    model = model_around(graph, proto)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    # Results lie where the session put them: a small one that is kept would hold all of an arena.
    options.enable_cpu_mem_arena = False
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    arrays = run_session(
        session,
        {graph.names[value]: constant.array() for value, constant in feeds.items()},
        [graph.names[value] for value in wanted],
    )
    return dict(zip(wanted, arrays, strict=True))
