"""Counterexamples made small: smaller sizes first, then zeros, then small integers.

The steps are those of hypothesis' shrinker for numbers and lists: each must keep a difference that
exact numbers confirm.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from ...prover.statement import Statement
from ..evaluation.arithmetic import Array, Assignment, NoValueError, Number, TooLargeError
from ..evaluation.exact import Exact
from .difference import Difference, differences
from .operand_values import assign

_REDRAWN = ("small", "positive", "zeros", "small", "small", "normal")
# No more elements than this are rounded one by one.
_ELEMENTWISE = 200


def minimize(
    statement: Statement,
    difference: Difference,
    seconds: float,
    arithmetic: Exact | None = None,
    counts: Callable[[Statement, Assignment], bool] = lambda *_: True,
) -> Difference:
    """A difference at numbers as small as the time allows, for which `counts` still holds."""
    until = time.thread_time() + seconds
    shrinker = _Shrinker(statement, difference, until, arithmetic or Exact(), counts)
    before: tuple[float, ...] = (math.inf,)
    while _weight(shrinker.best.assignment) < before and not shrinker.late():
        before = _weight(shrinker.best.assignment)
        shrinker.sizes()
        shrinker.arrays()
    return shrinker.best


class _Shrinker:
    def __init__(
        self,
        statement: Statement,
        best: Difference,
        until: float,
        arithmetic: Exact,
        counts: Callable[[Statement, Assignment], bool],
    ) -> None:
        self.statement, self.best, self.until = statement, best, until
        self.arithmetic, self.counts = arithmetic, counts
        self.kinds = {symbol.name: symbol.kind for symbol in statement.symbols}

    def late(self) -> bool:
        return time.thread_time() > self.until

    def accept(self, assignment: Assignment) -> bool:
        """Whether a difference of the same kind remains; it is the best then."""
        if any(
            self.kinds[name] == "dimension" and value < 0
            for name, value in assignment.symbols.items()
        ):
            return False
        try:
            for difference in differences(self.statement, assignment, self.arithmetic):
                if difference.kind == self.best.kind and self.counts(self.statement, assignment):
                    self.best = difference
                    return True
        except (NoValueError, TooLargeError):
            pass
        return False

    # ----------------------------------------------------------------------------- sizes

    def sizes(self) -> None:
        """Try each size at 1, 2, 3, half of it and one less, alone and with its equals.

        A size of 0 becomes 1 where it can: what has no elements shows less.
        """
        for name, value in list(self.best.assignment.symbols.items()):
            if self.kinds[name] == "dimension" and value == 0 and not self.late():
                symbols = dict(self.best.assignment.symbols) | {name: 1}
                any(self.accept(a) for a in self._resized(symbols))
        changed = True
        while changed and not self.late():
            changed = False
            for names in self._groups():
                now = self.best.assignment.symbols[names[0]]
                for value in _smaller(now, self.kinds[names[0]]):
                    if self.late():
                        return
                    symbols = dict(self.best.assignment.symbols) | dict.fromkeys(names, value)
                    if any(self.accept(a) for a in self._resized(symbols)):
                        changed = True
                        break

    def _groups(self) -> list[tuple[str, ...]]:
        """Symbols alone, then pairs of one value, which an assumption may keep equal."""
        symbols = self.best.assignment.symbols
        names = sorted(symbols, key=lambda name: -abs(float(symbols[name])))
        pairs = [
            (a, b)
            for i, a in enumerate(names)
            for b in names[i + 1 :]
            if symbols[a] == symbols[b] and len(names) <= 12
        ]
        alone: list[tuple[str, ...]] = [(name,) for name in names]
        return [*alone, *pairs]

    def _resized(self, symbols: dict[str, Number]) -> Iterator[Assignment]:
        """Arrays of the new sizes: cut off, or drawn anew."""
        rng = np.random.default_rng(1)
        old = self.best.assignment
        try:
            drawn = [assign(self.statement, symbols, f, rng) for f in _REDRAWN]
        except (NoValueError, MemoryError):
            return
        arrays = {n: _fitted(old.arrays[n], a.shape) for n, a in drawn[0].arrays.items()}
        if all(array is not None for array in arrays.values()):
            yield Assignment(symbols, {n: a for n, a in arrays.items() if a is not None})
        yield from drawn

    # ---------------------------------------------------------------------------- arrays

    def arrays(self) -> None:
        """Whole arrays as zeros or ones, then element by element."""
        for name, array in self.best.assignment.arrays.items():
            for fill in (0, 1):
                if not self.late() and self._replaced(name, np.full_like(array, fill)):
                    break
        for name in self.best.assignment.arrays:
            self._blocks(name)
        for name in self.best.assignment.arrays:
            self._elementwise(name)

    def _blocks(self, name: str) -> None:
        """Zero halves, quarters, and so on down to elements (as delta debugging does)."""
        size = self.best.assignment.arrays[name].size
        length = size // 2
        while length:
            for start in range(0, size, length):
                if self.late():
                    return
                flat = self.best.assignment.arrays[name].reshape(-1).copy()
                flat[start : start + length] = 0
                self._replaced(name, flat.reshape(self.best.assignment.arrays[name].shape))
            length //= 2

    def _elementwise(self, name: str) -> None:
        """Small integers in the place of what is left."""
        nonzero = np.argwhere(self.best.assignment.arrays[name] != 0)
        for place in map(tuple, nonzero[:_ELEMENTWISE].tolist()):
            for value in _rounder(self.best.assignment.arrays[name][place].item()):
                if self.late():
                    return
                changed = np.array(self.best.assignment.arrays[name])  # a scalar too
                changed[place] = value
                if self._replaced(name, changed):
                    break

    def _replaced(self, name: str, array: Array) -> bool:
        old = self.best.assignment
        new = replace(old, arrays={**old.arrays, name: array})
        return _weight(new) < _weight(old) and self.accept(new)


def _weight(assignment: Assignment) -> tuple[float, ...]:
    """How much a reader has to look at: sizes, elements that aren't 0, digits, magnitudes."""
    arrays = [array.astype(np.float64) for array in assignment.arrays.values()]
    return (
        sum(abs(float(value)) if value else 1.5 for value in assignment.symbols.values()),
        sum(float(np.count_nonzero(array)) for array in arrays),
        sum(float(np.count_nonzero(array != np.rint(array))) for array in arrays),
        sum(float(np.abs(array).sum()) for array in arrays),
        sum(float(np.count_nonzero(array < 0)) for array in arrays),
    )


def _smaller(value: Number, kind: str) -> list[Number]:
    if isinstance(value, Fraction | float):
        return [n for n in (0, 1, 2, -1) if n != value]
    size = int(value)
    # Not 0: where larger sizes show a difference too, they show more.
    tries = [0, 1, 2, 3, size // 2, size - 1] if size >= 0 else [0, 1, -1, size + 1]
    least = 1 if kind == "dimension" else 0
    return [n for n in dict.fromkeys(tries) if least <= abs(n) < abs(size)]


def _fitted(array: Array, shape: tuple[int, ...]) -> Array | None:
    """The corner of an array that has another shape; None where it lacks elements."""
    if any(size > extent for size, extent in zip(shape, array.shape, strict=True)):
        return None
    return array[tuple(slice(size) for size in shape)]


def _rounder(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return []
    tries = [1, -1, 2, round(value)]
    return [n for n in tries if abs(n) < abs(value) or (abs(n) == abs(value) and n > value)]
