"""The next best plans against trying all selections, with and without each set of rules."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.optimizer.egraph.extraction.alternatives import alternatives, without
from tensolog.optimizer.egraph.extraction.extract import extract
from tensolog.optimizer.egraph.extraction.problem import Choice, Problem, cost_of

from tests.campaigns import examples

from .exhaustive import exhaustive
from .test_extraction import first_choices, problems

RULES = ("A", "B", "C")


@st.composite
def ruled(draw):
    """A problem whose first choices are the model's own, the others made by some rule."""
    problem = draw(problems())
    own = {offered[0].node for offered in problem.choices.values()}
    nodes = sorted({c.node for offered in problem.choices.values() for c in offered})
    made = {node: "" if node in own else draw(st.sampled_from(RULES)) for node in nodes}
    return problem, made


@settings(max_examples=examples(150), deadline=None)
@given(ruled(), st.integers(1, 4))
def test_they_are_the_best_without_some_rules_and_none_is_left_out(ruled, count):
    problem, made = ruled
    own = first_choices(problem)
    best = extract(problem, own)
    found = alternatives(problem, own, best, made.__getitem__, count, 40_000)
    costs = [best.cost, *(other.extraction.cost for other in found)]
    assert costs == sorted(costs)
    plans = [frozenset(c.node for c in own.values())]
    for selection in (best.selection, *(other.extraction.selection for other in found)):
        nodes = frozenset(choice.node for choice in selection.values())
        assert nodes not in plans or selection is best.selection
        plans.append(nodes)
    for other in found:
        assert other.extraction.cost < cost_of(own, own)
        assert not {made[c.node] for c in other.extraction.selection.values()} & set(other.without)
        least, _ = exhaustive(without(problem, lambda n, o=other: made[n] in o.without))
        assert other.extraction.cost == pytest.approx(least)
    if len(found) == count:
        return
    # All were listed: what is best without any set of rules is among them, or no better.
    for size in range(1, len(RULES) + 1):
        for rules in combinations(RULES, size):
            least, _ = exhaustive(without(problem, lambda n, r=rules: made[n] in r))
            assert any(least == pytest.approx(cost) for cost in (*costs, cost_of(own, own)))


def test_a_plan_without_the_rule_that_gains_least_comes_next():
    own = {0: Choice(0, 10.0, (1,)), 1: Choice(1, 10.0, ())}
    problem = Problem({0: (own[0], Choice(2, 2.0, (1,))), 1: (own[1], Choice(3, 9.0, ()))}, (0,))
    made = {0: "", 1: "", 2: "Large", 3: "Small"}
    best = extract(problem, own)
    found = alternatives(problem, own, best, made.__getitem__, 3, 40_000)
    assert best.cost == 11.0
    assert [(o.without, o.extraction.cost) for o in found] == [
        (("Small",), 12.0),
        (("Large",), 19.0),
    ]


def test_what_is_no_better_than_the_model_is_no_alternative():
    own = {0: Choice(0, 10.0, ())}
    problem = Problem({0: (own[0], Choice(1, 5.0, ()))}, (0,))
    best = extract(problem, own)
    assert not alternatives(problem, own, best, {0: "", 1: "Only"}.__getitem__, 3, 40_000)
