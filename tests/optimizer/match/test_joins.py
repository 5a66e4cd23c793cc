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

from tests.campaigns import examples

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


@st.composite
def strata(draw):
    """Clauses of r and t, recursive with each other, then of g and h that aggregate and negate."""
    lines = [".decl r(a:number, b:number)", ".decl t(a:number, b:number)"]
    lines += [".decl g(a:number, k:number)", ".decl h(a:number, b:number)"]
    base_relations = sorted(WIDTHS)
    known = {**WIDTHS, "r": 2, "t": 2}

    def atoms(names, count, spare="_"):
        terms = st.sampled_from([*"uvwx", spare])
        chosen = [draw(st.sampled_from(names)) for _ in range(count)]
        return [(name, [draw(terms) for _ in range(known[name])]) for name in chosen]

    def spelled(literals):
        return [f"{name}({', '.join(row)})" for name, row in literals]

    for name in "rt":
        for is_recursive in (False, True, True):
            literals = atoms(base_relations, draw(st.integers(1, 2)))
            if is_recursive:
                literals += atoms(["r", "t"], draw(st.integers(1, 2)))
            bound = sorted({term for _, row in literals for term in row} - {"_"}) or ["1"]
            some = st.sampled_from(bound)
            body = spelled(literals)
            if draw(st.booleans()):
                body.append(f"{draw(some)} {draw(st.sampled_from(['<=', '!=']))} {draw(some)}")
            lines.append(f"{name}({draw(some)}, {draw(some)}) :- {', '.join(body)}.")
    for head in "gh":
        for _ in range(draw(st.integers(1, 2))):
            literals = atoms([*base_relations, "r", "t"], draw(st.integers(1, 2)))
            bound = sorted({term for _, row in literals for term in row} - {"_"}) or ["1"]
            some, body = st.sampled_from(bound), spelled(literals)
            negated, row = atoms(["r", "t", "p"], 1)[0]
            row = [term if term in bound else "_" for term in row]
            if head == "h":
                body.append(f"!{negated}({', '.join(row)})")
                lines.append(
                    f"h({draw(some)}, {draw(some)}) :- {', '.join(draw(st.permutations(body)))}."
                )
                continue
            inner = atoms([*base_relations, "r", "t"], draw(st.integers(1, 2)), spare="y")
            inner_terms = sorted({term for _, row in inner for term in row})
            target = draw(st.sampled_from(inner_terms))
            word = draw(st.sampled_from(["count", "sum", "min", "max"]))
            nested = spelled(inner)
            if draw(st.booleans()):
                nested.append(f"{target} < {draw(some)} + 1")
            if draw(st.integers(0, 3)) == 0:
                nested.append(f"{target} > count : {{ s(_), p({target}, _) }}")
            aggregated = "" if word == "count" else draw(st.sampled_from([target, f"{target} * 2"]))
            # What only an extreme binds must not be read outside.
            outer = [n for n in bound if n != target] or ["1"]
            body.append(f"k = 1 + {word} {aggregated} : {{ {', '.join(nested)} }}")
            if draw(st.booleans()):
                body.append(f"!p(k, {draw(st.sampled_from(bound))})")
            lines.append(f"g({draw(st.sampled_from(outer))}, k) :- {', '.join(body)}.")
    return "\n".join(lines)


def in_columns(rows):
    return {name: list(np.array(tuples, np.int64).T) for name, tuples in rows.items()}


def in_sql(text, rows, names="r"):
    """The rows of relations, those of r alone or by name, as DuckDB derives them."""
    connection = duckdb.connect()
    for name, columns in in_columns(rows).items():
        table = pa.table(columns, names=[f"c{i}" for i in range(len(columns))])
        connection.register(f"arrow_{name}", table)
    inputs = {name: f"arrow_{name}" for name in rows}
    relations = evaluate(parse(text, "test"), connection, inputs=inputs)
    derived = {name: set(relations[name].fetchall()) for name in names}
    return derived["r"] if names == "r" else derived


def width_of(clause):
    return clause.partition(" :-")[0].count(",") + 1


