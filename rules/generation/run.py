"""A run: enumerate, leave out what is derived, prove, keep the least; size by size, in a budget."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..gate.ledger.fingerprints import library, normaliser
from ..gate.parallel import Provers
from ..gate.verdict import Verdict
from ..language.canonical_text import format_rules
from ..language.syntax import Rule
from ..load import load_rules
from .candidates import Candidate, candidate_of, in_order
from .choices import named_operators
from .enumeration import Enumeration, Level
from .inputs import choose_inputs
from .minimise import BATCH, Saturation, derivation, derived
from .proving import Attempt, polish, prove_candidates
from .rows import Journal, Judgement, Judgements

Report = Callable[[str, int, int, str], None]

# Candidates proved at a time, for each worker: what they make derivable is seen after each chunk.
_CHUNK = 6
# The share of the budget that enumeration may take.
_ENUMERATING = 0.4


@dataclass
class Finding:
    """A candidate and what became of it.

    kept: `rules` stand for it, one, or one for each direction. derived: by the rules `derived_by`.
    refuted, refused, unknown: as the gate says, for `reason`. open: the budget ended before it.
    """

    candidate: Candidate
    nodes: int
    position: int
    status: str = "open"
    reason: str = ""
    derived_by: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()


@dataclass
class Generation:
    """What a run saw: levels of the enumeration, findings, and how it ended.

    `from_nothing`: no rules were known before. `complete`: all terms of the sizes asked for were
    seen, and no candidate is open.
    """

    operators: tuple[str, ...]
    nodes: int
    inputs: int
    seed: int
    from_nothing: bool
    run_hash: str
    levels: list[Level] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0
    complete: bool = False

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules found, each proved, none derived by the others and those known before."""
        return tuple(rule for one in self.findings for rule in one.rules)

    @property
    def totals(self) -> dict[str, int]:
        """The number of findings by status."""
        return dict(Counter(one.status for one in self.findings))

    @property
    def command(self) -> str:
        """The command that finds them again."""
        nothing = " --from-nothing" if self.from_nothing else ""
        return (
            f"tensolog rules generate --operators {','.join(self.operators)} --nodes {self.nodes} "
            f"--inputs {self.inputs} --seed {self.seed}{nothing}"
        )

    @property
    def text(self) -> str:
        """The rules as a file of the rule language."""
        head = f"# Found and proved by\n#   {self.command}\n#\n# [generated] by that command.\n\n"
        return head + format_rules(self.rules)

    def record(self) -> dict[str, object]:
        """What the run saw, as JSON has it."""
        return {
            "run_hash": self.run_hash,
            "command": self.command,
            "complete": self.complete,
            "seconds": round(self.seconds, 1),
            "levels": [
                {
                    "nodes": one.nodes,
                    "terms": one.terms,
                    "classes": one.classes,
                    "equalities": len(one.equalities),
                    "complete": one.complete,
                }
                for one in self.levels
            ],
            "totals": self.totals,
            "candidates": [
                {
                    "equality": one.candidate.text,
                    "status": one.status,
                    "reason": one.reason,
                    "derived_by": list(one.derived_by),
                    "rules": [rule.name for rule in one.rules],
                }
                for one in self.findings
            ],
            "rules": self.text,
        }


def generate(
    operators: Sequence[str],
    *,
    saturation: Saturation,
    nodes: int = 2,
    inputs: int = 3,
    budget: float = 300.0,
    seed: int = 0,
    known: Sequence[Rule] | None = None,
    workers: int = 1,
    journal: Journal | None = None,
    recall: Callable[[str], Judgements] = lambda _: {},
    progress: Report = lambda *_: None,
) -> Generation:
    """Find rules over operators: equal programs of up to `nodes` operators, proved and minimal.

    `operators` are names, or families such as `reduction`; `inputs` is the number of variables of
    the main sort, `budget` the time in seconds of the clock. What `known` rules derive, by default
    the shipped ones, is left out. With `journal` all that is seen is stored as it is seen; `recall`
    gives what an earlier run decided, by the run's hash (rows.judgements). Raises
    UnknownOperatorError.
    """
    began = time.monotonic()
    names = named_operators(operators)
    given = list(load_rules() if known is None else known)
    settings = [names, nodes, inputs, seed, sorted(rule.hash for rule in given)]
    text = json.dumps([*settings, library(), normaliser()])
    run_hash = hashlib.sha256(text.encode()).hexdigest()
    result = Generation(names, nodes, inputs, seed, not given, run_hash)
    with Provers(workers) as provers:
        run = _Run(
            result,
            saturation,
            given,
            provers,
            workers,
            progress,
            began,
            budget,
            journal,
            recall(run_hash),
        )
        try:
            if journal is not None:
                journal.begin(result)
            run.run()
        finally:
            result.seconds = time.monotonic() - began
            if journal is not None:
                journal.note(result, "complete" if result.complete else "stopped")
    return result


