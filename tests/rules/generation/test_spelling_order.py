"""Which spelling of a candidate is asked for next, after others were not decided."""

from tensolog.rules.gate.verdict import Verdict
from tensolog.rules.generation.proving import Attempt

from .relu_of_concat import LAW


def asked(attempt):
    questions = []
    while (said := attempt.next_spelling()) is not None:
        questions.append(said)
    return questions


def verdict(status):
    return Verdict("Convert", "", status, "")


def test_what_was_not_decided_for_some_of_the_operators_is_asked_last():
    first = asked(Attempt(LAW, "Convert"))
    way = Attempt(LAW, "Convert").way(first[0][0])
    again = asked(Attempt(LAW, "Convert", [(frozenset({"Relu"}), *way[1:])]))
    assert again != first
    assert again[-1] == first[0]
    assert sorted(rule.text for _, rule in again) == sorted(rule.text for _, rule in first)


def test_what_was_not_decided_for_other_operators_changes_nothing():
    first = asked(Attempt(LAW, "Convert"))
    way = Attempt(LAW, "Convert").way(first[0][0])
    other = (frozenset({"Relu", "Tanh"}), *way[1:])
    assert asked(Attempt(LAW, "Convert", [other])) == first


def test_what_is_false_as_it_stands_is_not_asked_more_generally():
    first = asked(Attempt(LAW, "Convert"))
    attempt = Attempt(LAW, "Convert", [Attempt(LAW, "Convert").way(first[0][0])])
    attempt.general = verdict("refuted")
    assert first[0] not in asked(attempt)
    attempt = Attempt(LAW, "Convert", [Attempt(LAW, "Convert").way(first[0][0])])
    attempt.general = verdict("refused")
    assert first[0] in asked(attempt)
