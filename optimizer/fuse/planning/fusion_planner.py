"""From a program to its fused operators in execution order, by cost or by a heuristic.

The memo table and the interesting points come from templates.dl; each partition is searched on
its own; what no partition holds runs alone. A plan is kept for programs of the same structure,
extents and numbers of entries.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from ....catalog.errors import TensologError
from ....profiles.machine import cores
from ...collector_pause import seldom_collected
from ..program.dag import Program
from .fusion_candidates import Conditions, conditions
from .fusion_plan import (
    BY_COST,
    FusedOperator,
    FusionPlan,
    Heuristic,
    MemoEntry,
    Partition,
    PlainOperator,
    PlanCounts,
    Point,
)
from .machine_rates import Machine
from .operator_unions import joined
from .plan_search import Pruning, SearchResult, fuse_all, fuse_no_redundancy, search, stored_by
from .plan_space import Operator, Region
from .planning_graph import Operand, PlanningGraph, mask, members
from .template_costs import INFINITE, TemplateCosts

# Kernels that take fewer times as long as a call of one may be left to NumPy.
_FEW = 2


class FusionError(TensologError):
    """No plan keeps to the memory that is allowed."""


@dataclass(frozen=True)
class _Question:
    """What a plan depends on; of the program, its `identity`."""

    identity: tuple[object, ...]
    program: Program = field(compare=False)
    machine: Machine
    memory_bytes: float
    heuristic: Heuristic
    pruning: Pruning


@seldom_collected()
def plan(
    program: Program,
    machine: Machine | None = None,
    heuristic: Heuristic = "cost",
    *,
    memory_bytes: float = math.inf,
    pruning: Pruning | None = None,
) -> FusionPlan:
    """Return the operators that a program runs as, fused where that is cheaper.

    `heuristic` is "single" (the cheapest plan of operators with one result each, aggregates that
    share a pass apart), "cost" (the same, operators joined where that costs less: the default),
    "all" (fuse all that can be), "no_redundancy" (but what several read), or "none" (each node
    alone). `machine` is this one by default, as far as it was measured. No operator may read and
    write more than `memory_bytes` together: raises FusionError where no plan keeps to that. Source:
    PVLDB 2018, sections 3 and 4.
    """
    return _answered(
        _Question(
            _identity(program),
            program,
            machine or Machine.here(cores()),
            memory_bytes,
            heuristic,
            pruning or Pruning(),
        )
    )


@lru_cache(maxsize=1024)
def _answered(question: _Question) -> FusionPlan:
    begin = time.perf_counter()
    new_plan = make_plan(
        question.program,
        conditions(question.program),
        question.machine,
        question.heuristic,
        memory_bytes=question.memory_bytes,
        pruning=question.pruning,
    )
    return replace(new_plan, planning_s=time.perf_counter() - begin)


def make_plan(
    program: Program,
    conditions: Conditions,
    machine: Machine,
    heuristic: Heuristic = "cost",
    *,
    memory_bytes: float = math.inf,
    pruning: Pruning | None = None,
) -> FusionPlan:
    """Plan a program whose conditions are known; see plan."""
    by_cost = heuristic in BY_COST
    graph = PlanningGraph(program, conditions if heuristic != "none" else Conditions())
    prices = TemplateCosts(graph, machine, memory_bytes)
    operators: list[Operator] = []
    searched: list[tuple[Region, SearchResult]] = []
    bound_s = 0.0
    for region in regions(prices, joining=by_cost):
        result, chosen = _choose(region, heuristic, pruning or Pruning())
        if result.cost_s == INFINITE:
            raise _no_plan(region)
        operators += chosen
        searched.append((region, result))
        bound_s += result.bound_s
    partitioned = {node for region, _ in searched for node in region.nodes}
    for number in graph.forced - partitioned:
        operators.append(_alone(prices, number, heuristic))
        bound_s += operators[-1].cost_s
    chosen_s = sum(operator.cost_s for operator in operators)
    if by_cost:
        operators = _without_small(prices, machine, operators)
    apart_s = sum(operator.cost_s for operator in operators)
    if heuristic == "cost":
        operators = joined(prices, operators)
    partitions = tuple(
        _partition(number, region, result, operators)
        for number, (region, result) in enumerate(searched)
    )
    cost_s = sum(operator.cost_s for operator in operators)
    counts = [result.counts for _, result in searched]
    total = PlanCounts(
        sum(count.space for count in counts),
        sum(count.costed for count in counts),
        sum(count.skipped_by_cost for count in counts),
        sum(count.skipped_by_structure for count in counts),
        sum(count.bounds for count in counts),
    )
    return FusionPlan(
        steps(graph, operators),
        cost_s,
        heuristic,
        memo_table(graph),
        partitions,
        total,
        joining_saved_s=apart_s - cost_s,
        bound_s=max(0.0, bound_s + cost_s - chosen_s) if by_cost else 0.0,
    )


def unfused_s(program: Program, machine: Machine) -> float:
    """Return the seconds that a program takes node by node."""
    prices = TemplateCosts(PlanningGraph(program, Conditions()), machine)
    return sum(prices.plain(number).cost_s for number in prices.graph.forced)


def _without_small(
    prices: TemplateCosts, machine: Machine, operators: Sequence[Operator]
) -> list[Operator]:
    """Leave to NumPy what it does sooner than a kernel that takes little more than its call.

    To the search all calls are equally long: then nothing is gained by storing a node of a chain,
    and a chain is one operator. NumPy's calls, which are shorter, have their own price here.
    """
    called = replace(machine, dispatch_s=machine.plain_s)
    numpy = TemplateCosts(prices.graph, called, prices.memory_bytes)
    stored = {output for operator in operators for output in operator.outputs}
    kept: list[Operator] = []
    plain: dict[int, Operator] = {}
    for operator in operators:
        within = [
            number
            for number in operator.nodes
            if number in operator.outputs or number not in stored
        ]
        instead = {number: numpy.plain(number) for number in within if number not in plain}
        if isinstance(operator, PlainOperator) or (
            operator.cost_s < _FEW * machine.dispatch_s
            and _is_dense(prices.graph, operator)
            and sum(alternative.cost_s for alternative in instead.values()) < operator.cost_s
        ):
            plain |= instead
        else:
            kept.append(operator)
    return [*kept, *plain.values()]


def _is_dense(graph: PlanningGraph, operator: FusedOperator) -> bool:
    return all(graph.nodes[number].nnz is None for number in (*operator.nodes, *operator.inputs))


def regions(prices: TemplateCosts, joining: bool = True) -> list[Region]:
    """Return the partitions of a program as regions, in order of their first nodes."""
    graph = prices.graph
    conditions = graph.conditions
    members: dict[int, list[int]] = {}
    for node, first in sorted(conditions.partition.items()):
        members.setdefault(first, []).append(node)
    regions = []
    for first in sorted(members):
        nodes = members[first]
        inside = set(nodes)
        edges = [edge for edge in conditions.fuses if edge[0] in inside]
        candidates = {c for h, c in conditions.points if h in inside}
        if prices.memory_bytes < math.inf:
            candidates = {c for _, c in edges}  # less may have to be fused than could be
        regions.append(Region(prices, nodes, edges, candidates, graph.forced & inside, joining))
    return regions


def memo_table(graph: PlanningGraph) -> tuple[MemoEntry, ...]:
    """Return the memo table: of each node and template the entry that fuses most.

    Each subset of its fused inputs is an entry too.
    """
    conditions = graph.conditions
    fused: dict[tuple[int, str], list[int]] = {}
    for (h, c), templates in sorted(conditions.fuses.items()):
        for template in sorted(templates):
            fused.setdefault((h, template), []).append(c)
    for number, templates in conditions.opens.items():
        for template in templates:
            fused.setdefault((number, template), [])
    entries = []
    for (number, template), inputs in sorted(fused.items()):
        close = "closed" if template in conditions.closes.get(number, ()) else "open"
        if template == "Outer" and close == "open" and number not in graph.forced:
            close = "pending"
        entries.append(MemoEntry(number, template, tuple(inputs), close))  # type: ignore[arg-type]
    return tuple(entries)


def _choose(
    region: Region, heuristic: Heuristic, pruning: Pruning
) -> tuple[SearchResult, list[Operator]]:
    if heuristic in BY_COST:
        result = search(region, pruning)
        return result, region.operators(result.stored) if result.cost_s < INFINITE else []
    chosen = fuse_all(region) if heuristic == "all" else fuse_no_redundancy(region)
    counts = PlanCounts(1 << len(region.candidates), 1, 0, 0)
    cost_s = sum(operator.cost_s for operator in chosen)
    return SearchResult(stored_by(region, chosen), cost_s, counts, 0.0), chosen


def _alone(prices: TemplateCosts, number: int, heuristic: Heuristic) -> Operator:
    """Return the operator of a node that nothing can be fused with."""
    if heuristic == "none":
        operator: Operator | None = prices.plain(number)
    else:
        region = Region(prices, [number], [], [], [number])
        operator = region.operator((number,), 0)
    if operator is None or operator.cost_s == INFINITE:
        raise _exceeded(prices, number)
    return operator


def _partition(
    number: int, region: Region, result: SearchResult, chosen: Iterable[Operator]
) -> Partition:
    graph = region.graph
    kinds = graph.conditions.points
    inside = set(region.nodes)
    points = {
        edge: Point(*edge, kind)  # type: ignore[arg-type]
        for edge, kind in sorted(kinds.items())
        if edge[0] in inside
    }
    inputs = {
        operand.node
        for h in region.nodes
        for operand in graph.operands[h]
        if operand.node not in inside
    }
    materialized = {
        (h, operand.node)
        for operator in chosen
        for h in operator.nodes
        for operand in graph.operands[h]
        if (h, operand.node) in points and operand.node not in operator.nodes
    }
    return Partition(
        number,
        region.nodes,
        tuple(members(region.forced)),
        tuple(sorted(inputs)),
        tuple(points.values()),
        tuple(sorted(region.candidates)),
        tuple(members(result.stored)),
        tuple(points[edge] for edge in sorted(materialized)),
        result.cost_s,
    )


def _no_plan(region: Region) -> FusionError:
    everything = mask(region.candidates)
    for root in members(everything | region.forced):
        operator = region.operator((root,), everything)
        if operator is None or operator.cost_s == INFINITE:
            return _exceeded(region.prices, root)
    return _exceeded(region.prices, region.nodes[-1])


def _exceeded(prices: TemplateCosts, number: int) -> FusionError:
    node = prices.graph.nodes[number]
    return FusionError(
        f"node {number} ({node.op} of shape {node.shape}) takes more than"
        f" {prices.memory_bytes:,.0f} bytes in any plan; allow more memory"
    )


def _identity(program: Program) -> tuple[object, ...]:
    nodes: Iterable[Sequence[object]] = (
        (
            node.op,
            node.inputs,
            tuple(sorted((name, repr(value)) for name, value in node.attributes.items())),
            node.shape,
            node.dtype,
            node.nnz,
            node.layout,
        )
        for node in program.nodes
    )
    return (*map(tuple, nodes), program.inputs, program.outputs)


def steps(graph: PlanningGraph, operators: Sequence[Operator]) -> tuple[Operator, ...]:
    """Order operators such that each follows what it reads; views that they need are added."""
    by_output: dict[int, Operator] = {}
    for operator in operators:
        complete = _with_turns(graph, operator) if isinstance(operator, FusedOperator) else operator
        for output in complete.outputs:
            by_output[output] = complete
    ordered: dict[Operator, None] = {}
    opened: set[int] = set()

    def visit(number: int) -> None:
        node = graph.nodes[number]
        if node.is_leaf or number in opened:
            return
        opened.add(number)
        operator = by_output.get(number) or PlainOperator(number)
        inputs = operator.inputs if isinstance(operator, FusedOperator) else node.inputs
        for operand in sorted(inputs):
            visit(operand)
        opened.update(operator.outputs)
        ordered[operator] = None

    for number in graph.live:
        if number in by_output:
            visit(number)
    return tuple(ordered)


def _with_turns(graph: PlanningGraph, operator: FusedOperator) -> FusedOperator:
    """Name a transpose as covered where rows are read of what it turns, else as the input."""
    nodes = set(operator.nodes)
    inputs: dict[int, None] = {}
    # a transpose that one node reads as an array, all do
    read_values = {
        operand.via
        if operand.via is not None and not covers_turn(operator, h, operand)
        else operand.node
        for h in operator.nodes
        for operand in graph.operands[h]
    }
    for h in operator.nodes:
        for operand in graph.operands[h]:
            if operand.via is not None and operand.via not in read_values:
                nodes.add(operand.via)
                read = operand.node
            else:
                read = operand.node if operand.via is None else operand.via
            if read not in operator.nodes:
                inputs[read] = None
    driver = operator.driver if operator.driver in inputs else None
    return replace(operator, nodes=tuple(sorted(nodes)), inputs=tuple(inputs), driver=driver)


def covers_turn(operator: FusedOperator, h: int, operand: Operand) -> bool:
    """Whether an operator reads below the transpose of a product's operand."""
    if operand.node in operator.nodes:
        return True
    if operator.template == "Outer":
        return operator.outer_product == h and operand.position == 1
    return operand.position == 0
