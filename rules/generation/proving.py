"""Candidates through the gate: the most general spelling that it proves becomes the rule."""

from __future__ import annotations

import queue
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Self, TypeVar

from ...catalog.terms.syntax_tree import Call, walk
from ..gate.inference.condition_candidates import with_conditions
from ..gate.prover_pool import Provers
from ..gate.verdict import Verdict
from ..language import schemas
from ..language.canonical_text import rule_text as formatted
from ..language.errors import RuleError
from ..language.parser import parse_rules
from ..language.syntax import Operand, Rule
from .candidates import Candidate
from .wording import Spelling, earliest_opset, rule_name, rule_text, spellings

SOURCE = "generated"
PROVED = ("proved", "bounded")
# What the gate may take for one spelling of one candidate, in seconds of work. What is proved is so
# within a tenth of it, mostly; what isn't has other spellings, of which each may take as long.
TIMEOUT_S, SEARCH_S = 1.0, 0.3
# The same in further attempts, which what was not decided before gets in the end.
PATIENT_S = (4.0, 20.0)
# What the gate may take in processor time for each second of work: what it does besides a proof
# (cases written out, numbers sought) takes several times as long where nothing is proved.
PROCESSOR_TIMES = 2.0
# How many times as long the proof for all operator sets may take as that for the newest meanings.
_DATED_BACK_TIMES = 2.0
# The same where conditions are looked for, and the share of that.
INFERRING_S, INFER_S = 5.0, 2.0

_T = TypeVar("_T")
_R = TypeVar("_R")
Proved = tuple[Rule, Verdict]
Way = tuple[frozenset[str], str, bool]
"""Operators, what a spelling of them leaves open, and whether it declares shapes."""


