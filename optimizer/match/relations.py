"""A graph as relations: the facts that the compiled rules are evaluated over (rules/graph.dl)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from ...catalog.operators import schema_for
from ...rules import ABSENT, attribute_text
from ...rules.compiler.implied_attributes import implied_attribute
from ...rules.language.schemas import plain
from ..graph.graph import Constant, Graph
from .joins import Table, Values

NUMBER, SYMBOL, FLOAT = "number", "symbol", "float"
COLUMNS: dict[str, tuple[str, ...]] = {
    "node": (NUMBER, SYMBOL),
    "reads": (NUMBER, NUMBER, NUMBER),
    "gives": (NUMBER, NUMBER, NUMBER),
    "attribute": (NUMBER, SYMBOL, SYMBOL),
    "attribute_int": (NUMBER, SYMBOL, NUMBER),
    "implied": (NUMBER, SYMBOL),
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
        attributes = graph.attributes(number)
        shapes = [graph.shape(value) for value in node.inputs[:2]]
        for name, attribute_value in attributes.items():
            implied = implied_attribute(node.operator, name, shapes)
            if implied is not None and implied == plain(attribute_value):
                facts["implied"].append((number, name))
        for name, attribute_value in {**graph.defaults(number), **attributes}.items():
            if is_plain(attribute_value):
                # Bytes that are no text are no attribute that a rule could name.
                text = attribute_text(attribute_value).encode("utf-8", "backslashreplace").decode()
                facts["attribute"].append((number, name, text))
            if isinstance(attribute_value, int):
                facts["attribute_int"].append((number, name, attribute_value))
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


def fact_columns(graph: Graph, symbols: dict[str, int]) -> dict[str, Table]:
    """A graph's facts as columns, with how often each value of its own is used: private(v, uses).

    Texts are numbers; `symbols` numbers them, and takes up those that are new.
    """
    relations: dict[str, Table] = {}
    for name, rows in graph_facts(graph).items():
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(COLUMNS[name])
        relations[name] = [
            _column(column, kind, symbols)
            for column, kind in zip(columns, COLUMNS[name], strict=True)
        ]
    counts = Counter(v for node in graph.nodes.values() for v in node.inputs if v != ABSENT)
    pinned = {*graph.graph_outputs, *(v for n in graph.nodes.values() for v in n.captures)}
    values = [value for value in graph.producer if value not in pinned]
    relations["private"] = [
        np.array(values, np.int64),
        np.array([counts[value] for value in values], np.int64),
    ]
    return relations


def _column(values: Sequence[object], kind: str, symbols: dict[str, int]) -> Values:
    if kind == "symbol":
        numbers = [symbols.setdefault(str(text), len(symbols)) for text in values]
        return np.array(numbers, np.int64)
    return np.array(values, np.float64 if kind == "float" else np.int64)


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
