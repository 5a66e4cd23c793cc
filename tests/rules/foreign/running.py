"""Both sides of a rule under ONNX Runtime at given operands, one node after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
from onnx import helper
from tensolog.catalog.terms.syntax_tree import Expression, Name
from tensolog.rules import Rule
from tensolog.rules.language.expressions import KnownNumbers
from tensolog.rules.language.functions import UnknownError
from tensolog.rules.language.syntax import PatternNode, Star

OPSET = 17
Arrays = dict[str, np.ndarray]


class NoMatch(Exception):  # noqa: N818
    """The operands are not those that the rule speaks of."""


class Values(KnownNumbers):
    """The arrays of one side, and what the rule's names stand for."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.arrays: Arrays = dict(arrays)
        self.names: dict[str, Any] = {}

    def shape_of(self, name: str) -> tuple[int | str, ...]:
        if name not in self.arrays:
            raise UnknownError
        return self.arrays[name].shape

    def shapes_of(self, name: str) -> tuple[tuple[int | str, ...], ...]:
        return (self.shape_of(name),)

    def dtype_of(self, name: str) -> str:
        return str(self.arrays[name].dtype)


def run_both_sides(rule: Rule, operands: Mapping[str, np.ndarray]) -> tuple[Arrays, Arrays]:
    """The outputs of the match and of the rewrite by name; NoMatch where `given` fails."""
    values = Values(operands)
    for operand in rule.operands:
        _bind(values, operand.shape, values.arrays[operand.name].shape)
    for node in rule.match:
        _run(values, node, matching=True)
    for operand in rule.operands:
        _check(values, operand.shape, values.arrays[operand.name].shape)
    for condition in rule.given:
        if not values.evaluate(condition):
            raise NoMatch(str(condition))
    left = {name: values.arrays[name] for name in rule.outputs}
    right_values = Values(values.arrays)
    right_values.names = values.names
    for node in rule.rewrite:
        _run(right_values, node, matching=False)
    right = {output.value for node in rule.rewrite for output in node.outputs}
    right_arrays = {name: right_values.arrays[name] for name in rule.outputs if name in right}
    for alias in rule.aliases:
        assert alias.source.value is not None
        right_arrays[alias.output] = right_values.arrays[alias.source.value]
    return left, right_arrays


def _bind(values: Values, shape: tuple[Expression, ...] | None, sizes: Sequence[int]) -> None:
    if shape is None:
        return
    stars = [i for i, size in enumerate(shape) if isinstance(size, Star)]
    spread = len(sizes) - len(shape) + len(stars)
    if spread < 0 or (not stars and spread):
        raise NoMatch("rank")
    start = 0
    for size in shape:
        if isinstance(size, Star):
            values.names.setdefault(size.text, tuple(sizes[start : start + spread]))
            start += spread
            continue
        if isinstance(size, Name):
            values.names.setdefault(size.text, sizes[start])
        start += 1


def _check(values: Values, shape: tuple[Expression, ...] | None, sizes: Sequence[int]) -> None:
    if shape is None:
        return
    expected: list[int] = []
    for size in shape:
        if isinstance(size, Star):
            expected += values.names[size.text]
        else:
            expected.append(values.evaluate(size))
    if list(sizes) != expected:
        raise NoMatch(f"{sizes} is not {expected}")


def _run(values: Values, node: PatternNode, *, matching: bool) -> None:
    """Compute one node; `group=g` of the match is what the shapes say."""
    attributes = {}
    for name, expression in node.attributes:
        if matching and isinstance(expression, Name) and expression.text not in values.names:
            assert name == "group"
            x, w = (values.arrays[str(item.value)] for item in node.inputs)
            values.names[expression.text] = x.shape[1] // w.shape[1]
        try:
            attributes[name] = values.evaluate(expression)
        except UnknownError:
            raise NoMatch(f"{name} is not whole") from None
    arrays = []
    for item in node.inputs:
        if item.literal is None:
            arrays.append(values.arrays[str(item.value)])
            continue
        literal = values.evaluate(item.literal)
        dtype = np.int64 if isinstance(literal, tuple) else arrays[0].dtype
        arrays.append(np.asarray(literal, dtype))
    names = [output.value for output in node.outputs]
    values.arrays.update(
        zip(names, compute(node.op_type, arrays, attributes, len(names)), strict=True)
    )


def compute(
    operator: str, arrays: Sequence[np.ndarray], attributes: dict[str, Any], outputs: int
) -> list[np.ndarray]:
    """One node under ONNX Runtime; NoMatch where it refuses it."""
    inputs = [f"x{i}" for i in range(len(arrays))]
    output_names = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(operator, inputs, output_names, **attributes)
    graph = helper.make_graph(
        [node],
        "node",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in zip(inputs, arrays, strict=True)
        ],
        [helper.make_empty_tensor_value_info(name) for name in output_names],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = 8
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        results: list[np.ndarray] = session.run(None, dict(zip(inputs, arrays, strict=True)))
    except Exception as error:
        raise NoMatch(str(error)) from None
    return results
