"""A program made ready to run: rewritten, planned, compiled; by NumPy where that can't be."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ....catalog.errors import TensologError
from ....profiles.machine import memory_bytes
from ..program.dag import Node, Program
from ..program.evaluate import run
from ..program.value_rewrites import rewrite
from .region_race import Race

if TYPE_CHECKING:
    from ..codegen.compiled import CompiledPlan
    from ..planning.fusion_plan import FusionPlan
    from ..planning.machine_rates import Machine

# Imported within functions: what plans and compiles, which calls too small to pay do without.

Heuristic = Literal["cost", "single", "all", "no_redundancy", "none"]


# Tracing a region takes so long, and a share of it for each operator. A region that NumPy computes
# before that is left to it, and `Fused` calls a function as it is, from its second call on, where
# all regions of a call together gain nothing. 0 plans and compiles all of them.
TRACING_S = 30e-6
_EACH = 0.1
# What tracing takes more for a sparse argument and for a sparse result, of which SciPy makes an
# object, and SciPy more than NumPy for a call of one.
_SPARSE_ARGUMENT_S, _SPARSE_RESULT_S, _SPARSE_CALL_S = 30e-6, 80e-6, 3e-6
# What the model says of a call of NumPy's where tracing takes that long, and at most so many times
# longer is it elsewhere: both are Python's.
_PLAIN_S, _SLOWEST = 1.2e-6, 3.0
# A region that runs without being traced is worth a kernel from so many of NumPy's seconds on.
REPEATED_S = 40e-6
SOONER = "NumPy is done sooner than the tracing of it"
# What a call takes beside its kernels where it isn't traced (replay.py), and for a sparse argument.
REPLAY_S, SPARSE_REPLAY_S = 10e-6, 10e-6


@cache
def _half_of_memory() -> float:
    return memory_bytes() / 2 or math.inf


@dataclass(frozen=True)
class Options:
    """How a fused function plans and runs."""

    heuristic: Heuristic = "cost"
    threads: int | None = None
    memory: float | None = None
    repeats: bool = False  # later calls may not be traced
    tunes: bool = False  # calls choose how kernels' work is divided

    @property
    def budget(self) -> float:
        """The bytes that the values of a region may take: half of the machine's by default."""
        return _half_of_memory() if self.memory is None else self.memory


@dataclass
class Prepared:
    """A program, the program after rewriting, and how it runs; `refusal` says why by NumPy.

    `rules` names the rules of the rule base that were applied, in order. `seconds` is what it takes
    by the model of costs, traced and as NumPy does it; None where it is worth while in any case.
    """

    traced: Program
    program: Program
    options: Options
    rules: tuple[str, ...] = ()
    plan: FusionPlan | None = None
    compiled: CompiledPlan | None = None
    refusal: str | None = None
    seconds: tuple[float, float] | None = None
    race: Race | None = None
    raced: str = ""  # how a race ended

    @property
    def kernels(self) -> int:
        """How many generated kernels run."""
        steps = () if self.compiled is None else self.compiled.steps
        return sum(1 for step in steps if step.kernel is not None)

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the outputs for the inputs' values."""
        if self.compiled is not None:
            try:
                if self.race is not None:
                    return self._raced(self.race, inputs)
                tunes = self.options.tunes
                values = self.compiled.run(inputs, self.options.threads, tunes=tunes)
                return self._checked(values)
            except TensologError as refusal:
                self.compiled, self.refusal = None, str(refusal)
            except Exception as defect:
                self.compiled, self.refusal = None, _defect(defect)
        return run(self.program, inputs)

    def _raced(self, race: Race, inputs: Sequence[Any]) -> list[Any]:
        """Return the kernel's outputs, computed both ways; keep the way that won in the end."""
        compiled = self.compiled
        assert compiled is not None

        def by_kernel() -> list[Any]:
            return self._checked(compiled.run(inputs, self.options.threads))

        def by_scipy() -> list[Any]:
            return run(self.traced, inputs, scipy_formats=True)

        formats: list[str] = []
        seconds: dict[Any, float] = {}
        arrays: list[Any] = []
        order = (by_kernel, by_scipy) if race.kernel_first else (by_scipy, by_kernel)
        for way in order:
            begun = perf_counter()
            values = way()
            seconds[way] = perf_counter() - begun
            if way is by_kernel:
                arrays = values
            else:
                formats = [getattr(value, "format", "dense") for value in values]
            del values  # SciPy's take memory
        race.add(seconds[by_kernel] + _conversion_s(arrays, formats), seconds[by_scipy])
        verdict = race.verdict
        if verdict != "open":
            self.race, self.raced = None, str(race)
        if verdict == "SciPy":
            scipy_s = median(race.scipy_s)
            self.compiled, self.refusal = None, f"SciPy is kept: {race}"
            self.seconds = (TRACING_S + scipy_s, scipy_s)
        return arrays

    def _checked(self, values: Sequence[Any]) -> list[Any]:
        """Return the outputs; raise ValueError for one that isn't what the program says."""
        for value, (node, dtype) in zip(values, self._expected, strict=True):
            layout = value.format if hasattr(value, "tocsr") else "dense"
            if value.shape != node.shape or value.dtype != dtype or layout != node.layout:
                raise ValueError(f"{node} came as {value.dtype} {value.shape} {layout}")
        return list(values)

    @cached_property
    def _expected(self) -> list[tuple[Node, np.dtype[Any]]]:
        """The outputs' nodes, and their types: asking a type for its name takes microseconds."""
        nodes = (self.program.nodes[node_id] for node_id in self.program.outputs)
        return [(node, np.dtype(node.dtype)) for node in nodes]


