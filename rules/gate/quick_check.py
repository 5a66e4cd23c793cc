"""A quick look at a rule: all of the gate but the proof. It can refute; it admits nothing."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ...catalog.errors import TensologError
from ..language.promise import promise
from ..language.syntax import Rule
from ..prover.cases.case_split import IllTyped, statements
from ..sampling.instances import instances
from .counterexample.fuzz import fuzz
from .counterexample.refute import refute
from .floating.numeric_class import refusal
from .floating.record import floating_record
from .static_checks import form_problems, static_problem
from .verdict import Counterexample

if TYPE_CHECKING:
    from ..prover.statement import Statement

SECONDS = 2.0
# Instances that are measured in floating point.
_SAMPLES = 6


@dataclass(frozen=True)
class QuickCheck:
    """What a quick look saw. refused: no substitution at all, or one that breaks its class in
    floating point. refuted: with numbers.

    sound: nothing was found against it, which is no proof. failed: it could not be looked at, by a
    fault of the check. `notes` say what a reader would miss,
    and what could not be looked at.
    """

    rule: str
    status: Literal["sound", "refused", "refuted", "failed"]
    reason: str = ""
    notes: tuple[str, ...] = ()
    counterexample: Counterexample | None = None
    seconds: float = 0.0


def quick_check(rule: Rule, seconds: float = SECONDS) -> QuickCheck:
    """Check a rule's form, types and shapes; then look for numbers against it.

    Half of `seconds` goes to instances under ONNX Runtime, half to statements in float64, in a
    prime field, and in exact arithmetic. Then a few instances are measured in floating point.
    """
    began = time.monotonic()

    def seen(status: Literal["sound", "refused", "refuted"], reason: str = "") -> QuickCheck:
        took = time.monotonic() - began
        return QuickCheck(rule.name, status, reason, tuple(notes), counterexample, took)

    notes = list(form_problems(rule))
    counterexample: Counterexample | None = None
    if problem := static_problem(rule):
        return seen("refused", problem)
    stated: list[Statement] = []
    try:
        stated = list(statements(rule))
    except IllTyped as error:
        return seen("refused", str(error))
    except TensologError as error:
        notes.append(f"compared under ONNX Runtime only: {error}")
    if not any(instances(rule, 1, dtype=dtype) for dtype in ("float32", "int64")):
        notes.append("no instance of the left side was found: can its conditions hold together?")
    regionless = rule.equal == "partial" and rule.region is None
    if regionless:
        notes.append("its region is not given: `tensolog rules prove` looks for one")
    counterexample = fuzz(rule, seconds / 2)
    if counterexample is None and stated and not regionless:
        counterexample = refute(rule, stated, seconds / 2)
    if counterexample is not None:
        return seen("refuted", counterexample.summary)
    record = floating_record(rule, stated, samples=_SAMPLES, timeout=min(1.0, seconds))
    if not record.roundings and promise(rule) != "partial":
        notes.append("ONNX Runtime runs no instance of it: has its left side ever a value?")
    if record.problems:
        counterexample = record.counterexample
        return seen("refused", f"in floating point: {refusal(rule, record)}")
    return seen("sound")
