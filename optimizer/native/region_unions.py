"""Regions of a graph over one frame as one kernel, which gives the results of all (joining.py).

Whether that gains is measured, as the unions are raced beside their parts.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

from ..codegen.expressions import LoweringError
from ..codegen.joining import MOST_STREAMS, join
from .grow import MOST_NODES
from .kernel import RegionKernel
from .loops.kernel_region import Meanings, Region, needed_outside, read_by
from .loops.lower import lower_region

# What a free dimension counts for where savings are compared.
FREE_SIZE = 64


def joined(meanings: Meanings, parts: Sequence[RegionKernel]) -> list[RegionKernel]:
    """Return the unions of regions of cells, no two of which have a node in common.

    `parts` have no nodes in common either; those that are joined with nothing are left out.
    """
    graph = meanings.graph

    def touched(part: RegionKernel) -> Iterable[int]:
        return (*part.region.inputs, *part.region.outputs)

    def elements(value: int) -> float:
        if value in graph.constants:
            return 0
        shape = graph.shape(value) or ()
        return math.prod(size if isinstance(size, int) else FREE_SIZE for size in shape)

    def union(first: RegionKernel, second: RegionKernel, _: object) -> RegionKernel | None:
        return _union(meanings, first.region, second.region)

    over_cells = [part for part in parts if part.region.sort == "cells"]
    known = set(map(id, parts))
    return [part for part in join(over_cells, touched, elements, union) if id(part) not in known]


def _union(meanings: Meanings, first: Region, second: Region) -> RegionKernel | None:
    """Return two regions as one; None where no kernel can be, or something lies between them."""
    frame, inside = _common_frame(first, second), {*first.nodes, *second.nodes}
    if frame is None or len(inside) > MOST_NODES or not _is_convex(meanings, inside):
        return None
    nodes = meanings.in_order(inside)
    read, outputs = read_by(meanings.graph, nodes), needed_outside(meanings.graph, nodes)
    region = Region(nodes, read, tuple(outputs), frame.space, frame.reduced, frame.behind)
    try:
        kernel = lower_region(meanings, region)
    except LoweringError:
        return None
    if len(kernel.inputs) + len(kernel.outputs) > MOST_STREAMS:
        return None
    return RegionKernel(region, kernel)


def _common_frame(first: Region, second: Region) -> Region | None:
    """Return the region over whose frame both can run; None where there is none."""
    if first.space != second.space:
        return None
    if first.over == second.over or not second.reduced:
        return first
    return None if first.reduced else second


def _is_convex(meanings: Meanings, inside: Collection[int]) -> bool:
    """Tell whether no other node both depends on some of these and makes what some read."""
    graph, position = meanings.graph, meanings.position
    last = max(position[number] for number in inside)
    waiting, seen = list(inside), set(inside)
    while waiting:
        number = waiting.pop()
        for value in graph.nodes[number].outputs:
            for user in graph.users.get(value, ()):
                if user in inside and number not in inside:
                    return False
                if user not in seen and position[user] < last:
                    seen.add(user)
                    waiting.append(user)
    return True
