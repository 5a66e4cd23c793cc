"""MultiAgg: which full aggregates may share one pass over their inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from .graph import Graph

# Groupings of more aggregates than these are not tried one by one.
_FEW = 4

Group = tuple[int, ...]


def groupings(graph: Graph, roots: Sequence[int]) -> list[list[Group]]:
    """Return the ways to compute aggregates in shared passes, the way of one pass each last.

    Aggregates of one group don't depend on each other: their level, the length of the longest
    chain of aggregates that leads to one, is the same, so that groups can't wait for each other.
    """
    levels: dict[int, int] = {}
    classes: dict[object, list[int]] = {}
    for root in sorted(roots):
        before = [levels[one] for one in levels if graph.ancestors[root] >> one & 1]
        levels[root] = 1 + max(before, default=0)
        shape = graph.nodes[graph.operands[root][0].node].shape
        classes.setdefault((levels[root], shape), []).append(root)
    found: list[list[Group]] = [[]]
    for members in classes.values():
        found = [[*before, *groups] for before in found for groups in _partitions(tuple(members))]
    return found


@lru_cache(maxsize=256)
def _partitions(members: Group) -> tuple[tuple[Group, ...], ...]:
    if len(members) > _FEW:
        return (members,), tuple((one,) for one in members)
    return tuple(_all_partitions(members))


def _all_partitions(members: Group) -> Iterator[tuple[Group, ...]]:
    """Yield the partitions of a set, those of fewer parts first among those of its first part."""
    if not members:
        yield ()
        return
    first, rest = members[0], members[1:]
    for chosen in reversed(range(1 << len(rest))):
        own = (first, *(one for at, one in enumerate(rest) if chosen >> at & 1))
        left = tuple(one for at, one in enumerate(rest) if not chosen >> at & 1)
        for others in _all_partitions(left):
            yield (own, *others)
