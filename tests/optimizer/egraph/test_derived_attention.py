"""Attention that a derivation names, and rotations that rules do, against what they stand for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensolog.optimizer.egraph.search import search
from tensolog.rules import load_rules

from .derived import RNG, SETTINGS, Net, plan_of
from .pricing import FOLD_LIMIT, Prices, graph_of, modelled, searched

ROTARY = [rule for rule in load_rules() if rule.family == "rotary"]
LOWEST = float(np.finfo(np.float32).min)


def price(kernel):
    """The kernels in question cost nothing beside all others."""
    return 1.0 if kernel.domain == "com.microsoft" else 100.0


def compared(model, sizes=None):
    """Search a model and compare the plan with it; the operators of the plan."""
    result = plan_of(model, price, sizes, contributed=True, rules=ROTARY)
    return [node.op_type for node in result.graph.node]


# ------------------------------------------------------------------------------------- attention


def attention(
    b=1, s=4, t=5, h=2, e=4, f=4, mask=None, scale="scores", factor=0.5, keys="once", *,
    queries="apart", values="apart", opset=17, batch=None, axis=-1, joined=True,
):  # fmt: skip
    """Attention as exporters spell it; `keys` says how they are transposed."""
    shapes = {"apart": lambda rows, depth: (batch or b, rows, h * depth),
              "heads": lambda rows, depth: (batch or b, h, rows, depth)}  # fmt: skip
    net = Net(opset, q=shapes[queries](s, e), v=shapes[values](t, f),
              k=shapes["heads" if keys == "heads" else "apart"](t, e))  # fmt: skip
    size = 0 if batch else b
    q, k, v = "q", "k", "v"
    if queries == "apart":
        q = net.op("Transpose", net.op("Reshape", q, [size, s, h, e]), perm=[0, 2, 1, 3])
    if values == "apart":
        v = net.op("Transpose", net.op("Reshape", v, [size, t, h, f]), perm=[0, 2, 1, 3])
    if keys == "once":
        k = net.op("Transpose", net.op("Reshape", k, [size, t, h, e]), perm=[0, 2, 3, 1])
    else:
        if keys != "heads":
            k = net.op("Transpose", net.op("Reshape", k, [size, t, h, e]), perm=[0, 2, 1, 3])
        if keys == "batch":
            k = net.op("Transpose", net.op("Reshape", k, [-1, t, e]), perm=[0, 2, 1])
            k = net.op("Reshape", k, [b, h, e, t])
        else:
            k = net.op("Transpose", k, perm=[0, 1, 3, 2])
    if scale == "both":
        q, k = (net.op("Mul", operand, np.float32(factor**0.5)) for operand in (q, k))
    elif scale == "queries":
        q = net.op("Div", q, np.float32(1 / factor))
    scores = net.op("MatMul", q, k)
    if scale == "scores":
        scores = net.op("Mul", np.float32(factor), scores)
    elif scale == "divided":
        scores = net.op("Div", scores, np.float32(1 / factor))
    if mask is not None:
        scores = net.op("Add", scores, mask)
    attended = net.op("MatMul", net.op("Softmax", scores, axis=axis), v)
    if not joined:
        return net.model(attended)
    moved = net.op("Transpose", attended, perm=[0, 2, 1, 3])
    return net.model(net.op("Reshape", moved, [size, s, h * f]))


MASKS = {
    "none": lambda b, h, s, t: None,
    "rows": lambda b, h, s, t: RNG.choice([0, LOWEST], (1, 1, 1, t)) * [[[[0] + [1] * (t - 1)]]],
    "whole": lambda b, h, s, t: np.triu(np.full((s, t), LOWEST), 1),
    "of each head": lambda b, h, s, t: RNG.normal(size=(1, h, s, t)),
    "of each sequence": lambda b, h, s, t: RNG.normal(size=(b, 1, 1, t)),
}


@SETTINGS
@given(
    sizes=st.tuples(*(st.integers(1, 5) for _ in range(5))),
    narrow=st.booleans(),
    mask=st.sampled_from(sorted(MASKS)),
    scale=st.sampled_from(["scores", "divided", "queries", "both", "none"]),
    keys=st.sampled_from(["once", "twice", "batch"]),
    factor=st.sampled_from([0.125, 0.35, 3.0]),
)
def test_attention_is_the_kernel(sizes, narrow, mask, scale, keys, factor):
    b, s, t, h, e = sizes
    given_mask = MASKS[mask](b, h, s, t)
    model = attention(b, s, t, h, e, e + narrow, given_mask, scale, factor, keys)
    operators = compared(model)
    assert operators.count("MultiHeadAttention") == 1
    assert not {"Softmax", "MatMul", "Transpose"} & set(operators)


@pytest.mark.parametrize("opset", [12, 13, 21])
@pytest.mark.parametrize("keys", ["heads", "twice"])
@pytest.mark.parametrize("values", ["heads", "apart"])
def test_heads_of_an_axis_of_their_own_stay(opset, keys, values):
    mask = MASKS["whole"](1, 2, 4, 5)
    operators = compared(attention(keys=keys, values=values, mask=mask, opset=opset))
    assert operators.count("MultiHeadAttention") == 1 and "Softmax" not in operators


def test_queries_that_were_never_side_by_side_are_put_there():
    operators = compared(attention(queries="heads"))
    assert operators.count("MultiHeadAttention") == 1 and operators.count("Transpose") == 1


def test_heads_that_stay_apart_are_taken_apart():
    operators = compared(attention(joined=False))
    assert operators.count("MultiHeadAttention") == 1 and operators.count("Transpose") == 1


def test_a_free_batch_stays_free():
    operators = compared(attention(batch="batch"), sizes={"batch": 3})
    assert "MultiHeadAttention" in operators


@pytest.mark.parametrize("mask", ["rows", "whole"])
def test_a_free_number_of_tokens_stays_free(mask):
    """A mask for each column is given the rows that the queries have while the model runs."""
    added = ("batch", 1, 1, "tokens") if mask == "rows" else (1, 1, "tokens", "tokens")
    net = Net(m=added, **dict.fromkeys("qkv", ("batch", "tokens", 8)))

    def heads(x):
        return net.op("Transpose", net.op("Reshape", x, [0, 0, 2, 4]), perm=[0, 2, 1, 3])

    keys = net.op("Transpose", heads("k"), perm=[0, 1, 3, 2])
    scores = net.op("Add", net.op("MatMul", heads("q"), keys), "m")
    attended = net.op("MatMul", net.op("Softmax", scores, axis=-1), heads("v"))
    joined = net.op("Reshape", net.op("Transpose", attended, perm=[0, 2, 1, 3]), [0, 0, 8])
    operators = compared(net.model(joined), sizes={"batch": 2, "tokens": 5})
    assert "MultiHeadAttention" in operators and "Softmax" not in operators
    assert ("Expand" in operators) == (mask == "rows")


def test_softmax_over_another_axis_is_none():
    assert "Softmax" in compared(attention(t=4, axis=2))


def test_values_whose_heads_are_broadcast_are_none():
    """One head of values for all heads of scores: the kernel has as many of both."""
    net = Net(s=(1, 2, 4, 5), v=(1, 1, 5, 4))
    scores = net.op("MatMul", "s", net.op("Transpose", "s", perm=[0, 1, 3, 2]))
    probabilities = net.op("Softmax", scores, axis=-1)
    wide = net.op("MatMul", net.op("MatMul", probabilities, "s"), "v")
    assert "Softmax" in compared(net.model(wide, net.op("MatMul", probabilities, "s")))
    net = Net(q=(1, 2, 4, 5), v=(1, 1, 4, 3))
    scores = net.op("MatMul", "q", net.op("Transpose", "q", perm=[0, 1, 3, 2]))
    attended = net.op("MatMul", net.op("Softmax", scores, axis=-1), "v")
    assert "MultiHeadAttention" not in compared(net.model(attended))


def test_a_factor_that_is_no_number_is_none():
    net = Net(q=(1, 2, 4, 5), k=(1, 2, 4, 5), c=(1,))
    scores = net.op("MatMul", "q", net.op("Transpose", "k", perm=[0, 1, 3, 2]))
    scaled = net.op("Mul", scores, "c")
    attended = net.op("MatMul", net.op("Softmax", scaled, axis=-1), "k")
    assert "MultiHeadAttention" not in compared(net.model(attended))


def test_where_rounding_is_not_allowed_nothing_is_derived():
    result, _ = searched(attention(), (), price=price)
    assert "Softmax" in [node.op_type for node in result.graph.node]


def test_a_kernel_that_seems_no_cheaper_still_has_a_plan_that_races():
    """What it saves beside its own time shows in no kernel."""
    dear = Prices(0, lambda kernel: 10_000.0 if kernel.domain else 1.0)
    options = {"sizes": {}, "fold_limit": FOLD_LIMIT, "contributed": True}
    plans = search(graph_of(attention()), (), dear, count=1, **options).plans
    kinds = [{node.op_type for node in modelled(plan).graph.node} for plan in plans]
    assert ["MultiHeadAttention" in kind for kind in kinds] == [False, True]
    assert plans[1].cost_ns > plans[0].cost_ns
    cheap = Prices(0, price)
    assert len(search(graph_of(attention()), (), cheap, count=1, **options).plans) == 1


# --------------------------------------------------------------------------------------- rotary


def rotation(
    b=1, h=2, s=3, r=2, tables=None, parts="slices", swapped=(False,) * 3, side=False, *,
    negated=1, batch=None, opset=17,
):  # fmt: skip
    """x cos + (-x2, x1) sin; `tables` are arrays [.., s, 2 r], or "computed"."""
    rows = (batch or b, s, h * 2 * r) if side else (batch or b, h, s, 2 * r)
    inputs = {"x": rows, **({"angles": (1, s, r)} if isinstance(tables, str) else {})}
    net = Net(opset, **inputs)
    x = "x"
    if side:
        x = net.op("Reshape", x, [0, s, h, 2 * r])
        x = net.op("Transpose", x, perm=[0, 2, 1, 3])
    if isinstance(tables, str):
        angles = net.op("Concat", "angles", "angles", axis=-1)
        scaled = [net.op("Mul", net.op(op, angles), np.float32(0.5)) for op in ("Cos", "Sin")]
        if opset >= 13:
            cosines, sines = (net.op("Unsqueeze", table, [1]) for table in scaled)
        else:
            cosines, sines = (net.op("Unsqueeze", table, axes=[1]) for table in scaled)
    else:
        cosines, sines = tables if tables is not None else repeated(s, r)
    if parts == "slices":
        first = net.op("Slice", x, [0], [r], [3], [1])
        second = net.op("Slice", x, [r], [2**62], [3], [1])
    elif parts == "from the end":
        first, second = net.op("Slice", x, [0], [-r], [-1]), net.op("Slice", x, [-r], [99], [-1])
    elif parts == "equal parts":
        said = {"num_outputs": 2} if opset >= 18 else {}
        first, second = net.ops("Split", 2, x, axis=-1, **said)
    elif opset >= 13:
        first, second = net.ops("Split", 2, x, [r, r], axis=-1)
    else:
        first, second = net.ops("Split", 2, x, axis=-1, split=[r, r])
    halves = [net.op("Neg", second), first] if negated == 1 else [second, net.op("Neg", first)]
    turned = net.op("Concat", *halves, axis=-1)

    def both(op, a, b, turn):
        return net.op(op, *((b, a) if turn else (a, b)))

    straight = both("Mul", x, cosines, swapped[0])
    return net.model(both("Add", straight, both("Mul", turned, sines, swapped[1]), swapped[2]))


def repeated(s, r, lead=(1, 1)):
    """Tables of equal halves."""
    angles = RNG.normal(size=(*lead, s, r))
    return tuple(np.concatenate([table, table], -1) for table in (np.cos(angles), np.sin(angles)))


@SETTINGS
@given(
    sizes=st.tuples(*(st.integers(1, 4) for _ in range(4))),
    parts=st.sampled_from(["slices", "from the end", "split", "equal parts"]),
    swapped=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    tables=st.sampled_from([None, "computed"]),
    side=st.booleans(),
    opset=st.sampled_from([11, 12, 13, 17, 18, 20]),
)
def test_a_rotation_is_the_kernel(sizes, parts, swapped, tables, side, opset):
    b, h, s, r = sizes
    operators = compared(rotation(b, h, s, r, tables, parts, swapped, side, opset=opset))
    assert operators.count("RotaryEmbedding") == 1 and "Neg" not in operators


def test_a_rotation_of_a_free_batch_is_the_kernel():
    assert "RotaryEmbedding" in compared(rotation(batch="batch", side=True), sizes={"batch": 3})


def test_a_rotation_of_a_free_number_of_tokens_is_the_kernel():
    """By tables that are computed for as many tokens as there are."""
    net = Net(x=("batch", "tokens", 8), angles=(1, "tokens", 2))
    angles = net.op("Unsqueeze", net.op("Concat", "angles", "angles", axis=-1), [1])
    cosines, sines = net.op("Cos", angles), net.op("Sin", angles)
    x = net.op("Transpose", net.op("Reshape", "x", [0, 0, 2, 4]), perm=[0, 2, 1, 3])
    first, second = net.ops("Split", 2, x, [2, 2], axis=-1)
    turned = net.op("Concat", net.op("Neg", second), first, axis=-1)
    total = net.op("Add", net.op("Mul", x, cosines), net.op("Mul", turned, sines))
    operators = compared(net.model(total), sizes={"batch": 2, "tokens": 5})
    assert "RotaryEmbedding" in operators and "Neg" not in operators


def one_off(s, r):
    cosines, sines = repeated(s, r)
    sines[0, 0, -1, -1] += 1
    return cosines, sines


@pytest.mark.parametrize(
    "model",
    [
        rotation(tables=one_off(3, 2)),
        rotation(b=2, tables=repeated(3, 2, lead=(2, 1))),
        rotation(h=2, tables=repeated(3, 2, lead=(1, 2))),
        rotation(s=3, tables=repeated(1, 2)),
        rotation(negated=0),
    ],
    ids=["halves differ", "of each sequence", "of each head", "one row for all", "turned back"],
)
def test_what_is_no_such_rotation_stays(model):
    assert "RotaryEmbedding" not in compared(model)


def test_computed_tables_of_other_halves_stay():
    net = Net(x=(1, 2, 3, 4), angles=(1, 3, 2), others=(1, 3, 2))
    angles = net.op("Concat", "angles", "others", axis=-1)
    cosines, sines = (net.op("Unsqueeze", net.op(op, angles), [1]) for op in ("Cos", "Sin"))
    first, second = net.ops("Split", 2, "x", [2, 2], axis=-1)
    turned = net.op("Concat", net.op("Neg", second), first, axis=-1)
    total = net.op("Add", net.op("Mul", "x", cosines), net.op("Mul", turned, sines))
    assert "RotaryEmbedding" not in compared(net.model(total))


def test_rotated_heads_are_attended_to_in_one_chain():
    """As Llama has them: rotated where they lie side by side, nothing moved in between."""
    net = Net(q=(1, 3, 8), k=(1, 3, 8), v=(1, 3, 8))
    cosines, sines = repeated(3, 2)

    def heads(x):
        return net.op("Transpose", net.op("Reshape", x, [1, 3, 2, 4]), perm=[0, 2, 1, 3])

    def rotated(x):
        first, second = net.ops("Split", 2, x, [2, 2], axis=-1)
        turned = net.op("Concat", net.op("Neg", second), first, axis=-1)
        return net.op("Add", net.op("Mul", x, cosines), net.op("Mul", turned, sines))

    q, k, v = rotated(heads("q")), rotated(heads("k")), heads("v")
    scores = net.op("MatMul", q, net.op("Transpose", k, perm=[0, 1, 3, 2]))
    attended = net.op("MatMul", net.op("Softmax", net.op("Mul", scores, np.float32(0.5))), v)
    moved = net.op("Transpose", attended, perm=[0, 2, 1, 3])
    operators = compared(net.model(net.op("Reshape", moved, [1, 3, 8])))
    assert sorted(operators) == ["MultiHeadAttention", "RotaryEmbedding", "RotaryEmbedding"]
