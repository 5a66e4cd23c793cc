"""Kernels in the runtime's own layout: a convolution timed without the reorders at its ends.

Under full optimization ONNX Runtime computes convolutions and pools in a blocked layout (NCHWc). In
a network whole regions stay in it; a model of one convolution pays for the way in and out, which
can be half of its time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from ..sessions.session import AS_WRITTEN, open_session, run_session

Array = np.ndarray[Any, Any]

_BLOCKED_DOMAIN = "com.microsoft.nchwc"
_BLOCKED = frozenset({"Conv", "FusedConv", "MaxPool", "AveragePool", "GlobalAveragePool",
                      "GlobalMaxPool"})  # fmt: skip


def may_be_blocked(op_type: str, configuration: str) -> bool:
    """Say whether the runtime may choose the blocked layout for this operator."""
    return configuration == "all" and op_type in _BLOCKED


def without_reorders(
    model: bytes, feeds: Mapping[str, Array], threads: int
) -> tuple[bytes, dict[str, Array]] | None:
    """Return the optimized model of one kernel without the reorders at its ends, and its feeds.

    None where the runtime did not choose the blocked layout. Load it with level "disabled": it is
    optimized already. Raises what ONNX Runtime raises.
    """
    with tempfile.TemporaryDirectory(prefix="tensolog-") as folder:
        path = Path(folder) / "kernel.onnx"
        open_session(model, threads=threads, optimized_path=path)
        optimized = onnx.load(str(path))
    graph = optimized.graph
    reorders = [
        node
        for node in graph.node
        if node.domain == _BLOCKED_DOMAIN and node.op_type in {"ReorderInput", "ReorderOutput"}
    ]
    if not reorders:
        return None
    ends = {value.name for value in graph.input} | {value.name for value in graph.output}
    entering = {node.input[0]: node.output[0] for node in reorders if node.input[0] in ends}
    plain_outputs = {node.output[0]: node.input[0] for node in reorders if node.output[0] in ends}
    if len(entering) + len(plain_outputs) != len(reorders):
        return None  # one lies inside: it belongs to the kernel
    blocked = _run(optimized, feeds, list(entering.values()), threads)
    kept = [node for node in graph.node if node not in reorders]
    inputs = [value for value in graph.input if value.name not in entering]
    inputs += [_untyped(value, entering[value.name]) for value in graph.input
               if value.name in entering]  # fmt: skip
    outputs = [onnx.ValueInfoProto(name=plain_outputs.get(value.name, value.name))
               for value in graph.output]  # fmt: skip
    for field, entries in (("node", kept), ("input", inputs), ("output", outputs)):
        graph.ClearField(field)
        getattr(graph, field).extend(entries)
    graph.ClearField("value_info")
    other_feeds = {name: array for name, array in feeds.items() if name not in entering}
    return optimized.SerializeToString(), other_feeds | blocked


def _run(
    model: onnx.ModelProto, feeds: Mapping[str, Array], names: list[str], threads: int
) -> dict[str, Array]:
    """Compute values inside the model, by making them its outputs."""
    if not names:
        return {}
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    session = open_session(shown.SerializeToString(), threads=threads, execution=AS_WRITTEN)
    return dict(zip(names, run_session(session, feeds, names), strict=True))


def _untyped(value: onnx.ValueInfoProto, name: str) -> onnx.ValueInfoProto:
    """Return an input of the same dtype under another name, its shape left open."""
    tensor = onnx.TypeProto.Tensor(elem_type=value.type.tensor_type.elem_type)
    return onnx.ValueInfoProto(name=name, type=onnx.TypeProto(tensor_type=tensor))
