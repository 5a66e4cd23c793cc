"""A partition's plan space: which nodes are stored, and what each operator covers then.

A plan of a region is a set of stored nodes: those that are forced, and any of the candidates, the
producers of interesting points. Each stored node is the root of one operator. It covers what it
reaches along fusible edges down to stored nodes, and each of those it either reads or, where that
is cheaper, computes again: given what is stored, operators don't depend on each other. So a plan's
cost is a sum of least costs, each kept by the stored nodes below its root. (SystemML decides for
edges, for all operators at once; that space lies within this one.) Aggregates may share one pass
over their inputs: over cells (MultiAgg), or over rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from itertools import permutations

from .fusion_candidates import Edge
from .fusion_plan import FusedOperator, PlainOperator
from .planning_graph import PlanningGraph, mask, members
from .template_costs import ROW_S, Cover, TemplateCosts

# The groupings of so many aggregates are all tried: 203 of six.
FEW = 6

Group = tuple[int, ...]


def groupings(graph: PlanningGraph, roots: Sequence[int]) -> list[list[Group]]:
    """Return the ways to compute aggregates in shared passes over cells of one shape, or rows.

    No aggregate waits for its own pass, nor passes for each other. Of more aggregates than FEW,
    those of one level (the longest chain of aggregates that leads to one) are joined, or none.
    """
    if len(roots) > FEW:
        alone: list[Group] = [(root,) for root in roots]
        return [alone, _by_level(graph, roots)]
    return [grouping for grouping in _partitions(list(roots)) if _may_be(graph, grouping)]


def _passes(graph: PlanningGraph, root: int) -> set[object]:
    """Return what an aggregate can run over: the cells of a shape, so many rows."""
    shape = graph.nodes[graph.operands[root][0].node].shape
    closes = graph.conditions.closes.get(root, ())
    passes: set[object] = {shape} if "Cell" in closes else set()
    return passes | ({shape[0]} if "Row" in closes and shape else set())


def _may_be(graph: PlanningGraph, grouping: list[Group]) -> bool:
    for group in grouping:
        if len(group) > 1 and not set.intersection(*(_passes(graph, node) for node in group)):
            return False
    waits = {
        (a, b)
        for a, b in permutations(range(len(grouping)), 2)
        if any(graph.ancestors[x] >> y & 1 for x in grouping[a] for y in grouping[b])
    }
    waits |= {
        (i, i)
        for i, group in enumerate(grouping)
        if any(graph.ancestors[x] >> y & 1 for x in group for y in group)
    }
    for middle in range(len(grouping)):
        before = [a for a, b in waits if b == middle]
        waits |= {(a, b) for a in before for middle_, b in set(waits) if middle_ == middle}
    return all(a != b for a, b in waits)


def _by_level(graph: PlanningGraph, roots: Sequence[int]) -> list[Group]:
    levels: dict[int, int] = {}
    classes: dict[object, list[int]] = {}
    for root in sorted(roots):
        before = [levels[lower] for lower in levels if graph.ancestors[root] >> lower & 1]
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
        group = (first, *(item for i, item in enumerate(rest) if chosen >> i & 1))
        for others in _partitions([item for i, item in enumerate(rest) if not chosen >> i & 1]):
            yield [group, *others]


class _Sums(dict[int, float]):
    """The sum of some nodes' seconds by their mask, added up when first asked for."""

    def __init__(self, seconds: Mapping[int, float]) -> None:
        self._seconds = seconds

    def __missing__(self, nodes: int) -> float:
        seconds = self[nodes] = sum((self._seconds[member] for member in members(nodes)), 0.0)
        return seconds


