"""Mutants: rules that differ from another one in a single place, nearly all of them false.

A mutation is made on the syntax tree and written out again, so that a mutant is a rule like any
other. Left and right side, conditions and declarations are all changed: what a slip of the pen may
change, and what a proof must notice.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ...catalog.terms.syntax_tree import Binary, Call, Expression, Index, ListOf, Literal, Unary
from ..language.canonical_text import expression_text, input_text, operand_text, rule_text
from ..language.errors import RuleError
from ..language.parser import parse_rules
from ..language.syntax import Alias, Input, Output, PatternNode, Rule

# What is easily taken for one another, or for its inverse.
SIBLINGS = {
    "Add": "Sub",
    "Sub": "Add",
    "Mul": "Add",
    "Div": "Mul",
    "Max": "Min",
    "Min": "Max",
    "And": "Or",
    "Or": "And",
    "Less": "LessOrEqual",
    "LessOrEqual": "Less",
    "Greater": "GreaterOrEqual",
    "GreaterOrEqual": "Greater",
    "Sin": "Cos",
    "Cos": "Sin",
    "Floor": "Ceil",
    "Ceil": "Floor",
    "Exp": "Log",
    "Sqrt": "Reciprocal",
    "Relu": "Neg",
    "Neg": "Identity",
    "Sigmoid": "Tanh",
    "Tanh": "Sigmoid",
    "Softmax": "LogSoftmax",
    "LogSoftmax": "Softmax",
    "MaxPool": "AveragePool",
    "ReduceMax": "ReduceMin",
    "ReduceMin": "ReduceMax",
    "ReduceSum": "ReduceMean",
    "ReduceMean": "ReduceSum",
    "ReduceSumSquare": "ReduceSum",
    "ReduceL1": "ReduceSum",
    "ReduceL2": "ReduceSumSquare",
}
_SIGNS = {"+": "-", "-": "+", "*": "+", "//": "*", "/": "*", "%": "//", "++": None}
_RELATIONS = {"=": "<=", "!=": "=", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "and": "or"}

Change = tuple[str, Rule]
T = TypeVar("T")


@dataclass(frozen=True)
class Mutant:
    """A rule with one change, said in words; `rule` is None where it can't be read any more."""

    original: str
    change: str
    text: str
    rule: Rule | None


def mutants(rules: Sequence[Rule], count: int, seed: int) -> list[Mutant]:
    """Draw mutants, as many of each rule as of any other; fewer where the rules have no more."""
    rng = random.Random(seed)

    def shuffled(rule: Rule) -> Iterator[Mutant]:
        drawn = list(mutants_of(rule))  # made where one is drawn: of all rules that takes a minute
        rng.shuffle(drawn)
        yield from drawn

    waiting = [shuffled(rule) for rule in rng.sample(list(rules), len(rules))]
    drawn: list[Mutant] = []
    while waiting and len(drawn) < count:
        for source in list(waiting):
            if len(drawn) == count:
                break
            mutant = next(source, None)
            if mutant is None:
                waiting.remove(source)
            else:
                drawn.append(mutant)
    return drawn


def mutants_of(rule: Rule) -> Iterator[Mutant]:
    """Yield all mutants of a rule, each text once."""
    seen = {rule_text(rule)}
    for change, mutated in _changes(rule):
        text = rule_text(mutated)
        if text in seen:
            continue
        seen.add(text)
        try:
            (read,) = parse_rules(text, rule.path)
        except RuleError:
            yield Mutant(rule.name, change, text, None)
        else:
            yield Mutant(rule.name, change, text, read)


def _changes(rule: Rule) -> Iterator[Change]:
    yield from _of_conditions(rule)
    yield from _of_operands(rule)
    if rule.region is not None:
        for change, region in variants(rule.region):
            yield f"except: {change}", replace(rule, region=region)
    for side in ("match", "rewrite", "correct"):
        for i, node in enumerate(getattr(rule, side)):
            for change, nodes in _of_node(node, on_left=side == "match"):
                yield change, _with(rule, side, i, nodes)
    for i, node in enumerate(rule.rewrite):
        yield from _dropped(rule, i, node)
    for i, alias in enumerate(rule.aliases):
        for change, source in _of_input(alias.source):
            changed = replace(alias, source=source)
            yield change, replace(rule, aliases=_put(rule.aliases, i, changed))


def _with(rule: Rule, side: str, i: int, node: PatternNode) -> Rule:
    nodes = _put(getattr(rule, side), i, node)
    match side:
        case "match":
            return replace(rule, match=nodes)
        case "rewrite":
            return replace(rule, rewrite=nodes)
        case _:
            return replace(rule, correct=nodes)


def _put(items: tuple[T, ...], i: int, item: T) -> tuple[T, ...]:
    return (*items[:i], item, *items[i + 1 :])


# ------------------------------------------------------------------------- what `given` says


def _of_conditions(rule: Rule) -> Iterator[Change]:
    for i, condition in enumerate(rule.given):
        rest = (*rule.given[:i], *rule.given[i + 1 :])
        yield f"drop {expression_text(condition)}", replace(rule, given=rest)
        for change, other in variants(condition):
            yield change, replace(rule, given=_put(rule.given, i, other))


def _of_operands(rule: Rule) -> Iterator[Change]:
    for i, operand in enumerate(rule.operands):
        spelled = operand_text(operand)
        if operand.shape is not None:
            bare = replace(operand, shape=None)
            yield f"drop the shape of {spelled}", _declared(rule, i, bare)
            for place, size in enumerate(operand.shape):
                for change, other in variants(size):
                    shape = _put(operand.shape, place, other)
                    yield change, _declared(rule, i, replace(operand, shape=shape))
        if operand.dtypes:
            bare = replace(operand, dtypes=())
            yield f"drop the types of {spelled}", _declared(rule, i, bare)
        if operand.default is not None:
            for change, default in variants(operand.default):
                yield change, _declared(rule, i, replace(operand, default=default))


