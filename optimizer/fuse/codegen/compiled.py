"""A fusion plan as something that runs: kernels where there are some, NumPy for the rest.

Each fused operator is lowered by the first of the generators that can: over cells, over rows, over
the entries of a sparse driver. Where a region reads one array along the rows and along the columns
(U @ U.T at the entries of S, np.less.outer(a, a)), each reading is taken to be an array of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np

from ...codegen.compiler import FLAGS, CompilerError, absence, find_compiler, library
from ...codegen.expressions import LoweringError
from ...codegen.unit import native_level, unit
from ...native.configurations.fused_configuration import FusedConfiguration, FusedSizes
from ..planning.fusion_plan import FusedOperator, FusionPlan
from ..program.dag import Node, Program
from ..program.evaluate import bound, evaluate, extend, ignored
from .cell_kernel import lower_cells
from .entry_kernel import EntryKernel, lower_entries
from .launch import Array, Function, default_threads, exported
from .row_kernel import RowKernel, lower_rows
from .tuning import Tunable, Tuning


@dataclass(frozen=True)
class UnsharedKernel:
    """A kernel of a program in which arrays stand as often as they are read.

    `nodes` are the numbers there of what is given and computed, with those in the whole program.
    """

    kernel: EntryKernel | RowKernel
    nodes: Mapping[int, int]

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.kernel.name

    @property
    def text(self) -> str:
        """Its definition."""
        return self.kernel.text

    @property
    def configuration(self) -> FusedConfiguration:
        """How its work is divided where nothing else is chosen."""
        return self.kernel.configuration

    def work_sizes(self, threads: int) -> FusedSizes:
        """Return the sizes that configurations depend on."""
        return self.kernel.work_sizes(threads)

    def run(
        self,
        function: Function,
        values: Mapping[int, Array],
        threads: int,
        how: FusedConfiguration | None = None,
    ) -> dict[int, Array]:
        """Return the outputs for the values of the inputs."""
        arrays = {node_id: values[old] for node_id, old in self.nodes.items() if old in values}
        results = self.kernel.run(function, arrays, threads, how)
        return {self.nodes[node_id]: value for node_id, value in results.items()}


def lower_unshared(
    lower: Callable[[Program, FusedOperator, str], EntryKernel | RowKernel],
    program: Program,
    operator: FusedOperator,
    name: str,
) -> UnsharedKernel:
    """Return the kernel that `lower` makes of a region whose readings are apart; LoweringError."""
    nodes: list[Node] = []
    old: dict[int, int] = {}
    place: dict[int, int] = {}

    def put(node: Node, inputs: tuple[int, ...]) -> int:
        nodes.append(replace(node, id=len(nodes), inputs=inputs))
        old[nodes[-1].id] = node.id
        return nodes[-1].id

    def read(node_id: int) -> int:
        node = program.nodes[node_id]
        if node_id not in place and node.op != "Constant":
            taken = put(replace(node, op="Input", attributes={}), ())
            if node_id == operator.driver:
                place[node_id] = taken
            return taken
        return place[node_id] if node_id in place else put(node, ())

    for node_id in operator.nodes:
        node = program.nodes[node_id]
        place[node_id] = put(node, tuple(map(read, node.inputs)))
    outputs = tuple(place[node_id] for node_id in operator.outputs)
    inputs = tuple(node.id for node in nodes if node.is_leaf)
    new_inputs = tuple(node.id for node in nodes if node.op == "Input")
    region = replace(
        operator,
        nodes=tuple(place[node_id] for node_id in operator.nodes),
        inputs=inputs,
        outputs=outputs,
        driver=None if operator.driver is None else place.get(operator.driver),
    )
    return UnsharedKernel(lower(Program(tuple(nodes), new_inputs, outputs), region, name), old)


class Kernel(Tunable, Protocol):
    """The text of a function of C, and how it is called for arrays."""

    @property
    def name(self) -> str:
        """The name of the function."""

    @property
    def text(self) -> str:
        """Its definition."""


def lower(program: Program, operator: FusedOperator, name: str) -> Kernel:
    """Return the kernel of a fused operator, as a function called `name`.

    Raises LoweringError with why there is none: then the operator's nodes run one by one.
    """
    refusals: list[str] = []
    for generator in _generators(program, operator):
        try:
            return generator(program, operator, name)
        except LoweringError as error:
            refusals.append(str(error))
    raise LoweringError("; ".join(dict.fromkeys(refusals)))


def _generators(
    program: Program,
    operator: FusedOperator,
) -> list[Callable[[Program, FusedOperator, str], Kernel]]:
    unshared_rows = partial(lower_unshared, lower_rows)
    unshared_entries = partial(lower_unshared, lower_entries)
    if not operator.sparse:
        return [_cells, lower_rows, unshared_rows]
    turned = {operator.driver}
    readers = []
    for node in (program.nodes[node_id] for node_id in operator.nodes):
        if node.op == "Transpose" and node.inputs[0] in turned:
            turned.add(node.id)
        elif not turned.isdisjoint(node.inputs):
            readers.append(node)
    if operator.template == "Row" and all(node.op == "MatMul" for node in readers):
        # sums of a row's entries stay in registers there
        return [lower_rows, lower_entries, unshared_entries, unshared_rows]
    return [lower_entries, lower_rows, unshared_entries, unshared_rows]


def _cells(program: Program, operator: FusedOperator, name: str) -> Kernel:
    return lower_cells(program, name, operator.nodes, operator.inputs, operator.outputs)


Value = Any  # an ndarray or a sparse array of SciPy's; between steps also a number of NumPy's
Turn = Callable[[dict[int, Value], int], None]  # adds to the values, in so many threads


@dataclass(frozen=True)
class Step:
    """Nodes computed together: by a kernel, or one after the other, and then why."""

    nodes: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    kernel: Kernel | None = None
    function: Function | None = None
    reason: str = ""

    @cached_property
    def tuning(self) -> Tuning | None:
        """What its calls have told of how the kernel's work is best divided."""
        return None if self.kernel is None else Tuning(self.kernel)


