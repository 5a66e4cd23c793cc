"""Products with constant matrices: any sizes, with what follows them, and when there is none."""

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from tensolog.optimizer.codegen import find_compiler
from tensolog.optimizer.codegen.compiler import FLAGS, library_file
from tensolog.optimizer.codegen.unit import LEVELS, native_level
from tensolog.optimizer.native.product.panels import PANEL, packed
from tensolog.optimizer.native.product.product_text import EACH, SEVEN, TILES

from tests.campaigns import examples

from .build import check, fused, kernels_of, model, needs_compiler, opened

pytestmark = needs_compiler
node = helper.make_node
# Functions that libraries with products of other forms have.
MARKS = {SEVEN: "seven_prepare", TILES: "tiles_block"}
RUNNABLE = list(LEVELS)[list(LEVELS).index(native_level()) :]


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def matrix(depth, columns, seed=5):
    return normal(depth, columns, seed=seed) / np.float32(depth**0.5)


def dense(depth, columns, behind=(), *, rows=("b", "t"), inputs=(), outputs=None, constants=()):
    """x times a matrix, then `behind`, which reads p; y is the result if nothing else is said."""
    nodes = [node("MatMul", ["x", "w"], ["p" if behind else "y"]), *behind]
    input_shapes = {"x": [*rows, depth], **{name: [*rows, columns] for name in inputs}}
    results = {name: [*rows, columns] for name in outputs or ["y"]}
    return model(nodes, input_shapes, results, {"w": matrix(depth, columns), **dict(constants)})


BEHIND = {
    "nothing": [],
    "bias": [node("Add", ["p", "b"], ["y"])],
    "residual": [node("Add", ["p", "b"], ["q"]), node("Add", ["q", "r"], ["y"])],
    "activation": [node("Add", ["b", "p"], ["q"]), node("Tanh", ["q"], ["y"])],
    "twice": [node("Sigmoid", ["p"], ["q"]), node("Mul", ["p", "q"], ["y"])],
}


def form_of(library):
    """The form of a library's products."""
    return next((form for form, mark in MARKS.items() if mark in library.source), EACH)


def results(proto, x, form=EACH, threads=1):
    """What a model gives whose product is a kernel of this form."""
    changed, library = fused(proto, form=form)
    assert form_of(library) == form
    (result,) = opened(changed, library, threads=threads).run(None, {"x": x})
    return result


def with_an_end(draw, rows, depth, columns, named):
    """A product of these sizes and what follows it, and what it is given."""
    behind = BEHIND[draw(st.sampled_from(sorted(BEHIND)))]
    read = {name for node in behind for name in node.input}
    others, constants = ("r",) if "r" in read else (), {"b": normal(columns)} if "b" in read else {}
    proto = dense(depth, columns, behind, rows=named, inputs=others, constants=constants)
    return proto, {"x": normal(*rows, depth), **{name: normal(*rows, columns) for name in others}}


@st.composite
def any_product(draw):
    """A product with a constant matrix and what follows it, and what it is given."""
    rows = draw(st.lists(st.integers(1, 70), min_size=1, max_size=3))
    rows = rows if len(rows) < 3 else [min(rows[0], 3), 2, min(rows[2], 9)]
    depth, columns = draw(st.integers(16, 600)), draw(st.integers(32, 200))
    named = [f"n{i}" for i in range(len(rows))] if draw(st.booleans()) else rows
    return with_an_end(draw, rows, depth, columns, named)


@given(any_product(), st.sampled_from(RUNNABLE))
@settings(max_examples=examples(12), deadline=None)
def test_sizes_of_all_kinds(case, level):
    proto, feeds = case
    check(proto, feeds, expect=1, threads=2, levels=(level,))


@pytest.mark.parametrize("level", RUNNABLE)
@pytest.mark.parametrize("rows", range(1, 18))
def test_each_number_of_rows(level, rows):
    proto = dense(33, 97, rows=("t",))
    check(proto, {"x": normal(rows, 33)}, expect=1, levels=(level,))


@pytest.mark.parametrize("level", RUNNABLE)
def test_more_rows_than_a_block_and_more_depth_than_a_piece(level):
    proto = dense(1100, 64, rows=("t",))
    feeds = [{"x": normal(rows, 1100)} for rows in (401, 7)]
    check(proto, *feeds, expect=1, threads=2, levels=(level,))


