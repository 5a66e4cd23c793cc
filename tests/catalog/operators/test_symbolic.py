"""What holds for unknown dimensions holds for known ones: expand, then substitute, and compare."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from tensolog.catalog.operators import ShapeError, Specification, specification
from tensolog.catalog.operators.evaluate import evaluate
from tensolog.catalog.operators.expand import Expansion
from tensolog.catalog.terms.index_notation import Apply, Read, Symbol, apply

from .backend_cases import agree
from .random_nodes import STRATEGIES, Node

# Whose text asks for a dimension that is known: the rank or the number of outputs follows from it.
_KNOWN_ONLY = {"Expand", "ScatterND"}


def unknown(spec: Specification, node: Node) -> tuple[list[Any], dict[int, Any], dict[str, int]]:
    """Return symbolic shapes, the contents of list inputs, and what the symbols stand for."""
    shapes: list[Any] = []
    contents: dict[int, Any] = {}
    known: dict[str, int] = {}
    for i, array in enumerate(node.inputs):
        if array is None:
            shapes.append(None)
            continue
        if i in spec.known_inputs:
            contents[i] = array.tolist()
        names = [f"d{i}_{axis}" for axis in range(array.ndim)]
        known.update(zip(names, array.shape, strict=True))
        shapes.append(names)
    return shapes, contents, known


@pytest.mark.parametrize("op_type", sorted(set(STRATEGIES) - _KNOWN_ONLY))
def test_substitution_commutes_with_expansion(op_type: str) -> None:
    @settings(
        max_examples=6,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def commutes(data: Any) -> None:
        node = STRATEGIES[op_type](data.draw, op_type)
        note(f"{op_type} {[None if a is None else a.shape for a in node.inputs]} {node.attributes}")
        spec = specification("", op_type, node.opset)
        assert spec is not None
        shapes, contents, known = unknown(spec, node)
        general = spec.expand(shapes, node.attributes, values=contents, outputs=node.outputs)
        wanted = spec.evaluate(node.inputs, node.attributes, outputs=node.outputs)
        for first, other in zip(
            evaluate(general.with_values(known), node.inputs), wanted, strict=True
        ):
            assert agree(first, np.asarray(other), 1e-6, 1e-6)
        types = [None if array is None else array.dtype.name for array in node.inputs]
        assert spec.types(
            types, shapes, node.attributes, values=contents, outputs=node.outputs
        ) == [array.dtype.name for array in wanted]

    commutes()


def test_unknown_requirement_fails_when_known() -> None:
    spec = specification("", "MatMul", 21)
    assert spec is not None
    general = spec.expand([("m", "k"), ("j", "n")])
    assert [text for _, text in general.requirements]
    with pytest.raises(ShapeError, match="k: "):
        general.with_values({"k": 3, "j": 4})


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_unknown_attributes(data: Any) -> None:
    group, per_group, out = (data.draw(st.integers(1, 2)) for _ in range(3))
    stride, dilation = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 2))
    low, high = data.draw(st.integers(0, 1)), data.draw(st.integers(0, 1))
    known: dict[str, Any] = {"stride": stride, "dilation": dilation, "g": group}
    known |= {"low": low, "high": high}
    rng = np.random.default_rng(0)
    inputs = [
        rng.normal(size=(1, group * per_group, 5)).astype(np.float32),
        rng.normal(size=(group * out, per_group, 2)).astype(np.float32),
    ]
    numbers = {name: Symbol(name, "integer") for name in known}
    spec = specification("", "Conv", 21)
    assert spec is not None
    general = spec.expand(
        [array.shape for array in inputs],
        {
            "strides": [numbers["stride"]],
            "dilations": [numbers["dilation"]],
            "group": numbers["g"],
            "pads": [numbers["low"], numbers["high"]],
        },
    )
    attributes = {
        "strides": [stride],
        "dilations": [dilation],
        "group": group,
        "pads": [low, high],
    }
    (wanted,) = spec.evaluate(inputs, attributes)
    (got,) = evaluate(general.with_values(known), list(inputs))
    assert agree(got, wanted, 1e-6, 1e-6)


def test_an_expansion_can_be_read() -> None:
    spec = specification("", "MatMul", 21)
    assert spec is not None
    (output,) = spec.expand([("b", "m", "k"), ("k", "n")]).outputs
    text = "Y[b1 < b, i2 < m, j3 < n] = sum(l4 < k) (A[b1, i2, l4] * B[l4, j3])"
    assert str(output) == text
    pool = specification("", "MaxPool", 21)
    assert pool is not None
    (output,) = pool.expand([("n", 1, "w")], {"kernel_shape": [2], "pads": [1, 0]}).outputs
    condition = "(0 <= ((x3 + k4) - 1)) and (((x3 + k4) - 1) < w)"
    assert str(output).endswith(f"max(k4 < 2, if {condition}) X[b1, f2, (x3 + k4) - 1]")


def test_unknown_real_attribute() -> None:
    spec = specification("", "LeakyRelu", 21)
    assert spec is not None
    general = spec.expand([("n",)], {"alpha": Symbol("alpha", "real")})
    data = np.array([-2, 3], np.float32)
    (got,) = evaluate(general.with_values({"alpha": 0.25, "n": 2}), [data])
    assert got.tolist() == [-0.5, 3]


def test_folds_use_that_dimensions_are_not_negative() -> None:
    d, integer = Symbol("d"), Symbol("p", "integer")
    assert apply("max", d, 0) == d
    assert apply("max", integer, 0) == Apply("max", (integer, 0))
    assert apply("min", 0, d) == 0
    assert apply("-", apply("+", d, 3), 3) == d
    assert apply("min", 2**63 - 1, d) == d
    assert apply("+", Read("B", (d,)), 0) == apply("+", 0, Read("B", (d,))) == Read("B", (d,))
    assert apply("//", d, 0) == Apply("//", (d, 0))
    spec = specification("", "Slice", 21)
    assert spec is not None
    values = {1: [0], 2: [-1], 3: [1], 4: [1]}
    (shape,) = spec.shapes([("n", "c"), (1,), (1,), (1,), (1,)], values=values)
    assert shape[0] == Symbol("n")


def test_what_must_hold_of_unknown_dimensions_is_stated() -> None:
    def stated(op_type: str, *arguments: Any, **keywords: Any) -> Expansion:
        spec = specification("", op_type, 21)
        assert spec is not None
        return spec.expand(*arguments, **keywords)

    expand = stated("Expand", [("n",), (1,)], values={1: [4]})
    assert expand.with_values({"n": 1}).outputs[0].shape == (4,)
    einsum = stated("Einsum", [("m", "k"), ("l", "n")], {"equation": "ij,jk->ik"})
    assert einsum.with_values({"k": 3, "l": 3}).outputs[0].shape == (Symbol("m"), Symbol("n"))
    conv = stated("Conv", [("n", "c", "w"), ("m", "c", 3)])
    assert conv.with_values({"w": 3}).outputs[0].shape == (Symbol("n"), Symbol("m"), 1)
    for expansion, wrong in [
        (expand, {"n": 3}),
        (einsum, {"k": 3, "l": 2}),
        (conv, {"w": 1}),
    ]:
        with pytest.raises(ShapeError, match="doesn't hold"):
            expansion.with_values(wrong)
