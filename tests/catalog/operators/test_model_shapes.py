"""Shapes agree with ONNX's own inference, node by node, over the models of its test suite."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx
import onnx.shape_inference
import pytest
from onnx import numpy_helper
from tensolog.catalog.operators import ShapeError, specification

from .backend_cases import attribute_values

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
Dimensions = tuple[int | str | None, ...]


def dimensions(value: onnx.ValueInfoProto) -> Dimensions | None:
    if not value.type.tensor_type.HasField("shape"):
        return None
    return tuple(
        d.dim_value if d.HasField("dim_value") else d.dim_param or None
        for d in value.type.tensor_type.shape.dim
    )


def compare(model: onnx.ModelProto, counts: Counter[str]) -> list[str]:
    """Count what agrees; return what doesn't."""
    graph = model.graph
    constants = {entry.name: entry for entry in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            constants[node.output[0]] = node.attribute[0].t
    shapes = {v.name: dimensions(v) for v in [*graph.input, *graph.output, *graph.value_info]}
    shapes |= {name: tuple(tensor.dims) for name, tensor in constants.items()}
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    wrong = []
    for node in graph.node:
        spec = specification(node.domain, node.op_type, opsets.get(node.domain, 1))
        inputs = [shapes.get(name) for name in node.input]
        known = all(
            not name or (shape is not None and None not in shape)
            for name, shape in zip(node.input, inputs, strict=True)
        )
        if spec is None or spec.opaque is not None or not known:
            counts["not covered"] += 1
            continue
        values = {
            position: numpy_helper.to_array(constants[node.input[position]]).tolist()
            for position in spec.known_inputs
            if position < len(node.input) and node.input[position] in constants
        }
        try:
            got = spec.shapes(
                inputs, attribute_values(node), values=values, outputs=len(node.output)
            )
        except ShapeError as error:
            counts["refused"] += 1
            if "must be known" not in str(error):
                wrong.append(f"{node.op_type}: {error}")
            continue
        for name, shape in zip(node.output, got, strict=True):
            computed = tuple(d if isinstance(d, int) else str(d) for d in shape)
            wanted = shapes.get(name)
            if wanted is not None and None not in wanted:
                counts["agree" if computed == wanted else "differ"] += 1
                if computed != wanted:
                    wrong.append(f"{node.op_type}: {computed} instead of {wanted}")
    return wrong


@pytest.mark.parametrize("folder", ["light", "simple", "pytorch-converted", "pytorch-operator"])
def test_shapes_agree_with_inference(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    for path in sorted((DATA / folder).rglob("*.onnx")):
        model = onnx.shape_inference.infer_shapes(onnx.load(path), data_prop=True)
        wrong += [f"{path.name} {reason}" for reason in compare(model, counts)]
    with capsys.disabled():
        print(f"\nshapes of {folder} models: {dict(counts)}")
    assert wrong == []
    assert counts["agree"] > 0
