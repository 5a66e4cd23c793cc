"""What became of a call: as text, and as tables for SQL."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from importlib import resources
from statistics import median
from typing import TYPE_CHECKING

from ....catalog.errors import TensologError
from ...report.notebook import Text
from ..blocks.block_passes import prepared as prepared_pass
from ..blocks.block_plan import BlockPlan
from ..planning.fusion_candidates import refusal
from ..planning.fusion_plan import FusedOperator, FusionPlan
from ..program.dag import Node, Program, shape_text
from .prepare import Prepared
from .region_engine import Computed, Runner

if TYPE_CHECKING:
    import duckdb

    from ..codegen.compiled import Step

# Imported within functions: DuckDB, for questions in SQL.


class QueryError(TensologError):
    """What isn't a SQL query over the tables of fused regions."""


Table = tuple[tuple[str, ...], list[tuple[object, ...]]]

# Plans are counted in floating-point numbers: a hundred candidates have 2^100.
_MANY = 1 << 1023

_VALUE = ("shape", "dtype", "layout", "nnz")
KERNEL = "a generated kernel"
_CONFIGURED = ("region_id", "operator_id", "calls", "block", "part", "run", "median_s", "chosen")


def explain(name: str, runner: Runner) -> Text:
    """Return what each region of a call was, why it ended there, how it ran, and what fell back."""
    if runner.plain:
        return Text(f"{name}: the last call ran as it is: {runner.plain}")
    count = len(runner.regions)
    lines = [f"{name}: {count or 'no'} region{'' if count == 1 else 's'} in the last call"]
    groups: list[tuple[Computed, int]] = []
    for region in runner.regions:
        if groups and groups[-1][0].prepared is region.prepared:
            groups[-1] = (groups[-1][0], groups[-1][1] + 1)
        else:
            groups.append((region, 1))
    for number, (first, times) in enumerate(groups, start=1):
        again = f", {times} times in a row" if times > 1 else ""
        origin = "known before" if first.cached else "new"
        lines += ["", f"Region {number}{again}: up to {first.why} ({origin})"]
        lines += [f"  {line}" for line in region_text(first.prepared)]
    if runner.repeats:
        lines += ["", "Later calls like this one run the region at once: they can do nothing else."]
    elif runner.stopped:
        lines += ["", f"Tracing stopped in the call: {runner.stopped}."]
        lines += ["Later calls like this one run as they are."]
    elif runner.needless:
        lines += ["", "Later calls like this one aren't traced: NumPy is done sooner."]
    if runner.notes:
        lines += ["", "Not traced"]
        for note, count in sorted(runner.notes.items()):
            lines.append(f"  {note}" + (f" ({count} times)" if count > 1 else ""))
    return Text("\n".join(lines))


def region_text(prepared: Prepared | BlockPlan) -> list[str]:
    """Return a region's operators in the order in which they run."""
    program = prepared.program
    lines = [_input_line(program, node_id) for node_id in program.inputs]
    if prepared.rules:
        lines.append(f"rewritten by {', '.join(prepared.rules)}")
    if isinstance(prepared, BlockPlan):
        lines += _block_lines(prepared)
    elif prepared.plan is None or prepared.compiled is None:
        lines += [_line(program, node) for node in program.nodes if not node.is_leaf]
        lines.append(f"all by NumPy: {prepared.refusal}")
    else:
        lines.append(prepared.plan.summary())
        ran = {step.outputs: step for step in prepared.compiled.steps}
        for step in prepared.plan.steps:
            if isinstance(step, FusedOperator):
                kernel = _kernel_text(ran.get(step.outputs))
                cost = f"{step.cost_s * 1e6:.1f} µs estimated"
                lines.append(f"{step.description} ({kernel}), {cost}")
                lines += [f"  {_line(program, program.nodes[node_id])}" for node_id in step.nodes]
            else:
                node = program.nodes[step.nodes[0]]
                why = refusal(program, node) or "a kernel of it alone would gain nothing"
                lines.append(f"{_line(program, node)}  by NumPy: {why}")
    if isinstance(prepared, Prepared) and prepared.raced and prepared.compiled is not None:
        lines.append(f"raced: {prepared.raced}")
    lines.append("returns " + ", ".join(f"%{node_id}" for node_id in program.outputs))
    return lines


