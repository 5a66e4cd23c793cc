"""Which nodes one kernel computes, and that it computes them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from tensolog.optimizer.codegen.unit import native_level
from tensolog.optimizer.native.fuse_graph import regions
from tensolog.optimizer.native.loops.kernel_region import Meanings

from tests.campaigns import examples

from .build import check, fused, kernels_of, model, needs_compiler, opened, typed

pytestmark = needs_compiler
node = helper.make_node
rng = np.random.default_rng(0)


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


def test_softmax_with_scale_and_mask_and_rows_that_are_all_masked():
    nodes = [
        node("Mul", ["x", "scale"], ["s"]),
        node("Add", ["s", "mask"], ["m"]),
        node("Softmax", ["m"], ["y"], axis=-1),
    ]
    proto = model(
        nodes,
        {"x": ["b", 3, "s", "t"], "mask": [1, 1, "s", "t"]},
        {"y": ["b", 3, "s", "t"]},
        {"scale": np.float32(0.125)},
    )
    mask = np.triu(np.full((5, 7), -np.inf, np.float32), 1)[None, None]
    dead = np.full((1, 1, 5, 7), -np.inf, np.float32)
    low = np.full((1, 1, 5, 7), np.finfo(np.float32).min, np.float32)
    feeds = [{"x": normal(2, 3, 5, 7), "mask": values} for values in (mask, dead, low)]
    check(proto, *feeds, expect=1)


@pytest.mark.parametrize("width", [1, 2, 31, 64, 1025, 5000])
def test_a_residual_sum_and_its_layer_normalization(width):
    nodes = [
        node("Add", ["x", "r"], ["sum"]),
        node("LayerNormalization", ["sum", "scale", "bias"], ["y"], axis=-1),
    ]
    shape = ["b", "s", width]
    constants = {"scale": normal(width), "bias": normal(width)}
    proto = model(nodes, {"x": shape, "r": shape}, {"sum": shape, "y": shape}, constants)
    feeds = {"x": normal(2, 3, width) + 10, "r": normal(2, 3, width)}
    check(proto, feeds, expect=1 if width > 1 else None)


def test_a_normalization_spelled_out_is_one_kernel():
    nodes = [
        node("Mul", ["x", "x"], ["square"]),
        node("ReduceMean", ["square", "last"], ["mean"]),
        node("Add", ["mean", "epsilon"], ["more"]),
        node("Sqrt", ["more"], ["root"]),
        node("Reciprocal", ["root"], ["inverse"]),
        node("Mul", ["x", "inverse"], ["normal"]),
        node("Mul", ["normal", "weight"], ["y"]),
    ]
    constants = {"last": ints(-1), "epsilon": np.float32(1e-6), "weight": normal(40)}
    proto = model(nodes, {"x": [2, "s", 40]}, {"y": [2, "s", 40]}, constants)
    check(proto, {"x": normal(2, 9, 40)}, {"x": np.zeros((2, 1, 40), np.float32)}, expect=1)


def test_a_logarithm_of_exponentials_does_not_overflow():
    """Written out as it is defined it would, so it stays with the runtime; the rest does not."""
    nodes = [
        node("ReduceLogSumExp", ["x", "last"], ["mass"], keepdims=1),
        node("Sub", ["x", "mass"], ["log"]),
        node("Softplus", ["log"], ["y"]),
    ]
    proto = model(nodes, {"x": [3, 40]}, {"y": [3, 40]}, {"last": ints(-1)})
    check(proto, {"x": normal(3, 40) + 200}, {"x": normal(3, 40) - 200}, expect=1)


def rotary(heads, width):
    half = width // 2
    nodes = [
        node("Reshape", ["x", "shape"], ["h"]),
        node("Transpose", ["h"], ["t"], perm=[0, 2, 1, 3]),
        node("Slice", ["t", "zero", "half", "last"], ["left"]),
        node("Slice", ["t", "half", "end", "last"], ["right"]),
        node("Neg", ["right"], ["negative"]),
        node("Concat", ["negative", "left"], ["turned"], axis=-1),
        node("Mul", ["t", "cos"], ["c"]),
        node("Mul", ["turned", "sin"], ["d"]),
        node("Add", ["c", "d"], ["y"]),
    ]
    constants = {
        "shape": ints(0, -1, heads, width),
        "zero": ints(0),
        "half": ints(half),
        "end": ints(2**62),
        "last": ints(-1),
    }
    return model(
        nodes,
        {"x": [2, 6, heads * width], "cos": [6, width], "sin": [6, width]},
        {"y": [2, heads, 6, width]},
        constants,
    )


def test_a_rotary_embedding_is_read_where_it_lies():
    feeds = {"x": normal(2, 6, 48), "cos": normal(6, 16), "sin": normal(6, 16)}
    check(rotary(3, 16), feeds, expect=1)


def test_a_value_that_is_read_outside_is_an_output_too():
    nodes = [
        node("Softplus", ["x"], ["a"]),
        node("Tanh", ["a"], ["b"]),
        node("Mul", ["x", "b"], ["c"]),
        node("MatMul", ["a", "w"], ["y"]),
    ]
    proto = model(nodes, {"x": [4, 8]}, {"c": [4, 8], "y": [4, 3]}, {"w": normal(8, 3)})
    changed, _ = check(proto, {"x": normal(4, 8) * 20})
    (kernel,) = (n for n in changed.graph.node if n.op_type in kernels_of(changed))
    assert len(kernel.output) == 2


def test_what_is_computed_outside_of_a_region_does_not_come_between():
    nodes = [
        node("Tanh", ["x"], ["a"]),
        node("MatMul", ["a", "w"], ["m"]),
        node("Add", ["a", "m"], ["b"]),
        node("Exp", ["b"], ["y"]),
    ]
    proto = model(nodes, {"x": [4, 4]}, {"y": [4, 4]}, {"w": normal(4, 4)})
    check(proto, {"x": normal(4, 4)})


def test_layers_whose_sizes_have_other_names_share_a_kernel():
    nodes = [node("Mish", ["x"], ["y"]), node("Mish", ["z"], ["w"])]
    proto = model(nodes, {"x": ["a", 8], "z": ["b", 8]}, {"y": ["a", 8], "w": ["b", 8]})
    changed, _ = check(proto, {"x": normal(3, 8), "z": normal(5, 8)}, expect=2)
    assert len(set(kernels_of(changed))) == 1


def test_offsets_and_steps_of_more_than_sixteen_bits():
    nodes = [
        node("Slice", ["x", "start", "end", "last"], ["s"]),
        node("Reshape", ["s", "shape"], ["r"]),
        node("Mish", ["r"], ["y"]),
    ]
    constants = {"start": ints(40000), "end": ints(120000), "last": ints(-1)}
    constants["shape"] = ints(2, 40000)
    proto = model(nodes, {"x": [1, 120000]}, {"y": [2, 40000]}, constants)
    check(proto, {"x": normal(1, 120000)})


@pytest.mark.parametrize("behind", ["Mish", "Softmax", "Concat"])
@pytest.mark.parametrize("sizes", [[3, 5, 8], ["a", 5, 8]])
@pytest.mark.parametrize(("axis", "start", "end"), [(2, 0, 3), (2, 3, 8), (1, 0, 2), (1, 2, 5)])
def test_slices_leave_gaps_wherever_they_begin(axis, start, end, sizes, behind):
    more = {"Concat": {"axis": -1}}.get(behind, {})
    read = ["m", "m"] if behind == "Concat" else ["m"]
    nodes = [
        node("Slice", ["x", "start", "end", "axis"], ["s"]),
        node("Mish", ["s"], ["m"]),
        node(behind, read, ["y"], **more),
    ]
    constants = {"start": ints(start), "end": ints(end), "axis": ints(axis)}
    proto = model(nodes, {"x": sizes}, {"y": None}, constants)
    check(proto, {"x": normal(3, 5, 8)}, expect=1)


def test_a_row_of_two_axes_that_a_slice_cuts_is_no_row():
    nodes = [
        node("Slice", ["x", "start", "end", "axis"], ["s"]),
        node("Mish", ["s"], ["m"]),
        node("LayerNormalization", ["m", "g"], ["y"], axis=1),
    ]
    constants = {"start": ints(0), "end": ints(4), "axis": ints(2), "g": normal(5, 4)}
    check(model(nodes, {"x": [3, 5, 8]}, {"y": [3, 5, 4]}, constants), {"x": normal(3, 5, 8)})


def test_two_outputs_of_a_row_in_parts_read_what_is_the_same_along_it():
    nodes = [
        node("Add", ["x", "r"], ["a"]),
        node("Slice", ["a", "zero", "two", "last"], ["left"]),
        node("Slice", ["a", "two", "end", "last"], ["right"]),
        node("Concat", ["right", "left"], ["b"], axis=-1),
    ]
    constants = {"zero": ints(0), "two": ints(2), "end": ints(2**60), "last": ints(-1)}
    sizes = {"a": [3, 4], "b": [3, 4]}
    proto = model(nodes, {"x": [3, 4], "r": [3, 1]}, sizes, constants)
    check(proto, {"x": normal(3, 4), "r": normal(3, 1)}, expect=1)


def test_integers_stay_outside():
    nodes = [node("Cast", ["x"], ["i"], to=TensorProto.INT64), node("Cast", ["i"], ["y"], to=1)]
    assert fused(model(nodes, {"x": [4]}, {"y": [4]})) is None


@pytest.mark.parametrize("level", [native_level(), "plain"])
@pytest.mark.parametrize("name", ["Exp", "Sigmoid", "Tanh", "Softplus", "Erf"])
def test_functions_over_their_whole_range(name, level):
    """Against float64: a few units in the last place (Sigmoid: of 1), subnormal results aside."""
    exact = {
        "Exp": np.exp,
        "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
        "Tanh": np.tanh,
        "Softplus": lambda x: np.logaddexp(0, x),
        "Erf": np.vectorize(math.erf, otypes=[np.float64]),
    }[name]
    edges = [0.0, -0.0, 1.0, -1.0, 4.0, 20.0, 87.3, 88.7, 88.75, 90.0, 104.0, 3e38, np.inf]
    steps = np.concatenate([np.geomspace(1e-37, 200, 20001), np.linspace(0, 100, 20001), edges])
    x = np.concatenate([steps, -steps]).astype(np.float32)
    x = np.concatenate([x, np.array([0x7FC00001, 0xFFC12345], np.uint32).view(np.float32)])
    proto = model([node(name, ["x"], ["y"])], {"x": [len(x)]}, {"y": [len(x)]})
    changed, library = fused(proto, levels=(level,))
    (y,) = opened(changed, library).run(None, {"x": x})
    with np.errstate(all="ignore"):
        true = exact(x.astype(np.float64))
        rounded = true.astype(np.float32)
    assert np.array_equal(np.isnan(y), np.isnan(x))
    assert np.array_equal(np.isinf(y), np.isinf(rounded))
    normal_ = np.isfinite(rounded) & (np.abs(rounded) >= np.finfo(np.float32).tiny)
    error = np.abs(y[normal_] - true[normal_])
    unit = np.float32(2**-24) if name == "Sigmoid" else np.spacing(np.abs(rounded[normal_]))
    assert (error / unit).max() <= (6.1 if name == "Tanh" else 3.5)
    assert np.abs(y[np.isfinite(rounded) & ~normal_]).max(initial=0) <= np.finfo(np.float32).tiny


UNARY = ["Tanh", "Sigmoid", "Softplus", "Mish", "Erf", "Relu", "Neg", "Abs", "HardSwish", "Gelu"]
BINARY = ["Add", "Sub", "Mul", "Max", "Min"]
ROWS = ["Softmax", "LayerNormalization", "ReduceMax", "ReduceMean", "ReduceSum", "ReduceMin"]


@st.composite
def programs(draw):
    """Nodes over values of shapes that broadcast, some of them read twice, some of them outputs."""
    space = draw(st.lists(st.sampled_from([1, 2, 3, 5, 8]), min_size=1, max_size=4))
    width = draw(st.sampled_from([4, 16, 33]))
    space = [*space, width]
    values = {}
    for i in range(draw(st.integers(1, 3))):
        kept = draw(st.lists(st.booleans(), min_size=len(space), max_size=len(space)))
        shape = [size if keep or i == 0 else 1 for size, keep in zip(space, kept, strict=True)]
        start = draw(st.integers(0, len(space) - 1)) if i else 0
        values[f"x{i}"] = shape[start:]
    inputs, constants, nodes = dict(values), {}, []
    for i in range(draw(st.integers(1, 8))):
        name = f"v{i}"
        kind = draw(st.sampled_from(["unary", "binary", "binary", "row", "move"]))
        operand = draw(st.sampled_from(sorted(values)))
        shape = values[operand]
        if kind == "unary":
            nodes.append(node(draw(st.sampled_from(UNARY)), [operand], [name]))
        elif kind == "binary":
            other = draw(st.sampled_from(sorted(values)))
            nodes.append(node(draw(st.sampled_from(BINARY)), [operand, other], [name]))
            shape = list(np.broadcast_shapes(tuple(shape), tuple(values[other])))
        elif kind == "row":
            op = draw(st.sampled_from(ROWS))
            if op == "Softmax":
                nodes.append(node(op, [operand], [name], axis=-1))
            elif op == "LayerNormalization":
                scale = constants.setdefault(f"scale{shape[-1]}", normal(shape[-1])) is not None
                assert scale
                nodes.append(node(op, [operand, f"scale{shape[-1]}"], [name], axis=-1))
            else:
                constants["last"] = ints(-1)
                nodes.append(node(op, [operand, "last"], [name], keepdims=1))
                shape = [*shape[:-1], 1]
        elif shape[-1] % 2 == 0:
            half = shape[-1] // 2
            constants |= {"zero": ints(0), f"n{half}": ints(half), "end": ints(2**60)}
            constants["last"] = ints(-1)
            nodes.append(node("Slice", [operand, "zero", f"n{half}", "last"], [f"{name}l"]))
            nodes.append(node("Slice", [operand, f"n{half}", "end", "last"], [f"{name}r"]))
            nodes.append(node("Concat", [f"{name}r", f"{name}l"], [name], axis=-1))
        elif len(shape) > 2:
            order = [1, 0, *range(2, len(shape))]
            nodes.append(node("Transpose", [operand], [name], perm=order))
            shape = [shape[axis] for axis in order]
            if any(len(v) > 0 and len(v) == len(shape) and v != shape for v in values.values()):
                nodes.pop()
                nodes.append(node("Identity", [operand], [name]))
                shape = values[operand]
        else:
            nodes.append(node("Identity", [operand], [name]))
        values[name] = shape
    read = {name for node in nodes for name in node.input}
    outputs = {name: shape for name, shape in values.items() if name not in read or name == "v0"}
    outputs = {name: shape for name, shape in outputs.items() if name.startswith("v")}
    seed = draw(st.integers(0, 2**16))
    scale = draw(st.sampled_from([0.1, 1.0, 10.0, 1e-39]))
    generator = np.random.default_rng(seed)
    feeds = {
        n: (generator.standard_normal(s) * scale).astype(np.float32) for n, s in inputs.items()
    }
    return nodes, inputs, outputs, constants, feeds


@settings(max_examples=examples(25), deadline=None)
@given(programs())
def test_any_region_computes_what_its_operators_do(case):
    nodes, inputs, outputs, constants, feeds = case
    check(model(nodes, inputs, outputs, constants), feeds)


def _gives_bool(proto, *names):
    for entry in proto.graph.output:
        if entry.name in names:
            entry.type.tensor_type.elem_type = TensorProto.BOOL
    return proto


def test_truth_values_that_are_needed_outside():
    nodes = [
        node("Less", ["x", "r"], ["less"]),
        node("Not", ["less"], ["kept"]),
        node("Softplus", ["x"], ["soft"]),
        node("Where", ["kept", "soft", "r"], ["y"]),
    ]
    shape = ["n", 33]
    proto = model(nodes, {"x": shape, "r": shape}, {"kept": shape, "y": shape})
    _gives_bool(proto, "kept")
    check(proto, {"x": normal(5, 33), "r": normal(5, 33)}, expect=1)


def test_a_product_whose_result_is_compared():
    nodes = [node("MatMul", ["x", "w"], ["p"]), node("Greater", ["p", "zero"], ["y"])]
    constants = {"w": normal(64, 48), "zero": np.float32(0)}
    proto = _gives_bool(model(nodes, {"x": ["n", 64]}, {"y": ["n", 48]}, constants), "y")
    check(proto, {"x": normal(5, 64)})


@pytest.mark.parametrize(
    ("input_shape", "target", "perm"),
    [
        (["n", "s", 24], [0, 0, 4, 6], [0, 2, 1, 3]),
        (["n", "s", 24], [0, 0, 2, 3, -1], [0, 3, 1, 2, 4]),
        ([2, "s", 4, 6], [2, 0, 2, 2, 6], [1, 0, 3, 2, 4]),
        (["s", 7], [0, 7, 1], [0, 2, 1]),
    ],
)
def test_axes_that_are_split_behind_free_dimensions(input_shape, target, perm):
    nodes = [
        node("Reshape", ["x", "target"], ["apart"]),
        node("Transpose", ["apart"], ["turned"], perm=perm),
        node("Softplus", ["turned"], ["y"]),
    ]
    proto = model(nodes, {"x": input_shape}, {"y": [None] * len(perm)}, {"target": ints(*target)})
    sizes = [{"n": 3, "s": 5}, {"n": 1, "s": 1}, {"n": 2, "s": 9}]
    feeds = [{"x": normal(*(size.get(d, d) for d in input_shape))} for size in sizes]
    changed, _ = check(proto, *feeds, expect=1)
    assert len(changed.graph.node) == 1


@pytest.mark.parametrize("bounds", [["least"], ["", "most"], ["", ""], ["least", "most"], []])
def test_a_bound_that_is_not_named_is_the_largest_number(bounds):
    """Softmax of an infinity is NaN; of what Clip makes of it, it is none."""
    nodes = [node("Clip", ["x", *bounds], ["c"]), node("Softmax", ["c"], ["y"], axis=-1)]
    constants = {"least": np.float32(-2), "most": np.float32(6)}
    bound_constants = {name: constants[name] for name in bounds if name}
    proto = model(nodes, {"x": ["n", 6]}, {"y": ["n", 6]}, bound_constants)
    x = normal(7, 6)
    x[:6][np.eye(6, dtype=bool)] = [np.inf, -np.inf, 1e38, -1e38, np.nan, 7]
    x[6] = -np.inf
    changed, library = fused(proto)
    assert len(kernels_of(changed)) == 1
    (expected,) = opened(proto).run(None, {"x": x})
    (result,) = opened(changed, library).run(None, {"x": x})
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(("axes", "count"), [(8, 3), (9, 2)])
def test_an_operand_of_more_axes_than_there_is_room_for_is_read_by_no_kernel(axes, count):
    nodes = [
        node("Reshape", ["x", "shape"], ["u"]),
        node("Mul", ["u", "z"], ["v"]),
        node("Softplus", ["v"], ["y"]),
    ]
    inputs = {"x": [1, 1, 6, 1, 1, 1, 1, 1, 4][-axes:], "z": [6, 4]}
    proto = model(nodes, inputs, {"y": [6, 4]}, {"shape": ints(6, 4)})
    graph = typed(proto)
    (region_kernel,) = regions(Meanings(graph), graph.nodes)
    assert len(region_kernel.region.nodes) == count
    check(proto, {"x": normal(*inputs["x"]), "z": normal(6, 4)}, expect=1)
