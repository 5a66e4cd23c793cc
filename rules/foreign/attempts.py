"""One foreign rule on its way through the gate: the readings tried, and what they say together."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from ..gate.vacuity import same_program
from ..gate.verdict import Counterexample, Verdict
from ..language.canonical_text import rule_text
from ..language.parser import parse_rules
from ..language.syntax import Rule
from .equations import equation_text
from .readings import Candidate, Condition, candidates
from .shapes import ShapeClashError
from .terms import ForeignRule, Problem

Status = Literal["proved", "conditional", "refuted", "refused", "unknown", "unreadable"]
STATUSES: tuple[Status, ...] = (
    "proved",
    "conditional",
    "refuted",
    "refused",
    "unknown",
    "unreadable",
)


@dataclass(frozen=True)
class Imported:
    """What became of one foreign rule.

    proved: equal as it stands, for all sizes. conditional: proved under `conditions`; what it does
    without them, `counterexample` shows where one was met. refuted: with a counterexample. refused:
    the shapes of the two sides don't fit. unknown: not decided, or an operator that is not known
    here. unreadable: malformed. `reason` says why.

    `rule` is the text that was proved, or that is at fault, in the rule language; `usable`: it can
    find something in a graph, so that it is worth keeping. `ranks` are those it is proved for.
    """

    name: str
    line: int
    text: str
    status: Status
    reason: str = ""
    conditions: tuple[Condition, ...] = ()
    counterexample: Counterexample | None = None
    rule: str = ""
    usable: bool = False
    ranks: str = ""
    seconds: float = 0.0

    def record(self) -> dict[str, Any]:
        """The answer as JSON has it."""
        shown = self.counterexample
        return {
            "name": self.name,
            "line": self.line,
            "text": self.text,
            "status": self.status,
            "reason": self.reason,
            "conditions": [condition.text for condition in self.conditions],
            "words": [condition.words for condition in self.conditions],
            "counterexample": shown
            and {"kind": shown.kind, "summary": shown.summary, "snippet": shown.snippet},
            "rule": self.rule,
            "usable": self.usable,
            "ranks": self.ranks,
            "seconds": round(self.seconds, 4),
        }


@dataclass
class Attempts:
    """A foreign rule, the readings that may be tried, and the verdicts on those that were."""

    foreign: ForeignRule | Problem
    verdicts: list[Verdict] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clash = ""
        self.readings: tuple[Candidate, ...] = ()
        if isinstance(self.foreign, ForeignRule):
            try:
                self.readings = candidates(self.foreign)
            except ShapeClashError as error:
                self.clash = str(error)

    @property
    def done(self) -> bool:
        """Whether there is nothing left to try."""
        if len(self.verdicts) == len(self.readings) or self.trivial:
            return True
        return self.proved

    @property
    def proved(self) -> bool:
        """Whether the last reading that was tried is proved, and says something of the rule."""
        if not self.verdicts or self.verdicts[-1].status not in ("proved", "bounded"):
            return False
        return not self.readings[len(self.verdicts) - 1].degenerate

    @cached_property
    def trivial(self) -> bool:
        """Whether both sides are the same operators: a truth, though nothing to rewrite."""
        if not self.readings:
            return False
        return self.readings[0].translation.same or same_program(_parsed(self.readings[0]))

    @property
    def hard(self) -> bool:
        """Whether the next reading has a number of groups that is not known."""
        text = self.readings[len(self.verdicts)].translation.text
        return re.search(r"group=\D", text) is not None

    def next(self) -> Rule:
        """The rule of the next reading."""
        return _parsed(self.readings[len(self.verdicts)])

    def result(self) -> Imported:
        """The answer, once it is done."""
        foreign = self.foreign
        if isinstance(foreign, Problem):
            status: Status = "unreadable" if foreign.malformed else "unknown"
            return Imported(foreign.name, foreign.line, foreign.text, status, foreign.reason)
        if self.trivial:
            reason = "both sides are the same ONNX operators: true, and nothing to rewrite"
            return self._answer("proved", reason)
        if not self.readings:
            return self._answer("refused", self.clash)
        if self.proved:
            candidate = self.readings[len(self.verdicts) - 1]
            conditions = candidate.conditions
            return self._answer(
                "conditional" if conditions else "proved",
                conditions=conditions,
                counterexample=self._counterexample() if conditions else None,
                rule=rule_text(_parsed(candidate)),
                usable=not candidate.translation.witness,
                ranks=self.verdicts[-1].ranks,
            )
        return self._open()

    def _open(self) -> Imported:
        """The answer where no reading is proved.

        A reading is a special case of the rule, so numbers that refute one refute the rule; except
        that broadcasting is not what the rule states, and only what is false without is refuted.
        """
        strict = [i for i, candidate in enumerate(self.readings) if not _widened(candidate)]
        refuted = [i for i in strict if self.verdicts[i].status == "refuted"]
        plain = [i for i in strict if self.readings[i].plain]
        reading = [*refuted, *plain, 0][0]
        verdict = self.verdicts[reading]
        status: Status = "unknown"
        if verdict.status in ("refuted", "refused"):
            status = verdict.status
        return self._answer(
            status,
            verdict.reason,
            counterexample=verdict.counterexample if status == "refuted" else None,
            rule=rule_text(_parsed(self.readings[reading])),
        )

    def _answer(self, status: Status, reason: str = "", **more: Any) -> Imported:
        assert isinstance(self.foreign, ForeignRule)
        seconds = sum(verdict.seconds for verdict in self.verdicts)
        foreign = self.foreign
        return Imported(
            foreign.name, foreign.line, _shown(foreign), status, reason, seconds=seconds, **more
        )

    def _counterexample(self) -> Counterexample | None:
        return next((v.counterexample for v in self.verdicts if v.counterexample), None)


def _widened(candidate: Candidate) -> bool:
    """Whether a reading lets operands broadcast that the rule states to be of one shape."""
    reading = candidate.translation.reading
    return reading.broadcast and candidate.broadcasts


def _parsed(candidate: Candidate) -> Rule:
    return parse_rules(candidate.translation.text, "imported.rules")[0]


def _shown(rule: ForeignRule) -> str:
    """A foreign rule as equations."""
    if rule.system == "tensat":
        return rule.text
    return ", ".join(f"{equation_text(a)} == {equation_text(b)}" for a, b in rule.outputs)