@dataclass
class Attempt:
    """A candidate on its way: spellings that may be tried, and what became of those that were.

    `proved` are the rules that stand for it: one, and where cost decides another for the other
    direction. `avoided` are ways of spelling that were not decided for the same operators before:
    what is not decided takes ten times as long as a proof, and is asked last.
    """

    candidate: Candidate
    name: str
    avoided: Collection[Way] = ()
    waiting: Iterator[tuple[Spelling, Rule]] = field(init=False)
    first: tuple[Spelling, Rule] | None = None
    spelling: Spelling | None = None
    proved: tuple[Proved, ...] = ()
    # The verdict on the first spelling, the most general one: what is told of a failure.
    general: Verdict | None = None
    # A rule that was proved under a condition on ranks, should no declared shapes do.
    narrow: tuple[Spelling, Proved] | None = None
    ended: bool = False
    # Ways that were not decided, and spellings that wait until all others failed.
    undecided: list[Way] = field(default_factory=list)
    postponed: list[tuple[Spelling, Rule]] = field(default_factory=list)
    # Spellings more general than what was proved that more time may decide.
    wider: list[tuple[Spelling, Rule]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.waiting = _readable(self.candidate, self.name)

    def next_spelling(self) -> tuple[Spelling, Rule] | None:
        """The spelling to ask for next; None where no other one may be proved."""
        for spelling in self.waiting:
            if not self.is_avoided(spelling[0]):
                return spelling
            self.postponed.append(spelling)
            self.wider.append(spelling)
        # What is false of one of its spellings is false of more general ones.
        if self.postponed and self.status != "refuted":
            return self.postponed.pop(0)
        return None

    def is_avoided(self, spelling: Spelling) -> bool:
        """Whether it was not decided for some of these operators, spelled alike."""
        operators, way, is_shaped = self.way(spelling)
        return any(
            some <= operators and (way, is_shaped) == (other, shaped)
            for some, other, shaped in self.avoided
        )

    def way(self, spelling: Spelling) -> Way:
        """How a spelling says the candidate."""
        return frozenset(self.candidate.operators), spelling.open, any(spelling.shapes.values())

    def end(self) -> None:
        """Note that all spellings were tried."""
        self.ended = True
        if self.narrow is not None and not self.proved:
            self.spelling, proved = self.narrow
            self.proved = (proved,)

    def rename(self, taken: set[str]) -> None:
        """Give what was proved names of its own, which join `taken`."""
        renamed: list[Proved] = []
        for candidate, (rule, verdict) in zip(
            (self.candidate, self.candidate.turned), self.proved, strict=False
        ):
            name = rule_name(candidate, taken)
            taken.add(name)
            changed = _renamed(rule, name)
            if changed is not None:
                renamed.append((changed, verdict))
        self.proved = tuple(renamed)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that were proved."""
        return tuple(rule for rule, _ in self.proved)

    @property
    def status(self) -> str:
        """proved, or what the gate said of the most general spelling that it decided."""
        if self.proved:
            return "proved"
        return "unknown" if self.general is None else self.general.status

    @property
    def reason(self) -> str:
        """Why it is not proved; empty if it is."""
        if self.proved:
            return ""
        return "it can't be said as a rule" if self.general is None else self.general.reason


class ProverPool:
    """Provers of one process each, so that no candidate waits for what another one still asks."""

    def __init__(self, workers: int) -> None:
        self._provers = [Provers(1) for _ in range(workers)]
        self._threads = ThreadPoolExecutor(workers)
        self._close = ExitStack()

    def __enter__(self) -> Self:
        for prover in self._provers:
            self._close.enter_context(prover)
        return self

    def __exit__(self, *_: object) -> None:
        self._close.close()
        self._threads.shutdown()

    @property
    def processor_s(self) -> float:
        """The processor time that all answers took, in seconds."""
        return sum(prover.processor_s for prover in self._provers)

    def map(self, work: Callable[[_T, Provers], _R], items: Sequence[_T]) -> list[_R]:
        """What `work` gives for each item, with provers that nobody else asks meanwhile."""
        free: queue.SimpleQueue[Provers] = queue.SimpleQueue()
        for prover in self._provers:
            free.put(prover)

        def done(item: _T) -> _R:
            provers = free.get()
            try:
                return work(item, provers)
            finally:
                free.put(provers)

        return list(self._threads.map(done, items))


def prove_candidates(
    candidates: Sequence[Candidate],
    pool: ProverPool,
    stop: Callable[[], bool] = lambda: False,
    timeout: float = TIMEOUT_S,
    avoided: Collection[Way] = (),
) -> list[Attempt]:
    """Put candidates through the gate, spelling by spelling; asked to stop, leave some unended.

    `timeout` is for one spelling, in seconds of work; those that are `avoided` are asked last.
    """
    attempts = [
        Attempt(candidate, f"Convert{i}", avoided) for i, candidate in enumerate(candidates)
    ]
    pool.map(lambda attempt, provers: _prove([attempt], provers, stop, timeout), attempts)
    return attempts


def _prove(
    attempts: Sequence[Attempt], provers: Provers, stop: Callable[[], bool], timeout: float
) -> None:
    while (waiting := [attempt for attempt in attempts if not attempt.ended]) and not stop():
        spelled_attempts: list[tuple[Attempt, Spelling, Rule]] = []
        for attempt in waiting:
            spelling = attempt.next_spelling()
            if spelling is None:
                attempt.end()
            else:
                attempt.first = attempt.first or spelling
                spelled_attempts.append((attempt, *spelling))
        _judge(spelled_attempts, 0.0, provers, timeout)
    # To look for conditions takes ten times as long as to prove: it is for what nothing else says.
    failed = [
        (attempt, *attempt.first)
        for attempt in attempts
        if attempt.ended and not attempt.proved and attempt.first
    ]
    if not stop():
        _judge(failed, INFER_S, provers, timeout)
        for attempt, _, _ in failed:
            attempt.end()
    _reverse(attempts, provers, timeout)
    _date_back(attempts, provers, timeout)


def widen(
    candidate: Candidate,
    rules: Sequence[Rule],
    wider: Sequence[tuple[Spelling, Rule]],
    provers: Provers,
    timeout: float,
    stop: Callable[[], bool],
) -> tuple[Proved, ...]:
    """The first of the wider spellings of a rule that is proved, under the rule's own names.

    `rules` stand for the candidate, for one direction or both; where the other direction isn't
    proved as widely, it stays as it is, without a verdict. Empty where no spelling is proved.
    """
    attempt = Attempt(candidate, rules[0].name)
    for spelling, rule in wider:
        if attempt.ended or stop():
            break
        _judge([(attempt, spelling, rule)], 0.0, provers, timeout)
    if not attempt.ended:
        return ()
    _reverse([attempt], provers, timeout)
    _date_back([attempt], provers, timeout)
    pairs = list(zip(rules, attempt.proved, strict=False))
    if any(
        (known_rule.opset_from or 0) < (rule.opset_from or 0) for known_rule, (rule, _) in pairs
    ):
        return ()  # more operator sets matter more than more attributes: few state any
    return tuple(
        (renamed, verdict)
        for known_rule, (rule, verdict) in pairs
        if (renamed := _renamed(rule, known_rule.name)) is not None
    )


def _judge(
    spelled_attempts: Sequence[tuple[Attempt, Spelling, Rule]],
    infer: float,
    provers: Provers,
    timeout: float,
) -> None:
    """Ask the gate; what holds under conditions that it infers is asked again with them."""
    again: list[tuple[Attempt, Spelling, Rule]] = []
    verdicts = _ask([rule for _, _, rule in spelled_attempts], infer, provers, timeout)
    for (attempt, spelling, rule), verdict in zip(spelled_attempts, verdicts, strict=True):
        if not _judged(attempt, spelling, rule, verdict) and verdict.conditions:
            changed = with_conditions(rule, verdict.conditions)
            if changed is not None:
                again.append((attempt, spelling, replace(changed, comment=rule.comment)))
    verdicts = _ask([rule for _, _, rule in again], 0.0, provers, timeout)
    for (attempt, spelling, rule), verdict in zip(again, verdicts, strict=True):
        _judged(attempt, spelling, rule, verdict)


def _readable(candidate: Candidate, name: str) -> Iterator[tuple[Spelling, Rule]]:
    """The spellings that are rules of the language, each text once."""
    seen: set[str] = set()
    for spelling in spellings(candidate):
        text = rule_text(candidate, name, spelling, source=SOURCE)
        if text not in seen and (rule := _read(text)) is not None:
            yield spelling, rule
        seen.add(text)


def most_general(candidate: Candidate, name: str) -> Rule | None:
    """The rule that says the most of a candidate; None where it can't be said."""
    return next((rule for _, rule in _readable(candidate, name)), None)


def _read(text: str) -> Rule | None:
    """The rule of a text; None where the language refuses it."""
    try:
        (rule,) = parse_rules(text, "found.rules")
    except RuleError:
        return None
    return rule


def _ask(
    rules: Sequence[Rule],
    infer: float,
    provers: Provers,
    timeout: float = TIMEOUT_S,
    *,
    floating: bool = False,
) -> Sequence[Verdict]:
    if not rules:
        return ()
    if infer or floating:
        timeout = max(timeout, INFERRING_S)
    return provers.prove(
        rules,
        timeout=timeout,
        search=SEARCH_S,
        infer=infer,
        floating=floating,
        processor=PROCESSOR_TIMES * timeout,
    )


def _judged(attempt: Attempt, spelling: Spelling, rule: Rule, verdict: Verdict) -> bool:
    """Take note of a verdict; tell whether the candidate is proved."""
    if attempt.general is None or attempt.general.status == "unknown":
        attempt.general = verdict
    if verdict.status == "unknown":
        attempt.undecided.append(attempt.way(spelling))
        if (spelling, rule) not in attempt.wider:
            attempt.wider.append((spelling, rule))
    if verdict.status not in PROVED:
        return False
    if _is_narrow(rule):
        attempt.narrow = attempt.narrow or (spelling, (rule, verdict))
        return False
    attempt.spelling, attempt.proved, attempt.ended = spelling, ((rule, verdict),), True
    return True


def _is_narrow(rule: Rule) -> bool:
    """Whether conditions speak of ranks, which declared shapes say better."""
    condition_parts = (part for condition in rule.given for part in walk(condition))
    return any(isinstance(part, Call) and part.function == "rank" for part in condition_parts)


def _reverse(attempts: Sequence[Attempt], provers: Provers, timeout: float) -> None:
    """Where cost decides between the sides, prove the other direction as well.

    It is spelled like the first; where that isn't proved, as generally as it is: two convolutions
    are one for any groups, and one is two for a single group only.
    """
    reversed_attempts: list[tuple[Attempt, Rule]] = []
    for attempt in attempts:
        if not attempt.proved or attempt.spelling is None or not attempt.candidate.both:
            continue
        name = f"{attempt.name}Back"
        rule = _read(rule_text(attempt.candidate.turned, name, attempt.spelling, source=SOURCE))
        (forward,) = attempt.rules
        if rule is not None and forward.given:
            rule = _changed(replace(rule, given=forward.given))
        if rule is not None:
            reversed_attempts.append((attempt, rule))
    verdicts = _ask([rule for _, rule in reversed_attempts], 0.0, provers, timeout)
    for (attempt, rule), verdict in zip(reversed_attempts, verdicts, strict=True):
        if verdict.status in PROVED:
            attempt.proved = (*attempt.proved, (rule, verdict))
            continue
        turned = Attempt(attempt.candidate.turned, rule.name, attempt.avoided)
        while not turned.ended and (spelling := turned.next_spelling()) is not None:
            if spelling[1].hash != rule.hash:
                _judge([(turned, *spelling)], 0.0, provers, timeout)
        attempt.proved = (*attempt.proved, *turned.proved)


def _date_back(attempts: Sequence[Attempt], provers: Provers, timeout: float) -> None:
    """Let rules be for earlier operator sets as well, where they hold there.

    Most models are of an older set than the newest meaning of a pool or a Pad. What operators did
    then is another statement with a proof of its own, so it is asked of what is proved.
    """
    for attempt in attempts:
        earliest = earliest_opset(attempt.candidate)
        attempt.proved = tuple(
            _dated_back(proved, earliest, provers, timeout) for proved in attempt.proved
        )


def _dated_back(proved: Proved, earliest: int, provers: Provers, timeout: float) -> Proved:
    """A rule from an operator set on, if it is proved there; otherwise as it is."""
    rule, _ = proved
    if earliest >= (rule.opset_from or 0):
        return proved
    earlier = _changed(replace(rule, opset_from=earliest))
    if earlier is None:
        return proved
    (verdict,) = _ask([earlier], 0.0, provers, _DATED_BACK_TIMES * timeout)
    return (earlier, verdict) if verdict.status in PROVED else proved


# --------------------------------------------------------------------------- floating point


@dataclass(frozen=True)
class Measured:
    """A proved rule with what it promises in floating point; no rule where it keeps no promise."""

    rule: Rule | None
    verdict: Verdict


def polish(rules: Sequence[Rule], pool: ProverPool) -> list[Measured]:
    """Say of proved rules what they promise in floating point, and drop types they don't need.

    To measure takes ten times as long as to prove, so that what a proof decides comes first. What
    loses accuracy under every class is no rule any more: the verdict has the gate's reason.
    """
    return pool.map(lambda rule, provers: _polished([rule], provers)[0], rules)


def _polished(rules: Sequence[Rule], provers: Provers) -> list[Measured]:
    rules = _if_proved(rules, _for_any_type, provers)
    outcomes = _measured(rules, provers)
    finite = {i: _finite(rules[i]) for i, measured in enumerate(outcomes) if measured.rule is None}
    finite_rules = {i: rule for i, rule in finite.items() if rule is not None}
    for i, measured_anew in zip(
        finite_rules, _measured(list(finite_rules.values()), provers), strict=True
    ):
        if measured_anew.rule is not None:
            outcomes[i] = measured_anew
    return [_with_class(measured) for measured in outcomes]


def _if_proved(
    rules: Sequence[Rule], variant: Callable[[Rule], Rule | None], provers: Provers
) -> list[Rule]:
    """The variants of rules that are proved as well, and the others as they are."""
    changed = {i: other for i, rule in enumerate(rules) if (other := variant(rule)) is not None}
    verdicts = _ask(list(changed.values()), 0.0, provers)
    proved = {i for i, verdict in zip(changed, verdicts, strict=True) if verdict.status in PROVED}
    return [changed[i] if i in proved else rule for i, rule in enumerate(rules)]


def _measured(rules: Sequence[Rule], provers: Provers) -> list[Measured]:
    verdicts = _ask(rules, 0.0, provers, floating=True)
    return [
        Measured(rule if verdict.status in PROVED else None, verdict)
        for rule, verdict in zip(rules, verdicts, strict=True)
    ]


def _finite(rule: Rule) -> Rule | None:
    """A rule promised for finite numbers only."""
    return _changed(replace(rule, finite_math=True))


def _for_any_type(rule: Rule) -> Rule | None:
    """A rule for elements of any type."""
    if not any(operand.dtypes for operand in rule.operands) or not _has_one_type(rule):
        return None
    operands = tuple(replace(operand, dtypes=()) for operand in rule.operands)
    return _changed(replace(rule, operands=_said(operands)))


def _said(operands: Sequence[Operand]) -> tuple[Operand, ...]:
    return tuple(operand for operand in operands if operand.shape is not None or operand.const)


def _has_one_type(rule: Rule) -> bool:
    """Whether all operands are reals of one type: where types differ a reader wants to see them."""
    if any(operand.dtypes and operand.dtypes != ("float",) for operand in rule.operands):
        return False
    constants = {operand.name for operand in rule.operands if operand.const}
    for node in (*rule.match, *rule.rewrite):
        schema = schemas.versions(node.operator, rule.opset_from, rule.opset_to)[-1]
        ties = {
            schema.inputs[min(i, len(schema.inputs) - 1)].type_str
            for i, item in enumerate(node.inputs)
            if item.literal is None and item.value not in constants
        }
        if len(ties) > 1:
            return False
    return True


def _with_class(measured: Measured) -> Measured:
    """A rule that was seen to be equal in all bits, said to be: the numbers are those of both."""
    rule, record = measured.rule, measured.verdict.floating
    if rule is None or record is None or rule.equal == "exact":
        return measured
    exact = _changed(replace(rule, equal="exact")) if _keeps_bits(rule, measured.verdict) else None
    if exact is None:
        return measured
    record = replace(record, hash=exact.hash)
    return Measured(exact, replace(measured.verdict, hash=exact.hash, floating=record))


def _keeps_bits(rule: Rule, verdict: Verdict) -> bool:
    record = verdict.floating
    if verdict.status not in PROVED or record is None or rule.finite_math:
        return False
    return record.status in ("exact", "tested")


def _renamed(rule: Rule, name: str) -> Rule | None:
    """A rule under another name, which its comment says as well."""
    comment = rule.comment.replace(rule.name, name, 1)
    return _changed(replace(rule, name=name, comment=comment))


def _changed(rule: Rule) -> Rule | None:
    """A rule read anew from its text."""
    return _read(rule.comment + formatted(rule))
