"""A region over values in blocks: computed here or block by block, whichever costs less.

Here, the blocks are gathered first, which the memory budget must allow, and the region runs as any
other. In blocks, each round's pass runs as one Dask task a block, with what all blocks read sent
along, and parts are combined in a tree. A task names all that it needs, so that Dask computes what
a dead worker held once more.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..program.dag import Node, Program, shape_text
from ..program.evaluate import extend
from ..tracing.prepare import Options, Prepared, machine_of, prepare, rewritten
from .block_passes import Pass, combine, prepared, run_pass
from .block_places import Places, places
from .partitioned import BlocksError, Partitioned, aligned, bytes_of, loaded, persisted, pieces
from .rounds import Round, rounds, sized

if TYPE_CHECKING:
    from ..planning.fusion_plan import FusionPlan

# Imported within functions: Dask's cluster, and what plans and compiles, which is loaded
# with a first region that pays.

# Parts combined by one task.
_FAN_IN = 8
# Dask's scheduler hands out a task in about this time.
_TASK_S = 1e-3
# What a worker's memory is read at from another process of this machine.
_TRANSFER = 1e9


@dataclass
class BlockPlan:
    """A region whose inputs are partly in blocks; see Prepared for what it has in common."""

    traced: Program
    program: Program
    options: Options
    placement: Places
    rounds: tuple[Round, ...]
    rows: tuple[int, ...]
    here_s: float
    blocks_s: float
    rules: tuple[str, ...] = ()
    local: Prepared | None = None
    passes: dict[tuple[int, int], Pass] = field(default_factory=dict)
    refusal: str | None = None

    @property
    def in_blocks(self) -> bool:
        """Whether it runs block by block."""
        return self.local is None

    @property
    def compiled(self) -> None:
        """None: passes have their own."""
        return None

    @property
    def plan(self) -> FusionPlan | None:
        """The plan of the first pass, or of what is computed here."""
        for run in self._runs():
            if run.plan is not None:
                return run.plan
        return None

    @property
    def kernels(self) -> int:
        """How many generated kernels run, over one block or here."""
        return sum(run.kernels for run in self._runs())

    def _runs(self) -> list[Prepared]:
        return [self.local] if self.local is not None else [*map(prepared, self.passes.values())]

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the outputs: ndarrays and sparse matrices, and values in blocks."""
        budget = self.options.budget
        if self.local is not None:
            return self.local.run([_whole(input_, budget, "the cheaper plan") for input_ in inputs])
        values: dict[int, Any] = {
            number: aligned(array, self.rows)
            if self.placement.read[number].place == "blocks"
            else array
            for number, array in zip(self.program.inputs, inputs, strict=True)
        }
        constants = [node for node in self.program.nodes if node.op == "Constant"]
        extend(values, constants)
        for node_id in self.placement.gathered:
            if node_id in values:
                values[node_id] = _whole(values[node_id], budget, self.placement.gathered[node_id])
        for number, round_ in enumerate(self.rounds):
            extend(values, [self.program.nodes[number] for number in round_.before])
            if round_.nodes:
                self._pass(number, round_, values)
        return [values[number] for number in self.program.outputs]

    def _pass(self, number: int, round_: Round, values: dict[int, Any]) -> None:
        dask = loaded()
        whole = [
            dask.delayed(
                values[number], pure=False, traverse=False, name=f"whole-{uuid.uuid4().hex}"
            )
            for number in round_.whole
        ]
        split = [pieces(values[number], self.rows, axis) for number, axis in round_.split]
        tasks = {
            rows: dask.delayed(self._sized(number, round_, rows), pure=False, traverse=False)
            for rows in set(self.rows)
        }
        run = dask.delayed(run_pass, pure=False, nout=2)
        outcomes = [
            run(
                tasks[rows],
                *(values[number].parts[block] for number in round_.operands),
                *(cut[block] for cut in split),
                *whole,
            )
            for block, rows in enumerate(self.rows)
        ]
        kept = [outcome[1][i] for i in range(len(round_.kept)) for outcome in outcomes]
        total = (
            [_tree(outcomes, [aggregate.ufunc for aggregate in round_.aggregates])]
            if round_.aggregates
            else []
        )
        parts = persisted(*total, *kept)
        if round_.aggregates:
            results = parts.pop(0).compute()
            for aggregate, value in zip(round_.aggregates, results, strict=True):
                values[aggregate.node] = _finished(
                    self.program, aggregate.node, value, aggregate.count
                )
        for node_id in round_.kept:
            node = self.program.nodes[node_id]
            mine, parts = parts[: len(self.rows)], parts[len(self.rows) :]
            values[node_id] = Partitioned(
                mine,
                self.rows,
                node.shape,
                node.dtype,
                axis=self.placement.computed[node_id].axis,
                layout=node.layout,
                nnz=node.nnz,
            )
            if node_id in self.placement.gathered:
                values[node_id] = _whole(
                    values[node_id], self.options.budget, self.placement.gathered[node_id]
                )

    def _sized(self, number: int, round_: Round, rows: int) -> Pass:
        pass_ = self.passes.get((number, rows))
        if pass_ is None:
            program = sized(self.program, self.placement, round_, rows, sum(self.rows))
            options = replace(self.options, threads=1)
            pass_ = Pass(uuid.uuid4().hex, program, options, len(round_.aggregates))
            self.passes[number, rows] = pass_
        return pass_


def _tree(results: Sequence[Any], ufuncs: Sequence[str]) -> Any:
    """Return the combination of all blocks' parts, some at a time."""
    dask = loaded()
    join = dask.delayed(combine, pure=False)
    level, first = list(results), True
    while first or len(level) > 1:
        starts = range(0, len(level), _FAN_IN)
        level = [join(ufuncs, level[start : start + _FAN_IN], first) for start in starts]
        first = False
    return level[0]


