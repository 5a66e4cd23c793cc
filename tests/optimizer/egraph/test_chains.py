"""Chains of sums, products and extremes against what their trees mean: exact arithmetic, ORT."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.optimizer.egraph.egraph import EGraph
from tensolog.optimizer.egraph.saturation.saturate import Budget, saturate

from tests.campaigns import examples
from tests.optimizer.builders import model, run, value

from .pricing import graph_of, searched

LEAVES = ("a", "b", "c")
INT64 = 7
SETTINGS = settings(max_examples=examples(60), deadline=None)


def trees(operators, depth=3):
    """Terms over the leaves; `operators` maps names to numbers of operands."""

    @st.composite
    def drawn(draw, left=depth):
        if left == 0 or draw(st.integers(0, 4)) == 0:
            return draw(st.sampled_from(LEAVES))
        op = draw(st.sampled_from(sorted(operators)))
        return (op, *(draw(drawn(left - 1)) for _ in range(operators[op])))

    return drawn()


def model_of(terms, dtype=1):
    """A model that gives each term, and reads all leaves."""
    names, nodes = {leaf: leaf for leaf in LEAVES}, []

    def name_of(term):
        if term not in names:
            reads = [name_of(part) for part in term[1:]]
            names[term] = f"t{len(names)}"
            nodes.append((term[0], reads, [names[term]]))
        return names[term]

    outputs = []
    for place, term in enumerate(terms):
        nodes.append(("Identity", [name_of(term)], [f"out{place}"]))
        outputs.append(value(f"out{place}", [2], dtype))
    return model(nodes, [value(leaf, [2], dtype) for leaf in LEAVES], outputs, opset=17)


def are_one(terms, dtype=1, rounding=True, rules=()):
    graph = graph_of(model_of(terms, dtype))
    egraph = EGraph(graph)
    saturate(egraph, rules, Budget(rounds=3, nodes=5_000), rounding=rounding)
    sources = [graph.nodes[graph.producer[v]].inputs[0] for v in graph.graph_outputs]
    return len({egraph.find(v) for v in sources}) == 1


def signed(term, sign=1):
    """The leaves of a sum with their signs, nothing cancelled."""
    match term:
        case str():
            return [(term, sign)]
        case ("Neg", inner):
            return signed(inner, -sign)
        case ("Sub", left, right):
            return signed(left, sign) + signed(right, -sign)
    return signed(term[1], sign) + signed(term[2], sign)


SUMS = {"Add": 2, "Sub": 2, "Neg": 1}


@SETTINGS
@given(trees(SUMS), trees(SUMS))
def test_sums_are_one_where_their_signed_operands_are(first, second):
    assert are_one([first, second]) == (sorted(signed(first)) == sorted(signed(second)))


@SETTINGS
@given(trees(SUMS), st.randoms(use_true_random=False))
def test_a_sum_written_anew_is_the_same_sum(first, random):
    parts = signed(first)
    random.shuffle(parts)
    second = None
    for leaf, sign in parts:
        part = leaf if sign > 0 else ("Neg", leaf)
        second = part if second is None else ("Add", second, part)
    assert are_one([first, second])


@SETTINGS
@given(trees({**SUMS, "Mul": 2, "Max": 2, "Min": 2}), trees({**SUMS, "Mul": 2, "Max": 2, "Min": 2}))
def test_integers_that_are_one_are_equal_in_the_runtime(first, second):
    if not are_one([first, second], INT64, rounding=False):
        return
    rows = np.array(list(product((-(2**63), -3, 0, 2, 2**62 + 1), repeat=3))).T
    for start in range(0, rows.shape[1] - 1, 2):
        feeds = dict(zip(LEAVES, rows[:, start : start + 2], strict=True))
        a, b = run(model_of([first, second], INT64), feeds)
        np.testing.assert_array_equal(a, b)
        if start > 20:
            break


def quotient(term, values):
    """A product's value over the rational numbers; None where it has none."""
    if isinstance(term, str):
        return values[term]
    parts = [quotient(part, values) for part in term[1:]]
    if None in parts:
        return None
    match term[0]:
        case "Mul":
            return parts[0] * parts[1]
        case "Div":
            return parts[0] / parts[1] if parts[1] else None
        case "Reciprocal":
            return 1 / parts[0] if parts[0] else None


PRODUCTS = {"Mul": 2, "Div": 2, "Reciprocal": 1}
POINTS = [
    dict(zip(LEAVES, map(Fraction, point), strict=True))
    for point in product((0, 1, -2, 3), repeat=3)
]


@SETTINGS
@given(trees(PRODUCTS), trees(PRODUCTS))
def test_products_that_are_one_have_the_same_value_and_lack_it_together(first, second):
    """A quotient has no value where it divides by nothing; the other side must have none there."""
    if are_one([first, second]):
        for point in POINTS:
            assert quotient(first, point) == quotient(second, point)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (("Div", ("Mul", "a", "b"), "c"), ("Mul", ("Div", "b", "c"), "a"), True),
        (("Div", ("Div", "a", "b"), "c"), ("Div", "a", ("Mul", "c", "b")), True),
        (("Div", "a", "b"), ("Mul", ("Reciprocal", "b"), "a"), True),
        (("Div", "a", ("Div", "b", "c")), ("Div", ("Mul", "a", "c"), "b"), False),
        (("Reciprocal", ("Reciprocal", "a")), "a", False),
        (("Div", "a", "a"), ("Div", "b", "b"), False),
    ],
)
def test_quotients(first, second, expected):
    assert are_one([first, second]) == expected


