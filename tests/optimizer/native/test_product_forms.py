"""Which form of a product goes into a plan, and what is tried where one rounds too much."""

import pytest
from onnx import helper
from tensolog.optimizer.native import find_region_kinds as finding
from tensolog.optimizer.native.embed import RULE
from tensolog.optimizer.native.product.product_text import EACH, SEVEN, TILES
from tensolog.optimizer.race.contest import Contest
from tensolog.optimizer.setting import KERNELS_TARGET

import tensolog

from .build import kernels_of, needs_compiler
from .test_convolution_forms import lap, stage
from .test_product import dense, normal

pytestmark = needs_compiler
node = helper.make_node


@pytest.fixture
def raced(monkeypatch):
    """Races in which a form takes what this says, and a plan less the more kernels it has."""
    ratios = {EACH: 0.9, SEVEN: 0.8}

    def time(self, plans, budget_s, **options):
        def ratio(plan):
            return 0.9 if any(n.rule == RULE for n in plan.graph.nodes.values()) else 1.0

        return {plan.name: lap(ratio(plan)) for plan in plans}

    stage(monkeypatch, time, ratios, otherwise=1.1)
    return ratios


def optimized():
    behind = [node("Add", ["p", "b"], ["y"])]
    proto = dense(128, 192, behind, rows=(192,), constants={"b": normal(192)})
    return tensolog.optimize(
        proto, target=KERNELS_TARGET, threads=1, budget=0.1, catalog=":memory:", rules=()
    )


def is_seven(result):
    assert len(kernels_of(result.model)) == 1
    return any(array.name.endswith(".alike") for array in result.model.graph.initializer)


@pytest.mark.parametrize("seven", [0.8, 0.95])
def test_the_form_that_takes_less_is_chosen(raced, seven):
    raced[SEVEN] = seven
    result = optimized()
    assert is_seven(result) == (seven < raced[EACH])
    left = [step.reason for step in result.plan if step.rule == RULE and not step.accepted]
    other = EACH if seven < raced[EACH] else SEVEN
    assert any(other in reason for reason in left)


@pytest.mark.parametrize("has", [False, True])
def test_tiles_are_raced_where_the_processor_has_them(raced, has, monkeypatch):
    monkeypatch.setattr(finding, "has_tiles", lambda: has)
    raced[TILES] = 0.7
    used = [step.reason for step in optimized().plan if step.rule == RULE and step.accepted]
    assert any(TILES in reason for reason in used) == has


def test_what_rounds_too_much_is_tried_without_it(raced, monkeypatch):
    verify = Contest.verify

    def judged(self, plan):
        verify(self, plan)
        read = {value for node in plan.graph.nodes.values() for value in node.inputs}
        if any(plan.graph.names[value].endswith(".alike") for value in read if value >= 0):
            refused.append(plan.name)
            plan.refusal = "is off by too much"

    refused = []
    monkeypatch.setattr(Contest, "verify", judged)
    assert not is_seven(optimized())
    assert refused == ["kernels"]
