"""Rules tried one by one, end to end: what a rule does to the whole model shows in no kernel.

A rewrite that saves a kernel can cost more than it saves, since it hides a pattern from the
runtime's own optimizer; one that saves none can gain, since it shows or hides such a pattern.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...profiles.races.race import Lap, verdict
from ...rules import Rule
from ..planner import Planner
from .candidate_files import CandidateFiles
from .contest import Contest, Plan

# More rules than this share too little time to be told apart; the first ones are tried, as many as
# have time for so many rounds. Where those are few of them, as in large models, it is better spent
# on the race of the plans.
MOST_RULES, LEAST_ROUNDS, LEAST_SHARE = 16, 5, 0.5
BASE = "no rules"


@dataclass(frozen=True)
class Screening:
    """Laps of the plans with one rule each, their ratios against the plan with none."""

    laps: dict[str, Lap]

    def harmful(self) -> set[str]:
        """Name the rules that made the model slower."""
        return {name for name, lap in self.laps.items() if verdict(lap) == "slower"}

    def helpful(self) -> set[str]:
        """Name the rules that made the model faster."""
        return {name for name, lap in self.laps.items() if verdict(lap) == "faster"}

    def without(self, rules: Iterable[Rule]) -> Screening:
        """Return what was told of all rules but these."""
        names = {rule.name for rule in rules}
        return Screening({name: lap for name, lap in self.laps.items() if name not in names})


def screen(
    planner: Planner, contest: Contest, candidate_files: CandidateFiles, budget_s: float
) -> Screening:
    """Race a plan for each rule that has a place in the model, applied wherever it matches.

    First the rules that are always applied, against the plan with no rule; then those that cost
    decides about, against the plan with the former that did no harm. All plans are folded and
    shared alike.
    """
    bare = planner.simplify(BASE, rules=())
    always = _affordable(contest, planner.rules_that_match(bare, planner.always), budget_s / 2)
    first = _race_alone(planner, contest, candidate_files, bare, always, budget_s / 2)
    kept = [rule for rule in planner.always if rule.name not in Screening(first).harmful()]
    start = planner.simplify(BASE, rules=kept)
    remaining_s = budget_s / 2 if always else budget_s
    explorative = _affordable(
        contest, planner.rules_that_match(start, planner.explorative), remaining_s
    )
    second = _race_alone(planner, contest, candidate_files, start, explorative, remaining_s)
    return Screening({**first, **second})


def _affordable(contest: Contest, rules: Sequence[Rule], budget_s: float) -> Sequence[Rule]:
    """Choose the rules that can be raced alone long enough to tell anything."""
    wanted = rules[:MOST_RULES]
    count = contest.affordable(budget_s, LEAST_ROUNDS)
    return wanted[:count] if count >= LEAST_SHARE * len(wanted) else []


def _race_alone(
    planner: Planner,
    contest: Contest,
    candidate_files: CandidateFiles,
    base: Plan,
    rules: Sequence[Rule],
    budget_s: float,
) -> dict[str, Lap]:
    if not rules:
        return {}
    field = [base, *(planner.apply_everywhere(rule.name, base, [rule]) for rule in rules)]
    for plan in field:
        candidate_files.placed(plan)
    laps = contest.time_runnable(field, budget_s, phase="screening", reference=BASE)
    return {rule.name: laps[rule.name] for rule in rules if rule.name in laps}


def select(planner: Planner, contest: Contest, screening: Screening) -> Plan:
    """Derive the plan that leaves out what did harm and forces what helped."""
    harmful, helpful = screening.harmful(), screening.helpful()
    kept = [r for r in (*planner.always, *planner.explorative) if r.name not in harmful]
    forced = [rule for rule in planner.explorative if rule.name in helpful]
    plan = planner.simplify("selected", kept)
    if forced:
        plan = planner.apply_everywhere(
            "selected", plan, [*forced, *(r for r in kept if r.tag == "always")]
        )
    return planner.apply_gains("selected", plan, contest.sizes, kept)
