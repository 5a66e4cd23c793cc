"""A plot of predicted against measured times, as SVG."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from .units import format_time

SIDE, MARGIN = 480, 64
_INSIDE, _OUTSIDE = "#2a6fb0", "#c0392b"


def scatter(points: Sequence[tuple[str, float, float, bool]], factor: float, title: str) -> str:
    """Draw points (label, measured, predicted, within the interval), times in ns, as SVG text.

    Both axes are logarithmic and alike; the band about the diagonal is the interval, a factor up
    and down. A point's label is what is shown where the pointer rests on it.
    """
    times = [value for _, measured, predicted, _ in points for value in (measured, predicted)]
    low = math.floor(math.log10(max(min(times, default=1.0), 1e-3)))
    high = max(math.ceil(math.log10(max(times, default=10.0))), low + 1)

    def place(time_ns: float) -> float:
        return MARGIN + SIDE * (math.log10(max(time_ns, 10.0**low)) - low) / (high - low)

    whole = SIDE + 2 * MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="{whole}" '
        f'viewBox="0 0 {whole} {whole}" font-family="sans-serif" font-size="12">',
        f'<text x="{whole / 2}" y="28" text-anchor="middle">{html.escape(title)}</text>',
        f'<clipPath id="frame"><rect x="{MARGIN}" y="{MARGIN}" width="{SIDE}" height="{SIDE}"/>'
        "</clipPath>",
    ]
    for power in range(low, high + 1):
        x, name = place(10.0**power), html.escape(format_time(10.0**power))
        up = whole - x
        lines += [
            f'<path d="M{x:.1f} {MARGIN}V{MARGIN + SIDE}M{MARGIN} {up:.1f}H{MARGIN + SIDE}" '
            'stroke="#ddd"/>',
            f'<text x="{x:.1f}" y="{MARGIN + SIDE + 18}" text-anchor="middle">{name}</text>',
            f'<text x="{MARGIN - 6}" y="{up + 4:.1f}" text-anchor="end">{name}</text>',
        ]
    wide = SIDE * math.log10(max(factor, 1.0)) / (high - low)
    first, last = MARGIN, MARGIN + SIDE
    lines += [
        f'<path d="M{first} {last - wide:.1f}L{last} {first - wide:.1f}V{first + wide:.1f}'
        f'L{first} {last + wide:.1f}Z" fill="{_INSIDE}" opacity="0.12" clip-path="url(#frame)"/>',
        f'<path d="M{first} {last}L{last} {first}" stroke="#888"/>',
        f'<text x="{whole / 2}" y="{whole - 18}" text-anchor="middle">measured</text>',
        f'<text x="18" y="{whole / 2}" text-anchor="middle" '
        f'transform="rotate(-90 18 {whole / 2})">predicted</text>',
    ]
    for label, measured, predicted, within in points:
        about = f"{label}: measured {format_time(measured)}, predicted {format_time(predicted)}"
        lines.append(
            f'<circle cx="{place(measured):.1f}" cy="{whole - place(predicted):.1f}" r="3.5" '
            f'fill="{_INSIDE if within else _OUTSIDE}" opacity="0.75">'
            f"<title>{html.escape(about)}</title></circle>"
        )
    return "\n".join([*lines, "</svg>", ""])
