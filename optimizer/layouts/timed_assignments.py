"""What assignments of layouts take: measured, as rows that rank them, and as a cost graph."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...profiles.kernel import Kernel
from ...profiles.kernels.roofline import bound_ns
from ...profiles.learning.samples.archive import CostGraph
from ...profiles.learning.samples.features import NAMES, operator_name, quantities
from ...profiles.learning.samples.kernel_graphs import opcode
from ...profiles.machine import Machine
from ...profiles.sessions.denormals import flushed_denormals
from ...profiles.sessions.execution import LEFT_OUT, Execution
from ...profiles.sessions.feeds import random_feeds
from ...profiles.sessions.session import BoundRun, open_session
from ..egraph.congruence import NONE
from ..graph.convert import to_model
from .assignments import Assignment, Assignments
from .runtime import NCHWC

Array = np.ndarray[Any, Any]

# The runtime lays out nothing by itself: what an assignment leaves as it is stays so.
AS_ASSIGNED = Execution(options=((LEFT_OUT, "NchwcTransformer"),))
# Below all optimizations the runtime computes each kernel in the layout that it is given.
BELOW_LAYOUTS = "extended"
# Runs of a sample, of which the median counts; the first one finds the caches as another left them.
_RUNS = 3
_LEAST_ROUNDS, _MOST_ROUNDS = 6, 40

# What the e-nodes of a plan are summed up by, each in blocks and as they are.
GROUPS = ("Conv", "grouped Conv", "pool", "Concat", "elsewise", "ReorderInput", "ReorderOutput")
SUMS = ("count", "bound_ns", "bytes")
FOLDER = "layout/onnxruntime/"
"""Where graphs of measured assignments lie in a data set."""


@dataclass(frozen=True)
class TimedAssignments:
    """Medians of times in ns, an entry an assignment: of all rounds, and of every other one."""

    times_ns: Array
    first_ns: Array
    second_ns: Array


def time_assignments(
    assignments: Assignments, chosen: Sequence[Assignment], *, threads: int, budget_s: float
) -> TimedAssignments:
    """Run assignments in turns for about `budget_s` seconds, all sessions open at once."""
    graph = assignments.space.egraph.graph
    input_types = {
        graph.names[value]: (graph.types[value].dtype, tuple(map(int, graph.types[value].shape)))  # type: ignore[arg-type]
        for value in graph.graph_inputs
    }
    feeds = random_feeds(input_types, "normal", 0)
    sessions = [
        BoundRun(
            open_session(
                to_model(assignments.graph(assignment)).SerializeToString(),
                threads=threads,
                execution=AS_ASSIGNED,
            ),
            feeds,
        )
        for assignment in chosen
    ]
    samples: list[list[float]] = [[] for _ in sessions]
    random = np.random.default_rng(0)
    end = time.monotonic() + budget_s
    with flushed_denormals():
        for number in range(_MOST_ROUNDS):
            if number >= _LEAST_ROUNDS and time.monotonic() > end:
                break
            for place in random.permutation(len(sessions)):
                sessions[place].time()
                samples[place].append(sessions[place].time(_RUNS))
    of = [
        [statistics.median(times[start::step]) for times in samples]
        for start, step in ((0, 1), (0, 2), (1, 2))
    ]
    return TimedAssignments(*map(np.array, of))


def sums(assignments: Assignments, assignment: Assignment, machine: Machine, threads: int) -> Array:
    """Return what a plan's kernels add up to, by kind and layout: counts, bounds in ns, bytes.

    The order is that of GROUPS, in each of which what lies as it is comes first, and of SUMS.
    """
    costs = assignments.space.costs
    totals = np.zeros((len(GROUPS), 2, len(SUMS)))
    for node in {choice.node for choice in assignment.selection.values()}:
        # In blocks an operator does what it does elsewhere, at least.
        kernel = costs.kernel(min(assignments.computed_by(node), default=node))
        kernel_here = costs.kernel(node)
        if kernel is not None and kernel_here is not None and not kernel_here.is_constant:
            place = GROUPS.index(_group(kernel)), int(_is_blocked(assignments, node, kernel_here))
            read = float(kernel_here.input_bytes)
            totals[place] += (1.0, bound_ns(kernel, machine, threads), read)
    return totals.ravel()


def _is_blocked(assignments: Assignments, node: int, kernel: Kernel) -> bool:
    blocked = assignments.blocked_classes
    return kernel.domain == NCHWC or any(
        value in blocked for value in assignments.space.egraph.columns.outputs(node)
    )


def _group(kernel: Kernel) -> str:
    name = kernel.op_type
    if name == "Conv":
        return "Conv" if kernel.attribute("group", 1) == 1 else "grouped Conv"
    if "Pool" in name:
        return "pool"
    return name if name in GROUPS else "elsewise"


def cost_graph(
    name: str,
    assignments: Assignments,
    chosen: Sequence[Assignment],
    times_ns: Array,
    machine: Machine,
    threads: int,
) -> CostGraph:
    """Return a model with timed assignments as a graph of TpuGraphs' layout collection.

    Nodes are the model's own operators, with the features of their kernels. What configures an
    operator are three numbers: 1 where it is in blocks, and the bytes that are put in blocks for
    it alone, and taken out behind it.
    """
    egraph = assignments.space.egraph
    columns = egraph.columns
    nodes = sorted(node for node in egraph.origin if columns.is_alive(node))
    number = {node: place for place, node in enumerate(nodes)}
    giver = {output: node for node in nodes for output in columns.outputs(node) if output != NONE}
    rows, opcodes, edges = [], [], []
    for node in nodes:
        kernel = assignments.space.costs.kernel(node)
        rows.append([-1.0] * len(NAMES) if kernel is None else quantities(kernel, machine, threads))
        opcodes.append(opcode("unknown" if kernel is None else operator_name(kernel)))
        edges += [
            (number[node], number[giver[operand]])
            for operand in columns.operands(node)
            if operand in giver
        ]
    configured = np.stack([_configured(assignments, assignment) for assignment in chosen])
    return CostGraph(
        f"{FOLDER}{name}.npz",
        {
            "node_feat": np.array(rows, np.float32),
            "node_opcode": np.array(opcodes, np.int32),
            "edge_index": np.array(edges, np.int32).reshape(-1, 2),
            "node_config_ids": np.array([number[node] for node in assignments.operators], np.int32),
            "node_config_feat": configured.astype(np.float32),
            "config_runtime": np.maximum(np.round(times_ns), 1).astype(np.int64),
        },
    )


def _configured(assignments: Assignments, assignment: Assignment) -> Array:
    """Return what configures each operator under an assignment (k, 3)."""
    space = assignments.space
    egraph = space.egraph
    chosen = {class_: choice.node for class_, choice in assignment.selection.items()}
    nodes = set(chosen.values())
    marks = np.zeros((len(assignments.operators), 3))
    for place, operator in enumerate(assignments.operators):
        if operator not in assignment.blocked:
            continue
        marks[place, 0] = 1.0
        for node in nodes & assignments.forms[operator]:
            for operand in egraph.columns.operands(node):
                marks[place, 1] += _moved_bytes(assignments, chosen.get(operand), "ReorderInput")
            outputs = set(egraph.columns.outputs(node))
            for reader in nodes:
                if not outputs.isdisjoint(egraph.columns.operands(reader)):
                    marks[place, 2] += _moved_bytes(assignments, reader, "ReorderOutput")
    return marks


def _moved_bytes(assignments: Assignments, node: int | None, name: str) -> float:
    kernel = None if node is None else assignments.space.costs.kernel(node)
    return float(kernel.input_bytes) if kernel is not None and kernel.op_type == name else 0.0
