"""The e-graph against an engine of other authors, and against trying every rewrite there is."""

import importlib.util

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.optimizer.egraph.egraph import EGraph
from tensolog.optimizer.egraph.saturation.saturate import Budget, saturate

from tests.campaigns import examples
from tests.optimizer.builders import model, run, value

from .pricing import graph_of, searched
from .small_rules import small_rules

SETTINGS = settings(max_examples=examples(25), deadline=None)
LEAVES = ("a", "b", "c")
OPERATORS = {"Neg": 1, "Abs": 1, "Sub": 2, "MatMul": 2}


@st.composite
def terms(draw, depth=4):
    """A term over square matrices, as nested tuples."""
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return draw(st.sampled_from(LEAVES))
    op = draw(st.sampled_from(sorted(OPERATORS)))
    return (op, *(draw(terms(depth - 1)) for _ in range(OPERATORS[op])))


def subterms(term):
    """Every part of a term, smallest first, each once."""
    parts = {}

    def walk(part):
        if isinstance(part, tuple):
            for inner in part[1:]:
                walk(inner)
        parts.setdefault(part, None)

    walk(term)
    return list(parts)


def model_of(*roots):
    """A model whose outputs are the terms; returns it and the name of each part."""
    names, nodes = {leaf: leaf for leaf in LEAVES}, []
    for root in roots:
        for part in subterms(root):
            if part not in names:
                names[part] = f"t{len(names)}"
                nodes.append((part[0], [names[i] for i in part[1:]], [names[part]]))
    outputs = []
    for place, root in enumerate(roots):
        nodes.append(("Identity", [names[root]], [f"out{place}"]))
        outputs.append(value(f"out{place}", [2, 2]))
    return model(nodes, [value(leaf, [2, 2]) for leaf in LEAVES], outputs), names


def grown(built, rules, rounds, rounding=True):
    """A saturated e-graph of a model, without anything but the rules."""
    graph = graph_of(built)
    egraph = EGraph(graph)
    budget = Budget(rounds=rounds, nodes=5_000, seconds=60)
    growth = saturate(egraph, rules, budget, rounding=rounding)
    return graph, egraph, growth


# ---- egglog ---------------------------------------------------------------------------------

EGGLOG = """
(datatype T (Leaf String) (Neg T) (Abs T) (Sub T T) (MatMul T T))
(rewrite (Neg (Neg x)) x)
(rewrite (Abs (Neg x)) (Abs x))
(rewrite (Neg (Sub a b)) (Sub b a))
(rewrite (Neg (MatMul a b)) (MatMul (Neg a) b))
(rewrite (Sub (MatMul a c) (MatMul b c)) (MatMul (Sub a b) c))
(rewrite (MatMul (MatMul a b) c) (MatMul a (MatMul b c)))
(rewrite (Sub a (Sub b c)) (Sub a (Neg (Sub c b))))
"""


def spelled(term):
    """A term in egglog's syntax."""
    if isinstance(term, str):
        return f'(Leaf "{term}")'
    return f"({term[0]} {' '.join(spelled(part) for part in term[1:])})"


def are_equal_in_egglog(parts, rounds):
    """Which pairs of parts egglog finds equal after so many rounds."""
    from egglog.bindings import EggSmolError
    from egglog.bindings import EGraph as Engine

    engine = Engine()

    def run(text):
        return engine.run_program(*engine.parse_program(text))

    lets = "".join(f"(let $p{i} {spelled(part)})\n" for i, part in enumerate(parts))
    run(f"{EGGLOG}{lets}(run {rounds})")
    equal = set()
    for i in range(len(parts)):
        for j in range(i):
            try:
                run(f"(check (= $p{i} $p{j}))")
            except EggSmolError:
                continue
            equal.add((i, j))
    return equal


@pytest.mark.skipif(importlib.util.find_spec("egglog") is None, reason="egglog is not installed")
@SETTINGS
@given(st.lists(terms(depth=3), min_size=1, max_size=3))
def test_the_same_terms_are_equal_as_in_egglog(roots):
    compared(roots)


