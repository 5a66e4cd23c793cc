"""Where a rule about quantized numbers all but matches, what is in its way is said in words."""

import re

import pytest
from tensolog.optimizer.explain.partial_match import nearest
from tensolog.optimizer.graph.convert import load_graph
from tensolog.optimizer.graph.infer import refine_types
from tensolog.rules import load_rules
from tensolog.rules.language.conditions import conditions
from tensolog.rules.sampling.instances import instances

RULES = [rule for rule in load_rules() if rule.family == "quantization"]
FUNCTIONS = {"dtype", "ints", "len", "rank", "fits"}


def first_name(condition):
    """What a condition is about."""
    names = re.findall(r"[A-Za-z]\w*", str(condition))
    return next(name for name in names if name not in FUNCTIONS)


def misses(rule):
    """Each condition that can fail alone, and what is said where it does."""
    for condition in conditions(rule):
        for broken in instances(rule, 1, 3, "float32", breaking=condition):
            graph = load_graph(broken.model)
            refine_types(graph)
            yield condition, nearest(rule, graph)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_condition_that_fails_alone_is_named(rule):
    failures = list(misses(rule))
    assert len(failures) >= 2
    for condition, miss in failures:
        assert miss.missing == 0
        there, _, why = miss.reason.partition(", but ")
        assert there and re.search(rf"\b{first_name(condition)}\b", why), miss.reason


def test_the_type_that_decides_is_shown():
    rule = next(rule for rule in RULES if rule.name == "EliminateReluAfterDequantizeLinear")
    (why,) = (miss.reason for condition, miss in misses(rule) if "dtype(z)" in str(condition))
    assert re.search(r"\(z = -?\d+, dtype\(z\) = u?int8\)$", why), why
