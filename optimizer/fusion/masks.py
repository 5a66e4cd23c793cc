"""Sets of nodes as masks: bit n stands for node n."""

from __future__ import annotations

from collections.abc import Iterable


def mask(nodes: Iterable[int]) -> int:
    """Return a set of nodes as a mask."""
    found = 0
    for one in nodes:
        found |= 1 << one
    return found


def members(nodes: int) -> list[int]:
    """Return the nodes of a mask, ascending."""
    found = []
    while nodes:
        low = nodes & -nodes
        found.append(low.bit_length() - 1)
        nodes ^= low
    return found
