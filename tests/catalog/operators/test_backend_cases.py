"""Specifications give what ONNX's own node tests expect."""

from __future__ import annotations

import pytest

from .backend_cases import report

# Why a covered operator may refuse a node test; anything else is a failure.
_REASONS = (
    "beyond its range is not described",  # saturation of 8-bit types
    "is described with 1 outputs",  # MaxPool's indices, BatchNormalization in training
    "training = 0 doesn't hold",
    "saturation to float",  # QuantizeLinear to 8-bit floats
    "antialias = 0 doesn't hold",
    "or whole(s, factor, o) doesn't hold",  # Resize by a factor that gives no whole size
    "Attention: described where absent(mask)",  # a mask's type decides what it means
    "Attention: described where left_window_size = -1",
    "described where n = 1 doesn't hold",  # recurrent nets over several steps
    "described where saturate = 1 and",  # casts to 8-bit floats that overflow to NaN or infinity
)
# Operators that are described for some of their inputs alone, which most of their tests don't use.
_IN_PART = ("Attention:", "GRU:", "LSTM:", "RNN:")


def test_no_node_test_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    tally = report()
    with capsys.disabled():
        print()
        for kind in ("single", "expanded"):
            counts = {k.removeprefix(kind).strip(): n for k, n in tally.counts.items() if kind in k}
            print(
                f"node tests, {kind}: " + ", ".join(f"{n} {k}" for k, n in sorted(counts.items()))
            )
    assert tally.wrong == []


def test_refusals_are_known() -> None:
    unknown = {
        name: reason
        for name, reason in report().refused.items()
        if not any(known in reason for known in _REASONS)
    }
    assert unknown == {}


def test_most_node_tests_are_covered() -> None:
    counts = report().counts
    # of a release of onnx no older than the one these specifications were written against
    refused = [reason for reason in report().refused.values() if not reason.startswith(_IN_PART)]
    assert counts["single passed"] >= 0.9 * (counts["single passed"] + len(refused))
    assert counts["single passed"] > 500
