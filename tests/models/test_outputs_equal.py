"""Rewritten models compute what they did: the zoo, with rules off, half of them, and all."""

import random

import onnx
import pytest

from benchmarks.zoo import ARCHITECTURES, build, random_feeds
from tests.campaigns import ALL

from .agreement import disagreement, run_double
from .rewriting import half_of, rewritten, shipped_rules

pytestmark = pytest.mark.whole

# Which rules, which opset, batch and length open or not: each is covered, not each combination;
# and half of these of each architecture in a run of all tests, every other one the other half.
CASES = [
    ("off", 17, False),
    ("half", 13, False),
    ("all", 18, False),
    ("half", 21, True),
    ("all", 17, True),
]
TRIED = [
    (name, *case)
    for place, name in enumerate(ARCHITECTURES)
    for number, case in enumerate(CASES)
    if ALL or (place + number) % 2 == 0
]


@pytest.mark.parametrize(("name", "selection", "opset", "dynamic"), TRIED)
def test_rewritten_architecture_agrees(name, selection, opset, dynamic):
    model = build(name, tiny=True, dynamic=dynamic, opset=opset)
    untouched = model.SerializeToString()
    rules = {"off": (), "all": shipped_rules()}.get(selection)
    if rules is None:
        rules = half_of(shipped_rules(), random.Random(f"{name} {opset}"))
    result, _ = rewritten(model, rules)
    assert model.SerializeToString() == untouched
    onnx.checker.check_model(result)
    assert list(result.graph.input) == list(model.graph.input), "a dynamic model stays dynamic"
    assert list(result.graph.output) == list(model.graph.output)
    for seed, distribution in enumerate(("normal", "wide", "zeros")):
        feeds = random_feeds(
            model,
            distribution=distribution,
            seed=seed,
            dimensions={"batch": 1 + seed, "tokens": 4 + seed},
        )
        exact = run_double(model, feeds)
        for level in ("disabled", "all"):
            assert disagreement(model, result, feeds, level=level, exact=exact) is None


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_target_onnx_uses_standard_operators_only(name):
    model = build(name, tiny=True)
    result, _ = rewritten(model, shipped_rules(), target="onnx")
    assert {node.domain for node in result.graph.node} <= {"", "ai.onnx"}
    assert disagreement(model, result, random_feeds(model)) is None
