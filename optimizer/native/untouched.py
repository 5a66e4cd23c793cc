"""Nodes that ONNX Runtime's optimizer leaves as they are."""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnx

from ...profiles.sessions.execution import Execution
from ...profiles.sessions.session import open_session
from ..graph.graph import Graph


def left_alone(graph: Graph, source: Path | bytes, execution: Execution, threads: int) -> set[int]:
    """List the nodes of a graph that are in the model as the runtime optimizes it.

    `source` is the graph as a model. All of them where it can't be written: then nobody knows.
    """
    with tempfile.TemporaryDirectory(prefix="tensolog-optimized-") as folder:
        path = Path(folder) / "optimized.onnx"
        try:
            open_session(source, threads=threads, execution=execution, optimized_path=path)
            optimized = onnx.load(str(path), load_external_data=False)
        except Exception:  # whatever the runtime raises
            return set(graph.nodes)
    made = {name: node for node in optimized.graph.node for name in node.output}
    kept = set()
    for number, node in graph.nodes.items():
        same = made.get(graph.names[node.outputs[0]])
        if same is not None and (same.op_type, same.domain) == (node.op_type, node.domain):
            kept.add(number)
    return kept
