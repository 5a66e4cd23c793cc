"""Counterexamples of a rule: the only thing that refutes one.

Numbers on which the two sides of a statement differ are searched in float64 and in a prime field,
confirmed in exact numbers, and made small. Then the rule itself is applied to a model at these
numbers: only where it matches, and its own right side differs, is it refuted.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import onnx

from ...catalog.errors import TensologError
from ...catalog.operators import ShapeError
from ..prover.statement import Statement
from ..syntax import Rule
from .concrete import Assignment
from .difference import Difference
from .fuzz import described, shown, shown_undefined, single, summarize
from .realize import NoInstanceError, realize
from .search import certain, find
from .sides import Sides, sides_of
from .snippet import statement_program
from .verdict import Counterexample


def refute(
    rule: Rule,
    statements: Sequence[Statement],
    budget_seconds: float,
    hints: Sequence[Mapping[str, int]] = (),
) -> Counterexample | None:
    """A counterexample that was confirmed without rounding; None where none was found in time.

    `hints` are sizes to try first, such as Outcome.model. None says nothing about the rule.
    """
    until = time.monotonic() + budget_seconds
    seed = 0
    while seed == 0 or time.monotonic() < until:
        left = max(until - time.monotonic(), 0.1)
        found = find(statements, left, hints, seed, _Matching(rule))
        if found is None:
            return None
        made = _shown(rule, *found)
        if made is not None:
            return made
        seed += 1
        if seed == 8:
            return None
    return None


class _Matching:
    """Whether a rule matches at the numbers of a difference."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule

    def __call__(self, statement: Statement, assignment: Assignment) -> bool:
        if statement.origin is None:
            return True  # put together by hand: all of its assumptions were checked
        try:
            realize(self.rule, statement, assignment)
        except NoInstanceError:
            return False
        return True


def _shown(rule: Rule, statement: Statement, difference: Difference) -> Counterexample | None:
    """The difference at a model; None where the rule as it is applied doesn't differ there."""
    if statement.origin is None:
        return by_statement(statement, difference)
    try:
        sides = sides_of(realize(rule, statement, difference.assignment))
    except NoInstanceError:
        return None
    except (TensologError, onnx.shape_inference.InferenceError) as error:
        return by_statement(statement, difference, f"the right side can't be made: {error}")
    return at_sides(rule, sides, difference, statement)


def at_sides(
    rule: Rule, sides: Sides, difference: Difference, statement: Statement
) -> Counterexample | None:
    """The difference at both sides as models: both must differ there in exact numbers."""
    arrays = dict(difference.assignment.arrays)
    for operand in sides.operands:
        if operand.name not in arrays:
            arrays[operand.name] = sides.instance.view.constants[operand.name]
    try:
        own = described(sides)
    except ShapeError as error:
        return shown_undefined(rule.name, sides, str(error)) or by_statement(statement, difference)
    if own is None:
        return by_statement(statement, difference)
    found = certain(own, single(own, arrays))
    if found is None:
        return None
    return shown(rule.name, sides, found, difference.assignment.symbols)


def by_statement(statement: Statement, difference: Difference, why: str = "") -> Counterexample:
    """The difference as a program in plain Python."""
    summary = " ".join(filter(None, [why, summarize(difference), f"({statement.title})"]))
    program = statement_program(statement, difference, summary)
    return Counterexample(difference.kind, summary, program)
