"""What stands for a value in one call: an expression that waits, or the value once it is there.

A region reads values and numbers; `Record` holds them, in the order in which the call reached them,
and the expressions of the region name them by their places. `Places` has the Inputs of a function's
regions, the same for all of its calls.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

import numpy as np

from ..blocks.partitioned import Partitioned
from .expression import Expression, numbered, type_name

# So many kinds of values are known, and each at so many places; then all are forgotten.
_KINDS = 1024
_NUMBERS = 4096


class Kind:
    """What is known of a value without reading it; values that plans don't tell apart share one.

    `nnz` is that of the first such value: those of sparse ones count by powers of two.
    """

    __slots__ = ("dtype", "inputs", "layout", "nnz", "shape")

    def __init__(
        self, shape: tuple[int, ...], dtype: str, layout: str = "dense", nnz: int | None = None
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.layout = layout
        self.nnz = nnz
        self.inputs: dict[int, Expression] = {}

    def at(self, place: int) -> Expression:
        """Return the Input that stands for a value of this kind at a place."""
        found = self.inputs.get(place)
        if found is None:
            made = Expression("Input", (), self.shape, self.dtype, (), self.layout, self.nnz)
            made.place, made.steady = place, True
            found = self.inputs.setdefault(place, made)
        return found


class Places:
    """The kinds of values, and the numbers, that the regions of a function read."""

    __slots__ = ("_kinds", "_numbers")

    def __init__(self) -> None:
        self._kinds: dict[Hashable, Kind] = {}
        self._numbers: dict[tuple[int, str], Expression] = {}

    @property
    def full(self) -> bool:
        """Whether it knows so much that a new one should be begun."""
        return len(self._kinds) >= _KINDS or len(self._numbers) >= _NUMBERS

    def kind(self, value: Any) -> Kind:
        """Return what is known of an ndarray, a canonical sparse array, or one in blocks."""
        dtype = type_name(value.dtype) or value.dtype.name
        if type(value) is np.ndarray:
            return self._kind((value.shape, dtype), value.shape, dtype)
        cut = (value.axis, value.rows) if isinstance(value, Partitioned) else ()
        layout, nnz = "dense", None
        if isinstance(value, Partitioned):
            layout, nnz = value.layout, value.nnz
        elif hasattr(value, "tocsr"):
            layout, nnz = value.format, int(value.nnz)
        bucket = None if nnz is None else round(math.log2(nnz + 1))
        return self._kind(
            (value.shape, dtype, layout, bucket, cut), value.shape, dtype, layout, nnz
        )

    def _kind(
        self,
        key: Hashable,
        shape: tuple[int, ...],
        dtype: str,
        layout: str = "dense",
        nnz: int | None = None,
    ) -> Kind:
        found = self._kinds.get(key)
        if found is None:
            found = self._kinds.setdefault(key, Kind(shape, dtype, layout, nnz))
        return found

    def number(self, place: int, dtype: str) -> Expression:
        """Return the number at a place of those that a region reads, in a type."""
        found = self._numbers.get((place, dtype))
        if found is None:
            made = numbered(place, dtype)
            made.steady = True
            found = self._numbers.setdefault((place, dtype), made)
        return found


class Record:
    """The values and numbers that one region reads, by place; each object once."""

    __slots__ = ("_numbered", "_placed", "leaves", "numbers", "places")

    def __init__(self, places: Places) -> None:
        self.places = places
        self.leaves: list[Any] | dict[int, Any] = []
        self.numbers: list[Any] = []
        self._placed: dict[int, Expression] = {}
        self._numbered: dict[int, int] = {}

    def place(self, value: Any, kind: Kind) -> Expression:
        """Return the Input of a value: the next one, where the region didn't read it before."""
        found = self._placed.get(id(value))
        if found is None:
            found = self._placed[id(value)] = kind.at(len(self.leaves))
            assert isinstance(self.leaves, list)
            self.leaves.append(value)
        return found

    def number(self, value: Any) -> int:
        """Return the place of a number of Python's or NumPy's.

        Equal ones are told apart unless they are one object: which are depends on the way alone.
        """
        found = self._numbered.get(id(value))
        if found is None:
            found = self._numbered[id(value)] = len(self.numbers)
            self.numbers.append(value)
        return found

    def only(self, expression: Expression) -> Record:
        """Return a record that holds no more than an expression reads."""
        found = Record(self.places)
        found.numbers = self.numbers
        found.leaves = {place: self.leaves[place] for place in expression.reads()}
        return found


class Held:
    """A value that is there, or an expression that waits for it.

    `told` says its shape, type and layout: a Kind, or the expression. `expression` stands for it in
    the region number `epoch`. One that was left out of its region when that was computed, as nobody
    was to read it, has the region's record in `left`. `own` says that a sparse value's entries, if
    not its pattern, are in memory that nothing else has.
    """

    __slots__ = ("epoch", "expression", "left", "own", "told", "value")

    def __init__(self, expression: Expression, epoch: int) -> None:
        self.told: Expression | Kind = expression
        self.expression: Expression | None = expression
        self.epoch = epoch
        self.value: Any = None
        self.left: Record | None = None
        self.own = False

    def settle(self, value: Any, kind: Kind) -> None:
        """Have a value from now on."""
        self.value, self.told = value, kind
        self.expression, self.epoch, self.left, self.own = None, -1, None, False


def leaf(value: Any, places: Places) -> Held:
    """Return what holds a value that is there."""
    found = Held.__new__(Held)
    found.value, found.told = value, places.kind(value)
    found.expression, found.epoch, found.left, found.own = None, -1, None, False
    return found