class Minima:
    """Least seconds of reading, computing and writing nodes of a region.

    Least means: at the best rate of any operator, and where a sparse matrix could drive it, only
    at the entries of the sparsest one.
    """

    def __init__(self, prices: TemplateCosts, nodes: tuple[int, ...], edges: Set[Edge]) -> None:
        self.prices = prices
        self.graph = prices.graph
        self.machine = prices.machine
        self.least = self.graph.least_entries
        # What a node reads other than by an edge: then it is read by any operator that holds it,
        # unless that is a view.
        self.fixed = {
            h: mask(
                operand.node
                for operand in self.graph.operands[h]
                if (h, operand.node) not in edges and not self.graph.is_view(h)
            )
            for h in nodes
        }
        self.compute_s = {number: self._compute_s(number) for number in nodes}
        # Edges that a Row operator alone can cover, and what reads a node by one of them.
        self._by_row_alone: dict[int, int] = dict.fromkeys(nodes, 0)
        for h, c in edges:
            if self.graph.conditions.fuses[h, c] == {"Row"}:
                self._by_row_alone[c] |= 1 << h
        self._contracts = mask(h for h in nodes if self.graph.kinds[h] == "contraction")
        self._product_s = {number: self._product_more_s(number) for number in nodes}
        self._holding_s = {number: self._row_s(number) for number in nodes}
        around = mask(nodes)
        # The least that a node takes more where it isn't stored, in one of the operators then.
        self.fused_s = {
            number: self._product_s[number]
            + self._holding_s[number] * self._is_row_buffer(number, around)
            for number in nodes
        }
        self.write_s = {number: self._write_s(number) for number in nodes}
        for h in nodes:
            around |= mask(operand.node for operand in self.graph.operands[h])
        self.read_s = {number: self._read_s(number) for number in members(around)}
        # Beside sparse matrices an operator may have none of their rows.
        self._by_rows = mask(h for h in nodes if self.least is None and self.graph.goes_by_rows(h))
        self._beginning: dict[int, float] = {}
        self._covered_minima: dict[int, tuple[int, float]] = {}
        self._fusing = _Sums(self.fused_s)
        self._more: dict[tuple[tuple[int, ...], int], float] = {}
        self._reading = _Sums(self.read_s)
        self._either = _Sums({h: min(self.read_s[h], self.compute_s[h]) for h in nodes})
        self._writing: dict[tuple[int, ...], float] = {}

    def operator_s(self, roots: tuple[int, ...], covered: int, read: int, open_ones: int) -> float:
        """Bound an operator that covers `covered`, perhaps more, and reads `read`, perhaps more.

        Each of `open_ones` it reads or covers: so much more is read and computed together, of
        which the maximum is at least a half.
        """
        if len(roots) == 1 and covered == 1 << roots[0] and self.graph.is_view(roots[0]):
            return 0.0
        reads, compute_s = self.covering(roots, covered)
        read_s = self.reading_s(reads | read)
        together_s = (read_s + compute_s + self.either_s(open_ones)) / 2
        return self.writing_s(roots) + max(read_s, compute_s, together_s)

    def writing_s(self, roots: tuple[int, ...]) -> float:
        """Return the seconds of one call that stores these nodes."""
        seconds = self._writing.get(roots)
        if seconds is None:
            seconds = sum(self.write_s[root] for root in roots)
            seconds -= (len(roots) - 1) * self.machine.dispatch_s
            self._writing[roots] = seconds
        return seconds

    def covered_minimum(self, nodes: int) -> tuple[int, float]:
        """Return what an operator that covers these nodes reads for sure, and its compute time."""
        minimum = self._covered_minima.get(nodes)
        if minimum is None:
            reads, compute_s = 0, 0.0
            for h in members(nodes):
                reads |= self.fixed[h]
                compute_s += self.compute_s[h]
            minimum = self._covered_minima[nodes] = reads, compute_s
        return minimum

    def covering(self, roots: tuple[int, ...], covered: int) -> tuple[int, float]:
        """Return what an operator of these roots reads for sure, and its compute time, all told."""
        reads, compute_s = self.covered_minimum(covered)
        return reads, compute_s + (self.beginning_s(covered) + self.more_s(roots, covered))

    def more_s(self, roots: tuple[int, ...], covered: int) -> float:
        """Return the least seconds that nodes take more in an operator of several than alone.

        Several roots may belong to several operators: what one reader tells of a node holds in the
        operator that covers that reader.
        """
        seconds = self._more.get((roots, covered))
        if seconds is None:
            seconds, inner = 0.0, covered & ~mask(roots)
            for member in members(inner):
                seconds += self._product_s[member]
                if self._holding_s[member] and self._is_row_buffer(member, covered):
                    seconds += self._holding_s[member]
            for root in roots:
                if self._product_s[root] and self._reads_of(root) & inner:
                    seconds += self._product_s[root]
            self._more[roots, covered] = seconds
        return seconds

    def fusing_s(self, nodes: int) -> float:
        """Return the least seconds that some nodes take more where none of them is stored."""
        return self._fusing[nodes]

    def _is_row_buffer(self, number: int, readers: int) -> bool:
        """Whether a Row operator keeps a node's rows for one of these (template_costs.py)."""
        by_row = self._by_row_alone[number] & readers
        if self.graph.nodes[number].op == "MatMul":
            return by_row != 0
        return by_row & self._contracts != 0

    def _reads_of(self, number: int) -> int:
        return mask(operand.node for operand in self.graph.operands[number])

    def beginning_s(self, nodes: int) -> float:
        """Return the least seconds in which loops of an operator of these nodes begin with rows."""
        by_rows = nodes & self._by_rows
        if not by_rows:
            return 0.0
        seconds = self._beginning.get(nodes)
        if seconds is None:
            rows = max(self.graph.extents[member][0] for member in members(by_rows))
            loops = self.prices.loops(tuple(members(nodes)))
            seconds = self._beginning[nodes] = loops * rows * ROW_S / self.machine.cores
        return seconds

    def reading_s(self, nodes: int) -> float:
        """Return the least seconds of reading some nodes once."""
        return self._reading[nodes]

    def either_s(self, nodes: int) -> float:
        """Return the least seconds in which each of some nodes is read or computed."""
        return self._either[nodes]

    def _read_s(self, number: int) -> float:
        rate = self.machine.read * self.machine.bus
        return self.graph.in_bytes(number, self.least) / rate

    def _write_s(self, number: int) -> float:
        if self.graph.is_view(number):
            return 0.0
        rate = self.machine.write * self.machine.bus
        return self.graph.bytes[number] / rate + self.machine.dispatch_s

    def _compute_s(self, number: int) -> float:
        graph, machine = self.graph, self.machine
        rate = machine.flops * machine.cores
        if graph.nodes[number].op == "MatMul":
            rate = machine.products * machine.cores
            if graph.is_square(number):
                library = machine.matmul * self.prices.share_of_matmul(number)
                rate = max(machine.products, library) * machine.cores
        return graph.flops(number) * self._share(number) / rate

    def _share(self, number: int) -> float:
        """Return the share of a node's operations that any operator does at least."""
        graph = self.graph
        if self.least is None:
            return graph.unfilled(number)
        around = [number, *(operand.node for operand in graph.operands[number])]
        return min(1.0, self.least / max(graph.nodes[number].size for number in around))

    def _product_more_s(self, number: int) -> float:
        """Return what a product takes more in a kernel than where it is fastest."""
        graph, machine = self.graph, self.machine
        if graph.nodes[number].op != "MatMul":
            return 0.0
        kernel_s = graph.flops(number) * self._share(number) / (machine.products * machine.cores)
        return kernel_s - self.compute_s[number]

    def _row_s(self, number: int) -> float:
        """Return the seconds in which a Row operator stores and loads the rows of a node."""
        shape = self.graph.nodes[number].shape
        if len(shape) != 2 or shape[1] <= 1:
            return 0.0
        return 2 * self.graph.bytes[number] / (self.machine.cache * self.machine.cores)