def _declared(rule: Rule, i: int, operand: object) -> Rule:
    return replace(rule, operands=_put(rule.operands, i, operand))  # type: ignore[arg-type]


# --------------------------------------------------------------------------------- statements


def _of_node(node: PatternNode, *, on_left: bool) -> Iterator[tuple[str, PatternNode]]:
    for i, (name, value) in enumerate(node.attributes):
        for change, other in variants(value):
            changed = _put(node.attributes, i, (name, other))
            yield f"{node.op_type} {name}: {change}", replace(node, attributes=changed)
        if not on_left:
            rest = (*node.attributes[:i], *node.attributes[i + 1 :])
            yield f"{node.op_type}: drop {name}", replace(node, attributes=rest)
    if node.rest is not None and not on_left:
        yield f"{node.op_type}: drop *{node.rest}", replace(node, rest=None)
    if (sibling := SIBLINGS.get(node.op_type)) and not node.domain and not node.choices:
        yield f"{node.op_type} becomes {sibling}", replace(node, op_type=sibling)
    for i in range(len(node.inputs) - 1):
        first, two = node.inputs[i : i + 2]
        swapped = (*node.inputs[:i], two, first, *node.inputs[i + 2 :])
        yield f"{node.op_type}: swap operands {i} and {i + 1}", replace(node, inputs=swapped)
        twice = (*node.inputs[:i], first, first, *node.inputs[i + 2 :])
        yield f"{node.op_type}: operand {i} twice", replace(node, inputs=twice)
    for i, input_ in enumerate(node.inputs):
        for change, changed_input in _of_input(input_):
            changed_inputs = _put(node.inputs, i, changed_input)
            yield f"{node.op_type}: {change}", replace(node, inputs=changed_inputs)
    for i in range(len(node.outputs) - 1):
        outputs: list[Output] = list(node.outputs)
        outputs[i], outputs[i + 1] = outputs[i + 1], outputs[i]
        yield (
            f"{node.op_type}: swap outputs {i} and {i + 1}",
            replace(node, outputs=tuple(outputs)),
        )


def _of_input(input_: Input) -> Iterator[tuple[str, Input]]:
    if input_.literal is not None:
        for change, other in variants(input_.literal):
            yield change, replace(input_, literal=other)


def _dropped(rule: Rule, i: int, node: PatternNode) -> Iterator[Change]:
    """Leave a node of the right side out: what read its output reads its first operand."""
    if len(node.outputs) != 1 or node.outputs[0].star or not node.inputs:
        return
    gone, kept = node.outputs[0].value, node.inputs[0]
    if kept.literal is not None or kept.star:
        return
    rest = [
        replace(other, inputs=tuple(kept if i.value == gone else i for i in other.inputs))
        for other in (*rule.rewrite[:i], *rule.rewrite[i + 1 :])
    ]
    aliases = rule.aliases
    if gone in rule.outputs:
        aliases = (*aliases, Alias(gone, kept))
    aliases = tuple(replace(a, source=kept) if a.source.value == gone else a for a in aliases)
    change = f"drop {node.op_type}({', '.join(map(input_text, node.inputs))})"
    yield change, replace(rule, rewrite=tuple(rest), aliases=aliases)


# -------------------------------------------------------------------------------- expressions


def variants(expression: Expression) -> Iterator[tuple[str, Expression]]:
    """Yield an expression changed in one place, in all ways, each said in words."""
    for other in _expressions(expression):
        yield f"{expression_text(expression)} becomes {expression_text(other)}", other


def _expressions(expression: Expression) -> Iterator[Expression]:
    match expression:
        case Literal(bool() | str()):
            return
        case Literal(int() | float() as value):
            yield Literal(value + 1)
            yield Literal(value - 1)
            if value:
                yield Literal(-value)
        case ListOf(items):
            for i in range(len(items) - 1):
                yield ListOf((*items[:i], items[i + 1], items[i], *items[i + 2 :]))
            for i in range(len(items)):
                yield ListOf((*items[:i], *items[i + 1 :]))
            for i, item in enumerate(items):
                yield from (ListOf(_put(items, i, other)) for other in _expressions(item))
        case Call(function, arguments):
            if function in ("inverse", "axis"):
                yield arguments[0]
            if len(arguments) == 2:
                yield Call(function, arguments[::-1])
            if function in ("plus", "times", "take", "drop", "min", "max"):
                other = {"plus": "times", "times": "plus", "take": "drop", "drop": "take"}
                yield Call(other.get(function, {"min": "max"}.get(function, "min")), arguments)
            for i, argument in enumerate(arguments):
                for changed in _expressions(argument):
                    yield Call(function, _put(arguments, i, changed))
        case Index(of, items):
            for i, item in enumerate(items):
                yield from (Index(of, _put(items, i, other)) for other in _expressions(item))
        case Unary(operator, operand):
            yield operand
            yield from (Unary(operator, other) for other in _expressions(operand))
        case Binary(operator, left, right):
            if (sign := _SIGNS.get(operator)) is not None:
                yield Binary(sign, left, right)
                yield left
            if (relation := _RELATIONS.get(operator)) is not None:
                yield Binary(relation, left, right)
            if operator in ("-", "/", "//", "++", "<", "<=", ">", ">="):
                yield Binary(operator, right, left)
            yield from (Binary(operator, other, right) for other in _expressions(left))
            yield from (Binary(operator, left, other) for other in _expressions(right))
        case _:
            return
