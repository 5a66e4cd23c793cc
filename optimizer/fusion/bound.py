"""A lower bound of the costs of all plans that materialize given points, and perhaps more.

Every plan writes the region's roots, reads its inputs at least once, and computes each node at
least once; a materialized producer is written too, and read at least once. The sum over operators
of max(read, compute) is at least the max of the sums. So reads of materialized nodes belong inside
the maximum, and everything counts at the least that any operator could need: the best rates, and
only the entries of the sparsest driver where one could drive. (SystemML charges such reads outside
of the maximum and at their dense size: its bound is not one, and prunes optimal plans.)
"""

from __future__ import annotations

from functools import cached_property

from .region import Region


class Bound:
    """The static part of the bound, once for a region, and the dynamic part of each plan."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.graph = region.graph
        self.machine = region.prices.machine
        self.least = self.graph.least_entries
        self._known: dict[int, float] = {}

    @cached_property
    def compute_s(self) -> float:
        """Each node computed once."""
        return sum(self._compute_s(number) for number in self.region.nodes)

    @cached_property
    def read_s(self) -> float:
        """Each input read once, unless only views read it."""
        graph = self.graph
        inputs = {
            operand.node
            for h in self.region.nodes
            if not graph.is_view(h)
            for operand in graph.operands[h]
            if (h, operand.node) not in self.region.edges
        }
        return sum(map(self._read_s, inputs))

    @cached_property
    def write_s(self) -> float:
        """Each root stored by an operator."""
        return sum(map(self._write_s, self.region.roots)) + self._calls_s

    @cached_property
    def _calls_s(self) -> float:
        """The calls that store the roots: aggregates may share one."""
        graph = self.graph
        stored = [root for root in self.region.roots if not graph.is_view(root)]
        if self.region.may_join:
            sharing = {one for pair in graph.conditions.joins for one in pair}
            alone = [root for root in stored if root not in sharing]
            return self.machine.dispatch_s * (len(alone) + (len(alone) < len(stored)))
        return self.machine.dispatch_s * len(stored)

    @cached_property
    def _producers(self) -> list[tuple[int, int, float, float]]:
        """For each producer, its points, those that read it for sure, and seconds of both."""
        graph, found = self.graph, []
        for producer, mask in self.region.producers.items():
            reading = sum(
                bit
                for (h, c), bit in self.region.bit.items()
                if c == producer and not graph.is_view(h)
            )
            write_s = 0.0
            if producer not in self.region.roots and not graph.is_view(producer):
                write_s = self._write_s(producer) + self.machine.dispatch_s
            found.append((mask, reading, write_s, self._read_s(producer)))
        return found

    def of(self, chosen: int) -> float:
        """Return seconds that no plan with (at least) these points materialized undercuts."""
        write_s, read_s = self.write_s, self.read_s
        for mask, reading, writing_s, reading_s in self._producers:
            if mask & chosen:
                write_s += writing_s
                if reading & chosen:
                    read_s += reading_s
        return write_s + max(read_s, self.compute_s)

    def _write_s(self, number: int) -> float:
        if self.graph.is_view(number):
            return 0.0
        return self.graph.bytes[number] / (self.machine.write * self.machine.bus)

    def _read_s(self, number: int) -> float:
        return self.graph.in_bytes(number, self.least) / (self.machine.read * self.machine.bus)

    def _compute_s(self, number: int) -> float:
        graph, machine = self.graph, self.machine
        rate = machine.flops * machine.cores
        if graph.nodes[number].op == "MatMul":
            rate = machine.products * machine.cores
            if graph.is_square(number):
                rate = max(machine.products, machine.matmul) * machine.cores
        share = 1.0
        if self.least is not None:
            around = [number, *(operand.node for operand in graph.operands[number])]
            most = max(graph.nodes[one].size for one in around)
            share = min(1.0, self.least / most) if most else 0.0
        return graph.flops(number) * share / rate
