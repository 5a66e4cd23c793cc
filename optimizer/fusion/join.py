"""Which aggregates may share one pass over their inputs: over cells (MultiAgg), or over rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

from .graph import Graph

# The groupings of so many aggregates are all tried: 203 of six.
FEW = 6

Group = tuple[int, ...]


def groupings(graph: Graph, roots: Sequence[int]) -> list[list[Group]]:
    """Return the ways to compute aggregates in shared passes over cells of one shape, or rows.

    No aggregate waits for its own pass, nor passes for each other. Of more aggregates than FEW,
    those of one level (the longest chain of aggregates that leads to one) are joined, or none.
    """
    if len(roots) > FEW:
        alone: list[Group] = [(root,) for root in roots]
        return [alone, _by_level(graph, roots)]
    return [grouping for grouping in _partitions(list(roots)) if _may_be(graph, grouping)]


def _passes(graph: Graph, root: int) -> set[object]:
    """Return what an aggregate can run over: the cells of a shape, so many rows."""
    shape = graph.nodes[graph.operands[root][0].node].shape
    closes = graph.conditions.closes.get(root, ())
    found: set[object] = {shape} if "Cell" in closes else set()
    return found | ({shape[0]} if "Row" in closes and shape else set())


def _may_be(graph: Graph, grouping: list[Group]) -> bool:
    for group in grouping:
        if len(group) > 1 and not set.intersection(*(_passes(graph, one) for one in group)):
            return False
    waits = {
        (a, b)
        for a, b in permutations(range(len(grouping)), 2)
        if any(graph.ancestors[x] >> y & 1 for x in grouping[a] for y in grouping[b])
    }
    waits |= {
        (at, at)
        for at, group in enumerate(grouping)
        if any(graph.ancestors[x] >> y & 1 for x in group for y in group)
    }
    for middle in range(len(grouping)):
        before = [a for a, b in waits if b == middle]
        waits |= {(a, b) for a in before for middle_, b in set(waits) if middle_ == middle}
    return all(a != b for a, b in waits)


def _by_level(graph: Graph, roots: Sequence[int]) -> list[Group]:
    levels: dict[int, int] = {}
    classes: dict[object, list[int]] = {}
    for root in sorted(roots):
        before = [levels[one] for one in levels if graph.ancestors[root] >> one & 1]
        levels[root] = 1 + max(before, default=0)
        shape = graph.nodes[graph.operands[root][0].node].shape
        rows = "Row" in graph.conditions.closes.get(root, ()) and shape[:1]
        classes.setdefault((levels[root], rows or shape), []).append(root)
    return [tuple(members) for members in classes.values()]


def _partitions(members: list[int]) -> Iterator[list[Group]]:
    """Yield the partitions of a set, that into one part first."""
    if not members:
        yield []
        return
    first, *rest = members
    for chosen in reversed(range(1 << len(rest))):
        own = (first, *(one for at, one in enumerate(rest) if chosen >> at & 1))
        for others in _partitions([one for at, one in enumerate(rest) if not chosen >> at & 1]):
            yield [own, *others]