def compared(roots):
    """The pairs of parts that are equal, which must be the same in both engines."""
    built, names = model_of(*roots)
    graph, egraph, growth = grown(built, small_rules(), rounds=12)
    if not growth.is_saturated:
        return
    parts = [part for part in names if part in LEAVES or isinstance(part, tuple)]
    values = [
        graph.names.index(names[part]) if names[part] in graph.names else -1 for part in parts
    ]
    parts = [part for part, v in zip(parts, values, strict=True) if v >= 0]
    values = [v for v in values if v >= 0]
    expected = are_equal_in_egglog(parts, rounds=30)
    equal_pairs = {
        (i, j)
        for i in range(len(parts))
        for j in range(i)
        if egraph.find(values[i]) == egraph.find(values[j])
    }
    assert equal_pairs == expected
    return equal_pairs


RICH = [
    # Two ways to turn a difference round, and one of them negated twice.
    ("Neg", ("Sub", "a", "b")),
    ("Neg", ("Neg", ("Sub", "b", "a"))),
    ("Abs", ("Neg", ("Neg", ("Sub", "a", "b")))),
    ("Abs", ("Sub", "a", "b")),
    # A difference of products, factored out and not, negated and not.
    ("Neg", ("Sub", ("MatMul", "a", "c"), ("MatMul", "b", "c"))),
    ("MatMul", ("Sub", "b", "a"), "c"),
    ("MatMul", ("MatMul", ("Neg", "a"), "b"), "c"),
    ("Neg", ("MatMul", "a", ("MatMul", "b", "c"))),
]


@pytest.mark.skipif(importlib.util.find_spec("egglog") is None, reason="egglog is not installed")
def test_many_terms_are_equal_in_both():
    assert len(compared(RICH)) >= 6


# ---- brute force ----------------------------------------------------------------------------


def rewrites(term):
    """Every term that one rule, at one place, makes of a term; written out by hand."""
    match term:
        case ("Neg", ("Neg", x)):
            yield x
        case ("Abs", ("Neg", x)):
            yield ("Abs", x)
        case ("Neg", ("Sub", a, b)):
            yield ("Sub", b, a)
        case ("Neg", ("MatMul", a, b)):
            yield ("MatMul", ("Neg", a), b)
        case ("Sub", ("MatMul", a, c), ("MatMul", b, d)) if c == d:
            yield ("MatMul", ("Sub", a, b), c)
    match term:
        case ("MatMul", ("MatMul", a, b), c):
            yield ("MatMul", a, ("MatMul", b, c))
        case ("Sub", a, ("Sub", b, c)):
            yield ("Sub", a, ("Neg", ("Sub", c, b)))
    if isinstance(term, tuple):
        for place in range(1, len(term)):
            for inner in rewrites(term[place]):
                yield (*term[:place], inner, *term[place + 1 :])


def reached(term, most=3000):
    """All terms that rewriting reaches; None where they are too many."""
    reached_terms, queue = {term}, [term]
    while queue:
        for other in rewrites(queue.pop()):
            if other not in reached_terms:
                reached_terms.add(other)
                queue.append(other)
        if len(reached_terms) > most:
            return None
    return reached_terms


def dag_cost(term, prices):
    return sum(prices[part[0]] for part in subterms(term) if isinstance(part, tuple))


@SETTINGS
@given(terms(depth=4), st.permutations([2.0, 3.0, 10.0, 50.0]))
def test_the_plan_is_no_dearer_than_any_program_that_the_rules_reach(term, drawn):
    """It may be cheaper: equalities hold in both directions, and parts are shared."""
    programs = reached(term)
    if programs is None or isinstance(term, str):
        return
    prices = dict(zip(sorted(OPERATORS), drawn, strict=True))
    built, _ = model_of(term)
    table = {**prices, "Identity": 0.0}
    _, search_result = searched(built, small_rules(), price=lambda kernel: table[kernel.op_type])
    least = min(dag_cost(program, prices) for program in programs)
    assert search_result.cost_ns <= least + 1e-9
    assert search_result.extraction.gap == 0.0


