"""Expressions of the rule language: how they are evaluated, in an arithmetic that a subclass gives.

The matcher (rules/compiler/bindings.py) and the sampler compute with Python's numbers, as
`KnownNumbers` does; the prover with terms (rules/prover/cases/symbolic_expressions.py).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ...catalog.terms.comparisons import COMPARISONS
from ...catalog.terms.syntax_tree import (
    Binary,
    Call,
    Expression,
    Index,
    ListOf,
    Literal,
    Name,
    Unary,
    walk,
)
from .functions import FUNCTIONS, Arithmetic, Symbol, UnknownError, Value
from .syntax import Star


class ExpressionEvaluator(Arithmetic):
    """Evaluates expressions over names and operands; what a subclass doesn't say is not known.

    `names` are the values of names other than operands.
    """

    names: Mapping[str, Value]

    # ------------------------------------------------------------------ what is asked of operands

    def shape_of(self, name: str) -> tuple[Value, ...]:
        """The shape of an operand; UnknownError when it has none."""
        raise NotImplementedError

    def dtype_of(self, name: str) -> str:
        """The element type of an operand."""
        raise NotImplementedError

    def integers_of(self, name: str) -> Value:
        """The elements of a constant operand, as a list of integers."""
        raise NotImplementedError

    def shapes_of(self, name: str) -> tuple[tuple[Value, ...], ...]:
        """The shapes of the operands that `*name` stands for."""
        raise NotImplementedError

    def count_of(self, name: str) -> int:
        """How many operands `*name` stands for; UnknownError when it is no list of operands."""
        return len(self.shapes_of(name))

    # ----------------------------------------------------------------------- what is to be said

    def literal(self, value: int | float | str) -> Value:
        """A number or a string that is written down."""
        return value

    def truth(self, value: Value) -> Value:
        """A value as a truth value."""
        raise NotImplementedError

    def negation(self, truth: Value) -> Value:
        """Whether a condition doesn't hold."""
        raise NotImplementedError

    def any_of(self, truths: Iterable[Value]) -> Value:
        """Whether one of several conditions holds."""
        raise NotImplementedError

    def junction(self, word: str, left: Expression, right: Expression) -> Value:
        """Kleene's `and` and `or`: unknown only where the known side does not decide."""
        raise NotImplementedError

    def negative(self, value: Value) -> Value:
        """A number with the other sign."""
        raise NotImplementedError

    def same(self, left: Value, right: Value) -> Value:
        """Whether two values are equal."""
        raise NotImplementedError

    # -------------------------------------------------------------------------------- the walk

    def evaluate(self, expression: Expression) -> Value:
        """The value of an expression; UnknownError where it depends on something not known."""
        match expression:
            case Literal(value):
                return self.literal(value)
            case Name(text):
                if text not in self.names:
                    raise UnknownError
                return self.names[text]
            case ListOf(items):
                return self.entries(items)
            case Index(of, (place,)):
                return self.item(self.evaluate(of), self.evaluate(place))
            case Call():
                return self._call(expression)
            case Unary("-", operand):
                return self.negative(self.evaluate(operand))
            case Unary("not", operand):
                return self.negation(self.condition(operand))
            case Binary("and" | "or" as word, left, right):
                return self.junction(word, left, right)
            case Binary(symbol, left, right):
                return self._binary(symbol, self.evaluate(left), self.evaluate(right))
        raise UnknownError

    def condition(self, expression: Expression) -> Value:
        """The value of a condition as a truth value."""
        return self.truth(self.evaluate(expression))

    def entries(self, items: Iterable[Expression]) -> tuple[Value, ...]:
        """The values of list items, those of `*b` spliced in."""
        values: list[Value] = []
        for item in items:
            if isinstance(item, Star):
                values.extend(self.sequence(self.evaluate(Name(item.text))))
            else:
                values.append(self.evaluate(item))
        return tuple(values)

    def _call(self, call: Call) -> Value:
        name, arguments = call.function, call.arguments
        if name == "len" and isinstance(arguments[0], Star | Name):
            text = arguments[0].text
            is_bound = text in self.names
            return len(self.sequence(self.names[text])) if is_bound else self.count_of(text)
        function = FUNCTIONS[name]
        values = [
            self._asked(name, argument) if i in function.operands else self.evaluate(argument)
            for i, argument in enumerate(arguments)
        ]
        return function.apply(self, *values)

    def _asked(self, function: str, argument: Expression) -> Value:
        """What a function asks of an operand."""
        operand = operand_name(argument)
        match function:
            case "dtype":
                return self.dtype_of(operand)
            case "ints":
                return self.integers_of(operand)
            case "sizes":
                return self.shapes_of(operand)
            case _:
                return self.shape_of(operand)

    def _binary(self, symbol: str, left: Value, right: Value) -> Value:
        match symbol:
            case "=":
                return self.same(left, right)
            case "!=":
                return self.negation(self.same(left, right))
            case "in":
                return self.any_of(self.same(left, item) for item in self.sequence(right))
            case "++":
                return self.sequence(left) + self.sequence(right)
            case _:
                return self.operate(symbol, left, right)


