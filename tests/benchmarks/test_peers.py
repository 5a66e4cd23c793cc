"""The contest with other optimizers: who is said to be the best of a row, and who is not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from benchmarks.child import StepError, run_step
from benchmarks.peers import WORTH, runners
from benchmarks.peers.report import LEAST_ROUNDS, WRONG, table
from benchmarks.zoo import ARCHITECTURES


def row(**laps: tuple[float, float]) -> dict[str, Any]:
    return {
        "name": "net",
        "source": "onnx",
        "threads": 2,
        "laps": {
            name: {"ratio": ratio, "median_ns": 2e6, "deviation": deviation, "rounds": LEAST_ROUNDS}
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


def test_a_race_of_few_rounds_has_no_winner_and_counts_in_no_mean() -> None:
    short = row(onnxruntime=(1.0, 0.0), tensolog=(0.7, 0.0))
    short["laps"]["tensolog"]["rounds"] = LEAST_ROUNDS - 1
    assert "| 2.00 ms? | 0.70? |" in table([short])
    assert "geometric mean" not in table([short])


def test_an_original_that_was_kept_is_marked() -> None:
    kept = row(onnxruntime=(1.0, 0.0), tensolog=(1.1, 0.0)) | {"kept": ["tensolog"]}
    assert "| **2.00 ms** | 1.10 = |" in table([kept])


def test_ratios_of_ours_have_their_interval_and_the_seconds_that_optimizing_took() -> None:
    timed = row(onnxruntime=(1.0, 0.0), tensolog=(0.9, 0.0)) | {"seconds": {"tensolog": 31.4}}
    timed["laps"]["tensolog"] |= {"ratio_low": 0.88, "ratio_high": 0.93}
    text = table([timed, row(onnxruntime=(1.0, 0.0), tensolog=(0.9, 0.0))])
    assert "| model | from | threads | onnxruntime | tensolog | tensolog: seconds |" in text
    assert "| 2.00 ms | **0.90 [0.88, 0.93]** | 31 |" in text
    assert "| 2.00 ms | **0.90** | – |" in text


def test_who_is_ahead_is_counted_where_both_are_right() -> None:
    races = [(0.9, 0.8, 0.0), (0.81, 0.8, 0.0), (0.7, 0.8, 0.0), (0.9, 0.1, 2 * WRONG)]
    rows = [
        row(onnxruntime=(1.0, 0.0), openvino=(theirs, wrong), tensolog=(ours, 0.0))
        for ours, theirs, wrong in races
    ]
    assert "tensolog: at or ahead of openvino (within 2%) in 2 of 3 races" in table(rows)


def test_means_are_geometric() -> None:
    rows = [row(onnxruntime=(1.0, 0.0), tensolog=(ratio, 0.0)) for ratio in (0.5, 0.8)]
    assert f"tensolog: geometric mean {(0.5 * 0.8) ** 0.5:.3f} over 2 races" in table(rows)


def test_numbers_of_threads_have_means_of_their_own() -> None:
    rows = [row(onnxruntime=(1.0, 0.0), tensolog=(ratio, 0.0)) for ratio in (0.5, 0.8)]
    rows[1]["threads"] = 1
    text = table(rows)
    assert "tensolog: geometric mean 0.500 over 1 races, 2 threads" in text
    assert "tensolog: geometric mean 0.800 over 1 races, 1 thread\n" in f"{text}\n"


def test_who_could_not_take_part_has_a_row_with_the_reason() -> None:
    failed = row(onnxruntime=(1.0, 0.0)) | {"refused": {"openvino": "no such operator | `Mystery`"}}
    assert "| net | onnx | 2 | openvino | no such operator / 'Mystery' |" in table([failed])


def test_every_architecture_has_its_place() -> None:
    assert sorted(WORTH) == sorted(ARCHITECTURES)


def test_a_step_that_takes_too_long_is_ended() -> None:
    with pytest.raises(StepError, match="build: took more than 0 s"):
        run_step("build", timeout_s=0.01, name="bert", source="onnx", path="/dev/null")


def test_a_step_that_fails_says_why() -> None:
    with pytest.raises(StepError, match=r"build: .*mystery"):
        run_step("build", name="mystery", source="onnx", path="/dev/null")


def test_what_torch_compiles_lies_beside_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", {})
    monkeypatch.setattr(runners, "torch_call", lambda *_: list)
    runners.Loader({"torch.compile": tmp_path / "model.onnx"}, {}, 1, dict).compiled()
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "inductor")
