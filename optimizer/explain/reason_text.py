"""Reasons laid out for people: of a model, of a plan, and of one node."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ..match.rewrite import Step
from ..report.notebook import Text
from ..rewrites.unproved import marked
from .reasons import COSTS_MORE, LEGAL, NOT_ALLOWED, SORTS, LayoutOption, NodeOption, Reason

if TYPE_CHECKING:
    from .explain_model import Explanation
    from .node_story import NodeStory

# Lines of a kind, places of a rule, near misses of one, nodes of a match: the JSON has them all.
SHOWN, SHOWN_PLACES, SHOWN_MISSES, SHOWN_NODES = 12, 4, 3, 4
WIDTH = 100


def explanation_text(explanation: Explanation) -> str:
    """Write what rules do to a model, by what came of them."""
    decided = "Decided by cost (tensolog optimize measures them)"
    parts = [
        _section("Fired", _places(explanation.fired)),
        _section(decided, _places(explanation.weighed)),
        _section("Nearly fired", _misses(explanation.near_misses)),
        *_idle(explanation),
        *(_section(f"Not applied: {why}", _names(of)) for why, of in _by_reason(explanation)),
        read_as(explanation.opset_in_file, explanation.opset),
    ]
    texts = [part for part in parts if part]
    return "\n\n".join(texts) if texts else "No rule has a place in this model."


def _idle(explanation: Explanation) -> Iterator[str]:
    idle = explanation.idle
    if explanation.reason:
        yield f"No place for {', '.join(idle)}: {explanation.reason}"
    elif idle:
        foreign = set(explanation.foreign)
        lines = _names([name for name in idle if name not in foreign])
        if foreign:
            lines.append(f"  {len(foreign)} more are about operators that the model has not")
        yield _section(f"No place for {len(idle)} rules (--rule NAME says why)", lines)


def _by_reason(explanation: Explanation) -> Iterable[tuple[str, list[str]]]:
    by_reason: dict[str, list[str]] = {}
    for name, why in explanation.barred.items():
        by_reason.setdefault(why, []).append(name)
    return by_reason.items()


def region_text(reason: Reason) -> str:
    """Say whether one kernel may compute two nodes, and what keeps them apart."""
    first, second = reason.nodes
    can = "may be" if reason.outcome == LEGAL else "can't be"
    head = f"{first} and {second} {can} in one region of {SORTS[reason.kernel]}: {reason.detail}"
    return "\n".join([head, *(f"  {line}" for line in reason.clauses)])


def read_as(opset_before: int, opset_after: int) -> str:
    """Say that a model was read in a newer operator set than its file's; nothing if it was not."""
    if opset_before == opset_after:
        return ""
    return (
        f"Operator set {opset_before} became {opset_after}, in which more rules apply: each node "
        "means there what it meant, or was written anew."
    )


def explain_text(
    plan: Sequence[Step], near: Sequence[Reason], verdict: str = "", raised: str = ""
) -> Text:
    """Say what an optimization applied, weighed and nearly fired; the verdict comes last."""
    accepted = [step for step in plan if step.accepted]
    refused = [step for step in plan if not step.accepted]
    parts = [
        _section("Applied", _places(accepted)),
        _section("Weighed and left", _places(refused)),
        _section("Nearly fired", _misses(near)),
        raised,
        verdict,
    ]
    return Text("\n\n".join(part for part in parts if part))


def story_text(story: NodeStory) -> str:
    """Write a story in sections; those with nothing in them are left out."""
    cost = f", {_cost(story.cost_ns, story.source)}" if story.cost_ns is not None else ""
    plan = ""
    if story.plan_ns is not None and story.own_ns is not None:
        plan = f"  the model {_time(story.own_ns)}, the cheapest plan {_time(story.plan_ns)}"
        plan += " by its kernels"
    head = f"{story.node} ({story.operator}{cost}): {story.fate}"
    parts = [
        "\n".join(filter(None, [head, plan])),
        _shortened("What was done to it", [_step_line(step) for step in story.steps]),
        _shortened("What can compute it", [_way_line(way) for way in story.ways]),
        _shortened("Layouts", _layout_lines(story)),
        _shortened("Rules that match here", [_match_line(match) for match in story.matches]),
        _shortened("Rules that don't", [_refusal_line(r) for r in story.refusals]),
        story.growth,
    ]
    return "\n\n".join(part for part in parts if part)


