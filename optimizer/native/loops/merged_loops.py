"""The loops of a kernel: axes that lie side by side in all operands run as one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ...codegen.expressions import LoweringError
from .affine import Extent, Map


@dataclass(frozen=True)
class Groups:
    """Which merged loop each loop belongs to; the last group is the innermost loop."""

    of: tuple[int, ...]

    @property
    def count(self) -> int:
        """The number of merged loops."""
        return self.of[-1] + 1

    def loops(self, group: int) -> tuple[int, ...]:
        """Give the loops that one is merged of."""
        return tuple(number for number, loop_group in enumerate(self.of) if loop_group == group)


def merged(
    extents: Sequence[Extent],
    reduced: Collection[int],
    places: Iterable[tuple[Map, Sequence[Extent]]],
) -> Groups:
    """Merge neighbouring loops that no operand tells apart.

    `extents` are the loops', `places` where operands are read or written, with their sizes.
    The loops in `reduced` are side by side and stay apart from the others, and must be one.
    """
    operands = list(places)
    of = [0]
    for number in range(1, len(extents)):
        as_one = all(_as_one(place, sizes, number, extents[number]) for place, sizes in operands)
        divides = (number in reduced) != (number - 1 in reduced) or not as_one
        of.append(of[-1] + (1 if divides else 0))
    if len({of[number] for number in reduced}) > 1:
        raise LoweringError("a row that doesn't lie side by side")
    return Groups(tuple(of))


def _as_one(place: Map, sizes: Sequence[Extent], second: int, extent: Extent) -> bool:
    """Tell whether loops `second - 1` and `second` run along one piece of memory, or not at all.

    The second one must run along its whole axis: a slice from 0 on leaves a gap behind each row.
    """
    first = second - 1
    axes = [axis for axis, index in enumerate(place) if index.loops & {first, second}]
    if not axes:
        return True
    return (
        len(axes) == 2
        and all(size == 1 for size in sizes[axes[0] + 1 : axes[1]])
        and place[axes[0]].single == first
        and place[axes[1]].single == second
        and sizes[axes[1]] == extent
    )


def inner_step(place: Map, sizes: Sequence[int | str], inner: Sequence[int]) -> int:
    """Return how many elements a step of the innermost loop is apart; 0 where it stays.

    Raises LoweringError where that isn't known: the loop runs along another axis than the last.
    """
    last = inner[-1]
    using = [axis for axis, index in enumerate(place) if last in index.loops]
    if not using:
        return 0
    axis = using[-1]
    if len(using) > 1 or any(size != 1 for size in sizes[axis + 1 :]):
        raise LoweringError("an operand whose rows don't lie side by side")
    return place[axis].coefficient(last)
