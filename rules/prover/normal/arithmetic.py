"""Sums, products and reductions of normal forms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from ..solve.polynomials import Constraint, Polynomial, atom, variable, within
from .context import Context, UndecidedError, parameter
from .simplify import simplified
from .sums import Place, Product, Sum, combined, multiplied, substituted

# No statement of interest comes near; what does would run for minutes.
_MOST_PRODUCTS = 3000


def tidy(products: Iterable[Product], context: Context) -> list[Product]:
    """Return a sum with each product simplified and like ones joined."""
    kept = [simple for product in products if (simple := simplified(product, context)) is not None]
    if len(kept) > _MOST_PRODUCTS:
        raise UndecidedError(f"the normal form grows beyond {_MOST_PRODUCTS} products")
    return combined(kept)


def plus(left: Sum, right: Sum) -> list[Product]:
    """Return the sum of two sums."""
    return combined([*left, *right])


def times(left_sum: Sum, right_sum: Sum, context: Context) -> list[Product]:
    """Return the product of two sums."""
    if len(left_sum) * len(right_sum) > _MOST_PRODUCTS:
        raise UndecidedError(f"a product has {len(left_sum)} times {len(right_sum)} terms")
    context.deadline()
    products = []
    for left in left_sum:
        for right in right_sum:
            if set(left.bound) & set(right.bound):
                right = context.renamed(right)
            products.append(
                Product(
                    left.coefficient * right.coefficient,
                    (*left.bound, *right.bound),
                    (*left.guards, *right.guards),
                    multiplied([*left.factors.items(), *right.factors.items()]),
                )
            )
    return unfolded(tidy(products, context), context)


def power(whole: Sum, exponent: int, context: Context) -> list[Product]:
    """Return a power of a sum; the exponent is at least 0."""
    result = [Product(1)]
    for _ in range(exponent):
        result = times(result, whole, context)
    return result


def guarded(whole: Sum, guards: Sequence[Constraint], context: Context) -> list[Product]:
    """Return the sum where guards hold, and 0 elsewhere."""
    if not guards:
        return list(whole)
    return tidy(
        (Product(p.coefficient, p.bound, (*p.guards, *guards), p.factors) for p in whole), context
    )


def summed(
    whole: Sum, names: Sequence[str], guards: Sequence[Constraint], context: Context
) -> list[Product]:
    """Return the sum over indices, below their extents and where guards hold."""
    ranges = [part for name in names for part in within(variable(name), context.extents[name])]
    return unfolded(
        tidy(
            (
                Product(p.coefficient, (*p.bound, *names), (*p.guards, *ranges, *guards), p.factors)
                for p in whole
            ),
            context,
        ),
        context,
    )


def integer_sum(whole: Polynomial) -> list[Product]:
    """Return an integer as an element: a sum of products of its atoms."""
    products = []
    for monomial, coefficient in whole.terms.items():
        factors = []
        for part in monomial:
            inner = whole.opaque.get(part)
            index = variable(part) if inner is None else atom(inner)
            factors.append((Place("#INT", (index,)), Fraction(1)))
        products.append(Product(coefficient, (), (), multiplied(factors)))
    return products


def unfolded(whole: Sum, context: Context) -> list[Product]:
    """Return the sum with whole positive powers of interned sums written out."""
    if not any(_sum_power(product, context) for product in whole):
        return list(whole)
    products: list[Product] = []
    for product in whole:
        place = _sum_power(product, context)
        if place is None:
            products.append(product)
            continue
        factors = dict(product.factors)
        factors[place] -= 1
        rest = Product(product.coefficient, product.bound, product.guards, factors)
        inner = (
            integer_sum(place.indices[0]) if place.head == "#INT" else definition(place, context)
        )
        products += times([rest], inner, context)
    return combined(products)


def _sum_power(product: Product, context: Context) -> Place | None:
    for place, exponent in product.factors.items():
        if exponent.denominator == 1 and exponent >= 1:
            if place.head == "#INT" and not _one_atom(place.indices[0]):
                return place
            entry = context.interned.get(place.head)
            if entry is not None and entry.kind == "sum":
                return place
    return None


def _one_atom(whole: Polynomial) -> bool:
    if len(whole.terms) != 1:
        return False
    ((monomial, coefficient),) = whole.terms.items()
    return coefficient == 1 and len(monomial) == 1


def definition(place: Place, context: Context) -> list[Product]:
    """Return what an interned expression stands for at a place, with new bound indices."""
    entry = context.interned[place.head]
    arguments = {parameter(position): index for position, index in enumerate(place.indices)}
    return substituted([context.renamed(product) for product in entry.body], arguments)
