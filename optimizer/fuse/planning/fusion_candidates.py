"""The fusion candidates of programs: the memo table and the interesting points (templates.dl).

A program is described as the relations that templates.dl asks about, and its rules are evaluated in
memory: the relations are small, and take a millisecond or two that way, where DuckDB plans a
hundred statements. What is derived depends on the structure and on how extents compare, so that it
is kept by just that: a program of a known structure costs nothing, whatever its sizes are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import resources

import numpy as np

from ....catalog.datalog.memory.execution import Evaluator
from ....catalog.datalog.memory.program_cache import shipped
from ..program.dag import Node, Program
from ..program.evaluate import REDUCTIONS
from ..program.kept_axes import reduced_axes

# Types of elements that kernels compute with.
TYPES = frozenset(["float32", "float64", "bool"])
# Of these reductions an element that is zero changes nothing.
ADDITIVE = frozenset(op for op, ufunc in REDUCTIONS.items() if ufunc is np.add)
OTHER = REDUCTIONS.keys() - ADDITIVE
LIFTS = frozenset(["Squeeze", "Unsqueeze", "Reshape"])
SKINNY = 64

Row = tuple[int | str, ...]
# Relations with their rows; nodes that no output depends on are left out.
Facts = tuple[tuple[str, tuple[Row, ...]], ...]


def extent(node: Node) -> tuple[int, int]:
    """Return rows and columns; a vector is one row, a scalar one cell."""
    if len(node.shape) == 2:
        return node.shape[0], node.shape[1]
    return (1, node.shape[0]) if node.shape else (1, 1)


def over(node: Node, operand: Node) -> str | None:
    """Say what a reduction runs over: each row, each column, or the full operand; else None."""
    rank = len(operand.shape)
    axes = reduced_axes(node, rank)
    if rank == 0 or not axes:
        return None
    if axes == tuple(range(rank)):
        return "full"
    return "row" if axes == (1,) else "column"


def facts(program: Program) -> Facts:
    """Describe a program."""
    rows: dict[str, list[Row]] = {name: [] for name in ("node", "fusible", "reads", "reduces")}
    rows |= {"sparse": [], "wanted": [(output,) for output in program.outputs]}
    rows |= {"skinny": [(SKINNY,)]}
    for number in program.live:
        node = program.nodes[number]
        of = node.kind
        rows["node"].append((number, of, node.op, min(len(node.shape), 3), *extent(node)))
        rows["reads"] += [(number, i, operand) for i, operand in enumerate(node.inputs)]
        if node.nnz is not None:
            rows["sparse"].append((number,))
        if refusal(program, node):
            continue
        if of == "reduction":
            direction = over(node, program.nodes[node.inputs[0]])
            if direction is None:
                continue
            how = "additive" if node.op in ADDITIVE else "other"
            rows["reduces"].append((number, direction, how))
        rows["fusible"].append((number,))
    return tuple((name, tuple(dict.fromkeys(relation))) for name, relation in rows.items())


def ranked(described: Facts) -> Facts:
    """Return facts with extents by their order alone: templates.dl only compares them.

    0 and 1 stay, and the others, with what is skinny among them, are counted up from 2.
    """
    table = dict(described)
    extents = {extent for row in table["node"] for extent in row[-2:]} | {SKINNY}
    rank = {extent: i + 2 for i, extent in enumerate(sorted(extents - {0, 1}, key=int))}
    rank |= {0: 0, 1: 1}
    nodes = tuple((*row[:-2], *(rank[extent] for extent in row[-2:])) for row in table["node"])
    return tuple({**table, "node": nodes, "skinny": ((rank[SKINNY],),)}.items())


@cache
def templates() -> Evaluator:
    """Return what derives the relations of templates.dl from facts."""
    return shipped(resources.files(__package__) / "templates.dl")


def refusal(program: Program, node: Node) -> str:
    """Return why no kernel computes a node, in plain words; "" where one may."""
    around = [node, *(program.nodes[operand] for operand in node.inputs)]
    if any(len(node.shape) > 2 for node in around):
        return "kernels take arrays of two axes at most"
    if any(not node.size for node in around):
        return "an array without elements"
    others = sorted({node.dtype for node in around} - TYPES)
    if others:
        return f"kernels compute with float32, float64 and bool, not {', '.join(others)}"
    same = all(program.nodes[operand].dtype == node.dtype != "bool" for operand in node.inputs)
    match node.kind:
        case "elementwise":
            fusible = True
        case "reduction":
            fusible = node.op in REDUCTIONS and same
        case "movement":
            fusible = node.op in LIFTS and node.nnz is None
        case _:
            fusible = node.op == "MatMul" and same
    return "" if fusible else f"kernels don't have {node.attributes.get('function', node.op)}"


Edge = tuple[int, int]


@dataclass
class Conditions:
    """What templates.dl derives of one program; edges are (consumer, producer)."""

    fuses: dict[Edge, frozenset[str]] = field(default_factory=dict)
    opens: dict[int, frozenset[str]] = field(default_factory=dict)
    closes: dict[int, frozenset[str]] = field(default_factory=dict)
    points: dict[Edge, str] = field(default_factory=dict)
    joins: set[Edge] = field(default_factory=set)
    partition: dict[int, int] = field(default_factory=dict)


def conditions(program: Program) -> Conditions:
    """Derive the conditions of a program, or find those of an earlier one with its facts."""
    return derived(ranked(facts(program)))


@lru_cache(maxsize=256)
def derived(described: Facts) -> Conditions:
    """Derive the conditions of a program from its facts."""
    rows = templates()(dict(described))
    conditions = Conditions(
        points={(h, c): why for h, c, why in rows["point"]},
        joins={(a, b) for a, b in rows["joins"]},
        partition=dict(iter(rows["partition"])),
    )
    for h, c, template in rows["fuses"]:
        edge = (h, c)
        conditions.fuses[edge] = conditions.fuses.get(edge, frozenset()) | {template}
    for name, by_node in (("opens", conditions.opens), ("closes", conditions.closes)):
        for node, template in rows[name]:
            by_node[node] = by_node.get(node, frozenset()) | {template}
    return conditions
