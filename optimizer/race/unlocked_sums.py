"""Sums that ONNX Runtime adds up in several threads without a lock, so that results vary.

Its ScatterND with a reduction divides the updates among threads; where two of them name one place,
an update can be lost (seen in release 1.32: up to half of an output in a run of thirty). Such a
model is no reference for anything but on one thread.
"""

from __future__ import annotations

from ..graph.graph import Graph


def unlocked_sums(graph: Graph) -> list[str]:
    """Name the nodes whose sums may lack an update where several threads compute them."""
    return [
        graph.node_name(number)
        for number, node in graph.nodes.items()
        if node.operator == "ScatterND"
        and graph.attribute(number, "reduction") not in (None, "none")
    ]
