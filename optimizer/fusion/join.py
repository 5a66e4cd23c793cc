"""MultiAgg: full aggregates over the same cells in one pass over their inputs.

Joining never costs more: what is written adds up, what is read or computed by several counts
once, and the time of a pass is convex in both. So all are joined that may be: of one space and
driver, connected by inputs that they share, and none an input of another's inputs.
"""

from __future__ import annotations

from collections.abc import Sequence

from .plan import FusedOperator
from .price import Prices


def join(prices: Prices, summaries: Sequence[object]) -> list[FusedOperator]:
    """Join full aggregates of Cell operators where that is possible."""
    given = [one for one in summaries if isinstance(one, FusedOperator)]
    levels = _levels(prices, given)
    classes: dict[object, list[FusedOperator]] = {}
    for one in given:
        driver = one.driver if one.sparse else None
        shape = _shape(prices, one)
        classes.setdefault((levels[one.outputs[0]], shape, driver), []).append(one)
    found: list[FusedOperator] = []
    for members in classes.values():
        for group in _connected(prices, members):
            found.append(group[0] if len(group) == 1 else _joined(prices, group))
    return found


def _shape(prices: Prices, one: FusedOperator) -> tuple[int, ...]:
    graph = prices.graph
    return graph.nodes[graph.operands[one.outputs[0]][0].node].shape


def _levels(prices: Prices, summaries: Sequence[FusedOperator]) -> dict[int, int]:
    """Number the aggregates such that what one depends on, directly or not, has a lower number.

    Joining within a number only can't make operators wait for each other.
    """
    levels: dict[int, int] = {}
    roots = sorted(one.outputs[0] for one in summaries)
    for root in roots:
        ancestors = prices.graph.ancestors[root]
        before = [levels[one] for one in levels if ancestors >> one & 1]
        levels[root] = 1 + max(before, default=0)
    return levels


def _connected(prices: Prices, members: Sequence[FusedOperator]) -> list[list[FusedOperator]]:
    """Group operators that share an input of more than one cell, directly or through others."""
    groups: list[tuple[set[int], list[FusedOperator]]] = []
    for one in members:
        inputs = {read for read in one.inputs if prices.graph.nodes[read].size > 1}
        held = [one]
        apart = []
        for others, group in groups:
            if others & inputs:
                inputs |= others
                held = [*group, *held]
            else:
                apart.append((others, group))
        groups = [*apart, (inputs, held)]
    return [group for _, group in groups]


def _joined(prices: Prices, group: Sequence[FusedOperator]) -> FusedOperator:
    nodes = tuple(sorted({node for one in group for node in one.nodes}))
    # What one of them holds and another reads is at hand, and need not be read.
    reads = dict.fromkeys(read for one in group for read in one.inputs)
    inputs = tuple(read for read in reads if read not in nodes)
    first = group[0]
    drivers = [one.driver for one in group if one.driver in inputs]
    operator = FusedOperator(
        "MultiAgg",
        nodes,
        inputs,
        tuple(sorted(one.outputs[0] for one in group)),
        first.space,
        "full",
        drivers[0] if drivers else None,
        first.sparse,
    )
    return prices.price(operator, nodes)
