"""Syntax trees as text, which parses to the same trees again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal

from .structures import BRANCH, NIL, RECORD
from .syntax import (
    GIVEN,
    Aggregate,
    Atom,
    Cast,
    Comparison,
    Expression,
    Formula,
    Functor,
    Literal,
    Negation,
    Number,
    String,
    Truth,
    Variable,
    Wildcard,
)

_INFIX = frozenset("+-*/%^") | {
    *("band", "bor", "bxor", "bshl", "bshr", "bshru", "land", "lor", "lxor")
}
_PREFIX = {"neg": "-", "bnot": "bnot ", "lnot": "lnot "}
_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def quoted(text: str) -> str:
    """Spell a symbol."""
    return f'"{text.translate(_ESCAPED)}"'


def expression_text(node: Expression) -> str:
    """Spell an expression; what is infix stands in parentheses."""
    if isinstance(node, Variable):
        return node.name
    if isinstance(node, Wildcard):
        return "_"
    if isinstance(node, Number):
        return _number(node)
    if isinstance(node, String):
        return quoted(node.value)
    if isinstance(node, Cast):
        return f"as({expression_text(node.value)}, {node.type_name})"
    if isinstance(node, Aggregate):
        target = "" if node.target is None else f" {expression_text(node.target)}"
        return f"({node.name}{target} : {{ {_listed(map(body_text, node.body))} }})"
    arguments = [expression_text(argument) for argument in node.arguments]
    if node.name in _INFIX and len(arguments) == 2:
        if node.name == "^" and arguments[0].startswith("-"):  # a power binds closer than a sign
            arguments[0] = f"({arguments[0]})"
        return f"({arguments[0]} {node.name} {arguments[1]})"
    if node.name in _PREFIX:
        return f"({_PREFIX[node.name]}{arguments[0]})"
    return _called(node, _listed(arguments))


def _called(node: Functor, arguments: str) -> str:
    if node.name == NIL:
        return "nil"
    if node.name == RECORD:
        return f"[{arguments}]"
    assert node.name[0] in (BRANCH, GIVEN) or node.name.isidentifier(), node.name
    return f"{node.name}({arguments})"


def _number(node: Number) -> str:
    if isinstance(node.value, float):
        if not math.isfinite(node.value):
            return {math.inf: "(1.0 / 0.0)", -math.inf: "(-1.0 / 0.0)"}.get(
                node.value, "(0.0 / 0.0)"
            )
        text = format(Decimal(repr(node.value)), "f")
        return text if "." in text else f"{text}.0"
    return f"{node.value}u" if node.kind == "unsigned" else str(node.value)


def body_text(part: Formula | Literal) -> str:
    """Spell a literal or a formula."""
    if isinstance(part, Formula):
        parts = [body_text(inner) for inner in part.parts]
        if part.connective == "not":
            return f"!({parts[0]})"
        return f"({'; '.join(parts)})" if part.connective == "or" else _listed(parts)
    if isinstance(part, Atom):
        return f"{part.name}({_listed(map(expression_text, part.arguments))})"
    if isinstance(part, Negation):
        return f"!{body_text(part.atom)}"
    if isinstance(part, Truth):
        return "true" if part.value else "false"
    return _comparison(part)


def _comparison(node: Comparison) -> str:
    left, right = expression_text(node.left), expression_text(node.right)
    if node.operator.lstrip("!") in ("match", "contains"):
        return f"{node.operator}({left}, {right})"
    return f"{left} {node.operator} {right}"


def _listed(parts: Iterable[str]) -> str:
    return ", ".join(parts)


def clause_text(head: Atom, body: Sequence[Formula | Literal]) -> str:
    """Spell a clause, a literal a line."""
    lines = [f"    {body_text(part)}" for part in body]
    return body_text(head) + (" :-\n" + ",\n".join(lines) if lines else "") + ".\n"
