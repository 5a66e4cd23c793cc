"""What is reduced of a space of loops: axes side by side, wherever they lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ....catalog.operators.expand import Expansion
from ....catalog.terms.index_notation import Apply, Read, Reduce, Select, Term
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
    operand = expansion.inputs[0]
    reductions = [
        reduction
        for definition in (*expansion.locals, *expansion.outputs)
        for reduction in parts_of(definition.value)
        if isinstance(reduction, Reduce)
    ]
    return {
        axis
        for reduction in reductions
        for read in parts_of(reduction.body)
        if isinstance(read, Read) and operand is not None and read.tensor == operand.name
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
    for part in inside:
        yield from parts_of(part)
