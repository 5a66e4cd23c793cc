"""The story of a node, laid out for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..match.rewrite import Step
from ..unproved import marked
from .node_story import NodeStory, Refusal
from .what_if import Use, Way

if TYPE_CHECKING:
    from .layout_what_if import Laying

# Lines of a kind, and nodes of a match, in the text; the JSON has them all.
SHOWN, SHOWN_NODES = 12, 4


def text_of(story: NodeStory) -> str:
    """Write a story in sections; those with nothing in them are left out."""
    cost = f", {_cost(story.cost_ns, story.source)}" if story.cost_ns is not None else ""
    plan = ""
    if story.plan_ns is not None and story.own_ns is not None:
        plan = f"  the model {_time(story.own_ns)}, the cheapest plan {_time(story.plan_ns)}"
        plan += " by its kernels"
    head = f"{story.node} ({story.operator}{cost}): {story.fate}"
    parts = [
        "\n".join(filter(None, [head, plan])),
        _section("What was done to it", [_step_line(step) for step in story.steps]),
        _section("What can compute it", [_way_line(way) for way in story.ways]),
        _section("Layouts", _layout_lines(story)),
        _section("Rules that match here", [_use_line(use) for use in story.uses]),
        _section("Rules that don't", [_refusal_line(r) for r in story.refusals]),
        story.growth,
    ]
    return "\n\n".join(part for part in parts if part)


def _layout_lines(story: NodeStory) -> list[str]:
    if story.refusal:
        return [f"  it stays outside of blocks: {story.refusal}"]
    return [line for laying in story.layouts for line in _laying_lines(laying)]


def _section(title: str, lines: Sequence[str]) -> str:
    if not lines:
        return ""
    rest = len(lines) - SHOWN
    more = [f"  and {rest} more"] if rest > 0 else []
    return "\n".join([title, *lines[:SHOWN], *more])


def _step_line(step: Step) -> str:
    change = ""
    if step.cost_before_ns is not None and step.cost_after_ns is not None:
        change = f", {_time(step.cost_before_ns)} -> {_time(step.cost_after_ns)}"
    state = "" if step.accepted else "not taken: "
    return f"  {marked(step.rule)}: {state}{step.reason}{change}"


def _way_line(way: Way) -> str:
    maker = f"by {marked(way.rule)}" if way.rule else "the model's own"
    cost = _cost(way.cost_ns, way.source) if way.cost_ns is not None else "no cost"
    mark = "* " if way.is_chosen else "  "
    return f"{mark}{way.operator} {maker}, {cost}{_more(way.more_ns, way.note, way.is_chosen)}"


def _laying_lines(laying: Laying) -> list[str]:
    mark = "* " if laying.is_chosen else "  "
    more = _more(laying.more_ns, laying.note, laying.is_chosen)
    ways = [f"    {_way_line(way)}" for way in laying.ways]
    return [f"{mark}{laying.value} {laying.layout}{more}", *ways]


def _use_line(use: Use) -> str:
    rest = len(use.nodes) - SHOWN_NODES
    where = f" at {', '.join(use.nodes[:SHOWN_NODES])}" + (f" and {rest} more" * (rest > 0))
    if use.state == "costs more":
        return f"  {marked(use.rule)}: not taken{_more(use.more_ns, use.detail, False)}{where}"
    detail = f": {use.detail}" if use.detail else ""
    return f"  {marked(use.rule)}: {use.state}{detail}{where}"


def _refusal_line(refusal: Refusal) -> str:
    kind = "not allowed: " if refusal.kind == "not allowed" else ""
    return f"  {refusal.rule}: {kind}{refusal.detail}"


def _more(more_ns: float | None, note: str, chosen: bool) -> str:
    if chosen:
        return ": in the plan"
    parts = [] if more_ns is None else [f"the plan would take {_time(more_ns)} more"]
    if more_ns is not None and more_ns <= 0:
        parts = ["no dearer, but no better"]
    return "".join(f": {part}" for part in (*parts, *([note] if note else [])))


def _cost(cost_ns: float | None, source: str) -> str:
    return f"{_time(cost_ns)}{'' if source == 'measured' else ' at least (not measured)'}"


def _time(cost_ns: float | None) -> str:
    return "?" if cost_ns is None else f"{cost_ns / 1000:.1f} µs"
