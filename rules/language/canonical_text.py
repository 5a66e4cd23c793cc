"""The one spelling of a rule: what the formatter prints and the hash is taken of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ...catalog.terms.syntax_tree import (
    Binary,
    Call,
    Expression,
    Index,
    ListOf,
    Literal,
    Name,
    Unary,
)
from .syntax import Alias, Input, Operand, PatternNode, Rule, Star

STRENGTH = {
    "or": 1,
    "and": 2,
    "not": 3,
    "=": 4,
    "!=": 4,
    "<": 4,
    "<=": 4,
    ">": 4,
    ">=": 4,
    "in": 4,
    "+": 5,
    "-": 5,
    "++": 5,
    "*": 6,
    "/": 6,
    "//": 6,
    "%": 6,
}


# How much a sign binds, and what is indexed.
NEGATION, INDEXED = 7, 8


def expression_text(expression: Expression, strength: int = 0) -> str:
    """An expression with the fewest parentheses."""
    match expression:
        case Literal(value):
            return f'"{value}"' if isinstance(value, str) else repr(value)
        case Name(text):
            return text
        case Star(text):
            return f"*{text}"
        case ListOf(items):
            return f"[{', '.join(map(expression_text, items))}]"
        case Call(function, arguments):
            return f"{function}({', '.join(map(expression_text, arguments))})"
        case Index(of, items):
            return f"{expression_text(of, INDEXED)}[{', '.join(map(expression_text, items))}]"
        case Unary("-", operand):
            return enclosed(f"-{expression_text(operand, NEGATION)}", NEGATION, strength)
        case Unary(operator, operand):
            binding = STRENGTH[operator]
            return enclosed(f"{operator} {expression_text(operand, binding)}", binding, strength)
        case Binary(operator, left, right):
            return binary_text(operator, left, right, strength, expression_text)
    raise AssertionError(f"rules have no {expression}")


Node = TypeVar("Node")


def binary_text(
    operator: str, left: Node, right: Node, strength: int, text: Callable[[Node, int], str]
) -> str:
    """An operator between two operands that `text` writes; in parentheses where others bind more.

    Operators of one strength are read from the left, but for comparisons, which don't chain.
    """
    binding = STRENGTH[operator]
    low = binding + 1 if binding == STRENGTH["="] else binding
    return enclosed(f"{text(left, low)} {operator} {text(right, binding + 1)}", binding, strength)


def enclosed(text: str, binding: int, strength: int) -> str:
    """A text in parentheses where it binds less than what it stands in."""
    return f"({text})" if binding < strength else text


def operand_text(operand: Operand) -> str:
    """An operand as `given` declares it."""
    parts = [operand.name]
    if operand.shape is not None:
        parts.append(f"[{', '.join(map(expression_text, operand.shape))}]")
    if operand.dtypes:
        parts.append("|".join(operand.dtypes))
    parts += [flag for flag in ("scalar", "const", "shared") if getattr(operand, flag)]
    if operand.default is not None:
        parts.append(f"default {expression_text(operand.default)}")
    return " ".join(parts)


def input_text(item: Input) -> str:
    """One argument of a node."""
    if item.literal is not None:
        return expression_text(item.literal)
    return f"{'*' if item.star else ''}{item.value or ''}{'?' if item.optional else ''}"


def outputs_text(node: PatternNode) -> str:
    """The names on the left of a statement."""
    return ", ".join(f"{'*' if o.star else ''}{o.value}" for o in node.outputs)


def attributes_text(node: PatternNode) -> str:
    """The attributes of a node, separated by commas."""
    attributes = [f"{name}={expression_text(value)}" for name, value in node.attributes]
    return ", ".join([*attributes, f"*{node.rest}"] if node.rest else attributes)


def operation_text(node: PatternNode) -> str:
    """The right of a statement."""
    head = node.operator.replace(":", ".")
    if attributes := attributes_text(node):
        head += f"<{attributes}>"
    text = f"{head}({', '.join(map(input_text, node.inputs))})"
    if node.count is not None:
        return f"each {node.index} < {expression_text(node.count, 5)} {text}"
    return f"each {text}" if node.each else text


def _block(title: str, statements: list[tuple[str, str]]) -> list[str]:
    width = max(len(output) for output, _ in statements)
    return [f"  {title}", *(f"    {left:<{width}} = {right}" for left, right in statements)]


def _alias(alias: Alias) -> tuple[str, str]:
    return f"{'*' if alias.source.star else ''}{alias.output}", input_text(alias.source)


def rule_text(rule: Rule) -> str:
    """A rule without its comment, in the order and spacing that all rules share."""
    lines = [f"rule {rule.name}", f"  tags    {rule.tag}"]
    if rule.sources:
        lines.append(f"  source  [{', '.join(map(_source, rule.sources))}]")
    if rule.opset_from is not None and rule.opset_to is not None:
        lines.append(f"  opset   {rule.opset_from}..{rule.opset_to}")
    elif rule.opset_from is not None:
        lines.append(f"  opset   >= {rule.opset_from}")
    if rule.target:
        lines.append(f"  target  {rule.target}")
    items = [f"{name} in [{', '.join(names)}]" for name, names in rule.choices]
    items += [operand_text(o) for o in rule.operands]
    items += [expression_text(e) for e in rule.given]
    if items:
        lines += [f"  given   {items[0]}{',' if len(items) > 1 else ''}"]
        lines += [f"          {item}," for item in items[1:-1]]
        lines += [f"          {items[-1]}"] if len(items) > 1 else []
    lines += _block("match", [(outputs_text(n), operation_text(n)) for n in rule.match])
    folds = [(outputs_text(n), operation_text(n)) for n in rule.rewrite if n.fold]
    if folds:
        lines += _block("fold", folds)
    rewritten = [(outputs_text(n), operation_text(n)) for n in rule.rewrite if not n.fold]
    lines += _block("rewrite", rewritten + [_alias(a) for a in rule.aliases])
    if rule.correct:
        lines += _block("correct", [(outputs_text(n), operation_text(n)) for n in rule.correct])
    region = f" except {expression_text(rule.region)}" if rule.region is not None else ""
    lines.append(f"  equal   {rule.equal}{region}")
    if rule.finite_math:
        lines.append("  finite_math")
    return "\n".join(lines) + "\n"


def _source(source: str) -> str:
    return source if source.isidentifier() else f'"{source}"'


def format_rules(rules: tuple[Rule, ...]) -> str:
    """Rules with their comments, one blank line between them."""
    return "\n".join(rule.comment + rule_text(rule) for rule in rules)
