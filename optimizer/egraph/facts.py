"""The columns of an e-graph as the relations that rules are compiled against (rules/graph.dl)."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...catalog.operators import schema_for
from ...rules import attribute_text
from ..relations import COLUMNS, is_plain, scalar_of
from .arrays import Ints, segments
from .columns import NONE
from .egraph import UNTYPED, EGraph
from .view import View

Table = list[NDArray[Any] | list[Any]]


def load_facts(
    connection: duckdb.DuckDBPyConnection, egraph: EGraph, nodes: Ints
) -> dict[str, str]:
    """Put e-nodes before a connection as facts; return relation name -> table to read it from."""
    tables: dict[str, str] = {}
    for name, columns in facts(egraph, nodes).items():
        arrays = [pa.array(c, t) for c, t in zip(columns, COLUMNS[name], strict=True)]
        arrow = pa.table(arrays, names=[f"c{i}" for i in range(len(arrays))])
        connection.register("facts_in", arrow)
        connection.execute(f"CREATE OR REPLACE TEMP TABLE fact_{name} AS SELECT * FROM facts_in")
        connection.unregister("facts_in")
        tables[name] = f"fact_{name}"
    return tables


def facts(egraph: EGraph, nodes: Ints) -> dict[str, Table]:
    """The facts of e-nodes that stand for operators, and of the classes they touch."""
    columns, operators = egraph.columns, egraph.vocabulary.operators
    real = np.array([not op.is_virtual for op in operators], bool)
    nodes = nodes[real[columns.operators_of(nodes)]]
    names = [op.name for op in operators]
    reads, gives = columns.reads(nodes), columns.gives(nodes)
    classes = np.unique(np.concatenate([reads[2], gives[2]]))
    known = np.array(egraph.known, bool)[classes]
    found: dict[str, Table] = {
        "node": [nodes, [names[o] for o in columns.operators_of(nodes).tolist()]],
        "reads": list(reads),
        "gives": list(gives),
        "constant": [classes[known]],
        "scalar": _scalars(egraph, classes[known]),
        "commutative": [_commutative(egraph, columns.operators_of(nodes))],
        "graph_output": [_leaders(egraph, list(egraph.graph.graph_outputs))],
        "captured": [_captured(egraph)],
    }
    return found | _attributes(egraph, nodes) | _types(egraph, classes)


def _leaders(egraph: EGraph, values: list[int]) -> Ints:
    return np.unique(egraph.columns.canonical(np.array(values, np.int64)))


def _captured(egraph: EGraph) -> Ints:
    captured = {v for node in egraph.graph.nodes.values() for v in node.captures}
    return _leaders(egraph, sorted(captured))


def _scalars(egraph: EGraph, classes: Ints) -> Table:
    found: list[tuple[int, float]] = []
    for class_ in classes.tolist():
        constant = egraph.constant(class_)
        if constant is not None and (number := scalar_of(constant)) is not None:
            found.append((class_, number))
    return [[row[0] for row in found], [row[1] for row in found]]


def _commutative(egraph: EGraph, operators: Ints) -> list[str]:
    found = []
    for number in np.unique(operators).tolist():
        op = egraph.vocabulary.operators[number]
        spec = schema_for(op.domain, op.op_type, egraph.inference.opset(op.domain))
        if spec is not None and spec.commutative:
            found.append(op.name)
    return found


def _attributes(egraph: EGraph, nodes: Ints) -> dict[str, Table]:
    """Attributes of e-nodes, defaults filled in: spelled once for all that share them."""
    view = View(egraph)
    kinds = np.stack(
        [egraph.columns.operators_of(nodes), egraph.columns.attributes_of(nodes)], axis=1
    )
    texts: Table = [[], [], []]
    integers: Table = [[], [], []]
    spelled: dict[tuple[int, int], list[tuple[str, str | None, int | None]]] = {}
    for node, kind in zip(nodes.tolist(), map(tuple, kinds.tolist()), strict=True):
        if kind not in spelled:
            spelled[kind] = _spelled(view, node)
        for name, text, integer in spelled[kind]:
            for table, value in ((texts, text), (integers, integer)):
                if value is not None:
                    for column, item in zip(table, (node, name, value), strict=True):
                        column.append(item)  # type: ignore[union-attr]
    return {"attribute": texts, "attribute_int": integers}


def _spelled(view: View, node: int) -> list[tuple[str, str | None, int | None]]:
    result = []
    for name, given in {**view.defaults(node), **view.attributes(node)}.items():
        text = None
        if is_plain(given):
            text = attribute_text(given).encode("utf-8", "backslashreplace").decode()
        result.append((name, text, given if isinstance(given, int) else None))
    return [entry for entry in result if entry[1] is not None or entry[2] is not None]


def _types(egraph: EGraph, classes: Ints) -> dict[str, Table]:
    """Types of classes; a symbolic dimension is an interned negative number."""
    numbers = np.array(egraph.types, np.int64)[classes]
    typed = numbers != UNTYPED
    classes, numbers = classes[typed], numbers[typed]
    symbols: dict[str, int] = {}
    ranks: list[int] = []
    sizes: list[int] = []
    for type_ in egraph.vocabulary.types:
        ranks.append(NONE if type_.shape is None else len(type_.shape))
        for size in type_.shape or ():
            sizes.append(
                size if isinstance(size, int) else symbols.setdefault(size, -1 - len(symbols))
            )
    rank = np.array(ranks, np.int64)
    starts = np.cumsum(np.maximum(rank, 0)) - np.maximum(rank, 0)
    ranked = rank[numbers] != NONE
    shaped, kind = classes[ranked], numbers[ranked]
    counts = rank[kind]
    places = segments(starts[kind], counts)
    axes = places - np.repeat(starts[kind], counts)
    return {
        "dtype": [classes, [egraph.vocabulary.types[n].dtype for n in numbers.tolist()]],
        "rank": [shaped, counts],
        "dim": [np.repeat(shaped, counts), axes, np.array(sizes, np.int64)[places]],
    }
