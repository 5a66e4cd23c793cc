"""Rows of the match relations to matches, and the conditions that Datalog can't express."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..language.conditions import conditions
from ..language.repetition import item_name, own_sizes, pattern, repeated_lists, unrolled
from ..language.syntax import Rule
from .bindings import Bindings
from .compile import columns, remainder
from .view import GraphView, Match


def match_of(rule: Rule, row: tuple[int, ...]) -> Match:
    """One row of a match relation as a match of what the relation looks for."""
    nodes: dict[str, int] = {}
    values: dict[str, int] = {}
    dims: dict[str, int] = {}
    positions: dict[str, int] = {}
    for column, number in zip(columns(rule), row, strict=True):
        kind, _, name = column.partition("_")
        if kind == "n":
            nodes[name] = number
        elif kind == "v":
            values[name] = number
        elif kind == "p":
            node, _, side = name.rpartition("_")
            positions[f"{node}:{side}"] = number
        else:
            dims[name] = number
    return Match(pattern(rule), nodes, values, dims, positions)


def match_groups(rule: Rule, matches: Iterable[Match], view: GraphView) -> list[list[Match]]:
    """Matches at single nodes of a rule that gathers nodes, those together that it may gather.

    They fulfil the conditions by themselves, and agree in everything but the items of lists:
    operands, sizes, attributes.
    """
    lists = {*repeated_lists(rule), *(name for _, name in _literals_of(rule))}
    sizes_of_instances = own_sizes(rule)
    groups: dict[tuple[object, ...], list[Match]] = {}
    for match in matches:
        if check_conditions(match, view) is not None:
            continue
        bound = Bindings(match, view)
        shared = {name: value for name, value in match.values.items() if name not in lists}
        sizes = {
            name: value for name, value in bound.names.items() if name not in sizes_of_instances
        }
        groups.setdefault((repr(shared), repr(sizes), repr(bound.rests)), []).append(match)
    return list(groups.values())


def match_of_all(rule: Rule, matches: Sequence[Match]) -> Match:
    """Matches at single nodes as one match at all of them."""
    lists, literals = set(repeated_lists(rule)), _literals_of(rule)
    of_items = {*lists, *(name for _, name in literals)}
    nodes: dict[str, int] = {}
    values = {name: value for name, value in matches[0].values.items() if name not in of_items}
    for i, match in enumerate(matches):
        nodes |= {item_name(name, i): node for name, node in match.nodes.items()}
        values |= {item_name(name, i): match.values[name] for name in lists & set(match.values)}
        # as `unrolled` names them
        values |= {f"{item_name(node, i)}:{name}": match.values[name] for node, name in literals}
    return Match(unrolled(rule, len(matches)), nodes, values)


def _literals_of(rule: Rule) -> list[tuple[str, str]]:
    """Each node that is repeated, with the name of each of its literals."""
    return [
        (node.name, item.value)
        for node in rule.match
        if node.each
        for item in node.inputs
        if item.literal is not None and item.value is not None
    ]


def check_conditions(match: Match, view: GraphView) -> str | None:
    """Check what Datalog could not; None, or the first condition that fails with its values."""
    rule = match.rule
    remaining = remainder(rule) if rule.items is None else conditions(rule)
    if not remaining:
        return None
    bound = Bindings(match, view)
    return next((bound.explain(c) for c in remaining if not bound.holds(c)), None)