@SETTINGS
@given(terms(depth=3))
def test_every_program_that_the_rules_reach_is_in_the_e_graph(term):
    programs = reached(term, most=300)
    if programs is None or isinstance(term, str):
        return
    built, names = model_of(term)
    graph, egraph, growth = grown(built, small_rules(), rounds=20)
    if not growth.is_saturated:
        return
    leaves = {leaf: graph.names.index(leaf) for leaf in LEAVES if leaf in graph.names}

    def class_of(part):
        if isinstance(part, str):
            return egraph.find(leaves[part])
        operands = tuple(class_of(inner) for inner in part[1:])
        operator = egraph.vocabulary.operator("", part[0])
        for node in egraph.columns.living().tolist():
            row = (egraph.columns.operator(node), egraph.columns.operands(node))
            if row == (operator, operands):
                return egraph.columns.outputs(node)[0]
        raise AssertionError(f"{part} is not in the e-graph")

    root = egraph.find(graph.names.index(names[term]))
    assert {class_of(program) for program in programs} == {root}


# ---- sums and products ------------------------------------------------------------------------


def sums(orders, op="Add", dtype=1):
    """A model that gives one sum several times, in several orders and brackets."""
    nodes = []
    for place, order in enumerate(orders):
        total = order[0]
        for step, name in enumerate(order[1:]):
            last = f"s{place}" if step == len(order) - 2 else f"p{place}_{step}"
            nodes.append((op, [total, name], [last]))
            total = last
    outputs = [value(f"s{place}", [3], dtype) for place in range(len(orders))]
    return model(nodes, [value(name, [3], dtype) for name in orders[0]], outputs)


@pytest.mark.parametrize("op", ["Add", "Mul"])
@settings(max_examples=examples(15), deadline=None)
@given(st.lists(st.permutations(list("uvwxy")), min_size=2, max_size=3))
def test_a_sum_is_one_class_in_any_order(op, orders):
    graph, egraph, _ = grown(sums(orders, op), (), rounds=2)
    assert len({egraph.find(value) for value in graph.graph_outputs}) == 1


def test_floats_are_not_reordered_where_rounding_is_not_allowed():
    orders = [list("uvw"), list("wvu")]
    graph, egraph, _ = grown(sums(orders), (), rounds=2, rounding=False)
    assert len({egraph.find(value) for value in graph.graph_outputs}) == 2


def test_integers_are_reordered_in_any_case():
    orders = [list("uvw"), list("wvu")]
    graph, egraph, _ = grown(sums(orders, dtype=7), (), rounds=2, rounding=False)
    assert len({egraph.find(value) for value in graph.graph_outputs}) == 1


def test_other_operands_make_another_sum():
    graph, egraph, _ = grown(sums([list("uvw"), list("uvv")]), (), rounds=2)
    assert len({egraph.find(value) for value in graph.graph_outputs}) == 2


def test_constants_of_a_sum_are_brought_together():
    """Two constants far apart in a sum become one: two additions instead of three."""
    constants = {name: np.array([i, 2.0, 3.0], np.float32) for i, name in enumerate("uv", 1)}
    built = model(
        [
            ("Add", ["x", "u"], ["p"]),
            ("Add", ["y", "v"], ["q"]),
            ("Add", ["p", "q"], ["s"]),
        ],
        [value("x", [3]), value("y", [3])],
        [value("s", [3])],
        constants,
    )
    result, search_result = searched(built, (), price=lambda kernel: 1.0)
    assert search_result.cost_ns == 2.0 and search_result.original_cost_ns == 3.0
    assert [step.rule for step in search_result.steps] == ["reorder sum"]
    feeds = {"x": np.ones(3, np.float32), "y": np.full(3, 5, np.float32)}
    assert np.array_equal(run(result, feeds)[0], run(built, feeds)[0])
