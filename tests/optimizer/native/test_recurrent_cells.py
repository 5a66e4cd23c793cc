"""Cells that multiply their state by a matrix in each step: written out, and in ONNX's loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.campaigns import examples

from .build import check, fused, kernels_of, model, needs_compiler

pytestmark = needs_compiler
node = helper.make_node
INPUTS = 12


class Cell:
    """The nodes of one step of a cell, with weights drawn once; `states` are how many it has."""

    states = 1

    def __init__(self, width, seed=0):
        self.width, self.rng = width, np.random.default_rng(seed)
        self.constants = {}
        self.weights()

    def matrix(self, name, depth, width, transposed=False):
        array = (self.rng.standard_normal((depth, width)) / np.sqrt(depth)).astype(np.float32)
        self.constants[name] = np.ascontiguousarray(array.T) if transposed else array

    def row(self, name, width):
        self.constants[name] = (0.2 * self.rng.standard_normal(width)).astype(np.float32)


class Elman(Cell):
    """h = tanh([x, h] W + b)"""

    def weights(self):
        self.matrix("W", INPUTS + self.width, self.width)
        self.row("b", self.width)

    def step(self, x, states, t):
        return (
            [
                node("Concat", [x, states[0]], [f"j{t}"], axis=-1),
                node("MatMul", [f"j{t}", "W"], [f"p{t}"]),
                node("Add", [f"p{t}", "b"], [f"q{t}"]),
                node("Tanh", [f"q{t}"], [f"h{t}"]),
            ],
            [f"h{t}"],
            f"h{t}",
        )


class Lstm(Cell):
    """As PyTorch's LSTMCell is exported: two Gemms, and four parts of their sum."""

    states = 2

    def weights(self):
        self.matrix("Wi", INPUTS, 4 * self.width, transposed=True)
        self.matrix("Wh", self.width, 4 * self.width, transposed=True)
        self.row("bi", 4 * self.width)
        self.row("bh", 4 * self.width)

    def step(self, x, states, t):
        h, c = states
        return (
            [
                node("Gemm", [x, "Wi", "bi"], [f"a{t}"], transB=1),
                node("Gemm", [h, "Wh", "bh"], [f"b{t}"], transB=1),
                node("Add", [f"a{t}", f"b{t}"], [f"s{t}"]),
                node(
                    "Split",
                    [f"s{t}"],
                    [f"i_{t}", f"f_{t}", f"g_{t}", f"o_{t}"],
                    axis=1,
                    num_outputs=4,
                ),
                node("Sigmoid", [f"i_{t}"], [f"i{t}"]),
                node("Sigmoid", [f"f_{t}"], [f"f{t}"]),
                node("Tanh", [f"g_{t}"], [f"g{t}"]),
                node("Sigmoid", [f"o_{t}"], [f"o{t}"]),
                node("Mul", [f"f{t}", c], [f"u{t}"]),
                node("Mul", [f"i{t}", f"g{t}"], [f"v{t}"]),
                node("Add", [f"u{t}", f"v{t}"], [f"c{t}"]),
                node("Tanh", [f"c{t}"], [f"w{t}"]),
                node("Mul", [f"o{t}", f"w{t}"], [f"h{t}"]),
            ],
            [f"h{t}", f"c{t}"],
            f"h{t}",
        )


class Gru(Cell):
    """The reset gate before the product: a second stage reads what the first one has kept."""

    def weights(self):
        for gate in "zrn":
            self.matrix(f"W{gate}", INPUTS, self.width)
            self.matrix(f"U{gate}", self.width, self.width)
            self.row(f"b{gate}", self.width)
        self.constants["one"] = np.float32(1)

    def step(self, x, states, t):
        (h,) = states

        def gate(name, read, function):
            return [
                node("MatMul", [x, f"W{name}"], [f"x{name}{t}"]),
                node("MatMul", [read, f"U{name}"], [f"h{name}{t}"]),
                node("Add", [f"x{name}{t}", f"h{name}{t}"], [f"s{name}{t}"]),
                node("Add", [f"s{name}{t}", f"b{name}"], [f"t{name}{t}"]),
                node(function, [f"t{name}{t}"], [f"{name}{t}"]),
            ]

        return (
            [
                *gate("z", h, "Sigmoid"),
                *gate("r", h, "Sigmoid"),
                node("Mul", [f"r{t}", h], [f"k{t}"]),
                *gate("n", f"k{t}", "Tanh"),
                node("Sub", ["one", f"z{t}"], [f"y{t}"]),
                node("Mul", [f"y{t}", f"n{t}"], [f"u{t}"]),
                node("Mul", [f"z{t}", h], [f"v{t}"]),
                node("Add", [f"u{t}", f"v{t}"], [f"h{t}"]),
            ],
            [f"h{t}"],
            f"h{t}",
        )


class Projected(Elman):
    """What is put out is another product of the new state, of another width."""

    def weights(self):
        super().weights()
        self.matrix("V", self.width, 7)

    def step(self, x, states, t):
        nodes, new_states, _ = super().step(x, states, t)
        return [*nodes, node("MatMul", [*new_states, "V"], [f"y{t}"])], new_states, f"y{t}"


CELLS = [Elman, Lstm, Gru, Projected]


