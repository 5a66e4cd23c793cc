"""The side condition that a rule lacks: the weakest simple one under which it is proved.

Candidates that hold at a known counterexample are out; of the others, the weakest is put into the
rule's text, counterexamples of that rule are sought, which put out more candidates, and where none
is found the prover has its say. What is returned was proved.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from ....catalog.terms.syntax_tree import Expression
from ...compiler.bindings import Bindings
from ...language.conditions import FLOATS
from ...language.functions import UnknownError
from ...language.syntax import Rule
from ...prover.cases.case_split import IllTyped, statements
from ...prover.cases.composition import UndescribedError
from ...prover.prove import prove
from ...prover.statement import Outcome, Statement
from ..counterexample.operand_values import assign
from ..counterexample.refute import Matching
from ..counterexample.rule_instance import NoInstanceError, realize
from ..counterexample.search import find_first
from ..counterexample.symbol_values import SymbolSampler
from ..evaluation.arithmetic import NoValueError
from .condition_candidates import Candidate, added, candidates, with_conditions

_Usable = tuple[Candidate, tuple[Expression, ...]]
Prover = Callable[[Statement, float], Outcome]
SECONDS = 20.0
# The proof of one case, and the search for a counterexample of one candidate, take no longer.
_PROOF_S = 2.0
_SEARCH_S = 0.4
_COLLECT_S = 3.0
# What each further condition weighs by itself.
_EACH = 2
# How many cases of the rule give a counterexample to begin with.
_CASES = 8


def infer_conditions(
    rule: Rule, seconds: float = SECONDS, prover: Prover = prove
) -> tuple[str, ...] | None:
    """Conditions, as texts for `given`, under which a rule is proved; None where none was found.

    () where the rule is proved as it stands. Few and weak conditions come before many and strong.
    """
    return _Inference(rule, time.thread_time() + seconds, prover).run()


@dataclass
class _Inference:
    rule: Rule
    until: float
    prover: Prover
    # Models on which the rule matches and is wrong.
    wrong: list[Bindings] = field(default_factory=list)
    # Of these, the ones that a candidate excludes, and how many were looked at.
    excluded: dict[str, tuple[set[int], int]] = field(default_factory=dict)

    def late(self) -> bool:
        return time.thread_time() > self.until

    def run(self) -> tuple[str, ...] | None:
        cases = _statements(self.rule)
        outcome = self._first_open(cases) if cases else None
        if cases and outcome is None:
            return ()
        self._collect(cases)
        failed = [outcome.failed.condition] if outcome and outcome.failed else []
        usable = [
            (candidate, expressions)
            for candidate in candidates(self.rule, failed)
            if (expressions := self._expressions(candidate)) is not None
        ]
        for chosen in _combinations(usable):
            if self.late():
                return None
            if self._excludes(chosen):
                texts = tuple(candidate.text for candidate, _ in chosen)
                if self._proved(texts):
                    return texts
        return None

    def _expressions(self, candidate: Candidate) -> tuple[Expression, ...] | None:
        changed = with_conditions(self.rule, [candidate.text])
        return None if changed is None else added(self.rule, changed)

    def _collect(self, cases: Sequence[Statement]) -> None:
        """Find some models on which the rule is wrong, of different cases."""
        until = time.thread_time() + _COLLECT_S
        for seed, statement in enumerate([*cases[:_CASES], *cases[:_CASES]]):
            if time.thread_time() > until:
                return
            self._refuted(self.rule, [statement], seed)

    def _excludes(self, chosen: Sequence[_Usable]) -> bool:
        """Whether no known model is left on which the rule is wrong: a condition fails on each."""
        excluded: set[int] = set()
        for candidate, conditions in chosen:
            excluded |= self._excluded_by(candidate, conditions)
        return len(excluded) == len(self.wrong)

    def _excluded_by(self, candidate: Candidate, conditions: Sequence[Expression]) -> set[int]:
        """Which of the known models a candidate doesn't admit; each is asked once."""
        known, asked = self.excluded.get(candidate.text, (set(), 0))
        known |= {
            i
            for i in range(asked, len(self.wrong))
            if not _admits(self.wrong[i], candidate, conditions)
        }
        self.excluded[candidate.text] = (known, len(self.wrong))
        return known

    def _proved(self, texts: Sequence[str]) -> bool:
        changed = with_conditions(self.rule, texts)
        if changed is None:
            return False
        cases = _statements(changed)
        if not cases or self._refuted(changed, cases) or not _speaks(changed, cases):
            return False
        return self._first_open(cases) is None

    def _first_open(self, cases: Sequence[Statement]) -> Outcome | None:
        """What stopped the proof; None where all cases are proved."""
        for statement in cases:
            remaining_s = self.until - time.thread_time()
            if remaining_s <= 0:
                return Outcome("open", "there was no time left")
            outcome = self.prover(statement, min(_PROOF_S, remaining_s))
            if outcome.status != "proved" and not outcome.vacuous:
                return outcome
        return None

    def _refuted(self, rule: Rule, cases: Sequence[Statement], seed: int = 0) -> bool:
        """Whether a counterexample is found; it is kept."""
        counterexample = find_first(cases, _SEARCH_S, Matching(rule), seed=seed)
        if counterexample is None:
            return False
        statement, difference = counterexample
        try:
            instance = realize(rule, statement, difference.assignment)
        except NoInstanceError:
            return False
        self.wrong.append(Bindings(instance.match, instance.view))
        return True


def _statements(rule: Rule) -> list[Statement]:
    try:
        return statements(rule)
    except (IllTyped, UndescribedError):
        return []


def _combinations(usable: Sequence[_Usable]) -> Iterator[tuple[_Usable, ...]]:
    """Single candidates, pairs and triples, the weakest together first."""
    every: list[tuple[_Usable, ...]] = []
    for length in (1, 2, 3):
        every += combinations(usable, length)
    return iter(
        sorted(every, key=lambda some: sum(candidate.weight + _EACH for candidate, _ in some))
    )


def _admits(bound: Bindings, candidate: Candidate, conditions: Sequence[Expression]) -> bool:
    """Whether a candidate holds on a model."""
    try:
        if candidate.operand is not None:
            return bound.dtype_of(candidate.operand) in FLOATS
        return all(bool(bound.evaluate(condition)) for condition in conditions)
    except (UnknownError, KeyError):
        return False


def _speaks(rule: Rule, cases: Sequence[Statement]) -> bool:
    """Whether there is a model on which the rule matches: with elements, if any has such sizes."""
    rng = np.random.default_rng(0)
    for statement in cases:
        sizes = SymbolSampler(statement)
        for symbols in (sizes.small(3, 1), sizes.small(3, 1), sizes.small(4)):
            if symbols is None:
                continue
            try:
                realize(rule, statement, assign(statement, symbols, "small", rng))
            except (NoInstanceError, NoValueError):
                continue
            return True
    return False
