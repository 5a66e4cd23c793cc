"""Inline relations that need what their callers bind, against tables of all that they hold for."""

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tensolog.catalog.datalog import DatalogError, parse

from tests.campaigns import examples

from .conftest import sets
from .reference import run as reference

DOMAIN = range(-1, 5)
FACTS = (
    f".decl dom(x:number) {' '.join(f'dom({x}).' for x in DOMAIN)}\n"
    ".decl a(x:number) .decl e(x:number, y:number)\n"
)
small = st.integers(-1, 4).map(str)


@st.composite
def clauses(draw, name, callees):
    """The clauses of an inline relation of x and y; `callees` are those that it may call."""
    out = []
    for _ in range(draw(st.integers(1, 3))):
        if draw(st.integers(0, 4)) == 0:
            out.append((f"{name}({draw(small)}, {draw(small)})", []))
            continue
        x, y = draw(st.sampled_from([("x", "y"), ("x", "x"), ("x", draw(small))]))
        pool = [
            f"{x} {draw(st.sampled_from(['<', '<=', '=', '!=', '>']))} {y}",
            f"a({x})",
            f"!a({y})",
            f"e({x}, {y})",
            f"!e({y}, {x})",
            f"{x} < {draw(small)}",
            f"{y} > count : {{ e({x}, _) }}",
            *(f"{mark}{callee}({y}, {x})" for callee in callees for mark in ("", "!")),
        ]
        body = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=2, unique=True))
        out.append((f"{name}({x}, {y})", body))
    return out


CALLS = [
    "r(x, y) :- dom(x), dom(y), {0}(x, y).",
    "r(x, y) :- dom(x), dom(y), !{0}(x, y).",
    "r(x, x) :- dom(x), {0}(x, x), {1}(x, 2).",
    "r(x, y) :- e(x, y), ({0}(y, x) ; !{1}(x, 0), a(x)).",
    "r(x, n) :- dom(x), n = count : {{ dom(y), {2}(x, y) }}.",
    "r(x, sum y : {{ dom(y), !{2}(y, x) }}) :- a(x).",
    "r(x, n) :- a(x), n = max y : {{ dom(y), y = count : {{ dom(z), {2}(x, z) }} }}.",
    "r(y, x) :- r(x, z), dom(y), {0}(z, y).",
    "k(x, y) :- e(x, y).\nk(x, c) <= k(x, d) :- {0}(d, c), d < c.",
]


@st.composite
def calling(draw):
    """A program twice: with inline relations, and with tables in their place."""
    facts = [f"a({draw(small)})." for _ in range(draw(st.integers(0, 3)))]
    facts += [f"e({draw(small)}, {draw(small)})." for _ in range(draw(st.integers(0, 5)))]
    names = ["p", "q", "one"]
    both = []
    for inline in (" inline", ""):
        both.append([FACTS, *facts, f".decl p(x:number, y:number){inline}"])
        both[-1].append(
            f".decl q(x:number, y:number){inline} .decl one(x:number, y:number){inline}"
        )
        both[-1].append(".decl r(x:number, y:number) .decl k(x:number, y:number) btree_delete")
    written = draw(clauses("p", [])) + draw(clauses("q", ["p"])) + draw(clauses("one", []))[-1:]
    for head, body in written:
        names_here = sorted({c for c in head if c in "xy"})
        guards = [f"dom({n})" for n in names_here]
        both[0].append(f"{head} :- {', '.join(body)}." if body else f"{head}.")
        both[1].append(f"{head} :- {', '.join([*guards, *body])}." if body else f"{head}.")
    for call in draw(st.lists(st.sampled_from(CALLS), min_size=1, max_size=3, unique=True)):
        for text in both:
            text.append(call.format(*draw(st.just(names))))
    return ["\n".join(text) for text in both]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(calling())
def test_unfolding_gives_what_tables_give(texts):
    inlined, tables = texts
    try:
        parse(inlined)
    except DatalogError as error:
        # Numbers of rows in calls' arguments have no value to be negated by.
        assert "can't be" in error.reason or "several clauses" in error.reason
        return
    expected = reference(tables)
    with duckdb.connect(":memory:") as connection:
        relations = sets(inlined, connection)
    assert {name: relations[name] for name in "rk"} == {name: expected[name] for name in "rk"}


L = ".decl less(x:number, y:number) inline\nless(x, y) :- x < y.\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (L + ".output less", "a directive needs its rows"),
        (L + ".input less", "a directive needs its rows"),
        (L + "less(x, y) <= less(x, z) :- z < y.", "a subsumption needs its rows"),
        (L + "less(x, y) :- less(y, x).", "in a cycle"),
        (L + "less(x, y) :- x < count : { less(x, y) }.", "in a cycle"),
        (
            L + "less(x, y) :- x = y - 5.\n.decl r(x:number) r(x) :- x = count : { less(1, 2) }.",
            "several clauses",
        ),
    ],
)
def test_what_can_not_be_unfolded_is_refused(text, reason):
    with pytest.raises(DatalogError, match=reason):
        parse(text)