@pytest.mark.parametrize("level", RUNNABLE)
def test_rows_in_parts_and_panels_of_all_widths(level):
    behind = [node("Add", ["p", "b"], ["q"]), node("Add", ["q", "r"], ["y"])]
    proto = dense(700, 331, behind, rows=("t",), inputs=("r",), constants={"b": normal(331)})
    feeds = [{"x": normal(rows, 700), "r": normal(rows, 331)} for rows in (1, 2, 290)]
    check(proto, *feeds, expect=1, threads=2, levels=(level,))


def test_bias_activation_gate_and_residual_in_one_pass():
    behind = [
        node("Add", ["p", "bias"], ["q"]),
        node("Sigmoid", ["q"], ["s"]),
        node("Mul", ["q", "s"], ["silu"]),
        node("Mul", ["silu", "gate"], ["g"]),
        node("Add", ["g", "r"], ["y"]),
    ]
    proto = dense(64, 100, behind, inputs=("gate", "r"), constants={"bias": normal(100)})
    shape = (3, 45, 100)
    feeds = {"x": normal(3, 45, 64), "gate": normal(*shape, seed=1), "r": normal(*shape, seed=2)}
    check(proto, feeds, expect=1, threads=2)


@pytest.mark.parametrize("shape", [(1, 1, 96), (4, 1, 96), (5, 96), (4, 5, 1), (1,)])
def test_what_is_added_may_broadcast(shape):
    behind = [node("Add", ["p", "b"], ["q"]), node("Relu", ["q"], ["y"])]
    proto = dense(32, 96, behind, rows=(4, 5), constants={"b": normal(*shape)})
    check(proto, {"x": normal(4, 5, 32)}, expect=1)


def test_a_mask_of_truth_values_chooses():
    behind = [node("Where", ["m", "p", "low"], ["y"])]
    constants = {"m": normal(6, 64) > 0, "low": np.float32(-7)}
    check(dense(32, 64, behind, rows=(6,), constants=constants), {"x": normal(6, 32)}, expect=1)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("bias", [None, (70,), (1, 70)])
def test_gemm(transposed, bias):
    weights = matrix(40, 70)
    arrays = {"w": np.ascontiguousarray(weights.T) if transposed else weights}
    if bias is not None:
        arrays["b"] = normal(*bias)
    nodes = [
        node("Gemm", ["x", *arrays], ["g"], transB=int(transposed)),
        node("Reshape", ["g", "shape"], ["h"]),
        node("Tanh", ["h"], ["y"]),
    ]
    arrays["shape"] = np.array([1, 19, 70])
    proto = model(nodes, {"x": [19, 40]}, {"y": [1, 19, 70]}, arrays)
    check(proto, {"x": normal(19, 40)}, expect=1)


@pytest.mark.parametrize("change", [{"alpha": 0.5}, {"beta": 2.0}, {"transA": 1}])
def test_a_gemm_that_scales_or_turns_its_rows_stays(change):
    arrays = {"w": matrix(40, 40), "b": normal(40)}
    nodes = [node("Gemm", ["x", "w", "b"], ["y"], **change)]
    check(model(nodes, {"x": [40, 40]}, {"y": [40, 40]}, arrays), expect=0)
    proto = model([node("Gemm", ["x", "w", "b"], ["y"])], {"x": [40, 40]}, {"y": [40, 40]}, arrays)
    check(proto, {"x": normal(40, 40)}, expect=1)


def test_a_matrix_that_is_turned_first():
    nodes = [node("Transpose", ["w"], ["v"], perm=[1, 0]), node("MatMul", ["x", "v"], ["y"])]
    proto = model(nodes, {"x": ["t", 40]}, {"y": ["t", 64]}, {"w": matrix(64, 40)})
    changed, _ = check(proto, {"x": normal(9, 40)}, expect=1)
    assert [node.op_type for node in changed.graph.node] == kernels_of(changed)


def test_a_matrix_that_others_read_is_not_held_twice():
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("MatMul", ["a", "w"], ["y"])]
    assert fused(model(nodes, {"x": [8, 64]}, {"y": [8, 64]}, {"w": matrix(64, 64)})) is None
    separate = {"w": matrix(64, 64), "v": matrix(64, 64, seed=6)}
    nodes[1] = node("MatMul", ["a", "v"], ["y"])
    changed, _ = check(
        model(nodes, {"x": [8, 64]}, {"y": [8, 64]}, separate), {"x": normal(8, 64)}, expect=2
    )
    assert {initializer.dims[-1] for initializer in changed.graph.initializer} == {PANEL}


