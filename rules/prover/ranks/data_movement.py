"""Operators that only move elements: two arguments that need no rank.

Row by row. Reshape, Flatten, Squeeze and Unsqueeze keep the elements in the order in which they
lie row by row, so that a chain of them is told by the shape it ends with: two chains from one
operand to the same shape are equal. The shapes are the same where both end with a Reshape to one
list of sizes in which no 0 copies a dimension, where the right side reshapes to the shape of the
left one's output, and where that is the shape of the operand, which the right side is: because a
condition says so, or since Squeeze takes away the axes that Unsqueeze adds, or the reverse.

Any movement. An operator that only moves elements reads them at places that depend on its other
inputs, its attributes and the shape of its operand. A function of single elements, applied before
instead of after it, meets the same elements at the same places, whatever those are.

What the operators do is read from their specifications; what isn't of the forms known here is none
of these. The cases that are proved one by one show the same at small ranks.
"""

from __future__ import annotations

import re
from functools import cache

from onnx import defs

from ....catalog.operators import Specification, specification
from ....catalog.operators import syntax as spec
from ....catalog.terms.syntax_tree import (
    Binary,
    Call,
    Expression,
    Index,
    Literal,
    Name,
    Unary,
    mentions,
)
from ...language.repetition import repeats
from ...language.schemas import EARLIEST_OPSET
from ...language.syntax import Alias, Input, PatternNode, Rule


def moves_alike(rule: Rule) -> bool:
    """Whether both sides of a rule are equal at all ranks by one of the two arguments."""
    if rule.correct or len(rule.outputs) != 1 or repeats(rule):
        return False
    return _row_by_row(rule) or _passes(rule)


# ------------------------------------------------------------------------------- row by row

# How a specification says that elements stay in their order, and what else it must say then.
_IN_ORDER = {
    "Reshape": ("X[*reindex(i, o, s)]", "require product(o) = product(s)"),
    "Flatten": ("X[*unravel(i, p), *unravel(j, q)]", "-> Y [product(p), product(q)]"),
    "Squeeze": ("X[*weave(i, zeros(r), r)]", "require take(s, r) = 1"),
    "Unsqueeze": ("X[*drop(i, r)]", "-> Y [*weave(s, ones(r), r)]"),
}


def _row_by_row(rule: Rule) -> bool:
    (output,) = rule.outputs
    left = _chain(rule.match, output)
    if left is None:
        return False
    if rule.aliases:
        if rule.rewrite or rule.aliases != (Alias(output, Input(left[0])),):
            return False
        same = any(_same_shape(part, left[0], output) for part in rule.given)
        return same or _undone(rule, output)
    right = _chain(rule.rewrite, output)
    if right is None or right[0] != left[0] or right[1].op_type != "Reshape":
        return False
    target = right[1].inputs[1]
    if target.literal is not None:
        shape = Call("shape", (Name(output),))
        return target.literal == shape and _has_no_zero(rule, shape)
    last = left[1]
    same = (last.operator, last.inputs[1:], last.attributes, last.rest) == (
        right[1].operator,
        right[1].inputs[1:],
        right[1].attributes,
        right[1].rest,
    )
    return same and _has_no_zero(rule, Call("ints", (Name(target.value or ""),)))


def _chain(nodes: tuple[PatternNode, ...], output: str) -> tuple[str, PatternNode] | None:
    """Where a chain of nodes that makes the output starts, and its last node."""
    makers = {o.value: node for node in nodes for o in node.outputs}
    value, last, count = output, makers.get(output), 0
    while (node := makers.get(value)) is not None:
        data = node.inputs[0]
        if not all(map(_in_order, node.operators)) or data.star or data.value is None:
            return None
        if len(node.outputs) != 1 or (len(node.inputs) < 2 and node.op_type == "Reshape"):
            return None
        value, count = data.value, count + 1
    return (value, last) if last is not None and count == len(nodes) else None


def _has_no_zero(rule: Rule, sizes: Expression) -> bool:
    return Unary("not", Binary("in", Literal(0), sizes)) in rule.given


def _same_shape(condition: Expression, tensor: str, other_tensor: str) -> bool:
    pair = {Call("shape", (Name(name),)) for name in (tensor, other_tensor)}
    match condition:
        case Binary("=", left, right):
            return {left, right} == pair
        case _:
            return False


