"""How a partition's plan is chosen: by a rule without costs, or the cheapest (MPSkipEnum).

Fuse-all computes again what several operators need; fuse-no-redundancy stores it (PVLDB 2018,
section 2.3). Where no single template can hold all that could be fused, the template that covers
most keeps its edges, from the outputs down.

The cheapest plan is found without costing most of them. Plans are numbers whose bits say which
candidates are stored, the first candidate most significant (section 4.4, algorithm 2). From a plan
on, the subtrees that begin there (plans that agree with it up to some candidate) are skipped,
largest first, if their lower bound isn't below the best cost; and where a cut is stored, its sides
are planned apart.

A cut is a node whose storing makes a region fall into parts that can be planned on their own. A
stored node may still be computed again by an operator that reads it. Where that can't pay, all
operators read it, and none reaches across. It can't pay if what lies below the node, inputs
included, touches what lies above nowhere else, so that nothing there is at hand, and is nowhere
smaller than the node itself, so that to read any of it costs as much. Then 2^(a + b) plans become
2^a + 2^b. (The cut sets of section 4.4; its reachability graph is over interesting points only, and
forgets inputs that both sides read.)

Lower bounds are of all plans in which some nodes are known to be stored or not. An operator covers,
at least, what its root reaches through nodes that are certainly not stored: so much it computes,
and what those read other than by edges it reads. Its time is at least its writing plus the max of
the two. What is left over, each input that no operator reads yet, each node stored by choice (else
it would not be stored) and each node that none computes yet, some operator must still do; at best
under the slack between reading and computing that they have:

    max(R + a, C + b) >= max(R, C) + max(0, a - (C - R)+, b - (R - C)+),  summed over operators.

What an undecided node leads to is part of that: stored, it is written (and read), else each of the
operators that cover a reader of it computes it, and reads what that takes, once more. SystemML
charges reads of stored nodes outside of the maximum and at their dense size: its bound is none, and
prunes optimal plans.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

from .fusion_plan import PlanCounts
from .plan_space import Operator, Region, Roots
from .planning_graph import mask, members


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
    return mask(output for operator in operators for output in operator.outputs) & mask(
        region.candidates
    )


def _operators(region: Region, read: int) -> list[Operator]:
    """Cover from the outputs down; nodes in the mask `read` are read rather than covered."""
    operators: list[Operator] = []
    waiting, done = region.forced, 0
    while waiting:
        root = waiting.bit_length() - 1  # its consumers are done
        operator, met = _largest(region, root, read)
        operators.append(operator)
        done |= 1 << root
        waiting = (waiting | met) & ~done
    return operators


def _largest(region: Region, root: int, read: int) -> tuple[Operator, int]:
    """Return the operator that covers most, and the region's nodes that it reads."""
    # Alone it can always run, if only beyond the limits.
    alone = mask(region.below[root])
    best: tuple[Operator, int] = region.prices.plain(root), alone
    is_met = False
    cover, met = region.closure((root,), read)
    tries = [(cover, met)]
    tries += [_within(region, root, read, template) for template in ("Row", "Outer", "Cell")]
    for cover, met in [*tries, (1 << root, alone)]:
        operator = region.covering((root,), cover)
        if operator is not None and (not is_met or len(operator.nodes) > len(best[0].nodes)):
            best, is_met = (operator, met), True
    return best


def _within(region: Region, root: int, read: int, template: str) -> tuple[int, int]:
    """Return what one template can hold below a root, and what it must read then."""
    fuses = region.graph.conditions.fuses
    stops = read
    while True:
        cover, met = region.closure((root,), stops)
        refused = mask(
            c for h in members(cover) for c in region.below[h] if template not in fuses[h, c]
        )
        if not refused & ~stops:
            return cover, met
        stops |= refused


@dataclass(frozen=True)
class Cut:
    """A node to store, and the two sides: its own, and that of what reads it."""

    node: int
    below: frozenset[int]
    above: frozenset[int]


def best_cut(region: Region) -> Cut | None:
    """Return the cut that leaves the fewest plans, None where none leaves fewer."""
    best, least = None, float(2 ** len(region.candidates))
    for node in region.candidates:
        cut = _cut(region, node)
        if cut is None:
            continue
        inside = [
            sum(candidate in side for candidate in region.candidates)
            for side in (cut.below, cut.above)
        ]
        inside[0] -= 1
        work = 2.0 ** (len(region.candidates) - 1) + sum(2.0**size for size in inside)
        if work < least:
            best, least = cut, work
    return best


