"""Where a fused operator would multiply what a sparse value doesn't store.

SciPy doesn't see those places. In a kernel they are zeros, and 0 times NaN is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..program.dag import Node
from .graph import Graph


def multiplies_unstored(graph: Graph, covered: Iterable[int], driver: int | None) -> bool:
    """Whether covered nodes, in topological order, multiply at places that aren't stored.

    Visited are all places, or those that `driver` stores: the ones of what is made of it alone.
    """
    visited = set() if driver is None else {driver}
    for number in covered:
        operands = [graph.nodes[one.node] for one in graph.operands[number]]
        is_sparse = graph.nodes[number].nnz is not None
        if visited.issuperset(one.id for one in operands if one.nnz is not None):
            if is_sparse:
                visited.add(number)
        elif graph.kinds[number] == "contraction" or (
            graph.kinds[number] == "elementwise"
            and is_sparse
            and any(one.nnz is None and not _is_finite(one) for one in operands)
        ):
            return True
    return False


def _is_finite(node: Node) -> bool:
    return node.op == "Constant" and math.isfinite(node.attributes["value"])
