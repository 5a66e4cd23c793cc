"""Rows chosen by choice-domain: any choice is right that Soufflé could have made."""

import re
from itertools import combinations
from unittest import mock

import duckdb
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tensolog.catalog.datalog import derive, parse
from tensolog.catalog.datalog.memory import derivation
from tensolog.catalog.datalog.memory.program_plans import database_only

from tests.campaigns import examples

from .conftest import checked, sets
from .programs import programs
from .reference import Evaluator, plain


class Justified(Evaluator):
    """Derives of chosen relations only what is in a result; notes what else could be derived."""

    def __init__(self, text, result, chosen):
        super().__init__(text)
        self.result, self.refused = result, {name: set() for name in chosen}

    def derive(self, name, arguments, env):
        pairs = zip(arguments, self.kinds[name], strict=True)
        row = tuple(self.typed(self.value(a, env), k) for a, k in pairs)
        if name in self.refused and row not in self.result[name]:
            self.refused[name].add(row)
        else:
            self.relations[name].add(row)


def check(text, result, chosen):
    """Check a result: functional on each key, justified by itself, and missing nothing."""
    for name, keys in chosen.items():
        for key in keys:
            values = [tuple(row[c] for c in key) for row in result[name]]
            assert len(values) == len(set(values))
    justified = Justified(text, result, chosen)
    derived = justified.run()
    assert {n: {tuple(map(plain, row)) for row in r} for n, r in derived.items()} == result
    for name, keys in chosen.items():
        for row in justified.refused[name]:
            assert any(
                tuple(row[c] for c in key) == tuple(other[c] for c in key)
                for key in keys
                for other in result[name]
            )


@st.composite
def choosing(draw):
    """A random program, some of whose relations have a choice-domain."""
    text = draw(programs(subsumption=False))
    chosen = {}
    for name, columns in re.findall(r"\.decl (d\d\d)\((.*)\)", text):
        count = columns.count(":")
        keys = [key for size in (1, 2) for key in combinations(range(count), size)]
        if draw(st.booleans()):
            chosen[name] = draw(st.lists(st.sampled_from(keys), min_size=1, max_size=2))
            spelled = ", ".join(f"({', '.join(f'c{c}' for c in key)})" for key in chosen[name])
            head = f".decl {name}({columns})"
            text = text.replace(head, f"{head} choice-domain {spelled}")
    assume(chosen)
    return text, chosen


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(choosing())
def test_what_is_chosen_could_have_been_chosen_by_souffle(case):
    text, chosen = case
    assert database_only(checked(text)) is None
    with duckdb.connect(":memory:") as connection:
        # In memory the same rows are chosen, which `sets` asserts.
        check(text, sets(text, connection), chosen)


TREE = """.decl edge(v:symbol, u:symbol) .input edge
.decl tree(v:symbol, u:symbol) choice-domain u
tree("root", "a").
tree(v, u) :- tree(_, v), edge(v, u).
"""


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.tuples(*[st.sampled_from("abcdefgh")] * 2), unique=True), st.randoms())
def test_a_spanning_tree_does_not_depend_on_the_order_of_the_facts(edges, random):
    program = parse(TREE)
    tree = set(derive(program, {"edge": edges})["tree"])
    parents = {u: v for v, u in tree}
    assert len(parents) == len(tree)
    reached, queue = {"a"}, ["a"]
    while queue:
        v = queue.pop()
        queue += [u for w, u in edges if w == v and u not in reached]
        reached |= {u for w, u in edges if w == v}
    assert parents.keys() == reached
    for u in reached:
        steps = 0
        while u != "a":
            assert (parents[u], u) in edges
            u, steps = parents[u], steps + 1
            assert steps <= len(reached)
    random.shuffle(edges)
    with mock.patch.object(derivation, "FEW_ROWS", 0):
        assert set(derive(program, {"edge": edges})["tree"]) == tree


@pytest.mark.parametrize("few", [0, 1000])
def test_what_is_read_is_not_chosen_from_but_takes_its_keys(few):
    text = ".decl a(x:number, y:number) choice-domain x .input a\na(1, 9). a(3, 3). a(3, 2).\n"
    text += "a(y, x) :- a(x, y), y > 5."
    with mock.patch.object(derivation, "FEW_ROWS", few):
        rows = derive(parse(text), {"a": [(1, 2), (1, 7), (2, 8)]})["a"]
        assert set(rows) == {(1, 2), (1, 7), (2, 8), (3, 2), (7, 1), (8, 2)}
        assert set(derive(parse(text), {})["a"]) == {(1, 9), (3, 2), (9, 1)}


def test_what_is_read_is_there_where_nothing_is_derived():
    text = ".decl a(x:number) choice-domain x .input a\na(x) :- b(x).\n.decl b(x:number) .input b\n"
    program = parse(text + ".decl c(x:number) c(x) :- a(x).")
    with mock.patch.object(derivation, "FEW_ROWS", 0):
        assert derive(program, {"a": [(1,)]})["c"] == [(1,)]


def test_rows_of_records_are_chosen_and_ends_of_chains_matched(run):
    pairs = " ".join(f"e({i}, {i}). e({i}, {i + 1})." for i in range(300))
    relations = run(
        f".decl e(x:number, y:number) {pairs}\n"
        ".decl m(x:number, y:number) choice-domain x, y\nm(x, y) :- e(x, y).\n"
        ".type P = [x:number, y:number] .decl r(p:P, n:number) choice-domain n\n"
        "r([x, y], x / 100) :- e(x, y)."
    )
    assert relations["m"] == {(i, i) for i in range(300)}
    assert sorted(n for _, n in relations["r"]) == [0, 1, 2]


def test_a_choice_is_kept_where_a_relation_is_inline_or_part_of_an_instance(run):
    relations = run(
        ".comp C { .decl a(x:number, y:number) inline choice-domain x\n"
        "a(x, y) :- x = range(0, 3), y = range(0, 3). }\n.init c = C\n"
        ".decl b(x:number, y:number) b(x, y) :- c.a(x, y)."
    )
    assert relations["b"] == {(0, 0), (1, 0), (2, 0)}
