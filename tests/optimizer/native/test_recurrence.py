"""Loops that are written out step by step: found again, and computed in one kernel."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from tensolog.optimizer.graph.branches import unroll_loops
from tensolog.optimizer.graph.convert import to_model
from tensolog.optimizer.graph.infer import infer_types

from tests.campaigns import examples

from .build import check, fused, kernels_of, model, needs_compiler, opened, typed

pytestmark = needs_compiler
node = helper.make_node
rng = np.random.default_rng(0)


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def decays(*shape):
    return rng.uniform(0.2, 0.95, shape).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


def picked(kind, source, index, step, axis, constants):
    """Nodes that give element `at` of a source along an axis, without it, as `step`."""
    if kind == "gather":
        constants[f"at{index}"] = np.array(index, np.int64)
        return [node("Gather", [source, f"at{index}"], [step], axis=axis)]
    constants |= {f"from{index}": ints(index), f"to{index}": ints(index + 1), "axis": ints(axis)}
    names = [source, f"from{index}", f"to{index}", "axis"]
    return [
        node("Slice", names, [f"{step}_kept"]),
        node("Squeeze", [f"{step}_kept", "axis"], [step]),
    ]


def linear(count, kind="gather", backwards=False, last=False, shape=(2, 40), batch=None):
    """h = a h + b over axis 1 of a and b, all h side by side."""
    nodes, constants, rows = [], {"axis": ints(1)}, []
    state = "h"
    order = range(count)[::-1] if backwards else range(count)
    for t in order:
        for source in ("a", "b"):
            nodes += picked(kind, source, t, f"{source}_{t}", 1, constants)
        nodes += [
            node("Mul", [f"a_{t}", state], [f"kept_{t}"]),
            node("Add", [f"kept_{t}", f"b_{t}"], [f"h_{t}"]),
            node("Unsqueeze", [f"h_{t}", "axis"], [f"row_{t}"]),
        ]
        state = f"h_{t}"
        rows.append(f"row_{t}")
    nodes.append(node("Concat", rows, ["y"], axis=1))
    first = shape[0] if batch is None else batch
    whole = [first, count, *shape[1:]]
    outputs = {"y": whole}
    if last:
        nodes.append(node("Identity", [state], ["end"]))
        outputs["end"] = [first, *shape[1:]]
    return model(nodes, {"a": whole, "b": whole, "h": [first, *shape[1:]]}, outputs, constants)


@pytest.mark.parametrize("kind", ["gather", "slice"])
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("width", [1, 15, 40, 700])
def test_a_linear_recurrence_is_one_kernel(kind, backwards, width):
    proto = linear(6, kind, backwards, shape=(2, width))
    feeds = {"a": decays(2, 6, width), "b": normal(2, 6, width), "h": normal(2, width)}
    check(proto, feeds, expect=1, threads=2)


def test_the_state_at_the_end_is_an_output_too():
    proto = linear(5, last=True)
    feeds = {"a": decays(2, 5, 40), "b": normal(2, 5, 40), "h": normal(2, 40)}
    changed, _ = check(proto, feeds, expect=1)
    assert [node.op_type for node in changed.graph.node if not node.domain] in ([], ["Identity"])


def test_the_batch_may_be_free():
    proto = linear(4, batch="n")
    feeds = [{"a": decays(n, 4, 40), "b": normal(n, 4, 40), "h": normal(n, 40)} for n in (1, 3, 8)]
    check(proto, *feeds, expect=1)


@pytest.mark.parametrize(
    ("count", "added"),
    [
        (3, lambda t, state: f"a_{2 - t}"),  # forwards and backwards, which meet in the middle
        (4, lambda t, state: "a_1"),  # what moves, and what does not, are one in the second step
        (4, lambda t, state: state if t else "g"),  # states that begin otherwise
    ],
)
def test_what_is_one_value_in_the_second_step_alone_is_not_taken_for_one(count, added):
    nodes, constants, rows = [], {"axis": ints(1)}, []
    state = "h"
    for t in range(count):
        nodes += picked("gather", "a", t, f"a_{t}", 1, constants)
    for t in range(count):
        nodes += [
            node("Mul", [f"a_{t}", state], [f"kept_{t}"]),
            node("Add", [f"kept_{t}", added(t, state)], [f"h_{t}"]),
            node("Unsqueeze", [f"h_{t}", "axis"], [f"row_{t}"]),
        ]
        state = f"h_{t}"
        rows.append(f"row_{t}")
    nodes += [node("Identity", ["g"], ["same"]), node("Concat", rows, ["y"], axis=1)]
    shapes = {"a": [2, count, 40], "h": [2, 40], "g": [2, 40]}
    proto = model(nodes, shapes, {"y": [2, count, 40], "same": [2, 40]}, constants)
    check(proto, {name: normal(*shape) for name, shape in shapes.items()})


def selective(tokens, inner, state):
    """A selective scan, as it is exported: decays and inputs of all steps, a state, a product."""
    nodes = [
        node("Softplus", ["d"], ["step"]),
        node("Unsqueeze", ["step", "last"], ["wide"]),
        node("Mul", ["wide", "A"], ["rate"]),
        node("Exp", ["rate"], ["decay"]),
        node("Mul", ["step", "x"], ["weighed"]),
        node("Unsqueeze", ["weighed", "last"], ["column"]),
        node("Unsqueeze", ["into", "second"], ["row"]),
        node("Mul", ["column", "row"], ["fed"]),
    ]
    constants = {
        "A": -np.exp(normal(inner, state)),
        "last": ints(3),
        "second": ints(2),
        "zero": np.zeros((1, inner, state), np.float32),
    }
    hidden, rows = "zero", []
    for t in range(tokens):
        constants |= {f"t{t}": np.array(t, np.int64), f"shape{t}": ints(1, 1, inner)}
        nodes += [
            node("Gather", ["decay", f"t{t}"], [f"a{t}"], axis=1),
            node("Mul", [f"a{t}", hidden], [f"k{t}"]),
            node("Gather", ["fed", f"t{t}"], [f"b{t}"], axis=1),
            node("Add", [f"k{t}", f"b{t}"], [f"h{t}"]),
            node("Gather", ["out", f"t{t}"], [f"c{t}"], axis=1),
            node("Unsqueeze", [f"c{t}", "second"], [f"r{t}"]),
            node("MatMul", [f"h{t}", f"r{t}"], [f"p{t}"]),
            node("Reshape", [f"p{t}", f"shape{t}"], [f"y{t}"]),
        ]
        hidden = f"h{t}"
        rows.append(f"y{t}")
    nodes.append(node("Concat", rows, ["y"], axis=1))
    wide = {"d": [1, tokens, inner], "x": [1, tokens, inner]}
    wide |= {"into": [1, tokens, state], "out": [1, tokens, state]}
    return model(nodes, wide, {"y": [1, tokens, inner]}, constants)


@pytest.mark.parametrize("state", [3, 16, 50])
def test_a_selective_scan_is_one_kernel_with_its_decays(state):
    proto = selective(9, 20, state)
    feeds = {"d": normal(1, 9, 20), "x": normal(1, 9, 20)}
    feeds |= {"into": normal(1, 9, state), "out": normal(1, 9, state)}
    changed, _ = check(proto, feeds, expect=2, threads=2)
    assert sum(name.startswith("Steps") for name in kernels_of(changed)) == 1


def test_an_online_softmax_has_states_of_numbers_and_of_rows():
    """The largest so far, the mass, and what is weighed by it, each of another shape."""
    nodes, constants, rows = [], {"axis": ints(1), "last": ints(-1)}, []
    largest, mass = "m", "z"
    for t in range(5):
        constants[f"t{t}"] = np.array(t, np.int64)
        nodes += [
            node("Gather", ["s", f"t{t}"], [f"s{t}"], axis=1),
            node("ReduceMax", [f"s{t}", "last"], [f"top{t}"], keepdims=1),
            node("Max", [f"top{t}", largest], [f"m{t}"]),
            node("Sub", [f"s{t}", f"m{t}"], [f"less{t}"]),
            node("Exp", [f"less{t}"], [f"e{t}"]),
            node("ReduceSum", [f"e{t}", "last"], [f"sum{t}"], keepdims=1),
            node("Sub", [largest, f"m{t}"], [f"down{t}"]),
            node("Exp", [f"down{t}"], [f"scale{t}"]),
            node("Mul", [mass, f"scale{t}"], [f"old{t}"]),
            node("Add", [f"old{t}", f"sum{t}"], [f"z{t}"]),
            node("Mul", [f"e{t}", f"z{t}"], [f"w{t}"]),
            node("Add", [f"w{t}", "h" if t == 0 else f"h{t - 1}"], [f"h{t}"]),
            node("Unsqueeze", [f"h{t}", "axis"], [f"r{t}"]),
        ]
        largest, mass = f"m{t}", f"z{t}"
        rows.append(f"r{t}")
    nodes.append(node("Concat", rows, ["y"], axis=1))
    inputs = {"s": [3, 5, 24], "m": [3, 1], "z": [3, 1], "h": [3, 24]}
    proto = model(nodes, inputs, {"y": [3, 5, 24]}, constants)
    feeds = {"s": normal(3, 5, 24), "m": normal(3, 1), "z": normal(3, 1) ** 2, "h": normal(3, 24)}
    changed, _ = check(proto, feeds, expect=1)
    assert kernels_of(changed)[0].startswith("Steps")


def test_a_scan_of_few_steps_is_one_kernel():
    """ONNX's own loop is written out, and found again."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            node("Mul", ["h", "a"], ["k"]),
            node("Add", ["k", "b"], ["next"]),
            node("Tanh", ["next"], ["y"]),
        ],
        "body",
        [info(name, TensorProto.FLOAT, [3, 20]) for name in ("h", "a", "b")],
        [info(name, TensorProto.FLOAT, [3, 20]) for name in ("next", "y")],
    )
    scan = node("Scan", ["h", "a", "b"], ["end", "y"], body=body, num_scan_inputs=2)
    inputs = {"h": [3, 20], "a": [7, 3, 20], "b": [7, 3, 20]}
    proto = model([scan], inputs, {"end": [3, 20], "y": [7, 3, 20]})
    graph = typed(proto)
    assert unroll_loops(graph) == 1
    graph.types = infer_types(graph)
    feeds = {"h": normal(3, 20), "a": decays(7, 3, 20), "b": normal(7, 3, 20)}
    changed, _ = check(to_model(graph), feeds)
    assert any(name.startswith("Steps") for name in kernels_of(changed))


