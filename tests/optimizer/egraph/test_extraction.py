"""Extraction against trying everything, on random problems with shared and cyclic choices."""

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tensolog.optimizer.egraph.extraction import branch_and_bound, cutset
from tensolog.optimizer.egraph.extraction.extract import extract
from tensolog.optimizer.egraph.extraction.problem import (
    Choice,
    CycleError,
    Problem,
    cost_of,
    in_order,
    reduced,
)
from tensolog.optimizer.egraph.extraction.regions import REMEMBERED

from tests.campaigns import examples

from .exhaustive import exhaustive


@st.composite
def problems(draw):
    """Classes that need smaller ones by their first choice, and any by the others."""
    count = draw(st.integers(2, 7))
    choices = {}
    node = 0
    gives = []
    for class_ in range(count):
        offered = []
        for place in range(draw(st.integers(1, 3))):
            others = st.integers(0, class_ - 1 if place == 0 else count - 1)
            needs = draw(st.lists(others, max_size=2)) if class_ or place else []
            if gives and draw(st.integers(0, 4)) == 0 and place:
                offered.append(draw(st.sampled_from(gives)))
                continue
            cost = float(draw(st.integers(0, 9)))
            offered.append(Choice(node, cost, tuple(needs)))
            gives.append(offered[-1])
            node += 1
        choices[class_] = tuple(dict.fromkeys(offered))
    roots = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=3, unique=True))
    return Problem(choices, tuple(roots))


def first_choices(problem):
    """The selection of each class's first choice, for the classes that it needs."""
    first = {class_: offered[0] for class_, offered in problem.choices.items()}
    return {class_: first[class_] for class_ in in_order(first, problem.roots)}


@settings(max_examples=examples(250), deadline=None)
@given(problems())
def test_the_cost_is_the_least_of_all_selections(problem):
    least, _ = exhaustive(problem)
    extraction = extract(problem, first_choices(problem))
    assert extraction.cost == pytest.approx(least)
    assert extraction.bound <= extraction.cost + 1e-9
    assert extraction.exact == extraction.regions
    assert extraction.gap == pytest.approx(0)
    order = in_order(extraction.selection, problem.roots)  # raises where it is cyclic
    assert cost_of(extraction.selection, order) == pytest.approx(extraction.cost)


@settings(max_examples=examples(150), deadline=None)
@given(problems(), st.integers(0, 6))
def test_stopped_early_it_is_no_worse_than_the_start_and_the_bound_holds(problem, steps):
    start = first_choices(problem)
    extraction = extract(problem, start, steps)
    least, _ = exhaustive(problem)
    assert extraction.cost <= cost_of(start, start) + 1e-9
    assert extraction.bound <= least + 1e-9
    assert extraction.cost >= least - 1e-9


def again(problem, classes, nodes):
    """The same problem, its classes and e-nodes numbered from others on."""
    choices = {
        class_ + classes: tuple(
            Choice(choice.node + nodes, choice.cost, tuple(need + classes for need in choice.needs))
            for choice in offered
        )
        for class_, offered in problem.choices.items()
    }
    return Problem(choices, tuple(root + classes for root in problem.roots))


@settings(max_examples=examples(150), deadline=None)
@given(problems(), st.sampled_from([0, 2, 4_000]))
def test_what_is_alike_is_decided_once(problem, steps):
    """Three times the same: three times the cost and the selection, and the steps of one."""
    parts = [problem, again(problem, 50, 70), again(problem, 100, 140)]
    whole = Problem(
        {class_: offered for part in parts for class_, offered in part.choices.items()},
        tuple(root for part in parts for root in part.roots),
    )
    single, all_ = (
        extract(problem, first_choices(problem), steps),
        extract(whole, first_choices(whole)),
    )
    in_order(all_.selection, whole.roots)  # raises where it is cyclic
    assert all_.regions == 3 * single.regions
    if steps < 4_000 and single.exact < single.regions:
        return
    assert all_.cost == pytest.approx(3 * single.cost)
    assert all_.steps == single.steps
    chosen = {class_: choice.node for class_, choice in single.selection.items()}
    for copy in range(3):
        for class_, node in chosen.items():
            assert all_.selection[class_ + 50 * copy].node == node + 70 * copy


@settings(max_examples=examples(150), deadline=None)
@given(problems())
def test_what_is_left_out_is_in_no_best_selection_alone(problem):
    assert exhaustive(reduced(problem))[0] == exhaustive(problem)[0]


def test_sharing_decides_where_trees_mislead():
    """Two roots each find their own way cheaper; together the shared one is."""
    direct = (Choice(1, 6.0, ()), Choice(2, 6.0, ()))
    shared = Choice(3, 8.0, ())
    problem = Problem(
        {
            0: (direct[0], Choice(4, 1.0, (2,))),
            1: (direct[1], Choice(5, 1.0, (2,))),
            2: (shared,),
        },
        (0, 1),
    )
    extraction = extract(problem, {0: direct[0], 1: direct[1]})
    assert extraction.cost == 10.0
    assert {choice.node for choice in extraction.selection.values()} == {3, 4, 5}


