"""A graph as relations: the facts that the compiled rules are evaluated over (rules/graph.dl)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

import duckdb
import pyarrow as pa

from ..catalog.operators import schema_for
from ..rules import ABSENT, attribute_text
from .graph import Constant, Graph

NUMBER, SYMBOL, FLOAT = pa.int64(), pa.string(), pa.float64()
COLUMNS: dict[str, tuple[pa.DataType, ...]] = {
    "node": (NUMBER, SYMBOL),
    "reads": (NUMBER, NUMBER, NUMBER),
    "gives": (NUMBER, NUMBER, NUMBER),
    "attribute": (NUMBER, SYMBOL, SYMBOL),
    "attribute_int": (NUMBER, SYMBOL, NUMBER),
    "constant": (NUMBER,),
    "scalar": (NUMBER, FLOAT),
    "dtype": (NUMBER, SYMBOL),
    "rank": (NUMBER, NUMBER),
    "dim": (NUMBER, NUMBER, NUMBER),
    "graph_output": (NUMBER,),
    "captured": (NUMBER,),
    "commutative": (SYMBOL,),
}
NUMERIC = re.compile(r"(float|int|uint)\d+$")


def graph_facts(graph: Graph) -> dict[str, list[tuple[object, ...]]]:
    """List the facts of a graph, relation by relation.

    A symbolic dimension is an interned negative number: equal names are equal numbers.
    """
    facts: dict[str, list[tuple[object, ...]]] = {name: [] for name in COLUMNS}
    symbols: dict[str, int] = defaultdict(lambda: -1 - len(symbols))
    operators: set[str] = set()
    for number, node in graph.nodes.items():
        facts["node"].append((number, node.operator))
        for position, value in enumerate(node.inputs):
            if value != ABSENT:
                facts["reads"].append((number, position, value))
        for position, value in enumerate(node.outputs):
            if value != ABSENT:
                facts["gives"].append((number, position, value))
        facts["captured"] += [(value,) for value in node.captures]
        for name, given in {**graph.defaults(number), **graph.attributes(number)}.items():
            if is_plain(given):
                # Bytes that are no text are no attribute that a rule could name.
                text = attribute_text(given).encode("utf-8", "backslashreplace").decode()
                facts["attribute"].append((number, name, text))
            if isinstance(given, int):
                facts["attribute_int"].append((number, name, given))
        if node.operator not in operators:
            operators.add(node.operator)
            spec = schema_for(node.domain, node.op_type, graph.opset(node.domain))
            if spec is not None and spec.commutative:
                facts["commutative"].append((node.operator,))
    for value, constant in graph.constants.items():
        facts["constant"].append((value,))
        number_of = scalar_of(constant)
        if number_of is not None:
            facts["scalar"].append((value, number_of))
    for value, type_ in graph.types.items():
        facts["dtype"].append((value, type_.dtype))
        if type_.shape is not None:
            facts["rank"].append((value, len(type_.shape)))
            facts["dim"] += [
                (value, axis, size if isinstance(size, int) else symbols[size])
                for axis, size in enumerate(type_.shape)
            ]
    facts["graph_output"] = [(value,) for value in dict.fromkeys(graph.graph_outputs)]
    return facts


def load_facts(connection: duckdb.DuckDBPyConnection, graph: Graph) -> dict[str, str]:
    """Put a graph's facts before a connection; return relation name -> table to read it from."""
    tables: dict[str, str] = {}
    for name, rows in graph_facts(graph).items():
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(COLUMNS[name])
        arrays = [
            pa.array(column, type_) for column, type_ in zip(columns, COLUMNS[name], strict=True)
        ]
        table = f"fact_{name}"
        arrow = pa.table(arrays, names=[f"c{i}" for i in range(len(arrays))])
        connection.register("facts_in", arrow)
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT * FROM facts_in")
        connection.unregister("facts_in")
        tables[name] = table
    return tables


def is_plain(value: object) -> bool:
    """Tell whether rules can name an attribute's value: a number, a text, or a list of them."""
    if isinstance(value, Iterable) and not isinstance(value, str):
        return isinstance(value, (tuple, list)) and all(
            isinstance(v, (int, float, str)) for v in value
        )
    return isinstance(value, (int, float, str))


def scalar_of(constant: Constant) -> float | None:
    """Give the number that a constant of one element is; None for any other."""
    shape = constant.type.shape
    if shape is None or any(size != 1 for size in shape):
        return None
    if not NUMERIC.match(constant.type.dtype):
        return None
    array = constant.array()
    return float(array.reshape(-1)[0]) if array.size == 1 else None
