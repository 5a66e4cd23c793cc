"""The summary, from made-up results."""

import pytest
from tensolog.optimizer.explain.reason_text import explain_text
from tensolog.optimizer.explain.reasons import CONDITION, Reason

from tensolog.printing import one_line
from tensolog.summary import columns, kernels_text, summary_text

from .report_sketch import report, residual_network


def sample(**changes):
    return {**report(residual_network(), residual_network(folded=True)), **changes}


def test_says_what_a_user_wants_to_know():
    text = summary_text(sample(), "in.onnx", "out.onnx")
    for part in (
        "in.onnx -> out.onnx",
        "onnxruntime-cpu, 2 threads",
        "nodes    99 -> 64",
        "45.1 ms ± 400 µs -> 38.2 ms ± 300 µs",
        "1.18x faster (1.17x to 1.20x, 31 rounds)",
        "FoldBatchNormalizationIntoConv",
        "multiplies the scale of a normalization",
        "Largest deviation from the original",
        "simplified",
        "plan 1 is written",
    ):
        assert part in text


def test_says_plainly_that_nothing_won():
    kept = report(residual_network(), residual_network(), chosen="original")
    text = summary_text({**kept, "steps": []}, "in.onnx", "out.onnx")
    assert text.rstrip().endswith("The original is kept: no plan was faster beyond the noise.")
    assert "31 rounds" not in text


def test_few_rounds_give_no_interval():
    data = sample()
    data["candidates"] = [{**row, "samples": 4} for row in data["candidates"]]
    text = summary_text(data, "in.onnx", "out.onnx")
    assert "1.18x faster (4 rounds)" in text
    assert "1.17x to" not in text
    data["candidates"] = [{**row, "samples": 5} for row in data["candidates"]]
    assert "1.18x faster (1.17x to 1.20x, 5 rounds)" in summary_text(data, "in.onnx", "out.onnx")


def test_near_misses_name_their_rule_once():
    miss = Reason("Merge", ("a",), CONDITION, "w is not", condition="w const")
    assert explain_text([], [miss], "kept").splitlines()[1:3] == [
        "  Merge: 1 near miss",
        "    w is not",
    ]


def test_refused_steps_are_not_listed_as_applied():
    text = summary_text(sample(), "in.onnx", "out.onnx")
    applied, _, left = text.partition("Tried and left")
    assert "MergeConvsSharingInput" not in applied
    (line,) = (line for line in left.splitlines() if "MergeConvsSharingInput" in line)
    assert line.split() == ["MergeConvsSharingInput", "+20.0", "µs", "(higher", "cost)"]


def test_needs_no_more_than_the_headline():
    least = {key: sample()[key] for key in ("tensolog", "chosen", "verdict", "nodes_before")}
    text = summary_text({**least, "nodes_after": 3}, "in.onnx", "out.onnx")
    assert "99 -> 3" in text


def test_operators_that_come_and_go():
    row = {"calls_before": 0, "calls_after": 1, "before_ns": 0.0, "after_ns": 5e3, "bounded": False}
    gone = {"calls_before": 1, "calls_after": 0, "before_ns": 1e4, "after_ns": 0.0, "bounded": True}
    data = sample(operators=[{"op_type": "New", **row}, {"op_type": "Old", **gone}])
    text = summary_text(data, "in.onnx", "out.onnx")
    assert text.index("Old") < text.index("New")
    old = next(line.split() for line in text.splitlines() if line.split()[:1] == ["Old"])
    assert old[2:5] == [">=", "10.0", "µs"] and ">=: not all were" in text
    only = sample(operators=[{"op_type": "New", **row}])
    assert "New" in summary_text(only, "in.onnx", "out.onnx")
    assert ">=" not in summary_text(only, "in.onnx", "out.onnx").partition("Where the time")[2]


def test_a_beyond_deviation_stands_out():
    data = sample()
    data["deviations"][0] = {**data["deviations"][0], "within": False}
    assert "BEYOND" in summary_text(data, "in.onnx", "out.onnx")


def test_names_can_not_steer_the_terminal():
    data = sample()
    data["steps"][0] = {**data["steps"][0], "rule": "Evil\x1b[2J\nRule"}
    text = summary_text(data, "in\x1b]0;title\x07.onnx", "out.onnx")
    assert "\x1b" not in text and "\x07" not in text
    assert r"Evil\x1b[2J\nRule" in text


def test_columns_align():
    assert columns([("a", "1"), ("long", "22")], right=(1,), indent="") == "a      1\nlong  22"
    assert columns([]) == ""
    assert one_line("größe\t") == "größe\\t"


@pytest.mark.parametrize(("after", "shown"), [(102_400_000, "102 MB"), (192e6, "102 MB -> 192 MB")])
def test_a_model_that_grew_says_so(after, shown):
    text = summary_text({**sample(), "size_after_bytes": after}, "in.onnx", "out.onnx")
    assert [line.split("size")[1].strip() for line in text.splitlines() if "  size " in line] == [
        shown
    ]


def chosen(**changes):
    """What is said of the target."""
    known = {"asked": "auto", "chosen": "onnxruntime-cpu", "reason": "no compiler is here"}
    return {**known, "portable": False, "advice": "", "install": "", **changes}


def test_what_auto_stood_for_and_why():
    text = summary_text(sample(target=chosen()), "in.onnx", "out.onnx")
    assert "auto" in text and "onnxruntime-cpu: no compiler is here" in text
    named = chosen(asked="onnxruntime-cpu")
    assert "auto" not in summary_text(sample(target=named), "in.onnx", "out.onnx")


def test_a_result_without_kernels_names_what_that_loses_and_the_command_that_has_them():
    assert kernels_text(sample(target=chosen()), "in.onnx", "out") == ""
    left_out = chosen(advice="They gain much.", install="pip install x")
    assert kernels_text(sample(target=left_out), "in it.onnx", "out").splitlines() == [
        "They gain much.",
        "  pip install x && tensolog optimize 'in it.onnx' -o out",
    ]


def test_an_operator_set_that_was_raised_is_told():
    text = summary_text(sample(opset_before=13, opset_after=18), "in.onnx", "out.onnx")
    assert "operator set  13 -> 18" in text
    assert "operator set" not in summary_text(sample(), "in.onnx", "out.onnx")
