"""ONNX's own node tests, run through the specifications."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from tensolog.catalog.errors import TensologError
from tensolog.catalog.operators import specification
from tensolog.catalog.operators.derive import integer_range

Array = np.ndarray[Any, np.dtype[Any]]


class NotCoveredError(Exception):
    """A node test with an operator that no specification describes."""


@dataclass
class Report:
    """What became of the node tests."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


def attribute_values(node: onnx.NodeProto) -> dict[str, object]:
    values: dict[str, object] = {}
    for attribute in node.attribute:
        value = onnx.helper.get_attribute_value(attribute)
        if attribute.type == onnx.AttributeProto.TENSOR:
            value = numpy_helper.to_array(value)
        values[attribute.name] = value
    return values


def run_graph(model: onnx.ModelProto, feeds: dict[str, Array]) -> dict[str, Array]:
    """Evaluate a graph node by node; raise NotCoveredError or a TensologError."""
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    values = {"": None, **feeds}
    for initializer in model.graph.initializer:
        values[initializer.name] = numpy_helper.to_array(initializer)
    for node in model.graph.node:
        attributes = attribute_values(node)
        if node.op_type == "Constant":
            (constant,) = attributes.values()
            kind = np.float32 if isinstance(constant, float | list) else None
            values[node.output[0]] = np.asarray(constant, kind if not _whole(constant) else None)
            continue
        spec = specification(node.domain, node.op_type, opsets.get(node.domain, 1))
        if spec is None or spec.opaque is not None:
            raise NotCoveredError(node.op_type)
        outputs = spec.evaluate(
            [values[name] for name in node.input], attributes, outputs=len(node.output)
        )
        values.update(zip(node.output, outputs, strict=True))
    return {name: array for name, array in values.items() if array is not None}


def _whole(constant: object) -> bool:
    if isinstance(constant, list):
        return all(isinstance(entry, int) for entry in constant)
    return isinstance(constant, int)


# Whose integers are rounded from real numbers: of one within rounding of the middle between two, a
# kernel may find the other.
ROUNDED = ("QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul")


def agree(got: Array, wanted: Array, rtol: float, atol: float, *, rounded: bool = False) -> bool:
    if got.shape != wanted.shape or (got.dtype != wanted.dtype and wanted.dtype.kind != "U"):
        return False
    if wanted.dtype.kind in "OUS":
        return bool((got.astype(object) == wanted.astype(object)).all())
    if rounded and integer_range(wanted.dtype.name) is not None:
        rtol, atol = 0.0, 1.0
    elif wanted.dtype.itemsize <= 2 and wanted.dtype.kind not in "iub":
        rtol, atol = max(rtol, 2e-2), max(atol, 1e-2)  # each node of a graph rounds to 8 bits
    return np.allclose(
        got.astype(np.float64), wanted.astype(np.float64), rtol, atol, equal_nan=True
    )


@cache
def report() -> Report:
    tally = Report()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        for case in load_model_tests(kind="node"):
            if case.model is not None:
                for inputs, outputs in case.data_sets:
                    _run(tally, case, inputs, outputs)
    return tally


def _run(tally: Report, case: Any, inputs: list[Any], outputs: list[Any]) -> None:
    graph = case.model.graph
    kind = "single" if len(graph.node) == 1 else "expanded"
    try:
        names = [value.name for value in graph.input]
        feeds = dict(zip(names, map(_array, inputs), strict=True))
        wanted = dict(zip([v.name for v in graph.output], map(_array, outputs), strict=True))
    except (TypeError, ValueError):
        tally.counts[f"{kind} not tensors"] += 1
        return
    try:
        got = run_graph(case.model, feeds)
    except NotCoveredError:
        tally.counts[f"{kind} not covered"] += 1
        return
    except TensologError as error:
        tally.counts[f"{kind} refused"] += 1
        tally.refused[case.name] = str(error)
        return
    rounded = any(node.op_type in ROUNDED for node in graph.node)
    right = all(
        agree(got[name], array, max(case.rtol, 1e-4), max(case.atol, 1e-6), rounded=rounded)
        for name, array in wanted.items()
    )
    tally.counts[f"{kind} {'passed' if right else 'wrong'}"] += 1
    if not right:
        tally.wrong.append(case.name)


def _array(value: Any) -> Array:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, list | dict) or value is None:
        raise TypeError("a sequence or an optional value")
    return np.asarray(value)