def steps_in(proto):
    fusion = fused(proto)
    return fusion is not None and any(name.startswith("Steps") for name in kernels_of(fusion[0]))


def edited(change, count=5):
    proto = linear(count)
    change(proto.graph)
    return proto


def test_what_is_no_loop_is_not_taken_for_one():
    assert steps_in(edited(lambda graph: None))

    def read_elsewhere(graph):
        graph.output.append(helper.make_tensor_value_info("kept_2", TensorProto.FLOAT, [2, 40]))

    def other_operator(graph):
        next(node for node in graph.node if node.output[0] == "h_3").op_type = "Sub"

    def other_place(graph):
        (initial,) = (initializer for initializer in graph.initializer if initializer.name == "at3")
        initial.CopyFrom(numpy_helper.from_array(np.array(2, np.int64), "at3"))

    def other_state(graph):
        next(node for node in graph.node if node.output[0] == "kept_3").input[1] = "h_1"

    def turned(graph):
        graph.node[-1].input[:] = reversed(graph.node[-1].input)

    for change in (read_elsewhere, other_operator, other_place, other_state, turned):
        assert not steps_in(edited(change)), change.__name__


def test_steps_that_grow_or_make_truth_values_are_no_loop():
    def grown(kind):
        nodes, constants, state, rows = [], {"axis": ints(1), "minus": ints(-1)}, "h", []
        for t in range(4):
            nodes += picked("gather", "a", t, f"a_{t}", 1, constants)
            if kind == "Concat":
                nodes += [
                    node("Concat", [state, f"a_{t}"], [f"h_{t}"], axis=1),
                    node("ReduceSum", [f"h_{t}", "minus"], [f"row_{t}"]),
                ]
            else:
                nodes += [
                    node("Add", [state, f"a_{t}"], [f"h_{t}"]),
                    node("Greater", [f"h_{t}", f"a_{t}"], [f"large_{t}"]),
                    node("Unsqueeze", [f"large_{t}", "axis"], [f"row_{t}"]),
                ]
            state = f"h_{t}"
            rows.append(f"row_{t}")
        nodes.append(node("Concat", rows, ["y"], axis=1))
        y = [2, 4] if kind == "Concat" else [2, 4, 8]
        proto = model(nodes, {"a": [2, 4, 8], "h": [2, 8]}, {"y": y}, constants)
        if kind != "Concat":
            proto.graph.output[0].type.tensor_type.elem_type = TensorProto.BOOL
        return proto

    for kind in ("Concat", "Greater"):
        assert not steps_in(grown(kind))