def test_an_operator_may_need_more_classes_than_are_remembered():
    many = range(1, 2 * REMEMBERED)
    choices = {0: (Choice(0, 1.0, tuple(many)),)}
    for class_ in many:
        twice = Choice(2 * class_ + 1, 3.0, ())
        choices[class_] = (Choice(2 * class_, 2.0, ()), *((twice,) if class_ % 2 else ()))
    extraction = extract(Problem(choices, (0,)), {c: offered[-1] for c, offered in choices.items()})
    assert extraction.cost == 1.0 + 2.0 * len(many)


def test_an_operator_of_two_outputs_is_paid_once():
    both = Choice(7, 5.0, ())
    problem = Problem({0: (Choice(1, 3.0, ()), both), 1: (Choice(2, 3.0, ()), both)}, (0, 1))
    start = {0: problem.choices[0][0], 1: problem.choices[1][0]}
    assert extract(problem, start).cost == 5.0


def test_a_free_cycle_is_not_taken():
    """Two classes that give each other for nothing must still be computed from something."""
    problem = Problem(
        {
            0: (Choice(1, 5.0, ()), Choice(2, 0.0, (1,))),
            1: (Choice(3, 4.0, ()), Choice(4, 0.0, (0,))),
        },
        (0, 1),
    )
    extraction = extract(problem, {0: problem.choices[0][0], 1: problem.choices[1][0]})
    assert extraction.cost == 4.0


def test_a_selection_that_needs_itself_is_refused():
    selection = {0: Choice(1, 0.0, (1,)), 1: Choice(2, 0.0, (0,))}
    with pytest.raises(CycleError):
        in_order(selection, (0,))


@settings(max_examples=examples(60), deadline=None)
@given(problems())
def test_equal_questions_have_equal_answers(problem):
    start = first_choices(problem)
    assume(start)
    assert extract(problem, start) == extract(problem, start)


@pytest.fixture
def all_regions_large(monkeypatch):
    """Costs are shared out in regions of any size, as they are in those too large to be greedy."""
    monkeypatch.setattr(branch_and_bound, "MOST_CLASSES", 0)


@settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(problems(), st.sampled_from([0, 3, 4_000]))
def test_large_regions_are_no_worse_than_the_start_and_the_best_with_time(
    all_regions_large, problem, steps
):
    start = first_choices(problem)
    extraction = extract(problem, start, steps)
    least, _ = exhaustive(problem)
    assert least - 1e-9 <= extraction.cost <= cost_of(start, start) + 1e-9
    assert extraction.bound <= least + 1e-9
    if steps == 4_000:
        assert extraction.cost == pytest.approx(least)


@pytest.fixture
def all_regions_cut(monkeypatch):
    """Regions of any size are decided by cases, small parts or not."""
    monkeypatch.setattr(cutset, "LARGE", 0)
    monkeypatch.setattr(cutset, "PART", 1.0)


@settings(
    max_examples=examples(250),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(problems(), st.sampled_from([0, 3, 4_000]))
def test_by_cases_the_cost_is_the_least_too(all_regions_cut, problem, steps):
    start = first_choices(problem)
    extraction = extract(problem, start, steps)
    least, _ = exhaustive(problem)
    assert least - 1e-9 <= extraction.cost <= cost_of(start, start) + 1e-9
    assert extraction.bound <= least + 1e-9
    in_order(extraction.selection, problem.roots)  # raises where it is cyclic
    if steps == 4_000:
        assert extraction.cost == pytest.approx(least)
        assert extraction.exact == extraction.regions


@pytest.mark.parametrize("dear", [3.0, 90.0])
def test_layers_that_share_are_decided_exactly(dear):
    """Of two ways, one needs what all layers share, another one both that and more of it."""
    layers = 200
    mask, more = layers, layers + 1
    choices = {mask: (Choice(0, dear, ()),), more: (Choice(1, 40.0, (mask,)),)}
    for layer in range(layers):
        before = (layer - 1,) if layer else ()
        ways = [(5.0, before), (4.5, (*before, mask)), (4.2, (*before, mask, more))]
        choices[layer] = tuple(
            Choice(2 + 3 * layer + i, *way) for i, way in enumerate(ways[: 2 + layer % 2])
        )
    problem = Problem(choices, (layers - 1,))
    extraction = extract(problem, first_choices(problem))
    least = min(5.0 * layers, dear + 4.5 * layers, dear + 40.0 + (4.5 + 4.2) * layers / 2)
    assert extraction.cost == pytest.approx(least)
    assert extraction.gap == pytest.approx(0)
    assert extraction.steps < layers  # parts that are alike are decided once


@pytest.mark.usefixtures("all_regions_large")
@pytest.mark.parametrize("layers", [10, 300])
def test_what_layers_share_is_no_reason_to_leave_them_as_they_are(layers):
    """Each layer has a cheaper way that needs something dear, which all of them share."""
    shared = layers
    choices = {shared: (Choice(0, 50.0, ()), Choice(1, 40.0, ()))}
    for layer in range(layers):
        before = (layer - 1,) if layer else ()
        choices[layer] = (
            Choice(2 + 2 * layer, 10.0, before),
            Choice(3 + 2 * layer, 1.0, (*before, shared)),
        )
    problem = Problem(choices, (layers - 1,))
    extraction = extract(problem, first_choices(problem))
    assert extraction.cost == pytest.approx(40.0 + layers)
