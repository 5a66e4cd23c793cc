"""MPSkipEnum: the cheapest plan of a region, without costing most of them.

Plans are numbers whose bits say which points are materialized, the first point most significant
(PVLDB 2018, section 4.4, algorithm 2). A plan stands for its subtree: the plans that agree with it
up to its last materialized point. The subtree is skipped if its lower bound isn't below the best
cost; and where all points of a cut set are materialized, its parts are planned apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .bound import Bound
from .conditions import Edge
from .cuts import best_cut, part
from .heuristics import fuse_all, fuse_no_redundancy
from .plan import PlanCounts
from .region import Region


@dataclass(frozen=True)
class Pruning:
    """What is skipped; `limit` ends a search of too many plans with the best one found."""

    by_cost: bool = True
    by_structure: bool = True
    limit: int = 100_000


@dataclass(frozen=True)
class Found:
    """The best plan: its materialized edges, cost in seconds, and what finding it took."""

    materialized: frozenset[Edge]
    cost_s: float
    counts: PlanCounts
    complete: bool = True


def search(region: Region, pruning: Pruning) -> Found:
    """Return the cheapest plan of a region; exact unless `complete` is false."""
    count = len(region.points)
    cut = best_cut(region) if pruning.by_structure and count > 2 else None
    region = _ordered(region, cut.points if cut else ())
    bound = Bound(region)
    space = 1 << count
    subtree_of_cut = space - (space >> len(cut.points)) if cut else -1
    costed = skipped_by_cost = skipped_by_structure = 0
    complete = True
    best, least = frozenset[Edge](), math.inf

    if pruning.by_cost:
        for start in dict.fromkeys((fuse_all(region), fuse_no_redundancy(region), space - 1)):
            costed += 1
            cost = region.cost(start, least)
            if cost < least:
                best, least = _edges(region, start), cost

    plan = 0
    while plan < space:
        trailing = (plan & -plan).bit_length() - 1 if plan else count
        size = 1 << trailing
        if pruning.by_cost and bound.of(plan) >= least:
            skipped_by_cost += size
            plan += size
            continue
        if cut is not None and plan == subtree_of_cut:
            found = [search(part(region, cut, nodes), pruning) for nodes in cut.parts]
            costed += sum(one.counts.costed for one in found)
            complete = complete and all(one.complete for one in found)
            skipped_by_cost += sum(one.counts.skipped_by_cost for one in found)
            skipped_by_structure += max(0, size - sum(one.counts.space for one in found))
            cost = sum(one.cost_s for one in found)
            if cost < least:
                least = cost
                best = frozenset(cut.points).union(*(one.materialized for one in found))
            plan += size
            continue
        costed += 1
        cost = region.cost(plan, least)
        if cost < least:
            best, least = _edges(region, plan), cost
        plan += 1
        if costed > pruning.limit:
            complete = False
            break
    counts = PlanCounts(space, costed, skipped_by_cost, skipped_by_structure)
    return Found(best, least, counts, complete)


def _ordered(region: Region, first: Sequence[Edge]) -> Region:
    """Put a cut's points first, then those of large producers: they decide most."""
    rest = [point for point in region.points if point not in first]
    rest.sort(key=lambda point: (-region.graph.bytes[point[1]], -point[1], -point[0]))
    points = (*first, *rest)
    return Region(region.prices, region.nodes, region.edges, points, region.roots, region.joining)


def _edges(region: Region, plan: int) -> frozenset[Edge]:
    return frozenset(point for point, bit in region.bit.items() if plan & bit)
