"""Regions joined to one kernel, where a single pass over memory gives the results of several.

Planned or grown, a region ends in one result. Results of which none is computed from another, such
as two sums over the same rows, are then several kernels, and each reads these rows. Joined, what
both read is read once, and what one makes for the other isn't read at all. In the model of costs
that fused programs are planned with (PVLDB 11(12), 2018, section 4.3) an operator takes

    call + written / rate + max(read / rate, computed / rate):

over the same cells, a union is no dearer than its parts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import TypeVar

# Operands and results of a union at most: processors fetch ahead along about so many.
MOST_STREAMS = 16

Part = TypeVar("Part")
Pair = tuple[int, int]


def join(
    parts: Sequence[Part],
    touched: Callable[[Part], Iterable[int]],
    size: Callable[[int], float],
    union: Callable[[Part, Part, Sequence[Part]], Part | None],
) -> list[Part]:
    """Join two parts as long as any can be, those first that have most in common; return the rest.

    `touched` are the values that a part reads or gives, `size` says how large one is, 0 where it is
    nothing to have in common. `union` gives two parts as one beside the others, None where they
    can't be, or shouldn't.
    """
    joined = dict(enumerate(parts))
    refused: set[Pair] = set()
    for number in range(len(parts), 2 * len(parts)):
        common = _in_common(joined, touched, size)
        for pair in sorted(common, key=lambda pair: (-common[pair], pair)):
            if pair in refused:
                continue
            others = [part for key, part in joined.items() if key not in pair]
            whole = union(joined[pair[0]], joined[pair[1]], others)
            if whole is not None:
                break
            refused.add(pair)
        else:
            break
        for key in pair:
            del joined[key]
        joined[number] = whole
    return list(joined.values())


def _in_common(
    parts: Mapping[int, Part],
    touched: Callable[[Part], Iterable[int]],
    size: Callable[[int], float],
) -> dict[Pair, float]:
    """Return how much two parts both touch, by pairs."""
    touching: dict[int, list[int]] = defaultdict(list)
    for key, part in parts.items():
        for value in set(touched(part)):
            touching[value].append(key)
    common: dict[Pair, float] = defaultdict(float)
    for value, keys in touching.items():
        if len(keys) > 1 and (elements := size(value)):
            for pair in combinations(keys, 2):
                common[pair] += elements
    return common
