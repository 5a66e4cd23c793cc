"""How one node of the model stands as to layouts: where its values could lie, and at what cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import resources

from ...catalog.datalog.memory.program_cache import shipped_program
from ...catalog.datalog.memory.why import Reasons
from ...rules import Rule
from .. import layouts
from ..egraph.egraph import EGraph
from ..egraph.extraction.e_node_costs import Costs
from ..egraph.extraction.problem import Problem, Selection
from ..egraph.plan_steps import name_of
from ..egraph.saturation.saturate import Growth
from ..layouts.blocking import Blocking
from ..layouts.runtime import block_size
from ..layouts.selection import cheapest_choices
from ..layouts.space import Space, space_of
from ..layouts.values import ENTER, ENTER_LAST, LEAVE, LEAVE_LAST
from .node_options import Asker
from .reasons import LayoutOption, NodeOptions

OUTSIDE = "outside of blocks"
ENTERING, LEAVING = (ENTER, ENTER_LAST), (LEAVE, LEAVE_LAST)


def options_in_layouts(
    egraph: EGraph, growth: Growth, costs: Costs, number: int, rules: Sequence[Rule]
) -> NodeOptions | None:
    """Ask an e-graph about the model's node of a number, its values in any layout.

    The e-graph grows by its blocked classes, and by what those of `rules` make that bring more into
    blocks. None where nothing would lie in blocks.
    """
    space = space_of(egraph, costs, block_size(), rules=rules)
    if space is None:
        return None
    asker = Asker(egraph, growth.applications, costs, space.price, space.first)
    made_by = egraph.made_by
    laid = {
        node
        for application in space.blocking.values.applications
        for node in application.target_nodes
    }
    converted = [made_by[node].nodes for node in sorted(asker.taken & laid)]
    asker.taken |= {node for nodes in converted for node in nodes}
    node, names = asker.named(number)
    layout_options = []
    for plain, name in names.items():
        forms = [(layout, c) for p, layout, c in space.blocking.values.every() if p == plain]
        if forms:
            layout_options.append(_layout_option(space, asker, plain, name, OUTSIDE, LEAVING))
        layout_options += [
            _layout_option(space, asker, c, name, f"as {layout.name}", ENTERING)
            for layout, c in forms
        ]
    refusal = space.blocking.unconverted().get(node, "")
    clause = refusing_clause(space.blocking, node, refusal)
    converted_nodes = next((nodes for nodes in converted if node in nodes), ())
    beside = tuple(name_of(egraph, other) for other in converted_nodes)
    options = asker.answer(number)
    options = replace(options, layout_options=layout_options, beside=beside)
    return replace(options, refusal=refusal, refusing_clause=clause)


def refusing_clause(blocking: Blocking, node: int, refusal: str) -> str:
    """Return the clause of layouts.dl that says why an e-node is computed in no layout of blocks.

    Empty where none does: that parts of channels don't fit is seen when they are laid out.
    """
    row = (node, refusal)
    if row not in blocking.derived.get("refused", ()):
        return ""
    program = shipped_program(resources.files(layouts) / "layouts.dl")
    return Reasons(program, blocking.derived).why("refused", row).clause


def _layout_option(
    space: Space, asker: Asker, class_: int, name: str, layout: str, reorders: Sequence[str]
) -> LayoutOption:
    """Ask about one layout; what `reorders` make brings a value there, and doesn't compute it."""
    made_by = space.egraph.made_by
    offered = asker.problem.choices.get(class_, ())
    computing = [
        c for c in offered if c.node not in made_by or made_by[c.node].rule not in reorders
    ]
    chosen = asker.best.selection.get(class_)
    is_chosen = chosen is not None and chosen in computing
    more: float | None = 0.0 if is_chosen else None
    note = ""
    if not computing:
        note = "it can be brought there, not computed there"
    elif not is_chosen:
        problem = Problem({**asker.problem.choices, class_: tuple(computing)}, (class_,))
        rest: Selection = cheapest_choices(problem, space.blocking)
        more = asker.needing(class_, computing, rest) if class_ in rest else None
        note = "" if more is not None else "no plan: it would need its own result"
    ways = asker.alternatives(class_, name) if reorders == ENTERING else []
    return LayoutOption(name, layout, ways, is_chosen, more, note)
