"""A run: enumerate, leave out what is derived, prove, keep the least; size by size, in a budget."""

from __future__ import annotations

import hashlib
import itertools
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ..gate.ledger.fingerprints import library, normaliser
from ..gate.prover_pool import Provers
from ..gate.verdict import Verdict
from ..language.syntax import Rule
from ..load import load_rules
from .candidates import Candidate, Generalising, candidate_of, in_order, structure
from .choices import named_operators
from .enumeration import Enumeration, Workload
from .findings import Finding, Generation, with_status
from .instances import Instances, fits_all, have_sorts
from .leaves import choose_inputs, constants_of
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
    base_rules = [*shipped, *(rule for rules in before.values() for rule in rules)]
    settings = [names, nodes, inputs, seed, constants, sorted(rule.hash for rule in base_rules)]
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
            base_rules,
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
    known_rules: list[Rule]
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
    finding_of: dict[Candidate, Finding] = field(default_factory=dict)
    # Ways of spelling that were not decided: the same operators are spelled otherwise first.
    undecided_ways: set[Way] = field(default_factory=set)
    # The time, in seconds of work, of the last attempt of findings that got another one.
    patience: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.began = self.clock()

    @property
    def shares(self) -> Shares:
        return _MEASURED if self.result.is_measured else _UNMEASURED

    def is_over(self, share: float = 1.0) -> bool:
        return self.clock() > self.began + share * self.budget

    def proved_enough(self) -> bool:
        return self.is_over(self.shares.proving)

    def derived_enough(self) -> bool:
        return self.is_over(self.shares.deriving)

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
            remaining_s = max(0.0, self.began + self.budget - now)
            self.enumerating_until = now + _ENUMERATING * remaining_s
            level = enumeration.grow(nodes, last=nodes == result.nodes)
            result.levels.append(level)
            candidates = (
                candidate_of(
                    enumeration.applied(equality.e_node), enumeration.term(equality.equal_to), pool
                )
                for equality in level.equalities
            )
            seen = {finding.candidate for finding in result.findings}
            new = [c for c in in_order(c for c in candidates if c is not None) if c not in seen]
            first = len(result.findings)
            findings = [Finding(candidate, nodes, first + i) for i, candidate in enumerate(new)]
            result.findings += findings
            self.recall(findings)
            for finding in findings:
                if self.program is not None and not self.program.may_hold(finding.candidate):
                    finding.status = "elsewhere"
            if self.journal is not None:
                self.journal.level(result, level, enumeration, findings)
            if not level.complete:
                break
        self.generalise()
        self.leave_elsewhere()
        # A law of large terms may be more general than those of small ones: all are in one order.
        while True:
            waiting = with_status(result.findings, "open")
            self.judge(waiting)
            self.minimise()
            self.pair()
            if result.is_measured:
                self.measure()
            if self.proved_enough() or all(finding.status != "open" for finding in result.findings):
                break
        complete = all(level.complete for level in result.levels)
        result.complete = complete and not self.is_over()

    def recall(self, findings: Sequence[Finding]) -> None:
        """Take over what an earlier run decided."""
        for finding in findings:
            judgement = self.before.get(finding.candidate.texts)
            if judgement is not None:
                finding.status, finding.reason = judgement.status, judgement.reason
                finding.derived_by, finding.rules = judgement.derived_by, judgement.rules

    def generalise(self) -> None:
        """Add the candidates of which those with repeated variables are instances.

        What the general one derives needs no rule; where it is not proved, its instances follow.
        """
        self.finding_of = {finding.candidate: finding for finding in self.result.findings}
        general, _ = _split_instances(
            [finding for finding in self.result.findings if finding.status != "elsewhere"]
        )
        repeating = [finding for finding in general if finding.candidate.repeats]
        new: list[Finding] = []
        for i, finding in enumerate(repeating):
            if i % _BATCH == 0:
                self.report("generalising", i, len(repeating))
                if self.is_over(_GENERALISING):
                    break
            candidate = self.generalising.general(finding.candidate)
            if candidate not in self.finding_of:
                general_finding = Finding(candidate, finding.nodes, len(self.result.findings))
                self.finding_of[candidate] = general_finding
                self.result.findings.append(general_finding)
                new.append(general_finding)
        self.recall(new)
        self.store(new)

    def leave_elsewhere(self) -> None:
        """Leave out what matches nowhere in the program, in neither direction."""
        if self.program is None:
            return
        waiting = with_status(self.result.findings, "open")
        self.report("matching", 0, len(waiting))
        most_general_rules = {
            f"{verb}{i}": rule
            for i, finding in enumerate(waiting)
            for verb, candidate in (
                ("Convert", finding.candidate),
                ("Reorder", finding.candidate.turned),
            )
            if (verb == "Convert" or finding.candidate.both)
            and (rule := most_general(candidate, f"{verb}{i}")) is not None
        }
        counts = self.program.places(list(most_general_rules.values()))
        for i, finding in enumerate(waiting):
            if not counts.get(f"Convert{i}") and not counts.get(f"Reorder{i}"):
                finding.status = "elsewhere"
        self.store(with_status(waiting, "elsewhere"))

    def judge(self, findings: Sequence[Finding]) -> None:
        """Keep what is proved and not derived, the general ones first."""
        for finding in self.result.findings:
            self.note(finding)
        # What is an instance of something else that agrees on numbers waits until that is decided:
        # it is mostly derived then, and there is twenty times as much of it.
        general, instances = _split_instances(findings)
        self.decide(general)
        self.decide(instances)
        others = self.derive_instances()
        while others and not self.proved_enough():
            self.decide(others)
            others = self.derive_instances()
        for timeout in PATIENT_S:
            self.prove_patiently(findings, timeout)

    def decide(self, findings: Sequence[Finding]) -> None:
        """Decide findings in their order, of those of one structure the first before others."""
        waiting, others = list(reversed(findings)), []
        structures: set[str] = set()
        while waiting and not self.proved_enough():
            chunk, later = self.next_chunk(waiting, structures)
            others += later
            chunk = self.without_derived(chunk)
            self.report("proving", len(findings) - len(waiting) - len(others), len(findings))
            self.prove(chunk)
            waiting += with_status(reversed(chunk), "open")
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
        widenable = [
            finding
            for finding in self.result.findings
            if finding.wider and finding.status == "proved"
        ]
        if self.program is not None:
            return  # what matches there is as good
        for start in range(0, len(widenable), self.workers):
            if self.proved_enough():
                return
            self.report("widening", start, len(widenable))
            batch = widenable[start : start + self.workers]
            widened = self.provers.map(self.widened, batch)
            for finding, proved in zip(batch, widened, strict=True):
                finding.wider = ()
                rules = tuple(rule for rule, _ in proved)
                finding.rules = (*rules, *finding.rules[len(rules) :])
            self.store(batch, [*itertools.chain(*widened)])

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
            finding = waiting.pop()
            if self.is_instance(finding):
                derived += [finding] if finding.status == "derived" else []
            elif (kind := structure(finding.candidate)) in structures:
                later.append(finding)
            else:
                structures.add(kind)
                chunk.append(finding)
        self.store(derived)
        return chunk, later

    def prove_patiently(self, findings: Sequence[Finding], timeout: float) -> None:
        """Give what was not decided another attempt, with more time, in their order."""
        waiting = [
            finding
            for finding in findings
            if finding.status == "unknown" and self.patience.get(finding.position, 0.0) < timeout
        ]
        for start in range(0, len(waiting), self.workers):
            if self.proved_enough():
                return
            batch = waiting[start : start + self.workers]
            for finding in batch:
                self.patience[finding.position] = timeout
                finding.status = "open"
            self.report("proving", start, len(waiting))
            self.prove(self.without_derived(batch), timeout)
            for finding in batch:
                if finding.status == "open":  # the budget ended
                    finding.status = "unknown"

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
        instance = self.holding.instance(finding.candidate)
        if instance is None:
            return False
        general, operands = instance
        self.instances[finding.position] = general
        known = self.finding_of[general]
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
        findings = [
            finding for finding in self.result.findings if finding.position in self.instances
        ]
        waiting = with_status(findings, "open")
        rules = [*self.known_rules, *self.result.proved]
        others: list[Finding] = []
        for start in range(0, len(waiting), _BATCH):
            if self.derived_enough():
                return []
            self.report("deriving", start, len(waiting))
            batch = waiting[start : start + _BATCH]
            flags = _derived([finding.candidate for finding in batch], rules, self.saturation)
            for finding, is_derived in zip(batch, flags, strict=True):
                if is_derived:
                    general = self.finding_of[self.instances[finding.position]]
                    names = tuple(rule.name for rule in general.rules)
                    finding.status, finding.derived_by = "derived", names or general.derived_by
                else:
                    others.append(finding)
            self.store(with_status(batch, "derived"))
        return others

    def prove(self, chunk: Sequence[Finding], timeout: float = TIMEOUT_S) -> None:
        """Put candidates through the gate, and keep those that are proved, while there is time."""
        attempts = prove_candidates(
            [finding.candidate for finding in chunk],
            self.provers,
            self.proved_enough,
            timeout,
            frozenset(self.undecided_ways) if timeout == TIMEOUT_S else (),
        )
        self.undecided_ways.update(way for attempt in attempts for way in attempt.undecided)
        ended = [both for both in zip(chunk, attempts, strict=True) if both[1].ended]
        verdicts: list[tuple[Rule, Verdict]] = []
        for finding, attempt in self.undecided(ended):
            finding.status = attempt.status
            finding.reason, finding.rules = attempt.reason, attempt.rules
            finding.wider = tuple(attempt.wider)
            verdicts += attempt.proved
        for finding in chunk:
            self.note(finding)
        self.store(chunk, verdicts)

    def undecided(
        self, attempts: Sequence[tuple[Finding, Attempt]]
    ) -> list[tuple[Finding, Attempt]]:
        """Take note of what is not proved, or derived by the ones before; return the rest."""
        fresh: list[tuple[Finding, Attempt]] = []
        taken = {rule.name for rule in (*self.known_rules, *self.result.proved)}
        for finding, attempt in attempts:
            if not attempt.proved:
                finding.status, finding.reason = attempt.status, attempt.reason
                continue
            if self.program is not None and not any(self.program.places(attempt.rules).values()):
                finding.status = "elsewhere"  # what was proved says less than what was asked
                continue
            rules = [rule for _, other in fresh for rule in other.rules]
            derived_by = _derivation(finding.candidate, rules, self.saturation) if rules else None
            if derived_by is None:
                attempt.rename(taken)
                fresh.append((finding, attempt))
            else:
                finding.status, finding.derived_by = "derived", derived_by
        return fresh

    def without_derived(self, waiting: Sequence[Finding]) -> list[Finding]:
        """Take note of those that the rules known by now derive; return the others."""
        rules = [*self.known_rules, *self.result.proved]
        underived = []
        flags = _derived([finding.candidate for finding in waiting], rules, self.saturation)
        for finding, is_derived in zip(waiting, flags, strict=True):
            if not is_derived:
                underived.append(finding)
                continue
            finding.status = "derived"
            derived_by = _derivation(finding.candidate, rules, self.saturation)
            finding.derived_by = derived_by or ()
            finding.reason = _BESIDE if derived_by is None else ""
            self.note(finding)
        self.store(with_status(waiting, "derived"))
        return underived

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
        singles = [
            finding
            for finding in self.result.findings
            if finding.rules and not finding.candidate.beside
        ]
        dropped: dict[str, tuple[str, ...]] = {}
        for i, finding in enumerate(singles):
            if self.derived_enough():
                break
            self.report("minimising", i, len(singles))
            others = [r for r in (*self.known_rules, *self.result.proved) if r not in finding.rules]
            derived_by = _derivation(finding.candidate, others, self.saturation)
            if derived_by is not None and all(
                self.saturation.derives(r, others) for r in finding.rules
            ):
                dropped.update((rule.name, derived_by) for rule in finding.rules)
                finding.status, finding.derived_by, finding.rules = "derived", derived_by, ()
                self.store([finding])
        self.replace(dropped)

    def pair(self) -> None:
        """Make rules of several outputs of those that are kept, and of what they derive."""
        singles = [finding for finding in self.result.findings if not finding.candidate.beside]
        proved = {finding.candidate: finding for finding in singles if finding.rules}
        holding = [finding.candidate for finding in singles if finding.status == "derived"]
        seen = {f.candidate.text for f in self.result.findings if f.candidate.beside}
        for candidate, derived in with_two_outputs(list(proved), holding):
            if self.derived_enough():
                return
            if candidate.text in seen or not self.may_match(candidate):
                continue
            seen.add(candidate.text)
            (attempt,) = prove_candidates([candidate], self.provers, self.is_over)
            if not attempt.ended:
                return
            attempt.rename({rule.name for rule in (*self.known_rules, *self.result.proved)})
            nodes = sum(left.nodes for left, _ in candidate.sides)
            finding = Finding(candidate, nodes, len(self.result.findings), attempt.status)
            finding.reason, finding.rules = attempt.reason, attempt.rules
            self.result.findings.append(finding)
            singles_derived = [proved[single] for single in derived] if attempt.proved else []
            names = tuple(rule.name for rule in attempt.rules)
            dropped = {rule.name: names for single in singles_derived for rule in single.rules}
            for single in singles_derived:
                single.status, single.derived_by, single.rules = "derived", names, ()
            self.store([finding, *singles_derived], attempt.proved)
            self.replace(dropped)

    def measure(self) -> None:
        """Say of the rules what they promise in floating point; what keeps no promise is none.

        What was derived by such a rule is open again.
        """
        proved = with_status(self.result.findings, "proved")
        refused: set[str] = set()
        for start in range(0, len(proved), self.workers):
            if self.is_over():
                return
            self.report("measuring", start, len(proved))
            batch = proved[start : start + self.workers]
            rules = [(finding, rule) for finding in batch for rule in finding.rules]
            measured = polish([rule for _, rule in rules], self.provers)
            for finding in batch:
                measured_here = [
                    (rule, polished)
                    for (owner, rule), polished in zip(rules, measured, strict=True)
                    if owner is finding
                ]
                refused |= {rule.name for rule, polished in measured_here if polished.rule is None}
                finding.rules = tuple(
                    polished.rule for _, polished in measured_here if polished.rule is not None
                )
                finding.status = "kept" if finding.rules else measured_here[0][1].verdict.status
                finding.reason = "" if finding.rules else measured_here[0][1].verdict.reason
            verdicts = [
                (polished.rule, polished.verdict)
                for polished in measured
                if polished.rule is not None
            ]
            self.store(batch, verdicts)
        reopened = [
            finding for finding in self.result.findings if refused & set(finding.derived_by)
        ]
        for finding in reopened:
            finding.status, finding.derived_by = "open", ()
            self.instances.pop(finding.position, None)
        self.store(reopened)
        if reopened:
            self.holding = Instances()

    def replace(self, dropped: Mapping[str, tuple[str, ...]]) -> None:
        """Name in the place of rules that were dropped those that derive them."""
        changed = [
            finding for finding in self.result.findings if dropped.keys() & set(finding.derived_by)
        ]
        for finding in changed:
            names = list(finding.derived_by)
            while dropped_name := next((name for name in names if name in dropped), None):
                names = [name for name in names if name != dropped_name] + list(
                    dropped[dropped_name]
                )
            finding.derived_by = tuple(dict.fromkeys(names))
        self.store(changed)

    def store(
        self, findings: Sequence[Finding], verdicts: Sequence[tuple[Rule, Verdict]] = ()
    ) -> None:
        if self.journal is not None and findings:
            self.journal.findings(self.result, findings, verdicts)

    def report(self, phase: str, done: int, total: int) -> None:
        counts = ", ".join(f"{count} {status}" for status, count in self.result.totals.items())
        self.progress(phase, done, total, counts)