def _layout_lines(story: NodeStory) -> list[str]:
    if story.refusal:
        clause = [f"    {story.refusing_clause}"] if story.refusing_clause else []
        return [f"  it stays outside of blocks: {story.refusal}", *clause]
    return [line for option in story.layouts for line in _option_lines(option)]


def _shortened(title: str, lines: Sequence[str]) -> str:
    rest = len(lines) - SHOWN
    return _section(title, [*lines[:SHOWN], *([f"  and {rest} more"] if rest > 0 else [])])


def _step_line(step: Step) -> str:
    change = ""
    if step.cost_before_ns is not None and step.cost_after_ns is not None:
        change = f", {_time(step.cost_before_ns)} -> {_time(step.cost_after_ns)}"
    state = "" if step.accepted else "not taken: "
    return f"  {marked(step.rule)}: {state}{step.reason}{change}{_corrected(step.correction)}"


def _way_line(way: NodeOption) -> str:
    maker = f"by {marked(way.rule)}" if way.rule else "the model's own"
    cost = _cost(way.cost_ns, way.source) if way.cost_ns is not None else "no cost"
    mark = "* " if way.is_chosen else "  "
    return f"{mark}{way.operator} {maker}, {cost}{_more(way.more_ns, way.note, way.is_chosen)}"


def _option_lines(option: LayoutOption) -> list[str]:
    mark = "* " if option.is_chosen else "  "
    more = _more(option.more_ns, option.note, option.is_chosen)
    ways = [f"    {_way_line(way)}" for way in option.ways]
    return [f"{mark}{option.value} {option.layout}{more}", *ways]


def _match_line(match: Reason) -> str:
    where = f" at {_nodes(match.nodes)}{_corrected(match.correction)}"
    if match.outcome == COSTS_MORE:
        return (
            f"  {marked(match.rule)}: not taken{_more(match.more_ns, match.detail, False)}{where}"
        )
    detail = f": {match.detail}" if match.detail else ""
    return f"  {marked(match.rule)}: {match.outcome}{detail}{where}"


def _corrected(correction: str) -> str:
    """A line of its own for what makes a partial equivalence whole."""
    return f"\n    {correction}" if correction else ""


def _refusal_line(refusal: Reason) -> str:
    kind = "not allowed: " if refusal.outcome == NOT_ALLOWED else ""
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


# ------------------------------------------------------------------------------ lines


def _section(title: str, lines: Sequence[str]) -> str:
    return "\n".join([title, *lines]) if lines else ""


def _names(names: Sequence[str]) -> list[str]:
    """Names on lines that fit a terminal."""
    indent = "  "
    return textwrap.wrap(", ".join(names), WIDTH, initial_indent=indent, subsequent_indent=indent)


def _places(steps: Iterable[Step]) -> list[str]:
    by_rule: dict[tuple[str, str], list[Step]] = {}
    for step in steps:
        by_rule.setdefault((step.rule, step.reason), []).append(step)
    lines: list[str] = []
    for (rule, reason), matches in by_rule.items():
        # Operands that may be swapped match at the same nodes again, which is one place.
        places = Counter(step.nodes for step in matches)
        count = f" ({len(places)}x)" if len(places) > 1 else ""
        lines.append(f"  {marked(rule)}{count}: {reason}{_corrected(matches[0].correction)}")
        for nodes, ways in list(places.items())[:SHOWN_PLACES]:
            if nodes:
                lines.append(f"    at {_nodes(nodes)}{f', in {ways} ways' if ways > 1 else ''}")
        if len(places) > SHOWN_PLACES:
            lines.append(f"    and at {len(places) - SHOWN_PLACES} more places")
    return lines


def _misses(near: Sequence[Reason]) -> list[str]:
    by_rule: dict[str, list[Reason]] = {}
    for miss in near:
        by_rule.setdefault(miss.rule, []).append(miss)
    lines: list[str] = []
    for rule, rule_misses in by_rule.items():
        lines.append(
            f"  {rule}: {len(rule_misses)} near miss{'es' if len(rule_misses) > 1 else ''}"
        )
        lines += [f"    {miss.detail}" for miss in rule_misses[:SHOWN_MISSES]]
        if len(rule_misses) > SHOWN_MISSES:
            lines.append(f"    and {len(rule_misses) - SHOWN_MISSES} more")
    return lines


def _nodes(names: Sequence[str]) -> str:
    rest = len(names) - SHOWN_NODES
    return ", ".join(names[:SHOWN_NODES]) + (f" and {rest} more" if rest > 0 else "")
