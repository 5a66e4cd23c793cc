"""Cuts: nodes whose storing makes a region fall into parts that can be planned on their own.

A stored node may still be computed again by an operator that reads it. Where that can't pay, all
operators read it, and none reaches across. It can't pay if what lies below the node, inputs
included, touches what lies above nowhere else, so that nothing there is at hand, and is nowhere
smaller than the node itself, so that to read any of it costs as much. Then 2^(a + b) plans become
2^a + 2^b. (The cut sets of PVLDB 2018, section 4.4; its reachability graph is over interesting
points only, and forgets inputs that both sides read.)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from .masks import members
from .region import Region


@dataclass(frozen=True)
class Cut:
    """A node to store, and the two sides: its own, and that of what reads it."""

    node: int
    below: frozenset[int]
    above: frozenset[int]


def best_cut(region: Region) -> Cut | None:
    """Return the cut that leaves the fewest plans, None where none leaves fewer."""
    best, least = None, float(2 ** len(region.candidates))
    for node in region.candidates:
        cut = _cut(region, node)
        if cut is None:
            continue
        inside = [sum(one in side for one in region.candidates) for side in (cut.below, cut.above)]
        inside[0] -= 1
        left = 2.0 ** (len(region.candidates) - 1) + sum(2.0**held for held in inside)
        if left < least:
            best, least = cut, left
    return best


def _cut(region: Region, node: int) -> Cut | None:
    below = _connected(region, node, node)
    above = [h for h in region.nodes if node in region.below[h]]
    if any(h in below for h in above):
        return None
    if not all(map(partial(_as_large, region, node), _met(region, below, node))):
        return None
    inside = frozenset(one for one in below if one in region.below)
    return Cut(node, inside, frozenset(region.nodes) - inside)


def _met(region: Region, below: set[int], node: int) -> set[int]:
    """Return what an operator could read to compute a node again: numbers alone don't do."""
    graph = region.graph
    found = {operand.node for h in below if h in region.below for operand in graph.operands[h]}
    return {one for one in (found | below) - {node} if graph.nodes[one].size > 1}


def _as_large(region: Region, node: int, one: int) -> bool:
    """Whether reading one node costs as much as reading another, however either is read."""
    read_s, held = region.minima.read_s, region.graph.bytes
    return read_s[one] >= read_s[node] and held[one] >= held[node]


def _connected(region: Region, start: int, cut: int) -> set[int]:
    """Return what is connected with a node's operands, inputs included, not through its readers."""
    graph = region.graph
    neighbours: dict[int, set[int]] = {}
    for h in region.nodes:
        for operand in graph.operands[h]:
            if operand.node == cut or graph.nodes[operand.node].op == "Constant":
                continue
            neighbours.setdefault(h, set()).add(operand.node)
            neighbours.setdefault(operand.node, set()).add(h)
    if region.joining:
        for a, b in graph.conditions.joins:
            if a not in region.below or b not in region.below:
                continue  # of another partition, or of another side
            neighbours.setdefault(a, set()).add(b)
            neighbours.setdefault(b, set()).add(a)
    found, waiting = {start}, [start]
    while waiting:
        for one in neighbours.get(waiting.pop(), ()):
            if one not in found:
                found.add(one)
                waiting.append(one)
    return found


def parts(region: Region, cut: Cut) -> tuple[Region, Region]:
    """Return the two sides as regions: in one the node is a root, in the other an input."""
    found = []
    for side in (cut.below, cut.above):
        edges = [(h, c) for h, c in region.edges if h in side and c in side]
        candidates = [one for one in region.candidates if one in side and one != cut.node]
        forced = [one for one in members(region.forced) if one in side]
        forced += [cut.node] if cut.node in side else []
        found.append(Region(region.prices, side, edges, candidates, forced, region.joining))
    return found[0], found[1]
