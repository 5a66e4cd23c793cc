"""Matches and near misses in graphs, against the catalog's engine on the same clauses as SQL."""

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from onnx import helper
from tensolog.catalog.datalog import evaluate, parse
from tensolog.optimizer.explain.near_misses import near_misses
from tensolog.optimizer.match.matcher import Matcher, with_present_operators
from tensolog.optimizer.match.relations import COLUMNS, graph_facts
from tensolog.rules import check_conditions, compile_program, load_rules
from tensolog.rules.language.repetition import pattern

from benchmarks.zoo import build
from tests.models.random_graphs import graphs
from tests.optimizer.builders import model, value
from tests.optimizer.egraph.pricing import graph_of
from tests.rules.finding import compile_near_misses, matches
from tests.rules.finding import near_misses as oracle_near_misses

# of rules that gather nodes those of one: any engine finds them node by node
RULES = tuple(map(pattern, load_rules()))

ARROW = {"number": pa.int64(), "symbol": pa.string(), "float": pa.float64()}
SETTINGS = settings(
    max_examples=4,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def evaluated(text, graph, only):
    """The relations of a program over a graph's facts, as DuckDB derives them."""
    connection = duckdb.connect()
    inputs = {}
    for name, rows in graph_facts(graph).items():
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(COLUMNS[name])
        arrays = [
            pa.array(column, ARROW[kind])
            for column, kind in zip(columns, COLUMNS[name], strict=True)
        ]
        connection.register(f"f_{name}", pa.table(arrays, [f"c{i}" for i in range(len(arrays))]))
        inputs[name] = f"f_{name}"
    return evaluate(parse(text, "rules"), connection, inputs=inputs, only=only)


def compare_matches(graph):
    """Both engines find the same matches; returns how many."""
    rules = with_present_operators(RULES, graph)
    relations = evaluated(compile_program(rules), graph, [f"match_{rule.name}" for rule in rules])
    expected = [
        match
        for rule in rules
        for match in matches(rule, relations)
        if check_conditions(match, graph) is None
    ]
    assert Matcher(RULES).find(graph) == expected
    return len(expected)


@pytest.mark.parametrize("name", ["bert"])
def test_the_same_places_in_an_architecture(name):
    assert compare_matches(graph_of(build(name, tiny=True)))


@SETTINGS
@given(graphs(least_steps=10, most_steps=30))
def test_the_same_places_in_random_graphs(graph):
    compare_matches(graph_of(graph[0]))


@pytest.mark.parametrize(
    ("attributes", "matches"),
    [
        ({}, True),
        ({"kernel_shape": [3]}, True),
        ({"kernel_shape": [3], "strides": [1], "dilations": [1], "pads": [0, 0]}, True),
        ({"kernel_shape": [1]}, False),
    ],
)
def test_attributes_that_say_what_operands_say_are_no_alteration(attributes, matches):
    """The last case is no valid model: a pattern that leaves a window out doesn't mean it."""
    node = helper.make_node("Conv", ["x", "w"], ["y"], **attributes)
    constants = {"w": np.ones((2, 4, 3), np.float32)}
    graph = graph_of(model([node], [value("x", [1, 4, 8])], [value("y", [1, 2, 6])], constants))
    (rule,) = (rule for rule in RULES if rule.name == "ConvertSignalsToImages")
    assert bool(Matcher([rule]).find(graph)) == matches
    assert compare_matches(graph) >= matches


@pytest.mark.parametrize("name", ["mobilenetv3"])
def test_the_same_near_misses(name):
    graph = graph_of(build(name, tiny=True))
    rules = with_present_operators(RULES, graph)
    misses = oracle_near_misses(rules, evaluated(compile_near_misses(rules), graph, None), graph)
    expected = {
        (
            miss.rule.name,
            tuple(map(graph.node_name, miss.match.nodes.values())),
            str(miss.condition),
        )
        for miss in misses
    }
    missed = {(miss.rule, miss.nodes, miss.condition) for miss in near_misses(RULES, graph)}
    assert missed == expected