def test_a_product_that_is_read_outside_ends_there():
    behind = [node("Relu", ["p"], ["y"])]
    proto = dense(32, 64, behind, rows=(6,), outputs=("p", "y"))
    changed, _ = check(proto, {"x": normal(6, 32)}, expect=1)
    assert [node.op_type.split("_")[0] for node in changed.graph.node] == ["MatMul", "Relu"]


def test_what_follows_may_not_wait_for_what_comes_of_it():
    behind = [
        node("Relu", ["p"], ["a"]),
        node("ReduceMax", ["a", "last"], ["m"]),
        node("Sub", ["a", "m"], ["y"]),
    ]
    proto = dense(32, 64, behind, rows=(6,), constants={"last": np.array([0])})
    changed, _ = check(proto, {"x": normal(6, 32)})
    assert any(name.startswith("MatMulRelu_") for name in kernels_of(changed))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_in_its_row(value):
    behind = [node("Add", ["p", "b"], ["q"]), node("Relu", ["q"], ["y"])]
    proto = dense(32, 70, behind, rows=("t",), constants={"b": normal(70)})
    changed, library = fused(proto)
    x = normal(20, 32)
    x[3, 5] = value
    (wanted,) = opened(proto).run(None, {"x": x})
    (result,) = opened(changed, library).run(None, {"x": x})
    assert np.isfinite(np.delete(result, 3, axis=0)).all()
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)


def test_no_rows_at_all():
    changed, library = fused(dense(32, 64, rows=("t",)))
    (result,) = opened(changed, library).run(None, {"x": normal(0, 32)})
    assert result.shape == (0, 64)


def test_rows_of_another_depth_are_refused():
    changed, library = fused(dense(32, 64, rows=("t",)))
    with pytest.raises(Exception, match=r"(?i)another size|invalid dim"):
        opened(changed, library).run(None, {"x": normal(4, 33)})


@given(st.integers(1, 40), st.integers(1, 200))
@settings(max_examples=examples(30), deadline=None)
def test_the_layout_holds_each_element_once(depth, columns):
    weights = normal(depth, columns)
    panels = packed(weights)
    assert panels.shape == (-(-columns // PANEL), depth, PANEL)
    together = panels.transpose(1, 0, 2).reshape(depth, -1)
    np.testing.assert_array_equal(together[:, :columns], weights)
    assert not together[:, columns:].any()


TASKS = """
EXPORTED void tasks_of(int64_t *told) {
  call c = {0};
  c.loops = 3;
  for (int l = 0; l < 3; l++) c.extent[l] = told[l];
  c.rows = told[0] * told[1];
  arrange_product_by(&c, 1 << 20, PANEL, 192 << 10, 8, told[3]);
  told[0] = c.units;
  told[1] = c.tasks;
}
"""


@pytest.mark.parametrize("run", [1, 3, 4, 8])
def test_threads_multiply_by_equally_many_panels(run):
    """The runtime gives threads equally many tasks, one after another, the first ones one more."""
    _, built = fused(dense(40, 96, BEHIND["bias"], constants={"b": normal(96)}))
    exported = '__attribute__((visibility("default")))'
    text = TASKS.replace("PANEL", str(PANEL)).replace("EXPORTED", exported)
    path = library_file(built.source + text, find_compiler(), FLAGS)
    tasks_of = ctypes.CDLL(str(path)).tasks_of
    for rows, depth in [(128, 768), (196, 2048), (1024, 512)]:
        for panels in range(1, 120):
            numbers = np.array([rows, panels * PANEL, depth, run], np.int64)
            tasks_of(ctypes.c_void_p(numbers.ctypes.data))
            units, tasks = map(int, numbers[:2])
            assert tasks >= min(units, 8)
            for threads in (2, 4, 8):
                assert _busiest(units, tasks, threads) <= -(-units // threads)


def _busiest(units, tasks, threads):
    """The most units of a thread."""
    many, more = divmod(tasks, threads)
    starts = [many * thread + min(thread, more) for thread in range(threads + 1)]
    return max(np.diff([units * start // tasks for start in starts]))
