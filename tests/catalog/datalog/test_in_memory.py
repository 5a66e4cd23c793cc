"""Programs over rows: evaluated in memory where they can be, and by DuckDB where they can't."""

import math
import pickle
from unittest import mock

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tensolog.catalog.datalog import DatalogError, derive, explain, parse
from tensolog.catalog.datalog.memory import derivation, execution
from tensolog.catalog.datalog.memory.execution import Evaluator, Prepared
from tensolog.catalog.datalog.memory.program_plans import database_only, plan_of
from tensolog.catalog.disk_cache import load_data

from tests.campaigns import examples

from .conftest import checked
from .programs import NUMBERS, STRINGS, programs, structured_programs
from .reference import run as reference

INPUTS = ".input n .input e .input s .input w\n"
number, symbol = st.sampled_from([*NUMBERS, 4]), st.sampled_from([*STRINGS, "é", "日本"])
GIVEN = st.fixed_dictionaries(
    {
        "n": st.lists(st.tuples(number), max_size=6),
        "e": st.lists(st.tuples(number, number), max_size=9),
        "s": st.lists(st.tuples(number, symbol), max_size=6),
        "w": st.lists(st.tuples(number, number, number), max_size=6),
    }
)

WITNESS_IN_ONE_HEAD = """
.decl n(a:number)
n(0).
.decl e(a:number, b:number)
e(0, 7).
.decl d(a:number)
.decl f(a:number)
d(y), f(x) :- n(0), x = min y : { e(_, y) }.
"""


def derived_rows(program, facts):
    return {name: set(rows) for name, rows in derive(program, facts).items()}


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(subsumption=False))
@example(WITNESS_IN_ONE_HEAD)
def test_memory_agrees_with_the_naive_evaluator(text):
    program = checked(text)
    assert database_only(program) is None
    with mock.patch.object(derivation, "_queried", None):
        assert derived_rows(program, {}) == reference(text)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(structured_programs(columns="nsuPLT"))
def test_memory_agrees_with_the_naive_evaluator_over_structures(text):
    program = parse(text)
    reason = database_only(program)
    if reason == "a negated record with an underscore":
        return
    assert reason is None
    with mock.patch.object(derivation, "_queried", None):
        assert derived_rows(program, {}) == reference(text)


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(subsumption=False), GIVEN)
def test_memory_agrees_with_the_database_over_given_rows(text, facts):
    program = checked(text + "\n" + INPUTS)
    in_memory = derived_rows(program, facts)
    with mock.patch.object(derivation, "FEW_ROWS", 0):
        assert derived_rows(program, facts) == in_memory


def test_each_program_is_planned_once():
    program = parse(".decl a(x:number) .input a .decl b(x:number) b(x + 1) :- a(x).")
    assert derive(program, {"a": [(3,), (1,), (3,)]})["b"] == [(4,), (2,)]
    with mock.patch("tensolog.catalog.datalog.memory.derivation.plan_of", None):
        assert derive(program, {}) == {"a": [], "b": []}


def test_a_plan_is_data_and_the_same_each_time():
    text = ".decl a(x:symbol, y:symbol) .input a .decl p(x:symbol, y:symbol)\n"
    text += "p(x, y) :- a(x, y). p(x, z) :- p(x, y), p(y, z), !a(z, x), a(_, z), a(y, _)."
    plan = plan_of(parse(text))
    assert plan == plan_of(parse(text)) == load_data(pickle.dumps(plan))
    assert len(set(plan.indexes)) == len(plan.indexes)
    rows = {"a": [("u", "v"), ("v", "w"), ("w", "x")]}
    assert set(Evaluator(load_data(pickle.dumps(plan)))(rows)["p"]) == reference_closure(rows["a"])


def reference_closure(pairs):
    """All paths: the conditions on ends hold of each pair of a path that repeats nothing."""
    closed = set(pairs)
    while more := {(x, z) for x, y in closed for v, z in closed if y == v} - closed:
        closed |= more
    return closed


