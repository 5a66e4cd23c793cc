"""The cost of one operator: which templates can cover a set of nodes, and in what time.

T = call + written / write rate + max(read / read rate, computed / compute rate), as in PVLDB
2018, section 4.3. Inputs are a set: what several nodes of an operator read is read once, and a
node that several of its nodes use is computed once. Sparse operators visit the entries of their
driver: they compute there only, and of dense operands of that shape read only there.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from .fusion_candidates import ADDITIVE, Edge, over
from .fusion_plan import FusedOperator, PlainOperator, Template, Variant
from .machine_rates import Machine
from .planning_graph import PlanningGraph
from .sparsity import Known, at_zero, multiplies_unstored
from .work import ONE_BY_ONE, SINGLE

INFINITE = math.inf
# Products of matrices as thin as this reach half of a square one's rate.
_HALF = 16
# Seconds in which NumPy's loop begins with a row, and in which a generated one does, or a library's
# product of a matrix and a vector.
_LOOP_S = 10e-9
ROW_S = 2e-9
# Nodes of an operator that does little.
_LITTLE = 2


@dataclass(frozen=True)
class Cover:
    """Nodes of one operator in topological order, and what they read from outside."""

    roots: tuple[int, ...]  # several: full aggregates that share a pass
    nodes: tuple[int, ...]
    edges: frozenset[Edge]
    reads: tuple[int, ...]  # through the transposes of products

    @property
    def root(self) -> int:
        """The node that is stored, where it is one."""
        return self.roots[0]


class TemplateCosts:
    """Costs of operators over one program on one machine.

    Those that read and write more than `memory_bytes` together have infinite cost.
    """

    def __init__(
        self, graph: PlanningGraph, machine: Machine, memory_bytes: float = math.inf
    ) -> None:
        self.graph = graph
        self.machine = machine.over(self._outside())
        self.memory_bytes = memory_bytes

    def _outside(self) -> float:
        """Return the bytes of what a program reads and returns."""
        graph = self.graph
        leaves = {number for number in graph.live if graph.nodes[number].is_leaf}
        return sum(graph.bytes[number] for number in leaves | set(graph.program.outputs))

    def best(self, cover: Cover) -> FusedOperator | PlainOperator | None:
        """Return the cheapest operator over a cover; None where no template can hold it."""
        operators: list[FusedOperator | PlainOperator | None] = []
        if len(cover.roots) == 1 and not cover.edges:
            operators.append(self.plain(cover.root))
        operators.append(self.cell(cover))
        if len(cover.roots) == 1:
            operators.append(self.outer(cover))
        operators.append(self.row(cover))
        within = [
            operator
            for operator in operators
            if operator is not None and operator.cost_s < INFINITE
        ]
        # Of equal costs the first: NumPy's loops are there already; cells are held in registers,
        # rows in a cache.
        return min(within, key=lambda operator: operator.cost_s, default=None)

    # ---- Plain

    def plain(self, number: int) -> PlainOperator:
        """Return a node run by a library, on one core unless it is a product of matrices."""
        graph, machine = self.graph, self.machine
        if graph.is_view(number):
            return PlainOperator(number)
        reads = {operand.node for operand in graph.operands[number]}
        read = sum(graph.in_bytes(read) for read in reads)
        written = graph.bytes[number]
        flops, rate, rows = graph.flops(number), self._rate(number), 0
        if graph.nodes[number].op == "MatMul":
            flops *= graph.nodes[graph.nodes[number].inputs[0]].density
            if graph.is_square(number):
                rate = machine.cores * machine.matmul * self.share_of_matmul(number)
            else:
                rate, rows = machine.cores * machine.products, self._rows_with_vector(number)
        if graph.kinds[number] == "elementwise" and graph.nodes[number].nnz is not None:
            flops *= graph.nodes[number].density
        cost = machine.dispatch_s + written / machine.write
        computed_s = flops * graph.unfilled(number) / rate + rows * ROW_S
        if graph.goes_by_rows(number):
            around = (number, *graph.nodes[number].inputs)
            computed_s += max(graph.extents[number][0] for number in around) * _LOOP_S
        cost += max(read / machine.read, computed_s)
        if read + written > self.memory_bytes:
            cost = INFINITE
        return PlainOperator(number, cost, read, written, flops)

    def _rows_with_vector(self, number: int) -> int:
        """Return the rows of the dense matrix, if there is one, that a vector is multiplied with.

        Libraries take some rows at a time, as they lie, so that short ones keep them busy longest.
        """
        ends = [operand.node for operand in self.graph.operands[number]]
        dense = [number for number in ends if self.graph.nodes[number].nnz is None]
        return max(
            (
                self.graph.extents[number][0]
                for number in dense
                if min(self.graph.extents[number]) > 1
            ),
            default=0,
        )

    def _rate(self, number: int) -> float:
        """Return the operations a second of NumPy's loop over a node; at most those of a kernel."""
        node, machine = self.graph.nodes[number], self.machine
        if node.op not in ONE_BY_ONE:
            return machine.flops
        rate = machine.functions * ONE_BY_ONE[node.op]
        if node.dtype == "float32" and node.op in SINGLE:
            # half the vectors of a kernel, say, which computes without tables
            rate = max(rate, machine.flops / 2)
        return min(rate, machine.flops)

    def share_of_matmul(self, number: int) -> float:
        """Return what a product of thin matrices reaches of a square one's rate."""
        ends = (self.graph.extents[operand.node] for operand in self.graph.operands[number])
        thin = min(extent for end in ends for extent in end)
        return thin / (thin + _HALF)

    # ---- Cell

    def cell(self, cover: Cover) -> FusedOperator | None:
        """Return a Cell operator, sparse where a driver's zeros make all of it zero.

        Of several roots it becomes a MultiAgg operator: they must aggregate cells of one shape.
        """
        graph, nodes = self.graph, self.graph.nodes
        if not self._fits(cover, "Cell"):
            return None
        closing = [root for root in cover.roots if "Cell" in graph.conditions.closes.get(root, ())]
        if len(closing) < len(cover.roots) > 1:
            return None
        inner = [node for node in cover.nodes if node not in closing]
        values = [[operand.node for operand in graph.operands[root]] for root in closing]
        shape = nodes[values[0][0] if values else cover.root].shape
        if any(nodes[numbers[0]].shape != shape for numbers in values):
            return None
        driver, sparse = None, False
        if all(map(self._additive, closing)) if closing else nodes[cover.root].nnz is not None:
            for number in self._sparse_inputs(cover, shape):
                values_at_zero = at_zero(graph.program, inner, number)
                if all(
                    any(values_at_zero.get(number) == 0.0 for number in group)
                    for group in values or [inner[-1:]]
                ):
                    driver, sparse = number, True
                    break
        if nodes[cover.root].nnz is not None and not sparse:
            return None
        if multiplies_unstored(graph, cover.nodes, driver):
            return None
        if driver is None:
            full = [read for read in cover.reads if nodes[read].shape == shape]
            driver = max(full, key=lambda number: (graph.bytes[number], -number), default=None)
        variant: Variant = self._direction(cover.root) if closing else "none"
        if len(closing) > 1 and any(self._direction(root) != "full" for root in closing):
            return None
        template: Template = "Cell" if len(cover.roots) == 1 else "MultiAgg"
        space = _space(shape)
        operator = FusedOperator(
            template, cover.nodes, (), cover.roots, space, variant, driver, sparse
        )
        return self._priced(operator, cover)

    def _direction(self, root: int) -> Variant:
        node = self.graph.nodes[root]
        if node.op == "MatMul":
            return "full"
        match over(node, self.graph.nodes[node.inputs[0]]):
            case "row":
                return "row"
            case "column":
                return "column"
            case _:
                return "full"

    # ---- Row

    def row(self, cover: Cover) -> FusedOperator | None:
        """Return a Row operator: it walks the rows of the widest matrix that it meets.

        Several roots must all be sums over those rows.
        """
        graph = self.graph
        if not self._fits(cover, "Row"):
            return None
        closing = [root for root in cover.roots if "Row" in graph.conditions.closes.get(root, ())]
        if len(closing) < len(cover.roots) > 1:
            return None
        walked = self._walked(cover)
        matrices = [number for number in walked if len(graph.nodes[number].shape) == 2]
        columns = max((graph.nodes[matrix].shape[1] for matrix in matrices), default=1)
        if columns <= 1:
            return None
        extents = {graph.extents[number][len(graph.nodes[number].shape) == 1] for number in walked}
        rows = max(extents)
        if len(cover.roots) > 1 and (extents - {1, rows} or not self._together(cover, walked)):
            return None
        driver, sparse = self._row_driver(cover, walked, (rows, columns))
        if graph.nodes[cover.root].nnz is not None and (not sparse or self._waits(cover)):
            return None
        if multiplies_unstored(graph, cover.nodes, driver if sparse else None):
            return None
        variant: Variant = "row"
        shape = graph.nodes[cover.root].shape
        if closing:
            variant = "full" if all(map(self._is_full, closing)) else "column"
        elif len(shape) == 2 and shape[1] > 1:
            variant = "none"
        vectors = tuple(
            node
            for node in cover.nodes
            if node not in cover.roots
            and len(graph.nodes[node].shape) == 2
            and graph.nodes[node].shape[1] > 1
        )
        operator = FusedOperator(
            "Row", cover.nodes, (), cover.roots, (rows, columns), variant, driver, sparse, vectors
        )
        return self._priced(operator, cover)

    def _is_full(self, root: int) -> bool:
        return self.graph.nodes[root].size == 1 and self._direction_or_product(root) == "full"

    def _direction_or_product(self, root: int) -> Variant:
        if self.graph.nodes[root].op != "MatMul":
            return self._direction(root)
        node = self.graph.operands[root][0].node
        return "full" if len(self.graph.nodes[node].shape) == 1 else "column"

    def _walked(self, cover: Cover) -> set[int]:
        """Return what is met one row at a time: covered nodes, and inputs in the same place."""
        graph, walked = self.graph, set[int]()
        for h in cover.nodes:
            node, operands = graph.nodes[h], graph.operands[h]
            if h not in cover.roots or "Row" not in graph.conditions.closes.get(h, ()):
                walked.add(h)
            if graph.kinds[h] == "elementwise":
                rows = graph.extents[h][len(node.shape) == 1]
                walked |= {
                    operand.node
                    for operand in operands
                    if len(graph.nodes[operand.node].shape) == len(node.shape)
                    and graph.extents[operand.node][len(node.shape) == 1] == rows
                }
            elif node.op == "MatMul" and "Row" not in graph.conditions.closes.get(h, ()):
                walked.add(operands[0].node)
            else:
                walked |= {operand.node for operand in operands}
        return walked

    def _together(self, cover: Cover, walked: set[int]) -> bool:
        """Whether a pass over rows that one root reads meets what the others read."""
        groups: list[set[int]] = []
        for h in cover.nodes:
            met = {operand.node for operand in self.graph.operands[h] if operand.node in walked} | {
                h
            }
            disjoint = [group for group in groups if not group & met]
            groups = [*disjoint, met.union(*(group for group in groups if group & met))]
        roots = set(cover.roots)
        return sum(1 for group in groups if group & roots) == 1

    def _row_driver(
        self, cover: Cover, walked: set[int], space: tuple[int, int]
    ) -> tuple[int | None, bool]:
        graph = self.graph
        inputs = [
            read for read in cover.reads if read in walked and graph.nodes[read].shape == space
        ]
        cells = [node for node in cover.nodes if graph.kinds[node] == "elementwise"]
        for number in self._sparse_inputs(cover, space):
            stored = graph.nodes[cover.root]
            cells_stored = graph.kinds[cover.root] == "elementwise" and stored.shape == space
            if cells_stored and stored.nnz is None:
                continue  # they are written densely
            if number in inputs and self._only_entries(
                cover, number, at_zero(graph.program, cells, number)
            ):
                return number, True
        return max(inputs, key=lambda number: (graph.bytes[number], -number), default=None), False

    def _only_entries(self, cover: Cover, driver: int, values_at_zero: Mapping[int, Known]) -> bool:
        """Whether what leaves the cells' places is zero wherever the driver is."""
        graph, shape = self.graph, self.graph.nodes[driver].shape
        for h in cover.nodes:
            if graph.kinds[h] == "elementwise":
                if (
                    h == cover.root
                    and graph.nodes[h].shape == shape
                    and values_at_zero.get(h) != 0.0
                ):
                    return False
                continue
            if graph.kinds[h] == "reduction" and not self._additive(h):
                return False
            summed = self._row_operands(h)
            wide = [number for number in summed if graph.nodes[number].shape == shape]
            zero = [number for number in wide if values_at_zero.get(number) == 0.0]
            if graph.kinds[h] == "contraction":  # of a dense value, 0 times NaN is NaN
                zero = [number for number in zero if graph.nodes[number].nnz is not None]
            if wide and not zero:
                return False
        return True

    def _waits(self, cover: Cover) -> bool:
        """Whether cells like the root's are first reduced: entries are visited once."""
        graph = self.graph
        shape = graph.nodes[cover.root].shape
        return any(
            graph.nodes[operand.node].shape == shape
            for h in cover.nodes
            if graph.kinds[h] in ("reduction", "contraction")
            for operand in graph.operands[h]
        )

    def _row_operands(self, h: int) -> list[int]:
        operands = [operand.node for operand in self.graph.operands[h]]
        closes = "Row" in self.graph.conditions.closes.get(h, ())
        return operands if closes or self.graph.nodes[h].op != "MatMul" else operands[:1]

    # ---- Outer

    def outer(self, cover: Cover) -> FusedOperator | None:
        """Return an Outer operator, if a sparse driver's zeros make all of it zero."""
        graph = self.graph
        if not self._fits(cover, "Outer"):
            return None
        opened = [node for node in cover.nodes if "Outer" in graph.conditions.opens.get(node, ())]
        if len(opened) != 1 or opened[0] == cover.root:
            return None
        product = graph.nodes[opened[0]]
        root = cover.root
        closing = "Outer" in graph.conditions.closes.get(root, ())
        value = graph.operands[root][0].node if closing else root
        inner = [node for node in cover.nodes if graph.kinds[node] == "elementwise"]
        for driver in self._sparse_inputs(cover, product.shape):
            if at_zero(graph.program, inner, driver).get(value) == 0.0:
                break
        else:
            return None
        if not closing and graph.nodes[root].nnz is None:
            return None
        if graph.nodes[value].nnz is None and graph.kinds[root] == "contraction":
            return None
        if multiplies_unstored(graph, cover.nodes, driver):
            return None
        variant: Variant = "none"
        if closing:
            variant = "full"
            if graph.nodes[root].op == "MatMul":
                variant = "right" if graph.operands[root][0].via is None else "left"
        rows, columns = product.shape
        operator = FusedOperator(
            "Outer",
            cover.nodes,
            (),
            (root,),
            (rows, columns),
            variant,
            driver,
            True,
            outer_product=product.id,
        )
        return self._priced(operator, cover)

    # ---- What they share

    def _fits(self, cover: Cover, template: str) -> bool:
        conditions = self.graph.conditions
        if any(template not in conditions.fuses[edge] for edge in cover.edges):
            return False
        return all(
            template in conditions.opens.get(root, ())
            or template in conditions.closes.get(root, ())
            for root in cover.roots
        )

    def _additive(self, number: int) -> bool:
        node = self.graph.nodes[number]
        return node.op in ADDITIVE or node.op == "MatMul"

    def _sparse_inputs(self, cover: Cover, shape: tuple[int, ...]) -> list[int]:
        nodes = self.graph.nodes
        sparse = [read for read in cover.reads if nodes[read].nnz is not None]
        sparse = [read for read in sparse if nodes[read].shape == shape]
        return sorted(sparse, key=lambda read: (nodes[read].nnz or 0, read))

    def _priced(self, operator: FusedOperator, cover: Cover) -> FusedOperator:
        return self.price(replace(operator, inputs=cover.reads), cover.nodes)

    def price(self, operator: FusedOperator, nodes: Collection[int]) -> FusedOperator:
        """Fill in what an operator reads, writes and computes, and its time."""
        graph, machine = self.graph, self.machine
        shape = operator.space
        entries = None
        if operator.sparse and operator.driver is not None:
            entries = graph.nodes[operator.driver].nnz or 0
        read = 0.0
        for operand in operator.inputs:
            limit = entries if graph.extents[operand] == shape else None
            read += graph.in_bytes(operand, limit)
        written = sum(graph.bytes[output] for output in operator.outputs)
        work = {node: self._computed(node, operator, entries) for node in nodes}
        compute_s = 0.0
        if not operator.sparse:
            work = {number: flops * graph.unfilled(number) for number, flops in work.items()}
            compute_s += self.loops(nodes) * shape[0] * ROW_S
        for number, flops in work.items():
            of_products = graph.nodes[number].op == "MatMul"
            compute_s += flops / (machine.products if of_products else machine.flops)
        # The rows that a Row operator holds are stored and loaded in its cache.
        rows_in_cache = [
            vector for vector in operator.vectors if self._is_row_buffer(vector, nodes)
        ]
        compute_s += sum(2 * graph.bytes[number] for number in rows_in_cache) / machine.cache
        # And so are sums of columns, beside each row; more work than this hides it.
        if len(nodes) <= _LITTLE and not operator.sparse:
            compute_s += sum(map(self._beside, operator.outputs)) / machine.cache
        cost = machine.dispatch_s + written / (machine.write * machine.bus)
        cost += max(read / (machine.read * machine.bus), compute_s / machine.cores)
        if read + written > self.memory_bytes:
            cost = INFINITE
        flops = sum(work.values())
        return replace(operator, cost_s=cost, read_bytes=read, write_bytes=written, flops=flops)

    def _beside(self, root: int) -> float:
        """Return the bytes of a sum of columns that are loaded and stored, row by row."""
        graph = self.graph
        node, first = graph.nodes[root], graph.operands[root][0]
        if graph.kinds[root] == "reduction":
            columns = over(node, graph.nodes[first.node]) == "column"
        else:  # products of matrices hold several rows at a time in registers
            columns = node.op == "MatMul" and first.via is not None and not graph.is_square(root)
        return 2 * graph.bytes[root] * graph.extents[first.node][0] if columns else 0.0

    def _is_row_buffer(self, number: int, nodes: Collection[int]) -> bool:
        """Whether a loop of its own makes a node's rows, or one of its own reads them."""
        graph = self.graph
        readers = [h for h in nodes if any(operand.node == number for operand in graph.operands[h])]
        kinds = {graph.kinds[h] for h in readers}
        return graph.nodes[number].op == "MatMul" or "contraction" in kinds or len(kinds) > 1

    def loops(self, nodes: Collection[int]) -> int:
        """Return how many loops begin anew in each row: cells may wait for results of their row."""
        graph, level = self.graph, dict[int, int]()
        for h in sorted(nodes):  # operands first
            level[h] = max(
                (
                    level[operand.node] + (graph.kinds[operand.node] == "reduction")
                    for operand in graph.operands[h]
                    if operand.node in level
                ),
                default=0,
            )
        begins = [level[h] for h in nodes if graph.goes_by_rows(h)]
        return 1 + max(begins) if begins else 0

    def _computed(self, number: int, operator: FusedOperator, entries: int | None) -> float:
        graph = self.graph
        if entries is None:
            return graph.flops(number)
        kind = graph.kinds[number]
        if number == operator.outer_product:
            return graph.flops(number, entries)
        if kind == "contraction":
            # One side runs over the driver's entries, where a side has its shape at all.
            sides = [graph.extents[operand] for operand in self._row_operands(number)]
            rows, columns = operator.space
            share = entries / (rows * columns) if operator.space in sides else 1.0
            return graph.flops(number, None, share)
        of = number if kind == "elementwise" else graph.nodes[number].inputs[0]
        at_entries = graph.extents[of] == operator.space
        return graph.flops(number, entries if at_entries else None)


def _space(shape: tuple[int, ...]) -> tuple[int, int]:
    return (shape[0], shape[1]) if len(shape) == 2 else (1, shape[0])
