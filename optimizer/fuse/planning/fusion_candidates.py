"""The fusion candidates of programs: the memo table and the interesting points (templates.dl).

A program is described as the relations that templates.dl asks about, and its rules are evaluated in
memory: the relations are small, and take a millisecond or two that way, where DuckDB plans a
hundred statements. What is derived depends on the structure and on how extents compare, so that it
is kept by just that: a program of a known structure costs nothing, whatever its sizes are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from ....catalog.datalog.memory.execution import Evaluator
from ....catalog.datalog.memory.program_cache import shipped
from ..program.dag import Node, Program

# Types of elements that kernels compute with.
TYPES = frozenset(["float32", "float64", "bool"])
# Reductions that kernels do: of these an element that is zero changes nothing.
ADDITIVE = frozenset(["ReduceSum", "ReduceMean", "ReduceSumSquare", "ReduceL1", "ReduceL2"])
OTHER = frozenset(["ReduceMax", "ReduceMin", "ReduceProd"])
LIFTS = frozenset(["Squeeze", "Unsqueeze", "Reshape"])
SKINNY = 64

Row = tuple[int | str, ...]
# Relations with their rows; nodes that no output depends on are left out.
Facts = tuple[tuple[str, tuple[Row, ...]], ...]


def live(program: Program) -> tuple[int, ...]:
    """Return the nodes that outputs depend on, ascending."""
    needed = set(program.outputs)
    for node in reversed(program.nodes):
        if node.id in needed:
            needed.update(node.inputs)
    return tuple(sorted(needed))


def kind(node: Node) -> str:
    """Return the class of a node's operator; leaves, and what has no specification: "other"."""
    return "other" if node.specification is None else node.specification.kind


def extent(node: Node) -> tuple[int, int]:
    """Return rows and columns; a vector is one row, a scalar one cell."""
    if len(node.shape) == 2:
        return node.shape[0], node.shape[1]
    return (1, node.shape[0]) if node.shape else (1, 1)


def over(node: Node, operand: Node) -> str | None:
    """Say what a reduction runs over: each row, each column, or the full operand; else None."""
    rank = len(operand.shape)
    axes = node.attributes.get("axes")
    axes = tuple(range(rank)) if axes is None else tuple(axes)
    if rank == 0 or not axes:
        return None
    if axes == tuple(range(rank)):
        return "full"
    return "row" if axes == (1,) else "column"


def facts(programs: Sequence[Program], refused: frozenset[str] = frozenset()) -> Facts:
    """Describe programs, the ids of each after those of the ones before.

    Operators in `refused` are run as NumPy does.
    """
    rows: dict[str, list[Row]] = {name: [] for name in ("node", "fusible", "reads", "reduces")}
    rows |= {"sparse": [], "wanted": [], "skinny": [(SKINNY,)]}
    first = 0
    for program in programs:
        _describe(program, first, refused, rows)
        first += len(program.nodes)
    return tuple(
        (name, tuple(dict.fromkeys(relation_rows))) for name, relation_rows in rows.items()
    )


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


def _describe(
    program: Program, first: int, refused: frozenset[str], rows: dict[str, list[Row]]
) -> None:
    for number in live(program):
        node = program.nodes[number]
        of = kind(node)
        m, n = extent(node)
        rows["node"].append((first + number, of, node.op, min(len(node.shape), 3), m, n))
        rows["reads"] += [
            (first + number, i, first + operand) for i, operand in enumerate(node.inputs)
        ]
        if node.nnz is not None:
            rows["sparse"].append((first + number,))
        if node.op in refused or refusal(program, node):
            continue
        if of == "reduction":
            operand = program.nodes[node.inputs[0]]
            direction = over(node, operand)
            if direction is None:
                continue
            how = "additive" if node.op in ADDITIVE else "other"
            rows["reduces"].append((first + number, direction, how))
        rows["fusible"].append((first + number,))
    rows["wanted"] += [(first + output,) for output in program.outputs]


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
    of = kind(node)
    match of:
        case "elementwise":
            fusible = True
        case "reduction":
            fusible = node.op in ADDITIVE | OTHER and node.dtype != "bool"
        case "movement":
            fusible = node.op in LIFTS and node.nnz is None
        case _:
            fusible = node.op == "MatMul" and node.dtype != "bool"
    return "" if fusible else f"kernels don't have {node.attributes.get('function', node.op)}"


Edge = tuple[int, int]

_KEPT = 256


@dataclass
class Conditions:
    """What templates.dl derives of one program; edges are (consumer, producer)."""

    fuses: dict[Edge, frozenset[str]] = field(default_factory=dict)
    opens: dict[int, frozenset[str]] = field(default_factory=dict)
    closes: dict[int, frozenset[str]] = field(default_factory=dict)
    points: dict[Edge, str] = field(default_factory=dict)
    joins: set[Edge] = field(default_factory=set)
    partition: dict[int, int] = field(default_factory=dict)


_kept: OrderedDict[Facts, Conditions] = OrderedDict()


def conditions(program: Program, refused: frozenset[str] = frozenset()) -> Conditions:
    """Derive the conditions of one program, or find those of an earlier one with its facts."""
    described = ranked(facts([program], refused))
    derived = _kept.get(described)
    if derived is None:
        (derived,) = _divide(templates()(dict(described)), [len(program.nodes)])
        _kept[described] = derived
        if len(_kept) > _KEPT:
            _kept.popitem(last=False)
    return derived


def all_conditions(
    programs: Sequence[Program], refused: frozenset[str] = frozenset()
) -> list[Conditions]:
    """Derive the conditions of many programs in one run."""
    sizes = [len(program.nodes) for program in programs]
    return _divide(templates()(dict(facts(programs, refused))), sizes)


def _divide(
    derived: Mapping[str, Iterable[tuple[Any, ...]]], sizes: Sequence[int]
) -> list[Conditions]:
    """Return what was derived of each of several programs of so many nodes."""
    owner: list[tuple[Conditions, int]] = []
    conditions = []
    for size in sizes:
        conditions.append(Conditions())
        owner += [(conditions[-1], len(owner))] * size
    for h, c, template in derived["fuses"]:
        described, first = owner[h]
        edge = (h - first, c - first)
        described.fuses[edge] = described.fuses.get(edge, frozenset()) | {template}
    for n, template in derived["opens"]:
        described, first = owner[n]
        described.opens[n - first] = described.opens.get(n - first, frozenset()) | {template}
    for n, template in derived["closes"]:
        described, first = owner[n]
        described.closes[n - first] = described.closes.get(n - first, frozenset()) | {template}
    for h, c, why in derived["point"]:
        described, first = owner[h]
        described.points[h - first, c - first] = why
    for a, b in derived["joins"]:
        described, first = owner[a]
        described.joins.add((a - first, b - first))
    for n, p in derived["partition"]:
        described, first = owner[n]
        described.partition[n - first] = p - first
    return conditions
