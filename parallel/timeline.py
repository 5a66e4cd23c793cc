"""What runs when, device by device: spans of time on lanes, and their picture as SVG.

simulation/spans.py makes a timeline of a simulated request. Loads nothing heavy: every deployment
that is read may have one.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

Unit = tuple[str, float]
"""A unit of time, and how many of it a second has."""
Kind = Literal["compute", "send", "join"]

_LEFT, _RIGHT, _TOP, _WIDTH = 130, 70, 64, 820
_LANE, _BAR = 34, 22
_LETTER, _SMALL = 6.6, 11
_STYLE = """
svg { background: #fff; color: #1c1e21; font: 12px system-ui, sans-serif; }
text { fill: currentColor; } .faint { opacity: .65; } .grid { stroke: currentColor; opacity: .15; }
.compute { fill: #2f6fb3; } .send { fill: #b8621b; } .join { fill: #6b7280; }
.late { opacity: .45; } .arrow { stroke: #b8621b; fill: none; }
rect { stroke: #fff; } text.inside { fill: #fff; }
@media (prefers-color-scheme: dark) {
  svg { background: #16181c; color: #e6e8eb; }
  .compute { fill: #5b9bdd; } .send { fill: #e0954f; } .join { fill: #9aa3af; }
  .arrow { stroke: #e0954f; } rect { stroke: #16181c; } text.inside { fill: #10141a; }
}
"""


@dataclass(frozen=True)
class Span:
    """What occupies a lane from `begin_s` on for a while.

    A transfer is off its wire at `free_s`, and has arrived on the lane `target` at `end_s`; others
    end when the lane is free, and have no target (-1).
    """

    lane: int
    kind: Kind
    what: str
    begin_s: float
    free_s: float
    end_s: float
    target: int = -1


@dataclass(frozen=True)
class Timeline:
    """Lanes, devices first and then wires, and what is on them in the order of its beginning."""

    lanes: tuple[str, ...]
    spans: tuple[Span, ...]

    @property
    def seconds(self) -> float:
        """Time until all is done."""
        return max((span.end_s for span in self.spans), default=0.0)

    def to_json(self) -> dict[str, Any]:
        """Give plain values, which `read_as` reads."""
        return asdict(self)

    def __post_init__(self) -> None:
        """Raise ValueError for a span of no time, or on a lane that there is not."""
        for span in self.spans:
            if not 0 <= span.lane < len(self.lanes) or not -1 <= span.target < len(self.lanes):
                raise ValueError(f"the timeline has no lane {span.lane} or {span.target}")
            if not 0 <= span.begin_s <= span.free_s <= span.end_s:
                raise ValueError(f"{span.what!r} ends before it begins")


# ------------------------------------------------------------------------------ the picture


def timeline_svg(timeline: Timeline, title: str) -> str:
    """Draw a timeline as SVG text, for light and dark pages; a bar's label is where it is pointed.

    The faint end of a transfer is its latency: the wire is free meanwhile.
    """
    total = timeline.seconds or 1.0
    unit = _unit(total)
    height = _TOP + _LANE * len(timeline.lanes) + 44
    whole = _LEFT + _WIDTH + _RIGHT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="{height}" '
        f'viewBox="0 0 {whole} {height}" role="img">',
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style>",
        f'<text x="{_LEFT}" y="22">{html.escape(title)}</text>',
        *_legend(),
        *_axis(total, unit, height),
    ]
    for number, name in enumerate(timeline.lanes):
        busy = sum(span.free_s - span.begin_s for span in timeline.spans if span.lane == number)
        middle = _TOP + _LANE * number + _LANE / 2 + 4
        lines += [
            f'<text x="{_LEFT - 8}" y="{middle}" text-anchor="end">{_clipped(name, 17)}</text>',
            f'<text x="{_LEFT + _WIDTH + 8}" y="{middle}" class="faint">{busy / total:.0%} busy'
            "</text>",
        ]
    scale = _WIDTH / total
    for span in timeline.spans:
        lines += _bar(span, scale, unit)
    return "\n".join([*lines, "</svg>", ""])


def _bar(span: Span, scale: float, unit: Unit) -> Iterator[str]:
    top = _TOP + _LANE * span.lane + (_LANE - _BAR) / 2
    left, middle, right = (
        _LEFT + scale * time_s for time_s in (span.begin_s, span.free_s, span.end_s)
    )
    name, times = unit
    when = f"{span.begin_s * times:.4g} to {span.end_s * times:.4g} {name}"
    about = html.escape(f"{span.what}: {when}", quote=False)
    yield f'<g class="{span.kind}"><title>{about}</title>'
    yield f'<rect x="{left:.2f}" y="{top}" width="{max(middle - left, 0.5):.2f}" height="{_BAR}"/>'
    if right - middle > 0.5:
        yield (
            f'<rect class="late" x="{middle:.2f}" y="{top}" width="{right - middle:.2f}" '
            f'height="{_BAR}"/>'
        )
    yield "</g>"
    if span.target >= 0:
        end = _TOP + _LANE * span.target + (_LANE + _BAR) / 2
        yield f'<path class="arrow" d="M{right:.2f} {top}V{end}m-3 5l3 -5l3 5"/>'
    letters = int((middle - left) / _LETTER) - 1
    if letters >= 4:
        yield (
            f'<text class="inside" x="{left + 4:.2f}" y="{top + 15}" font-size="{_SMALL}">'
            f"{_clipped(span.what, letters)}</text>"
        )


def _axis(total: float, unit: Unit, height: int) -> Iterator[str]:
    bottom = height - 40
    name, times = unit
    for tick in range(6):
        x = _LEFT + _WIDTH * tick / 5
        yield f'<path class="grid" d="M{x:.1f} {_TOP}V{bottom}"/>'
        yield (
            f'<text class="faint" x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">'
            f"{total * tick / 5 * times:.3g} {name}</text>"
        )


def _legend() -> Iterator[str]:
    x = _LEFT
    for kind, text in (
        ("compute", "computes"),
        ("send", "sends (faint: on its way)"),
        ("join", "joins or adds pieces"),
    ):
        yield f'<rect class="{kind}" x="{x}" y="36" width="12" height="12"/>'
        yield f'<text class="faint" x="{x + 18}" y="46">{text}</text>'
        x += 18 + int(_LETTER * len(text)) + 24


def _unit(total_s: float) -> Unit:
    """Choose the unit in which the whole has at least one before the point."""
    units = ("s", 1.0), ("ms", 1e3)
    return next((unit for unit in units if total_s * unit[1] >= 1), ("µs", 1e6))


def _clipped(text: str, letters: int) -> str:
    return html.escape(text if len(text) <= letters else f"{text[: letters - 1]}…", quote=False)