Operator = FusedOperator | PlainOperator
Roots = tuple[int, ...]

# So many covers of one operator are tried at most: then a search isn't exact, and says so.
_TRIES = 4000


class Region:
    """Connected nodes with the edges among them; sets of nodes are masks, bit n for node n."""

    def __init__(
        self,
        prices: TemplateCosts,
        nodes: Iterable[int],
        edges: Iterable[Edge],
        candidates: Iterable[int],
        forced: Iterable[int],
        joining: bool = True,
    ) -> None:
        self.prices = prices
        self.graph: PlanningGraph = prices.graph
        self.nodes = tuple(sorted(nodes))
        self.edges = frozenset(edges)
        self.minima = Minima(prices, self.nodes, self.edges)
        self.forced = mask(forced)
        open_ones = [candidate for candidate in candidates if not self.forced >> candidate & 1]
        self.candidates = tuple(sorted(open_ones, key=self._worth))
        self.joining = joining
        self.complete = True
        self.below: dict[int, list[int]] = {number: [] for number in self.nodes}
        for h, c in sorted(self.edges):
            self.below[h].append(c)
        self._below = {number: mask(below) for number, below in self.below.items()}
        self._operators: dict[tuple[Roots, int], Operator | None] = {}
        self._covers: dict[tuple[Roots, int], Operator | None] = {}
        self._floors: dict[tuple[Roots, int], float] = {}
        self._reached: dict[Roots, int] = {}
        self._closures: dict[tuple[Roots, int], tuple[int, int]] = {}

    def _worth(self, candidate: int) -> tuple[float, int]:
        """Put first what is expensive to compute again: it decides most."""
        minima = self.minima
        reading_s = minima.reading_s(minima.fixed[candidate])
        return -(reading_s + minima.compute_s[candidate]), candidate

    def begin_with(self, candidate: int) -> None:
        """Put a candidate before the others."""
        rest = (other for other in self.candidates if other != candidate)
        self.candidates = (candidate, *rest)

    @cached_property
    def reach(self) -> dict[int, int]:
        """For each node, all that it reaches along edges."""
        reach: dict[int, int] = {}
        for number in self.nodes:  # ascending: producers first
            below = 0
            for c in self.below[number]:
                below |= 1 << c | reach[c]
            reach[number] = below
        return reach

    def reached(self, roots: Roots) -> int:
        """Return all that some roots reach along edges."""
        reached = self._reached.get(roots)
        if reached is None:
            reached = 0
            for root in roots:
                reached |= self.reach[root]
            self._reached[roots] = reached
        return reached

    @cached_property
    def unread(self) -> int:
        """Nodes that a view consumes: it may be that nothing reads them."""
        return mask(c for h, c in self.edges if self.graph.is_view(h))

    @cached_property
    def joinable(self) -> tuple[int, ...]:
        """Forced full aggregates that may share a pass with another one."""
        if not self.joining:
            return ()
        joins = self.graph.conditions.joins
        inside = {node for a, b in joins if a in self.below and b in self.below for node in (a, b)}
        return tuple(sorted(inside))

    @cached_property
    def _groupings(self) -> list[list[Roots]]:
        if len(self.joinable) > FEW:
            self.complete = False
        return groupings(self.graph, self.joinable)

    def cost(self, stored: int, limit: float = math.inf) -> float:
        """Return the seconds of a plan; anything from `limit` on where that is exceeded."""
        total = 0.0
        for root in members((stored | self.forced) & ~mask(self.joinable)):
            operator = self.operator((root,), stored)
            total += math.inf if operator is None else operator.cost_s
            if total >= limit:
                return total
        joined = self._joined(stored, limit - total)
        return math.inf if joined is None else total + sum(operator.cost_s for operator in joined)

    def operators(self, stored: int) -> list[Operator]:
        """Return the operators of a plan of finite cost."""
        operators: list[Operator] = []
        for root in members((stored | self.forced) & ~mask(self.joinable)):
            operator = self.operator((root,), stored)
            assert operator is not None
            operators.append(operator)
        joined = self._joined(stored)
        assert joined is not None
        return operators + joined

    def _joined(self, stored: int, limit: float = math.inf) -> list[Operator] | None:
        """Return the operators of the aggregates that may share passes, in the best grouping.

        None where no grouping takes less than `limit` seconds.
        """
        if not self.joinable:
            return []
        best: list[Operator] | None = None
        least = limit
        stops = stored | self.forced
        alone = {node: self.closure((node,), stops & self.reach[node])[0] for node in self.joinable}
        if self._joint_bound_s(alone) >= limit:
            return best
        floors: dict[Roots, float] = {}
        for grouping in self._groupings:
            cost = 0.0
            for group in grouping:
                floor = floors.get(group)
                if floor is None:
                    floor = floors[group] = self._least_s(group, alone)
                cost += floor
            if cost >= least:
                continue
            operators: list[Operator] = []
            cost = 0.0
            for group in grouping:
                operator = self.operator(group, stored)
                cost += math.inf if operator is None else operator.cost_s
                if operator is None or cost >= least:
                    break
                operators.append(operator)
            else:
                best, least = operators, cost
        return best

    def _joint_bound_s(self, alone: Mapping[int, int]) -> float:
        """Return seconds that no grouping undercuts: one call, and all that they have to do.

        `alone` has for each of the aggregates what it covers for sure.
        """
        covered = 0
        for cover in alone.values():
            covered |= cover
        reads, compute_s = self.minima.covered_minimum(covered)
        least_s = max(self.minima.reading_s(reads), compute_s)
        return self.minima.writing_s(self.joinable) + least_s

    def _least_s(self, roots: Roots, alone: Mapping[int, int]) -> float:
        """Return seconds that no operator of these roots undercuts, which covers what each does."""
        covered = 0
        for root in roots:
            covered |= alone[root]
        least_s = self._floors.get((roots, covered))
        if least_s is None:
            least_s = self._floors[roots, covered] = self.minima.operator_s(roots, covered, 0, 0)
        return least_s

    def operator(self, roots: Roots, stored: int) -> Operator | None:
        """Return the cheapest operator of these roots that reads stored nodes only, or None."""
        stored = (stored | self.forced) & self.reached(roots)
        key = (roots, stored)
        if key not in self._operators:
            self._operators[key] = self._search(roots, stored)
        return self._operators[key]

    def _search(self, roots: Roots, stored: int) -> Operator | None:
        """Try to read, and to compute again, each stored node that is met."""
        covered, met = self.closure(roots, stored)
        # All read, and all computed again: one of them is near the best.
        first = [self.covering(roots, covered)]
        if met:
            first.append(self.covering(roots, self.closure(roots, 0)[0]))
        joined = [operator for operator in first if operator is not None]
        best = min(joined, key=lambda operator: operator.cost_s, default=None)
        least = math.inf if best is None else best.cost_s
        waiting, tries = [(0, 0)], 0  # stored nodes that are read, and that are computed again
        while waiting and met:
            read, again = waiting.pop()
            covered, met_now = self.closure(roots, stored & ~again)
            undecided = met_now & ~read
            if self.minima.operator_s(roots, covered, read, undecided) >= least:
                continue
            tries += 1
            if tries > _TRIES:
                self.complete = False
                break
            if undecided:
                lowest = undecided & -undecided
                waiting.append((read, again | lowest))
                waiting.append((read | lowest, again))
                continue
            operator = self.covering(roots, covered)
            if operator is not None and operator.cost_s < least:
                best, least = operator, operator.cost_s
        return best

    def closure(self, roots: Roots, stops: int) -> tuple[int, int]:
        """Return what is reached along edges without entering `stops`, and which stops are met."""
        closure = self._closures.get((roots, stops))
        if closure is not None:
            return closure
        covered = waiting = mask(roots)
        below, met = self._below, 0
        while waiting:
            node = waiting.bit_length() - 1
            reached = below[node]
            met |= reached & stops
            new = reached & ~(stops | covered)
            covered |= new
            waiting = (waiting | new) ^ 1 << node
        self._closures[roots, stops] = covered, met
        return covered, met

    def covering(self, roots: Roots, covered: int) -> Operator | None:
        """Return the cheapest operator that covers exactly these nodes; None if there is none."""
        key = (roots, covered)
        if key not in self._covers:
            cover = self._cover(roots, covered)
            self._covers[key] = None if cover is None else self.prices.best(cover)
        return self._covers[key]

    def _cover(self, roots: Roots, covered: int) -> Cover | None:
        """Describe an operator; None if some node would read what another one holds."""
        nodes = tuple(members(covered))
        edges, reads = set[Edge](), dict[int, None]()
        for h in nodes:
            for operand in self.graph.operands[h]:
                if not covered >> operand.node & 1:
                    reads[operand.node] = None
                elif (h, operand.node) in self.edges:
                    edges.add((h, operand.node))
                else:
                    return None
        return Cover(roots, nodes, frozenset(edges), tuple(reads))
