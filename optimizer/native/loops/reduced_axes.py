"""What is reduced of a space of loops: axes side by side, wherever they lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ....catalog.operators.expand import Expansion
from ....catalog.operators.terms import Apply, Read, Reduce, Select, Term
from .affine import Extent


@dataclass(frozen=True)
class Rows:
    """What is reduced of a space: so many axes side by side, with others behind them."""

    reduced: int = 0
    behind: int = 0

    def __bool__(self) -> bool:
        """Tell whether anything is."""
        return self.reduced > 0


NO_ROWS = Rows()


def long_axes(shape: tuple[Extent, ...]) -> tuple[Extent, ...]:
    """Return the axes that have more than one element."""
    return tuple(size for size in shape if size != 1)


def folded_axes(expansion: Expansion) -> set[int]:
    """Return the axes of its first input that a reduction or a normalization folds."""
    given = expansion.inputs[0]
    reductions = [
        reduction
        for one in (*expansion.locals, *expansion.outputs)
        for reduction in parts_of(one.value)
        if isinstance(reduction, Reduce)
    ]
    return {
        axis
        for reduction in reductions
        for read in parts_of(reduction.body)
        if isinstance(read, Read) and given is not None and read.tensor == given.name
        for axis, index in enumerate(read.indices)
        if index in reduction.variables
    }


def parts_of(term: Term) -> Iterator[Term]:
    """Yield a term and those that it is made of, but for indices."""
    yield term
    match term:
        case Apply(_, arguments):
            inside = arguments
        case Select(condition, then, otherwise):
            inside = (condition, then, otherwise)
        case Reduce():
            inside = (term.body,)
        case _:
            return
    for one in inside:
        yield from parts_of(one)


def ones_in(shape: tuple[Extent, ...], space: tuple[Extent, ...]) -> Rows:
    """Return the axes of a space that a row has one element in; none for no such shape."""
    if len(shape) != len(space):
        return NO_ROWS
    missing = [axis for axis, size in enumerate(space) if size != 1 and shape[axis] == 1]
    if not missing:
        return NO_ROWS
    first, last = missing[0], missing[-1]
    if all(size == 1 for size in space[last + 1 :]):
        last = len(space) - 1
    rows = Rows(last + 1 - first, len(space) - 1 - last)
    return rows if is_row(shape, space, rows) else NO_ROWS


def is_row(shape: tuple[Extent, ...], space: tuple[Extent, ...], rows: Rows) -> bool:
    """Tell whether a shape has one element for each row of a space."""
    end = len(space) - rows.behind
    return shape == (*space[: end - rows.reduced], *([1] * rows.reduced), *space[end:])