_OPERATIONS: Mapping[str, Callable[[int | float, int | float], Value]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "min": min,
    "max": max,
    **COMPARISONS,
}


class KnownNumbers(ExpressionEvaluator):
    """Evaluates with Python's numbers; of a size that is symbolic nothing but itself is known."""

    def sequence(self, value: Value) -> tuple[Value, ...]:
        """The value as a list."""
        if isinstance(value, tuple):
            return value
        raise UnknownError

    def integer(self, value: Value) -> int:
        """The value as a known integer."""
        if isinstance(value, int):
            return int(value)
        raise UnknownError

    size = integer

    def whole_numbers(self, elements: Sequence[Value]) -> tuple[int, ...]:
        """The elements of a constant, in Python's types, as integers; floats may be some too."""
        if not all(type(element) in (int, float) and element % 1 == 0 for element in elements):
            raise UnknownError
        return tuple(map(int, elements))

    def number(self, value: Value) -> int | float:
        """The value as a known number."""
        if isinstance(value, int | float):
            return value
        raise UnknownError

    def operate(self, operator: str, left: Value, right: Value) -> Value:
        """Two numbers under an operator; UnknownError for a quotient that there isn't."""
        a, b = self.number(left), self.number(right)
        if operator in ("/", "//", "%"):
            if b == 0:
                raise UnknownError
            if operator == "/" and isinstance(a, int) and isinstance(b, int):
                if a % b:  # division of sizes is exact or the condition does not hold
                    raise UnknownError
                return a // b
        return _OPERATIONS[operator](a, b)

    def select(self, condition: Value, then: Value, otherwise: Value) -> Value:
        """One of two numbers."""
        return then if condition else otherwise

    def progression(self, first: Value, end: Value) -> tuple[int, ...]:
        """The integers from the first up to the end, which is not among them."""
        return tuple(range(self.integer(first), self.integer(end)))

    def truth(self, value: Value) -> bool:
        """A value as a truth value."""
        return bool(value)

    def negation(self, truth: Value) -> bool:
        """Whether a condition doesn't hold."""
        return not truth

    def any_of(self, truths: Iterable[Value]) -> bool:
        """Whether one of several conditions holds; those after it are not looked at."""
        return any(truths)

    def junction(self, word: str, left: Expression, right: Expression) -> bool:
        """Kleene's `and` and `or`; the right side is not looked at where the left one decides."""
        decisive = word == "or"
        unknown = False
        for side in (left, right):
            try:
                if bool(self.evaluate(side)) is decisive:
                    return decisive
            except UnknownError:
                unknown = True
        if unknown:
            raise UnknownError
        return not decisive

    def negative(self, value: Value) -> int | float:
        """A number with the other sign."""
        return -self.number(value)

    def same(self, left: Value, right: Value) -> bool:
        """Whether two values are equal; unknown for sizes of which one is symbolic."""
        if isinstance(left, tuple) and isinstance(right, tuple):
            if len(left) != len(right):
                return False
            different = [(a, b) for a, b in zip(left, right, strict=True) if not _equal(a, b)]
            if any(not _symbolic(a, b) for a, b in different):
                return False
            if different:
                raise UnknownError
            return True
        if not _equal(left, right) and _symbolic(left, right):
            raise UnknownError
        return _equal(left, right)

    def fits(self, c: tuple[Value, ...], target: tuple[Value, ...]) -> bool:
        """Whether shape c is known to broadcast to exactly the target."""
        return len(c) <= len(target) and all(
            a == 1 or a == b for a, b in zip(reversed(c), reversed(target), strict=False)
        )


def _equal(left: Value, right: Value) -> bool:
    return bool(left == right)


def _symbolic(left: Value, right: Value) -> bool:
    """Whether one of two values that differ is a symbolic size: equal they may be after all."""
    return isinstance(left, Symbol) or isinstance(right, Symbol)


def operand_name(expression: Expression) -> str:
    """The operand that a function's argument names."""
    if isinstance(expression, Name | Star):
        return expression.text
    raise UnknownError


def names_in(expression: Expression) -> set[str]:
    """The variables of an expression, operands inside functions excluded."""
    operands = {operand.text for operand in _operands(expression) if isinstance(operand, Name)}
    return {part.text for part in walk(expression) if isinstance(part, Name | Star)} - operands


def operands_in(expression: Expression) -> set[str]:
    """The operands that an expression asks about."""
    return {operand.text for operand in _operands(expression)}


def _operands(expression: Expression) -> Iterator[Name | Star]:
    """Yield what stands where functions take operands."""
    for call in walk(expression):
        if isinstance(call, Call):
            for place in FUNCTIONS[call.function].operands:
                argument = call.arguments[place] if place < len(call.arguments) else None
                if isinstance(argument, Name | Star):
                    yield argument