@dataclass(frozen=True)
class CompiledPlan:
    """A plan that runs. `source` is the text of its translation unit, "" where there is none."""

    program: Program
    plan: FusionPlan
    steps: tuple[Step, ...]
    source: str = ""

    @property
    def fallbacks(self) -> tuple[tuple[tuple[int, ...], str], ...]:
        """The fused operators that NumPy runs node by node, each its nodes and why."""
        return tuple((step.nodes, step.reason) for step in self.steps if step.reason)

    def run(
        self, inputs: Sequence[Value], threads: int | None = None, *, tunes: bool = False
    ) -> list[Value]:
        """Return the outputs for arrays of the shapes, types and layouts that were planned.

        Where it `tunes`, calls choose how kernels' work is divided. Raises LoweringError for other
        arrays, and what NumPy raises.
        """
        threads = threads or default_threads()
        values = dict(self._constants)
        values.update(zip(self.program.inputs, inputs, strict=True))
        with ignored():
            for turn, last in self._tuned_turns if tunes else self._turns:
                turn(values, threads)
                for node_id in last:
                    values.pop(node_id, None)
        return [
            np.asarray(values[node_id]) if node_id in self._numbers else values[node_id]
            for node_id in self.program.outputs
        ]

    @cached_property
    def _turns(self) -> Sequence[tuple[Turn, Sequence[int]]]:
        """What each step does, and which values nobody needs after it."""
        return list(zip(map(self._turn, self.steps), self._last_uses, strict=True))

    @cached_property
    def _tuned_turns(self) -> Sequence[tuple[Turn, Sequence[int]]]:
        turns = [self._turn(step, tunes=True) for step in self.steps]
        return list(zip(turns, self._last_uses, strict=True))

    def _turn(self, step: Step, *, tunes: bool = False) -> Turn:
        if step.kernel is not None and step.function is not None:
            numbers = [node_id for node_id in step.inputs if node_id in self._numbers]
            runs = step.kernel if step.tuning is None or not tunes else step.tuning
            return _by_kernel(runs, step.function, numbers)
        if len(step.nodes) == 1:
            node = self.program.nodes[step.nodes[0]]
            return _by_numpy(node, bound(self.program, node))
        return partial(self._interpret, step)

    def _interpret(self, step: Step, values: dict[int, Value], threads: int) -> None:
        inner = dict(values)
        nodes = (self.program.nodes[node_id] for node_id in step.nodes)
        extend(inner, (node for node in nodes if not node.is_leaf))
        values.update((node_id, inner[node_id]) for node_id in step.outputs)

    @cached_property
    def _numbers(self) -> frozenset[int]:
        """The nodes whose values may be NumPy's numbers, where others expect arrays."""
        nodes = [self.program.nodes[step.nodes[0]] for step in self.steps if len(step.nodes) == 1]
        return frozenset(node.id for node in nodes if not node.shape)

    @cached_property
    def _constants(self) -> Mapping[int, Value]:
        constants = {n.id: evaluate(n, []) for n in self.program.nodes if n.op == "Constant"}
        for value in constants.values():
            value.flags.writeable = False  # all runs share them
        return constants

    @cached_property
    def _last_uses(self) -> Sequence[Sequence[int]]:
        """Which values nobody needs after each step."""
        last: dict[int, int] = {}
        for number, step in enumerate(self.steps):
            for node_id in (*step.inputs, *step.outputs):
                last[node_id] = number
        for output in self.program.outputs:
            last.pop(output, None)
        last_uses: list[list[int]] = [[] for _ in self.steps]
        for node_id, number in last.items():
            last_uses[number].append(node_id)
        return last_uses


