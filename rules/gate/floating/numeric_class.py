"""Whether a rule keeps in floating point what its class promises; if not, no proof admits it.

Both sides may be equal as real numbers, and the right one lose all digits where the mean of its
inputs is far above their spread, or make NaN of what was finite. The first no class allows; of the
second, `finite_math` says that the rule is meant for finite numbers only.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from dataclasses import replace

from ....catalog.operators.contributed import BLOCKED, LAYOUTS
from ...language.promise import promise
from ...language.syntax import Rule
from ..cpu_limit import FLOATING_MORE_S, FLOATING_TIMES, OutOfTimeError, limited
from ..gate import TIMEOUT_S
from ..verdict import FloatingRecord, Verdict
from .record import floating_record

# Looser promises, the least loose first: class, finite_math, and how a rule says it.
_LOOSER = (
    ("", True, "finite_math"),
    ("rounding", False, "equal rounding"),
    ("rounding", True, "equal rounding, finite_math"),
)

_NO_INSTANCE = ": ONNX Runtime runs no instance of it that was drawn"


def measured(rule: Rule, verdict: Verdict, timeout: float = TIMEOUT_S) -> Verdict:
    """Add to a proof what the rule does in floating point; refuse it where that breaks its class.

    A verdict other than proved or bounded stays as it is. Of a rule about real numbers that can't
    be measured, because ONNX Runtime runs no instance of it, nothing is known: it might be false of
    every float. So of one for which half of `timeout` and 5 s of processor time are not enough.
    What no model has, images in blocks, is measured where it is used (optimizer/layouts).
    """
    if verdict.status not in ("proved", "bounded"):
        return verdict
    if _in_blocks(rule):
        return replace(verdict, floating=FloatingRecord(rule.name, rule.hash, (), (), (), (), 0.0))
    most = FLOATING_TIMES * timeout + FLOATING_MORE_S
    began = time.process_time()
    try:
        with limited(most):
            record = floating_record(rule, proved=True)
    except OutOfTimeError:
        return _unmeasured(verdict, f" within {most:g} s of work")
    except Exception as error:  # a defect of the measurement
        print(f"{rule.name}: {type(error).__name__}: {error}", file=sys.stderr)
        said = " ".join(str(error).split())
        return _unmeasured(verdict, f": {type(error).__name__}: {said}")
    if record.status == "unmeasured" and promise(rule) != "partial":
        return replace(_unmeasured(verdict, _NO_INSTANCE), floating=record)
    if not record.problems:
        return replace(verdict, floating=record)
    said = record.problems[0]
    with suppress(OutOfTimeError), limited(began + most - time.process_time()):
        said = refusal(rule, record)
    reason = f"equal as real numbers, but not in floating point: {said}"
    return replace(
        verdict,
        status="refused",
        reason=reason,
        counterexample=record.counterexample,
        floating=record,
    )


def _in_blocks(rule: Rule) -> bool:
    return any(node.domain in (BLOCKED, LAYOUTS) for node in (*rule.match, *rule.rewrite))


def _unmeasured(verdict: Verdict, why: str) -> Verdict:
    reason = f"what it does in floating point was not measured{why}"
    status = "unknown" if "real" in verdict.algebras else verdict.status
    return replace(verdict, reason=reason, status=status)


def refusal(rule: Rule, record: FloatingRecord) -> str:
    """Say what a rule does that it shouldn't, and under which class it might."""
    first, *more = record.problems
    others = f" (and {len(more)} more)" if more else ""
    said = _looser(rule)
    advice = f"; it would keep what `{said}` promises" if said else ""
    return f"{first}{others}{advice}"


def _looser(rule: Rule) -> str:
    """The least loose class that the rule keeps, as it is written; empty where it keeps none."""
    for equal, finite, said in _LOOSER:
        changed = replace(rule, equal=equal or rule.equal, finite_math=rule.finite_math or finite)
        if changed == rule or (equal and rule.equal != "exact"):
            continue
        if not floating_record(changed, proved=True).problems:
            return said
    return ""
