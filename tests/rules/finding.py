"""Find the matches of rules in many small models at once: one database, ids offset per model."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import pyarrow as pa
from tensolog.catalog.datalog import evaluate, parse
from tensolog.catalog.operators.contributed import schema
from tensolog.rules import (
    attribute_text,
    compile_program,
    is_reported,
    match_of,
    misses_among,
    near_match_of,
    nearly,
)
from tensolog.rules.compiler.bindings import Bindings
from tensolog.rules.compiler.implied_attributes import implied_attribute
from tensolog.rules.language.conditions import conditions
from tensolog.rules.language.schemas import commutative, plain

STRIDE = 1000
COLUMNS = {
    "node": (pa.int64(), pa.string()),
    "reads": (pa.int64(), pa.int64(), pa.int64()),
    "gives": (pa.int64(), pa.int64(), pa.int64()),
    "attribute": (pa.int64(), pa.string(), pa.string()),
    "attribute_int": (pa.int64(), pa.string(), pa.int64()),
    "implied": (pa.int64(), pa.string()),
    "constant": (pa.int64(),),
    "scalar": (pa.int64(), pa.float64()),
    "dtype": (pa.int64(), pa.string()),
    "rank": (pa.int64(), pa.int64()),
    "dim": (pa.int64(), pa.int64(), pa.int64()),
    "graph_output": (pa.int64(),),
    "captured": (pa.int64(),),
    "commutative": (pa.string(),),
}


def known_attributes(view, node):
    """The names of all attributes that the node's operator has."""
    operator = view.nodes[node]
    operator_schema = schema(operator.op_type, view.opset, operator.domain)
    return () if operator_schema is None else tuple(operator_schema.attributes)


def failed_condition(match, view):
    """The first condition that fails, by Python alone and without use counts; None if none does."""
    bound = Bindings(match, view)
    return next((bound.explain(c) for c in conditions(match.rule) if not bound.holds(c)), None)


def facts(views):
    """The relations of rules/graph.dl for models; model i has ids from i * STRIDE on."""
    rows = {name: [] for name in COLUMNS}
    rows["commutative"] = [(op,) for op in sorted(commutative())]
    symbols = {}
    for i, view in enumerate(views):
        base = i * STRIDE
        for n in range(len(view.nodes)):
            rows["node"].append((base + n, view.op_type(n)))
            for name, values in (("reads", view.inputs(n)), ("gives", view.outputs(n))):
                rows[name] += [(base + n, p, base + v) for p, v in enumerate(values) if v >= 0]
            shapes = [view.shape(v) if v >= 0 else None for v in view.inputs(n)]
            for name, value in view.attributes(n).items():
                implied = implied_attribute(view.op_type(n), name, shapes)
                if implied is not None and plain(value) == implied:
                    rows["implied"].append((base + n, name))
            for name in {*view.attributes(n), *known_attributes(view, n)}:
                value = view.attribute(n, name)
                if value is not None:
                    rows["attribute"].append((base + n, name, attribute_text(value)))
                if isinstance(value, int):
                    rows["attribute_int"].append((base + n, name, value))
        for v, name in enumerate(view.names):
            array = view.constants.get(name)
            if array is not None:
                rows["constant"].append((base + v,))
                if array.size == 1:
                    rows["scalar"].append((base + v, float(array.reshape(()))))
            if (dtype := view.dtype(v)) is not None:
                rows["dtype"].append((base + v, dtype))
            if (shape := view.shape(v)) is not None:
                rows["rank"].append((base + v, len(shape)))
                for axis, d in enumerate(shape):
                    size = d if isinstance(d, int) else -1 - symbols.setdefault(d, len(symbols))
                    rows["dim"].append((base + v, axis, size))
        rows["graph_output"] += [(base + view.ids[o.name],) for o in view.model.graph.output]
    return {
        name: pa.table(
            [
                pa.array([row[k] for row in rows[name]], kind)
                for k, kind in enumerate(COLUMNS[name])
            ],
            [f"c{k}" for k in range(len(COLUMNS[name]))],
        )
        for name in COLUMNS
    }


def evaluated(text, views):
    """The relations of a program over some models."""
    connection = duckdb.connect()
    inputs = {}
    for name, table in facts(views).items():
        connection.register(f"in_{name}", table)
        inputs[name] = f"in_{name}"
    relations = evaluate(parse(text), connection, inputs=inputs)
    relations.keep_alive = connection
    return relations


def rows_of(name, relations):
    """The rows of a relation of an evaluated program, sorted; none where it is not defined."""
    return sorted(relations[name].fetchall()) if name in relations else []


def matches(rule, relations):
    """The matches of a rule in an evaluated program."""
    return [match_of(rule, row) for row in rows_of(f"match_{rule.name}", relations)]


def compile_near_misses(rules):
    """The program of some rules, and what nearly matches, as text."""
    definitions = [d for rule in rules if is_reported(rule) for d in nearly(rule)]
    parts = [f"{definition.text()}.output {definition.name}\n" for definition in definitions]
    return "".join([compile_program(rules), *parts])


def near_misses(rules, relations, view):
    """The near misses in an evaluated program of `compile_near_misses`."""
    return [
        miss
        for rule in rules
        if is_reported(rule)
        for miss in misses_among(
            rule,
            [
                *matches(rule, relations),
                *(near_match_of(rule, row) for row in rows_of(f"nearly_{rule.name}", relations)),
            ],
            view,
        )
    ]


def local(match):
    """The model's number and the match with the model's own ids."""
    number = next(iter(match.nodes.values())) // STRIDE
    base = number * STRIDE
    nodes = {k: v - base for k, v in match.nodes.items()}
    values = {k: v - base if v >= 0 else v for k, v in match.values.items()}
    return number, replace(match, nodes=nodes, values=values)


def find(rules, views):
    """All matches of some rules: pairs of the model's number and the match in it."""
    relations = evaluated(compile_program(rules), views)
    return [local(match) for rule in rules for match in matches(rule, relations)]
