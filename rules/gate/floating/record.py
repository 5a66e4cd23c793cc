"""The record of a rule in floating point: rounding, special values, bits.

Rounding and special values are those of ONNX Runtime without its optimizer, on instances of the
rule; they are measured, not proved. What is proved of the bits is in bit_equality.py.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...language.errors import RuleError
from ...language.promise import promise
from ...language.syntax import Rule
from ...prover.cases.case_split import IllTyped, UndescribedError, statements
from ...prover.statement import Statement
from ..onnx_models import TargetError, draw_sides, in_types_that_run
from ..verdict import Counterexample, FloatingRecord
from .bit_equality import bit_equality, moves_only, unfit
from .rounding import Rounding, roundings
from .scalar_bits import Bits
from .special_values import Special, specials
from .witness import Witness

SAMPLES = 8
HASTE_S = 1.0
INPUTS = {
    "normal": "ordinary inputs",
    "shifted": "inputs whose mean is far above their spread",
    "cancelling": "inputs that nearly cancel",
    "mixed": "inputs of mixed magnitudes",
}
# The share of the instances that each element type gets. ONNX Runtime computes nothing in bfloat16
# on a CPU: what a rule is for that type only, float32 shows, which has as large a range.
DTYPES = {"float32": 1.0, "float64": 0.5, "float16": 0.5}


def floating_record(
    rule: Rule,
    rule_statements: Sequence[Statement] | None = None,
    *,
    proved: bool = False,
    samples: int = SAMPLES,
    seed: int = 0,
    timeout: float = 5.0,
) -> FloatingRecord:
    """Measure and prove what a rule does in floating point.

    `rule_statements` are made here where they are needed and not given. `proved`: both
    sides were proved equal as tensors, without which moving elements proves nothing of bits.
    `samples` is the number of instances, `timeout` the solver's for each question, in seconds, of a
    rule that says exact; others get less. A partial equivalence is measured with its correction,
    without one it isn't: it promises nothing of the elements of its region.
    """
    start = time.perf_counter()
    rounded: list[Rounding] = []
    special: list[Special] = []
    problems: list[_Problem] = []
    count = samples + 2 * sum(len(operators) for _, operators in rule.choices)
    run = in_types_that_run(rule)
    for dtype, share in DTYPES.items() if promise(rule) != "partial" else ():
        try:
            pairs = draw_sides(run, max(2, round(share * count)), seed, dtype)
            rounded += roundings(pairs, dtype, seed)
            special += specials(run, pairs, dtype, seed)
        except TargetError as error:
            if dtype != "float16":  # few kernels: left to the runtime, which casts where it can
                said = f"ONNX Runtime runs the source, not the target: {error}"
                problems.append(_Problem(f"{dtype}: {said}"))
        except RuleError as error:
            problems.append(_Problem(f"{dtype}: {error}"))
    if rule.equal != "exact":
        timeout = min(timeout, HASTE_S)  # not claimed: worth little waiting
    bits = _bits(rule, rule_statements, proved, timeout)
    problems += _problems(rule, rounded, special, bits)
    shown = next((problem for problem in problems if problem.witness is not None), None)
    return FloatingRecord(
        rule.name,
        rule.hash,
        tuple(replace(rounding, witness=None) for rounding in rounded),
        tuple(replace(special, witness=None) for special in special),
        bits,
        tuple(problem.text for problem in problems),
        round(time.perf_counter() - start, 3),
        None if shown is None else shown.counterexample(rule.name),
    )


@dataclass(frozen=True)
class _Problem:
    """What a rule does that it shouldn't; `unsafe`: accuracy is lost, which more digits show."""

    text: str
    witness: Witness | None = None
    unsafe: bool = False

    def counterexample(self, title: str) -> Counterexample | None:
        if self.witness is None:
            return None
        program = self.witness.program(title, self.text, longer=self.unsafe)
        return Counterexample("floating", self.text, program)


def _bits(
    rule: Rule, rule_statements: Sequence[Statement] | None, proved: bool, timeout: float
) -> tuple[Bits, ...]:
    if rule_statements is None:
        try:
            rule_statements = () if moves_only(rule) or unfit(rule) else statements(rule)
        except (IllTyped, UndescribedError) as error:
            return (Bits("any", "unknown", "none", str(error)),)
    return bit_equality(rule, rule_statements, proved=proved, timeout=timeout)


def _problems(
    rule: Rule, rounded: Sequence[Rounding], special: Sequence[Special], bits: Sequence[Bits]
) -> list[_Problem]:
    problems = []
    for result in sorted(
        rounded, key=lambda result: (result.verdict != "unsafe", -result.max_ratio)
    ):
        where = f"{result.dtype}, {INPUTS[result.family]}"
        if result.verdict == "unsafe" and result.lost:
            said = f"{where}: numerically unsafe: {result.lost}"
            problems.append(_Problem(said, result.witness, unsafe=True))
        elif result.verdict == "unsafe":
            said = (
                f"{where}: numerically unsafe: against {_longer(result.dtype)} the target is "
                f"off by {result.target_error:.1e} of its scale, {result.max_ratio:.3g} times as "
                "far as the source"
            )
            problems.append(_Problem(said, result.witness, unsafe=True))
        elif result.verdict == "rounds" and rule.equal == "exact":
            said = f"{where}: the rule says exact, and the bits differ"
            problems.append(_Problem(said, result.witness))
    for kept in sorted(special, key=lambda kept: "infinity" not in kept.kind):
        if kept.verdict == "broken":
            said = f"{kept.dtype}, {kept.kind.replace('_', ' ')}: {kept.example}"
            problems.append(_Problem(said, kept.witness))
    if rule.equal == "exact":
        problems += [
            _Problem(f"{b.dtype}: bits differ: {b.reason}") for b in bits if b.result == "refuted"
        ]
    return problems


def _longer(dtype: str) -> str:
    """The type that errors are measured against."""
    return "long double" if dtype == "float64" else "float64"
