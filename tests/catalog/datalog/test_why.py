"""Why rows hold or don't: answers end in facts, and say of each row what evaluating it says."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.catalog.datalog import derive, parse
from tensolog.catalog.datalog.memory.program_plans import database_only
from tensolog.catalog.datalog.memory.why import Reasons

from tests.campaigns import examples

REACH = """
.decl edge(a: symbol, b: symbol)
.decl barred(a: symbol)
.input edge, barred
.decl joined(a: symbol, b: symbol)
joined(a, b) :- edge(a, b), !barred(b).
.decl reaches(a: symbol, b: symbol)
reaches(a, b) :- joined(a, b).
reaches(a, c) :- joined(a, b), reaches(b, c).
.decl degree(a: symbol, n: number)
degree(a, n) :- edge(a, _), n = count : { edge(a, _) }.
.decl busy(a: symbol)
busy(a) :- degree(a, n), n > 1.
"""
NAME = st.sampled_from("abcde")


def last(why):
    """The end of a chain of reasons: a fact that is given, or missing."""
    return last(why.because[0]) if why.because else why


def reasons(edges, barred=()):
    program = parse(REACH)
    inputs = {"edge": edges, "barred": [(name,) for name in barred]}
    return Reasons(program, derive(program, inputs))


def test_a_row_that_holds_names_the_clause_and_what_it_stands_on():
    why = reasons([("a", "b"), ("b", "c")]).why("reaches", ("a", "c"))
    assert why.holds and why.clause == "reaches(a, c) :- joined(a, b), reaches(b, c)."
    assert [(reason.relation, reason.row) for reason in why.because] == [("joined", ("a", "b"))]


def test_a_row_that_does_not_hold_names_the_literal_down_to_the_fact_that_is_missing():
    why = reasons([("a", "b")]).why("joined", ("b", "c"))
    assert not why.holds and why.literal == "edge(a, b)"
    end = last(why)
    assert (end.relation, end.row, end.holds) == ("edge", ("b", "c"), False)


def test_what_is_negated_is_named_where_it_holds():
    why = reasons([("a", "b")], barred="b").why("joined", ("a", "b"))
    assert why.literal == "!barred(b)"
    end = last(why)
    assert (end.relation, end.row, end.holds) == ("barred", ("b",), True)


def test_a_comparison_that_fails_is_named():
    why = reasons([("a", "b")]).why("busy", ("a",))
    assert why.literal == "n > 1" and not why.because


def test_of_several_clauses_the_nearest_is_named():
    why = reasons([("a", "b"), ("b", "c")], barred="c").why("reaches", ("a", "c"))
    assert why.clause.startswith("reaches(a, c) :- joined(a, b), reaches(b, c)")


COUNTED = """
.decl edge(a: symbol, b: symbol)
.input edge
.decl path(a: symbol, b: symbol, d: number)
path(a, b, 1) :- edge(a, b).
path(a, c, d + 1) :- path(a, b, d), edge(b, c), d < 4.
.decl later(d: number, a: symbol)
later(e, a) :- path(a, _, d + 1), path(a, _, d), e = d.
.decl twice(d: number, e: number, f: number)
twice(d + 1, 2 * d, d + 2) :- path("a", "c", d).
"""


def test_what_a_head_computes_is_named_where_all_of_the_body_holds():
    program = parse(COUNTED)
    asked = Reasons(program, derive(program, {"edge": [("a", "b"), ("b", "c")]}))
    assert asked.why("path", ("a", "c", 2)).holds
    why = asked.why("path", ("a", "c", 3))
    assert why.clause.startswith("path(a, c, (d + 1)) :-") and why.literal == "(d + 1) = 3"
    assert asked.why("path", ("a", "z", 2)).literal == "edge(b, c)"
    assert asked.why("twice", (3, 4, 4)).holds
    assert asked.why("twice", (3, 5, 4)).literal == "(2 * d) = 5"


def test_what_an_atom_computes_with_is_looked_for_before():
    program = parse(COUNTED)
    asked = Reasons(program, derive(program, {"edge": [("a", "b"), ("b", "c")]}))
    assert asked.why("later", (1, "a")).holds
    assert asked.why("later", (1, "b")).literal == "path(a, _, (d + 1))"


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.tuples(NAME, NAME), max_size=8), st.lists(NAME, max_size=2))
def test_reasons_agree_with_what_is_derived(edges, barred):
    asked = reasons(edges, barred)
    for relation in ("joined", "reaches"):
        for left in "abcde":
            for right in "abcde":
                why = asked.why(relation, (left, right))
                assert why.holds == ((left, right) in asked.rows[relation])
                assert why.clause
                if not why.holds:
                    assert why.literal


@pytest.mark.parametrize("name", ["dominators", "cyk", "game_of_life", "inventory", "tic_tac_toe"])
def test_each_derived_row_of_an_example_has_a_clause(name):
    program = parse((Path(__file__).parent / "examples" / f"{name}.dl").read_text(encoding="utf-8"))
    if database_only(program) or any(r.is_input for r in program.relations.values()):
        pytest.skip("needs facts, or a database")
    rows = derive(program, {})
    asked = Reasons(program, rows)
    for relation, declared in program.relations.items():
        for row in rows[relation][:5]:
            if row not in set(declared.facts):
                assert asked.why(relation, row).clause, (relation, row)