def _cut(region: Region, node: int) -> Cut | None:
    below = _connected(region, node, node)
    above = [h for h in region.nodes if node in region.below[h]]
    if any(h in below for h in above):
        return None
    if not all(map(partial(_as_large, region, node), _met(region, below, node))):
        return None
    inside = frozenset(h for h in below if h in region.below)
    return Cut(node, inside, frozenset(region.nodes) - inside)


def _met(region: Region, below: set[int], node: int) -> set[int]:
    """Return what an operator could read to compute a node again: numbers alone don't do."""
    graph = region.graph
    operands = {operand.node for h in below if h in region.below for operand in graph.operands[h]}
    return {number for number in (operands | below) - {node} if graph.nodes[number].size > 1}


def _as_large(region: Region, node: int, other: int) -> bool:
    """Whether reading one node costs as much as reading another, however either is read."""
    read_s, size = region.minima.read_s, region.graph.bytes
    return read_s[other] >= read_s[node] and size[other] >= size[node]


def _connected(region: Region, start: int, cut: int) -> set[int]:
    """Return what is connected with a node's operands, inputs included, not through its readers."""
    graph = region.graph
    neighbours: dict[int, set[int]] = {}
    for h in region.nodes:
        for operand in graph.operands[h]:
            if operand.node == cut or graph.nodes[operand.node].op == "Constant":
                continue
            neighbours.setdefault(h, set()).add(operand.node)
            neighbours.setdefault(operand.node, set()).add(h)
    if region.joining:
        for a, b in graph.conditions.joins:
            if a not in region.below or b not in region.below:
                continue  # of another partition, or of another side
            neighbours.setdefault(a, set()).add(b)
            neighbours.setdefault(b, set()).add(a)
    connected, waiting = {start}, [start]
    while waiting:
        for neighbour in neighbours.get(waiting.pop(), ()):
            if neighbour not in connected:
                connected.add(neighbour)
                waiting.append(neighbour)
    return connected


def parts(region: Region, cut: Cut) -> tuple[Region, Region]:
    """Return the two sides as regions: in one the node is a root, in the other an input."""
    halves = []
    for side in (cut.below, cut.above):
        edges = [(h, c) for h, c in region.edges if h in side and c in side]
        candidates = [
            candidate
            for candidate in region.candidates
            if candidate in side and candidate != cut.node
        ]
        forced = [member for member in members(region.forced) if member in side]
        forced += [cut.node] if cut.node in side else []
        halves.append(Region(region.prices, side, edges, candidates, forced, region.joining))
    return halves[0], halves[1]


