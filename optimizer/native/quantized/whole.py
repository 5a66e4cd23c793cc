"""QDQ groups that the runtime makes one operator of: what kernels take whole, or leave.

A kernel of a part of such a group would keep the runtime from it, and what is computed then is
another number: a sum of two quantized tensors, say, is rounded once, and not after each of its
operands. So that a plan gives what the original gives, a region has all nodes of a group or none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable


def whole(groups: Iterable[frozenset[int]], nodes: Collection[int]) -> bool:
    """Tell whether nodes have each of some groups as a whole, or nothing of it."""
    chosen = set(nodes)
    return all(group <= chosen or not group & chosen for group in groups)


def outside(groups: Iterable[frozenset[int]], nodes: Collection[int]) -> set[int]:
    """Return those of some nodes that are in no group."""
    return set(nodes).difference(*groups)
