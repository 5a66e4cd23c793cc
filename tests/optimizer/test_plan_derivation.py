"""Layouts are chosen with the rules that are always applied, whatever these did alone."""

from collections import Counter
from types import SimpleNamespace

import pytest
from tensolog.optimizer.plan_derivation import choose_rules, lay_out
from tensolog.optimizer.race.screening import Screening
from tensolog.profiles.races.race import Lap

FASTER, SLOWER = Lap(1e6, 1e3, 0.92, 0.9, 0.95, 50), Lap(1e6, 1e3, 1.07, 1.05, 1.1, 50)


class Rule:
    def __init__(self, name, tag):
        self.name, self.tag = name, tag


class Planner:
    """Stands for the real one: a plan is the set of rules that it may use."""

    always = (Rule("FoldNormalization", "always"), Rule("DropIdentity", "always"))
    explorative = (Rule("MergeProducts", "explore"), Rule("SplitProducts", "explore"))

    def __init__(self):
        self.laid_out = []

    def simplify(self, name, rules=None):
        chosen = (*self.always, *self.explorative) if rules is None else rules
        return SimpleNamespace(
            name=name, rules={rule.name for rule in chosen}, graph=SimpleNamespace(nodes={})
        )

    def apply_everywhere(self, name, start, rules):
        return start

    def apply_gains(self, name, start, sizes, rules):
        return start

    def makes_convolutions(self):
        return True

    def choose_layouts(self, name, start, sizes):
        self.laid_out.append(start.rules)
        return [start]

    def choose_rules_and_layouts(self, name, forbidden, search_file):
        rules = {rule.name for rule in (*self.always, *self.explorative)}
        self.laid_out.append(rules - set(forbidden))
        return None, None


@pytest.mark.parametrize(
    ("alone", "left_out"),
    [
        ({"FoldNormalization": SLOWER}, set()),
        ({"FoldNormalization": SLOWER, "SplitProducts": SLOWER}, {"SplitProducts"}),
        ({"SplitProducts": SLOWER, "DropIdentity": FASTER}, {"SplitProducts"}),
    ],
)
def test_layouts_are_chosen_with_all_that_is_always_applied(alone, left_out):
    planner = Planner()
    contest = SimpleNamespace(sizes={}, operators_run=lambda plan: Counter())
    state = SimpleNamespace(
        planner=planner,
        contest=contest,
        screening=Screening(alone),
        first=planner.simplify("simplified"),
        original=None,
        sizes={},
        laid_out=[],
        prices=SimpleNamespace(remaining_s=0.0),
        setting=SimpleNamespace(fuses=True),
        search_file=None,
    )
    list(choose_rules(state, 1.0))
    list(lay_out(state, 1.0))
    rules = {rule.name for rule in (*planner.always, *planner.explorative)}
    assert planner.laid_out == [rules - left_out, rules - left_out]
