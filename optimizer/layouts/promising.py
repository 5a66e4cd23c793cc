"""Convolutions in blocks that kernels may compute in less time than the runtime.

What such a kernel takes is measured in a plan that has its convolution in blocks. So for a plan
that is to have kernels these count less than they cost: where the runtime goes into blocks and out
of them again for one convolution, as between normalizations over groups of channels, nothing else
tells the two apart.
"""

from __future__ import annotations

from collections.abc import Collection

from .blocking import Blocking
from .operators.convolutions import CONVOLVE

# What a convolution that a kernel may compute counts, of what the runtime's takes.
PROMISE = 0.5


def promising(blocking: Blocking, filters: Collection[tuple[int, int]]) -> set[int]:
    """E-nodes of convolutions in blocks by filters of some sizes, in one group, at every place."""
    egraph = blocking.egraph
    found: set[int] = set()
    for application in blocking.values.applications:
        if application.rule != CONVOLVE:
            continue
        for node in application.made:
            operation = blocking.operation(node)
            weights = egraph.type(operation.operands[1])
            if weights is None or weights.shape is None:
                continue
            given = operation.attributes
            whole = all(given.get(name, (1, 1)) == (1, 1) for name in ("strides", "dilations"))
            if whole and given.get("group", 1) == 1 and weights.shape[2:] in filters:
                found.add(node)
    return found
