"""Mirror images: patterns that a swap of two nodes maps onto themselves match twice otherwise."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import combinations

from ...catalog.terms.syntax_tree import Expression, Name
from ..language.schemas import commutative
from ..language.syntax import Operand, PatternNode, Rule, Star


def mirrored_nodes(rule: Rule) -> set[tuple[str, str]]:
    """Pairs of pattern nodes whose swap leaves the left side of the rule as it is."""
    return {
        (a.name, b.name)
        for a, b in combinations(rule.match, 2)
        if a.operator == b.operator and _mirrors(rule, a, b)
    }


def _mirrors(rule: Rule, a: PatternNode, b: PatternNode) -> bool:
    if a.rest != b.rest or len(a.inputs) != len(b.inputs) or len(a.outputs) != len(b.outputs):
        return False
    swap: dict[str, str] = {}
    pairs = [(x.value, y.value) for x, y in zip(a.inputs, b.inputs, strict=True)]
    pairs += [(x.value, y.value) for x, y in zip(a.outputs, b.outputs, strict=True)]
    for x, y in pairs:
        if not x or not y or not _join(swap, x, y):
            return False
    for x, y in pairs:
        if not _join_shapes(swap, rule.operand(x or ""), rule.operand(y or "")):
            return False
    attributes = dict(b.attributes)
    for name, value in a.attributes:
        match value, attributes.get(name):
            case Name(axis), Name(other) if not _join(swap, axis, other):
                return False
    outputs = set(rule.outputs)
    return (
        {_node(swap, n) for n in rule.match} == {_node({}, n) for n in rule.match}
        and {_operand(swap, o) for o in rule.operands} == {_operand({}, o) for o in rule.operands}
        and {_renamed(swap, e) for e in rule.given} == set(rule.given)
        and {swap.get(name, name) for name in outputs} == outputs
    )


def _join(swap: dict[str, str], x: str, y: str) -> bool:
    """Let the swap exchange x and y; False when it already does something else with them."""
    if swap.get(x, y) != y or swap.get(y, x) != x:
        return False
    swap[x], swap[y] = y, x
    return True


def _join_shapes(swap: dict[str, str], x: Operand, y: Operand) -> bool:
    if x.shape is None or y.shape is None or len(x.shape) != len(y.shape):
        return x.shape == y.shape
    return all(
        _join(swap, a.text, b.text)
        for a, b in zip(x.shape, y.shape, strict=True)
        if isinstance(a, Name | Star) and isinstance(b, Name | Star)
    )


def _node(swap: dict[str, str], node: PatternNode) -> object:
    inputs = tuple(replace(i, value=swap.get(i.value or "", i.value)) for i in node.inputs)
    outputs = tuple(replace(o, value=swap.get(o.value, o.value)) for o in node.outputs)
    if node.operator in commutative() and len(inputs) == 2:
        inputs = tuple(sorted(inputs, key=repr))
    attributes = tuple((name, _renamed(swap, value)) for name, value in node.attributes)
    return (node.operator, inputs, outputs, frozenset(attributes), node.rest)


def _operand(swap: dict[str, str], operand: Operand) -> object:
    shape = None if operand.shape is None else tuple(_renamed(swap, s) for s in operand.shape)
    name = swap.get(operand.name, operand.name)
    return replace(operand, name=name, shape=shape, line=0, column=0)


def _renamed(swap: dict[str, str], expression: Expression) -> Expression:
    """An expression with its names exchanged."""
    match expression:
        case Name(text):
            return Name(swap.get(text, text))
        case Star(text):
            return Star(swap.get(text, text))
        case _:
            return expression.with_parts(partial(_renamed, swap))
