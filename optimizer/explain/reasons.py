"""The one model of reasons: why a rule was applied or a kernel made at a place, or why not.

Whatever looks for an answer gives reasons: the matcher (conditions that fail), the search for
parts of a pattern, the e-graph (what a plan would cost more), the options, and the clauses of
kernels' regions. `reason_text.py` lays them out for people, the methods of Reason as plain values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..report.schema import NearMiss

# What came of a match.
IN_PLAN, COSTS_MORE, NOT_MEASURED = "in the plan", "costs more", "not measured"
WITHOUT_USE, REFUSED = "without use", "refused"
# What keeps a rule from matching, or from being applied where it does.
CONDITION, PATTERN, NOT_ALLOWED = "condition", "pattern", "not allowed"
# Whether one kernel may compute some nodes.
LEGAL, ILLEGAL = "legal", "illegal"
# Sorts of kernels, and what their regions are of.
CELLS, PRODUCT, CONVOLUTION = "cells", "product", "convolution"
ATTENTION, ROWS = "attention", "rows"
SORTS: Mapping[str, str] = {
    CELLS: "cells",
    PRODUCT: "a product",
    CONVOLUTION: "a convolution",
    ATTENTION: "an attention",
    ROWS: "rows that are scattered",
}


@dataclass(frozen=True)
class Reason:
    """What came of a rule, or of a kernel, at a place, and why.

    `rule` is a name, empty where a `kernel` of a sort is spoken of. `nodes` are the names of those
    that the rule matched, or of the part of its pattern that is there, or those asked about.
    `outcome` is one of the words above. `condition`, in the rule's own words, is the one that
    fails. `more_ns` is what the cheapest plan would cost more with it, in nanoseconds.
    `correction` says of a partial equivalence where it differs, and what makes it whole. `clauses`
    are rows of Datalog that say so, the last one first.
    """

    rule: str
    nodes: tuple[str, ...]
    outcome: str
    detail: str
    more_ns: float | None = None
    condition: str = ""
    correction: str = ""
    kernel: str = ""
    clauses: tuple[str, ...] = ()

    def match_json(self) -> dict[str, object]:
        """Give what came of a match as plain values."""
        entry = {"rule": self.rule, "nodes": self.nodes, "state": self.outcome}
        correction = {"correction": self.correction} if self.correction else {}
        return {**entry, "detail": self.detail, "more_ns": self.more_ns, **correction}

    def refusal_json(self) -> dict[str, object]:
        """Give what kept the rule from a place as plain values."""
        entry = {"rule": self.rule, "nodes": self.nodes, "kind": self.outcome}
        return {**entry, "detail": self.detail}

    def near_miss_json(self) -> NearMiss:
        """Give the condition that alone failed as plain values, as reports have it."""
        return {
            "rule": self.rule,
            "nodes": list(self.nodes),
            "condition": self.condition,
            "detail": f"{self.rule}: {self.detail}",
        }

    def region_json(self) -> dict[str, object]:
        """Give whether one kernel may compute the nodes as plain values."""
        return {
            "nodes": list(self.nodes),
            "is_possible": self.outcome == LEGAL,
            "sort": self.kernel,
            "summary": self.detail,
            "clauses": list(self.clauses),
        }


@dataclass(frozen=True)
class NodeOption:
    """One e-node that gives a value of a node: its cost, and what the plan would cost more.

    `source` says whether the cost is measured or a bound; `more_ns` is None where that is not
    known, and `note` says why, or what is particular about it.
    """

    value: str
    operator: str
    rule: str
    cost_ns: float | None
    source: str
    more_ns: float | None
    is_chosen: bool
    note: str


@dataclass(frozen=True)
class LayoutOption:
    """A layout of a value: what gives the value there, and what the plan would take more.

    `ways` are left out for the value outside of blocks, where they are those of the node.
    `more_ns` is for computing the value in that layout, wherever else it is needed; None where it
    can't be, or nothing is known, and `note` says why. `is_chosen` says that the plan computes it
    there.
    """

    value: str
    layout: str
    ways: list[NodeOption]
    is_chosen: bool
    more_ns: float | None
    note: str


@dataclass(frozen=True)
class NodeOptions:
    """How a node stands in an e-graph: ways to compute it, matches at it, whether it is needed.

    `layout_options` are the layouts that its values could have, where the model can be laid out in
    blocks at all; `beside` names what the plan computes in one with it there, itself among it, and
    `refusal` says why it can't be there, by the `refusing_clause` of layouts.dl. Costs are those of
    plans, in nanoseconds.
    """

    ways: list[NodeOption]
    matches: list[Reason]
    is_needed: bool
    plan_ns: float
    own_ns: float
    layout_options: list[LayoutOption] = field(default_factory=list)
    beside: tuple[str, ...] = ()
    refusal: str = ""
    refusing_clause: str = ""
