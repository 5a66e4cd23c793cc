"""Every elementwise operator: its specification evaluated, against the C made from it."""

import numpy as np
import pytest
from tensolog.catalog.operators import specified
from tensolog.optimizer.codegen import find_compiler
from tensolog.optimizer.fuse.program.dag import Node
from tensolog.optimizer.fuse.program.evaluate import evaluate
from tensolog.optimizer.fuse.program.numpy_operators import FUNCTIONS, meaning

from .build import Builder

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="there is no C compiler")

# Integers wrap around, and lists of operands or attributes a node of a program doesn't have.
REFUSED = {
    "BitShift": "shift_left has no form in C",
    "BitwiseAnd": "bit_and has no form in C",
    "BitwiseNot": "bit_not has no form in C",
    "BitwiseOr": "bit_or has no form in C",
    "BitwiseXor": "bit_xor has no form in C",
}
# They take types, lists or quantized numbers; Cast is tested below.
LEFT_OUT = {"Cast", "CastLike", "DequantizeLinear", "Dropout", "QuantizeLinear"}
LOGICAL = {"And", "Or", "Xor", "Not"}
BOOLEAN = LOGICAL | {"Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "IsNaN", "IsInf"}
ATTRIBUTES = {"BitShift": {"direction": "LEFT"}}


def elementwise():
    for name in specified():
        spec = meaning(name)
        if spec is not None and not spec.opaque and spec.kind == "elementwise":
            yield name
    yield from FUNCTIONS


def operands(name, dtype):
    rng = np.random.default_rng(3)
    ends = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -3.5, 30.0, -30.0])
    first = np.concatenate([ends, rng.normal(size=500), rng.uniform(-6, 6, 500)])
    second = rng.permutation(first)
    if name == "Pow":
        second = np.round(second)
    if name in LOGICAL:
        first, second = first > 0, second > 0
    arrays = [first, second, rng.permutation(first)]
    kept = [a if a.dtype == bool else a.astype(dtype) for a in arrays]
    if name == "Where":
        kept[0] = kept[0] > 0
    return kept[: {"Where": 3, "Clip": 1}.get(name, number(name))]


def number(name):
    block = meaning(name).blocks[0]
    return 2 if block.inputs[0].variadic else len([i for i in block.inputs if not i.optional])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_specifications_become_c(dtype):
    """All operators in one translation unit: each a fused operator of its own."""
    from tensolog.optimizer.fuse.codegen import compile_plan
    from tensolog.optimizer.fuse.planning.fusion_plan import FusedOperator, FusionPlan

    builder, steps, outputs, wanted = Builder(dtype), [], [], {}
    for name in elementwise():
        if name in LEFT_OUT:
            continue
        arrays = operands(name, dtype)
        inputs = [builder.input(array) for array in arrays]
        kind = "bool" if name in BOOLEAN else dtype
        node = builder.cell(name, *inputs, dtype=kind, **ATTRIBUTES.get(name, {}))
        steps.append(FusedOperator("Cell", (node,), tuple(inputs), (node,), (1, 1), "none"))
        outputs.append(node)
        if name in REFUSED:
            wanted[name] = None
        elif name in FUNCTIONS:  # which no specification computes as exactly
            with np.errstate(all="ignore"):
                wanted[name] = evaluate(Node(0, name), arrays)
        else:
            spec = meaning(name)
            wanted[name] = spec.evaluate(arrays, ATTRIBUTES.get(name, {}), outputs=1)[0]
    program = builder.program(*outputs)
    compiled = compile_plan(program, FusionPlan(tuple(steps), 0.0, "cost"))
    refused = {program.nodes[nodes[0]].op: why for nodes, why in compiled.fallbacks}
    assert refused.keys() == REFUSED.keys(), refused
    assert all(text in refused[name] for name, text in REFUSED.items())
    values = dict(zip(program.inputs, builder.arrays, strict=True))
    for step in compiled.steps:
        name = program.nodes[step.outputs[0]].op
        if name in REFUSED:
            continue
        (result,) = step.kernel.run(step.function, values, 1).values()
        assert result.dtype == wanted[name].dtype, name
        if result.dtype == bool:
            np.testing.assert_array_equal(result, wanted[name], name)
        else:
            # rounded once there, at each operation here
            tolerance = 1e-14 if dtype == "float64" else 2e-6
            np.testing.assert_allclose(result, wanted[name], tolerance, tolerance, err_msg=name)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_specifications_beyond_onnx_mean_what_numpy_computes(name):
    """But for cancellation, overflow and signs of zeros."""
    arrays = [array[10:] + 0.0 for array in operands(name, "float64")]
    with np.errstate(all="ignore"):
        wanted = evaluate(Node(0, name), arrays)
        (result,) = meaning(name).evaluate(arrays, {}, outputs=1)
    np.testing.assert_allclose(result, wanted, 1e-12, 1e-15)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "float32"]
)
def test_casts_are_numpys(dtype):
    rng = np.random.default_rng(5)
    array = rng.integers(0, 2 if dtype == "bool" else 100, size=(37, 5)).astype(dtype)
    builder = Builder()
    wide = builder.cell("Cast", builder.input(array), dtype="float64", to="float64")
    twice = builder.cell("Mul", wide, wide)
    compiled = builder.compiled([twice])
    assert not compiled.fallbacks
    np.testing.assert_array_equal(compiled.run([array])[0], array.astype(float) ** 2)


def test_integer_arithmetic_is_numpys():
    array = np.arange(12, dtype=np.int64).reshape(3, 4)
    builder = Builder("int64")
    x = builder.input(array)
    compiled = builder.compiled([builder.cell("Mul", x, x)])
    assert "int64" in compiled.fallbacks[0][1]
    np.testing.assert_array_equal(compiled.run([array])[0], array * array)
