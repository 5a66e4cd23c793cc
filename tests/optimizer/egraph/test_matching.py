"""Matches in an e-graph against the catalog's engine, which evaluates the same clauses as SQL."""

from dataclasses import fields, is_dataclass, replace

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tensolog.catalog.datalog import evaluate, parse
from tensolog.catalog.datalog.language.parser import parse_block
from tensolog.catalog.datalog.language.unparse import clause_text
from tensolog.optimizer.egraph.egraph import EGraph
from tensolog.optimizer.egraph.saturation.application import apply_matches
from tensolog.optimizer.egraph.saturation.e_matching import (
    ANY,
    EMatcher,
    Patterns,
    operators_in,
    reachable,
)
from tensolog.optimizer.match import clauses
from tensolog.rules import nearly
from tensolog.rules.compiler.compile import clause_of, default_facts, graph_relations
from tensolog.rules.language.conditions import UsedOnlyHere

from benchmarks.zoo import build
from tests.campaigns import ALL, SHARE
from tests.models.random_graphs import graphs

from .pricing import graph_of, shipped_rules

TEXTS = {
    "node": [1],
    "attribute": [1, 2],
    "attribute_int": [1],
    "implied": [1],
    "dtype": [1],
    "commutative": [0],
}


def test_the_graphs_relations_are_kept_on_disk_as_they_were_read(tmp_path, monkeypatch):
    monkeypatch.setattr(clauses, "cache_path", lambda: tmp_path)
    spelled_clauses = []
    for _ in range(3):  # read, loaded, and read again where an entry is damaged
        clauses.graph_clauses.cache_clear()
        spelled_clauses.append(spelled(tuple(clauses.graph_clauses().items())))
        next((tmp_path / "clauses").iterdir()).write_bytes(b"cut off")
    assert spelled_clauses[0] == spelled_clauses[1] == spelled_clauses[2]


def test_the_trees_of_rules_are_what_their_text_reads_as():
    for rule in shipped_rules()[:: 1 if ALL else SHARE // 3]:
        for definition in (*clause_of(rule).definitions(), *nearly(rule)):
            read = parse_block(definition.text(), rule.name).clauses
            defined = definition.clauses()
            assert [spelled_clause(c) for c in read] == [spelled_clause(c) for c in defined]


def spelled_clause(clause):
    return clause_text(clause.head, clause.body)


def spelled(value):
    """All of a reading as text: terms have no equality, and sets are loaded in another order."""
    if is_dataclass(value):
        parts = [f"{f.name}={spelled(getattr(value, f.name))}" for f in fields(value)]
        return f"{type(value).__name__}({', '.join(parts)})"
    if isinstance(value, tuple | frozenset):
        parts = [spelled(part) for part in value]
        return f"({', '.join(sorted(parts) if isinstance(value, frozenset) else parts)})"
    return repr(value)


def compiled(rules):
    """The rules as one program; an e-graph doesn't ask for the number of a value's uses."""
    parts = [graph_relations(), *(clause_text(fact, ()) for fact in default_facts(rules))]
    for rule in rules:
        clause = clause_of(rule)
        kept = [part for part in clause.parts if not isinstance(part.condition, UsedOnlyHere)]
        parts += [definition.text() for definition in replace(clause, parts=kept).definitions()]
        parts.append(f".output match_{rule.name}\n")
    return parse("\n".join(parts), "rules")


def rows_in_sql(patterns, rules, program):
    """Rule name -> rows of its match relation, as DuckDB derives them."""
    facts = patterns.facts.of(patterns.egraph.columns.living())
    texts = {number: text for text, number in patterns.facts.symbols.items()}
    connection = duckdb.connect()
    inputs = {}
    for name, columns in facts.items():
        spelled = [
            pa.array([texts[number] for number in column.tolist()], pa.string())
            if place in TEXTS.get(name, ())
            else pa.array(column)
            for place, column in enumerate(columns)
        ]
        table = pa.table(spelled, names=[f"c{i}" for i in range(len(spelled))])
        connection.register(f"arrow_{name}", table)
        inputs[name] = f"arrow_{name}"
    names = [f"match_{rule.name}" for rule in rules]
    relations = evaluate(program, connection, inputs=inputs, only=names)
    return {rule.name: set(relations[f"match_{rule.name}"].fetchall()) for rule in rules}


def compare(model, rounds):
    """Grow an e-graph; each round both engines must find the same, and what is new among it."""
    egraph = EGraph(graph_of(model))
    rules = reachable(
        [rule for rule in shipped_rules() if len(rule.outputs) == 1], operators_in(egraph)
    )
    rules = rules[:: 1 if ALL else SHARE // 4]
    if not rules:
        return 0
    program, patterns = compiled(rules), Patterns(egraph, rules)
    matcher = EMatcher(egraph, rules, most=50)
    before, since, total = {}, ANY, 0
    for round_ in range(rounds):
        egraph.columns.now += 1
        tables = patterns.tables(egraph.columns.living())
        rows_by_rule = {
            r.name: rows for r, rows in patterns.rows(tables, dict.fromkeys(rules, ANY))
        }
        new = {r.name: rows for r, rows in patterns.rows(tables, dict.fromkeys(rules, since))}
        expected = rows_in_sql(patterns, rules, program)
        for rule in rules:
            name = rule.name
            assert len(set(rows_by_rule[name])) == len(rows_by_rule[name])
            assert rows_by_rule[name] == sorted(expected[name]), name
            assert set(new[name]) <= set(rows_by_rule[name]), name
            assert set(rows_by_rule[name]) - before.get(name, set()) <= set(new[name]), name
            total += len(rows_by_rule[name])
        before, since = {name: set(rows) for name, rows in rows_by_rule.items()}, egraph.columns.now
        egraph.columns.now += 1
        apply_matches(egraph, matcher.find(round_))
    return total


@pytest.mark.parametrize("name", ["bert", "mobilenetv3"])
def test_both_engines_find_the_same_in_an_architecture(name):
    assert compare(build(name, tiny=True), rounds=2)


@settings(
    max_examples=3,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(graphs(least_steps=10, most_steps=30), st.just(2))
def test_both_engines_find_the_same_in_random_graphs(graph, rounds):
    compare(graph[0], rounds)
