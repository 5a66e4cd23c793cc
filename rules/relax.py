"""A rule with one condition dropped: where its instances break that condition alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .conditions import (
    Condition,
    HasAttribute,
    HasDefaults,
    HasShape,
    HasType,
    Holds,
    IsConstant,
    IsLiteral,
    IsScalar,
    RestAgrees,
)
from .syntax import Input, Name, Operand, PatternNode, Rule


def without(rule: Rule, condition: Condition) -> Rule | None:
    """The rule without a condition; None where its absence has no text."""
    match condition:
        case IsConstant(value):
            return _operand(rule, value, lambda o: replace(o, const=False))
        case IsScalar(value):
            return _operand(rule, value, lambda o: replace(o, const=False, scalar=False))
        case HasType(value):
            return _operand(rule, value, lambda o: replace(o, dtypes=()))
        case HasShape(value):
            return _operand(rule, value, lambda o: replace(o, shape=None))
        case Holds(expression):
            given = tuple(e for e in rule.given if e != expression)
            return _hashed(replace(rule, given=given), condition)
        case IsLiteral(value):
            return _nodes(rule, condition, lambda n: _without_literal(n, value))
        case HasAttribute(node, attribute, Name(text)) if _uses(rule, text) == 1:
            return None  # it binds the name and fails nowhere
        case HasAttribute(node, attribute):
            return _nodes(
                rule, condition, lambda n: _with_variable(n, attribute) if n.name == node else n
            )
        case HasDefaults(node) | RestAgrees(node):
            return _nodes(
                rule,
                condition,
                lambda n: replace(n, rest=f"{n.name}_rest") if n.name == node else n,
            )
    return None


def _uses(rule: Rule, name: str) -> int:
    return sum(value == Name(name) for node in rule.match for _, value in node.attributes)


def _hashed(rule: Rule, condition: Condition) -> Rule:
    """Caches tell rules apart by their hash."""
    return replace(rule, hash=f"{rule.hash} without {condition}")


def _operand(rule: Rule, value: str, change: Callable[[Operand], Operand]) -> Rule:
    operands = tuple(change(o) if o.name == value else o for o in rule.operands)
    return replace(rule, operands=operands, hash=f"{rule.hash} without {operands}")


def _nodes(rule: Rule, condition: Condition, change: Callable[[PatternNode], PatternNode]) -> Rule:
    return _hashed(replace(rule, match=tuple(change(n) for n in rule.match)), condition)


def _without_literal(node: PatternNode, value: str) -> PatternNode:
    inputs = tuple(Input(value) if i.value == value else i for i in node.inputs)
    return replace(node, inputs=inputs)


def _with_variable(node: PatternNode, attribute: str) -> PatternNode:
    attributes = tuple(
        (name, Name(f"{node.name}_{name}") if name == attribute else value)
        for name, value in node.attributes
    )
    return replace(node, attributes=attributes)