def _kernel_text(step: Step | None) -> str:
    """Return what computes an operator, and how its work is divided where calls chose that."""
    if step is None or step.reason or step.tuning is None:
        return f"by NumPy: {step.reason}" if step is not None and step.reason else KERNEL
    if step.tuning.chosen is None or step.tuning.ratio is None:
        return KERNEL
    ratio = step.tuning.ratio
    share = f"{ratio.value:.2f} of the default's time, {ratio.low:.2f} to {ratio.high:.2f}"
    return f"{KERNEL}, {step.tuning.chosen.description}: {share}"


def _block_lines(plan: BlockPlan) -> list[str]:
    """Return what is said of a region in blocks, after its inputs."""
    here = "too large for here" if math.isinf(plan.here_s) else f"{plan.here_s * 1e3:.1f} ms"
    lines = [f"in blocks {plan.blocks_s * 1e3:.1f} ms estimated, here {here}"]
    if plan.local is not None:
        return [*lines, "gathered, and computed here", *region_text(plan.local)]
    lines.append(f"{len(plan.rows)} blocks of up to {max(plan.rows)} rows")
    for number, round_ in enumerate(plan.rounds):
        lines += [
            f"%{node_id} = {plan.program.nodes[node_id].op}, here" for node_id in round_.before
        ]
        if not round_.nodes:
            continue
        sent = [f"%{node_id} cut" for node_id, _ in round_.split] + [
            f"%{node_id}" for node_id in round_.whole
        ]
        lines.append(f"pass {number + 1} over each block; sent along: {', '.join(sent) or '-'}")
        prepared = plan.passes.get((number, plan.rows[0]))
        if prepared is not None:
            lines += [f"  {line}" for line in region_text(prepared_pass(prepared))]
        for aggregate in round_.aggregates:
            op = plan.program.nodes[aggregate.node].op
            lines.append(f"%{aggregate.node} = {op}: parts combined in a tree by {aggregate.ufunc}")
        for node_id in round_.kept:
            gathered = plan.placement.gathered.get(node_id)
            end = f"gathered for {gathered}" if gathered else "stays in blocks"
            lines.append(f"%{node_id} = {plan.program.nodes[node_id].op}: {end}")
    return lines


def _input_line(program: Program, node_id: int) -> str:
    node = program.nodes[node_id]
    layout = "" if node.layout == "dense" else f" {node.layout}, {node.nnz} entries"
    return f"%{node_id}: {node.dtype} {shape_text(node.shape)}{layout}"


def _line(program: Program, node: Node) -> str:
    operands = ", ".join(_operand(program.nodes[input_]) for input_ in node.inputs)
    options = {name: value for name, value in node.attributes.items() if name != "function"}
    options |= dict(options.pop("options", ()))
    called = node.attributes.get("function", node.op)
    attributes = ", ".join(f"{name}={value}" for name, value in options.items())
    arguments = f"{operands}{'; ' if options else ''}{attributes}"
    return f"%{node.id} = {called}({arguments}) : {shape_text(node.shape)}"


def _operand(node: Node) -> str:
    return str(node.attributes["value"]) if node.op == "Constant" else f"%{node.id}"


