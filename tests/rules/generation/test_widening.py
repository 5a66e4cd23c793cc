"""Rules that were proved in a narrow spelling, and wider ones that get more time.

Wider is a spelling with more left open, and a rule for earlier operator sets.
"""

from types import SimpleNamespace

import pytest
from tensolog.rules.gate.verdict import Verdict
from tensolog.rules.generation.candidates import Candidate
from tensolog.rules.generation.leaves import sort_of
from tensolog.rules.generation.proving import Attempt, widen
from tensolog.rules.generation.terms import Apply, Operation, Variable

from .relu_of_concat import LAW, relu


def provers(decide):
    """Provers that say what `decide` says of a rule, and note what they were asked."""
    asked = []

    def prove(rules, **limits):
        asked.extend((rule, limits) for rule in rules)
        return [Verdict(rule.name, rule.hash, decide(rule), "") for rule in rules]

    return SimpleNamespace(prove=prove, asked=asked)


@pytest.fixture
def said():
    attempt = Attempt(LAW, "ConvertThis")
    return [attempt.next_spelling() for _ in range(3)]


def test_the_first_wider_spelling_that_is_proved_takes_the_names_of_the_rules(said):
    wide = said[1][1].text
    asked = provers(lambda rule: "unknown" if rule.text == said[0][1].text else "proved")
    narrow = [said[2][1], said[2][1]]
    named = [SimpleNamespace(name=name, opset_from=13) for name in ("PushRelu", "PushConcat")]
    proved = widen(LAW, named, said[:2], asked, 4.0, lambda: False)
    assert [rule.name for rule, _ in proved] == ["PushRelu", "PushConcat"]
    assert proved[0][0].text.replace("PushRelu", "ConvertThis") == wide
    assert narrow[0].text != wide
    assert {limits["timeout"] for _, limits in asked.asked} == {4.0}


def test_nothing_is_widened_where_no_wider_spelling_is_proved(said):
    asked = provers(lambda _: "unknown")
    assert widen(LAW, [said[2][1]], said[:2], asked, 4.0, lambda: False) == ()
    assert len(asked.asked) == 2


def test_no_spelling_is_asked_for_when_the_time_is_over(said):
    asked = provers(lambda _: "proved")
    assert widen(LAW, [said[2][1]], said[:2], asked, 4.0, lambda: True) == ()
    assert not asked.asked


POOLED = Apply(
    Operation("AveragePool", (0,), (("kernel_shape", (3, 3)),)),
    (Variable("X", sort_of("float32", (0, 1, 2, 3))),),
)
POOLS = Candidate(relu(relu(POOLED)), relu(POOLED), False)


@pytest.mark.parametrize(("decided", "opset"), [("proved", 13), ("unknown", 19)])
def test_a_rule_is_for_the_earliest_operator_set_that_it_is_proved_for(decided, opset):
    asked = provers(lambda rule: decided if rule.opset_from < 19 else "proved")
    attempt = Attempt(POOLS, "ConvertThis")
    (first,) = [attempt.next_spelling()]
    ((rule, verdict),) = widen(POOLS, [first[1]], [first], asked, 4.0, lambda: False)
    assert (rule.opset_from, verdict.hash) == (opset, rule.hash)
    assert first[1].opset_from == 19
    assert [limits["timeout"] for _, limits in asked.asked] == [4.0, 8.0]


def test_a_wider_spelling_for_fewer_operator_sets_is_none():
    attempt = Attempt(POOLS, "ConvertThis")
    first = attempt.next_spelling()
    before = SimpleNamespace(name="PushThat", opset_from=13)
    asked = provers(lambda rule: "unknown" if rule.opset_from < 19 else "proved")
    assert widen(POOLS, [before], [first], asked, 4.0, lambda: False) == ()
