"""The gate: from a rule's text to a verdict.

What is no substitution at all is refused; then each statement that the rule stands for is proved,
and the solver's answers are rechecked by another one. Where a statement stays open, numbers are
sought on which the sides differ, for they alone refute, and conditions under which they would not.
What is proved is confronted with such numbers too, for a moment: the prover might be wrong.
Whatever goes wrong on the way leaves the rule unknown.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ..language.canonical_text import expression_text
from ..language.syntax import Rule
from ..prover.work_clock import now
from .cpu_limit import PROOF_MORE_S, PROOF_TIMES, OutOfTimeError, limited
from .vacuity import has_no_value, same_program
from .verdict import Case, Checked, Counterexample, Status, Verdict

# What needs Z3 or ONNX Runtime is imported within functions: a process that only starts workers
# (prover_pool.py) does without.
if TYPE_CHECKING:
    from ..prover.statement import Outcome, Statement

TIMEOUT_S = 60.0
SEARCH_S = 5.0
INFER_S = 20.0
# What a single statement may take, in seconds of work: at first, and where no numbers are found on
# which the sides differ.
_FIRST_S = 2.0
_STATEMENT_S = 20.0
# After so much work on statements that are all proved, one of many may still be false: look.
_LONG_S = 1.5
_GLANCE_S = 0.4
# A look for numbers before a statement that is open is given more time.
_LOOK_S = 1.0
# What rechecking may take where the proof has left it no time.
_RECHECK_S = 5.0
# A short look for numbers against what was proved: so long, and at so many draws.
_CONTRADICTION_S = 0.1
_CONTRADICTION_DRAWS = 48


def prove_rule(
    rule: Rule,
    timeout: float = TIMEOUT_S,
    *,
    search: float = SEARCH_S,
    recheck_timeout: float | None = None,
    infer: float = INFER_S,
    processor: float | None = None,
) -> Verdict:
    """Put a rule through the gate: what it proves is that both sides are equal as numbers.

    Whether that survives floating point, the narrowing casts of a rule among it, `measured` says
    (gate/floating/numeric_class.py); a rule is admitted after both.

    `timeout` bounds the proof, in seconds of work (prover/work_clock.py). In seconds of processor
    time `search` bounds that for a counterexample, `infer` that for conditions under which a rule
    that isn't proved would be (0: none), neither longer than half of `timeout`. None is real time:
    what else a machine does changes no verdict. All together take `processor` at most, in seconds
    of processor time, by default 1.5 times `timeout` and 5 s, and what a solver still answers
    (cpu_limit.py).
    """
    began = time.perf_counter()
    half = timeout / 2
    gate = _Gate(rule, now() + timeout, min(search, half), recheck_timeout, min(infer, half))
    most = PROOF_TIMES * timeout + PROOF_MORE_S if processor is None else processor
    try:
        with limited(most):
            verdict = gate.verdict()
    except OutOfTimeError:
        verdict = gate.standing_verdict or gate.answer(
            "unknown", f"no verdict within {most:g} s of work"
        )
    except Exception as error:  # a defect of the prover is no verdict on the rule
        verdict = gate.answer("unknown", f"the prover failed: {type(error).__name__}: {error}")
    return replace(verdict, seconds=time.perf_counter() - began)


@dataclass
class _Gate:
    rule: Rule
    until: float
    search: float
    recheck_timeout: float | None
    infer: float
    cases: list[Case] = field(default_factory=list)
    # A verdict that stands, while conditions are sought under which the rule would be proved.
    standing_verdict: Verdict | None = None

    def answer(self, status: Status, reason: str = "") -> Verdict:
        return Verdict(self.rule.name, self.rule.hash, status, reason, cases=tuple(self.cases))

    def remaining(self) -> float:
        return self.until - now()

    def verdict(self) -> Verdict:
        if same_program(self.rule):
            return self.answer("refused", "both sides are the same program: it changes nothing")
        from ..prover.cases.case_split import IllTyped, statements
        from ..prover.cases.composition import UndescribedError
        from .static_checks import static_problem

        if problem := static_problem(self.rule):
            return self.with_conditions_sought(self.answer("refused", problem))
        try:
            stated = list(statements(self.rule))
        except IllTyped as error:
            return self.with_conditions_sought(self.answer("refused", str(error)))
        except UndescribedError as error:
            return self.answer("unknown", str(error))
        if not stated:
            return self.answer("refused", "its conditions can't hold: it speaks of nothing")
        if self.rule.equal == "partial" and self.rule.region is None:
            return self.with_region_sought()
        outcomes: list[Outcome] = []
        look_at = now() + _LONG_S
        for statement in stated:
            outcome = self.prove_statement(statement, _FIRST_S)
            difference = None
            if _is_open(outcome):
                difference = self.seek_difference(stated, outcome, _LOOK_S)
                if difference is None and self.remaining() > 0:
                    self.cases.pop()
                    outcome = self.prove_statement(statement, _STATEMENT_S)
            elif now() > look_at:
                look_at = float("inf")
                difference = self.seek_difference(stated, outcome, _GLANCE_S)
            outcomes.append(outcome)
            if difference is not None:
                return self.refuted(difference)
            if _is_open(outcome):
                return self.not_proved(stated, outcomes)
        if all(outcome.vacuous for outcome in outcomes):
            return self.answer("refused", "its conditions can't hold together: it says nothing")
        if self.speaks_of_no_values(stated, outcomes):
            return self.answer("refused", "its left side never has a value: it says nothing")
        return self.all_proved(stated, outcomes)

    @staticmethod
    def speaks_of_no_values(stated: Sequence[Statement], outcomes: Sequence[Outcome]) -> bool:
        """Whether both sides agree for want of anything that could differ, in every case."""
        pairs = zip(stated, outcomes, strict=True)
        return all(outcome.vacuous or has_no_value(pair) for pair, outcome in pairs)

    def seek_difference(
        self, stated: Sequence[Statement], outcome: Outcome, seconds: float
    ) -> Counterexample | None:
        """Look for numbers for a moment, before more time goes into a proof that may not exist."""
        if not self.search:
            return None
        return _counterexample(self.rule, stated, min(seconds, self.search), outcome)

    def refuted(self, counterexample: Counterexample) -> Verdict:
        verdict = replace(
            self.answer("refuted", counterexample.summary), counterexample=counterexample
        )
        return self.with_conditions_sought(verdict)

    def prove_statement(self, statement: Statement, seconds: float) -> Outcome:
        from ..prover.prove import prove
        from ..prover.statement import Outcome
        from ..prover.wording import worded

        remaining_s = self.remaining()
        if remaining_s <= 0:
            outcome = Outcome("open", "there was no time left for it")
        else:
            outcome = prove(statement, min(seconds, remaining_s))
            outcome = replace(outcome, reason=worded(outcome.reason, statement))
        never = outcome.vacuous
        status = "proved" if never else outcome.status
        reason = "its conditions can't hold together" if never else outcome.reason
        self.cases.append(
            Case(statement.title, status, reason, len(outcome.queries), outcome.seconds)
        )
        return outcome

    # ---- where every statement is proved
    def all_proved(self, stated: Sequence[Statement], outcomes: Sequence[Outcome]) -> Verdict:
        from ..prover.ranks.induction import lift
        from ..prover.solve.recheck import TIMEOUT_S, cvc5_release, recheck_all, z3_release
        from ..prover.solve.smt_scripts import canonical, script_hash
        from .floating.discontinuities import discontinuity_problem

        queries = [
            (statement.title, query)
            for statement, outcome in zip(stated, outcomes, strict=True)
            for query in outcome.queries
            if query.result == "unsat"
        ]
        opinions = recheck_all(
            (query.script for _, query in queries),
            TIMEOUT_S if self.recheck_timeout is None else self.recheck_timeout,
            budget=max(_RECHECK_S, self.remaining()),
        )
        checked = []
        for title, query in queries:
            opinion = opinions[script_hash(query.script)]
            checked.append(
                Checked(
                    title,
                    query.purpose,
                    canonical(query.script),
                    query.seconds,
                    opinion.opinion,
                    opinion.seconds,
                )
            )
        release = cvc5_release()
        verdict = replace(
            self.answer("proved"),
            obligations=tuple(checked),
            algebras=_algebras(stated),
            solver=f"z3 {z3_release()}",
            rechecker=None if release is None else f"cvc5 {release}",
        )
        if against := [obligation for obligation in checked if obligation.opinion == "disagree"]:
            reason = f"Z3 and cvc5 disagree on: {against[0].purpose} ({against[0].title})"
            return replace(verdict, status="unknown", reason=reason, algebras=())
        counterexample = _contradiction(self.rule, stated)
        if counterexample is not None:
            reason = f"it was proved, and yet a counterexample was found: {counterexample.summary}"
            return replace(
                verdict, status="unknown", reason=reason, algebras=(), counterexample=counterexample
            )
        if problem := discontinuity_problem(self.rule, stated):
            return replace(verdict, status="refused", reason=problem, algebras=())
        lifted = lift(self.rule, stated, outcomes)
        status: Status = "bounded" if lifted.within else "proved"
        return replace(verdict, status=status, ranks=lifted.ranks, within=lifted.within)

    # ---- where one stays open
    def not_proved(self, stated: Sequence[Statement], outcomes: Sequence[Outcome]) -> Verdict:
        last = outcomes[-1]
        reason = f"{stated[len(outcomes) - 1].title}: {last.reason}".removeprefix(": ")
        verdict = self.answer("unknown", reason)
        counterexample = _counterexample(self.rule, stated, self.search, last)
        return (
            self.with_conditions_sought(verdict)
            if counterexample is None
            else self.refuted(counterexample)
        )

    # ---- where the region of a partial equivalence is not given
    def with_region_sought(self) -> Verdict:
        """Look for the region, and prove the rule with it: its author has to write it down."""
        from .inference.partial_region import with_region

        changed = with_region(self.rule, max(self.remaining(), 1.0))
        if changed is None:
            return self.answer("unknown", "its region is not given, and none was found")
        region_text = expression_text(changed.region) if changed.region is not None else ""
        until = now() + max(self.remaining(), _RECHECK_S)
        verdict = _Gate(changed, until, self.search, self.recheck_timeout, 0.0).verdict()
        if verdict.status not in ("proved", "bounded"):
            why = f"its region is not given; with `except {region_text}` it is {verdict.status}"
            return self.answer("unknown", f"{why}: {verdict.reason}")
        condition = f"partial except {region_text}"
        reason = f"its region is not given; with `equal {condition}` it is {verdict.status}"
        return replace(self.answer("unknown", reason), conditions=(condition,))

    def with_conditions_sought(self, verdict: Verdict) -> Verdict:
        """Add the conditions under which a rule that isn't proved is, by this very gate."""
        if not self.infer:
            return verdict
        self.standing_verdict = verdict
        from .inference.condition_candidates import with_conditions
        from .inference.preconditions import infer_conditions

        conditions = infer_conditions(self.rule, self.infer)
        changed = with_conditions(self.rule, conditions) if conditions else None
        if not conditions or changed is None:
            return verdict
        again = _Gate(changed, now() + self.infer, 0.0, self.recheck_timeout, 0.0)
        if again.verdict().status not in ("proved", "bounded"):
            return verdict
        return replace(verdict, conditions=conditions)


def _is_open(outcome: Outcome) -> bool:
    return outcome.status != "proved" and not outcome.vacuous


def _algebras(stated: Sequence[Statement]) -> tuple[str, ...]:
    used = {operand.algebra for s in stated for operand in s.operands}
    used |= {algebra for s in stated for algebra in s.algebras.values()}
    return tuple(sorted(used))


def _counterexample(
    rule: Rule, stated: Sequence[Statement], seconds: float, outcome: Outcome
) -> Counterexample | None:
    from .counterexample.refute import refute

    return refute(rule, stated, seconds, [outcome.model] if outcome.model else [])


def _contradiction(rule: Rule, stated: Sequence[Statement]) -> Counterexample | None:
    """Look for numbers against what was proved: there are none unless the prover is wrong."""
    from .counterexample.refute import refute

    with suppress(Exception):  # a search that fails says nothing
        return refute(rule, stated, _CONTRADICTION_S, draws=_CONTRADICTION_DRAWS)
    return None
