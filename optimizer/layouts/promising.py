"""Convolutions in blocks that kernels may compute in less time than the runtime.

What such a kernel takes is measured in a plan that has its convolution in blocks. So for a plan
that is to have kernels these count less than they cost: where the runtime goes into blocks and out
of them again for one convolution, as between normalizations over groups of channels, nothing else
tells the two apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..egraph.egraph import EGraph
from ..egraph.provenance import Application
from .blocking import Blocking, Operation, operation_of
from .operators.convolutions import CONVOLUTIONS

# What a convolution that a kernel may compute counts, of what the runtime's takes.
PROMISE = 0.5


def promising(blocking: Blocking, filters: Collection[tuple[int, int]]) -> set[int]:
    """E-nodes of convolutions in blocks by filters of some sizes, in one group, at every place."""
    egraph = blocking.egraph
    promising_nodes: set[int] = set()
    for application in blocking.values.applications:
        if application.rule not in CONVOLUTIONS:
            continue
        for node in application.target_nodes:
            if _is_promising(egraph, blocking.operation(node), filters):
                promising_nodes.add(node)
    return promising_nodes


def frees(
    egraph: EGraph, applications: Iterable[Application], filters: Collection[tuple[int, int]]
) -> bool:
    """Whether a rule has made a convolution that kernels may compute of one that they may not.

    Of a dilated one, say, or one of volumes. What the runtime's kernels cost doesn't tell that such
    a rewrite pays.
    """
    for application in applications:
        if application.refusal or not application.target_nodes:
            continue
        before = [operation_of(egraph, node) for node in application.nodes]
        before = [operation for operation in before if operation.name == "Conv"]
        if before and not any(_is_promising(egraph, operation, filters) for operation in before):
            after = (operation_of(egraph, node) for node in application.target_nodes)
            if any(
                _is_promising(egraph, operation, filters)
                for operation in after
                if operation.name == "Conv"
            ):
                return True
    return False


def _is_promising(
    egraph: EGraph, operation: Operation, filters: Collection[tuple[int, int]]
) -> bool:
    weights = egraph.type(operation.operands[1])
    if weights is None or weights.shape is None:
        return False
    attributes = operation.attributes
    whole = all(tuple(attributes.get(name, (1, 1))) == (1, 1) for name in ("strides", "dilations"))
    return whole and attributes.get("group", 1) == 1 and weights.shape[2:] in filters
