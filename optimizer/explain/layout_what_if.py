"""How one node of the model stands as to layouts: where its values could lie, and at what cost."""

from __future__ import annotations

from dataclasses import dataclass

from ..egraph.egraph import EGraph
from ..egraph.extraction.costs import Costs
from ..egraph.extraction.problem import Problem, Selection
from ..egraph.saturation.saturate import Growth
from ..egraph.trace import name_of
from ..layouts.runtime import block_size
from ..layouts.selection import cheapest_ways
from ..layouts.space import Space, space_of
from ..layouts.values import ENTER, LEAVE
from .what_if import Asker, Standing, Way

OUTSIDE = "outside of blocks"


@dataclass(frozen=True)
class Laying:
    """A layout of a value: what gives the value there, and what the plan would take more.

    `ways` are left out for the value outside of blocks, where they are those of the node.
    `more_ns` is for computing the value in that layout, wherever else it is needed; None where it
    can't be, or nothing is known, and `note` says why. `is_chosen` says that the plan computes it
    there.
    """

    value: str
    layout: str
    ways: list[Way]
    is_chosen: bool
    more_ns: float | None
    note: str


@dataclass(frozen=True)
class LaidStanding:
    """How a node stands where values may lie in blocks; `refusal` says why it can't be there.

    `beside` names the nodes that the plan computes it in one with, in blocks; itself among them.
    """

    standing: Standing
    layings: list[Laying]
    beside: tuple[str, ...]
    refusal: str


def laid_standing(egraph: EGraph, growth: Growth, costs: Costs, number: int) -> LaidStanding | None:
    """Ask an e-graph about the model's node of a number, its values in any layout.

    The e-graph grows by its blocked classes. None where nothing would lie in blocks.
    """
    space = space_of(egraph, costs, block_size())
    if space is None:
        return None
    asker = Asker(egraph, growth.applications, costs, space.price, space.first)
    made_by = egraph.made_by
    laid = {made for one in space.blocking.values.applications for made in one.made}
    converted = [made_by[made].nodes for made in sorted(asker.taken & laid)]
    asker.taken |= {node for nodes in converted for node in nodes}
    node, names = asker.named(number)
    layings = []
    for plain, name in names.items():
        known = [(layout, c) for p, layout, c in space.blocking.values.every() if p == plain]
        if known:
            layings.append(_laying(space, asker, plain, name, OUTSIDE, LEAVE))
        layings += [_laying(space, asker, c, name, f"as {own.name}", ENTER) for own, c in known]
    refusal = space.blocking.unconverted().get(node, "")
    own = next((nodes for nodes in converted if node in nodes), ())
    beside = tuple(name_of(egraph, other) for other in own)
    return LaidStanding(asker.answer(number), layings, beside, refusal)


def _laying(
    space: Space, asker: Asker, class_: int, name: str, layout: str, reorder: str
) -> Laying:
    """Ask about one layout; what `reorder` makes brings a value there, and doesn't compute it."""
    made_by = space.egraph.made_by
    offered = asker.problem.choices.get(class_, ())
    computing = [c for c in offered if c.node not in made_by or made_by[c.node].rule != reorder]
    chosen = asker.best.selection.get(class_)
    is_chosen = chosen is not None and chosen in computing
    more: float | None = 0.0 if is_chosen else None
    note = ""
    if not computing:
        note = "it can be brought there, not computed there"
    elif not is_chosen:
        problem = Problem({**asker.problem.choices, class_: tuple(computing)}, (class_,))
        rest: Selection = cheapest_ways(problem, space.blocking)
        more = asker.needing(class_, computing, rest) if class_ in rest else None
        note = "" if more is not None else "no plan: it would need its own result"
    ways = asker.ways(class_, name) if reorder == ENTER else []
    return Laying(name, layout, ways, is_chosen, more, note)
