"""Numbers as people read them: times, sizes and ratios."""

from __future__ import annotations

TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"))


def format_time(time_ns: float | None) -> str:
    """Three digits and the fitting unit: 1234567 is "1.23 ms"; `None` is "–"."""
    if time_ns is None:
        return "–"
    for scale, unit in TIMES:
        # 999.6 µs is shown as 1.00 ms, not as 1000 µs.
        if abs(time_ns) >= scale * 0.9995:
            return f"{_three_digits(time_ns / scale)} {unit}"
    return f"{time_ns:.0f} ns"


def format_spread(median_ns: float | None, spread_ns: float | None) -> str:
    """A time and its spread: "1.23 ms ± 0.04 ms"."""
    if median_ns is None or spread_ns is None:
        return format_time(median_ns)
    return f"{format_time(median_ns)} ± {format_time(spread_ns)}"


def format_size(size_bytes: float) -> str:
    """Bytes in powers of 1000: "102 MB"."""
    for scale, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size_bytes >= scale * 0.9995:
            return f"{_three_digits(size_bytes / scale)} {unit}"
    return f"{size_bytes:.0f} B"


def format_speedup(ratio: float | None) -> str:
    """The speedup of a ratio, its time over the original's: 0.5 is "2.00x faster"."""
    if ratio is None or ratio <= 0:
        return "–"
    if abs(ratio - 1) < 0.005:
        return "as fast"
    return f"{1 / ratio:.2f}x faster" if ratio < 1 else f"{ratio:.2f}x slower"


def _three_digits(number: float) -> str:
    magnitude = abs(number)
    return f"{number:.{0 if magnitude >= 99.95 else 1 if magnitude >= 9.995 else 2}f}"
