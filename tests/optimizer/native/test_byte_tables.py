"""Functions of one 8-bit tensor: tables of what the runtime gives, equal to the bit."""

import numpy as np
import pytest
from onnx import helper
from tensolog.optimizer.native.byte_tables import lookups
from tensolog.optimizer.native.loops.kernel_region import Meanings

from .build import (
    built_together,
    needs_compiler,
    opened,
    typed,
)
from .test_elements import typed_model

pytestmark = needs_compiler
node = helper.make_node
SCALES = {"s": np.float32(0.043), "t": np.float32(0.021)}
GELU = (
    node("Div", ["a", "root"], ["b"]),
    node("Erf", ["b"], ["c"]),
    node("Add", ["c", "one"], ["d"]),
    node("Mul", ["a", "d"], ["e"]),
    node("Mul", ["e", "half"], ["f"]),
)
NUMBERS = {"root": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5)}


def activation(x_dtype, result, behind=GELU, shape=("n", 7), constants=(), outputs=()):
    """x, of 8 bits, dequantized as a, and f quantized as y."""
    low = {name: np.dtype(name).type(np.iinfo(name).min // 3 + 9) for name in (x_dtype, result)}
    nodes = [
        node("DequantizeLinear", ["x", "s", "z"], ["a"]),
        *behind,
        node("QuantizeLinear", ["f", "t", "w"], ["y"]),
    ]
    arrays = {**SCALES, **NUMBERS, "z": low[x_dtype], "w": low[result], **dict(constants)}
    types = {"x": (x_dtype, shape)}, {"y": (result, shape), **dict(outputs)}
    return typed_model(nodes, *types, arrays)


def found_in(proto):
    graph = typed(proto)
    return graph, lookups(Meanings(graph), graph.nodes)


def test_each_number_gives_what_the_runtime_gives():
    pairs = [(a, b) for a in ("int8", "uint8") for b in ("int8", "uint8")]
    cases = [(activation(*pair), *found_in(activation(*pair))) for pair in pairs]
    tables = {pair: (graph, table) for pair, (_, graph, (table,)) in zip(pairs, cases, strict=True)}
    models, library = built_together(tables)
    for (x_dtype, result), (proto, *_) in zip(pairs, cases, strict=True):
        changed = models[x_dtype, result]
        assert len(changed.graph.node) == 1
        limits = np.iinfo(x_dtype)
        numbers = np.arange(limits.min, limits.max + 1, dtype=x_dtype)
        for x in (np.resize(numbers, (259, 7)), np.resize(numbers, (4000, 7)), numbers[:7][None]):
            wanted = opened(proto).run(None, {"x": x})
            np.testing.assert_array_equal(
                opened(changed, library, threads=2).run(None, {"x": x}), wanted
            )


@pytest.mark.parametrize(
    "proto",
    [
        activation(
            "int8",
            "int8",
            [node("Add", ["a", "row"], ["e"]), node("Tanh", ["e"], ["f"])],
            constants={"row": np.ones(7, np.float32)},
        ),
        activation("int8", "int8", [node("Softmax", ["a"], ["f"])]),
        activation("int8", "int8", outputs={"c": ("float32", ("n", 7))}),
        activation("int16", "int8"),
        typed_model(
            [
                node("DequantizeLinear", ["x", "s"], ["a"]),
                node("QuantizeLinear", ["a", "t"], ["y"]),
            ],
            {"x": ("uint8", [9])},
            {"y": ("uint8", [9])},
            SCALES,
        ),
    ],
    ids=["a number for each column", "rows", "a value in between", "16 bits", "nothing between"],
)
def test_what_is_no_function_of_one_number_is_left(proto):
    assert not found_in(proto)[1]


def test_two_operands_are_no_function_of_one():
    nodes = [
        node("DequantizeLinear", ["x", "s"], ["a"]),
        node("DequantizeLinear", ["r", "s"], ["b"]),
        node("Mul", ["a", "b"], ["f"]),
        node("QuantizeLinear", ["f", "t"], ["y"]),
    ]
    types = {"x": ("uint8", [9]), "r": ("uint8", [9])}, {"y": ("uint8", [9])}
    assert not found_in(typed_model(nodes, *types, SCALES))[1]