class Bound:
    """Lower bounds over one region; parts are kept by the decisions that they depend on."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.minima = region.minima
        self._parts: dict[tuple[Roots, int], tuple[int, int, float, float, float]] = {}

    @cached_property
    def _inputs(self) -> int:
        union = 0
        for reads in self.minima.fixed.values():
            union |= reads
        return union

    @cached_property
    def _all_nodes(self) -> int:
        return mask(self.region.nodes)

    @cached_property
    def _readers(self) -> dict[int, int]:
        """For each candidate, the nodes that it may be fused into."""
        readers = dict.fromkeys(self.region.candidates, 0)
        for h, c in self.region.edges:
            if c in readers:
                readers[c] |= 1 << h
        return readers

    def of(self, stored: int, undecided: int) -> float:
        """Return seconds that no useful plan undercuts.

        `stored` and `undecided` are masks of candidates; all other candidates are not stored.
        """
        region, minima = self.region, self.minima
        joinable = region.joinable
        alone = (stored | region.forced) & ~mask(joinable)
        operators: list[Roots] = [(root,) for root in members(alone)]
        if joinable:
            operators.append(joinable)
        stops = stored | undecided | region.forced
        total = slack_to_read = slack_to_compute = 0.0
        covered = read = 0
        covers: list[int] = []
        for roots in operators:
            cover, reads, writing_s, reading_s, computing_s = self._part(roots, stops)
            covers.append(cover)
            covered |= cover
            read |= reads
            if reading_s > computing_s:
                total += writing_s + reading_s
                slack_to_compute += reading_s - computing_s
            else:
                total += writing_s + computing_s
                slack_to_read += computing_s - reading_s
        to_read = minima.reading_s(self._inputs & ~read)
        to_read += minima.reading_s(stored & ~region.unread)
        uncovered = self._all_nodes & ~covered
        to_compute = minima.covered_minimum(uncovered)[1] + minima.fusing_s(uncovered & ~undecided)
        for node in members(undecided):
            readers = self._readers[node]
            times = sum(1 for cover in covers if cover & readers) - 1
            if times <= 0:
                to_compute += min(minima.write_s[node], minima.fused_s[node])
                continue
            more_to_read, more_to_compute = self._undecided_s(node, times, stops, covered, read)
            to_read += more_to_read
            to_compute += more_to_compute
            # What hangs on several nodes counts for one of them.
            below, reads, *_ = self._part((node,), stops)
            covered |= below
            read |= reads
        return total + max(0.0, to_read - slack_to_read, to_compute - slack_to_compute)

    def _undecided_s(
        self, node: int, times: int, stops: int, covered: int, read: int
    ) -> tuple[float, float]:
        """Return seconds of reading and of computing to which an undecided node leads at least.

        Not stored, it is computed so many times more than once, with what is below it for sure.
        """
        minima = self.minima
        below, reads, *_ = self._part((node,), stops)
        written_s = minima.write_s[node]
        read_s = 0.0 if self.region.unread >> node & 1 else minima.read_s[node]
        return (
            min(written_s + read_s, times * minima.reading_s(reads & ~read)),
            min(
                written_s,
                minima.fused_s[node] + times * minima.covered_minimum(below & ~covered)[1],
            ),
        )

    def _part(self, roots: Roots, stops: int) -> tuple[int, int, float, float, float]:
        region, minima = self.region, self.minima
        key = (roots, stops & region.reached(roots))
        part = self._parts.get(key)
        if part is None:
            cover, _ = region.closure(roots, stops)
            if len(roots) == 1 and cover == 1 << roots[0] and region.graph.is_view(roots[0]):
                part = cover, 0, 0.0, 0.0, 0.0
            else:
                reads, computing_s = minima.covering(roots, cover)
                writing_s = minima.writing_s(roots)
                part = cover, reads, writing_s, minima.reading_s(reads), computing_s
            self._parts[key] = part
        return part


@dataclass(frozen=True)
class Pruning:
    """What is skipped, and the plans and bounds after which a search ends with the best found."""

    by_cost: bool = True
    by_structure: bool = True
    limit: int = 1100


@dataclass(frozen=True)
class SearchResult:
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
            tried = [self.cost(self.best ^ 1 << candidate) for candidate in self.region.candidates]
            tried += [self.cost(moved) for moved in self._moved()]
            better = any(tried)

    def _moved(self) -> list[int]:
        """Return plans that store a producer instead of its consumer, or the other way round."""
        inside = mask(self.region.candidates)
        pairs = {1 << h | 1 << c for h, c in self.region.edges if inside >> h & inside >> c & 1}
        return [self.best ^ pair for pair in pairs if (self.best & pair) not in (0, pair)]

    def sides(self, cut: Cut) -> None:
        """Plan the sides of a cut that is stored, each on its own."""
        results = [search(side, self.pruning) for side in parts(self.region, cut)]
        self.costed += sum(result.counts.costed for result in results)
        self.skipped_by_cost += sum(result.counts.skipped_by_cost for result in results)
        self.bounds += sum(result.counts.bounds for result in results)
        self.bound_s = min(self.bound_s, sum(result.bound_s for result in results))
        space = 1 << (len(self.region.candidates) - 1)
        self.skipped_by_structure += max(0, space - sum(result.counts.space for result in results))
        cost = sum(result.cost_s for result in results)
        if cost < self.least:
            self.best, self.least = 1 << cut.node | results[0].stored | results[1].stored, cost

    def leave(self, bound: Bound, plan: int, undecided: list[int]) -> None:
        """Bound the plans from `plan` on, which are not looked at: they are a few subtrees."""
        space = 1 << (len(undecided) - 1)
        while plan < space:
            size = plan & -plan if plan else space
            stored = _stored(self.region, plan)
            self.bound_s = min(self.bound_s, bound.of(stored, undecided[size.bit_length() - 1]))
            plan += size


def search(region: Region, pruning: Pruning) -> SearchResult:
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
    return SearchResult(state.best, state.least, counts, min(state.least, state.bound_s))


def _stored(region: Region, plan: int) -> int:
    count = len(region.candidates)
    return mask(
        candidate for i, candidate in enumerate(region.candidates) if plan >> (count - 1 - i) & 1
    )
