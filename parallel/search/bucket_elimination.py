"""The least sum of costs that name a few variables each: variables are eliminated one by one.

Of the costs that name a variable a table of its neighbours is made, with the least sum for each of
their combinations (bucket elimination, Dechter 1999; for plans over devices PaSE, Elango, IPDPS
2021). On series-parallel graphs tables stay narrow, and the result is exact. Where one would be too
large its costs are divided among several tables, as if the variable could have another value in
each: the sum is then a bound that no assignment is below, and what is chosen a good one
(mini-buckets, Dechter and Rish, Journal of the ACM 50, 2003).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Costs = npt.NDArray[np.float64]
Factor = tuple[tuple[int, ...], Costs]
"""Variables, and what each combination of their values costs; infinite where there is none."""

# Entries of a table.
MOST_ENTRIES = 4_000_000


@dataclass(frozen=True)
class Assignment:
    """A value for each variable, what that costs, and what no assignment is below."""

    values: dict[int, int]
    cost: float
    bound: float


def eliminate(
    factors: Sequence[Factor], sizes: Mapping[int, int], most_entries: int = MOST_ENTRIES
) -> Assignment:
    """Return an assignment of little cost, variables having values 0 to sizes[v] - 1.

    The least, where no table has more than `most_entries`. The cost may be infinite where one has.
    """
    tables = dict(enumerate(factors))
    naming: dict[int, set[int]] = {v: set() for v in sizes}
    for key, (scope, _) in tables.items():
        for v in scope:
            naming[v].add(key)
    fresh, bound = len(tables), 0.0
    steps: list[tuple[int, list[Factor]]] = []
    open_ = set(sizes)

    def neighbours(v: int) -> set[int]:
        return {u for key in naming[v] for u in tables[key][0]} - {v}

    def width(v: int) -> float:
        return math.prod(float(sizes[u]) for u in around[v])

    around = {v: neighbours(v) for v in open_}
    widths = {v: width(v) for v in open_}
    while open_:
        v = min(open_, key=lambda u: (widths[u], u))
        bucket = [tables[key] for key in sorted(naming[v])]
        steps.append((v, bucket))
        touched = around[v]
        for key in list(naming[v]):
            for u in tables[key][0]:
                naming[u].discard(key)
            del tables[key]
        for part in _narrow(bucket, v, sizes, most_entries):
            scope = tuple(sorted({u for scope_, _ in part for u in scope_} - {v}))
            least = _joined(part, (*scope, v), sizes).min(axis=-1)
            if not scope:
                bound += float(least)
                continue
            tables[fresh] = (scope, least)
            for u in scope:
                naming[u].add(fresh)
            fresh += 1
        open_.discard(v)
        for u in touched:
            around[u] = neighbours(u)
            widths[u] = width(u)
    values: dict[int, int] = {}
    for v, bucket in reversed(steps):
        total = np.zeros(sizes[v])
        for scope, table in bucket:
            total = total + table[tuple(slice(None) if u == v else values[u] for u in scope)]
        values[v] = int(total.argmin())
    cost = sum(float(table[tuple(values[u] for u in scope)]) for scope, table in factors)
    return Assignment(values, cost, min(bound, cost))


def _narrow(
    bucket: Sequence[Factor], v: int, sizes: Mapping[int, int], most_entries: int
) -> list[list[Factor]]:
    """Divide the costs that name a variable so that each part makes a table of few entries."""
    parts: list[tuple[set[int], list[Factor]]] = []
    for factor in sorted(bucket, key=lambda pair: -pair[1].size):
        for scope, part in parts:
            joined = scope | {*factor[0]}
            if joined == scope or math.prod(float(sizes[u]) for u in joined) <= most_entries:
                scope |= joined
                part.append(factor)
                break
        else:
            parts.append(({*factor[0], v}, [factor]))
    return [part for _, part in parts] or [[]]


def _joined(part: Sequence[Factor], whole: tuple[int, ...], sizes: Mapping[int, int]) -> Costs:
    tables = sorted((_spread(factor, whole) for factor in part), key=lambda array: array.size)
    start = np.zeros([1] * len(whole)) if tables else np.zeros([sizes[u] for u in whole])
    joined = functools.reduce(np.add, tables, start)
    return np.broadcast_to(joined, [sizes[u] for u in whole])


def _spread(factor: Factor, whole: tuple[int, ...]) -> Costs:
    """Give a table the axes of a wider one."""
    scope, table = factor
    order = sorted(range(len(scope)), key=lambda place: whole.index(scope[place]))
    inside = {whole.index(v) for v in scope}
    shape = iter(table.transpose(order).shape)
    shaped = [next(shape) if axis in inside else 1 for axis in range(len(whole))]
    return table.transpose(order).reshape(shaped)
