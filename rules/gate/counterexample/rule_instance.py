"""A statement at concrete numbers as an instance of its rule: a model on which the rule matches.

Conditions that a statement can't say exactly it leaves out, and the rule may then not be about the
numbers found for it. What counts is the matcher's own word on a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ....catalog.errors import TensologError
from ....catalog.operators import specification
from ....catalog.terms.index_notation import Apply, Read, Reduce, Select, Symbol, Variable
from ...compiler.bindings import Bindings
from ...compiler.model_view import ModelView
from ...language.conditions import conditions
from ...language.repetition import repeated_lists, repeats, unrolled
from ...language.syntax import PatternNode, Rule
from ...prover.statement import Node, Origin, Statement
from ...sampling.instances import Instance
from ..evaluation.arithmetic import Array, Assignment, number
from ..evaluation.evaluate import compute
from ..evaluation.float64 import Float

# Operator sets that runtimes of some age know, the newest first; the meanings must be the same.
_COMMON_OPSETS = (21, 18, 17, 13, 11, 9, 7)
_TERMS = (Symbol, Variable, Apply, Select, Read, Reduce)


class NoInstanceError(Exception):
    """Numbers of which the rule doesn't speak: no model, or a condition that doesn't hold."""


def realize(rule: Rule, statement: Statement, assignment: Assignment) -> Instance:
    """Build the left side as a model at these numbers.

    Raises NoInstanceError where ONNX refuses it or a condition of the rule doesn't hold on it.
    """
    origin = statement.origin
    if origin is None:
        raise NoInstanceError("a statement of no rule")
    if repeats(rule):
        rule = unrolled(rule, statement.free[f"len({repeated_lists(rule)[0]})"].length)
    try:
        model = _Model(rule, statement, origin, assignment).build()
        view = ModelView(model)
    except (TensologError, onnx.shape_inference.InferenceError, TypeError, ValueError) as error:
        raise NoInstanceError(str(error)) from error
    match = view.match(rule, _positions(rule, origin))
    bound = Bindings(match, view)
    for condition in conditions(rule):
        if not bound.holds(condition):
            raise NoInstanceError(f"{condition} doesn't hold")
    return Instance(rule, model, view, match, {})


class _Model:
    def __init__(
        self, rule: Rule, statement: Statement, origin: Origin, assignment: Assignment
    ) -> None:
        self.rule, self.statement, self.origin = rule, statement, origin
        self.assignment = assignment
        self.arrays = self._constants()

    def build(self) -> onnx.ModelProto:
        """The model, its constants as initializers."""
        computed = {name for node in self.origin.nodes for name in node.outputs}
        used = [n for node in self.origin.nodes for n in node.inputs if n is not None]
        leaves = [name for name in dict.fromkeys(used) if name not in computed]
        outputs = [
            name for output in self.rule.outputs for name in self.origin.lists.get(output, [output])
        ]
        graph = helper.make_graph(
            [self._node(node) for node in self.origin.nodes],
            self.rule.name,
            [self._input(name) for name in leaves if not self._is_constant(name)],
            [helper.make_empty_tensor_value_info(name) for name in outputs],
            [
                numpy_helper.from_array(self.arrays[name], name)
                for name in leaves
                if self._is_constant(name)
            ],
        )
        opset = _common(self.rule, self.origin)
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", opset)],
            ir_version=8 if opset < 22 else 10,
        )

    def _constants(self) -> dict[str, Array]:
        """The arrays of all tensors that aren't computed, in their own types."""
        computed = {name for node in self.origin.nodes for name in node.outputs}
        defined = {definition.name for definition in self.statement.definitions}
        names = frozenset(
            n
            for node in self.origin.nodes
            for n in node.inputs
            if n in defined and n not in computed
        )
        tensors = compute(self.statement, self.assignment, Float(), names)
        return {
            name: np.asarray(tensor.values).astype(np.dtype(self.origin.types[name]))
            for name, tensor in tensors.items()
        }

    def _is_constant(self, name: str) -> bool:
        operands = {operand.name for operand in self.statement.operands}
        declared = self.rule.operand(name.partition(".")[0])
        return name not in operands or declared.const or declared.scalar

    def _input(self, name: str) -> onnx.ValueInfoProto:
        element = helper.np_dtype_to_tensor_dtype(np.dtype(self.origin.types[name]))
        return helper.make_tensor_value_info(name, element, list(self.arrays[name].shape))

    def _node(self, node: Node) -> onnx.NodeProto:
        domain, _, operator = node.operator.rpartition(":")
        proto = helper.make_node(
            operator,
            [name or "" for name in node.inputs],
            list(node.outputs),
            name=_pattern(self.rule, node).name,
            domain=domain,
        )
        for name, value in sorted(node.attributes.items()):
            attribute_value = _instantiated(value, self.assignment.symbols)
            if attribute_value is None or attribute_value == []:
                continue
            proto.attribute.append(helper.make_attribute(name, attribute_value))
        return proto


def _instantiated(value: object, symbols: Mapping[str, Any]) -> Any:
    """An attribute as ONNX has it."""
    if isinstance(value, tuple | list):
        return [_instantiated(item, symbols) for item in value]
    if isinstance(value, _TERMS):
        value_ = number(value, symbols)
        if isinstance(value_, bool | int):
            return int(value_)
        return float(value_)
    return value


def _pattern(rule: Rule, node: Node) -> PatternNode:
    """The node of the pattern that a node stands for."""
    for pattern in rule.match:
        for output in pattern.outputs:
            first = node.outputs[0]
            if first == output.value or (output.star and first.startswith(f"{output.value}.")):
                return pattern
    raise NoInstanceError(f"{node.outputs[0]} is not in the pattern")


def _positions(rule: Rule, origin: Origin) -> dict[str, int]:
    """How many operands stand before the one between two lists."""
    counts: dict[str, int] = {}
    for node in rule.match:
        if len(node.inputs) == 3 and node.inputs[0].star and node.inputs[2].star:
            counts[f"{node.name}:in"] = len(origin.lists.get(node.inputs[0].value or "", ()))
        if len(node.outputs) == 3 and node.outputs[0].star and node.outputs[2].star:
            counts[f"{node.name}:out"] = len(origin.lists.get(node.outputs[0].value, ()))
    return counts


def _common(rule: Rule, origin: Origin) -> int:
    """An operator set in which all operators mean the same and that more runtimes know."""
    nodes = (*rule.match, *rule.rewrite, *rule.correct)
    operators = {node.operator for node in nodes if not node.choices}
    operators |= {node.operator for node in origin.nodes}
    low, high = rule.opset_from or 1, rule.opset_to or origin.opset
    for opset in _COMMON_OPSETS:
        if low <= opset <= min(high, origin.opset) and all(
            _same_meaning(operator, opset, origin.opset) for operator in operators
        ):
            return opset
    return origin.opset


def _same_meaning(operator: str, version: int, other: int) -> bool:
    domain, _, name = operator.rpartition(":")
    before, after = specification(domain, name, version), specification(domain, name, other)
    return before is not None and after is not None and before.hash == after.hash