@pytest.mark.parametrize("op", ["Mul", "Div"])
def test_integers_are_not_divided_in_another_order(op):
    """7 / 2 * 2 is not 7 * 2 / 2."""
    terms = [("Mul", ("Div", "a", "b"), "c"), ("Div", ("Mul", "a", "c"), "b")]
    assert not are_one(terms, INT64)
    assert are_one([("Mul", ("Mul", "a", "b"), "c"), ("Mul", "a", ("Mul", "c", "b"))], INT64)


def leaves(term):
    return {term} if isinstance(term, str) else {leaf for part in term[1:] for leaf in leaves(part)}


@pytest.mark.parametrize("op", ["Max", "Min"])
@SETTINGS
@given(st.data())
def test_extremes_are_one_where_they_are_of_the_same_operands(op, data):
    first, second = (data.draw(trees({op: 2})) for _ in range(2))
    assert are_one([first, second]) == (leaves(first) == leaves(second))


@pytest.mark.parametrize("op", ["Max", "Min"])
def test_extremes_that_are_one_agree_on_special_values_in_the_runtime(op):
    terms = [
        (op, ("Max", "a", "b") if op == "Max" else ("Min", "a", "b"), "c"),
        (op, "b", (op, "c", "a")),
    ]
    assert are_one(terms)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, 1.5, -2.0], np.float32)
    for a, b, c in product(special, repeat=3):
        feeds = {"a": np.full(2, a), "b": np.full(2, b), "c": np.full(2, c)}
        first, second = run(model_of(terms), feeds)
        np.testing.assert_array_equal(first, second)


def test_operands_of_one_node_are_operands_of_the_chain():
    """Sum, Max and Min take any number of operands."""
    built = model(
        [
            ("Sum", ["a", "b", "c"], ["p"]),
            ("Add", ["c", "a"], ["q"]),
            ("Add", ["q", "b"], ["r"]),
            ("Max", ["a", "b", "c", "a"], ["s"]),
            ("Max", ["c", "b"], ["t"]),
            ("Max", ["a", "t"], ["u"]),
            ("Max", ["a"], ["v"]),
        ],
        [value(leaf, [2]) for leaf in LEAVES],
        [value(name, [2]) for name in "prsuv"],
    )
    graph = graph_of(built)
    egraph = EGraph(graph)
    saturate(egraph, ())
    p, r, s, u, v = (egraph.find(out) for out in graph.graph_outputs)
    assert p == r and s == u and v == egraph.find(graph.names.index("a")) and len({p, s, v}) == 3


def test_floats_are_not_reordered_where_rounding_is_not_allowed():
    for terms in (
        [("Sub", ("Add", "a", "b"), "c"), ("Add", "a", ("Sub", "b", "c"))],
        [("Max", "a", "b"), ("Max", "b", "a")],
        [("Div", ("Mul", "a", "b"), "c"), ("Mul", "a", ("Div", "b", "c"))],
        [("Neg", ("Neg", "a")), "a"],
    ):
        assert are_one(terms) and not are_one(terms, rounding=False)


@pytest.mark.parametrize(
    ("nodes", "name", "left"),
    [
        # (x - u) + v, with constants u and v: x + (v - u)
        ([("Sub", ["x", "u"], ["p"]), ("Add", ["p", "v"], ["y"])], "sum", ["Add"]),
        # v - (u - x): x - (u - v)
        ([("Sub", ["u", "x"], ["p"]), ("Sub", ["v", "p"], ["y"])], "sum", ["Add"]),
        # (x / u) / v: x / (u v)
        ([("Div", ["x", "u"], ["p"]), ("Div", ["p", "v"], ["y"])], "product", ["Div"]),
        ([("Max", ["x", "u"], ["p"]), ("Max", ["v", "p"], ["y"])], "maximum", ["Max"]),
    ],
)
def test_constants_of_a_chain_are_brought_together(nodes, name, left):
    constants = {c: np.array([i, 2.0, 3.0], np.float32) for i, c in enumerate("uv", 1)}
    built = model(nodes, [value("x", [3])], [value("y", [3])], constants)
    result, search_result = searched(built, (), price=lambda kernel: 1.0)
    assert search_result.cost_ns == 1.0 and search_result.original_cost_ns == 2.0
    assert [step.rule for step in search_result.steps] == [f"reorder {name}"]
    assert [node.op_type for node in result.graph.node] == left
    feeds = {"x": np.array([0.5, -2.0, 7.0], np.float32)}
    np.testing.assert_allclose(run(result, feeds)[0], run(built, feeds)[0], rtol=1e-6)