def _undone(rule: Rule, output: str) -> bool:
    """Whether one node adds the axes that the other takes away, as a condition says."""
    makers = {o.value: node for node in rule.match for o in node.outputs}
    second = makers[output]
    middle = second.inputs[0].value or ""
    first = makers.get(middle)
    if first is None or len(rule.match) != 2:
        return False
    turns = {first.operator: first, second.operator: second}
    have_axes = all(len(n.inputs) == 2 and not n.inputs[1].optional for n in (first, second))
    if set(turns) != {"Squeeze", "Unsqueeze"} or not have_axes:
        return False
    # the axes of both are counted in the tensor that has them
    whole = turns["Squeeze"].inputs[0].value or ""
    counted_axes = [
        Call("axes", (Call("ints", (Name(n.inputs[1].value or ""),)), Call("rank", (Name(whole),))))
        for n in (first, second)
    ]
    return any(
        Binary("=", first_axes, second_axes) in rule.given
        for first_axes, second_axes in (counted_axes, counted_axes[::-1])
    )


@cache
def _in_order(operator: str) -> bool:
    """Whether an operator keeps elements in their order in every operator set."""
    if operator not in _IN_ORDER:
        return False
    value, besides = _IN_ORDER[operator]
    versions = _every_version(operator)
    return bool(versions) and all(
        re.findall(r"^ *value Y\[.*?\] = (.*)$", block.text, re.MULTILINE) == [value]
        and besides in block.text
        for version in versions
        for block in version.blocks
    )


# ----------------------------------------------------------------------------- any movement


def _passes(rule: Rule) -> bool:
    """Whether a movement and a function of single elements change places."""
    if rule.aliases or len(rule.match) != 2 or len(rule.rewrite) != 2:
        return False
    (output,) = rule.outputs
    left, right = _two_nodes(rule.match, output), _two_nodes(rule.rewrite, output)
    if left is None or right is None or left[0] != right[0]:
        return False
    (first, second), (third, fourth) = left[1:], right[1:]
    movement, function = (first, second) if _is_movement(first) else (second, first)
    moved, applied = (third, fourth) if _is_movement(third) else (fourth, third)
    in_turn = (movement is first) != (moved is third)
    return (
        in_turn
        and _is_movement(movement)
        and _is_function(rule, function)
        and _written(movement) == _written(moved)
        and _written(function) == _written(applied)
    )


def _two_nodes(
    nodes: tuple[PatternNode, ...], output: str
) -> tuple[str, PatternNode, PatternNode] | None:
    """The operand of a chain of two nodes, and the nodes in order."""
    makers = {o.value: node for node in nodes for o in node.outputs}
    second = makers.get(output)
    first = makers.get(second.inputs[0].value or "") if second is not None else None
    if first is None or second is None or first is second:
        return None
    start = first.inputs[0].value
    data = {first.outputs[0].value, start}
    beside = {i.value for node in (first, second) for i in node.inputs[1:]}
    if start is None or len(first.outputs) != 1 or len(second.outputs) != 1 or data & beside:
        return None
    return start, first, second


def _written(node: PatternNode) -> object:
    """All of a node but its operand and its result."""
    return (node.operator, node.choices, node.inputs[1:], node.attributes, node.rest)


def _is_movement(node: PatternNode) -> bool:
    return all(map(only_reads, node.operators))


@cache
def only_reads(operator: str) -> bool:
    """Whether an operator's only output is its first input, read somewhere."""
    versions = _every_version(operator)
    return bool(versions) and all(
        version.kind == "movement"
        and len(block.values) == len(block.outputs) == 1
        and not block.outputs[0].variadic
        and _is_read_of(block.values[0].expression, block.inputs[0].name)
        for version in versions
        for block in version.blocks
    )


def _is_read_of(value: Expression, tensor: str) -> bool:
    """Whether a value is an element of a tensor, in a place that the tensor doesn't say."""
    match value:
        case Index(Name(text), places):
            return text == tensor and not any(mentions(place, tensor) for place in places)
        case _:
            return False


def _is_function(rule: Rule, node: PatternNode) -> bool:
    """Whether a node computes each element from the one in its place, and single numbers."""
    single = all(
        not item.star and item.value is not None and rule.operand(item.value).shape == ()
        for item in node.inputs[1:]
    )
    return single and all(of_one(operator, len(node.inputs)) for operator in node.operators)


@cache
def of_one(operator: str, inputs: int) -> bool:
    """Whether each element of the only output comes from that of the first input in its place."""
    versions = _every_version(operator)
    if inputs > 1 and operator not in ("QuantizeLinear", "DequantizeLinear"):
        return False
    return bool(versions) and all(
        version.kind == "elementwise" and _keeps_shape(version.blocks[0]) for version in versions
    )


def _keeps_shape(block: spec.Operator) -> bool:
    shapes = [
        [(d.kind, d.name) for d in slot.shape] for slot in (block.inputs[0], block.outputs[0])
    ]
    return shapes[0] == shapes[1] == [("star", shapes[0][0][1])]


def _every_version(operator: str) -> list[Specification]:
    numbers = range(EARLIEST_OPSET, defs.onnx_opset_version() + 1)
    versions = [specification("", operator, number) for number in numbers]
    return [version for version in versions if version is not None and version.opaque is None]
