"""A run: enumerate, leave out what is derived, prove, keep the least; size by size, in a budget."""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ..gate.ledger.fingerprints import library, normaliser
from ..gate.prover_pool import Provers
from ..gate.verdict import Verdict
from ..language.canonical_text import format_rules
from ..language.syntax import Rule
from ..load import load_rules
from .candidates import Candidate, Generalising, candidate_of, in_order, structure
from .choices import named_operators
from .constants import constants_of
from .enumeration import Enumeration, Level, Workload
from .inputs import choose_inputs
from .instances import Instances, fits_all, have_sorts
from .pairing import with_two_outputs
from .proving import (
    PATIENT_S,
    TIMEOUT_S,
    Attempt,
    Proved,
    ProverPool,
    Way,
    most_general,
    polish,
    prove_candidates,
    widen,
)
from .rows import Journal, Judgement, Judgements
from .terms import Apply, Term, model_of, parts
from .wording import Spelling

if TYPE_CHECKING:
    import onnx

Report = Callable[[str, int, int, str], None]
Pair = tuple[str, str]

# Candidates looked at together, for each worker: what they make derivable is seen after each chunk.
_CHUNK = 4
# Equalities put into one e-graph: together they share rounds, and budget.
_BATCH = 200
_BESIDE = "only in an e-graph with terms of other candidates"


@dataclass(frozen=True)
class Shares:
    """Shares of the budget after which nothing more is proved, and nothing more derived.

    What was proved is looked at once more between the two; what is left is for floating point.
    """

    proving: float
    deriving: float


_MEASURED, _UNMEASURED = Shares(0.7, 0.8), Shares(0.9, 1.0)
# The share of what is left of the budget that enumerating one size may take, and that of all of it
# after which no general candidates are looked for.
_ENUMERATING, _GENERALISING = 0.3, 0.5


class Saturation(Protocol):
    """The e-graph's part, handed in: optimizer/egraph/equalities.py, which imports this folder."""

    def derived_equalities(
        self, model: onnx.ModelProto, pairs: Sequence[Pair], rules: Iterable[Rule]
    ) -> list[bool]:
        """Whether rules make each pair of outputs one class."""

    def derivation(
        self, model: onnx.ModelProto, pairs: Sequence[Pair], rules: Iterable[Rule]
    ) -> tuple[str, ...] | None:
        """Rules that suffice for all pairs; None if none do."""

    def derives(self, rule: Rule, rules: Iterable[Rule]) -> bool:
        """Whether rules derive another one at the sizes that it speaks of."""


@dataclass(frozen=True)
class Program:
    """A program that rules are wanted for.

    `reads` are pairs of operators of which the second reads what the first gives; `places` says how
    often rules match there, by their names.
    """

    reads: frozenset[tuple[str, str]]
    places: Callable[[Sequence[Rule]], Mapping[str, int]]

    def may_hold(self, candidate: Candidate) -> bool:
        """Whether the operators of a side read each other there; rules tell what `places` says."""
        sides = [candidate.left, *([candidate.right] if candidate.both else [])]
        return any(_reads(side) <= self.reads for side in sides)


@dataclass
class Finding:
    """A candidate and what became of it.

    kept: `rules` stand for it, one, or one for each direction. proved: likewise, but what they do
    in floating point was not measured yet. derived: by the rules `derived_by`. refuted, refused,
    unknown: as the gate says, for `reason`. elsewhere: nothing in the program that rules are wanted
    for is an instance of it. open: the budget ended before it.
    """

    candidate: Candidate
    nodes: int
    position: int
    status: str = "open"
    reason: str = ""
    derived_by: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    # More general spellings of the rules that were not decided in the time for a first attempt.
    wider: tuple[tuple[Spelling, Rule], ...] = ()


