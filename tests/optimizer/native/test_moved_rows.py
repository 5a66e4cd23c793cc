"""Rows that are moved as a whole, or picked by indices, in kernels and under ONNX Runtime."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from tensolog.optimizer.graph.convert import to_model
from tensolog.optimizer.native.indexed.moved_rows import gather_moved_rows

from tests.campaigns import examples

from .build import check, fused, kernels_of, model, needs_compiler, opened, typed

pytestmark = needs_compiler
node = helper.make_node
rng = np.random.default_rng(0)


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


class Moves:
    """Nodes of a chain that begins with x, and where each element is after it."""

    def __init__(self, *shape):
        self.nodes, self.constants, self.value = [], {}, "x"
        self.elements = np.arange(np.prod(shape)).reshape(shape)

    def add(self, operator, *arrays, elements=None, value=None, **attributes):
        names = []
        for array in arrays:
            names.append(f"c{len(self.constants)}")
            self.constants[names[-1]] = np.asarray(array, np.int64)
        output, read = f"v{len(self.nodes)}", [self.value] if value is None else value
        self.nodes.append(node(operator, [*read, *names], [output], **attributes))
        if elements is not None:
            self.elements, self.value = elements, output
        return output

    def reshape(self, *shape):
        self.add("Reshape", shape, elements=self.elements.reshape(shape))

    def transpose(self, *order):
        self.add("Transpose", elements=self.elements.transpose(order), perm=order)

    def roll(self, axis, shift):
        size = self.elements.shape[axis]
        behind = self.add("Slice", [shift], [size], [axis])
        before = self.add("Slice", [0], [shift], [axis])
        rolled = np.roll(self.elements, -shift, axis)
        self.add("Concat", elements=rolled, value=[behind, before], axis=axis)


def windows(side, window, width, shift):
    moves = Moves(1, side * side, width)
    moves.reshape(1, side, side, width)
    moves.roll(1, shift)
    moves.roll(2, shift)
    moves.reshape(1, side // window, window, side // window, window, width)
    moves.transpose(0, 1, 3, 2, 4, 5)
    moves.reshape((side // window) ** 2, window * window, width)
    return moves


def gathered(proto):
    graph = typed(proto)
    return gather_moved_rows(graph), to_model(graph)


@given(st.data())
@settings(max_examples=examples(120), deadline=None)
def test_rows_are_moved_as_the_chain_does(data):
    """Chains of any moves: what is gathered is the same, where something is."""
    width = data.draw(st.sampled_from([16, 24]))
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=4))
    moves = Moves(*sizes, width)
    for _ in range(data.draw(st.integers(1, 5))):
        rank = moves.elements.ndim
        match data.draw(st.sampled_from(["roll", "transpose", "flatten"])):
            case "roll":
                axis = data.draw(st.integers(0, rank - 1))
                if (size := moves.elements.shape[axis]) > 1:
                    moves.roll(axis, data.draw(st.integers(1, size - 1)))
            case "transpose":
                moves.transpose(*data.draw(st.permutations(range(rank))))
            case "flatten" if rank > 2:
                moves.reshape(-1, *moves.elements.shape[2:])
    proto = model(
        [*moves.nodes, node("Relu", [moves.value], ["y"])],
        {"x": [*sizes, width]},
        {"y": list(moves.elements.shape)},
        moves.constants,
    )
    steps, changed = gathered(proto)
    x = normal(*sizes, width)
    (result,) = opened(changed).run(None, {"x": x})
    np.testing.assert_array_equal(result, np.maximum(x.reshape(-1)[moves.elements], 0))
    joins = any(node.op_type == "Concat" for node in moves.nodes)
    rows = moves.elements.reshape(-1, moves.elements.shape[-1])
    whole = rows.shape[1] == width and (rows == rows[:, :1] // width * width + range(width)).all()
    assert steps or not (joins and whole)


def test_what_is_read_within_a_chain_ends_one():
    moves = windows(8, 4, 32, 2)
    nodes = [*moves.nodes, node("Relu", [moves.value], ["y"])]
    inner = next(node for node in nodes if node.op_type == "Concat").output[0]
    outputs = {"y": [4, 16, 32], inner: [1, 8, 8, 32]}
    proto = model(nodes, {"x": [1, 64, 32]}, outputs, moves.constants)
    steps, changed = gathered(proto)
    assert [len(step.nodes) for step in steps] == [4, 6]
    x = {"x": normal(1, 64, 32)}
    for result, wanted in zip(
        opened(changed).run(None, x), opened(proto).run(None, x), strict=True
    ):
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("shift", [1, 5])
def test_normalized_rows_go_into_rolled_windows_and_back_in_one_pass(shift):
    """Before an attention in windows, and behind it, where a residual is added."""
    width, side = 32, 8
    there, back = windows(side, 4, width, shift), Moves(4, 16, width)
    back.reshape(1, 2, 2, 4, 4, width)
    back.transpose(0, 1, 3, 2, 4, 5)
    back.reshape(1, side, side, width)
    back.roll(1, side - shift)
    back.roll(2, side - shift)
    back.reshape(1, side * side, width)
    constants = {
        "g": normal(width),
        "b": normal(width),
        "w": normal(width, width),
        **{f"there.{name}": array for name, array in there.constants.items()},
        **{f"back.{name}": array for name, array in back.constants.items()},
    }

    def renamed(moves, prefix, start):
        for inner in moves.nodes:
            names = [start if n == "x" else f"{prefix}.{n}" for n in inner.input]
            yield node(
                inner.op_type,
                names,
                [f"{prefix}.{n}" for n in inner.output],
                name="",
                **{a.name: helper.get_attribute_value(a) for a in inner.attribute},
            )

    nodes = [
        node("LayerNormalization", ["x", "g", "b"], ["n"]),
        *renamed(there, "there", "n"),
        node("MatMul", [f"there.{there.value}", "w"], ["m"]),
        *renamed(back, "back", "m"),
        node("Add", ["x", f"back.{back.value}"], ["r"]),
        node("LayerNormalization", ["r", "g", "b"], ["y"]),
    ]
    shape = [1, side * side, width]
    proto = model(nodes, {"x": shape}, {"y": shape, "r": shape}, constants)
    changed, _ = check(proto, {"x": normal(*shape)}, expect=3)
    assert "Gather" not in {node.op_type for node in changed.graph.node}


def picked(table, count, *, dtype=TensorProto.INT64, behind=("LayerNormalization",), free=False):
    rows, width = table
    nodes_by_name = {"LayerNormalization": node("LayerNormalization", ["s", "g", "b"], ["y"])}
    nodes = [
        node("Gather", ["t", "i"], ["p"], axis=0),
        node("Add", ["p", "x"], ["s"]),
        *(nodes_by_name[name] for name in behind),
    ]
    if not behind:
        nodes[-1] = node("Add", ["p", "x"], ["y"])
    sizes = {
        "t": ["rows" if free else rows, width],
        "i": ["n" if free else count],
        "x": ["n" if free else count, width],
    }
    proto = model(nodes, sizes, {"y": sizes["x"]}, {"g": normal(width), "b": normal(width)})
    for value in proto.graph.input:
        if value.name == "i":
            value.type.tensor_type.elem_type = dtype
    return proto


@pytest.mark.parametrize("dtype", [TensorProto.INT64, TensorProto.INT32])
@pytest.mark.parametrize("behind", [(), ("LayerNormalization",)])
@pytest.mark.parametrize("free", [False, True])
def test_rows_are_picked_by_any_indices(dtype, behind, free):
    proto = picked((9, 40), 30, dtype=dtype, behind=behind, free=free)
    index = np.int64 if dtype == TensorProto.INT64 else np.int32
    feeds = {"t": normal(9, 40), "i": rng.integers(-9, 9, 30).astype(index), "x": normal(30, 40)}
    check(proto, feeds, expect=1, threads=2)


@pytest.mark.parametrize("outside", [9, -10, 2**40])
def test_an_index_that_names_no_row_is_an_error(outside):
    proto = picked((9, 40), 30)
    changed, library = fused(proto)
    assert len(kernels_of(changed)) == 1
    places = rng.integers(0, 9, 30)
    places[11] = outside
    feeds = {"t": normal(9, 40), "i": places, "x": normal(30, 40)}
    for session in (opened(proto), opened(changed, library)):
        with pytest.raises(Exception, match=r"out of.*bounds"):
            session.run(None, feeds)


def test_what_is_slow_is_not_computed_for_each_time_that_it_is_picked():
    nodes = [
        node("Softmax", ["t"], ["s"], axis=-1),
        node("Gather", ["s", "i"], ["p"], axis=0),
        node("Mul", ["p", "p"], ["y"]),
    ]
    proto = model(nodes, {"t": [8, 32], "i": [64]}, {"y": [64, 32]})
    proto.graph.input[1].type.tensor_type.elem_type = TensorProto.INT64
    changed, _ = check(proto, {"t": normal(8, 32), "i": rng.integers(0, 8, 64)})
    assert len(kernels_of(changed)) == 2
