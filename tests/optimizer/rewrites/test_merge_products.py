"""Products of one matrix made one: the same rows, whatever reads them, or left alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from tensolog.optimizer.graph.convert import load_graph, to_model
from tensolog.optimizer.graph.infer import bound_types, infer_types
from tensolog.optimizer.rewrites.merge_products import MERGING, MOST_ROWS, merge_products
from tensolog.rules import load_rules, select_rules

from tests.campaigns import examples

from ..builders import model, run, value

node = helper.make_node


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def merged(built, **sizes):
    graph = load_graph(built)
    graph.types = infer_types(graph)
    rules = select_rules(load_rules(), opset=graph.opset(), target="onnx", allow=("rounding",))
    steps = merge_products(graph, bound_types(graph, sizes), rules)
    return to_model(graph), steps


def check(built, feeds, *, products, **sizes):
    """Compare outputs; `products` are how many are merged in each step."""
    changed, steps = merged(built, **sizes)
    assert [step.removed for step in steps] == products
    assert all(step.rule.startswith(MERGING) for step in steps)
    for wanted, result in zip(run(built, feeds), run(changed, feeds), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)
    return changed


def operators(built):
    return [node.op_type for node in built.graph.node]


def siblings(shapes, depth=6, width=4, *, op="MatMul", extra=(), opset=17, **attributes):
    """One product of each input with w, all outputs of the model."""
    matrix = normal(depth, width).T.copy() if attributes.get("transB") else normal(depth, width)
    nodes = [node(op, [f"x{i}", "w", *extra], [f"y{i}"], **attributes) for i in range(len(shapes))]
    inputs = [value(f"x{i}", [*shape, depth]) for i, shape in enumerate(shapes)]
    outputs = [value(f"y{i}", [*shape, width]) for i, shape in enumerate(shapes)]
    return model(nodes, inputs, outputs, {"w": matrix, "b": normal(1, width)}, opset=opset)


def feeds_of(built, batch=3):
    return {
        entry.name: normal(
            *(dim.dim_value or batch for dim in entry.type.tensor_type.shape.dim), seed=seed
        )
        for seed, entry in enumerate(built.graph.input)
    }


@given(
    st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=2), min_size=2, max_size=5),
    st.sampled_from([13, 17, 18]),
)
@settings(max_examples=examples(30), deadline=None)
def test_operands_of_any_shape(shapes, opset):
    built = siblings(shapes, opset=opset)
    changed = check(built, feeds_of(built), products=[len(shapes)])
    assert operators(changed).count("MatMul") == 1


@pytest.mark.parametrize("opset", [17, 18])
def test_rows_that_are_not_known_yet(opset):
    built = siblings([["batch"]] * 3, opset=opset)
    changed, _ = merged(built, batch=2)
    for batch in (1, 2, 5):
        feeds = feeds_of(built, batch)
        for wanted, result in zip(run(built, feeds), run(changed, feeds), strict=True):
            np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)
    assert operators(changed).count("MatMul") == 1


@pytest.mark.parametrize("attributes", [{}, {"transB": 1}, {"alpha": 0.5, "beta": 2.0}])
@pytest.mark.parametrize("extra", [(), ("b",)])
def test_layers_of_one_kind(attributes, extra):
    built = siblings([[2], [3]], op="Gemm", extra=extra, **attributes)
    check(built, feeds_of(built), products=[2])


def test_layers_of_two_kinds_are_merged_apart():
    nodes = [
        node("Gemm", [f"x{i}", "w"], [f"y{i}"], alpha=0.5 if i % 2 else 1.0, transB=1)
        for i in range(4)
    ]
    inputs, outputs = ([value(f"{name}{i}", [2, 4]) for i in range(4)] for name in "xy")
    built = model(nodes, inputs, outputs, {"w": normal(4, 4)})
    check(built, feeds_of(built), products=[2, 2])


def test_a_recurrence():
    """The products of the inputs come together; those of the state wait for one another."""
    steps, depth = 4, 5
    nodes = [node("Split", ["xs"], [f"x{i}" for i in range(steps)], axis=0)]
    for i in range(steps):
        nodes += [
            node("MatMul", [f"x{i}", "w"], [f"p{i}"]),
            node("MatMul", [f"h{i}", "u"], [f"q{i}"]),
            node("Add", [f"p{i}", f"q{i}"], [f"s{i}"]),
            node("Tanh", [f"s{i}"], [f"h{i + 1}"]),
        ]
    constants = {"w": normal(depth, depth), "u": normal(depth, depth, seed=1)}
    inputs = [value("xs", [steps, depth]), value("h0", [1, depth])]
    built = model(nodes, inputs, [value(f"h{steps}", [1, depth])], constants)
    changed = check(built, feeds_of(built), products=[steps])
    assert operators(changed).count("MatMul") == 1 + steps


def test_two_recurrences_that_run_abreast():
    """At each step there are two products of one matrix, of which none waits for the other."""
    nodes = []
    for i in range(3):
        for side in "ab":
            nodes.append(node("MatMul", [f"{side}{i}", "w"], [f"{side}p{i}"]))
            nodes.append(node("Tanh", [f"{side}p{i}"], [f"{side}{i + 1}"]))
    inputs = [value("a0", [1, 5]), value("b0", [2, 5])]
    outputs = [value("a3", [1, 5]), value("b3", [2, 5])]
    built = model(nodes, inputs, outputs, {"w": normal(5, 5)})
    check(built, feeds_of(built), products=[2, 2, 2])


def test_merging_one_pair_may_rule_out_another():
    """Where v waits for w on one side, and w for v on the other, both pairs would be a cycle."""
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("MatMul", ["a", "v"], ["b"]),
        node("MatMul", ["y", "v"], ["c"]),
        node("MatMul", ["c", "w"], ["d"]),
    ]
    constants = {"w": normal(5, 5), "v": normal(5, 5, seed=1)}
    inputs = [value("x", [1, 5]), value("y", [1, 5])]
    built = model(nodes, inputs, [value("b", [1, 5]), value("d", [1, 5])], constants)
    feeds = feeds_of(built)
    changed, steps = merged(built)
    for wanted, result in zip(run(built, feeds), run(changed, feeds), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)
    assert len(steps) == 1


def test_what_is_not_finite_stays_in_its_row():
    built = siblings([[2], [3]])
    feeds = feeds_of(built)
    feeds["x0"][1, 2] = np.nan
    feeds["x1"][0, 0] = np.inf
    changed, _ = merged(built)
    for wanted, result in zip(run(built, feeds), run(changed, feeds), strict=True):
        np.testing.assert_array_equal(np.isfinite(result), np.isfinite(wanted))


@pytest.mark.parametrize(
    "built",
    [
        siblings([[MOST_ROWS + 1], [1]]),  # many rows are no trouble to multiply
        siblings([["batch"], ["other"]]),  # parts of sizes that nobody knows
        siblings([[2]]),  # alone
        siblings([[2], [2]], opset=11),
    ],
)
def test_products_that_are_not_merged(built):
    _, steps = merged(built, batch=2, other=3)
    assert not steps


def test_a_gemm_that_adds_something_else_to_each_is_left_alone():
    nodes = [node("Gemm", [f"x{i}", "w", f"c{i}"], [f"y{i}"]) for i in range(2)]
    inputs = [value(f"{name}{i}", [2, 4]) for name in "xc" for i in range(2)]
    outputs = [value(f"y{i}", [2, 4]) for i in range(2)]
    _, steps = merged(model(nodes, inputs, outputs, {"w": normal(4, 4)}))
    assert not steps