@dataclass
class Generation:
    """What a run saw: levels of the enumeration, findings, and how it ended.

    `from_nothing`: no shipped rules were known. `known_files`: the files of rules that were found
    before. `is_measured`: what rules do in floating point was measured, as far as the budget went.
    `complete`: all terms of the sizes asked for were seen, and no candidate is open.
    """

    operators: tuple[str, ...]
    nodes: int
    inputs: int
    seed: int
    from_nothing: bool
    constants: bool
    run_hash: str
    known_files: tuple[str, ...] = ()
    is_measured: bool = True
    levels: list[Level] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0
    processor_s: float = 0.0
    complete: bool = False

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules found, each proved, none derived by the others and those known before."""
        return tuple(r for one in self.findings if one.status == "kept" for r in one.rules)

    @property
    def proved(self) -> tuple[Rule, ...]:
        """Those, and the ones that are still to be measured in floating point."""
        return tuple(rule for one in self.findings for rule in one.rules)

    @property
    def totals(self) -> dict[str, int]:
        """The number of findings by status."""
        return dict(Counter(one.status for one in self.findings))

    @property
    def command(self) -> str:
        """The command that finds them again."""
        nothing = " --from-nothing" if self.from_nothing else ""
        nothing += " --constants" if self.constants else ""
        nothing += "" if self.is_measured else " --unmeasured"
        nothing += "".join(f" --known {file}" for file in self.known_files)
        return (
            f"tensolog rules generate --operators {','.join(self.operators)} --nodes {self.nodes} "
            f"--inputs {self.inputs} --seed {self.seed}{nothing}"
        )

    @property
    def text(self) -> str:
        """The rules as a file of the rule language."""
        return self.text_of(self.rules)

    def text_of(self, rules: Sequence[Rule]) -> str:
        """Some of the rules as a file of the rule language."""
        head = f"# Found and proved by\n#   {self.command}\n#\n# [generated] by that command.\n\n"
        return head + format_rules(tuple(rules))

    def record(self) -> dict[str, object]:
        """What the run saw, as JSON has it."""
        return {
            "run_hash": self.run_hash,
            "command": self.command,
            "complete": self.complete,
            "seconds": round(self.seconds, 1),
            "processor_s": round(self.processor_s, 1),
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
    found_before: Mapping[str, Sequence[Rule]] | None = None,
    constants: bool = False,
    is_measured: bool = True,
    workers: int = 1,
    processor: bool = False,
    journal: Journal | None = None,
    recall: Callable[[str], Judgements] = lambda _: {},
    progress: Report = lambda *_: None,
    program: Program | None = None,
) -> Generation:
    """Find rules over operators: equal programs of up to `nodes` operators, proved and minimal.

    `operators` are names, or families such as `reduction`; `inputs` is the number of variables of
    the main sort, `budget` the time in seconds of the clock, or with `processor` the processor time
    of this process and its provers, in which what else a machine does isn't counted. What `known`
    rules derive, by default the shipped ones, is left out, and what those of `found_before` derive,
    rules of earlier runs by the names of their files. With `constants` zeros, ones and identities
    are among the leaves. Unless `is_measured`, floating point is left to `tensolog rules prove`,
    and its time to proofs. With `journal` all that is seen is stored as it is seen; `recall` gives
    what an earlier run decided, by the run's hash (rows.judgements). Of a `program` only what
    matches there is proved. Raises UnknownOperatorError.
    """
    began = time.monotonic()
    processor_began = time.process_time()
    names = named_operators(operators)
    shipped = load_rules() if known is None else known
    before = found_before or {}
    given = [*shipped, *(rule for rules in before.values() for rule in rules)]
    settings = [names, nodes, inputs, seed, constants, sorted(rule.hash for rule in given)]
    text = json.dumps([*settings, library(), normaliser()])
    run_hash = hashlib.sha256(text.encode()).hexdigest()
    result = Generation(
        names,
        nodes,
        inputs,
        seed,
        not shipped,
        constants,
        run_hash,
        known_files=tuple(before),
        is_measured=is_measured,
    )
    with ProverPool(workers) as provers:
        run = _Run(
            result,
            saturation,
            given,
            provers,
            workers,
            progress,
            (lambda: time.process_time() + provers.processor_s) if processor else time.monotonic,
            budget,
            journal,
            recall(run_hash),
            program,
        )
        try:
            if journal is not None:
                journal.begin(result)
            run.run()
        finally:
            result.seconds = time.monotonic() - began
            result.processor_s = time.process_time() - processor_began + provers.processor_s
            if journal is not None:
                journal.note(result, "complete" if result.complete else "stopped")
    return result


@dataclass
class _Run:
    result: Generation
    saturation: Saturation
    known: list[Rule]
    provers: ProverPool
    workers: int
    progress: Report
    clock: Callable[[], float]
    budget: float
    journal: Journal | None
    before: Mapping[tuple[str, str], Judgement]
    program: Program | None
    began: float = field(init=False)
    generalising: Generalising = field(init=False)
    enumerating_until: float = 0.0
    # Findings that are known to hold, and those that are instances of them, with what they are
    # instances of: these are derived in the end, all at once.
    holding: Instances = field(default_factory=Instances)
    instances: dict[int, Candidate] = field(default_factory=dict)
    known_as: dict[Candidate, Finding] = field(default_factory=dict)
    # Ways of spelling that were not decided: the same operators are spelled otherwise first.
    undecided_ways: set[Way] = field(default_factory=set)
    # The time, in seconds of work, of the last attempt of findings that got another one.
    patience: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.began = self.clock()

    @property
    def shares(self) -> Shares:
        return _MEASURED if self.result.is_measured else _UNMEASURED

    def late(self, share: float = 1.0) -> bool:
        return self.clock() > self.began + share * self.budget

    def proved_enough(self) -> bool:
        return self.late(self.shares.proving)

    def derived_enough(self) -> bool:
        return self.late(self.shares.deriving)

    def enumerated_enough(self) -> bool:
        return self.clock() > self.enumerating_until

    def run(self) -> None:
        result = self.result
        pool = choose_inputs(result.operators, result.inputs)
        is_large = result.constants or result.nodes > Workload.free
        enumeration = Enumeration(
            result.operators,
            pool,
            result.seed,
            constants=constants_of(pool) if result.constants else (),
            # What a constant stands for states as much as two things: pads, and that they count.
            workload=Workload(said=result.nodes + 1 + result.constants) if is_large else None,
            stop=self.enumerated_enough,
        )
        self.generalising = Generalising(
            pool, result.seed, enumeration.arithmetic, places=enumeration.places
        )
        for nodes in range(1, result.nodes + 1):
            self.progress("enumerating", nodes, result.nodes, f"{len(enumeration.terms)} classes")
            now = self.clock()
            left = max(0.0, self.began + self.budget - now)
            self.enumerating_until = now + _ENUMERATING * left
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
            result.findings += findings
            self.recall(findings)
            for one in findings:
                if self.program is not None and not self.program.may_hold(one.candidate):
                    one.status = "elsewhere"
            if self.journal is not None:
                self.journal.level(result, level, enumeration, findings)
            if not level.complete:
                break
        self.generalise()
        self.leave_elsewhere()
        # A law of large terms may be more general than those of small ones: all are in one order.
        while True:
            waiting = [one for one in result.findings if one.status == "open"]
            self.judge(waiting)
            self.minimise()
            self.pair()
            if result.is_measured:
                self.measure()
            if self.proved_enough() or all(one.status != "open" for one in result.findings):
                break
        complete = all(level.complete for level in result.levels)
        result.complete = complete and not self.late()

    def recall(self, findings: Sequence[Finding]) -> None:
        """Take over what an earlier run decided."""
        for one in findings:
            known = self.before.get(_key(one.candidate))
            if known is not None:
                one.status, one.reason = known.status, known.reason
                one.derived_by, one.rules = known.derived_by, known.rules

    def generalise(self) -> None:
        """Add the candidates of which those with repeated variables are instances.

        What the general one derives needs no rule; where it is not proved, its instances follow.
        """
        self.known_as = {one.candidate: one for one in self.result.findings}
        general, _ = _apart([one for one in self.result.findings if one.status != "elsewhere"])
        seen = [one for one in general if one.candidate.repeats]
        new: list[Finding] = []
        for at, one in enumerate(seen):
            if at % _BATCH == 0:
                self.told("generalising", at, len(seen))
                if self.late(_GENERALISING):
                    break
            candidate = self.generalising.general(one.candidate)
            if candidate not in self.known_as:
                made = Finding(candidate, one.nodes, len(self.result.findings))
                self.known_as[candidate] = made
                self.result.findings.append(made)
                new.append(made)
        self.recall(new)
        self.store(new)

    def leave_elsewhere(self) -> None:
        """Leave out what matches nowhere in the program, in neither direction."""
        if self.program is None:
            return
        waiting = [one for one in self.result.findings if one.status == "open"]
        self.told("matching", 0, len(waiting))
        ways = {
            f"{way}{at}": rule
            for at, one in enumerate(waiting)
            for way, candidate in (("Convert", one.candidate), ("Reorder", one.candidate.turned))
            if (way == "Convert" or one.candidate.both)
            and (rule := most_general(candidate, f"{way}{at}")) is not None
        }
        counts = self.program.places(list(ways.values()))
        for at, one in enumerate(waiting):
            if not counts.get(f"Convert{at}") and not counts.get(f"Reorder{at}"):
                one.status = "elsewhere"
        self.store([one for one in waiting if one.status == "elsewhere"])

    def judge(self, findings: Sequence[Finding]) -> None:
        """Keep what is proved and not derived, the general ones first."""
        for one in self.result.findings:
            self.note(one)
        # What is an instance of something else that agrees on numbers waits until that is decided:
        # it is mostly derived then, and there is twenty times as much of it.
        general, instances = _apart(findings)
        self.look_at(general)
        self.look_at(instances)
        others = self.derive_instances()
        while others and not self.proved_enough():
            self.look_at(others)
            others = self.derive_instances()
        for timeout in PATIENT_S:
            self.prove_patiently(findings, timeout)

    def look_at(self, findings: Sequence[Finding]) -> None:
        """Decide findings in their order, of those of one structure the first before others."""
        waiting, others = list(reversed(findings)), []
        structures: set[str] = set()
        while waiting and not self.proved_enough():
            chunk, later = self.next_chunk(waiting, structures)
            others += later
            chunk = self.without_derived(chunk)
            self.told("proving", len(findings) - len(waiting) - len(others), len(findings))
            self.prove(chunk)
            waiting += [one for one in reversed(chunk) if one.status == "open"]
            if not waiting:
                # What is said more generally derives more of those that follow.
                self.widen()
                waiting, others = others[::-1], []
                structures.clear()

    def widen(self) -> None:
        """Ask for the more general spellings of what was proved, with more time for each.

        A candidate is decided by the first spelling that is proved at once: most of them are
        derived in the end, and general spellings take the longest.
        """
        found = [one for one in self.result.findings if one.wider and one.status == "proved"]
        if self.program is not None:
            return  # what matches there is as good
        for start in range(0, len(found), self.workers):
            if self.proved_enough():
                return
            self.told("widening", start, len(found))
            some = found[start : start + self.workers]
            widened = self.provers.each(self.widened, some)
            for one, proved in zip(some, widened, strict=True):
                one.wider = ()
                rules = tuple(rule for rule, _ in proved)
                one.rules = (*rules, *one.rules[len(rules) :])
            self.store(some, [each for proved in widened for each in proved])

    def widened(self, finding: Finding, provers: Provers) -> tuple[Proved, ...]:
        return widen(
            finding.candidate,
            finding.rules,
            finding.wider,
            provers,
            PATIENT_S[0],
            self.proved_enough,
        )

    def next_chunk(
        self, waiting: list[Finding], structures: set[str]
    ) -> tuple[list[Finding], list[Finding]]:
        """Take candidates off the end of a list that are no instances, of other structures.

        A rule for one often derives those of the same structure, whose attributes and ranks differ:
        these are returned as well, and looked at when there is one of each.
        """
        chunk: list[Finding] = []
        later: list[Finding] = []
        derived: list[Finding] = []
        while waiting and len(chunk) < _CHUNK * self.workers:
            one = waiting.pop()
            if self.is_instance(one):
                derived += [one] if one.status == "derived" else []
            elif (kind := structure(one.candidate)) in structures:
                later.append(one)
            else:
                structures.add(kind)
                chunk.append(one)
        self.store(derived)
        return chunk, later

    def prove_patiently(self, findings: Sequence[Finding], timeout: float) -> None:
        """Give what was not decided another attempt, with more time, in their order."""
        waiting = [
            one
            for one in findings
            if one.status == "unknown" and self.patience.get(one.position, 0.0) < timeout
        ]
        for start in range(0, len(waiting), self.workers):
            if self.proved_enough():
                return
            some = waiting[start : start + self.workers]
            for one in some:
                self.patience[one.position] = timeout
                one.status = "open"
            self.told("proving", start, len(waiting))
            self.prove(self.without_derived(some), timeout)
            for one in some:
                if one.status == "open":  # the budget ended
                    one.status = "unknown"

    def note(self, finding: Finding) -> None:
        """Remember what holds, so that its instances wait."""
        is_known = finding.status in ("kept", "proved", "derived")
        if is_known and finding.position not in self.instances:
            self.holding.add(finding.candidate)

    def is_instance(self, finding: Finding) -> bool:
        """Whether it says no more than what is known to hold.

        A rule without conditions derives those that have the shapes it declares. Of the others
        that is seen to in the end.
        """
        if finding.position in self.instances:
            return False
        found = self.holding.instance(finding.candidate)
        if found is None:
            return False
        general, operands = found
        self.instances[finding.position] = general
        known = self.known_as[general]
        for rule in known.rules:
            if fits_all(rule, general, operands):
                finding.status, finding.derived_by = "derived", (rule.name,)
                return True
        if have_sorts(operands):
            # What derives the general one derives it with other terms of these sorts as well.
            names = tuple(rule.name for rule in known.rules)
            finding.status, finding.derived_by = "derived", names or known.derived_by
        return True

    def derive_instances(self) -> list[Finding]:
        """Take note of instances that are derived; return the others: rules may say less."""
        findings = [one for one in self.result.findings if one.position in self.instances]
        waiting = [one for one in findings if one.status == "open"]
        rules = [*self.known, *self.result.proved]
        others: list[Finding] = []
        for start in range(0, len(waiting), _BATCH):
            if self.derived_enough():
                return []
            self.told("deriving", start, len(waiting))
            some = waiting[start : start + _BATCH]
            flags = _derived([one.candidate for one in some], rules, self.saturation)
            for one, is_derived in zip(some, flags, strict=True):
                if is_derived:
                    general = self.known_as[self.instances[one.position]]
                    names = tuple(rule.name for rule in general.rules)
                    one.status, one.derived_by = "derived", names or general.derived_by
                else:
                    others.append(one)
            self.store([one for one in some if one.status == "derived"])
        return others

    def prove(self, chunk: Sequence[Finding], timeout: float = TIMEOUT_S) -> None:
        """Put candidates through the gate, and keep those that are proved, while there is time."""
        attempts = prove_candidates(
            [one.candidate for one in chunk],
            self.provers,
            self.proved_enough,
            timeout,
            frozenset(self.undecided_ways) if timeout == TIMEOUT_S else (),
        )
        self.undecided_ways.update(way for attempt in attempts for way in attempt.undecided)
        ended = [both for both in zip(chunk, attempts, strict=True) if both[1].ended]
        verdicts: list[tuple[Rule, Verdict]] = []
        for one, attempt in self.undecided(ended):
            one.status = attempt.status
            one.reason, one.rules = attempt.reason, attempt.rules
            one.wider = tuple(attempt.wider)
            verdicts += attempt.proved
        for one in chunk:
            self.note(one)
        self.store(chunk, verdicts)

    def undecided(
        self, attempts: Sequence[tuple[Finding, Attempt]]
    ) -> list[tuple[Finding, Attempt]]:
        """Take note of what is not proved, or derived by the ones before; return the rest."""
        fresh: list[tuple[Finding, Attempt]] = []
        taken = {rule.name for rule in (*self.known, *self.result.proved)}
        for one, attempt in attempts:
            if not attempt.proved:
                one.status, one.reason = attempt.status, attempt.reason
                continue
            if self.program is not None and not any(self.program.places(attempt.rules).values()):
                one.status = "elsewhere"  # what was proved says less than what was asked
                continue
            rules = [rule for _, other in fresh for rule in other.rules]
            by = _derivation(one.candidate, rules, self.saturation) if rules else None
            if by is None:
                attempt.rename(taken)
                fresh.append((one, attempt))
            else:
                one.status, one.derived_by = "derived", by
        return fresh

    def without_derived(self, waiting: Sequence[Finding]) -> list[Finding]:
        """Take note of those that the rules known by now derive; return the others."""
        rules = [*self.known, *self.result.proved]
        left = []
        flags = _derived([one.candidate for one in waiting], rules, self.saturation)
        for one, is_derived in zip(waiting, flags, strict=True):
            if not is_derived:
                left.append(one)
                continue
            one.status = "derived"
            by = _derivation(one.candidate, rules, self.saturation)
            one.derived_by, one.reason = by or (), _BESIDE if by is None else ""
            self.note(one)
        self.store([one for one in waiting if one.status == "derived"])
        return left

    def may_match(self, candidate: Candidate) -> bool:
        """Whether a candidate of several outputs matches in the program that rules are for."""
        if self.program is None:
            return True
        rule = most_general(candidate, "MergeBoth")
        return rule is not None and any(self.program.places([rule]).values())

    def minimise(self) -> None:
        """Drop each rule that the others derive: larger general ones may have come later.

        They have to derive it where sizes differ that the candidate's variables have in common.
        """
        found = [one for one in self.result.findings if one.rules and not one.candidate.beside]
        dropped: dict[str, tuple[str, ...]] = {}
        for at, one in enumerate(found):
            if self.derived_enough():
                break
            self.told("minimising", at, len(found))
            others = [r for r in (*self.known, *self.result.proved) if r not in one.rules]
            by = _derivation(one.candidate, others, self.saturation)
            if by is not None and all(self.saturation.derives(r, others) for r in one.rules):
                dropped.update((rule.name, by) for rule in one.rules)
                one.status, one.derived_by, one.rules = "derived", by, ()
                self.store([one])
        self.replace(dropped)

    def pair(self) -> None:
        """Make rules of several outputs of those that are kept, and of what they derive."""
        singles = [one for one in self.result.findings if not one.candidate.beside]
        found = {one.candidate: one for one in singles if one.rules}
        holding = [one.candidate for one in singles if one.status == "derived"]
        seen = {one.candidate.text for one in self.result.findings if one.candidate.beside}
        for candidate, said in with_two_outputs(list(found), holding):
            if self.derived_enough():
                return
            if candidate.text in seen or not self.may_match(candidate):
                continue
            seen.add(candidate.text)
            (attempt,) = prove_candidates([candidate], self.provers, self.late)
            if not attempt.ended:
                return
            attempt.rename({rule.name for rule in (*self.known, *self.result.proved)})
            nodes = sum(left.nodes for left, _ in candidate.sides)
            finding = Finding(candidate, nodes, len(self.result.findings), attempt.status)
            finding.reason, finding.rules = attempt.reason, attempt.rules
            self.result.findings.append(finding)
            said = said if attempt.proved else []
            names = tuple(rule.name for rule in attempt.rules)
            dropped = {rule.name: names for one in said for rule in found[one].rules}
            for one in said:
                found[one].status, found[one].derived_by, found[one].rules = "derived", names, ()
            self.store([finding, *(found[one] for one in said)], attempt.proved)
            self.replace(dropped)

    def measure(self) -> None:
        """Say of the rules what they promise in floating point; what keeps no promise is none.

        What was derived by such a rule is open again.
        """
        found = [one for one in self.result.findings if one.status == "proved"]
        refused: set[str] = set()
        for start in range(0, len(found), self.workers):
            if self.late():
                return
            self.told("measuring", start, len(found))
            some = found[start : start + self.workers]
            rules = [(one, rule) for one in some for rule in one.rules]
            measured = polish([rule for _, rule in rules], self.provers)
            for one in some:
                own = [
                    (rule, known)
                    for (owner, rule), known in zip(rules, measured, strict=True)
                    if owner is one
                ]
                refused |= {rule.name for rule, known in own if known.rule is None}
                one.rules = tuple(known.rule for _, known in own if known.rule is not None)
                one.status = "kept" if one.rules else own[0][1].verdict.status
                one.reason = "" if one.rules else own[0][1].verdict.reason
            verdicts = [(known.rule, known.verdict) for known in measured if known.rule is not None]
            self.store(some, verdicts)
        again = [one for one in self.result.findings if refused & set(one.derived_by)]
        for one in again:
            one.status, one.derived_by = "open", ()
            self.instances.pop(one.position, None)
        self.store(again)
        if again:
            self.holding = Instances()

    def replace(self, dropped: Mapping[str, tuple[str, ...]]) -> None:
        """Name in the place of rules that were dropped those that derive them."""
        changed = [one for one in self.result.findings if dropped.keys() & set(one.derived_by)]
        for one in changed:
            names = list(one.derived_by)
            while gone := next((name for name in names if name in dropped), None):
                names = [name for name in names if name != gone] + list(dropped[gone])
            one.derived_by = tuple(dict.fromkeys(names))
        self.store(changed)

    def store(
        self, findings: Sequence[Finding], verdicts: Sequence[tuple[Rule, Verdict]] = ()
    ) -> None:
        if self.journal is not None and findings:
            self.journal.findings(self.result, findings, verdicts)

    def told(self, phase: str, done: int, total: int) -> None:
        said = ", ".join(f"{count} {status}" for status, count in self.result.totals.items())
        self.progress(phase, done, total, said)


def _reads(term: Term) -> set[tuple[str, str]]:
    """Pairs of operators of which the second reads what the first gives; not those of constants."""
    return {
        (operand.operation.op_type, part.operation.op_type)
        for part in parts((term,))
        if isinstance(part, Apply)
        for operand in part.operands
        if isinstance(operand, Apply) and not operand.is_constant
    }


def _apart(findings: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Findings in the order of their candidates: those that are instances of no earlier one, and
    the others."""
    every = Instances()
    general: list[Finding] = []
    instances: list[Finding] = []
    for one in sorted(findings, key=lambda one: one.candidate.rank):
        (general if every.instance(one.candidate) is None else instances).append(one)
        every.add(one.candidate)
    return general, instances


def _key(candidate: Candidate) -> tuple[str, str]:
    return candidate.texts


def _derived(
    candidates: Sequence[Candidate], rules: Sequence[Rule], saturation: Saturation
) -> list[bool]:
    """Say of each candidate whether rules derive it."""
    found: list[bool] = []
    for start in range(0, len(candidates), _BATCH):
        some = candidates[start : start + _BATCH]
        model = model_of([term for one in some for term in (one.left, one.right)])
        pairs = [(f"term_{2 * at}", f"term_{2 * at + 1}") for at in range(len(some))]
        found += saturation.derived_equalities(model, pairs, rules)
    return found


def _derivation(
    candidate: Candidate, rules: Sequence[Rule], saturation: Saturation
) -> tuple[str, ...] | None:
    """The rules by which a candidate is derived, none of them in vain; None if it isn't."""
    model = model_of([candidate.left, candidate.right])
    return saturation.derivation(model, [("term_0", "term_1")], rules)