def prepare(program: Program, options: Options) -> Prepared:
    """Return a program ready to run; what can't be planned or compiled is left to NumPy."""
    tracing_s, alone_s = (0.0, 0.0)
    if options.heuristic == "cost" and TRACING_S > 0:
        tracing_s, alone_s = _expected_s(program)
    if alone_s < (min(tracing_s, REPEATED_S) if options.repeats else tracing_s):
        seconds = (tracing_s + alone_s, alone_s)
        return Prepared(program, program, options, refusal=SOONER, seconds=seconds)
    if any(not node.size for node in program.nodes):
        # Not even rewritten: products in another order would be sums of nothing elsewhere.
        refusal = "an array without elements: there is nothing to gain"
        return Prepared(program, program, options, refusal=refusal)
    after, rules = rewritten(program)
    if tracing_s and all(node.is_leaf or _is_sum_of_entries(after, node) for node in after.nodes):
        # It copies what it is given, or adds up its entries, and so do NumPy and SciPy.
        return Prepared(
            program, after, options, refusal=SOONER, seconds=(tracing_s + alone_s, alone_s)
        )
    prepared = Prepared(program, after, options, rules)
    try:
        # Only now: planning loads the Datalog engine, which nothing needs before.
        from ..codegen.compiled import compile_plan

        prepared.plan = _planned(prepared.program, options)
        if tracing_s:
            prepared.seconds = (tracing_s + prepared.plan.cost_s, alone_s)
        prepared.compiled = compile_plan(prepared.program, prepared.plan)
        if options.heuristic == "cost" and TRACING_S > 0 and _may_race(program):
            prepared.race = Race(_overhead_s(program, tracing_s, options))
    except TensologError as refusal:
        prepared.refusal = str(refusal)
    except Exception as defect:
        prepared.refusal = _defect(defect)
    return prepared


def machine_of(options: Options) -> Machine:
    """Return this machine with the threads that kernels may have."""
    from ..codegen.launch import default_threads
    from ..planning.machine_rates import Machine

    return Machine.here(options.threads or default_threads())


def _conversion_s(values: Sequence[Any], formats: Sequence[str]) -> float:
    """Return the seconds in which sparse results become objects of the formats that SciPy gives.

    Kernels give entries by rows in the pattern of an operand; of it, each object has its own copy.
    """
    begun = perf_counter()
    for value, layout in zip(values, formats, strict=True):
        if layout != "dense" and hasattr(value, "tocsr"):
            converted = value.asformat(layout)
            for part in (
                (converted.row, converted.col)
                if layout == "coo"
                else (converted.indices, converted.indptr)
            ):
                part.copy()
    return perf_counter() - begun


def _overhead_s(program: Program, tracing_s: float, options: Options) -> float:
    """Return what a fused call takes beside its kernels: less where later calls aren't traced."""
    layouts = [program.nodes[node_id].layout for node_id in program.outputs]
    if not options.repeats or any(layout != "dense" for layout in layouts):
        return tracing_s
    sparse = sum(program.nodes[node_id].layout != "dense" for node_id in program.inputs)
    return REPLAY_S + SPARSE_REPLAY_S * sparse


