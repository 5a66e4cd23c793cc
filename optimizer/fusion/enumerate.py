"""MPSkipEnum: the cheapest plan of a region, without costing most of them.

Plans are numbers whose bits say which candidates are stored, the first candidate most significant
(PVLDB 2018, section 4.4, algorithm 2). From a plan on, the subtrees that begin there (plans that
agree with it up to some candidate) are skipped, largest first, if their lower bound isn't below
the best cost; and where a cut is stored, its sides are planned apart.
"""

from __future__ import annotations

from dataclasses import dataclass

from .bound import Bound
from .cuts import Cut, best_cut, parts
from .heuristics import fuse_all, fuse_no_redundancy, stored_by
from .masks import mask
from .plan import PlanCounts
from .region import Region


@dataclass(frozen=True)
class Pruning:
    """What is skipped, and the plans and bounds after which a search ends with the best found."""

    by_cost: bool = True
    by_structure: bool = True
    limit: int = 1100


@dataclass(frozen=True)
class Found:
    """The best plan: the candidates that it stores, its seconds, and what finding it took.

    No plan costs less than `bound_s`, which is `cost_s` where the search was complete.
    """

    stored: int
    cost_s: float
    counts: PlanCounts
    bound_s: float


class _Search:
    def __init__(self, region: Region, pruning: Pruning) -> None:
        self.region = region
        self.pruning = pruning
        self.best, self.least = mask(region.candidates), float("inf")
        self.costed = self.skipped_by_cost = self.skipped_by_structure = 0
        self.bounds = 0
        self.bound_s = float("inf")  # of what was left open

    def cost(self, stored: int) -> bool:
        """Cost a plan; return whether it is the best one so far."""
        self.costed += 1
        cost = self.region.cost(stored, self.least)
        if cost >= self.least:
            return False
        self.best, self.least = stored, cost
        return True

    def begin(self) -> None:
        """Cost both heuristics' plans and all that is near the better one: a first upper bound."""
        for operators in (fuse_all(self.region), fuse_no_redundancy(self.region)):
            self.cost(stored_by(self.region, operators))
        better = True
        while better:
            tried = [self.cost(self.best ^ 1 << one) for one in self.region.candidates]
            tried += [self.cost(moved) for moved in self._moved()]
            better = any(tried)

    def _moved(self) -> list[int]:
        """Return plans that store a producer instead of its consumer, or the other way round."""
        inside = mask(self.region.candidates)
        pairs = {1 << h | 1 << c for h, c in self.region.edges if inside >> h & inside >> c & 1}
        return [self.best ^ pair for pair in pairs if (self.best & pair) not in (0, pair)]

    def sides(self, cut: Cut) -> None:
        """Plan the sides of a cut that is stored, each on its own."""
        found = [search(side, self.pruning) for side in parts(self.region, cut)]
        self.costed += sum(one.counts.costed for one in found)
        self.skipped_by_cost += sum(one.counts.skipped_by_cost for one in found)
        self.bounds += sum(one.counts.bounds for one in found)
        self.bound_s = min(self.bound_s, sum(one.bound_s for one in found))
        space = 1 << (len(self.region.candidates) - 1)
        self.skipped_by_structure += max(0, space - sum(one.counts.space for one in found))
        cost = sum(one.cost_s for one in found)
        if cost < self.least:
            self.best, self.least = 1 << cut.node | found[0].stored | found[1].stored, cost

    def leave(self, bound: Bound, plan: int, undecided: list[int]) -> None:
        """Bound the plans from `plan` on, which are not looked at: they are a few subtrees."""
        space = 1 << (len(undecided) - 1)
        while plan < space:
            size = plan & -plan if plan else space
            stored = _stored(self.region, plan)
            self.bound_s = min(self.bound_s, bound.of(stored, undecided[size.bit_length() - 1]))
            plan += size


def search(region: Region, pruning: Pruning) -> Found:
    """Return the cheapest plan of a region; exact unless its bound is lower."""
    cut = best_cut(region) if pruning.by_structure and len(region.candidates) > 2 else None
    if cut is not None:
        region.begin_with(cut.node)
    count = len(region.candidates)
    state = _Search(region, pruning)
    if pruning.by_cost:
        state.begin()
    bound = Bound(region)
    # undecided[t]: the candidates that a subtree of 2^t plans leaves open.
    undecided = [mask(region.candidates[count - open_ones :]) for open_ones in range(count)]
    undecided.append(mask(region.candidates))
    plan, space = 0, 1 << count
    while plan < space:
        stored = _stored(region, plan)
        largest = (plan & -plan).bit_length() - 1 if plan else count
        if state.costed + state.bounds > pruning.limit:
            state.leave(bound, plan, undecided)
            break
        skipped = None
        for open_ones in range(largest, -1, -1) if pruning.by_cost else ():
            state.bounds += 1
            if bound.of(stored, undecided[open_ones]) >= state.least:
                skipped = 1 << open_ones
                break
        if skipped is not None:
            state.skipped_by_cost += skipped
            plan += skipped
        elif cut is not None and plan == space >> 1:
            state.sides(cut)
            break
        else:
            state.cost(stored)
            plan += 1
    if not region.complete:
        state.bound_s = min(state.bound_s, bound.of(0, undecided[-1]))
    counts = PlanCounts(
        space, state.costed, state.skipped_by_cost, state.skipped_by_structure, state.bounds
    )
    return Found(state.best, state.least, counts, min(state.least, state.bound_s))


def _stored(region: Region, plan: int) -> int:
    count = len(region.candidates)
    return mask(one for at, one in enumerate(region.candidates) if plan >> (count - 1 - at) & 1)
