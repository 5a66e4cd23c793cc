"""The planner against all plans of random programs, under machines of all kinds."""

import math
import random
from dataclasses import replace

import pytest
from hypothesis import example, given, note, settings
from hypothesis import strategies as st
from tensolog.optimizer.fuse.planning import Machine, Pruning
from tensolog.optimizer.fuse.planning.fusion_candidates import conditions
from tensolog.optimizer.fuse.planning.fusion_planner import make_plan, regions
from tensolog.optimizer.fuse.planning.plan_search import Bound, fuse_all, fuse_no_redundancy, search
from tensolog.optimizer.fuse.planning.planning_graph import PlanningGraph, mask, members
from tensolog.optimizer.fuse.planning.template_costs import TemplateCosts

from tests.campaigns import examples

from .build import Build, layered_program, random_program, shared_program
from .exhaustive import cheapest

# Each example is that many programs: their conditions are derived in one run.
BATCH = 60
NO_END = 10**9
PRUNINGS = [Pruning(a, b, NO_END) for a in (True, False) for b in (True, False)]


def draw_machine(source):
    """Return a machine bound by reading, writing or computing."""
    return Machine(
        read=source.choice([1e9, 1e10, 1e11]),
        write=source.choice([1e9, 5e9, 2e10]),
        cache=1e11,
        flops=source.choice([1e8, 1e9, 1e10, 1e11]),
        products=source.choice([1e9, 1e10]),
        cores=source.choice([1, 2]),
        dispatch_s=source.choice([0.0, 2e-6]),
    )


def draw_regions(seed, producers=8):
    """Yield the regions of a batch of programs that all plans can be tried of."""
    source = random.Random(seed)
    programs = []
    for _ in range(BATCH):
        if source.random() < 0.4:
            programs.append(shared_program(source))
        else:
            programs.append(random_program(source, source.choice([6, 9, 12])))
    for program, derived_conditions in zip(programs, map(conditions, programs), strict=True):
        prices = TemplateCosts(PlanningGraph(program, derived_conditions), draw_machine(source))
        for region in regions(prices):
            if len({c for _, c in region.edges}) <= producers:
                yield program, region


def oracle(region):
    joins = region.graph.conditions.joins
    return cheapest(region.prices, region.nodes, region.edges, members(region.forced), joins)


@settings(max_examples=examples(16), deadline=None)
@given(st.integers(0, 10**9))
@example(194)  # a library takes a product of vectors whose elements are computed first
def test_the_plan_is_the_cheapest_of_all_whatever_is_pruned(seed):
    for program, region in draw_regions(seed):
        expected = oracle(region)
        for pruning in PRUNINGS:
            solution = search(region, pruning)
            if not math.isclose(solution.cost_s, expected, rel_tol=1e-9):
                note(str(program))
            assert solution.cost_s == pytest.approx(expected, rel=1e-9), pruning
            assert solution.bound_s == solution.cost_s
            cost = sum(operator.cost_s for operator in region.operators(solution.stored))
            assert cost == pytest.approx(expected, rel=1e-9)


@settings(max_examples=examples(8), deadline=None)
@given(st.integers(0, 10**9))
def test_products_that_feed_products_are_planned_as_cheaply_and_bounded(seed):
    """Rows that wait for a product are held, and libraries multiply faster or slower than loops."""
    source = random.Random(seed)
    programs = [layered_program(source) for _ in range(BATCH // 2)]
    for program, derived_conditions in zip(programs, map(conditions, programs), strict=True):
        machine = draw_machine(source)
        cache = machine.write * source.choice([1.0, 4.0, 16.0])
        machine = replace(machine, cache=cache, matmul=source.choice([1e9, 4e10, 1e11]))
        for region in regions(TemplateCosts(PlanningGraph(program, derived_conditions), machine)):
            if len({c for _, c in region.edges}) > 8:
                continue
            expected = oracle(region)
            for pruning in PRUNINGS:
                solution = search(region, pruning)
                assert solution.cost_s == pytest.approx(expected, rel=1e-9), (program, pruning)
            assert Bound(region).of(0, mask(region.candidates)) <= expected * (1 + 1e-9)


def test_a_row_beside_a_column_is_bounded_by_the_rows_of_both():
    """NumPy, too, begins with each row of what a row and a column make."""
    b = Build()
    column = b.op("Sigmoid", b.column(b.input(60)))
    program = b.program(b.op("Sub", b.input(1, 60), column))
    derived_conditions = conditions(program)
    machine = Machine(read=1e11, write=5e9, cache=1e11, flops=1e11, products=1e10, dispatch_s=0.0)
    (region,) = regions(TemplateCosts(PlanningGraph(program, derived_conditions), machine))
    assert search(region, Pruning()).cost_s == pytest.approx(oracle(region), rel=1e-9)


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10**9))
def test_no_heuristic_is_cheaper(seed):
    for _, region in draw_regions(seed, producers=12):
        solution = search(region, Pruning())
        for heuristic in (fuse_all, fuse_no_redundancy):
            cost = sum(plan_.cost_s for plan_ in heuristic(region))
            assert solution.cost_s <= cost * (1 + 1e-9)


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10**9))
def test_bounds_are_admissible(seed):
    """No plan that agrees with the decisions, and reads what it stores, is below the bound."""
    source = random.Random(seed)
    for _, region in draw_regions(seed, producers=6):
        bound = Bound(region)
        inside = mask(region.candidates)
        undecided = source.getrandbits(64) & inside
        stored = source.getrandbits(64) & inside & ~undecided
        least = min(region.cost(stored | more) for more in _subsets(undecided))
        fewer = [less for less in _subsets(stored) if less != stored]
        plans = [less | more for less in fewer for more in _subsets(undecided)]
        if all(region.cost(plan) > least for plan in plans):  # else nothing is lost
            assert bound.of(stored, undecided) <= least * (1 + 1e-9)


def _subsets(nodes):
    subset = nodes
    while True:
        yield subset
        if not subset:
            return
        subset = (subset - 1) & nodes


def test_cuts_are_found_and_lose_nothing():
    """A chain of wide products, each of which everything after it reads."""
    source = random.Random(3)
    cut = 0
    for seed in range(6):
        for _, region in draw_regions(source.randrange(10**9) + seed):
            solution = search(region, Pruning(by_cost=False, limit=NO_END))
            if solution.counts.skipped_by_structure:
                cut += 1
                assert solution.cost_s == pytest.approx(oracle(region), rel=1e-9)
                whole = search(region, Pruning(False, False, NO_END))
                assert solution.counts.costed < whole.counts.costed
    assert cut >= 2


def test_a_search_that_ends_early_says_how_good_it_may_be():
    source = random.Random(11)
    programs = [shared_program(source, most=20) for _ in range(30)]
    early = 0
    for program, derived_conditions in zip(programs, map(conditions, programs), strict=True):
        whole = make_plan(program, derived_conditions, Machine(), pruning=Pruning(limit=100_000))
        short = make_plan(program, derived_conditions, Machine(), pruning=Pruning(limit=10))
        assert short.bound_s <= whole.cost_s * (1 + 1e-9)
        assert whole.cost_s <= short.cost_s * (1 + 1e-9)
        early += not short.complete
    assert early >= 5
