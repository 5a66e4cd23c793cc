"""Matching and rewriting small graphs by hand: near misses, lists, several merges, rows."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tensolog.rules import (
    ABSENT,
    check_conditions,
    instantiate,
    load_rules,
    parse_rules,
    rule_rows,
    store_rules,
    why_missed,
)
from tensolog.rules.compiler.model_view import ModelView
from tensolog.rules.sampling.instances import instances

from tests.rules.finding import compile_near_misses, evaluated, find, near_misses
from tests.rules.rewriting import apply, run

RULES = {rule.name: rule for rule in load_rules()}


def ones(*shape):
    return np.ones(shape, np.float32)


def model(nodes, inputs, outputs, constants, opset=17):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return ModelView(proto)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(
        op, inputs.split(), outputs.split(), name=f"{op}_{outputs}", **attributes
    )


def matches_of(rules, view):
    return [m for _, m in find(rules, [view]) if check_conditions(m, view) is None]


def fixpoint(names, view, limit=20):
    """Apply rules until none matches; the model, and the rules that fired in their order."""
    fired = []
    while matches := matches_of([RULES[name] for name in names], view):
        fired.append(matches[0].rule.name)
        view = ModelView(apply(instantiate(matches[0], view), view))
        assert len(fired) < limit
    return view, fired


def operators(view):
    return sorted(n.op_type for n in view.nodes)


# ------------------------------------------------------------------------------------ merging


def qkv():
    rng = np.random.default_rng(0)
    weights = {
        w: rng.standard_normal((8, n), np.float32) for w, n in zip("qkv", (4, 6, 2), strict=True)
    }
    nodes = [node("MatMul", f"x {w}", w.upper()) for w in "qkv"]
    return model(nodes, {"x": ["N", 5, 8]}, "QKV", weights)


def test_three_products_merge_into_one_with_one_split():
    view = qkv()
    names = ["JoinSplits", "EliminateConcatOfSplit", "MergeMatMulsSharingLeft"]
    merged, fired = fixpoint(names, view)
    assert sorted(fired) == ["JoinSplits", "MergeMatMulsSharingLeft", "MergeMatMulsSharingLeft"]
    assert [op for op in operators(merged) if op != "Identity"] == [
        "Concat",
        "Concat",
        "MatMul",
        "Split",
    ]
    split = next(n for n in merged.nodes if n.op_type == "Split")
    assert sorted(merged.constants[split.input[1]].tolist()) == [2, 4, 6]
    feeds = {"x": np.random.default_rng(1).standard_normal((2, 5, 8)).astype(np.float32)}
    for a, b in zip(run(view.model, feeds), run(merged.model, feeds), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_a_pair_is_found_once_and_one_node_is_no_pair():
    assert len(matches_of([RULES["MergeMatMulsSharingLeft"]], qkv())) == 3
    single = model([node("MatMul", "x q", "Q")], {"x": [5, 8]}, "Q", {"q": ones(8, 4)})
    assert matches_of([RULES["MergeMatMulsSharingLeft"]], single) == []


def test_a_batch_may_be_symbolic_and_a_split_size_may_not():
    view = model(
        [node("MatMul", "x q", "Q"), node("MatMul", "x k", "K")],
        {"x": ["N", 8], "q": [8, "M"]},
        "QK",
        {"k": ones(8, 3)},
    )
    assert matches_of([RULES["MergeMatMulsSharingLeft"]], view) == []


def test_nested_concats_join_wherever_they_stand():
    nodes = [
        node("Concat", "b c", "inner", axis=-1),
        node("Concat", "a inner d", "y", axis=1),
    ]
    view = model(nodes, {name: [2, 3] for name in "abcd"}, "y", {})
    (match,) = matches_of([RULES["JoinConcats"]], view)
    replacement = instantiate(match, view)
    (joined,) = replacement.nodes
    assert [view.names[i] for i in joined.inputs] == list("abcd")
    assert joined.attributes == {"axis": 1}


# -------------------------------------------------------------------------------- conditions


def convolution(*, weight_is_constant=True, users=1, opset=17):
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["t12"], name="Conv_12"),
        helper.make_node(
            "BatchNormalization", ["t12", *"sbmv"], ["y"], name="BatchNormalization_13"
        ),
    ]
    nodes += [node("Relu", "t12", f"u{i}") for i in range(users - 1)]
    constants = {name: ones(4) for name in "sbmv"}
    inputs = {"x": [1, 3, 8, 8]}
    if weight_is_constant:
        constants["w"] = ones(4, 3, 1, 1)
    else:
        inputs["w"] = [4, 3, 1, 1]
    return model(nodes, inputs, ["y", *(f"u{i}" for i in range(users - 1))], constants, opset)


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        (convolution(weight_is_constant=False), "W (w) is not constant"),
        (convolution(users=2), "value t12 has 2 users, not 1"),
    ],
)
def test_near_misses_name_rule_condition_and_values(view, reason):
    rule = RULES["FoldBatchNormalizationIntoConv"]
    relations = evaluated(compile_near_misses([rule]), [view])
    (miss,) = near_misses([rule], relations, view)
    start = "Conv_12 feeds BatchNormalization_13, but "
    assert why_missed(miss, view) == start + reason


def test_a_near_miss_by_shape_shows_both_shapes():
    nodes = [node("MatMul", "x w", "p"), node("Add", "p big", "y")]
    view = model(nodes, {"x": [5, 3]}, "y", {"w": ones(3, 4), "big": ones(2, 5, 4)})
    rule = RULES["ConvertMatMulAddToGemm"]
    (miss,) = near_misses([rule], evaluated(compile_near_misses([rule]), [view]), view)
    assert why_missed(miss, view).endswith(
        "but it does not hold that fits(c, Y) (Y is [5, 4], c is [2, 5, 4])"
    )


def test_a_match_is_no_near_miss_and_two_failures_are_none():
    rule = RULES["FoldBatchNormalizationIntoConv"]
    for view in (convolution(), convolution(weight_is_constant=False, users=2)):
        assert near_misses([rule], evaluated(compile_near_misses([rule]), [view]), view) == []


def test_a_literal_never_raises_the_rank():
    rule = RULES["EliminateMulOne"]
    for shape, fires in (((), True), ((1,), True), ((1, 1, 1), False)):
        view = model([node("Mul", "x one", "y")], {"x": [2, 3]}, "y", {"one": ones(*shape)})
        assert bool(matches_of([rule], view)) is fires, shape


def test_an_attribute_left_out_must_have_its_default():
    rule = parse_rules(
        "rule R\n tags always\n match\n Y = Gemm(A, B)\n rewrite\n Y = MatMul(A, B)\n equal exact\n"
    )[0]
    for attributes, fires in (({}, True), ({"alpha": 1.0}, True), ({"alpha": 0.5}, False)):
        gemm = node("Gemm", "x w", "y", **attributes)
        view = model([gemm], {"x": [2, 3]}, "y", {"w": ones(3, 4)})
        assert bool(matches_of([rule], view)) is fires


def test_reversing_transposes_without_perm_join():
    nodes = [node("Transpose", "x", "t"), node("Transpose", "t", "y")]
    view = model(nodes, {"x": [2, 3, 4]}, "y", {})
    joined, fired = fixpoint(["JoinTransposes", "EliminateTranspose"], view)
    assert fired[0] == "JoinTransposes"
    assert [op for op in operators(joined) if op != "Identity"] == []


# ------------------------------------------------------------------------------- replacements


def test_absent_bias_counts_as_zero_of_the_right_type():
    view = convolution()
    (match,) = matches_of([RULES["FoldBatchNormalizationIntoConv"]], view)
    assert match.values["b"] == ABSENT
    replacement = instantiate(match, view)
    zero = [a for a in replacement.constants.values() if a.shape == (4,) and not a.any()]
    assert [a.dtype for a in zero] == [np.float32]
    assert all(n.fold for n in replacement.nodes[:-1])
    assert not replacement.nodes[-1].fold
    assert set(replacement.removed) == {0, 1}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    ("rewrite", "reals"),
    [
        pytest.param("Mul(Reshape(Sub(X, 0.5), [-1]), 2)", 2, id="of their neighbour"),
        pytest.param("Neg(Mul(X, Expand(1.0, [n])))", 1, id="of the left side without one"),
    ],
)
def test_real_literals_take_the_type(rewrite, reals, dtype):
    (rule,) = parse_rules(
        "rule R\n tags always\n given X [n]\n match\n Y = Neg(X)\n rewrite\n"
        f" Y = {rewrite}\n equal rounding\n"
    )
    (instance,) = instances(rule, 1, 0, dtype)
    constants = instantiate(instance.match, instance.view).constants
    assert sorted(str(a.dtype) for a in constants.values()) == [dtype] * reals + ["int64"]


WHOLE = """
# EliminateResize copies an image that is resized by ones.
rule EliminateResize
  tags    always
  source  ["by hand"]
  opset   >= 13
  given   X float32,
          max(ints(s)) = 1,
          min(ints(s)) = 1
  match
    Y = Resize(X, r?, s)
  rewrite
    Y = X
  equal   exact
