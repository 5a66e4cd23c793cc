"""Matches applied to an e-graph: what the right sides make, level by level, and what is equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....rules import Match, Replacement, RuleError, correction, instantiate, promise
from ...deadline import checkpoint
from ...graph.graph import constant_of
from ...match.rewrite import attribute_proto
from ..congruence import NONE, Row
from ..egraph import EGraph
from ..interning import Attributes
from ..provenance import Application
from .egraph_view import View


@dataclass
class _Pending:
    """A replacement whose nodes are being made; `local` maps its names to classes."""

    application: Application
    replacement: Replacement
    local: dict[str, int]


def apply_matches(egraph: EGraph, matches: Sequence[Match]) -> list[Application]:
    """Add what matches lead to, all of a level at once, unite, and close under congruence.

    The types of the right side are inferred; a match whose right side is ill-typed, or has
    another type than its left, is refused.
    """
    view = View(egraph)
    pending: list[_Pending] = []
    applied: list[Application] = []
    for match in matches:
        checkpoint()
        application = Application(
            match.rule.name,
            tuple(match.nodes.values()),
            equal=promise(match.rule),
            summary=match.rule.summary,
            always=match.rule.tag == "always",
            correction=correction(match.rule),
            corrected=len(match.rule.correct),
        )
        applied.append(application)
        try:
            replacement = instantiate(match, view)
        except RuleError as error:
            application.refusal = str(error)
            continue
        pending.append(_Pending(application, replacement, {}))
    _make_constants(egraph, pending)
    level = 0
    while pending and any(level < len(p.replacement.nodes) for p in pending):
        _make_level(egraph, pending, level)
        level += 1
    for entry in pending:
        if not entry.application.refusal:
            _unite(egraph, entry)
    egraph.rebuild()
    return applied


def _make_constants(egraph: EGraph, pending: Sequence[_Pending]) -> None:
    """Literals become leaves; equal ones are one."""
    for place, entry in enumerate(pending):
        for name, array in entry.replacement.constants.items():
            identity = ("literal", egraph.columns.now, place, name)
            entry.local[name] = egraph.leaf(constant_of(array), identity)


def _make_level(egraph: EGraph, pending: Sequence[_Pending], level: int) -> None:
    """Make the nodes at one place of all replacements; what they read was made before."""
    rows: list[Row] = []
    owners: list[_Pending] = []
    for entry in pending:
        if entry.application.refusal or level >= len(entry.replacement.nodes):
            continue
        new = entry.replacement.nodes[level]
        protos = {
            name: attribute_proto(egraph.graph, new.domain, new.op_type, name, value)
            for name, value in new.attributes.items()
        }
        attributes = Attributes(protos, tuple(True for _ in new.outputs))
        operands = tuple(egraph.find(_resolve(entry, reference)) for reference in new.inputs)
        operator = egraph.vocabulary.operator(new.domain, new.op_type)
        rows.append((operator, egraph.vocabulary.attribute(attributes), operands))
        owners.append(entry)
    before = egraph.columns.size
    for entry, node in zip(owners, egraph.intern(rows), strict=True):
        new = entry.replacement.nodes[level]
        if node is None:
            entry.application.refusal = f"{entry.application.rule}: {new.op_type} is ill-typed"
            continue
        entry.local.update(zip(new.outputs, egraph.columns.outputs(node), strict=True))
        entry.application.target_nodes.append(node)
        if node >= before:
            egraph.made_by.setdefault(node, entry.application)


def _resolve(entry: _Pending, reference: int | str) -> int:
    if isinstance(reference, int):
        return reference
    return entry.local[reference] if reference else NONE


def _unite(egraph: EGraph, entry: _Pending) -> None:
    pairs = [(old, _resolve(entry, new)) for old, new in entry.replacement.outputs.items()]
    for old, new in pairs:
        if not egraph.are_compatible(old, new):
            entry.application.refusal = (
                f"{entry.application.rule}: the type would change from "
                f"{egraph.type(old)} to {egraph.type(new)}"
            )
            return
    entry.application.united = pairs
    old_classes = np.array([old for old, _ in pairs], np.int64)
    egraph.columns.union(old_classes, np.array([new for _, new in pairs], np.int64))