def relations(regions: Sequence[Prepared | BlockPlan]) -> Mapping[str, Table]:
    """Return the kept regions, their programs and their plans as tables."""
    region: list[tuple[object, ...]] = []
    nodes: list[tuple[object, ...]] = []
    rules: list[tuple[object, ...]] = []
    configured: list[tuple[object, ...]] = []
    tables: dict[str, Table] = {}
    for number, region_ in enumerate(regions, start=1):
        plan = region_.plan
        region.append(
            (
                number,
                len(region_.program.nodes),
                region_.kernels,
                region_.refusal,
                None if plan is None else plan.cost_s,
                None if plan is None else plan.planning_s,
                *_counted(plan),
            )
        )
        rules += [(number, position, name) for position, name in enumerate(region_.rules)]
        configured += [(number, *row) for row in _configurations(region_)]
        for node in region_.program.nodes:
            attributes = ", ".join(f"{name}={value}" for name, value in node.attributes.items())
            computed = (node.op, list(node.inputs), attributes)
            value = (list(node.shape), node.dtype, node.layout, node.nnz)
            nodes.append((number, node.id, *computed, *value, node.id in region_.program.outputs))
        for name, (columns, rows) in ({} if plan is None else plan.tables()).items():
            kept = tables.setdefault(name, (("region_id", *columns), []))
            kept[1].extend((number, *row) for row in rows)
    return {
        "region": (
            (
                *("region_id", "nodes", "kernels", "refusal", "cost_s", "planning_s"),
                *("heuristic", "bound_s", "plans", "costed", "bounds"),
                *("skipped_by_cost", "skipped_by_structure"),
            ),
            region,
        ),
        "program_node": (
            (*["region_id", "node_id", "op", "inputs", "attributes"], *_VALUE, "is_output"),
            nodes,
        ),
        "region_rule": (("region_id", "position", "rule"), rules),
        "kernel_configuration": (_CONFIGURED, configured),
        **tables,
    }


def _configurations(prepared: Prepared | BlockPlan) -> list[tuple[object, ...]]:
    """Return what calls of a region's kernels took, by how the work was divided."""
    plan = prepared.plan
    if not isinstance(prepared, Prepared) or prepared.compiled is None or plan is None:
        return []
    rows: list[tuple[object, ...]] = []
    steps = {step.outputs: step for step in prepared.compiled.steps}
    for number, operator in enumerate(plan.steps):
        step = steps.get(operator.outputs)
        tuning = None if step is None else step.tuning
        if tuning is not None:
            rows += [
                (number, len(seconds), *astuple(how), median(seconds), how == tuning.chosen)
                for how, seconds in tuning.seconds.items()
            ]
    return rows


def _counted(plan: FusionPlan | None) -> tuple[object, ...]:
    if plan is None:
        return (None,) * 7
    counts = plan.counts
    many = (counts.space, counts.skipped_by_cost, counts.skipped_by_structure)
    space, *skipped = (float(min(count, _MANY)) for count in many)
    return (plan.heuristic, plan.bound_s, space, counts.costed, counts.bounds, *skipped)


def query(tables: Mapping[str, Table], text: str) -> duckdb.DuckDBPyRelation:
    """Return the answer of a SQL query over tables, those without rows among them.

    Raises QueryError for what is no query over them; what fails only where rows are fetched is
    DuckDB's error.
    """
    import duckdb
    import pyarrow as pa

    connection = duckdb.connect()
    connection.execute((resources.files(__package__) / "tables.sql").read_text(encoding="utf-8"))
    for name, (columns, rows) in tables.items():
        arrays = [pa.array([row[column] for row in rows]) for column in range(len(columns))]
        connection.register("added", pa.Table.from_arrays(arrays, names=list(columns)))
        connection.execute(f'INSERT INTO "{name}" BY NAME SELECT * FROM added')
        connection.unregister("added")
    try:
        relation = connection.sql(text)
    except duckdb.Error as error:
        reason = " ".join(str(error).split("\n\nLINE ")[0].split())
        raise QueryError(f"{reason} (the tables are {_names(connection)})") from error
    if relation is None:
        raise QueryError(f"a query that returns no rows (the tables are {_names(connection)})")
    return relation


def _names(connection: duckdb.DuckDBPyConnection) -> str:
    return ", ".join(name for (name,) in connection.sql("SHOW TABLES").fetchall())