DATABASE_ONLY = {
    "subsumption": "r(x) <= r(y) :- y < x.",
    "patterns": 'r(1) :- t(s), match("a.*", s).',
    "a divisor that may be zero": "r(6 / x) :- a(x).",
    "arithmetic of floats": "r(1) :- f(x), x * 2.0 > 1.",
    "a mean of floats": "r(1) :- 1.5 < mean x : { f(x) }.",
    "a sum of floats": "r(1) :- 0.5 < sum x : { f(x) }.",
    "a symbol converted to a number": "r(to_number(s)) :- n(s).",
    "a float converted to a number": "r(to_number(x)) :- f(x).",
    "range over what is no number": "r(1) :- u(x), x = range(0, 2).",
    "floats in records or algebraic data types": (
        ".type F = [x:float] .decl p(x:F) p([x]) :- f(x). r(1) :- p([x]), x > 1."
    ),
    "a choice among records, which have no order": (
        ".type P = [x:number] .decl p(p:P, x:number) choice-domain x p([x], x) :- a(x).\n"
        "r(x) :- p(_, x)."
    ),
    "a negated record with an underscore": (
        ".type P = [x:number, y:P] .decl p(p:P) p([1, nil]). r(x) :- a(x), !p([x, _])."
    ),
}
HEAD = """
.decl a(x:number) a(1). a(2). .decl t(s:symbol) t("ab"). t("b"). .decl n(s:symbol) n("12")
.decl f(x:float) f(1.5). f(2). .decl u(x:unsigned) u(1). .decl e(x:number, y:number) e(1, 1).
.decl r(x:number) r(5). r(7).
"""


@pytest.mark.parametrize("reason", DATABASE_ONLY)
def test_what_memory_does_not_do_the_database_does(reason):
    text = HEAD.replace('n("12")', 'n("12").') + DATABASE_ONLY[reason]
    program = parse(text)
    assert database_only(program) == reason
    assert f"derive() of few rows: statements, too: it has {reason}" in explain(program)
    assert derived_rows(program, {}) == reference(text)


def test_clauses_of_any_length_are_evaluated_in_memory():
    atoms = ", ".join(f"e(x{i}, x{i + 1})" for i in range(300))
    program = parse(f".decl e(x:number, y:number) .input e .decl r(x:number) r(x300) :- {atoms}.")
    assert database_only(program) is None
    assert derive(program, {"e": [(n, n + 1) for n in range(302)]})["r"] == [(300,), (301,), (302,)]


def test_many_solutions_under_way_go_on_in_batches():
    program = parse(
        ".decl a(x:number) .input a .decl r(x:number, n:number)\n"
        "r(z, n) :- a(x), a(y), a(z), x + y + z = 40, n = count : { a(u), a(v), u + v = z }."
    )
    numbers = range(30)
    expected = {
        (z, sum(u + v == z for u in numbers for v in numbers))
        for z in numbers
        if any(x + y + z == 40 for x in numbers for y in numbers)
    }
    assert set(derive(program, {"a": [(n,) for n in numbers]})["r"]) == expected


def test_no_step_is_given_more_bindings_than_a_batch(monkeypatch):
    program = parse(
        ".decl n(x:number) .input n .decl r(x:number) .decl s(x:number, y:number)\n"
        "r(x) :- x = range(0, 100), x % 30 = 7. r(c) :- c = count : { n(x), n(y), n(z) }.\n"
        "s(x, y) :- n(x), n(y), n(z), n(v), x + y + z + v = 3, x != y."
    )
    numbers, sizes = range(6), []
    made_ready = execution._ready

    def watched(step, plan):
        ready = made_ready(step, plan)
        return lambda bindings, tables: sizes.append(len(bindings)) or ready(bindings, tables)

    monkeypatch.setattr(execution, "_ready", watched)
    monkeypatch.setattr(execution, "_BATCH", 5)
    monkeypatch.setattr(execution, "_MOST_AT_ONCE", 8)
    relations = derive(program, {"n": [(number,) for number in numbers]})
    assert set(relations["r"]) == {(7,), (37,), (67,), (97,), (6**3,)}
    pairs = {(x, y) for x in numbers for y in numbers if x + y <= 3 and x != y}
    assert set(relations["s"]) == pairs
    assert max(sizes) == 5


@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(subsumption=False))
def test_batches_of_any_size_give_the_same(text):
    program = checked(text)
    with (
        mock.patch.object(execution, "_BATCH", 2),
        mock.patch.object(execution, "_MOST_AT_ONCE", 3),
        mock.patch.object(derivation, "_queried", None),
    ):
        assert derived_rows(program, {}) == reference(text)


