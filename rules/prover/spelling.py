"""How axes, flags and targets are spelled in a rule, and where it matters in the whole of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from ..syntax import Binary, Call, Expression, Index, ListOf, Literal, Name, Rule, Star, Unary, walk


@dataclass(frozen=True)
class Spelling:
    """The names for which it matters in the whole rule how they are spelled: axes, flags, targets.

    `signs`: whether axes are counted from the front or from the end, which word or flag it is.
    `orders`: which of several axes comes first. `lengths`: how many of them the rule asks for.
    """

    signs: frozenset[str]
    orders: frozenset[str]
    lengths: Mapping[str, int]


@cache
def spelling(rule: Rule) -> Spelling:
    """The names with which expressions do more than to hand them on.

    `axis(i, X)`, `dim(X, i)`, `sizes(A, i)` and `axes(ints(a), r)` mean the same however an axis is
    counted, and the last one in whichever order they are; `i + 1` doesn't, and `axis(ints(a)[0],
    X)` depends on the order.
    """
    signs: set[str] = set()
    orders: set[str] = set()

    def visit(part: Expression, plain: bool) -> None:
        match part:
            case Name(text) | Star(text):
                if not plain:
                    signs.add(text)
            case Call("axis" | "axes" | "dim" | "sizes", arguments):
                for argument in arguments:
                    visit(argument, True)
            case Call("ints", (Name(text),)):
                visit(Name(text), plain)
            case Call("len" | "rank" | "shape" | "dtype"):
                return
            case Call(_, arguments) | ListOf(arguments):
                for argument in arguments:
                    visit(argument, False)
            case Index(of, items):
                orders.update(one.text for one in walk(of) if isinstance(one, Name | Star))
                for argument in (of, *items):
                    visit(argument, plain)
            case Unary(_, operand):
                visit(operand, False)
            case Binary("=" | "!=" | "in" | "and" | "or" | "++", left, right):
                visit(left, plain)
                visit(right, plain)
            case Binary(_, left, right):
                visit(left, False)
                visit(right, False)

    told = [*rule.given, *(size for one in rule.operands for size in one.shape or ())]
    told += [] if rule.region is None else [rule.region]
    for expression in told:
        visit(expression, False)
    for node in (*rule.match, *rule.rewrite, *rule.correct):
        for name, expression in node.attributes:
            visit(expression, name in ("axis", "axes"))
        for item in node.inputs:
            if item.literal is not None:
                visit(item.literal, False)
    for alias in rule.aliases:
        if alias.source.literal is not None:
            visit(alias.source.literal, False)
    lengths = dict(length for one in rule.given for length in _lengths(one))
    return Spelling(frozenset(signs), frozenset(signs | orders), lengths)


def _lengths(condition: Expression) -> Iterator[tuple[str, int]]:
    """The lengths of lists that a condition says as numbers."""
    match condition:
        case Binary("and", left, right):
            yield from _lengths(left)
            yield from _lengths(right)
        case Binary("=", Call("len", (Call("ints", (Name(text),)),)), Literal(int() as number)):
            yield text, number
