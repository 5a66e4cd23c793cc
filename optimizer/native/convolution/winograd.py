"""Minimal filtering: the exact matrices by which a tile of a convolution takes fewer products.

r outputs of a filter of k taps, of n = r + k - 1 inputs, take n products instead of r k:
y = A' [(G g) * (B' x)] (Winograd, Arithmetic complexity of computations, 1980, theorem on F(r, k)).
The matrices are those of interpolation at n - 1 points and infinity, transposed (Lavin and Gray,
Fast algorithms for convolutional neural networks, CVPR 2016); over two axes they act one after the
other. What rounding costs depends on the points alone (Barabasz and others, Error analysis and
improving the accuracy of Winograd convolution for deep neural networks, TOMS 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

Matrix = tuple[tuple[Fraction, ...], ...]
# Finite points by their number: of those tried, multiples of 1/4 mostly, where the error is least.
# Their powers are exact in binary, and opposite ones share half of the additions.
POINTS = {
    len(points): tuple(map(Fraction, points))
    for points in (
        ("0", "1"),
        ("0", "1", "-1"),
        ("0", "3/4", "-3/4", "2"),
        ("0", "3/4", "-3/4", "3/2", "-3/2"),
        ("0", "1/2", "-1/2", "1", "-1", "2"),
        ("0", "1/2", "-1/2", "1", "-1", "2", "-2"),
        ("0", "1/2", "-1/2", "3/4", "-3/4", "3/2", "-3/2", "5/2"),
        ("0", "1/2", "-1/2", "3/4", "-3/4", "5/4", "-5/4", "9/4", "-9/4"),
    )
}


@dataclass(frozen=True)
class Filtering:
    """F(outputs, taps) along one axis: `back` A' [r, n], `filters` G [n, k], `image` B' [n, n]."""

    outputs: int
    taps: int
    back: Matrix
    filters: Matrix
    image: Matrix

    @property
    def products(self) -> int:
        """The products that a tile takes, which is also how many inputs it reads."""
        return self.outputs + self.taps - 1


@cache
def filtering(outputs: int, taps: int) -> Filtering:
    """Return F(outputs, taps), proved by the identity that it has to satisfy.

    Raises ValueError where there are not as many points.
    """
    count = outputs + taps - 2
    if min(outputs, taps) == 1:
        result = _plain(outputs, taps)
    elif count in POINTS:
        result = _interpolated(outputs, taps, POINTS[count])
    else:
        raise ValueError(f"no {count} points to filter by")
    prove(result)
    return result


def prove(filtering: Filtering) -> None:
    """Raise ValueError unless sum_l back[i, l] filters[l, j] image[l, m] is m == i + j, exactly."""
    span = range(filtering.products)
    for i in range(filtering.outputs):
        for j in range(filtering.taps):
            for m in span:
                terms = (
                    filtering.back[i][k] * filtering.filters[k][j] * filtering.image[k][m]
                    for k in span
                )
                if sum(terms) != (m == i + j):
                    raise ValueError(
                        f"F({filtering.outputs}, {filtering.taps}) filters something else"
                    )


def transformed(weights: np.ndarray, rows: Filtering, columns: Filtering) -> np.ndarray:
    """Transform filters [..., rows.taps, columns.taps]; float64 [..., products, products]."""
    left, right = (
        np.array([[float(number) for number in row] for row in filtering.filters])
        for filtering in (rows, columns)
    )
    products: np.ndarray = left @ weights.astype(np.float64) @ right.T
    return products


def _interpolated(outputs: int, taps: int, points: Sequence[Fraction]) -> Filtering:
    unity, nothing = Fraction(1), Fraction(0)
    count = len(points) + 1
    differences = [_product(p - q for q in points if q != p) for p in points]
    back = [
        [p**i for p in points] + [unity if i == outputs - 1 else nothing] for i in range(outputs)
    ]
    filters = [[p**j / d for j in range(taps)] for p, d in zip(points, differences, strict=True)]
    filters.append([nothing] * (taps - 1) + [unity])
    image = [_polynomial([q for q in points if q != p], count) for p in points]
    image.append(_polynomial(points, count))
    return Filtering(outputs, taps, *map(_frozen, (back, filters, image)))


def _plain(outputs: int, taps: int) -> Filtering:
    """F(1, k) and F(r, 1), which save nothing: an axis that is left as it is."""
    unity, nothing = Fraction(1), Fraction(0)
    count = outputs + taps - 1
    unit = [[unity if i == j else nothing for j in range(count)] for i in range(count)]
    ones = [[unity] for _ in range(count)]
    back = unit if taps == 1 else [[unity] * count]
    return Filtering(outputs, taps, *map(_frozen, (back, ones if taps == 1 else unit, unit)))


def _polynomial(roots: Sequence[Fraction], size: int) -> list[Fraction]:
    """Return the coefficients of the product of (x - root), ascending, filled up with zeros."""
    coefficients = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *coefficients]
        coefficients = [
            a - root * b for a, b in zip(shifted, [*coefficients, Fraction(0)], strict=True)
        ]
    return [*coefficients, *([Fraction(0)] * (size - len(coefficients)))]


def _product(factors: object) -> Fraction:
    product = Fraction(1)
    for factor in factors:  # type: ignore[attr-defined]
        product *= factor
    return product


def _frozen(rows: Sequence[Sequence[Fraction]]) -> Matrix:
    return tuple(map(tuple, rows))
