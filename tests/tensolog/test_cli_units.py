import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensolog.units import format_size, format_speedup, format_spread, format_time


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [
        (None, "–"),
        (0, "0 ns"),
        (12.4, "12 ns"),
        (999.4, "999 ns"),
        (999.6, "1.00 µs"),
        (12_345, "12.3 µs"),
        (999_400, "999 µs"),
        (999_600, "1.00 ms"),
        (1_234_567, "1.23 ms"),
        (9_996_000, "10.0 ms"),
        (99_960_000, "100 ms"),
        (2.5e9, "2.50 s"),
        (-1.5e6, "-1.50 ms"),
    ],
)
def test_times_have_readable_units(time_ns, text):
    assert format_time(time_ns) == text


@given(st.floats(min_value=1, max_value=1e12))
def test_times_keep_their_value(time_ns):
    number, unit = format_time(time_ns).split()
    scale = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}[unit]
    # Whole nanoseconds are the coarsest step: half a nanosecond off 1.5.
    assert float(number) * scale == pytest.approx(time_ns, rel=0.006, abs=0.51)
    assert float(number) < 1000 or unit == "s"


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (None, "–"),
        (1.0, "as fast"),
        (0.996, "as fast"),
        (0.5, "2.00x faster"),
        (1.25, "1.25x slower"),
    ],
)
def test_ratios(ratio, text):
    assert format_speedup(ratio) == text


def test_spread():
    assert format_spread(2e6, 3e4) == "2.00 ms ± 30.0 µs"
    assert format_spread(None, None) == "–"


def test_sizes_have_readable_units():
    assert [format_size(size) for size in (0, 999, 1000, 102_400_000, 1.5e9)] == [
        "0 B",
        "999 B",
        "1.00 kB",
        "102 MB",
        "1.50 GB",
    ]
