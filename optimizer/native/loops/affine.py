"""Where a kernel reads: indices as linear functions of its loops.

What a specification says of an element (`X[i1, (i2 * 4 + i3) // 64]`) becomes, for each axis of the
tensor, a sum of loops times numbers; slices, transpositions, broadcasts and reshapes that split an
axis all do. Quotients and remainders are resolved by the loops' extents where these are known. An
index that is read itself, as of rows that a Gather picks, counts as a loop behind the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....catalog.terms.index_notation import Apply, Symbol, Term, Variable
from ...codegen.expressions import LoweringError

Extent = int | str
"""How often a loop runs: a number, or the name of a dimension."""


class SplitError(LoweringError):
    """A condition that holds in one part of a loop only: the loop has to be split at `position`."""

    def __init__(self, position: int) -> None:
        super().__init__(f"a condition changes at {position} of the innermost loop")
        self.position = position


@dataclass(frozen=True)
class Affine:
    """The sum of `terms`, each (loop, coefficient), ascending by loop, and of `offset`."""

    terms: tuple[tuple[int, int], ...] = ()
    offset: int = 0

    def __add__(self, other: Affine) -> Affine:
        """Add two indices."""
        total = dict(self.terms)
        for loop, coefficient in other.terms:
            total[loop] = total.get(loop, 0) + coefficient
        kept = tuple(sorted((loop, c) for loop, c in total.items() if c))
        return Affine(kept, self.offset + other.offset)

    def times(self, factor: int) -> Affine:
        """Multiply by a number."""
        if factor == 0:
            return Affine()
        return Affine(tuple((loop, c * factor) for loop, c in self.terms), self.offset * factor)

    def coefficient(self, loop: int) -> int:
        """Give the factor of a loop, 0 where it has none."""
        return dict(self.terms).get(loop, 0)

    @property
    def loops(self) -> frozenset[int]:
        """The loops that it depends on."""
        return frozenset(loop for loop, _ in self.terms)

    @property
    def single(self) -> int | None:
        """The loop that it is, and nothing else; None where it is more."""
        if self.offset == 0 and len(self.terms) == 1 and self.terms[0][1] == 1:
            return self.terms[0][0]
        return None


Map = tuple[Affine, ...]
"""The index of each axis of a tensor."""


def loops_of(place: Map) -> frozenset[int]:
    """Return the loops that a place depends on."""
    return frozenset(loop for index in place for loop in index.loops)


def loop(number: int) -> Affine:
    """Give the index that is a loop's own."""
    return Affine(((number, 1),))


def axis_by_axis(rank: int) -> Map:
    """Return the place that is read where the loop of each axis has its number."""
    return tuple(map(loop, range(rank)))


def axis_by_long_axis(shape: Sequence[Extent]) -> Map:
    """Return the place that is read where the axes of more than one element are loops in order."""
    numbers = iter(range(len(shape)))
    return tuple(Affine() if size == 1 else loop(next(numbers)) for size in shape)


@dataclass(frozen=True)
class Ranges:
    """The loops' extents, and the part [first, end) of the last loop that text is made for.

    `picked` are the sizes of the axes along which indices are read: these are numbered as if they
    were loops behind those of `extents`.
    """

    extents: tuple[Extent, ...]
    first: int = 0
    end: int | None = None
    picked: tuple[Extent, ...] = ()

    def bounds(self, index: Affine) -> tuple[int, int | None]:
        """Give the least and the greatest value; None where that isn't known."""
        low, high = index.offset, index.offset
        is_bounded = True
        for number, coefficient in index.terms:
            extent = (*self.extents, *self.picked)[number]
            first, last = 0, None if isinstance(extent, str) else extent - 1
            if number == len(self.extents) - 1:
                first, last = self.first, last if self.end is None else self.end - 1
            if coefficient < 0:
                raise LoweringError("an index that runs backwards")
            low += coefficient * first
            if last is None:
                is_bounded = False
            else:
                high += coefficient * last
        return low, high if is_bounded else None

    def compare(self, function: str, left: Affine, right: Affine) -> bool:
        """Decide a comparison of indices; raise SplitError where that takes parts of the loop."""
        difference = left + right.times(-1)
        if function in (">", ">="):
            return self.compare("<" if function == ">" else "<=", right, left)
        if function == "<=":
            return self.compare("<", left, right + Affine((), 1))
        if function != "<":
            raise LoweringError(f"a condition on indices: {function}")
        # difference < 0
        last = len(self.extents) - 1
        if not difference.terms:
            return difference.offset < 0
        if difference.terms != ((last, 1),):
            raise LoweringError("a condition on several indices")
        end_below = -difference.offset  # holds for the loop below it
        extent = self.extents[last]
        end = extent if self.end is None else self.end
        if end_below <= self.first:
            return False
        if not isinstance(end, str) and end_below >= end:
            return True
        if isinstance(end, str):
            raise LoweringError("a condition on an index whose extent is not known")
        raise SplitError(end_below)


def index_of(term: Term, indices: Mapping[Variable, Affine], ranges: Ranges) -> Affine:
    """Return an index term as a linear function of the loops; raise LoweringError."""
    match term:
        case bool():
            raise LoweringError("a truth value as an index")
        case int():
            return Affine((), term)
        case Variable():
            return indices[term]
        case Apply("+", (left, right)):
            return index_of(left, indices, ranges) + index_of(right, indices, ranges)
        case Apply("-", (left, right)):
            return index_of(left, indices, ranges) + index_of(right, indices, ranges).times(-1)
        case Apply("*", (left, int() as factor)) | Apply("*", (int() as factor, left)):
            return index_of(left, indices, ranges).times(factor)
        case Apply("//", (left, int() as divisor)) if divisor > 0:
            return _divided(index_of(left, indices, ranges), divisor, ranges)[0]
        case Apply("%", (left, int() as divisor)) if divisor > 0:
            return _divided(index_of(left, indices, ranges), divisor, ranges)[1]
        case Symbol(name):
            raise LoweringError(f"an index made of the dimension {name}")
        case _:
            raise LoweringError(f"{term} is no linear index")


def _divided(index: Affine, divisor: int, ranges: Ranges) -> tuple[Affine, Affine]:
    """Return quotient and remainder, where what doesn't divide stays below the divisor."""
    even = tuple((number, c // divisor) for number, c in index.terms if c % divisor == 0)
    quotient = Affine(even, index.offset // divisor)
    rest = Affine(
        tuple((number, c) for number, c in index.terms if c % divisor), index.offset % divisor
    )
    low, high = ranges.bounds(rest)
    if low < 0 or high is None or high >= divisor:
        raise LoweringError("a reshape that isn't known to split an axis evenly")
    return quotient, rest