@settings(max_examples=examples(24), deadline=None)
@given(st.data())
def test_any_recurrence_element_by_element_gives_what_the_runtime_gives(data):
    draw = data.draw
    count = draw(st.integers(3, 6))
    operators = draw(
        st.lists(st.sampled_from(["Add", "Mul", "Sub", "Max", "Min"]), min_size=1, max_size=4)
    )
    squashed = draw(st.sampled_from(["Tanh", "Sigmoid", "Relu"]))
    shape = draw(st.lists(st.integers(1, 20), min_size=1, max_size=3))
    axis = draw(st.integers(0, len(shape)))
    whole = [*shape[:axis], count, *shape[axis:]]
    nodes, constants, rows, state = [], {"axis": ints(axis)}, [], "h"
    for t in range(count):
        nodes += picked("gather", "a", t, f"a_{t}", axis, constants)
        value = state
        for number, operator in enumerate(operators):
            nodes.append(node(operator, [value, f"a_{t}"], [f"v_{t}_{number}"]))
            value = f"v_{t}_{number}"
        nodes += [
            node(squashed, [value], [f"h_{t}"]),
            node("Unsqueeze", [f"h_{t}", "axis"], [f"row_{t}"]),
        ]
        state = f"h_{t}"
        rows.append(f"row_{t}")
    nodes.append(node("Concat", rows, ["y"], axis=axis))
    proto = model(nodes, {"a": whole, "h": shape}, {"y": whole}, constants)
    seed = np.random.default_rng(draw(st.integers(0, 1000)))
    feeds = {"a": seed.standard_normal(whole), "h": seed.standard_normal(shape)}
    fusion = check(proto, {name: array.astype(np.float32) for name, array in feeds.items()})
    if any(size != 1 for size in shape[axis:]):  # elsewhere, elements of a row lie apart
        assert fusion is not None
        assert kernels_of(fusion[0])[0].startswith("Steps")


