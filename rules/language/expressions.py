"""Evaluation of the expressions of the rule language over the bindings of one match."""

from __future__ import annotations

from collections.abc import Mapping

from .functions import FUNCTIONS, Symbol, UnknownError, Value, number, sequence, size_at
from .syntax import (
    Binary,
    Call,
    Expression,
    Index,
    ListOf,
    Literal,
    Name,
    Star,
    Unary,
    walk,
)


class Facts:
    """What expressions may ask about operands by name; the matcher and the prover implement it."""

    def shape_of(self, name: str) -> tuple[int | str, ...]:
        """The shape of an operand; UnknownError when it has none."""
        raise NotImplementedError

    def dtype_of(self, name: str) -> str:
        """The element type of an operand."""
        raise NotImplementedError

    def integers_of(self, name: str) -> tuple[int, ...]:
        """The elements of a constant integer operand."""
        raise NotImplementedError

    def count_of(self, name: str) -> int:
        """How many operands `*name` stands for; UnknownError when it is no list of operands."""
        raise NotImplementedError

    def shapes_of(self, name: str) -> tuple[tuple[int | str, ...], ...]:
        """The shapes of the operands that `*name` stands for."""
        raise NotImplementedError


def evaluate(expression: Expression, names: Mapping[str, Value], facts: Facts) -> Value:
    """The value of an expression; UnknownError where it depends on something not known."""
    match expression:
        case Literal(value):
            return value
        case Name(text):
            if text not in names:
                raise UnknownError
            return names[text]
        case ListOf(items):
            return spliced(items, names, facts)
        case Index(of, items) if len(items) == 1:
            return size_at(sequence(evaluate(of, names, facts)), evaluate(items[0], names, facts))
        case Call():
            return _call(expression, names, facts)
        case Unary("-", operand):
            return -number(evaluate(operand, names, facts))
        case Unary("not", operand):
            return not evaluate(operand, names, facts)
        case Binary("and" | "or"):
            return _junction(expression, names, facts)
        case Binary(operator, left, right):
            return _binary(operator, evaluate(left, names, facts), evaluate(right, names, facts))
    raise UnknownError


def spliced(
    items: tuple[Expression, ...], names: Mapping[str, Value], facts: Facts
) -> tuple[Value, ...]:
    """The values of list items, those of `*b` spliced in."""
    result: list[Value] = []
    for item in items:
        if isinstance(item, Star):
            result.extend(sequence(evaluate(Name(item.text), names, facts)))
        else:
            result.append(evaluate(item, names, facts))
    return tuple(result)


def _call(call: Call, names: Mapping[str, Value], facts: Facts) -> Value:
    function = FUNCTIONS[call.function]
    if call.function == "fits":
        c, target = (facts.shape_of(operand_name(a)) for a in call.arguments)
        return fits(c, target)
    if call.function == "len" and isinstance(call.arguments[0], Star | Name):
        text = call.arguments[0].text
        return len(names[text]) if text in names else facts.count_of(text)
    values: list[Value] = []
    for i, argument in enumerate(call.arguments):
        if i not in function.operands:
            values.append(evaluate(argument, names, facts))
        elif call.function == "dtype":
            values.append(facts.dtype_of(operand_name(argument)))
        elif call.function == "ints":
            values.append(facts.integers_of(operand_name(argument)))
        elif call.function == "sizes":
            values.append(facts.shapes_of(operand_name(argument)))
        else:
            values.append(facts.shape_of(operand_name(argument)))
    return function.apply(*values)


def operand_name(expression: Expression) -> str:
    """The operand that a function's argument names."""
    if isinstance(expression, Name | Star):
        return expression.text
    raise UnknownError


def _junction(expression: Binary, names: Mapping[str, Value], facts: Facts) -> bool:
    """Kleene's `and` and `or`: unknown only where the known side does not decide."""
    decisive = expression.operator == "or"
    unknown = False
    for side in (expression.left, expression.right):
        try:
            if bool(evaluate(side, names, facts)) is decisive:
                return decisive
        except UnknownError:
            unknown = True
    if unknown:
        raise UnknownError
    return not decisive


def _binary(operator: str, left: Value, right: Value) -> Value:
    if operator in ("=", "!="):
        return same(left, right) is (operator == "=")
    if operator == "in":
        return any(same(left, item) for item in sequence(right))
    if operator == "++":
        return sequence(left) + sequence(right)
    a, b = number(left), number(right)
    match operator:
        case "<":
            return a < b
        case "<=":
            return a <= b
        case ">":
            return a > b
        case ">=":
            return a >= b
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
    if b == 0:
        raise UnknownError
    match operator:
        case "/" if isinstance(a, int) and isinstance(b, int):
            if a % b:  # division of sizes is exact or the condition does not hold
                raise UnknownError
            return a // b
        case "/":
            return a / b
        case "//":
            return a // b
        case "%":
            return a % b
    raise UnknownError


def same(left: Value, right: Value) -> bool:
    """Whether two values are equal; unknown for sizes of which one is symbolic."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        if len(left) != len(right):
            return False
        parts = [(a, b) for a, b in zip(left, right, strict=True) if not _equal(a, b)]
        if any(not _symbolic(a, b) for a, b in parts):
            return False
        if parts:
            raise UnknownError
        return True
    if not _equal(left, right) and _symbolic(left, right):
        raise UnknownError
    return _equal(left, right)


def _equal(left: Value, right: Value) -> bool:
    return bool(left == right)


def _symbolic(left: Value, right: Value) -> bool:
    """Whether one of two values that differ is a symbolic size: equal they may be after all."""
    return isinstance(left, Symbol) or isinstance(right, Symbol)


def fits(c: tuple[int | str, ...], target: tuple[int | str, ...]) -> bool:
    """Whether shape c broadcasts to exactly the target."""
    return len(c) <= len(target) and all(
        a == 1 or a == b for a, b in zip(reversed(c), reversed(target), strict=False)
    )


def names_in(expression: Expression) -> set[str]:
    """The variables of an expression, operands inside functions excluded."""
    operands = {
        operand_name(call.arguments[i])
        for call in walk(expression)
        if isinstance(call, Call)
        for i in FUNCTIONS[call.function].operands
        if i < len(call.arguments) and isinstance(call.arguments[i], Name)
    }
    return {part.text for part in walk(expression) if isinstance(part, Name | Star)} - operands


def operands_in(expression: Expression) -> set[str]:
    """The operands that an expression asks about."""
    return {
        call.arguments[i].text  # type: ignore[union-attr]
        for call in walk(expression)
        if isinstance(call, Call)
        for i in FUNCTIONS[call.function].operands
        if i < len(call.arguments) and isinstance(call.arguments[i], Name | Star)
    }
