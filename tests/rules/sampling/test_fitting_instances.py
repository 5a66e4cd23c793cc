"""Instances of operators of whose operands and attributes a rule says little, which have to fit."""

import numpy as np
import pytest
from tensolog.profiles.sessions.session import open_session, run_session
from tensolog.rules.gate.floating.numeric_class import measured
from tensolog.rules.gate.gate import prove_rule
from tensolog.rules.language.parser import parse_rules
from tensolog.rules.sampling.instances import instances

RULE = """# PushNeg is a rule.
rule PushNeg
  tags    explore
  source  [test]
  opset   {opset}
  given   X float32, S, B
  match
    N = {node}(X, S, B)
    Y = Neg(N)
  rewrite
    T = Neg(S)
    C = Neg(B)
    Y = {node}(X, T, C)
  equal   rounding
"""
SPLIT = """# EliminateSplit is a rule.
rule EliminateSplit
  tags    explore
  source  [test]
  opset   >= 18
  given   X float32
  match
    A, B = Split<axis=0, num_outputs=n>(X)
    Y = Concat<axis=0>(A, B)
  rewrite
    Y = X
  equal   exact
"""
NODES = [
    ("GroupNormalization<num_groups=g>", ">= 21"),
    ("InstanceNormalization", ">= 13"),
    ("LayerNormalization<axis=a>", ">= 17"),
]


def rule_of(node, opset):
    (rule,) = parse_rules(RULE.format(node=node, opset=opset))
    return rule


@pytest.mark.parametrize(("node", "opset"), NODES)
def test_operands_without_declared_shapes_fit_each_other(node, opset):
    drawn = instances(rule_of(node, opset), 8)
    runs = 0
    for instance in drawn:
        try:
            session = open_session(instance.model.SerializeToString(), threads=1)
            run_session(session, instance.feeds(np.random.default_rng(0), "normal"))
            runs += 1
        except Exception:  # of a rank that the runtime alone refuses
            continue
    assert runs >= 4


@pytest.mark.parametrize(("node", "opset"), NODES)
def test_rules_without_declared_shapes_are_measured(node, opset):
    rule = rule_of(node, opset)
    assert measured(rule, prove_rule(rule, 10.0, infer=0), 10.0).status == "proved"


def test_parts_of_a_split_are_as_many_as_it_has_outputs():
    (rule,) = parse_rules(SPLIT)
    assert instances(rule, 4)  # of other numbers onnx ends the process