def scanned(steps, backwards=False, captured=False, axis=0):
    """A Scan with two results of each step and its state."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            node("Mul", ["h", "a"], ["k"]),
            node("Add", ["k", "b"], ["j"]),
            node("Mul", ["j", "scale"] if captured else ["j", "j"], ["next"]),
            node("Tanh", ["next"], ["y"]),
            node("Sub", ["y", "h"], ["z"]),
        ],
        "body",
        [info(name, TensorProto.FLOAT, [3, 20]) for name in ("h", "a", "b")],
        [info(name, TensorProto.FLOAT, [3, 20]) for name in ("next", "y", "z")],
    )
    scan = node("Scan", ["h", "a", "b"], ["end", "y", "z"], body=body, num_scan_inputs=2)
    scan.attribute.extend(
        [
            helper.make_attribute("scan_input_axes", [axis, axis]),
            helper.make_attribute("scan_input_directions", [int(backwards)] * 2),
        ]
    )
    whole = [steps, 3, 20] if axis == 0 else [3, steps, 20]
    inputs = {"h": [3, 20], "a": whole, "b": whole}
    inputs |= {"scale": [20]} if captured else {}
    return model([scan], inputs, {"end": [3, 20], "y": [steps, 3, 20], "z": [steps, 3, 20]})


@pytest.mark.parametrize(
    ("steps", "options"),
    [
        (200, {}),
        (100, {"backwards": True}),
        (40, {"captured": True}),
        (2, {}),
        ("t", {}),
        (50, {"axis": 1}),
    ],
)
def test_a_scan_of_many_steps_is_one_kernel(steps, options):
    proto = scanned(steps, **options)
    feeds = []
    for count in (1, 9, 70) if steps == "t" else (steps,):
        whole = (3, count, 20) if "axis" in options else (count, 3, 20)
        inputs = {"h": normal(3, 20) / 9, "a": decays(*whole), "b": decays(*whole) / 9}
        feeds.append({**inputs, "scale": decays(20)} if "captured" in options else inputs)
    changed, _ = check(proto, *feeds, expect=1)
    assert kernels_of(changed)[0].startswith("Steps")
    assert not any(node.op_type == "Scan" for node in changed.graph.node)


def test_a_scan_of_no_steps_ends_as_it_begins():
    """The runtime refuses to slice nothing, so that it is no oracle here."""
    changed, library = fused(scanned("t"))
    begin, nothing = normal(3, 20), np.zeros((0, 3, 20), np.float32)
    session = opened(changed, library)
    end, *rows = session.run(None, {"h": begin, "a": nothing, "b": nothing})
    np.testing.assert_array_equal(end, begin)
    assert [row.shape for row in rows] == [(0, 3, 20)] * 2


def test_a_loop_whose_body_reads_one_element_after_another_is_one_kernel():
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            node("Gather", ["a", "at"], ["x"], axis=0),
            node("Mul", ["h", "x"], ["k"]),
            node("Tanh", ["k"], ["next"]),
            node("Identity", ["going"], ["goes_on"]),
            node("Identity", ["next"], ["y"]),
        ],
        "body",
        [
            info("at", TensorProto.INT64, []),
            info("going", TensorProto.BOOL, []),
            info("h", TensorProto.FLOAT, [3, 20]),
        ],
        [
            info("goes_on", TensorProto.BOOL, []),
            info("next", TensorProto.FLOAT, [3, 20]),
            info("y", TensorProto.FLOAT, [3, 20]),
        ],
    )
    loop = node("Loop", ["trips", "true", "h"], ["end", "y"], body=body)
    constants = {"trips": np.array(60, np.int64), "true": np.array(True)}
    inputs = {"h": [3, 20], "a": [60, 3, 20]}
    proto = model([loop], inputs, {"end": [3, 20], "y": [60, 3, 20]}, constants)
    changed, _ = check(proto, {"h": normal(3, 20), "a": normal(60, 3, 20) * 2})
    assert any(name.startswith("Steps") for name in kernels_of(changed))
