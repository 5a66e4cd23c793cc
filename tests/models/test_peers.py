"""The contest with other optimizers: who is said to be the best of a row, and who is not."""

from __future__ import annotations

from typing import Any

from benchmarks.peers.report import WRONG, table


def row(**laps: tuple[float, float]) -> dict[str, Any]:
    return {
        "name": "net",
        "source": "onnx",
        "threads": 2,
        "laps": {
            name: {"ratio": ratio, "median_ns": 2e6, "deviation": deviation}
            for name, (ratio, deviation) in laps.items()
        },
    }


def test_the_fastest_is_bold() -> None:
    text = table([row(onnxruntime=(1.0, 0.0), openvino=(0.8, 1e-6), tensolog=(0.9, 1e-6))])
    assert "| 2.00 ms | **0.80** | 0.90 |" in text


def test_what_computes_something_else_is_wrong_however_fast_and_counts_in_no_mean() -> None:
    text = table([row(onnxruntime=(1.0, 0.0), openvino=(0.1, 2 * WRONG), tensolog=(0.9, 0.0))])
    assert "wrong" in text
    assert "**0.90**" in text
    assert "openvino: geometric mean" not in text


def test_an_original_that_nobody_beats_is_the_best() -> None:
    assert "**2.00 ms** | 1.10 |" in table([row(onnxruntime=(1.0, 0.0), tensolog=(1.1, 0.0))])


def test_means_are_geometric() -> None:
    rows = [row(onnxruntime=(1.0, 0.0), tensolog=(ratio, 0.0)) for ratio in (0.5, 0.8)]
    assert f"tensolog: geometric mean {(0.5 * 0.8) ** 0.5:.3f} over 2 races" in table(rows)
