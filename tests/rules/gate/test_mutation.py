"""A slice of the mutation campaign: nothing false is accepted, and if it were, it would show."""

import random

import pytest
from tensolog.rules import load_rules, parse_rules
from tensolog.rules.gate import mutation_campaign as mutate_module
from tensolog.rules.gate.gate import prove_rule
from tensolog.rules.gate.mutants import mutants, mutants_of
from tensolog.rules.gate.mutation_campaign import against, mutate
from tensolog.rules.gate.verdict import Counterexample, Verdict
from tensolog.rules.language.canonical_text import rule_text

from tests.campaigns import examples, search_s

WHOLE = 24
COUNT = examples(WHOLE)  # `tensolog rules mutate --count 300` makes more
RULE = """\
rule MergeScales
  tags    always
  given   X [m, n] float64,
          a scalar,
          b scalar,
          n > 2
  match
    Y = Sub(X, a)
    Z = Sub(Y, b)
  rewrite
    c = Add(a, b)
    Z = Sub(X, c)
  equal   rounding
"""


def rule_of(text=RULE):
    (rule,) = parse_rules(text)
    return rule


def test_mutants_differ_from_their_rule_and_from_each_other_in_one_place():
    rule = rule_of()
    texts = [mutant.text for mutant in mutants_of(rule)]
    assert len(texts) == len(set(texts)) > 15
    assert rule_text(rule) not in texts
    changes = [mutant.change for mutant in mutants_of(rule)]
    for expected in (
        "drop n > 2",
        "n > 2 becomes n > 3",
        "n > 2 becomes n >= 2",
        "drop the shape of X [m, n] float64",
        "drop the types of X [m, n] float64",
        "Add becomes Sub",
        "Sub becomes Add",
        "Sub: swap operands 0 and 1",
        "Add: operand 0 twice",
        "drop Add(a, b)",
        "drop Sub(X, c)",
    ):
        assert expected in changes


def test_mutants_are_drawn_alike_from_all_rules_and_again_by_the_seed():
    rules = random.Random(0).sample(load_rules(), 10)
    drawn = mutants(rules, 30, seed=3)
    assert {mutant.original for mutant in drawn} == {
        rule.name for rule in rules if any(mutants_of(rule))
    }
    assert [m.text for m in mutants(rules, 30, seed=3)] == [m.text for m in drawn]
    assert [m.text for m in mutants(rules, 30, seed=4)] != [m.text for m in drawn]


def test_no_false_mutant_is_accepted():
    campaign = mutate(load_rules(), COUNT, seed=5, jobs=1, timeout=6, search=1)
    assert [
        f"{mutation.mutant.text}\n{mutation.reason}" for mutation in campaign.of("accepted")
    ] == []
    counts = campaign.count()
    assert sum(counts.values()) == COUNT
    # Of what is drawn about a third says the same as before: operands swapped, an axis spelled so.
    # A slice is too few to tell.
    assert COUNT < WHOLE or counts["refuted"] + counts["static"] >= COUNT // 3


def test_a_gate_that_accepts_all_is_found_out(monkeypatch):
    def gullible(rules, *_, **__):
        return tuple(Verdict(rule.name, rule.hash, "proved") for rule in rules)

    monkeypatch.setattr(mutate_module, "prove_rules", gullible)
    campaign = mutate([rule_of()], 4, seed=1, search=1)
    assert campaign.of("accepted")


def test_a_proof_that_the_gate_itself_contradicts_counts_as_accepted(monkeypatch):
    shown = Counterexample("value", "numbers", "a program")

    def torn(rules, *_, **__):
        return tuple(
            Verdict(rule.name, rule.hash, "unknown", "yet", counterexample=shown) for rule in rules
        )

    monkeypatch.setattr(mutate_module, "prove_rules", torn)
    assert mutate([rule_of()], 12, seed=1, search=0.1).of("accepted")


@pytest.mark.parametrize("change", ["Add becomes Sub", "Add: operand 0 twice", "drop Add(a, b)"])
def test_numbers_are_found_against_a_false_mutant(change):
    (mutant,) = [mutant for mutant in mutants_of(rule_of()) if mutant.change == change]
    assert against(mutant.rule, 2.0) is not None
    assert against(rule_of(), search_s(0.3)) is None


# Mutants that were accepted once, and why they are false.
ACCEPTED_ONCE = [
    # a part of a Split may be left unused, and then the other one is not all of it
    """\
rule EliminateSplitOfOne
  tags    always
  opset   >= 13
  match
    Y = Split<axis=i, *r>(X, s?)
  rewrite
    Y = X
  equal   exact
""",
    # the scale has the channels of the batch axis
    """\
rule FoldScaleIntoBatchNormalization
  tags    explore
  given   X [n, c, *d] float32|float64,
          scale [c],
          shift [c],
          mean [c],
          var [c],
          f [p, q, *d1],
          size(f) = 1 or shape(f) = [c, 1] ++ repeat(1, len(d))
  match
    Y = BatchNormalization<*a>(X, scale, shift, mean, var)
    Z = Mul(Y, f)
  rewrite
    k = Reshape(f, [-1])
    s = Mul(scale, k)
    t = Mul(shift, k)
    Z = BatchNormalization<*a>(X, s, t, mean, var)
  equal   rounding
""",
]


@pytest.mark.parametrize("text", ACCEPTED_ONCE)
def test_what_was_accepted_once_is_not_accepted_again(text):
    rule = rule_of(text)
    assert prove_rule(rule, 10.0, search=2.0, infer=0.0).status not in ("proved", "bounded")


def test_kernels_that_treat_empty_tensors_wrongly_refute_nothing():
    """ReduceL1 of integers takes axes counted from the end amiss where nothing is reduced."""
    (rule,) = [rule for rule in load_rules() if rule.name == "EliminateTransposeBeforeReduce"]
    assert against(rule, search_s(3.0)) is None
