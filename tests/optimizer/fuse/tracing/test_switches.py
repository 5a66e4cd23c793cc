"""What runs: kernels, or the function itself, where its user asks or a debugger watches."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from tensolog.optimizer.fuse.tracing.decorator import FuseError

from tensolog import fuse

X = np.random.default_rng(0).normal(size=(60, 40))


def spread(x: Any) -> Any:
    return (np.exp(x) * x).sum(axis=0)


def lines_of(called: Any) -> int:
    """Return how many lines of `spread` a tracer sees in a call."""
    seen = []

    def tracer(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code is spread.__code__:
            seen.append(event)
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        called(X)
    finally:
        sys.settrace(before)
    return seen.count("line")


def replayed() -> Any:
    fused = fuse(spread)
    for _ in range(3):
        np.testing.assert_allclose(fused(X), spread(X), rtol=1e-12)
    assert fused._replays
    return fused


def test_a_debugger_sees_the_lines_of_a_call_that_would_be_replayed() -> None:
    fused = replayed()
    assert lines_of(fused) == lines_of(spread) == 1
    assert "sys.gettrace" in fused.explain()
    fused(X)
    assert "run the region at once" in fused.explain()


def test_a_debugger_sees_no_call_where_kernels_are_asked_for() -> None:
    fused = fuse(mode="fused")(spread)
    for _ in range(3):
        fused(X)
    assert lines_of(fused) == 0


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with Python 3.12")
def test_a_tool_of_monitoring_is_seen() -> None:
    fused = replayed()
    sys.monitoring.use_tool_id(sys.monitoring.COVERAGE_ID, "a test")
    try:
        fused(X)
    finally:
        sys.monitoring.free_tool_id(sys.monitoring.COVERAGE_ID)
    assert "a test is active" in fused.explain()


@pytest.mark.parametrize("mode", ["plain", "traced"])
@pytest.mark.parametrize("by", ["argument", "environment"])
def test_a_switch_has_the_function_itself_run(
    mode: Any, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def function(x: Any) -> Any:
        calls.append(type(x) is np.ndarray)
        return spread(x)

    if by == "environment":
        monkeypatch.setenv("TENSOLOG_FUSE", mode)
    fused = fuse(function) if by == "environment" else fuse(mode=mode)(function)
    for _ in range(3):
        np.testing.assert_allclose(fused(X), spread(X), rtol=1e-12)
    assert calls == [mode == "plain"] * 3
    assert ("as it is" in fused.explain()) is (mode == "plain")


def test_traced_each_time_nothing_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    fused = replayed()
    monkeypatch.setenv("TENSOLOG_FUSE", "traced")
    fused(X)
    assert "run the region at once" not in fused.explain()


def test_the_environment_goes_before_the_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSOLOG_FUSE", " Plain ")
    fused = fuse(mode="fused")(spread)
    fused(X)
    assert "as it is" in fused.explain()


def test_a_mode_without_a_meaning_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FuseError, match="mode='fast' is none of auto, fused, traced, plain"):
        fuse(mode="fast")  # type: ignore[call-overload]
    monkeypatch.setenv("TENSOLOG_FUSE", "fast")
    with pytest.raises(FuseError, match="TENSOLOG_FUSE=fast is none of"):
        fuse(spread)(X)


def test_a_plain_function_within_a_fused_one_gets_real_arrays() -> None:
    seen = []

    @fuse(mode="plain")
    def inner(x: Any, both: Any) -> Any:
        x[0] = 7.0
        seen.extend([type(x), type(both[0])])
        return x * 2

    def outer(x: Any) -> Any:
        y = x + 1
        return inner(y, (y,)), y, y * 3

    for result, expected in zip(fuse(outer)(X), outer(X), strict=True):
        np.testing.assert_array_equal(result, expected)
    assert set(seen) == {np.ndarray}


@pytest.mark.parametrize(
    "text",
    ["memoryview(x * 2).tolist()", "[memoryview(one).nbytes for one in (x + 1, x.T.copy())]"],
)
def test_what_takes_memory_gets_it_and_is_fused(text: str) -> None:
    function = eval(f"lambda x: {text}")
    fused = fuse(function)
    for _ in range(2):
        assert fused(X) == function(X)
    assert "a generated kernel" in fused.explain()


def test_rows_are_shuffled_as_numpy_does() -> None:
    def function(x: Any) -> Any:
        np.random.default_rng(3).shuffle(x)
        return x * 2

    np.testing.assert_array_equal(fuse(function)(X.copy()), function(X.copy()))


def test_a_breakpoint_stops_in_each_call() -> None:
    program = (
        "import numpy as np, tensolog\n"
        "@tensolog.fuse\n"
        "def function(x):\n"
        "    y = np.exp(x)\n"
        "    breakpoint()\n"
        "    return y * 2\n"
        "for _ in range(3):\n"
        "    function(np.ones(3))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        input="p type(y)\ncontinue\n" * 3,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ran.stdout.count("<class 'numpy.ndarray'>") == 3
