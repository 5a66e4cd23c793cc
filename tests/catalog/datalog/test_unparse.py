"""Syntax trees spelled as text, which reads as the same trees."""

import math
from dataclasses import fields, is_dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tensolog.catalog.datalog import derive, parse
from tensolog.catalog.datalog.language import builders
from tensolog.catalog.datalog.language.builders import Definition
from tensolog.catalog.datalog.language.parser import parse_block
from tensolog.catalog.datalog.language.unparse import (
    body_text,
    clause_text,
    expression_text,
)

from tests.campaigns import examples

from .programs import STRUCTURES, programs, structured_programs


def shape(node):
    """All of a tree but where its parts stand."""
    if is_dataclass(node):
        names = [f.name for f in fields(node) if f.name not in ("position", "depth")]
        return type(node).__name__, *(shape(getattr(node, name)) for name in names)
    if isinstance(node, tuple | list):
        return tuple(map(shape, node))
    return node


def check(text, header=""):
    block = parse_block(text, "p.dl")
    declarations = "".join(line for line in text.splitlines(True) if line.startswith(".decl"))
    clauses = "".join(clause_text(clause.head, clause.body) for clause in block.clauses)
    again = parse_block(header + declarations + clauses, "q.dl")
    assert shape(again.clauses) == shape(block.clauses)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(subsumption=False))
def test_random_programs_are_read_as_they_were(text):
    check(text)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(structured_programs())
def test_random_programs_over_structures_are_read_as_they_were(text):
    check(text, STRUCTURES + "\n")


@pytest.mark.parametrize(
    "clause",
    [
        "a(x, 3u, 1.5, -2, -7.25) :- a(x, _, _, _, _).",
        'b("a\\"b\\\\c\\nd\\te") :- !match("a.*", "b"), contains("c", "d"), true, !b("").',
        'c(as(x, number), min(x, 2, 3), max(x, 1), range(0, x, 2), cat("a", "b")) :- c(x, _).',
        "d(@f(x), autoinc(), ord(x), $A(x, [nil, $B()])) :- d(x, _, _, _), x = (x band 3) ^ 2.",
        "p(x, (-3) ^ x, -3 ^ x, 2 ^ -3) :- p(x, _, _, _).",
        "e(n, -(-5), -x, bnot x, lnot 1, x bshru 2 lxor 3) :- n = count : { e(_, _, _, _, _, x) }.",
        "f(n) :- n = 1 + sum x * 2 : { f(x), x = min y : { f(y) } }, f(n) ; n = 3, !f(3).",
    ],
)
def test_each_construct_is_read_as_it_was(clause):
    check(clause)


def test_declarations_are_read_as_they_were():
    check(
        ".decl a(x:number, y:symbol) inline\n.decl b(x:number, y:T) eqrel choice-domain x, (y, x)\n"
    )


@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]) | st.sampled_from("\n\t"))
)
def test_any_symbol_is_read_as_it_was(text):
    (clause,) = parse_block(clause_text(builders.atom("a", builders.symbol(text)), ()), "p").clauses
    assert clause.head.arguments[0].value == text


@settings(deadline=None)  # the database is loaded by the first that needs it
@given(st.floats(allow_nan=False) | st.integers(-(2**63), 2**64 - 1))
def test_any_number_is_read_as_it_was(value):
    text = f".decl a(x:float)\na({expression_text(builders.term(value))} * 1.0) :- true.\n"
    (row,) = derive(parse(text), {})["a"]
    assert row[0] == float(value) and math.copysign(1, row[0]) == math.copysign(1, value)


def test_a_definition_is_text_and_clauses():
    atom, either = builders.atom, builders.either
    body = [
        atom("b", "x", "y"),
        either([[atom("b", "y", 1)], [builders.absent("b", "y", "_"), atom("b", "x", "y")]]),
        builders.comparison(builders.infix("x", "+", 1), "<", "y"),
        atom("b", "x", "y"),
    ]
    definition = Definition.of_numbers("a", ["x", "y"], body)
    assert definition.text() == (
        ".decl a(x:number, y:number)\na(x, y) :-\n    b(x, y),\n"
        "    (b(y, 1); !b(y, _), b(x, y)),\n    (x + 1) < y.\n"
    )
    read = parse_block(definition.text(), "p.dl").clauses
    assert shape(read) == shape(definition.clauses())
    assert [body_text(b) for b in read[0].body] == ["b(x, y)", "b(y, 1)", "(x + 1) < y"]