def _by_kernel(kernel: Kernel | Tuning, function: Function, numbers: Sequence[int]) -> Turn:
    def turn(values: dict[int, Value], threads: int) -> None:
        for node_id in numbers:
            values[node_id] = np.asarray(values[node_id])
        values.update(kernel.run(function, values, threads))

    return turn


def _by_numpy(node: Node, function: Callable[..., Value]) -> Turn:
    name, inputs = node.id, node.inputs

    def turn(values: dict[int, Value], threads: int) -> None:
        values[name] = function(*[values[node_id] for node_id in inputs])

    return turn


def compile_plan(
    program: Program,
    plan: FusionPlan,
    *,
    compiler: str | None = None,
    levels: Sequence[str] | None = None,
    flags: Sequence[str] = FLAGS,
) -> CompiledPlan:
    """Return a plan that runs, its kernels compiled as one translation unit or found in the cache.

    `compiler` names a command; "none" makes everything run through NumPy, as does a machine
    without a compiler. `levels` are instruction sets, best first ("avx512", "avx2", "plain");
    None means that of this processor; `flags` are the compiler's. A fused operator that has no
    kernel runs node by node, and `fallbacks` says why.
    """
    kernels: dict[int, Kernel] = {}
    reasons: dict[int, str] = {}
    for number, step in enumerate(plan.steps):
        if isinstance(step, FusedOperator):
            try:
                kernels[number] = lower(program, step, f"kernel_{number}")
            except LoweringError as error:
                reasons[number] = str(error)
    functions, source, refusal = _functions(list(kernels.values()), compiler, levels, flags)
    steps = []
    for number, step in enumerate(plan.steps):
        if not isinstance(step, FusedOperator):
            inputs = program.nodes[step.node].inputs
            steps.append(Step(step.nodes, inputs, step.outputs))
        elif number in kernels and not refusal:
            function = functions[kernels[number].name]
            steps.append(Step(step.nodes, step.inputs, step.outputs, kernels[number], function))
        else:
            reason = reasons.get(number, refusal)
            steps.append(Step(step.nodes, step.inputs, step.outputs, reason=reason))
    return CompiledPlan(program, plan, tuple(steps), source)


def _functions(
    kernels: Sequence[Kernel],
    wanted: str | None,
    levels: Sequence[str] | None,
    flags: Sequence[str],
) -> tuple[dict[str, Function], str, str]:
    """Return the kernels' functions, the source, and why there are none ("" if there are)."""
    if not kernels:
        return {}, "", ""
    compiler = find_compiler(wanted)
    if compiler is None:
        return {}, "", absence(wanted)
    texts = [(kernel.name, kernel.text) for kernel in kernels]
    source = unit(texts, levels or (native_level(),), compiler)
    try:
        loaded = library(source, compiler, flags)
    except (CompilerError, OSError) as error:
        return {}, source, str(error)
    return {kernel.name: exported(loaded, kernel.name) for kernel in kernels}, source, ""
