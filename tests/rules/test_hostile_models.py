"""Proved rules on models that are as hostile to them as ONNX allows: both sides agree there."""

import random
from pathlib import Path

import pytest
from tensolog.rules import load_rules
from tensolog.rules.language.repetition import gathers
from tensolog.rules.sampling.instances import instances

from tests.campaigns import ALL

from .hostile import UnfitError, check, edited

DATA = Path(__file__).parents[2] / "benchmarks" / "data"
# No runtime has the operators by which images in blocks are read; what gathers nodes is applied by
# a pass (tests/optimizer/native).
SHIPPED = [rule for rule in load_rules() if rule.family != "blocked" and not gathers(rule)]
GENERATED = load_rules(sorted((DATA / "generated").glob("*.rules")))
# Models of each rule, and edited ones of each model.
MODELS, EDITED = (3, 12) if ALL else (1, 4)


@pytest.mark.parametrize("rule", SHIPPED, ids=lambda rule: rule.name)
def test_shipped_rules_hold_on_hostile_models(rule):
    tried(rule)


@pytest.mark.parametrize("rule", GENERATED, ids=lambda rule: rule.name)
def test_generated_rules_hold_on_hostile_models(rule):
    tried(rule)


def tried(rule):
    rng = random.Random(rule.name)
    for dtype in ("float32", "float64", "int64"):
        drawn = instances(rule, MODELS, 23, dtype, empty=rng.random() < 0.3)
        if not drawn:
            break  # what is drawn for no type takes as long for the others
        for instance in drawn:
            for _ in range(EDITED):
                try:
                    model = edited(instance.model, rng, extremes=rule.equal == "exact")
                except UnfitError:
                    continue
                check(rule, model, rng)
