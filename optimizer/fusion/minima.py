"""The least that operators can cost: what bounds are made of."""

from __future__ import annotations

from collections.abc import Mapping, Set

from .conditions import Edge
from .masks import mask, members
from .price import ROW_S, Prices


class _Sums(dict[int, float]):
    """The sum of some nodes' seconds by their mask, added up when first asked for."""

    def __init__(self, seconds: Mapping[int, float]) -> None:
        self._seconds = seconds

    def __missing__(self, nodes: int) -> float:
        found = self[nodes] = sum((self._seconds[one] for one in members(nodes)), 0.0)
        return found


class Minima:
    """Least seconds of reading, computing and writing nodes of a region.

    Least means: at the best rate of any operator, and where a sparse matrix could drive it, only
    at the entries of the sparsest one.
    """

    def __init__(self, prices: Prices, nodes: tuple[int, ...], edges: Set[Edge]) -> None:
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
            + self._holding_s[number] * self._is_held(number, around)
            for number in nodes
        }
        self.write_s = {number: self._write_s(number) for number in nodes}
        for h in nodes:
            around |= mask(operand.node for operand in self.graph.operands[h])
        self.read_s = {number: self._read_s(number) for number in members(around)}
        # Beside sparse matrices an operator may have none of their rows.
        self._by_rows = mask(h for h in nodes if self.least is None and self.graph.goes_by_rows(h))
        self._beginning: dict[int, float] = {}
        self._held: dict[int, tuple[int, float]] = {}
        self._fusing = _Sums(self.fused_s)
        self._more: dict[tuple[tuple[int, ...], int], float] = {}
        self._reading = _Sums(self.read_s)
        self._either = _Sums({h: min(self.read_s[h], self.compute_s[h]) for h in nodes})
        self._writing: dict[tuple[int, ...], float] = {}

    def operator_s(self, roots: tuple[int, ...], held: int, read: int, open_ones: int) -> float:
        """Bound an operator that covers `held`, perhaps more, and reads `read`, perhaps more.

        Each of `open_ones` it reads or covers: so much more is read and computed together, of
        which the maximum is at least a half.
        """
        if len(roots) == 1 and held == 1 << roots[0] and self.graph.is_view(roots[0]):
            return 0.0
        reads, compute_s = self.covering(roots, held)
        read_s = self.reading_s(reads | read)
        together_s = (read_s + compute_s + self.either_s(open_ones)) / 2
        return self.writing_s(roots) + max(read_s, compute_s, together_s)

    def writing_s(self, roots: tuple[int, ...]) -> float:
        """Return the seconds of one call that stores these nodes."""
        found = self._writing.get(roots)
        if found is None:
            found = sum(self.write_s[root] for root in roots)
            found -= (len(roots) - 1) * self.machine.dispatch_s
            self._writing[roots] = found
        return found

    def held(self, nodes: int) -> tuple[int, float]:
        """Return what an operator that covers these nodes reads for sure, and its compute time."""
        found = self._held.get(nodes)
        if found is None:
            reads, compute_s = 0, 0.0
            for h in members(nodes):
                reads |= self.fixed[h]
                compute_s += self.compute_s[h]
            found = self._held[nodes] = reads, compute_s
        return found

    def covering(self, roots: tuple[int, ...], held: int) -> tuple[int, float]:
        """Return what an operator of these roots reads for sure, and its compute time, all told."""
        reads, compute_s = self.held(held)
        return reads, compute_s + (self.beginning_s(held) + self.more_s(roots, held))

    def more_s(self, roots: tuple[int, ...], held: int) -> float:
        """Return the least seconds that nodes take more in an operator of several than alone.

        Several roots may belong to several operators: what one reader tells of a node holds in the
        operator that covers that reader.
        """
        found = self._more.get((roots, held))
        if found is None:
            found, inner = 0.0, held & ~mask(roots)
            for one in members(inner):
                found += self._product_s[one]
                if self._holding_s[one] and self._is_held(one, held):
                    found += self._holding_s[one]
            for root in roots:
                if self._product_s[root] and self._reads_of(root) & inner:
                    found += self._product_s[root]
            self._more[roots, held] = found
        return found

    def fusing_s(self, nodes: int) -> float:
        """Return the least seconds that some nodes take more where none of them is stored."""
        return self._fusing[nodes]

    def _is_held(self, number: int, readers: int) -> bool:
        """Whether a Row operator keeps a node's rows for one of these readers (price.py)."""
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
        found = self._beginning.get(nodes)
        if found is None:
            rows = max(self.graph.extents[one][0] for one in members(by_rows))
            loops = self.prices.loops(tuple(members(nodes)))
            found = self._beginning[nodes] = loops * rows * ROW_S / self.machine.cores
        return found

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
        return min(1.0, self.least / max(graph.nodes[one].size for one in around))

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
