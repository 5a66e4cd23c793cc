"""Inputs that say what their absence says are taken out, no others, and ONNX Runtime agrees."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from tensolog.optimizer.graph.convert import load_graph, to_model
from tensolog.optimizer.graph.default_inputs import drop_default_inputs
from tensolog.optimizer.graph.infer import refine_types

BATCH, ENTRIES, HIDDEN, STEPS = 2, 3, 4, 5
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
RNG = np.random.default_rng(0)


def drawn(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def single(
    op_type: str, feeds: dict[int, Any], known: dict[int, Any], outputs: int, **settings: Any
) -> onnx.ModelProto:
    """A model of one node: `feeds` are its inputs by position, `known` its constants."""
    last = max((*feeds, *known))
    names = [f"x{i}" if i in feeds or i in known else "" for i in range(last + 1)]
    inputs = [
        helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, array.shape)
        for i, array in feeds.items()
    ]
    results = [f"y{i}" for i in range(outputs)]
    graph = helper.make_graph(
        [helper.make_node(op_type, names, results, **settings)],
        "single",
        inputs,
        [onnx.ValueInfoProto(name=name) for name in results],
        [numpy_helper.from_array(array, f"x{i}") for i, array in known.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


def run(model: onnx.ModelProto, feeds: dict[int, Any]) -> list[Any]:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return list(session.run(None, {f"x{i}": array for i, array in feeds.items()}))


def remaining_node(model: onnx.ModelProto, feeds: dict[int, Any]) -> onnx.NodeProto:
    """The node after what needn't be said is taken out of it; outputs stay as they were."""
    graph = load_graph(model)
    refine_types(graph)
    drop_default_inputs(graph)
    changed = to_model(graph)
    for first, other in zip(run(model, feeds), run(changed, feeds), strict=True):
        np.testing.assert_array_equal(first, other)
    return changed.graph.node[-1]


def recurrence(op_type: str, known: dict[int, Any], **settings: Any) -> onnx.NodeProto:
    gates = GATES[op_type] * HIDDEN
    feeds = {
        0: drawn(STEPS, BATCH, ENTRIES),
        1: drawn(1, gates, ENTRIES),
        2: drawn(1, gates, HIDDEN),
    }
    outputs = 3 if op_type == "LSTM" else 2
    return remaining_node(
        single(op_type, feeds, known, outputs, hidden_size=HIDDEN, **settings), feeds
    )


def states(op_type: str) -> dict[int, Any]:
    """All optional inputs, each with what it says by being absent."""
    gates = GATES[op_type] * HIDDEN
    said = {
        3: np.zeros((1, 2 * gates), np.float32),
        4: np.full(BATCH, STEPS, np.int32),
        5: np.zeros((1, BATCH, HIDDEN), np.float32),
    }
    if op_type == "LSTM":
        said |= {6: said[5].copy(), 7: np.zeros((1, 3 * HIDDEN), np.float32)}
    return said


@pytest.mark.parametrize("op_type", GATES)
def test_inputs_that_say_what_their_absence_says_are_taken_out(op_type: str) -> None:
    assert list(recurrence(op_type, states(op_type)).input) == ["x0", "x1", "x2"]


@pytest.mark.parametrize(
    ("op_type", "position"), [(name, position) for name in GATES for position in states(name)]
)
def test_an_input_that_says_more_stays(op_type: str, position: int) -> None:
    known = states(op_type)
    known[position].reshape(-1)[0] = 1
    kept = recurrence(op_type, known).input
    assert [name for name in kept if name] == ["x0", "x1", "x2", f"x{position}"]
    assert len(kept) == position + 1


@pytest.mark.parametrize(
    ("op_type", "usual", "other"),
    [
        ("RNN", ["Tanh"], ["Relu"]),
        ("GRU", ["Sigmoid", "Tanh"], ["Tanh", "Tanh"]),
        ("LSTM", ["Sigmoid", "Tanh", "Tanh"], ["Sigmoid", "Tanh", "Relu"]),
    ],
)
def test_usual_activations_are_not_said(op_type: str, usual: list[str], other: list[str]) -> None:
    def said(activations: list[str]) -> list[str]:
        return [
            attribute.name
            for attribute in recurrence(op_type, {}, activations=activations).attribute
        ]

    assert said(usual) == ["hidden_size"]
    assert "activations" in said(other)


def test_zeros_of_a_size_that_only_the_run_tells_are_taken_out() -> None:
    gates = GATES["LSTM"] * HIDDEN
    feeds = {
        0: drawn(STEPS, BATCH, ENTRIES),
        1: drawn(1, gates, ENTRIES),
        2: drawn(1, gates, HIDDEN),
    }
    for value, kept in ((0, 3), (1, 7)):
        model = single("LSTM", feeds, {}, 3, hidden_size=HIDDEN)
        graph = model.graph
        graph.input[0].type.tensor_type.shape.dim[1].dim_param = "N"
        graph.initializer.append(numpy_helper.from_array(np.array([1]), "one"))
        graph.initializer.append(numpy_helper.from_array(np.array([HIDDEN]), "h"))
        fill = numpy_helper.from_array(np.array([value], np.float32))
        nodes = [
            helper.make_node("Shape", ["x0"], ["batch"], start=1, end=2),
            helper.make_node("Concat", ["one", "batch", "h"], ["shape"], axis=0),
            helper.make_node("ConstantOfShape", ["shape"], ["state"], value=fill),
        ]
        graph.node[0].input.extend(["", "", "state", "state"])
        for node in reversed(nodes):
            graph.node.insert(0, node)
        assert len(remaining_node(model, feeds).input) == kept


@pytest.mark.parametrize("past", [0, 2])
@pytest.mark.parametrize("kind", [np.float32, np.bool_])
@pytest.mark.parametrize("changed", [False, True])
def test_masks_that_hide_nothing_are_taken_out(past: int, kind: Any, changed: bool) -> None:
    feeds = {0: drawn(2, 3, 4, 5), 1: drawn(2, 3, 6, 5), 2: drawn(2, 3, 6, 5)}
    if past:
        feeds |= {4: drawn(2, 3, past, 5), 5: drawn(2, 3, past, 5)}
    mask = np.full((4, 6 + past), kind is np.bool_, kind)
    if changed:
        mask[1, 2] = not mask[1, 2]
    node = remaining_node(single("Attention", feeds, {3: mask}, 3), feeds)
    assert ("x3" in node.input) == changed


def test_a_mask_of_fewer_keys_than_there_are_stays() -> None:
    feeds = {0: drawn(2, 3, 4, 5), 1: drawn(2, 3, 6, 5), 2: drawn(2, 3, 6, 5)}
    model = single("Attention", feeds, {3: np.zeros((4, 5), np.float32)}, 1)
    graph = load_graph(model)
    refine_types(graph)
    assert drop_default_inputs(graph) == 0
