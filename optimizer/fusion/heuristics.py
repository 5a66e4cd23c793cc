"""Plans that are made without costs: fuse all that can be fused, or all but what is shared.

Fuse-all recomputes what several operators need; fuse-no-redundancy stores it (PVLDB 2018, section
2.3). Where edges could be fused that no single template holds together, the template that covers
most nodes keeps its edges, from the outputs down.
"""

from __future__ import annotations

from .conditions import Edge
from .region import Region


def fuse_all(region: Region, chosen: int = 0) -> int:
    """Return the points that must be materialized where all others are fused."""
    done: set[int] = set()
    while True:
        waiting = [root for root in region.stored(chosen) if root not in done]
        if not waiting:
            return chosen
        root = max(waiting)  # its consumers are done
        done.add(root)
        if region.operator(root, chosen) is None:
            chosen = _repaired(region, root, chosen)


def fuse_no_redundancy(region: Region) -> int:
    """Return the points that are materialized where shared nodes are stored."""
    kinds = region.graph.conditions.points
    shared = [point for point in region.points if kinds[point] == "consumers"]
    return fuse_all(region, region.mask(shared))


def _repaired(region: Region, root: int, chosen: int) -> int:
    """Materialize points below a root until a template holds what it covers."""
    best, most = chosen | region.relevant[root], 0
    for template in ("Row", "Outer", "Cell"):
        tried = _within(region, root, chosen, template)
        operator = region.operator(root, tried)
        if operator is not None and len(operator.nodes) > most:
            best, most = tried, len(operator.nodes)
    return best


def _within(region: Region, root: int, chosen: int, template: str) -> int:
    fuses = region.graph.conditions.fuses
    while True:
        held, waiting, refused = {root}, [root], list[Edge]()
        while waiting:
            for edge in region.below[waiting.pop()]:
                if chosen & region.bit.get(edge, 0) or template not in fuses[edge]:
                    refused.append(edge)
                elif edge[1] not in held:
                    held.add(edge[1])
                    waiting.append(edge[1])
        more = region.mask(edge for edge in refused if edge in region.bit)
        # What is read from outside by one node can't be held for another.
        apart = {c for _, c in refused if c in held}
        more |= region.mask(
            point for point in region.points if point[1] in apart and point[0] in held
        )
        if chosen | more == chosen:
            return chosen
        chosen |= more
