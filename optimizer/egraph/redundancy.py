"""Whether a rule says nothing new: others lead from its left side to its right side.

A rule is drawn at some sizes, several times; both sides go into an e-graph, in which the others are
applied for some rounds. That the sides become one class at all of these draws says that the rule
holds by the others; where they don't, nothing is known, since the rounds are few. A search finds as
much by the others, but for what has equal operands, where a left side has fewer nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...rules import Rule
from ...rules.gate.onnx_models import SideModels, draw_sides
from .equalities import BUDGET, DRAWS, both_sides, derivation
from .saturation.saturate import Budget

# So many times as many are drawn, of which the largest stand: what a rule says of lists and ranks
# follows from less where a list has one item, or a tensor few dimensions.
_TIMES = 4
# Where sizes are tied, a draw may fail: it is tried anew so often.
_SEEDS = 8


@dataclass(frozen=True)
class Redundancy:
    """Whether others derive a rule: `derived` by these, `new` to them, or no `instance` drawn."""

    rule: str
    status: str
    derived_by: tuple[str, ...] = ()


def redundancy(
    rule: Rule, others: Sequence[Rule], *, draws: int = DRAWS, budget: Budget = BUDGET
) -> Redundancy:
    """Try to derive a rule by others, at so many draws of its sizes."""
    tried = (draw_sides(rule, _TIMES * draws, seed, "float32") for seed in range(_SEEDS))
    drawn: Sequence[SideModels] = next(filter(None, tried), ())
    drawn = sorted(drawn, key=_size, reverse=True)[:draws]
    other_rules = [other for other in others if other.name != rule.name]
    needed: dict[str, None] = {}
    for sides in drawn:
        by = derivation(*both_sides(sides), other_rules, budget)
        if by is None:
            return Redundancy(rule.name, "new")
        needed.update(dict.fromkeys(by))
    return Redundancy(rule.name, "derived" if drawn else "no instance", tuple(needed))


def _size(sides: SideModels) -> tuple[int, int]:
    """How many values the nodes of both sides read and give, and the operands' dimensions."""
    nodes = (*sides.source.graph.node, *sides.target.graph.node)
    values = sum(len(node.input) + len(node.output) for node in nodes)
    return values, sum(len(operand.shape) for operand in sides.operands)