def test_floats_are_moved_and_compared_in_memory():
    program = parse(
        ".decl f(x:float, y:float) .input f .decl r(x:float) r(x) :- f(x, y), x < y, y != 2.5.\n"
        ".decl g(x:float) g(min(x, 0.5)) :- f(x, _). g(max y : { f(_, y) })."
    )
    assert database_only(program) is None
    facts = {"f": [(0.0, 1.0), (2.0, 2.5), (-0.0, 3.0), (7.0, -math.inf)]}
    expected = {"r": {(0.0,)}, "g": {(0.0,), (0.5,), (3.0,)}}
    assert derived_rows(program, facts) == {"f": set(facts["f"]), **expected}
    with mock.patch.object(derivation, "FEW_ROWS", 0):
        assert derived_rows(program, facts) == {"f": set(facts["f"]), **expected}


def test_a_float_that_is_no_number_goes_to_the_database():
    program = parse(".decl f(x:float) .input f .decl r(x:number) r(1) :- f(x), f(y), x = y, x > 9.")
    assert database_only(program) is None
    assert derive(program, {"f": [(math.nan,)]})["r"] == [(1,)]


def test_relations_without_columns_hold_by_one_row():
    text = ".decl p() .input p .decl q() q() :- p(). .decl r() r() :- !p()."
    for few in (0, 1000):
        with mock.patch.object(derivation, "FEW_ROWS", few):
            assert derive(parse(text), {"p": [()]}) == {"p": [()], "q": [()], "r": []}
            assert derive(parse(text), {}) == {"p": [], "q": [], "r": [()]}


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"b": [(1,)]}, "no relation b with .input"),
        ({"c": [(1,)]}, "no relation c with .input"),
        ({"a": [(1, 2)]}, r"\(1, 2\) is no row of a\(number\)"),
        ({"a": [("1",)]}, r"\('1',\) is no row of a\(number\)"),
        ({"a": [(True,)]}, "is no row"),
        ({"a": [(1 << 63,)]}, "is no row"),
        ({"u": [(-1,)]}, "is no row of u"),
    ],
)
def test_rows_that_do_not_fit_are_named(facts, reason):
    program = parse(".decl a(x:number) .input a .decl u(x:unsigned) .input u .decl c(x:number)")
    with pytest.raises(DatalogError, match=reason):
        derive(program, facts)


def test_a_character_that_is_cut_is_an_error_either_way():
    program = parse('.decl r(s:symbol) r(substr("é", 0, 1)) :- true.')
    for few in (0, 1000):
        with mock.patch.object(derivation, "FEW_ROWS", few), pytest.raises(DatalogError):
            derive(program, {})


def test_faults_stop_either_way():
    program = parse(".decl a(x:number) .input a .decl r(x:number) r(1 / x) :- a(x).")
    with pytest.raises(DatalogError, match="division by zero"):
        derive(program, {"a": [(0,)]})


CHANGING = """
.decl edge(a: number, b: number)
.decl start(a: number)
.decl barred(a: number)
.input edge, start, barred
.decl joined(a: number, b: number)
joined(a, b) :- edge(a, b), !barred(b).
.decl reached(a: number)
reached(a) :- start(a).
reached(b) :- reached(a), joined(a, b).
.decl missed(a: number)
missed(b) :- edge(_, b), !reached(b).
"""
EDGES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=12)
STARTS = st.lists(st.lists(st.tuples(st.integers(0, 6)), max_size=3), max_size=4)


@given(EDGES, st.lists(st.tuples(st.integers(0, 6)), max_size=2), STARTS)
def test_a_prepared_program_derives_what_the_whole_program_does(edges, barred, starts):
    evaluator = Evaluator(plan_of(parse(CHANGING)))
    prepared = Prepared(evaluator, {"edge": edges, "barred": barred}, ["start"])
    for start in starts:
        whole = evaluator({"edge": edges, "barred": barred, "start": start})
        assert prepared.rows("joined") == whole["joined"]
        for name in ("reached", "missed"):
            assert prepared({"start": start}, name) == whole[name]
