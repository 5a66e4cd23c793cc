"""Joins in numpy against DuckDB: random clauses over small relations, whole and from given rows."""

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.catalog.datalog import DatalogError, evaluate, parse
from tensolog.catalog.datalog.language.parser import parse_block
from tensolog.optimizer.match.joins import Tables, conjunction_of, union

from ..campaigns import examples

WIDTHS = {"p": 2, "q": 3, "s": 1}
DECLARED = (
    ".decl p(a:number, b:number)\n.decl q(a:number, b:number, c:number)\n.decl s(a:number)\n"
    ".input p, q, s\n"
)
NAMES = "uvwxyz"


@st.composite
def clauses(draw):
    """A safe clause: atoms that bind, then negations and comparisons over what is bound."""
    terms = st.one_of(st.sampled_from(NAMES), st.integers(-1, 3).map(str), st.just("_"))
    atoms = []
    for _ in range(draw(st.integers(1, 4))):
        name = draw(st.sampled_from(sorted(WIDTHS)))
        atoms.append((name, [draw(terms) for _ in range(WIDTHS[name])]))
    bound = sorted({term for _, row in atoms for term in row if term in NAMES})
    body = [f"{name}({', '.join(row)})" for name, row in atoms]
    if not bound:
        return f"r(1) :- {', '.join(body)}."
    some = st.sampled_from(bound)
    for _ in range(draw(st.integers(0, 2))):
        name = draw(st.sampled_from(sorted(WIDTHS)))
        row = [draw(st.one_of(some, st.just("_"), st.just("1"))) for _ in range(WIDTHS[name])]
        body.append(f"!{name}({', '.join(row)})")
    for _ in range(draw(st.integers(0, 2))):
        sign = draw(st.sampled_from(["=", "!=", "<", "<=", ">", ">="]))
        left = draw(st.sampled_from(["{} + 1", "{} - {}", "{} * {}", "{}", "({} + 4) % 3"]))
        left = left.format(*(draw(some) for _ in range(left.count("{}"))))
        body.append(f"{left} {sign} {draw(some)}")
    if draw(st.booleans()):
        body.append(f"k = {draw(some)} + 2")
        bound = [*bound, "k"]
    head = draw(st.lists(st.sampled_from(bound), min_size=1, max_size=3))
    return f"r({', '.join(head)}) :- {', '.join(draw(st.permutations(body)))}."


@st.composite
def relations(draw):
    values = st.integers(-1, 3)
    return {
        name: sorted(draw(st.sets(st.tuples(*[values] * width), min_size=1, max_size=8)))
        for name, width in WIDTHS.items()
    }


def in_columns(rows):
    return {name: list(np.array(found, np.int64).T) for name, found in rows.items()}


def in_sql(text, rows):
    """The rows of r, as DuckDB derives them."""
    connection = duckdb.connect()
    for name, columns in in_columns(rows).items():
        table = pa.table(columns, names=[f"c{i}" for i in range(len(columns))])
        connection.register(f"arrow_{name}", table)
    inputs = {name: f"arrow_{name}" for name in rows}
    return set(evaluate(parse(text, "test"), connection, inputs=inputs)["r"].fetchall())


def width_of(clause):
    return clause.partition(" :-")[0].count(",") + 1


@settings(max_examples=examples(60), deadline=None)
@given(clauses(), relations())
def test_a_clause_holds_for_the_same_rows(clause, rows):
    head = ", ".join(f"c{i}:number" for i in range(width_of(clause)))
    expected = in_sql(f"{DECLARED}.decl r({head})\n{clause}\n.output r\n", rows)
    (read,) = parse_block(clause, "test").clauses
    tables = Tables(in_columns(rows), {"r": [conjunction_of(read)]}, {})
    found = list(zip(*(column.tolist() for column in tables.rows("r")), strict=True))
    assert found == sorted(expected)


@settings(max_examples=examples(60), deadline=None)
@given(clauses(), relations(), st.integers(0, 3), st.data())
def test_from_the_new_rows_of_an_atom_come_the_solutions_that_it_takes_part_in(
    clause, rows, place, data
):
    """What an atom's other rows lead to and what its new rows lead to is all there is."""
    (read,) = parse_block(clause, "test").clauses
    conjunction = conjunction_of(read)
    goals = [goal for goal in conjunction.goals if not goal.negated]
    first = goals[place % len(goals)]
    tables = Tables(in_columns(rows), {}, {})
    every = tables.chosen(first)
    is_new = np.array([data.draw(st.booleans()) for _ in every[0]], bool)
    parts = [
        tables.solve(conjunction, first, [column[which] for column in every])
        for which in (is_new, ~is_new)
    ]
    whole = union([tables.solve(conjunction)])
    both = union(parts)
    assert [c.tolist() for c in both] == [c.tolist() for c in whole]


@settings(max_examples=examples(60), deadline=None)
@given(clauses(), relations(), st.integers(1, 12))
def test_a_join_that_is_cut_gives_some_of_the_rows_and_says_so(clause, rows, most):
    (read,) = parse_block(clause, "test").clauses
    conjunction = conjunction_of(read)
    whole = union([Tables(in_columns(rows), {}, {}).solve(conjunction)])
    tables = Tables(in_columns(rows), {}, {})
    part = union([tables.solve(conjunction, most=most)])
    found, expected = (set(zip(*(c.tolist() for c in t), strict=True)) for t in (part, whole))
    assert found <= expected
    assert tables.was_cut or found == expected
    again = union([Tables(in_columns(rows), {}, {}).solve(conjunction, most=most)])
    assert [c.tolist() for c in again] == [c.tolist() for c in part]


def test_what_is_derived_on_the_way_is_never_cut():
    """A negation of a part of a relation would hold where it must not."""
    (loud,) = parse_block("loud(x) :- p(x, _).", "test").clauses
    (read,) = parse_block("r(x, y) :- s(x), s(y), !loud(y).", "test").clauses
    given = {"p": [np.arange(9), np.arange(9)], "s": [np.arange(10)]}
    tables = Tables(given, {"loud": [conjunction_of(loud)]}, {})
    found = tables.solve(conjunction_of(read), most=100)
    assert sorted(found[0].tolist()) == list(range(10)) and set(found[1].tolist()) == {9}
    found = tables.solve(conjunction_of(read), most=20)
    assert tables.was_cut and set(found[1].tolist()) <= {9}


def test_symbols_and_floats_are_compared_as_they_are():
    text = 'r(x, y) :- t(x, "Add"), f(x, y), y >= 0.5.'
    (read,) = parse_block(text, "test").clauses
    given = {
        "t": [np.array([1, 2, 3]), np.array([7, 8, 7])],
        "f": [np.array([1, 2, 3]), np.array([0.5, 2.0, 0.25])],
    }
    tables = Tables(given, {"r": [conjunction_of(read)]}, {"Add": 7, "Mul": 8})
    assert [column.tolist() for column in tables.rows("r")] == [[1], [0.5]]
    tables = Tables(given, {"r": [conjunction_of(read)]}, {"Mul": 8})  # no node is an Add
    assert not len(tables.rows("r")[0])


def test_what_is_not_joined_is_refused():
    (aggregate,) = parse_block("r(x) :- s(x), x = count : { p(_, _) }.", "test").clauses
    tables = Tables({"s": [np.array([1])]}, {"r": [conjunction_of(aggregate)]}, {})
    with pytest.raises(DatalogError, match="can't compute"):
        tables.rows("r")
    (text,) = parse_block('r(x) :- s(x), match("a.*", "ab").', "test").clauses
    with pytest.raises(DatalogError, match="can't join"):
        conjunction_of(text)