def _may_race(program: Program) -> bool:
    """Whether a program is over sparse values, and SciPy takes little memory for it."""
    sizes = [node.size if node.nnz is None else node.nnz for node in program.nodes]
    kept = {*program.inputs, *program.outputs}
    most = max((size for node, size in zip(program.nodes, sizes, strict=True) if node.id in kept))
    sparse = any(node.layout != "dense" for node in program.nodes)
    return sparse and max(sizes) <= 2 * most


def _planned(program: Program, options: Options) -> FusionPlan:
    """Return the plan; where an operator of it exceeds the budget, one that keeps to it.

    Where none does, NumPy wouldn't either, and the plan stays.
    """
    from ..planning.fusion_planner import FusionError, plan

    machine = machine_of(options)
    cheapest = plan(program, machine, options.heuristic)
    if any(step.read_bytes + step.write_bytes > options.budget for step in cheapest.steps):
        with contextlib.suppress(FusionError):
            return plan(program, machine, options.heuristic, memory_bytes=options.budget)
    return cheapest


def _is_sum_of_entries(program: Program, node: Node) -> bool:
    """Whether a node is the sum of a sparse input: SciPy adds up its data, no kernel is faster."""
    if node.op != "ReduceSum" or node.size != 1:
        return False
    operand = program.nodes[node.inputs[0]]
    return operand.op == "Input" and operand.layout != "dense"


def needless(regions: Sequence[Prepared | None]) -> bool:
    """Whether NumPy alone would have been done as soon with all regions of a call."""
    seconds = [None if region is None else region.seconds for region in regions]
    timed = [pair for pair in seconds if pair is not None]
    if len(timed) < len(seconds):
        return False
    return sum(pair[0] for pair in timed) >= sum(pair[1] for pair in timed)


def rewritten(program: Program) -> tuple[Program, tuple[str, ...]]:
    """Return a program rewritten, and the rules of the rule base that did so."""
    after = rewrite(program)
    try:
        from ..program.rule_rewrites import apply_rules

        ruled, names = apply_rules(after)
    except Exception as defect:
        _defect(defect)
        return after, ()
    return (rewrite(ruled), names) if names else (after, ())


def _expected_s(program: Program) -> tuple[float, float]:
    """Return the seconds of tracing a program, and NumPy's; zeros where those are many."""
    operators = [node for node in program.nodes if not node.is_leaf]
    sparse = {node.id for node in program.nodes if node.layout != "dense"}
    tracing_s = TRACING_S * (1 + _EACH * len(operators))
    tracing_s += _SPARSE_ARGUMENT_S * len(sparse.intersection(program.inputs))
    tracing_s += _SPARSE_RESULT_S * len(sparse.intersection(program.outputs))
    entries = (node.size if node.nnz is None else node.nnz for node in program.nodes)
    largest = max(entries, default=0)
    if largest * 1e-11 > tracing_s:
        return 0.0, 0.0  # a single pass over that array takes longer
    from ..planning.fusion_planner import unfused_s
    from ..planning.machine_rates import Machine

    tracing_s *= min(max(Machine.here(1).plain_s / _PLAIN_S, 1.0), _SLOWEST)
    calls = sum(not sparse.isdisjoint((node.id, *node.inputs)) for node in operators)
    alone_s = unfused_s(_in_calls(program), Machine.here(1).by_operator(8.0 * largest))
    return tracing_s, alone_s + _SPARSE_CALL_S * calls


def _in_calls(program: Program) -> Program:
    """Return a program that takes what NumPy does: np.clip goes over its array once.

    That is a Min of a Max whose bound comes first (arrays/functions.py); here the Max is left out.
    """
    kept = set(program.outputs)

    def clipped(node_id: int) -> int:
        node = program.nodes[node_id]
        if node.op != "Max" or node_id in kept or len(program.consumers[node_id]) > 1:
            return node_id
        return node.inputs[1] if program.nodes[node.inputs[0]].op == "Constant" else node_id

    nodes = [
        replace(node, inputs=(clipped(node.inputs[0]), *node.inputs[1:]))
        if node.op == "Min"
        else node
        for node in program.nodes
    ]
    return replace(program, nodes=tuple(nodes))


def _defect(error: Exception) -> str:
    """Warn of a defect, which is to be heard of although the function can still return."""
    defect = f"a defect: {type(error).__name__}: {error}"
    warnings.warn(
        f"tensolog.fuse left something out after {defect} (report it, please, with the program "
        "that explain() shows)",
        RuntimeWarning,
        stacklevel=3,
    )
    return defect
