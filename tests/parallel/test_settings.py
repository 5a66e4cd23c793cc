"""Limits, and which of several measured settings is the best."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensolog.parallel.deployment.settings import (
    LimitError,
    Measured,
    Setting,
    batch_ladder,
    best,
    grid,
    measured_from_json,
    read_limit,
    summarize,
)


def measured(rows_per_s, p50_ms, *, memory=1000, p99_ms=None):
    return Measured(Setting(1, 1, 1), rows_per_s, p50_ms, p50_ms, p99_ms or p50_ms, 9, memory)


@pytest.mark.parametrize(
    ("text", "field", "is_upper", "value"),
    [
        ("p99 < 50 ms", "p99_ms", True, 50),
        ("p50<=1.5s", "p50_ms", True, 1500),
        ("p90 < 200 us", "p90_ms", True, 0.2),
        ("throughput > 100 /s", "rows_per_s", False, 100),
        ("throughput>=1e3/s", "rows_per_s", False, 1000),
        ("memory < 2 GiB", "memory_bytes", True, 2**31),
    ],
)
def test_limits_are_read(text, field, is_upper, value):
    limit = read_limit(text)
    assert (limit.field, limit.is_upper) == (field, is_upper)
    assert limit.value == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "can't be read"),
        ("p99 50 ms", "can't be read"),
        ("p99 < fifty ms", "can't be read"),
        ("p99 < 50", "can't be read"),
        ("p95 < 5 ms", "names 'p95'"),
        ("p99 < 5 GB", "no unit of p99: ms"),
        ("p99 > 5 ms", "asks for the least p99"),
        ("throughput < 5 /s", "asks for the most throughput"),
        ("p99 < 1.2.3 ms", "no number"),
    ],
)
def test_what_is_no_limit_is_refused(text, why):
    with pytest.raises(LimitError, match=why):
        read_limit(text)


@given(st.text(max_size=20))
def test_any_text_is_a_limit_or_refused(text):
    try:
        read_limit(text)
    except LimitError as error:
        assert "\n" not in str(error)


def test_of_equal_throughputs_the_sooner_answer_wins():
    slow, soon, worse = measured(100, 8), measured(99, 2), measured(90, 1)
    assert best([slow, soon, worse], "throughput") == soon
    assert best([slow, soon, worse], "latency") == worse


def test_limits_rule_settings_out():
    fast, small = measured(100, 80, memory=50), measured(60, 20, memory=10)
    assert best([fast, small], "throughput") == fast
    assert best([fast, small], "throughput", [read_limit("p99 < 50 ms")]) == small
    assert best([fast, small], "latency", [read_limit("throughput > 80 /s")]) == fast
    assert best([fast, small], "throughput", [read_limit("memory < 5 B")]) is None


@given(st.integers(1, 12), st.sets(st.integers(1, 64), min_size=1, max_size=3))
def test_the_grid_keeps_to_the_cores(cores, batches):
    settings = list(grid(cores, sorted(batches)))
    assert len(set(settings)) == len(settings)
    wanted = {
        (i, t, b)
        for i in range(1, cores + 1)
        for t in range(1, cores + 1)
        for b in batches
        if i * t <= cores
    }
    assert {(s.instances, s.threads, s.batch) for s in settings} == wanted


def test_batches():
    assert batch_ladder(True, 1, 12) == (1, 2, 4, 8, 12)
    assert batch_ladder(True, 1, 1) == (1,)
    assert batch_ladder(False, 7, 32) == (7,)


def test_rounds_are_summed_up():
    """Two instances of 2 and 4 ms a batch of 3; a round that was disturbed counts for little."""
    rounds = [[[2e6, 2e6], [4e6]], [[2e6], [4e6]], [[9e6], [9e6]]]
    summary = summarize(Setting(2, 1, 3), rounds, 7)
    assert summary.rows_per_s == pytest.approx(3 * (500 + 250))
    assert summary.p50_ms == 4 and summary.runs == 7 and summary.p99_ms <= 9
    assert measured_from_json(summary.to_json()) == summary
