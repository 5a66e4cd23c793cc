"""Sizes as polynomials of free dimensions: what shapes are computed with.

A size is a number, or a name: that of a free dimension, or the text of a polynomial of such names
("2*batch*tokens + 1"), so that equal sizes have equal names. The lesser of a number and a size is
a name of its own, of which is known what it is the lesser of.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..loops.affine import Extent

Monomial = tuple[str, ...]
Polynomial = dict[Monomial, int]


@dataclass
class Sizes:
    """Arithmetic of sizes; a size that can't be told is None."""

    _polynomials: dict[str, Polynomial] = field(default_factory=dict)
    _least: dict[str, tuple[int, str]] = field(default_factory=dict)
    _same: dict[str, Extent] = field(default_factory=dict)

    def add(self, first: Extent | None, other: Extent | None, factor: int = 1) -> Extent | None:
        """Return one + factor * other."""
        if first is None or other is None:
            return None
        total = dict(self._polynomial(first))
        for monomial, count in self._polynomial(other).items():
            total[monomial] = total.get(monomial, 0) + factor * count
        return self._named(total)

    def times(self, sizes: Iterable[Extent | None]) -> Extent | None:
        """Return the product of sizes, 1 of none."""
        total: Polynomial = {(): 1}
        for size in sizes:
            if size is None:
                return None
            product: Polynomial = {}
            for left, count in total.items():
                for right, times in self._polynomial(size).items():
                    monomial = tuple(sorted((*left, *right)))
                    product[monomial] = product.get(monomial, 0) + count * times
            total = product
        return self._named(total)

    def divide(self, dividend: Extent | None, other: Extent | None) -> Extent | None:
        """Return the quotient of sizes where nothing is left over whatever the dimensions are."""
        if dividend is None or other is None:
            return None
        divisor = self._polynomial(other)
        if len(divisor) != 1:
            return None
        ((below, count),) = divisor.items()
        quotient: Polynomial = {}
        for monomial, times in self._polynomial(dividend).items():
            factors = list(monomial)
            for name in below:
                if name not in factors:
                    return None
                factors.remove(name)
            if times % count:
                return None
            quotient[tuple(factors)] = times // count
        return self._named(quotient)

    def steps(self, size: Extent | None, stride: int) -> Extent | None:
        """Return how often a stride goes into a size whole."""
        if size is None or isinstance(size, int):
            return None if size is None else size // stride
        whole: Polynomial = {}
        rest: Polynomial = {}
        for monomial, count in self._polynomial(size).items():
            whole[monomial], rest[monomial] = divmod(count, stride)
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
        return size is not None and all(count >= 0 for count in self._polynomial(size).values())

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

    def _polynomial(self, size: Extent) -> Polynomial:
        size = self.resolved(size)
        if isinstance(size, int):
            return {(): size} if size else {}
        return self._polynomials.get(size, {(size,): 1})

    def _named(self, polynomial: Polynomial) -> Extent:
        kept = {monomial: count for monomial, count in sorted(polynomial.items()) if count}
        if not kept:
            return 0
        if list(kept) == [()]:
            return kept[()]
        texts = []
        for monomial, count in sorted(kept.items(), key=lambda entry: (not entry[0], entry[0])):
            factors = [*([str(count)] if count != 1 or not monomial else []), *monomial]
            texts.append("*".join(factors))
        name = " + ".join(texts)
        if list(kept) != [(name,)]:
            self._polynomials[name] = kept
        return name
