"""Sizes as polynomials of free dimensions: what shapes are computed with.

A size is a number, or a name: that of a free dimension, or the text of a polynomial of such names
("2*batch*tokens + 1"), so that equal sizes have equal names. The lesser of a number and a size is
a name of its own, of which is known what it is the lesser of.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ....catalog.terms.polynomials import Polynomial
from ..loops.affine import Extent


@dataclass
class Sizes:
    """Arithmetic of sizes; a size that can't be told is None."""

    _polynomials: dict[str, Polynomial[str]] = field(default_factory=dict)
    _least: dict[str, tuple[int, str]] = field(default_factory=dict)
    _same: dict[str, Extent] = field(default_factory=dict)

    def add(self, first: Extent | None, other: Extent | None, factor: int = 1) -> Extent | None:
        """Return first + factor * other."""
        if first is None or other is None:
            return None
        return self._named(self._polynomial(first) + self._polynomial(other) * factor)

    def times(self, sizes: Iterable[Extent | None]) -> Extent | None:
        """Return the product of sizes, 1 of none."""
        product = _number(1)
        for size in sizes:
            if size is None:
                return None
            product = product * self._polynomial(size)
        return self._named(product)

    def divide(self, dividend: Extent | None, other: Extent | None) -> Extent | None:
        """Return the quotient of sizes where nothing is left over whatever the dimensions are."""
        if dividend is None or other is None:
            return None
        quotient, rest = self._polynomial(dividend).divided(self._polynomial(other))
        return None if other == 0 or rest.terms else self._named(quotient)

    def steps(self, size: Extent | None, stride: int) -> Extent | None:
        """Return how often a stride goes into a size whole."""
        if size is None or isinstance(size, int):
            return None if size is None else size // stride
        terms = self._polynomial(size).terms.items()
        whole = Polynomial({m: count // stride for m, count in terms if count // stride})
        rest = Polynomial({m: count % stride for m, count in terms if count % stride})
        dividend = self._named(rest)
        if isinstance(dividend, int):
            return self._named(whole)  # less than a stride is left
        return self.add(self._named(whole), f"floor(({dividend})/{stride})")

    def least(self, first: Extent, other: Extent) -> Extent | None:
        """Return the lesser of two sizes."""
        if first == other:
            return first
        if isinstance(first, int) and isinstance(other, int):
            return min(first, other)
        number, name = (first, other) if isinstance(first, int) else (other, first)
        if not isinstance(number, int) or not isinstance(name, str):
            return None
        text = f"min({number}, {name})"
        self._least[text] = (number, name)
        return self.resolved(text)

    def is_size(self, size: Extent | None) -> bool:
        """Tell whether it is none that could be negative."""
        return size is not None and min(self._polynomial(size).terms.values(), default=0) >= 0

    def broadcast(self, sizes: Iterable[Extent | None]) -> Extent | None:
        """Return what sizes along one axis give together, where they fit at all.

        Where a least of a number and a size fits that size, the two are the same from there on: the
        number is none of 1, and a model that runs has no other case.
        """
        extent: Extent | None = 1
        for size in sizes:
            if size == 1 or size == extent:
                continue
            if size is None:
                return None
            if extent == 1:
                extent = size
            elif isinstance(extent, int) or isinstance(size, int):
                extent = extent if isinstance(extent, int) else size
            else:
                together = self._together(str(extent), str(size))
                if together is None:
                    return None
                extent = together
        return extent

    def resolved(self, size: Extent) -> Extent:
        """Return the name that a size goes by: another one where it is the same as that."""
        while isinstance(size, str) and size in self._same:
            size = self._same[size]
        return size

    def _together(self, first: str, other: str) -> str | None:
        for small, whole in ((first, other), (other, first)):
            number, size = self._least.get(small, (1, ""))
            if number > 1 and size == whole:
                self._same[small] = whole
                return whole
        return None

    def _polynomial(self, size: Extent) -> Polynomial[str]:
        size = self.resolved(size)
        if isinstance(size, int):
            return _number(size)
        return self._polynomials.get(size) or Polynomial({(size,): 1})

    def _named(self, polynomial: Polynomial[str]) -> Extent:
        number = polynomial.number
        if number is not None:
            return number
        name = str(polynomial)
        if polynomial.unknown != name:
            self._polynomials[name] = polynomial
        return name


def _number(value: int) -> Polynomial[str]:
    return Polynomial({(): value} if value else {})
