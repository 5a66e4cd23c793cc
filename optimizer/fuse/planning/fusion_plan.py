"""What the fusion planner returns: operators in execution order, and how they were chosen.

The vocabulary is that of Boehm et al., "On Optimizing Operator Fusion Plans for Large-Scale
Machine Learning in SystemML", PVLDB 11(12), 2018. Nodes are named by their id in the program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

# Imported within functions: the report's pages, for notebooks.

Template = Literal["Cell", "Row", "MultiAgg", "Outer"]
Variant = Literal["none", "row", "column", "full", "left", "right"]
_COSTS = ("cost_s", "read_bytes", "write_bytes", "flops")

Heuristic = Literal["cost", "single", "all", "no_redundancy", "none"]
# Those that search for the cheapest plan.
BY_COST: tuple[Heuristic, ...] = ("cost", "single")


@dataclass(frozen=True)
class FusedOperator:
    """One generated kernel. `space` is the (rows, columns) that it iterates over.

    nodes    covered, in topological order; every one but the outputs lives inside the kernel only
    inputs   nodes outside that it reads, each once, in order of first use; scalars among them
    outputs  materialized nodes: one, of MultiAgg one for each full aggregate, and of Row one for
             each sum over its rows that shares the pass
    variant  none    a value for each cell; Row: a row of the output for each row of the space
             row     Cell: aggregated along each row, the output is rows x 1
             column  aggregated over all rows: Cell: 1 x columns; Row: any shape, among them
                     t(A) @ B for rows A and B, which adds up one product of two rows a row
             full    one number, or of several outputs one for each
             left    Outer: t(W) @ U, columns x rank;  right: W @ V, rows x rank
    driver   the input whose cells or rows are iterated over: of the shape of `space`; None where
             every input broadcasts
    sparse   only the stored entries of the driver (which is sparse then) are visited: where it
             is zero, so is the value that is written or added up. Without `sparse` a sparse
             input reads as a row (Row) or a cell with its zeros. A node with an nnz is written
             in sparse form, with the driver's pattern.
    vectors  Row: nodes that are held one row (or, of a MatMul, one row of the product) at a
             time; the others are one number a row, or belong to the output
    outer_product
             Outer: the MatMul of which only the driver's cells are computed
    """

    template: Template
    nodes: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    space: tuple[int, int]
    variant: Variant
    driver: int | None = None
    sparse: bool = False
    vectors: tuple[int, ...] = ()
    outer_product: int | None = None
    cost_s: float = 0.0
    read_bytes: float = 0.0
    write_bytes: float = 0.0
    flops: float = 0.0

    @property
    def description(self) -> str:
        """How it goes over its space, in words."""
        return f"{self.template}, {self.variant}" + (", sparse" if self.sparse else "")


@dataclass(frozen=True)
class PlainOperator:
    """A node that runs alone, as NumPy or SciPy runs it."""

    node: int
    cost_s: float = 0.0
    read_bytes: float = 0.0
    write_bytes: float = 0.0
    flops: float = 0.0

    @property
    def nodes(self) -> tuple[int, ...]:
        """The one node that it covers."""
        return (self.node,)

    @property
    def outputs(self) -> tuple[int, ...]:
        """The one node that it materializes."""
        return (self.node,)


@dataclass(frozen=True)
class MemoEntry:
    """A partial fusion plan: node may be part of a `template` with the inputs in `fused` fused.

    `close` is open (may grow, may be a root), pending (must grow), closed (a root only).
    """

    node: int
    template: Template
    fused: tuple[int, ...]
    close: Literal["open", "pending", "closed"]


@dataclass(frozen=True)
class Point:
    """An interesting point: whether `producer` is materialized for `consumer` is a decision.

    `kind` says why: consumers (there are several), template or sparse (the two sides may be
    held by different ones), library (it may multiply faster than a loop), repeated (the consumer
    may be computed by several operators).
    """

    consumer: int
    producer: int
    kind: Literal["consumers", "template", "sparse", "library", "repeated"]


@dataclass(frozen=True)
class Partition:
    """A connected part of the memo table, planned on its own.

    `candidates` may be stored, `stored` are; `materialized` are the points whose consumer reads
    the stored producer in some operator.
    """

    number: int
    nodes: tuple[int, ...]
    roots: tuple[int, ...]
    inputs: tuple[int, ...]
    points: tuple[Point, ...]
    candidates: tuple[int, ...] = ()
    stored: tuple[int, ...] = ()
    materialized: tuple[Point, ...] = ()
    cost_s: float = 0.0


@dataclass(frozen=True)
class PlanCounts:
    """Plans of the search space (subsets of the candidates), and what was costed of them.

    Plans that are skipped by structure are those that the parts of a cut have together, less the
    plans of each. `bounds` counts the bounds that were computed.
    """

    space: int = 0
    costed: int = 0
    skipped_by_cost: int = 0
    skipped_by_structure: int = 0
    bounds: int = 0


@dataclass(frozen=True)
class FusionPlan:
    """Operators in execution order, whose costs add up to `cost_s` seconds, and their reasons.

    No plan of operators with one result each, joined as these are, costs less than `bound_s`
    seconds; it is lower than `cost_s` where a search ended at its limit with the best plan found,
    and 0 for heuristics, which don't ask. By joining operators `joining_saved_s` were saved.
    """

    steps: tuple[FusedOperator | PlainOperator, ...]
    cost_s: float
    heuristic: Heuristic
    memo: tuple[MemoEntry, ...] = ()
    partitions: tuple[Partition, ...] = ()
    counts: PlanCounts = field(default_factory=PlanCounts)
    planning_s: float = 0.0
    bound_s: float = 0.0
    joining_saved_s: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether no plan costs less, by cost: always so unless a search met its limit."""
        return self.bound_s >= self.cost_s * (1 - 1e-9)

    def summary(self) -> str:
        """Say how it was found, what of all plans was looked at, and what it is estimated at."""
        counts, cost = self.counts, f"{self.cost_s * 1e6:.1f} µs"
        if self.heuristic not in BY_COST:
            return f"planned by the heuristic {self.heuristic}: {cost} estimated"
        looked = f"{counts.costed:,} costed, {counts.bounds:,} bounds"
        if not self.complete:
            least = f"{self.bound_s * 1e6:.1f} µs"
            return f"the best plan found: {cost} estimated, none takes less than {least} ({looked})"
        space = max(1, counts.space)
        number = f"{space:,}" if space < 10**9 else f"2^{space.bit_length() - 1}"
        joined = ", operators over the same cells joined" if self.joining_saved_s else ""
        return f"the cheapest plan of {number}{joined}: {cost} estimated ({looked})"

    def _repr_html_(self) -> str:
        """Show the operators in a notebook, in execution order."""
        from ...report.notebook import heading, page, table

        rows = []
        for step in self.steps:
            kind = step.description if isinstance(step, FusedOperator) else "NumPy"
            nodes = " ".join(f"%{node}" for node in step.nodes)
            outputs = " ".join(f"%{node}" for node in step.outputs)
            rows.append((kind, nodes, outputs, f"{step.cost_s * 1e6:.1f} µs"))
        head = ("operator", "computes", "stores", "estimated")
        return page(heading(self.summary()), table(head, rows, numbers=(3,)))

    @property
    def fused(self) -> tuple[FusedOperator, ...]:
        """The fused operators, in execution order."""
        return tuple(step for step in self.steps if isinstance(step, FusedOperator))

    def tables(self) -> Mapping[str, tuple[tuple[str, ...], list[tuple[object, ...]]]]:
        """Return the plan as tables: name to columns and rows, one row for each of a list."""
        operators: list[tuple[object, ...]] = []
        covers: list[tuple[object, ...]] = []
        for number, step in enumerate(self.steps):
            template, variant, sparse = "plain", None, False
            if isinstance(step, FusedOperator):
                template, variant, sparse = step.template, step.variant, step.sparse
            costs = (step.cost_s, step.read_bytes, step.write_bytes, step.flops)
            operators.append((number, template, variant, sparse, *costs))
            covers += [(number, node, node in step.outputs) for node in step.nodes]
        memo: list[tuple[object, ...]] = [
            (number, entry.node, entry.template, entry.close, list(entry.fused))
            for number, entry in enumerate(self.memo)
        ]
        partition: list[tuple[object, ...]] = []
        member: list[tuple[object, ...]] = []
        point: list[tuple[object, ...]] = []
        for part in self.partitions:
            partition.append((part.number, len(part.points), part.cost_s))
            for node in part.nodes:
                kept = (node in part.roots, node in part.candidates, node in part.stored)
                member.append((part.number, node, *kept))
            point += [
                (
                    part.number,
                    point.consumer,
                    point.producer,
                    point.kind,
                    point in part.materialized,
                )
                for point in part.points
            ]
        return {
            "fusion_operator": (
                ("operator_id", "template", "variant", "sparse", *_COSTS),
                operators,
            ),
            "fusion_cover": (("operator_id", "node_id", "materialized"), covers),
            "fusion_memo": (("entry_id", "node_id", "template", "close", "fused"), memo),
            "fusion_partition": (("partition_id", "points", "cost_s"), partition),
            "fusion_member": (("partition_id", "node_id", "root", "candidate", "stored"), member),
            "fusion_point": (
                ("partition_id", "consumer_id", "producer_id", "kind", "materialized"),
                point,
            ),
        }
