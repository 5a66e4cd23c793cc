"""Regions that kernels could stand for as rows of the catalog: what became of each, and its bounds.

A bound is a node beside a region that no kernel may compute with it, and the clause that says so.
They are told of one region for each kernel: its others are like it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ...rules import ABSENT
from ..explain.reasons import SORTS
from ..explain.region_reason import RegionQuestions
from ..graph.graph import Graph
from ..native.kernel_selection import Fusing, RegionOutcome
from ..native.loops.kernel_region import Region
from ..race.contest import Plan

# Kernels whose regions' bounds are told, of each plan, and characters of what a region computes.
MOST_KERNELS, MOST_TEXT = 100, 4000


@dataclass(frozen=True)
class RegionBound:
    """A node beside a region, and the clause that keeps it out."""

    node: str
    literal: str
    clause: str
    reason: str


@dataclass(frozen=True)
class RegionRow:
    """A region, what became of it, and its bounds; `candidate` is the plan that it was found in."""

    candidate: str
    sort: str
    kernel: str
    computes: str
    nodes: tuple[str, ...]
    outcome: str
    reason: str
    cost_before_ns: float | None
    cost_after_ns: float | None
    bounds: tuple[RegionBound, ...]


def region_rows(fused: Iterable[Fusing], winner: Plan) -> list[RegionRow]:
    """Return a row for each region of the plans that kernels were looked for in."""
    return [
        row
        for fusion in fused
        for fusing in (fusion, *fusion.in_others)
        for row in _of(fusing, winner)
    ]


def _of(fusing: Fusing, winner: Plan) -> Iterator[RegionRow]:
    outcomes = list(fusing.outcomes(winner))
    first: dict[str, RegionOutcome] = {}
    for outcome in outcomes:
        first.setdefault(outcome.kernel.name, outcome)
    asked = [outcome.region for outcome in first.values() if outcome.region.sort in SORTS][
        :MOST_KERNELS
    ]
    bounds = _bounds(fusing.graph, asked) if asked else {}
    for outcome in outcomes:
        region, kernel = outcome.region, outcome.kernel
        is_first = first[kernel.name] is outcome
        yield RegionRow(
            fusing.base.name,
            region.sort,
            kernel.name,
            statements(fusing.graph, region.nodes),
            outcome.nodes,
            outcome.outcome,
            outcome.reason,
            outcome.cost_before_ns,
            outcome.cost_after_ns,
            bounds.get(region.nodes, ()) if is_first else (),
        )


def statements(graph: Graph, nodes: Sequence[int]) -> str:
    """Spell what nodes compute, a statement each, by the names of values."""
    lines = []
    for number in nodes:
        node = graph.nodes[number]
        attributes = graph.attributes(number)
        options = ", ".join(f"{name}={value!r}" for name, value in sorted(attributes.items()))
        read = ", ".join(graph.value_name(value) or "_" for value in node.inputs)
        outputs = ", ".join(graph.value_name(value) for value in node.outputs if value != ABSENT)
        lines.append(f"{outputs} = {node.operator}{f'<{options}>' if options else ''}({read})")
    text = "; ".join(lines)
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]} …"


def _bounds(
    graph: Graph, regions: Sequence[Region]
) -> dict[tuple[int, ...], tuple[RegionBound, ...]]:
    """Return the bounds of regions, by their nodes."""
    beside = {region.nodes: list(_beside(graph, region)) for region in regions}
    sinks = {n for pairs in beside.values() for pair in pairs for n in pair}
    questions = RegionQuestions(graph, sinks)
    bounds_of = {}
    for region in regions:
        bounds: dict[int, RegionBound] = {}
        for first, second in beside[region.nodes]:
            other = second if first in region.nodes else first
            why = questions.missing_row(first, second, region.sort)
            if why is not None and not why.holds and other not in bounds:
                bounds[other] = RegionBound(
                    graph.node_name(other), *questions.decisive(why), questions.sentence(why)
                )
        bounds_of[region.nodes] = tuple(bounds.values())
    return bounds_of


def _beside(graph: Graph, region: Region) -> Iterator[tuple[int, int]]:
    """Yield pairs of nodes, the second of which reads the first, and one is in a region."""
    inside = set(region.nodes)
    for number in region.nodes:
        for value in graph.nodes[number].reads:
            maker = graph.producer.get(value)
            if maker is not None and maker not in inside:
                yield maker, number
        for value in graph.nodes[number].outputs:
            for user in sorted(graph.users.get(value, set()) - inside):
                yield number, user
