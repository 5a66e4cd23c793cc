"""Random instances of a rule's left side: small ONNX models on which all its conditions hold.

Or all but one, which is dropped from the rule that they are drawn for.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import shape_inference

from ...catalog.tensors import dtype_name
from ...catalog.terms.syntax_tree import Name
from ..compiler.bindings import Bindings
from ..compiler.model_view import ModelView
from ..compiler.view import Match
from ..language.conditions import (
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
    conditions,
)
from ..language.functions import UnknownError
from ..language.repetition import gathers, unrolled
from ..language.syntax import Input, Operand, PatternNode, Rule
from .builder import Builder, array_for
from .sampler import RejectedError


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
            remaining = tuple(e for e in rule.given if e != expression)
            return _hashed(replace(rule, given=remaining), condition)
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


ATTEMPTS = 2000
MOST_GATHERED = 3
BREAKING_ATTEMPTS = 60
# What a choice can end in on which an operator is not defined; another is drawn then.
REJECTED = (
    RejectedError,
    UnknownError,
    shape_inference.InferenceError,
    IndexError,
    ArithmeticError,
    ValueError,
)


@dataclass(frozen=True)
class Instance:
    """A left side as a model; its values bear the names of the pattern (`*A` is A.0, A.1, ...).

    `domains` says for float inputs what keeps the model away from poles: "any", "positive",
    "nonzero"; and "index" of integers that elements are gathered by.
    """

    rule: Rule
    model: onnx.ModelProto
    view: ModelView
    match: Match
    domains: Mapping[str, str]

    def feeds(self, rng: np.random.Generator, family: str) -> dict[str, NDArray[Any]]:
        """Random inputs: family "normal", "shifted" (mean far above spread) or "mixed"."""
        return {
            info.name: array_for(
                rng,
                dtype_name(info.type.tensor_type.elem_type),
                [d.dim_value for d in info.type.tensor_type.shape.dim],
                self.domains.get(info.name, "any"),
                family,
            )
            for info in self.model.graph.input
        }


def instances(
    rule: Rule,
    count: int,
    seed: int = 0,
    dtype: str = "float32",
    breaking: Condition | None = None,
    empty: bool = False,
    turning: bool = False,
) -> list[Instance]:
    """Draw instances on which every condition holds; fewer where that does not succeed.

    `dtype` is the element type of operands, as far as the rule allows it. With `breaking`, that
    condition of the rule fails on them, and it alone. With `empty`, some dimensions may be 0; with
    `turning`, they are sizes at which kernels turn to other code. Of a rule that gathers nodes each
    instance is one of the rule for so many.
    """
    drawn = rule if breaking is None else without(rule, breaking)
    if drawn is None:
        return []
    listed_rule, listed_drawn = rule, drawn
    result: list[Instance] = []
    rng = random.Random(f"{rule.name}:{seed}:{dtype}")
    for _ in range(ATTEMPTS if breaking is None else BREAKING_ATTEMPTS):
        if len(result) == count:
            break
        many = rng.randint(1, MOST_GATHERED) if gathers(listed_rule) else None
        if many is not None:
            rule, drawn = unrolled(listed_rule, many), unrolled(listed_drawn, many)
        builder = Builder(drawn, rng, dtype, empty, turning)
        try:
            model = builder.build()
            view = ModelView(model)
        except REJECTED:
            continue
        match = view.match(rule, builder.positions)
        bound = Bindings(match, view)
        failed = [c for c in conditions(rule) if not bound.holds(c)]
        if failed == ([] if breaking is None else [breaking]):
            result.append(Instance(rule, model, view, match, builder.domains))
    return result