@settings(max_examples=examples(60), deadline=None)
@given(clauses(), relations())
def test_a_clause_holds_for_the_same_rows(clause, rows):
    head = ", ".join(f"c{i}:number" for i in range(width_of(clause)))
    expected = in_sql(f"{DECLARED}.decl r({head})\n{clause}\n.output r\n", rows)
    (read,) = parse_block(clause, "test").clauses
    tables = Tables(in_columns(rows), {"r": [conjunction_of(read)]}, {})
    derived = list(zip(*(column.tolist() for column in tables.rows("r")), strict=True))
    assert derived == sorted(expected)


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
    derived, expected = (set(zip(*(c.tolist() for c in t), strict=True)) for t in (part, whole))
    assert derived <= expected
    assert tables.was_cut or derived == expected
    again = union([Tables(in_columns(rows), {}, {}).solve(conjunction, most=most)])
    assert [c.tolist() for c in again] == [c.tolist() for c in part]


def test_what_is_derived_on_the_way_is_never_cut():
    """A negation of a part of a relation would hold where it must not."""
    (loud,) = parse_block("loud(x) :- p(x, _).", "test").clauses
    (read,) = parse_block("r(x, y) :- s(x), s(y), !loud(y).", "test").clauses
    facts = {"p": [np.arange(9), np.arange(9)], "s": [np.arange(10)]}
    tables = Tables(facts, {"loud": [conjunction_of(loud)]}, {})
    solved = tables.solve(conjunction_of(read), most=100)
    assert sorted(solved[0].tolist()) == list(range(10)) and set(solved[1].tolist()) == {9}
    solved = tables.solve(conjunction_of(read), most=20)
    assert tables.was_cut and set(solved[1].tolist()) <= {9}


def test_symbols_and_floats_are_compared_as_they_are():
    text = 'r(x, y) :- t(x, "Add"), f(x, y), y >= 0.5.'
    (read,) = parse_block(text, "test").clauses
    facts = {
        "t": [np.array([1, 2, 3]), np.array([7, 8, 7])],
        "f": [np.array([1, 2, 3]), np.array([0.5, 2.0, 0.25])],
    }
    tables = Tables(facts, {"r": [conjunction_of(read)]}, {"Add": 7, "Mul": 8})
    assert [column.tolist() for column in tables.rows("r")] == [[1], [0.5]]
    tables = Tables(facts, {"r": [conjunction_of(read)]}, {"Mul": 8})  # no node is an Add
    assert not len(tables.rows("r")[0])


def test_what_is_not_joined_is_refused():
    (length,) = parse_block('r(x) :- s(x), x = strlen("a").', "test").clauses
    tables = Tables({"s": [np.array([1])]}, {"r": [conjunction_of(length)]}, {})
    with pytest.raises(DatalogError, match="can't compute"):
        tables.rows("r")
    (text,) = parse_block('r(x) :- s(x), match("a.*", "ab").', "test").clauses
    with pytest.raises(DatalogError, match="can't join"):
        conjunction_of(text)


@settings(max_examples=examples(100), deadline=None)
@given(strata(), relations())
def test_recursion_negation_and_aggregates_agree_with_duckdb(text, rows):
    expected = in_sql(DECLARED + text, rows, "rtgh")
    clauses = {}
    for clause in parse_block(text, "test").clauses:
        clauses.setdefault(clause.head.name, []).append(conjunction_of(clause))
    tables = Tables(in_columns(rows), clauses, {})
    for name in "gtrh":
        columns = [column.tolist() for column in tables.rows(name)]
        derived = list(zip(*columns, strict=True))
        assert len(derived) == len(set(derived))
        assert set(derived) == expected[name], name


def test_a_closure_of_a_long_chain_and_its_sizes():
    clauses = {}
    text = "r(x, y) :- p(x, y).\nr(x, z) :- r(x, y), r(y, z).\n"
    text += "g(x, k) :- p(x, _), k = count : { r(x, _) }.\nm(k, n) :- k = max j : { g(n, j) }."
    for clause in parse_block(text, "test").clauses:
        clauses.setdefault(clause.head.name, []).append(conjunction_of(clause))
    tables = Tables(in_columns({"p": [(i, i + 1) for i in range(200)]}), clauses, {})
    assert len(tables.rows("r")[0]) == 200 * 201 // 2
    assert [column.tolist() for column in tables.rows("m")] == [[200], [0]]


def test_negation_in_a_cycle_is_refused():
    (read,) = parse_block("r(x, y) :- p(x, y), !r(y, x).", "test").clauses
    tables = Tables(in_columns({"p": [(1, 2)]}), {"r": [conjunction_of(read)]}, {})
    with pytest.raises(DatalogError, match="recursive with"):
        tables.rows("r")
