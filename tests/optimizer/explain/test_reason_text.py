"""What is laid out for people: places of a rule, each once."""

from tensolog.optimizer.explain.explain_model import Explanation
from tensolog.optimizer.explain.reason_text import explanation_text
from tensolog.optimizer.match.rewrite import Step


def weighed(*nodes):
    return Step("MergeThings", nodes, 2, 1, accepted=False, reason="cost decides")


def text_of(*steps):
    return explanation_text(
        Explanation("m.onnx", [], list(steps), [], [], [], {}, opset_in_file=21, opset=21)
    )


def test_operands_that_may_be_swapped_match_at_one_place():
    text = text_of(weighed("a", "b"), weighed("a", "b"), weighed("c", "d"))
    assert "MergeThings (2x): cost decides\n    at a, b, in 2 ways\n    at c, d\n" in text + "\n"


def test_places_beyond_those_shown_are_counted_once_each():
    steps = [weighed(f"n{number}", "z") for number in range(7)]
    assert "and at 3 more places" in text_of(*steps, *steps)
