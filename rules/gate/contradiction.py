"""Conditions that no numbers fulfil together, as a solver sees it.

Ranks, lengths, sizes and integer attributes are integers, and the first three not negative; other
numbers are real. What a condition says beyond comparisons of such numbers is not looked at; those
that are not understood are left out, so that what is found contradictory is so.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import z3

from ...catalog.terms.comparisons import COMPARISONS
from ...catalog.terms.syntax_tree import Binary, Call, Expression, Index, Literal, Name, Unary
from ..language import schemas
from ..language.canonical_text import expression_text
from ..language.conditions import bindings
from ..language.syntax import Rule, Star
from ..prover.work_clock import limit
from .counterexample.symbol_values import endable_solver

_TIMEOUT_S = 1.0
# Functions whose values are integers, and those of them that are never negative.
_INTEGERS = frozenset(("rank", "len", "dim", "size", "axis", "place", "sum", "prod", "min", "max"))
_NATURAL = frozenset(("rank", "len", "dim", "size", "axis", "place"))
_LISTS = frozenset(("ints", "shape", "sizes", "axes", "range", "take", "drop", "plus", "times"))


def contradictory(rule: Rule) -> tuple[str, ...]:
    """Return conditions of a rule that no numbers fulfil together; empty where there are some."""
    reader = _Reader(rule)
    solver = endable_solver()
    limit(solver, _TIMEOUT_S)
    labels: dict[str, str] = {}
    for condition in rule.given:
        for part in conjuncts(condition):
            formula = reader.truth(part)
            if formula is not None:
                label = f"condition {len(labels)}"
                labels[label] = expression_text(part)
                solver.assert_and_track(formula, label)
    if not labels:
        return ()
    solver.add(*reader.facts())
    if solver.check() != z3.unsat:
        return ()
    core = {str(literal) for literal in solver.unsat_core()}
    return tuple(text for label, text in labels.items() if label in core)


def conjuncts(condition: Expression) -> Iterator[Expression]:
    """Yield the parts of a condition that hold together."""
    match condition:
        case Binary("and", left, right):
            yield from conjuncts(left)
            yield from conjuncts(right)
        case _:
            yield condition


class _Reader:
    """Reads conditions as formulas; None stands for what isn't understood."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.names = bindings(rule)
        self.numbers: dict[str, Any] = {}
        self.natural: set[str] = set()
        self.integer_attributes = {
            name
            for name, (node, attribute) in self.names.attributes.items()
            if all(schemas.is_integer(o, attribute) for o in self._operators(node))
        }

    def _operators(self, node: str) -> tuple[str, ...]:
        return next(node_.operators for node_ in self.rule.match if node_.name == node)

    def facts(self) -> Iterator[Any]:
        """What holds of the numbers by what they are."""
        for operand in self.rule.operands:
            if operand.shape is None or f"rank({operand.name})" not in self.numbers:
                continue
            rank: Any = len(operand.shape)
            for size in operand.shape:
                if isinstance(size, Star):
                    rank = rank - 1 + self._integer(f"len({size.text})", natural=True)
            yield self.numbers[f"rank({operand.name})"] == rank
        for text in self.natural:
            yield self.numbers[text] >= 0

    def truth(self, part: Expression) -> Any:
        """A condition as a formula."""
        match part:
            case Binary("and" | "or" as operator, left, right):
                sides = [self.truth(left), self.truth(right)]
                if None in sides:
                    return None
                return z3.And(*sides) if operator == "and" else z3.Or(*sides)
            case Unary("not", operand):
                inner = self.truth(operand)
                return None if inner is None else z3.Not(inner)
            case Binary(operator, left, right) if operator in COMPARISONS:
                first, other = self.number(left), self.number(right)
                if first is None or other is None:
                    return None
                return COMPARISONS[operator](first, other)
        return None

    def number(self, part: Expression) -> Any:
        """The value of an expression that is a number."""
        match part:
            case Literal(bool() | str()):
                return None
            case Literal(int() as value):
                return z3.IntVal(value)
            case Literal(float() as value):
                return z3.RealVal(str(Fraction(value)))
            case Name(text) if text in self.names.shapes:
                return self._integer(text, natural=True)
            case Name(text) if text in self.integer_attributes:
                return self._integer(text, natural=False)
            case Name(text) if text in self.names.scalars:
                return self.numbers.setdefault(text, z3.Real(text))
            case Call(function, arguments) if function in _INTEGERS:
                listed = function in ("sum", "prod", "min", "max")
                if listed and not (len(arguments) == 1 and _is_list(arguments[0])):
                    return None
                return self._integer(expression_text(part), natural=function in _NATURAL)
            case Index(of, _) if _is_list(of):
                return self._integer(expression_text(part), natural=False)
            case Unary("-", operand):
                inner = self.number(operand)
                return None if inner is None else -inner
            case Binary("+" | "-" | "*" as operator, left, right):
                first, other = self.number(left), self.number(right)
                if first is None or other is None:
                    return None
                return {"+": first + other, "-": first - other, "*": first * other}[operator]
        return None

    def _integer(self, text: str, *, natural: bool) -> Any:
        if natural:
            self.natural.add(text)
        return self.numbers.setdefault(text, z3.Int(text))


def _is_list(part: Expression) -> bool:
    """Whether an expression is a list of integers."""
    return isinstance(part, Call) and part.function in _LISTS
