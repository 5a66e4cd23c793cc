"""The mutation campaign: does the prover accept what numbers refute?

Each mutant goes through the gate. One that is proved is searched for numbers on which its sides
differ, by means that share nothing with the proof but the operator specifications: instances drawn
by the matcher's conditions under ONNX Runtime, and statements in exact arithmetic. If such numbers
exist, a false rule was accepted; nothing the gate says can be trusted then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ...catalog.errors import TensologError
from ..language.syntax import Rule
from ..prover.cases.case_split import IllTyped, statements
from .counterexample.fuzz import fuzz
from .counterexample.refute import refute
from .mutants import Mutant, mutants
from .prover_pool import prove_rules
from .verdict import Counterexample, Verdict

# static: no rule any more, or refused for its form; refuted: with numbers; unknown: neither proved
# nor refuted; equivalent: proved, and no numbers speak against it; accepted: proved though false.
Fate = Literal["static", "refuted", "unknown", "equivalent", "accepted"]
FATES: tuple[Fate, ...] = ("static", "refuted", "unknown", "equivalent", "accepted")

TIMEOUT_S, SEARCH_S = 20.0, 3.0
Progress = Callable[[str, int, int, str], None]


@dataclass(frozen=True)
class Judged:
    """A mutant and what became of it; `reason` is the gate's, or the counterexample's summary."""

    mutant: Mutant
    fate: Fate
    reason: str = ""
    counterexample: Counterexample | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Campaign:
    """Mutants in the order in which they were drawn, each with its fate."""

    seed: int
    judged: tuple[Judged, ...]

    def count(self) -> dict[Fate, int]:
        """Count the mutants of each fate."""
        counted = Counter(judgement.fate for judgement in self.judged)
        return {fate: counted[fate] for fate in FATES}

    def of(self, fate: Fate) -> tuple[Judged, ...]:
        """Return the mutants of one fate."""
        return tuple(judgement for judgement in self.judged if judgement.fate == fate)


def mutate(
    rules: Sequence[Rule],
    count: int,
    seed: int = 0,
    *,
    jobs: int = 2,
    timeout: float = TIMEOUT_S,
    search: float = SEARCH_S,
    progress: Progress | None = None,
) -> Campaign:
    """Put `count` mutants of rules through the gate; look for numbers against what it proves.

    `timeout` and `search` are in seconds a mutant, for the proof and for each search.
    """
    tell = progress or (lambda phase, done, total, detail: None)
    drawn = mutants(rules, count, seed)
    readable = [mutant.rule for mutant in drawn if mutant.rule is not None]
    done = 0

    def proved(rule: Rule, verdict: Verdict) -> None:
        nonlocal done
        done += 1
        tell("proving mutants", done, len(readable), f"{rule.name}: {verdict.status}")

    tell("proving mutants", 0, len(readable), "")
    verdicts = iter(
        prove_rules(readable, jobs, proved, timeout=timeout, search=search, infer=0.0)
        if readable
        else ()
    )
    judged: list[Judged] = []
    for number, mutant in enumerate(drawn):
        verdict = next(verdicts) if mutant.rule is not None else None
        if verdict is not None and verdict.status in ("proved", "bounded"):
            tell("searching against", number, len(drawn), mutant.original)
        judged.append(_judge(mutant, verdict, search, seed))
    return Campaign(seed, tuple(judged))


def _judge(mutant: Mutant, verdict: Verdict | None, search: float, seed: int) -> Judged:
    if verdict is None or mutant.rule is None:
        return Judged(mutant, "static", "it can't be read any more")
    if verdict.status == "unknown" and verdict.counterexample is not None:
        # The gate itself found numbers against its own proof.
        return Judged(mutant, "accepted", verdict.reason, verdict.counterexample, verdict.seconds)
    match verdict.status:
        case "refused":
            return Judged(mutant, "static", verdict.reason, seconds=verdict.seconds)
        case "refuted":
            return Judged(
                mutant, "refuted", verdict.reason, verdict.counterexample, verdict.seconds
            )
        case "unknown":
            return Judged(mutant, "unknown", verdict.reason, seconds=verdict.seconds)
    counterexample = against(mutant.rule, search, seed)
    if counterexample is None:
        return Judged(mutant, "equivalent", seconds=verdict.seconds)
    return Judged(mutant, "accepted", counterexample.summary, counterexample, verdict.seconds)


def against(rule: Rule, seconds: float, seed: int = 0) -> Counterexample | None:
    """Search for numbers on which a rule's sides differ, whatever was proved of it."""
    counterexample = fuzz(rule, seconds, seed)
    if counterexample is not None:
        return counterexample
    try:
        stated = statements(rule)
    except (IllTyped, TensologError):
        return None
    try:
        return refute(rule, stated, seconds) if stated else None
    except OverflowError:  # sizes that no array has: nothing was found up to there
        return None
