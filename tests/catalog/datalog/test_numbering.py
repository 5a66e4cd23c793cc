"""Recursions whose symbols are numbered give what they give with strings."""

from unittest import mock

import pytest
from tensolog.catalog.datalog import parse
from tensolog.catalog.datalog.sql import engine

from .conftest import sets
from .reference import run as reference

EDGES = """
.decl e(x:symbol, y:symbol)
e("a", "b"). e("b", "it's"). e("it's", ""). e("", "a"). e("c", "c"). e("d", "a").
.decl n(x:symbol, i:number) n("a", 3). n("c", -1). n("unseen", 0).
"""
NUMBERED = {
    "composition": "p(x, y) :- e(x, y). p(x, z) :- p(x, y), p(y, z).",
    "linear": "p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z).",
    "constants": 'p("new", y) :- e(_, y). p(x, "made") :- p(x, y), e(y, "a"), x != "c", y = "".',
    "negation": 'p(x, x) :- e(x, _). p(x, z) :- p(x, y), e(y, z), !n(z, _), !e(z, "c"), !e(x, x).',
    "mutual": ".decl q(x:symbol, i:number, y:symbol)\n"
    'p(x, y) :- q(y, i, x), i > -9. q("start", 0, "d").\n'
    "q(y, i - 1, z) :- p(x, y), e(x, z), n(_, i).",
    "swapped": "p(x, y) :- e(x, y). p(y, x) :- p(x, y), n(x, _).",
    "no symbols": ".decl k() p(x, y) :- e(x, y), k(). k() :- p(_, _). k() :- n(_, 0).",
    "from itself": 'p("a", "b"). p(y, x) :- p(x, y). p(x, "a") :- p(x, _).',
}
SPELLED = {
    "order": "p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z), x < z.",
    "strings": 'p(x, y) :- e(x, y). p(cat(x, "!"), y) :- p(x, y), strlen(x) < 3.',
    "aggregate": "p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z), 1 = count : n(z, _).",
}


def recursive(text):
    return [step for step in parse(text).steps if step.recursive]


@pytest.mark.parametrize("rules", NUMBERED.values(), ids=NUMBERED)
def test_numbered_recursions_agree_with_the_naive_evaluator(rules, connection):
    text = f"{EDGES}.decl p(x:symbol, y:symbol)\n{rules}"
    assert all(step.numbered is not None for step in recursive(text))
    with mock.patch.object(engine, "MANY_ROWS", 0):
        assert sets(text, connection) == reference(text)
    left = "SELECT table_name FROM duckdb_tables() WHERE temporary AND table_name LIKE 'dl:%'"
    kept = {name.split(":", 3)[-1].count(":") for (name,) in connection.execute(left).fetchall()}
    assert kept == {0}  # nothing but the relations themselves


@pytest.mark.parametrize("rules", SPELLED.values(), ids=SPELLED)
def test_what_computes_with_symbols_keeps_them(rules, connection):
    text = f"{EDGES}.decl p(x:symbol, y:symbol)\n{rules}"
    assert all(step.numbered is None for step in recursive(text))
    with mock.patch.object(engine, "MANY_ROWS", 0):
        assert sets(text, connection) == reference(text)


@pytest.mark.parametrize("more", [-1, 0])
def test_symbols_are_numbered_where_much_is_read(connection, more):
    text = ".decl e(x:symbol, y:symbol) .input e .decl p(x:symbol, y:symbol) p(x, y) :- e(x, y).\n"
    text += "p(x, z) :- p(x, y), e(y, z)."
    rows = [(f"v{i}", f"v{i - i % 7}") for i in range(engine.MANY_ROWS + more)]
    execute = engine._Run._execute
    with mock.patch.object(engine._Run, "_execute", autospec=True, side_effect=execute) as spy:
        relations = sets(text, connection, {"e": rows})
    assert any(':symbols"' in call.args[1] for call in spy.call_args_list) == (more == 0)
    assert relations["p"] == set(rows)