def _reads(term: Term) -> set[tuple[str, str]]:
    """Pairs of operators of which the second reads what the first gives; not those of constants."""
    return {
        (operand.operation.op_type, part.operation.op_type)
        for part in parts((term,))
        if isinstance(part, Apply)
        for operand in part.operands
        if isinstance(operand, Apply) and not operand.is_constant
    }


def _split_instances(findings: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Findings in the order of their candidates: those that are instances of no earlier one, and
    the others."""
    earlier = Instances()
    general: list[Finding] = []
    instances: list[Finding] = []
    for finding in sorted(findings, key=lambda finding: finding.candidate.rank):
        (general if earlier.instance(finding.candidate) is None else instances).append(finding)
        earlier.add(finding.candidate)
    return general, instances


def _derived(
    candidates: Sequence[Candidate], rules: Sequence[Rule], saturation: Saturation
) -> list[bool]:
    """Say of each candidate whether rules derive it."""
    flags: list[bool] = []
    for start in range(0, len(candidates), _BATCH):
        batch = candidates[start : start + _BATCH]
        model = model_of(
            [term for candidate in batch for term in (candidate.left, candidate.right)]
        )
        pairs = [(f"term_{2 * i}", f"term_{2 * i + 1}") for i in range(len(batch))]
        flags += saturation.derived_equalities(model, pairs, rules)
    return flags


def _derivation(
    candidate: Candidate, rules: Sequence[Rule], saturation: Saturation
) -> tuple[str, ...] | None:
    """The rules by which a candidate is derived, none of them in vain; None if it isn't."""
    model = model_of([candidate.left, candidate.right])
    return saturation.derivation(model, [("term_0", "term_1")], rules)
