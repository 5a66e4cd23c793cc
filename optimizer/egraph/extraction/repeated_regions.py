"""Regions that are alike are decided once: models repeat their layers.

Two are alike if they are the same but for the numbers of their classes and e-nodes, in the same
order, with the same incumbent. What decide does depends on no more than that.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from .branch_and_bound import Decision, decide
from .problem import Choice, Selection
from .regions import Region


@dataclass
class Decisions:
    """The decisions of one extraction."""

    _memo: dict[Hashable, tuple[int, dict[int, int], Decision]] = field(default_factory=dict)

    def of(self, region: Region, incumbent: Mapping[int, Choice], steps: int) -> Decision:
        """Return what decide does, with no steps spent where a region alike is decided."""
        classes = {c: i for i, c in enumerate(sorted({*region.choices, *region.fixed}))}
        nodes = _places(region)
        form = _form(region, incumbent, classes, nodes)
        entry = self._memo.get(form)
        if entry is None or (entry[0] < steps and not entry[2].is_exact):
            decision = decide(region, incumbent, steps)
            selected = {
                classes[class_]: nodes[choice.node] for class_, choice in decision.selection.items()
            }
            self._memo[form] = steps, selected, decision
            return decision
        _, selected, decision = entry
        by_place = {i: class_ for class_, i in classes.items()}
        selection: dict[int, Choice] = {}
        for i, node in selected.items():
            offered = region.choices[by_place[i]]
            selection[by_place[i]] = next(
                choice for choice in offered if nodes[choice.node] == node
            )
        return Decision(selection, decision.cost, decision.bound, 0)


def _places(region: Region) -> dict[int, int]:
    chosen = {choice.node for offered in region.choices.values() for choice in offered}
    chosen.update(choice.node for choice in region.fixed.values())
    return {node: i for i, node in enumerate(sorted(chosen))}


def _form(
    region: Region, incumbent: Selection, classes: Mapping[int, int], nodes: Mapping[int, int]
) -> Hashable:
    """Return all that decide asks of a region, its classes and e-nodes numbered from 0."""

    def numbered(choice: Choice) -> Hashable:
        needs = tuple(classes[need] for need in choice.needs if need in classes)
        return nodes[choice.node], choice.cost, needs

    knots: dict[int, int] = {}
    return (
        tuple(classes[root] for root in region.roots),
        tuple((classes[c], tuple(map(numbered, offered))) for c, offered in region.choices.items()),
        tuple((classes[c], numbered(choice)) for c, choice in sorted(region.fixed.items())),
        tuple(
            (classes[c], knots.setdefault(knot, len(knots)))
            for c, knot in sorted(region.knot.items())
            if c in classes
        ),
        tuple((classes[c], nodes[choice.node]) for c, choice in incumbent.items()),
    )
