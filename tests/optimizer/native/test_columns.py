"""Reductions over axes that others come behind: columns that rows are folded into."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from tests.campaigns import examples

from .build import check, fused, model, needs_compiler, opened

pytestmark = needs_compiler
node = helper.make_node
rng = np.random.default_rng(0)
REDUCTIONS = ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1"]
REDUCTIONS += ["ReduceL2", "ReduceSumSquare"]


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


def every(shape, axes, keepdims=1):
    """All reductions of one tensor: a kernel for each."""
    nodes = [node(op, ["x", "axes"], [op], keepdims=keepdims) for op in REDUCTIONS]
    return model(nodes, {"x": shape}, dict.fromkeys(REDUCTIONS), {"axes": ints(*axes)})


@pytest.mark.parametrize("level", ["plain", None])
@pytest.mark.parametrize(("rows", "keepdims"), [(2, 0), (5, 1), (9, 0), (67, 1), ("r", 0)])
def test_any_number_of_rows_is_reduced(rows, keepdims, level):
    proto = every(["n", rows, "w"], [-2], keepdims)
    counts = [rows] if rows != "r" else [1, 3, 64, 65, 130]
    feeds = [{"x": normal(2, count, 37) / 4} for count in counts]
    feeds += [{"x": normal(3, count, 1)} for count in counts[:1]]
    options = {"levels": (level,)} if level else {}
    check(proto, *feeds, expect=len(REDUCTIONS), **options)


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ([6, 40], [0]),
        ([3, 4, 5, 6], [1, 2]),
        ([3, 4, 5, 6], [0, 1]),
        ([3, 1, 5, 1, 7], [2]),
        ([3, 5, 1, 4, 7], [1, 3]),
        (["a", 4, 300], [1]),
        ([2, 70, 1100], [1]),
    ],
)
def test_any_axes_side_by_side_are_reduced(shape, axes):
    x = normal(*(5 if isinstance(size, str) else size for size in shape))
    check(every(shape, axes), {"x": x}, expect=len(REDUCTIONS))


def test_axes_that_lie_apart_and_none_at_all_stay_with_the_runtime():
    separate = every([3, 4, 5], [0])
    assert fused(separate) is not None
    nodes = [node("ReduceSum", ["x", "axes"], ["y"])]
    assert fused(model(nodes, {"x": [3, 4, 5, 6]}, {"y": None}, {"axes": ints(0, 2)})) is None
    nodes = [node("ReduceSum", ["x"], ["y"], noop_with_empty_axes=1)]
    assert fused(model(nodes, {"x": [3, 4, 5]}, {"y": None})) is None


def test_nothing_is_reduced_to_what_nothing_is():
    nodes = [node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)]
    proto = model(nodes, {"x": ["n", "r", "w"]}, {"y": None}, {"axes": ints(1)})
    shapes = [(2, 0, 5), (0, 3, 5), (2, 3, 0)]
    check(proto, *({"x": np.zeros(shape, np.float32)} for shape in shapes), expect=1)


@pytest.mark.parametrize("rows", [3, 100, "r"])
def test_what_is_no_number_stays_in_its_column(rows):
    """Of extremes as well, where the runtime sees one in the first row only."""
    proto = every([2, rows, 40], [1])
    changed, library = fused(proto)
    x = normal(2, 100 if rows == "r" else rows, 40)
    x[0, 1, 3], x[0, 2, 5], x[1, 0, 7], x[1, 2, 7] = np.nan, np.inf, np.inf, -np.inf
    x[1, 0, 9], x[1, -1, 10] = np.nan, np.nan
    for array in (x, np.full_like(x, -np.inf), np.full_like(x, np.inf)):
        results = opened(changed, library).run(None, {"x": array})
        theirs = opened(proto).run(None, {"x": array})
        for op, result, other in zip(REDUCTIONS, results, theirs, strict=True):
            if op in ("ReduceMax", "ReduceMin"):
                other = (np.max if op == "ReduceMax" else np.min)(array, 1, keepdims=True)
            np.testing.assert_allclose(result, other, rtol=1e-4, atol=1e-5, err_msg=op)


def test_sums_of_many_rows_are_as_accurate_as_of_few():
    nodes = [node("ReduceMean", ["x", "axes"], ["y"], keepdims=0)]
    proto = model(nodes, {"x": ["r", 48]}, {"y": None}, {"axes": ints(0)})
    changed, library = fused(proto)
    x = np.abs(normal(50000, 48))
    (result,) = opened(changed, library).run(None, {"x": x})
    (theirs,) = opened(proto).run(None, {"x": x})
    exact = x.mean(0, dtype=np.float64)
    error, other = (np.abs(y / exact - 1).max() for y in (result, theirs))
    assert error <= max(other, 2e-7)


@pytest.mark.parametrize(
    ("op", "rows"), [("Softmax", 2), ("LogSoftmax", 21), ("Softmax", 150), ("LogSoftmax", "r")]
)
def test_softmax_over_channels(op, rows):
    nodes = [node("Mul", ["x", "scale"], ["s"]), node(op, ["s"], ["y"], axis=1)]
    shape = ["n", rows, "h", 9]
    proto = model(nodes, {"x": shape}, {"y": None}, {"scale": np.float32(3)})
    x = normal(2, 30 if rows == "r" else rows, 7, 9)
    dead = np.where(np.arange(x.size).reshape(x.shape) % 5 == 0, -np.inf, x).astype(np.float32)
    check(proto, {"x": x}, {"x": x * 100}, {"x": dead}, expect=1)


@pytest.mark.parametrize("channels", [4, 96])
def test_layer_normalization_over_channels_spelled_out(channels):
    nodes = [
        node("ReduceMean", ["x", "axis"], ["mean"]),
        node("Sub", ["x", "mean"], ["apart"]),
        node("Mul", ["apart", "apart"], ["square"]),
        node("ReduceMean", ["square", "axis"], ["variance"]),
        node("Add", ["variance", "epsilon"], ["more"]),
        node("Sqrt", ["more"], ["root"]),
        node("Div", ["apart", "root"], ["normal"]),
        node("Mul", ["normal", "g"], ["scaled"]),
        node("Add", ["scaled", "b"], ["y"]),
    ]
    constants = {"axis": ints(1), "epsilon": np.float32(1e-6)}
    constants |= {"g": normal(channels, 1, 1), "b": normal(channels, 1, 1)}
    shape = ["n", channels, "h", "w"]
    proto = model(nodes, {"x": shape}, {"y": None, "mean": None}, constants)
    check(proto, {"x": normal(2, channels, 6, 7) + 5}, expect=1)


@pytest.mark.parametrize("width", [5, 6])
def test_a_normalization_between_transpositions_runs_where_values_lie(width):
    nodes = [
        node("Transpose", ["x"], ["t"], perm=[0, 2, 3, 1]),
        node("LayerNormalization", ["t", "g", "b"], ["n"], axis=-1),
        node("Transpose", ["n"], ["y"], perm=[0, 3, 1, 2]),
    ]
    constants = {"g": normal(6), "b": normal(6)}
    proto = model(nodes, {"x": [2, 6, 6, width]}, {"y": None}, constants)
    changed, _ = check(proto, {"x": normal(2, 6, 6, width) + 3}, expect=1)
    assert len(changed.graph.node) == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_tokens_are_averaged_where_a_mask_allows(threads):
    nodes = [
        node("Unsqueeze", ["mask", "last"], ["one"]),
        node("Shape", ["x"], ["shape"]),
        node("Expand", ["one", "shape"], ["all"]),
        node("Mul", ["x", "all"], ["kept"]),
        node("ReduceSum", ["kept", "axis"], ["sum"], keepdims=0),
        node("ReduceSum", ["all", "axis"], ["count"], keepdims=0),
        node("Clip", ["count", "least"], ["divisor"]),
        node("Div", ["sum", "divisor"], ["y"]),
    ]
    constants = {"last": ints(-1), "axis": ints(1), "least": np.float32(1e-9)}
    inputs = {"x": ["n", "tokens", 384], "mask": ["n", "tokens"]}
    proto = model(nodes, inputs, {"y": None}, constants)
    mask = (rng.random((3, 200)) > 0.3).astype(np.float32)
    mask[1] = 0
    check(proto, {"x": normal(3, 200, 384), "mask": mask}, threads=threads, expect=1)


@pytest.mark.parametrize("axes", [[1], [2], [1, 2]])
def test_what_follows_a_reduction_that_drops_its_axes_joins_it(axes):
    """Generalized means: a power, a mean, a root."""
    nodes = [
        node("Clip", ["x", "least"], ["c"]),
        node("Pow", ["c", "p"], ["q"]),
        node("ReduceMean", ["q", "axes"], ["m"], keepdims=0),
        node("Pow", ["m", "root"], ["r"]),
        node("Tanh", ["r"], ["y"]),
    ]
    constants = {"least": np.float32(1e-6), "p": np.float32(3), "root": np.float32(1 / 3)}
    proto = model(nodes, {"x": [4, 4, 4, 20]}, {"y": None}, {**constants, "axes": ints(*axes)})
    check(proto, {"x": normal(4, 4, 4, 20)}, expect=1)


def test_values_of_rows_and_of_columns_that_are_read_outside():
    nodes = [
        node("Softplus", ["x"], ["s"]),
        node("ReduceMax", ["s", "axis"], ["top"]),
        node("Sub", ["s", "top"], ["d"]),
        node("Exp", ["d"], ["e"]),
        node("ReduceSum", ["e", "axis"], ["mass"]),
        node("Div", ["e", "mass"], ["y"]),
    ]
    outputs = dict.fromkeys(["s", "top", "e", "mass", "y"])
    for rows in (3, 80):
        proto = model(nodes, {"x": ["n", rows, 50]}, outputs, {"axis": ints(1)})
        check(proto, {"x": normal(2, rows, 50)}, expect=1)


@st.composite
def programs(draw):
    """Elementwise nodes and reductions of one run of axes, all of which may be outputs."""
    shape = [draw(st.sampled_from([1, 2, 3, 7, 17, 70])) for _ in range(draw(st.integers(2, 4)))]
    first = draw(st.integers(0, len(shape) - 1))
    axes = list(range(first, draw(st.integers(first, len(shape) - 1)) + 1))
    row = [1 if axis in axes else size for axis, size in enumerate(shape)]
    values = {"x": shape, "r": row, "b": shape[-1:]}
    inputs, nodes = dict(values), []
    for i in range(draw(st.integers(1, 8))):
        operand, name = draw(st.sampled_from(sorted(values))), f"v{i}"
        kind = draw(st.sampled_from(["unary", "binary", "reduction", "softmax"]))
        if kind == "unary":
            nodes.append(
                node(draw(st.sampled_from(["Tanh", "Softplus", "Neg"])), [operand], [name])
            )
            values[name] = values[operand]
        elif kind == "binary":
            other = draw(st.sampled_from(sorted(values)))
            op = draw(st.sampled_from(["Add", "Mul", "Max", "Sub"]))
            nodes.append(node(op, [operand, other], [name]))
            values[name] = list(np.broadcast_shapes(tuple(values[operand]), tuple(values[other])))
        elif values[operand] == shape and kind == "reduction":
            op, keeps = draw(st.sampled_from(REDUCTIONS[:4])), draw(st.booleans())
            nodes.append(node(op, [operand, "axes"], [name], keepdims=int(keeps)))
            if keeps:
                values[name] = row
        elif values[operand] == shape and len(axes) == 1:
            nodes.append(node("Softmax", [operand], [name], axis=axes[0]))
            values[name] = shape
    computed = {name for node in nodes for name in node.output}
    read = {name for node in nodes for name in node.input}
    kept = {name for name in computed if name not in read or draw(st.booleans())}
    generator = np.random.default_rng(draw(st.integers(0, 2**16)))
    feeds = {n: generator.standard_normal(s).astype(np.float32) for n, s in inputs.items()}
    return nodes, inputs, dict.fromkeys(sorted(kept)), {"axes": ints(*axes)}, feeds


@settings(max_examples=examples(25), deadline=None)
@given(programs())
def test_any_region_of_columns_computes_what_its_operators_do(case):
    nodes, inputs, outputs, constants, feeds = case
    if nodes:
        check(model(nodes, inputs, outputs, constants), feeds)
