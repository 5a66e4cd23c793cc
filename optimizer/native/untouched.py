"""What ONNX Runtime's optimizer makes of a model, and the nodes that it leaves as they are."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import onnx

from ...profiles.sessions.execution import Execution
from ...profiles.sessions.session import open_session
from ..graph.graph import Graph


def optimized_nodes(
    source: Path | bytes, execution: Execution, threads: int
) -> dict[str, onnx.NodeProto] | None:
    """Return the nodes of a model as the runtime optimizes it, by the names of what they give.

    None where it can't be written.
    """
    with tempfile.TemporaryDirectory(prefix="tensolog-optimized-") as folder:
        path = Path(folder) / "optimized.onnx"
        try:
            open_session(source, threads=threads, execution=execution, optimized_path=path)
            optimized = onnx.load(str(path), load_external_data=False)
        except Exception:  # whatever the runtime raises
            return None
    return {name: node for node in optimized.graph.node for name in node.output}


def left_alone(graph: Graph, optimized: Mapping[str, onnx.NodeProto] | None) -> set[int]:
    """List the nodes of a graph that are in the model as the runtime optimizes it.

    All of them where nobody knows what it makes of it.
    """
    if optimized is None:
        return set(graph.nodes)
    kept = set()
    for number, node in graph.nodes.items():
        same = optimized.get(graph.names[node.outputs[0]])
        if same is not None and (same.op_type, same.domain) == (node.op_type, node.domain):
            kept.add(number)
    return kept
