"""Plans that are made without costs: fuse all that can be fused, or all but what is shared.

Fuse-all computes again what several operators need; fuse-no-redundancy stores it (PVLDB 2018,
section 2.3). Where no single template can hold all that could be fused, the template that covers
most keeps its edges, from the outputs down.
"""

from __future__ import annotations

from .masks import mask, members
from .region import Operator, Region


def fuse_all(region: Region) -> list[Operator]:
    """Return the operators that each cover as much as a template can hold."""
    return _operators(region, 0)


def fuse_no_redundancy(region: Region) -> list[Operator]:
    """Return the operators that cover as much as they can of what only one node reads."""
    kinds = region.graph.conditions.points
    shared = mask(c for (_, c), kind in kinds.items() if kind == "consumers")
    return _operators(region, shared)


def stored_by(region: Region, operators: list[Operator]) -> int:
    """Return the candidates that operators store."""
    return mask(one for each in operators for one in each.outputs) & mask(region.candidates)


def _operators(region: Region, read: int) -> list[Operator]:
    """Cover from the outputs down; nodes in the mask `read` are read rather than covered."""
    found: list[Operator] = []
    waiting, done = region.forced, 0
    while waiting:
        root = waiting.bit_length() - 1  # its consumers are done
        operator, met = _largest(region, root, read)
        found.append(operator)
        done |= 1 << root
        waiting = (waiting | met) & ~done
    return found


def _largest(region: Region, root: int, read: int) -> tuple[Operator, int]:
    """Return the operator that covers most, and the region's nodes that it reads."""
    # Alone it can always run, if only beyond the limits.
    alone = mask(region.below[root])
    best: tuple[Operator, int] = region.prices.plain(root), alone
    found = False
    held, met = region.closure((root,), read)
    tries = [(held, met)]
    tries += [_within(region, root, read, template) for template in ("Row", "Outer", "Cell")]
    for held, met in [*tries, (1 << root, alone)]:
        operator = region.covering((root,), held)
        if operator is not None and (not found or len(operator.nodes) > len(best[0].nodes)):
            best, found = (operator, met), True
    return best


def _within(region: Region, root: int, read: int, template: str) -> tuple[int, int]:
    """Return what one template can hold below a root, and what it must read then."""
    fuses = region.graph.conditions.fuses
    stops = read
    while True:
        held, met = region.closure((root,), stops)
        refused = mask(
            c for h in members(held) for c in region.below[h] if template not in fuses[h, c]
        )
        if not refused & ~stops:
            return held, met
        stops |= refused