@dataclass
class _Run:
    result: Generation
    saturation: Saturation
    known: list[Rule]
    provers: Provers
    workers: int
    progress: Report
    began: float
    budget: float
    journal: Journal | None
    before: Mapping[tuple[str, str], Judgement]

    def late(self) -> bool:
        return time.monotonic() > self.began + self.budget

    def enumerated_enough(self) -> bool:
        return time.monotonic() > self.began + _ENUMERATING * self.budget

    def run(self) -> None:
        result = self.result
        pool = choose_inputs(result.operators, result.inputs)
        enumeration = Enumeration(result.operators, pool, result.seed, stop=self.enumerated_enough)
        for nodes in range(1, result.nodes + 1):
            self.progress("enumerating", nodes, result.nodes, f"{len(enumeration.terms)} classes")
            level = enumeration.grow(nodes, last=nodes == result.nodes)
            result.levels.append(level)
            found = (
                candidate_of(enumeration.made(one.made), enumeration.term(one.equal_to), pool)
                for one in level.equalities
            )
            seen = {one.candidate for one in result.findings}
            new = [one for one in in_order(c for c in found if c is not None) if one not in seen]
            first = len(result.findings)
            findings = [Finding(one, nodes, first + at) for at, one in enumerate(new)]
            self.recall(findings)
            result.findings += findings
            if self.journal is not None:
                self.journal.level(result, level, enumeration, findings)
            self.judge([one for one in findings if one.status == "open"])
            if self.late() or not level.complete:
                return
        self.minimise()
        result.complete = not self.late()

    def recall(self, findings: Sequence[Finding]) -> None:
        """Take over what an earlier run decided."""
        for one in findings:
            known = self.before.get((str(one.candidate.left), str(one.candidate.right)))
            if known is not None:
                one.status, one.reason = known.status, known.reason
                one.derived_by, one.rules = known.derived_by, known.rules

    def judge(self, findings: Sequence[Finding]) -> None:
        """Keep what is proved and not derived, the general ones first."""
        for start in range(0, len(findings), BATCH):
            waiting = list(findings[start : start + BATCH])
            while waiting and not self.late():
                waiting = self.without_derived(waiting)
                most = _CHUNK * self.workers
                chunk, waiting = waiting[:most], waiting[most:]
                done = min(start + BATCH, len(findings)) - len(waiting)
                self.told("proving", done, len(findings))
                self.prove(chunk)

    def prove(self, chunk: Sequence[Finding]) -> None:
        """Put candidates through the gate, and keep those that are proved."""
        attempts = prove_candidates([one.candidate for one in chunk], self.provers)
        fresh = self.undecided(list(zip(chunk, attempts, strict=True)))
        polish([attempt for _, attempt in fresh], self.provers)
        verdicts: list[tuple[Rule, Verdict]] = []
        for one, attempt in fresh:
            one.status = "kept" if attempt.proved else attempt.status
            one.reason, one.rules = attempt.reason, attempt.rules
            verdicts += attempt.proved
        self.store(chunk, verdicts)

    def undecided(
        self, attempts: Sequence[tuple[Finding, Attempt]]
    ) -> list[tuple[Finding, Attempt]]:
        """Take note of what is not proved, or derived by the ones before; return the rest."""
        fresh: list[tuple[Finding, Attempt]] = []
        taken = {rule.name for rule in (*self.known, *self.result.rules)}
        for one, attempt in attempts:
            if not attempt.proved:
                one.status, one.reason = attempt.status, attempt.reason
                continue
            rules = [rule for _, other in fresh for rule in other.rules]
            by = derivation(one.candidate, rules, self.saturation) if rules else None
            if by is None:
                attempt.rename(taken)
                fresh.append((one, attempt))
            else:
                one.status, one.derived_by = "derived", by
        return fresh

    def without_derived(self, waiting: Sequence[Finding]) -> list[Finding]:
        """Take note of those that the rules known by now derive; return the others."""
        self.progress("deriving", 0, len(waiting), f"{len(self.result.rules)} rules kept")
        rules = [*self.known, *self.result.rules]
        left = []
        flags = derived([one.candidate for one in waiting], rules, self.saturation)
        for one, is_derived in zip(waiting, flags, strict=True):
            if not is_derived:
                left.append(one)
                continue
            one.status = "derived"
            one.derived_by = derivation(one.candidate, rules, self.saturation) or ()
        self.store([one for one in waiting if one.status == "derived"])
        return left

    def minimise(self) -> None:
        """Drop each rule that the others derive: larger general ones may have come later."""
        kept = [one for one in self.result.findings if one.status == "kept"]
        for at, one in enumerate(kept):
            if self.late():
                return
            self.told("minimising", at, len(kept))
            others = [r for r in (*self.known, *self.result.rules) if r not in one.rules]
            by = derivation(one.candidate, others, self.saturation)
            if by is not None:
                one.status, one.derived_by, one.rules = "derived", by, ()
                self.store([one])

    def store(
        self, findings: Sequence[Finding], verdicts: Sequence[tuple[Rule, Verdict]] = ()
    ) -> None:
        if self.journal is not None and findings:
            self.journal.findings(self.result, findings, verdicts)

    def told(self, phase: str, done: int, total: int) -> None:
        said = ", ".join(f"{count} {status}" for status, count in self.result.totals.items())
        self.progress(phase, done, total, said)
