"""Cut sets: producers whose materialization makes the rest of a region fall apart.

Where all consumers read a stored producer, no operator reaches across it. So if the region without
the edges to some producers has several components with points, each can be planned on its own,
and 2^(a + b) plans become 2^a + 2^b. (PVLDB 2018, section 4.4, takes the components above and
below in its reachability graph of points; components of the edges themselves say the same, and
also see parts that lie side by side.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from .conditions import Edge
from .region import Region

_PAIRED = 12  # producers of which pairs are tried too


@dataclass(frozen=True)
class Cut:
    """Points to materialize, and the nodes of the parts that are left then."""

    points: tuple[Edge, ...]
    parts: tuple[tuple[int, ...], ...]


def best_cut(region: Region) -> Cut | None:
    """Return the cut that leaves the fewest plans, None where none leaves fewer.

    With a cut of c among n points, and parts of s1, s2, … points, (1 - 2^-c) 2^n plans are left
    where a point of the cut is fused, and sum 2^si where none is.
    """
    count = len(region.points)
    best, least = None, float(2**count)
    for producers in _candidates(region):
        points = tuple(point for point in region.points if point[1] in producers)
        parts = components(region, set(points))
        inside = [
            sum(point not in points and point[0] in part for point in region.points)
            for part in map(set, parts)
        ]
        if sum(map(bool, inside)) < 2:
            continue
        left = (1 - 2.0 ** -len(points)) * 2.0**count + sum(2.0**held for held in inside if held)
        if left < least:
            best, least = Cut(points, tuple(map(tuple, parts))), left
    return best


def _candidates(region: Region) -> Iterator[tuple[int, ...]]:
    """Yield producers all of whose edges are points, alone and in pairs."""
    fixed = {c for h, c in region.edges if (h, c) not in region.bit}
    alone = [producer for producer in region.producers if producer not in fixed]
    yield from ((one,) for one in alone)
    if len(alone) <= _PAIRED:
        yield from combinations(alone, 2)


def components(region: Region, without: Iterable[Edge]) -> list[list[int]]:
    """Return the connected nodes where some edges are left out; aggregates that join connect."""
    leader = {number: number for number in region.nodes}

    def find(number: int) -> int:
        while leader[number] != number:
            leader[number] = leader[leader[number]]
            number = leader[number]
        return number

    links: Sequence[Edge] = list(region.edges - set(without))
    if region.joining:
        links = [*links, *region.graph.conditions.joins]
    for a, b in links:
        if a in leader and b in leader:
            leader[find(a)] = find(b)
    found: dict[int, list[int]] = {}
    for number in region.nodes:
        found.setdefault(find(number), []).append(number)
    return list(found.values())


def part(region: Region, cut: Cut, nodes: Sequence[int]) -> Region:
    """Return a part of a region in which the cut's points are materialized."""
    held = set(nodes)
    edges = [edge for edge in region.edges if edge[0] in held and edge not in cut.points]
    points = [point for point in region.points if point[0] in held and point not in cut.points]
    roots = {root for root in region.roots if root in held}
    roots |= {producer for _, producer in cut.points if producer in held}
    return Region(region.prices, nodes, edges, points, roots, region.joining)