"""


@pytest.mark.parametrize(
    ("factors", "matches"),
    [([1, 1], 1), ([1, 1.5], 0), ([1, 2], 0), ([1, np.inf], 0), ([1, np.nan], 0)],
)
def test_whole_numbers_may_be_floats(factors, matches):
    resize = helper.make_node("Resize", ["x", "", "s"], ["y"])
    constants = {"s": np.array(factors, np.float32)}
    view = model([resize], {"x": [2, 3]}, "y", constants)
    assert len(matches_of(parse_rules(WHOLE), view)) == matches


# --------------------------------------------------------------------------------------- rows


def test_rows_describe_each_rule_and_are_stored_once():
    from tensolog.catalog import Catalog

    rules = list(RULES.values())
    rows = rule_rows(rules)
    assert len(rows["rule"]["rule_hash"]) == len(rules)
    with Catalog(":memory:") as catalog:
        assert store_rules(catalog, rules) == len(rules)
        assert store_rules(catalog, rules) == 0
        stored = catalog.sql(
            "SELECT op_type, attributes FROM rule JOIN rule_node USING (rule_hash) "
            "WHERE name = 'MergeMatMulsSharingLeft' AND side = 'rewrite' ORDER BY position"
        ).fetchall()
        assert stored == [("Concat", "axis=1"), ("MatMul", ""), ("Split", "axis=-1")]
        edges = catalog.sql(
            "SELECT direction, slot, value FROM rule JOIN rule_edge USING (rule_hash) "
            "WHERE name = 'MergeMatMulsSharingLeft' AND side = 'match' AND position = 0 "
            "ORDER BY direction, slot"
        ).fetchall()
        assert edges == [("input", 0, "X"), ("input", 1, "W1"), ("output", 0, "Y1")]
        stated = catalog.sql(
            "SELECT condition FROM rule JOIN rule_condition USING (rule_hash) "
            "WHERE name = 'ConvertMatMulAddToGemm' ORDER BY position"
        ).fetchall()
        assert ("fits(c, Y)",) in stated
        assert ("Y has no other user",) in stated
