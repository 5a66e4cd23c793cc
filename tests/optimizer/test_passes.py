"""The list of passes: what each is granted, and what is left of one that is cut."""

import time

import pytest
from tensolog.catalog import Catalog
from tensolog.optimizer import passes as module
from tensolog.optimizer.deadline import checkpoint
from tensolog.optimizer.passes import PASSES, Pass, run_passes
from tensolog.optimizer.phases import Phases
from tensolog.optimizer.race.candidate_files import CandidateFiles
from tensolog.optimizer.race.contest import Plan
from tensolog.optimizer.setting import KERNELS_TARGET, Setting
from tensolog.optimizer.state import read

from .builders import model, value


@pytest.fixture
def state():
    built = model([("Neg", ["x"], ["y"])], [value("x", [2, 3])], [value("y", [2, 3])])
    setting = Setting(target=KERNELS_TARGET, budget=10.0)
    with Catalog(":memory:") as catalog, CandidateFiles(catalog) as candidate_files:
        yield read(
            built,
            catalog=catalog,
            setting=setting,
            phases=Phases(),
            rules=(),
            candidate_files=candidate_files,
            search_file=None,
        )


def changed(state, name, operator):
    """A plan that differs from the original in its operator."""
    graph = state.original.graph.copy()
    (number,) = graph.nodes
    node = graph.nodes[number]
    graph.remove_node(number)
    graph.put_node(number, type(node)(operator, "", node.inputs, node.outputs, {}))
    return Plan(name, graph)


def test_shares_are_parts_of_one_budget_and_the_last_race_has_a_part():
    assert sum(pass_.share for pass_ in PASSES) <= 1.0
    assert all(pass_.share <= pass_.most for pass_ in PASSES if pass_.share)
    (final,) = [pass_ for pass_ in PASSES if pass_.run is module.selection.race_finalists]
    assert final.share and final.most == 1.0 and not final.may_be_cut


def test_passes_run_in_their_order_and_only_where_they_apply(state):
    order = []

    def named(name):
        def run(state, seconds):
            order.append(name)
            yield from ()

        return run

    run_passes(
        state,
        [
            Pass("a", named("a")),
            Pass("b", named("b"), applies=lambda state: False),
            Pass("c", named("c"), applies=lambda state: order == ["a"]),
        ],
    )
    assert order == ["a", "c"]


def test_nothing_runs_after_what_leaves_nothing_to_be_done(state):
    def hopeless(state, seconds):
        state.problem = "a run of it takes 70 s"
        yield from ()

    def never(state, seconds):
        pytest.fail("it runs")
        yield

    run_passes(state, [Pass("a", hopeless), Pass("b", never)])


def test_what_a_pass_has_yielded_when_it_is_cut_takes_part(state):
    def endless(state, seconds):
        yield changed(state, "first", "Abs")
        while True:
            checkpoint()
        yield changed(state, "second", "Exp")

    def after(state, seconds):
        yield changed(state, "third", "Sin")

    state.schedule.end = time.monotonic() + 0.2
    run_passes(state, [Pass("the search", endless), Pass("kernels", after)])
    assert [plan.name for plan in state.plans] == ["first", "third"]
    (cut,) = state.cut
    assert cut.name == "the search" and cut.seconds > 0


def test_a_plan_that_changes_nothing_does_not_take_part(state):
    def derive(state, seconds):
        yield changed(state, "other", "Abs")
        yield changed(state, "same", "Abs")
        yield Plan("as it was", state.original.graph.copy())

    run_passes(state, [Pass("rewriting", derive)])
    assert [plan.name for plan in state.plans] == ["other"]


def test_a_pass_that_measures_is_charged_for_measuring_alone(state):
    def measure(state, seconds):
        assert seconds == pytest.approx(4.0)
        state.prices.spent_s += 1.5
        yield from ()

    def race(state, seconds):
        assert seconds == pytest.approx(8.5)
        yield from ()

    run_passes(
        state,
        [
            Pass("the search", measure, share=0.4, most=0.4, measures=True),
            Pass("the final race", race, share=0.6, most=1.0),
        ],
    )


def test_the_share_of_a_pass_that_does_not_apply_is_for_the_others(state):
    granted = []

    def race(state, seconds):
        granted.append(seconds)
        yield from ()

    run_passes(
        state,
        [
            Pass("a", race, share=0.2, most=0.9),
            Pass("kernels", race, share=0.5, most=0.5, applies=lambda state: False),
            Pass("the final race", race, share=0.3, most=1.0),
        ],
    )
    assert granted[0] == pytest.approx(7.0, abs=0.1)


def test_what_is_no_part_of_the_budget_has_its_time_kept_until_the_end(state):
    granted = []

    def race(state, seconds):
        granted.append(seconds)
        yield from ()

    state.schedule.end = time.monotonic() + 8.0
    run_passes(
        state,
        [
            Pass("the final race", race, share=0.3, most=1.0),
            Pass("compiling", race, expected_s=lambda state: 5.0),
        ],
    )
    assert granted[0] == pytest.approx(3.0, abs=0.5)


@pytest.mark.parametrize("name", ["kernels", "the final race"])
def test_however_much_passes_take_those_that_often_win_have_their_share(state, name):
    granted = {}

    def greedy(pass_):
        def run(state, seconds):
            granted[pass_.name] = seconds
            state.schedule.charge(5.0)
            yield from ()

        return run

    run_passes(
        state,
        [
            Pass(pass_.name, greedy(pass_), pass_.share, pass_.most, pass_.applies, pass_.measures)
            for pass_ in PASSES
        ],
    )
    (share,) = [pass_.share for pass_ in PASSES if pass_.name == name]
    assert granted[name] == pytest.approx(10.0 * share)


def test_a_plan_with_kernels_is_no_first_plan_to_derive_others_from(state):
    kernels = changed(state, "kernels", "Abs")
    kernels.base = state.original
    state.propose(kernels)
    assert state.first is state.original
    state.propose(changed(state, "simplified", "Exp"))
    assert state.first.name == "simplified"
