"""What is left of a reduction over all rows when the kernel's chunks are done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...catalog.operators.terms import Apply, Read, Term
from ..program.dag import Program
from .arrays import DTYPES, Array
from .cells import Reduction
from .scalar import LoweringError


@dataclass(frozen=True)
class Finish:
    """A reduction's chunks, made one: by `kind`, then `last` of that, in the node's shape."""

    node: int
    kind: str
    last: Term
    shape: tuple[int, ...]
    dtype: str

    def apply(self, partial: Array, count: int) -> Array:
        """Return the value from the chunks' along the first axis, of `count` elements in all.

        The caller turns NumPy's warnings off. Raises ValueError for the least or greatest of
        nothing, as NumPy does.
        """
        if self.kind in ("max", "min") and not count:
            raise ValueError("zero-size array to reduction operation which has no identity")
        whole = partial[0] if len(partial) == 1 else _REDUCE[self.kind].reduce(partial, axis=0)
        found: Array = np.array(self._last(whole), dtype=DTYPES[self.dtype])
        if found.shape != self.shape:
            found.shape = self.shape
        return found

    @cached_property
    def _last(self) -> Callable[[Array], Array]:
        return _function(self.last)


_REDUCE = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def finish(program: Program, reduction: Reduction) -> Finish:
    """Return how a reduction ends; raise LoweringError where that isn't known."""
    node = program.nodes[reduction.node]
    if reduction.kind == "none":
        raise LoweringError("a reduction of nothing")
    made = Finish(node.id, reduction.kind, reduction.last, node.shape, node.dtype)
    _ = made._last  # refused now, not when it runs
    return made


def _function(term: Term) -> Callable[[Array], Array]:
    """Return what a term makes of the reduced value."""
    match term:
        case Read("whole", _):
            return lambda whole: whole
        case int() | float():
            known = np.float64(term)
            return lambda _: known
        case Apply(("sqrt" | "log") as name, (operand,)):
            inner, function = _function(operand), getattr(np, name)
            return lambda whole: function(inner(whole))
        case Apply("/", (left, right)):
            over, under = _function(left), _function(right)
            return lambda whole: np.divide(over(whole), under(whole))
        case _:
            raise LoweringError(f"{term} after a reduction")
