"""What is left of a reduction over all rows when the kernel's chunks are done."""

from __future__ import annotations

from dataclasses import dataclass

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
        if type(self.last) is not Read:
            whole = _value(self.last, whole)
        found: Array = np.array(whole, dtype=DTYPES[self.dtype])
        return found if found.shape == self.shape else found.reshape(self.shape)


_REDUCE = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def finish(program: Program, reduction: Reduction) -> Finish:
    """Return how a reduction ends; raise LoweringError where that isn't known."""
    node = program.nodes[reduction.node]
    if reduction.kind == "none":
        raise LoweringError("a reduction of nothing")
    with np.errstate(all="ignore"):
        _value(reduction.last, np.float64(1.0))
    return Finish(node.id, reduction.kind, reduction.last, node.shape, node.dtype)


def _value(term: Term, whole: Array) -> Array:
    match term:
        case Read("whole", _):
            return whole
        case int() | float():
            return np.float64(term)
        case Apply("sqrt", (operand,)):
            return np.sqrt(_value(operand, whole))
        case Apply("log", (operand,)):
            return np.log(_value(operand, whole))
        case Apply("/", (left, right)):
            return np.divide(_value(left, whole), _value(right, whole))
        case _:
            raise LoweringError(f"{term} after a reduction")
