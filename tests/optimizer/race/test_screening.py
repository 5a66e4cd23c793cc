"""Rules tried alone: harm is left out, help is forced, and no refusal hides the others."""

import itertools

import pytest
from tensolog.optimizer.race import contest, screening
from tensolog.optimizer.race.contest import Plan
from tensolog.optimizer.race.screening import Screening, select
from tensolog.profiles.races.race import Lap, RaceError


def lap(low, high):
    middle = (low + high) / 2
    return Lap(1e6, 1e3, middle, low, high, 50)


FASTER, SLOWER, NOISE = lap(0.9, 0.95), lap(1.05, 1.1), lap(0.99, 1.01)


class Rule:
    def __init__(self, name, tag):
        self.name, self.tag = name, tag


class Planner:
    """Stands for the real one, and writes down what it is asked for."""

    def __init__(self):
        self.always = [Rule("Good", "always"), Rule("Bad", "always")]
        self.explorative = [Rule("Hidden", "explore"), Rule("Useless", "explore")]
        self.asked = []

    def _plan(self, kind, rules):
        self.asked.append((kind, {rule.name for rule in rules}))
        return Plan(kind, None)

    def simplify(self, name, rules=None):
        return self._plan("simplify", rules)

    def apply_everywhere(self, name, start, rules):
        return self._plan("force", rules)

    def apply_gains(self, name, start, sizes, rules):
        return self._plan("explore", rules)


class Contest:
    time_runnable = contest.Contest.time_runnable

    def __init__(self, refused=()):
        self.sizes = {}
        self.refused = set(refused)
        self.clock = itertools.count().__next__

    def time(self, field, budget_s, *, phase, reference, finalists):
        names = [plan.name for plan in field]
        for name in self.refused & set(names):
            raise RaceError("the runtime refuses a plan", name)
        return dict.fromkeys(names, NOISE)


def test_harm_is_left_out_and_help_is_forced():
    planner = Planner()
    screened = Screening({"Good": NOISE, "Bad": SLOWER, "Hidden": FASTER, "Useless": NOISE})
    select(planner, Contest(), screened)
    assert planner.asked == [
        ("simplify", {"Good", "Hidden", "Useless"}),
        ("force", {"Hidden", "Good"}),
        ("explore", {"Good", "Hidden", "Useless"}),
    ]


def test_nothing_is_forced_where_nothing_helped():
    planner = Planner()
    select(planner, Contest(), Screening({"Good": FASTER, "Hidden": NOISE}))
    assert [kind for kind, _ in planner.asked] == ["simplify", "explore"]


@pytest.mark.parametrize("refused", [(), ("b",), ("a", "b"), ("no rules",)])
def test_a_plan_that_the_runtime_refuses_hides_no_other(refused):
    field = [Plan("no rules", None), Plan("a", None), Plan("b", None)]
    laps = Contest(refused).time_runnable(field, 1.0, phase="screening", reference=screening.BASE)
    known = {"no rules", "a", "b"} - set(refused)
    assert set(laps) == (known if "no rules" in known else set())


class Roomy(Contest):
    """Has a second for each rule that is raced alone."""

    def affordable(self, budget_s, rounds):
        return int(budget_s)


class Raced(Planner):
    """Rules match everywhere."""

    def simplify(self, name, rules=None):
        return Plan(name, None)

    def apply_everywhere(self, name, start, rules):
        return Plan(name, None)

    def rules_that_match(self, plan, rules):
        return rules


@pytest.mark.parametrize(("budget_s", "raced"), [(0.0, 0), (0.9, 0), (1.0, 1), (2.0, 2), (4.0, 4)])
def test_rules_are_tried_as_far_as_time_goes_or_not_at_all(budget_s, raced):
    class CandidateFiles:
        def placed(self, plan):
            return plan

    assert len(screening.screen(Raced(), Roomy(), CandidateFiles(), budget_s).laps) == raced