def _finished(program: Program, number: int, value: Any, count: int | None) -> Any:
    node = program.nodes[number]
    if count is not None:
        with np.errstate(all="ignore"):
            value = np.true_divide(value, np.dtype(node.dtype).type(count))
    return np.asarray(value).reshape(node.shape)


def _whole(value: Any, budget: float, why: str) -> Any:
    return value.gathered(budget, why) if isinstance(value, Partitioned) else value


def prepare_blocks(program: Program, inputs: Sequence[Any], options: Options) -> BlockPlan:
    """Return a region ready to run; `inputs` are its inputs' values, some of them in blocks.

    Raises BlocksError for what neither runs in blocks nor fits into the memory budget.
    """
    after, rules = rewritten(program)
    input_values = zip(after.inputs, inputs, strict=True)
    partitioned = {
        number: array for number, array in input_values if isinstance(array, Partitioned)
    }
    rows = max(partitioned.values(), key=lambda array: array.nbytes).rows
    # Blocks of one length run together; of another length, they are needed as a whole.
    alike = {
        number: array
        for number, array in partitioned.items()
        if array.shape[array.axis] == sum(rows)
    }
    others = dict.fromkeys(partitioned.keys() - alike.keys(), "an operand beside longer ones")
    placed = places(after, {number: array.axis for number, array in partitioned.items()}, others)
    plan = BlockPlan(
        program,
        after,
        options,
        placed,
        rounds(after, placed, machine_of(options)),
        rows,
        _here_s(after, partitioned, options),
        0.0,
        rules,
    )
    if not any(round_.nodes for round_ in plan.rounds):
        plan.local = prepare(program, options)  # all of it needs whole operands
    here = {number for number, array in partitioned.items() if array.source is not None}
    too_large = _too_large(after, placed, options.budget, here)
    plan.blocks_s = math.inf if too_large else _blocks_s(plan, options)
    if plan.blocks_s == math.inf and plan.here_s == math.inf:
        raise BlocksError(too_large or "nothing of it can be computed in blocks")
    if plan.here_s < plan.blocks_s and plan.local is None:
        plan.local = prepare(program, options)
    return plan


def _too_large(program: Program, placed: Places, budget: float, here: Collection[int]) -> str:
    """Return what would exceed the memory budget although it is computed in blocks; "" for none.

    Operands that are in this process already, those `here`, take no more of it as a whole.
    """
    for number, why in placed.gathered.items():
        node = program.nodes[number]
        if number in here:
            continue
        size = bytes_of(node.shape, node.dtype, node.nnz)
        if size > budget:
            return _exceeds(f"{why} needs the whole array at once: ", node, size, budget)
    for node, place in zip(program.nodes, placed.computed, strict=True):
        size = bytes_of(node.shape, node.dtype, node.nnz)
        if place.place != "blocks" and node.op != "Input" and size > budget:
            whole = f"{node.op} needs the whole array at once, and makes "
            return _exceeds(whole, node, size, budget)
    return ""


def _exceeds(reason: str, node: Node, size: float, budget: float) -> str:
    return (
        f"{reason}{node.dtype} {shape_text(node.shape)}, {size:,.0f} bytes, which is more than the "
        f"memory budget of {budget:,.0f}: give fuse a larger memory="
    )


def _here_s(program: Program, partitioned: Mapping[int, Partitioned], options: Options) -> float:
    """Return what computing it here costs: fetching the blocks, then running the plan."""
    stored = {*program.inputs, *program.outputs}
    if sum(_bytes(program, number) for number in stored) > options.budget:
        return math.inf
    missing = sum(array.nbytes for array in partitioned.values() if array.source is None)
    tasks = sum(len(array.parts) for array in partitioned.values() if array.source is None)
    return missing / _TRANSFER + tasks * _TASK_S + _plan_s(program, options)


def _plan_s(program: Program, options: Options) -> float:
    from ..planning.fusion_planner import plan

    if any(not node.size for node in program.nodes):
        return 0.0
    return plan(program, machine_of(options), options.heuristic).cost_s


def _blocks_s(plan: BlockPlan, options: Options) -> float:
    """Return what computing it in blocks costs, all workers busy."""
    workers = _workers()
    count = len(plan.rows)
    turns = -(-count // workers)
    cost = 0.0
    for number, round_ in enumerate(plan.rounds):
        if not round_.nodes:
            continue
        largest = plan._sized(number, round_, max(plan.rows))
        cost += turns * _plan_s(largest.program, largest.options)
        sent = sum(_bytes(plan.program, number) for number in round_.whole) * min(workers, count)
        sent += sum(_bytes(plan.program, number) for number, _ in round_.split)
        sent += sum(_bytes(plan.program, aggregate.node) for aggregate in round_.aggregates) * count
        sent += sum(
            _bytes(plan.program, number)
            for number in round_.kept
            if number in plan.placement.gathered
        )
        tasks = count + (count // (_FAN_IN - 1) + 1 if round_.aggregates else 0)
        tasks += 2 * count * len(round_.kept)
        cost += sent / _TRANSFER + tasks * _TASK_S
    return cost


def _bytes(program: Program, number: int) -> int:
    node = program.nodes[number]
    return bytes_of(node.shape, node.dtype, node.nnz)


def _workers() -> int:
    """Return how many tasks run at once: of the cluster at hand, else of this process."""
    try:
        import distributed

        client: Any = distributed.client
        return max(1, int(sum(client.default_client().nthreads().values())))
    except (ImportError, ValueError):
        from ..codegen.launch import default_threads

        return default_threads()
