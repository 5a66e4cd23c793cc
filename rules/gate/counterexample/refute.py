"""Counterexamples of a rule: the only thing that refutes one.

Numbers on which the two sides of a statement differ are searched in float64 and in a prime field,
confirmed in exact numbers, and made small. Then the rule itself is applied to a model at these
numbers: only where it matches, and its own right side differs, is it refuted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import onnx

from ....catalog.errors import TensologError
from ....catalog.operators import ShapeError
from ....catalog.terms.index_notation import Term, substitute
from ...language.syntax import Rule
from ...prover.statement import Statement
from ..evaluation.arithmetic import Array, Assignment, Number
from ..onnx_models import NotRunError, SideModels, sides_of
from ..verdict import Counterexample
from .difference import Difference
from .fuzz import (
    described,
    ends_the_process,
    execute,
    shown,
    shown_undefined,
    single,
    summarize,
    suspicious,
)
from .minimize import minimize
from .python_program import statement_program
from .rule_instance import NoInstanceError, realize
from .search import certain, find_first

_MINIMIZE_S = 3.0


def refute(
    rule: Rule,
    statements: Sequence[Statement],
    budget_seconds: float,
    hints: Sequence[Mapping[str, int]] = (),
    draws: float = math.inf,
) -> Counterexample | None:
    """A counterexample that was confirmed without rounding; None where none was found in time.

    `hints` are sizes to try first, such as Outcome.model; at most so many `draws` of numbers are
    looked at in a row. None says nothing about the rule.
    """
    until = time.thread_time() + budget_seconds
    seed = 0
    while seed == 0 or time.thread_time() < until:
        remaining_s = max(until - time.thread_time(), 0.1)
        counterexample = find_first(statements, remaining_s, Matching(rule), hints, seed, draws)
        if counterexample is None:
            return None
        statement, difference = counterexample
        seen = _visible(rule, statement, difference.assignment)
        counts = partial(_visible, rule) if seen else Matching(rule)
        small = minimize(statement, difference, _MINIMIZE_S, counts=counts)
        shown = _shown(rule, statement, small)
        if shown is not None:
            return shown
        seed += 1
        if seed == 8:
            return None
    return None


class Matching:
    """Whether a rule matches at the numbers of a difference."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule

    def __call__(self, statement: Statement, assignment: Assignment) -> bool:
        """Ask the matcher, on a model made at these numbers."""
        if statement.origin is None:
            return True  # put together by hand: all of its assumptions were checked
        try:
            realize(self.rule, statement, assignment)
        except NoInstanceError:
            return False
        return True


def _visible(rule: Rule, statement: Statement, assignment: Assignment) -> bool:
    """Whether ONNX Runtime shows that the sides differ: it says exp(log(0)) = 0."""
    try:
        sides = sides_of(realize(rule, statement, assignment))
        feeds = _feeds(sides, assignment)
        return suspicious(execute(sides, feeds))
    except (NoInstanceError, NotRunError, TensologError, onnx.shape_inference.InferenceError):
        return False


def _feeds(sides: SideModels, assignment: Assignment) -> dict[str, Array]:
    """The arrays of an assignment by input of a model; the rest are the model's constants."""
    constants = sides.instance.view.constants
    return {
        o.name: np.asarray(assignment.arrays.get(o.name, constants.get(o.name))).astype(
            np.dtype(o.dtype)
        )
        for o in sides.operands
    }


def _shown(rule: Rule, statement: Statement, difference: Difference) -> Counterexample | None:
    """The difference at a model; None where the rule as it is applied doesn't differ there."""
    uncorrected = bool(rule.correct) and statement.region is not None
    if statement.origin is None or uncorrected:
        return by_statement(statement, difference)
    try:
        sides = sides_of(realize(rule, statement, difference.assignment))
    except NoInstanceError:
        return None
    except (TensologError, onnx.shape_inference.InferenceError) as error:
        return by_statement(statement, difference, f"the right side can't be made: {error}")
    return at_sides(rule, sides, difference, statement)


def at_sides(
    rule: Rule, sides: SideModels, difference: Difference, statement: Statement
) -> Counterexample | None:
    """The difference at both sides as models: both must differ there in exact numbers."""
    feeds = _feeds(sides, difference.assignment)
    try:
        statement_at_sides = described(sides)
    except ShapeError as error:
        return shown_undefined(rule.name, sides, str(error)) or by_statement(statement, difference)
    if statement_at_sides is None:
        return by_statement(statement, difference)
    if statement.region is not None:
        symbol_values = {
            name: _term(value) for name, value in difference.assignment.symbols.items()
        }
        region = substitute(statement.region, symbol_values)
        statement_at_sides = replace(
            statement_at_sides, region=region, region_indices=statement.region_indices
        )
    difference_at_sides = certain(statement_at_sides, single(statement_at_sides, feeds))
    if difference_at_sides is None:
        return None
    if ends_the_process(sides):
        return by_statement(statement, difference)
    return shown(rule.name, sides, difference_at_sides, difference.assignment.symbols)


def _term(value: Number) -> Term:
    return float(value) if isinstance(value, Fraction) else value


def by_statement(statement: Statement, difference: Difference, why: str = "") -> Counterexample:
    """The difference as a program in plain Python."""
    summary = " ".join(filter(None, [why, summarize(difference), f"({statement.title})"]))
    program = statement_program(statement, difference, summary)
    return Counterexample(difference.kind, summary, program)
