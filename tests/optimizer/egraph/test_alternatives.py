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
    original_nodes = {offered[0].node for offered in problem.choices.values()}
    nodes = sorted({c.node for offered in problem.choices.values() for c in offered})
    rule_of_node = {
        node: "" if node in original_nodes else draw(st.sampled_from(RULES)) for node in nodes
    }
    return problem, rule_of_node


@settings(max_examples=examples(150), deadline=None)
@given(ruled(), st.integers(1, 4))
def test_they_are_the_best_without_some_rules_and_none_is_left_out(ruled, count):
    problem, rule_of_node = ruled
    start = first_choices(problem)
    best = extract(problem, start)
    next_best = alternatives(problem, start, best, rule_of_node.__getitem__, count, 40_000)
    costs = [best.cost, *(other.extraction.cost for other in next_best)]
    assert costs == sorted(costs)
    plans = [frozenset(c.node for c in start.values())]
    for selection in (best.selection, *(other.extraction.selection for other in next_best)):
        nodes = frozenset(choice.node for choice in selection.values())
        assert nodes not in plans or selection is best.selection
        plans.append(nodes)
    for other in next_best:
        assert other.extraction.cost < cost_of(start, start)
        assert not {rule_of_node[c.node] for c in other.extraction.selection.values()} & set(
            other.without
        )
        least, _ = exhaustive(without(problem, lambda n, o=other: rule_of_node[n] in o.without))
        assert other.extraction.cost == pytest.approx(least)
    if len(next_best) == count:
        return
    # All were listed: what is best without any set of rules is among them, or no better.
    for size in range(1, len(RULES) + 1):
        for rules in combinations(RULES, size):
            least, _ = exhaustive(without(problem, lambda n, r=rules: rule_of_node[n] in r))
            assert any(least == pytest.approx(cost) for cost in (*costs, cost_of(start, start)))


def test_a_plan_without_the_rule_that_gains_least_comes_next():
    start = {0: Choice(0, 10.0, (1,)), 1: Choice(1, 10.0, ())}
    problem = Problem(
        {0: (start[0], Choice(2, 2.0, (1,))), 1: (start[1], Choice(3, 9.0, ()))}, (0,)
    )
    rule_of_node = {0: "", 1: "", 2: "Large", 3: "Small"}
    best = extract(problem, start)
    next_best = alternatives(problem, start, best, rule_of_node.__getitem__, 3, 40_000)
    assert best.cost == 11.0
    assert [(o.without, o.extraction.cost) for o in next_best] == [
        (("Small",), 12.0),
        (("Large",), 19.0),
    ]


def test_what_is_no_better_than_the_model_is_no_alternative():
    start = {0: Choice(0, 10.0, ())}
    problem = Problem({0: (start[0], Choice(1, 5.0, ()))}, (0,))
    best = extract(problem, start)
    assert not alternatives(problem, start, best, {0: "", 1: "Only"}.__getitem__, 3, 40_000)
