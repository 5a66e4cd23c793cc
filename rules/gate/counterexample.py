"""Counterexamples of a rule: the only thing that refutes one.

Numbers on which the two sides of a statement differ are searched in float64 and in a prime field,
confirmed in exact numbers, made small, and, where ONNX Runtime runs the rule, shown there.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from ..prover.statement import Statement
from ..syntax import Rule
from .fuzz import fuzz, summarize
from .search import find
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
    started = time.monotonic()
    found = find(statements, budget_seconds, hints)
    if found is None:
        return None
    statement, difference = found
    left = min(2.0, max(0.5, budget_seconds - (time.monotonic() - started)))
    shown = fuzz(rule, left)
    if shown is not None:
        return shown
    summary = f"{summarize(difference)} ({statement.title})"
    program = statement_program(statement, difference, summary)
    return Counterexample(difference.kind, summary, program)