def written_out(cell, count, batch, axis=1, ends=True):
    """All steps of a cell, along an axis of what it reads; what they give, and the last states."""
    nodes, constants, rows = [], {**cell.constants, "axis": np.array([axis], np.int64)}, []
    states = [f"begin{i}" for i in range(cell.states)]
    begin = {name: [batch, cell.width] for name in states}
    for t in range(count):
        constants[f"t{t}"] = np.array(t, np.int64)
        nodes.append(node("Gather", ["x", f"t{t}"], [f"x{t}"], axis=axis))
        step, states, out = cell.step(f"x{t}", states, t)
        nodes += [*step, node("Unsqueeze", [out, "axis"], [f"row{t}"])]
        rows.append(f"row{t}")
    nodes.append(node("Concat", rows, ["y"], axis=axis))
    wide = 7 if isinstance(cell, Projected) else cell.width
    shapes = [[batch, count, size] if axis else [count, batch, size] for size in (INPUTS, wide)]
    outputs = {"y": shapes[1]}
    for i, state in enumerate(states if ends else ()):
        nodes.append(node("Identity", [state], [f"end{i}"]))
        outputs[f"end{i}"] = [batch, cell.width]
    return model(nodes, {"x": shapes[0], **begin}, outputs, constants)


def scanned(cell, count, batch, captured):
    """The same in a Scan, whose weights are its own, or the graph's around it."""
    info = helper.make_tensor_value_info
    states = [f"begin{i}" for i in range(cell.states)]
    nodes, new_states, out = cell.step("x", states, "")
    wide = 7 if isinstance(cell, Projected) else cell.width
    nodes = [*nodes, *(node("Identity", [name], [f"next{i}"]) for i, name in enumerate(new_states))]
    nodes.append(node("Identity", [out], ["out"]))
    initializers = [numpy_helper.from_array(np.asarray(a), n) for n, a in cell.constants.items()]
    like = {name: [batch, cell.width] for name in states}
    body = helper.make_graph(
        nodes,
        "body",
        [info(n, TensorProto.FLOAT, s) for n, s in (*like.items(), ("x", [batch, INPUTS]))],
        [
            *(info(f"next{i}", TensorProto.FLOAT, [batch, cell.width]) for i in range(cell.states)),
            info("out", TensorProto.FLOAT, [batch, wide]),
        ],
        [] if captured else initializers,
    )
    ends = [f"end{i}" for i in range(cell.states)]
    scan = node("Scan", [*states, "X"], [*ends, "y"], body=body, num_scan_inputs=1)
    outputs = {name: [batch, cell.width] for name in ends} | {"y": [count, batch, wide]}
    inputs = {**like, "X": [count, batch, INPUTS]}
    return model([scan], inputs, outputs, cell.constants if captured else ())


def feeds_of(proto, rng, **sizes):
    feeds = {}
    for entry in proto.graph.input:
        dims = entry.type.tensor_type.shape.dim
        shape = [sizes.get(dim.dim_param, dim.dim_value) for dim in dims]
        feeds[entry.name] = rng.standard_normal(shape).astype(np.float32)
    return feeds


def is_one_kernel(fusion):
    assert fusion is not None
    names = kernels_of(fusion[0])
    assert [name.startswith("Steps") for name in names] == [True], names


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(("width", "batch"), [(5, 1), (50, 3), (33, 11)])
def test_a_cell_written_out_is_one_kernel(cell, width, batch):
    proto = written_out(cell(width), 5, batch, axis=batch % 2)
    feeds = [feeds_of(proto, np.random.default_rng(seed)) for seed in range(2)]
    is_one_kernel(check(proto, *feeds, threads=2))


def test_the_batch_may_be_free():
    proto = written_out(Lstm(20), 4, "n")
    rng = np.random.default_rng(1)
    is_one_kernel(check(proto, *(feeds_of(proto, rng, n=n) for n in (1, 2, 9)), threads=2))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("captured", [True, False])
def test_a_scan_of_a_cell_is_one_kernel(cell, captured):
    proto = scanned(cell(24), 40, 2, captured)
    fusion = check(proto, feeds_of(proto, np.random.default_rng(2)), threads=2)
    is_one_kernel(fusion)


def test_the_length_of_a_scan_may_be_free():
    proto = scanned(Gru(9), "t", 3, captured=True)
    rng = np.random.default_rng(3)
    is_one_kernel(check(proto, *(feeds_of(proto, rng, t=t) for t in (1, 2, 17))))


@settings(max_examples=examples(24), deadline=None)
@given(st.data())
def test_any_cell_gives_what_the_runtime_gives(data):
    draw = data.draw
    cell = draw(st.sampled_from(CELLS))(draw(st.integers(2, 70)), draw(st.integers(0, 9)))
    proto = written_out(
        cell,
        draw(st.integers(3, 6)),
        draw(st.integers(1, 10)),
        draw(st.integers(0, 1)),
        draw(st.booleans()),
    )
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    is_one_kernel(check(proto, feeds_of(proto, rng), threads=2))


def changed(change):
    proto = written_out(Gru(16), 4, 2, ends=False)
    change(proto.graph)
    return proto


def named(graph, name):
    return next(node for node in graph.node if node.output[0] == name)


def test_what_is_no_such_loop_is_left():
    def same(graph):
        del graph

    def other_matrix(graph):
        named(graph, "hz2").input[1] = "Ur"

    def unknown_matrix(graph):
        (matrix,) = (initializer for initializer in graph.initializer if initializer.name == "Uz")
        graph.initializer.remove(matrix)
        graph.input.append(helper.make_tensor_value_info("Uz", TensorProto.FLOAT, [16, 16]))

    def read_elsewhere(graph):
        graph.output.append(helper.make_tensor_value_info("z2", TensorProto.FLOAT, [2, 16]))

    def reduced(graph):
        named(graph, "k2").op_type = "Softmax"
        for t in range(4):
            node_ = named(graph, f"k{t}")
            node_.op_type = "Softmax"
            del node_.input[1:]

    for change in (same, other_matrix, unknown_matrix, read_elsewhere, reduced):
        fusion = fused(changed(change))
        steps = fusion is not None and any(n.startswith("Steps") for n in kernels_of(fusion[0]))
        assert steps == (change is same), change.__name__
