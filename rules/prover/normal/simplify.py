"""Simplification of one product: guards, bound indices, powers."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from ..solve.polynomials import (
    ZERO,
    Constraint,
    Polynomial,
    atom,
    compared,
    extreme,
    variable,
    within,
)
from .context import Context
from .sums import Place, Product, multiplied


def simplified(product: Product, context: Context, *, count: bool = True) -> Product | None:
    """Return an equal product in simpler form, or None where it is 0.

    With `count`, a sum over an index that nothing reads becomes a factor; for a set of elements
    that would be wrong.
    """
    if not product.coefficient:
        return None
    product = _folded(product, context)
    product = _split_indices(product, context)
    while True:
        guards = _guards(product, context)
        if guards is None:
            return None
        product = Product(product.coefficient, product.bound, guards, product.factors)
        solved = _solved(product)
        if solved is None:
            break
        product = _folded(solved, context)
    if not count:
        return product
    product = powers(_counted(product, context), context)
    return product if product.coefficient else None


def _folded(product: Product, context: Context) -> Product:
    if not any(i.opaque for p in product.factors for i in p.indices) and not any(
        p.opaque for g in product.guards for p in g.polynomials()
    ):
        return product
    return Product(
        product.coefficient,
        product.bound,
        [context.fold_constraint(guard) for guard in product.guards],
        multiplied(
            (Place(p.head, tuple(map(context.fold, p.indices))), e)
            for p, e in product.factors.items()
        ),
    )


def _guards(product: Product, context: Context) -> list[Constraint] | None:
    """Return the guards that say something; None where they contradict each other."""
    by_text: dict[str, Constraint] = {}
    for guard in product.guards:
        plain = context.solver.plain(guard)
        if plain is False:
            return None
        if plain is None and guard not in context.ambient:
            if guard.negation in context.ambient:
                return None
            by_text[guard.text] = guard
    for guard in list(by_text.values()):
        if guard.negation.text in by_text:
            return None
        if guard.kind == "ge":
            # p >= 0 and -p >= 0
            other = compared("ge", -guard.whole)
            if other.text in by_text and guard.text in by_text:
                del by_text[guard.text]
                by_text.pop(other.text, None)
                same = compared("eq", guard.whole)
                by_text[same.text] = same
    return list(by_text.values())


def _solved(product: Product) -> Product | None:
    """Return the product with one bound index replaced by what an equation says it is."""
    for guard in product.guards:
        if guard.kind != "eq":
            continue
        for name in product.bound:
            value = guard.whole.linear(name)
            if value is not None:
                rest = Product(
                    product.coefficient,
                    [other for other in product.bound if other != name],
                    [other for other in product.guards if other is not guard],
                    product.factors,
                )
                return rest.substitute({name: value})
    return None


def _split_indices(product: Product, context: Context) -> Product:
    """Replace an index k < a * q of which k // q is read by one below a and one below q.

    For q >= 0 the pairs are the quotients and remainders of the k, each once.
    """
    for name in product.bound:
        extent = context.extents.get(name)
        if extent is None or not set(within(variable(name), extent)) <= set(product.guards):
            continue
        for by in _divisors(product, name):
            rows, rest = extent.divided(by)
            if rest.terms or not by.variables <= context.symbols or context.solver.bound(by) < 0:
                continue
            row, column = context.fresh(rows), context.fresh(by)
            dropped = set(within(variable(name), extent))
            split = Product(
                product.coefficient,
                [other for other in product.bound if other != name],
                [guard for guard in product.guards if guard not in dropped],
                product.factors,
            ).substitute({name: variable(row) * by + variable(column)})
            guards = (*within(variable(row), rows), *within(variable(column), by))
            both = Product(
                split.coefficient,
                (*split.bound, row, column),
                (*split.guards, *guards),
                split.factors,
            )
            return _split_indices(_folded(both, context), context)
    return product


def _divisors(product: Product, name: str) -> Iterable[Polynomial]:
    wholes = [index for place in product.factors for index in place.indices]
    wholes += [part for guard in product.guards for part in guard.polynomials()]
    for whole in wholes:
        for inner in whole.atoms():
            if inner.function == "//" and inner.arguments[0].variable == name:
                yield inner.arguments[1]


def _counted(product: Product, context: Context) -> Product:
    """Replace a sum over an index that nothing reads by the number of its values."""
    for name in product.bound:
        if any(name in place.variables for place in product.factors):
            continue
        about = [guard for guard in product.guards if name in guard.variables]
        about = _needed(about, name, context)
        count = _count(about, name)
        if count is None or count.variables & set(product.bound):
            continue
        if context.solver.bound(count) < 0:
            count = extreme("max", count, ZERO)
        factors = [(place, e) for place, e in product.factors.items()]
        if len(count.terms) == 1:
            ((monomial, coefficient),) = count.terms.items()
            factors += [(integer_place(part, count), Fraction(1)) for part in monomial]
        else:
            coefficient = 1
            factors.append((Place("#INT", (count,)), Fraction(1)))
        return _counted(
            Product(
                product.coefficient * coefficient,
                [other for other in product.bound if other != name],
                [guard for guard in product.guards if name not in guard.variables],
                multiplied(factors),
            ),
            context,
        )
    return product


def _needed(about: list[Constraint], name: str, context: Context) -> list[Constraint]:
    """Return the guards of an index without those that its range implies."""
    extent = context.extents.get(name)
    if extent is None or len(about) <= 2:
        return about
    ranges = within(variable(name), extent)
    others = [guard for guard in about if guard not in ranges]
    if any(guard not in about for guard in ranges):
        return about
    if any(context.solver.feasible([*ranges, guard.negation]) for guard in others):
        return about
    return list(ranges)


def _count(about: list[Constraint], name: str) -> Polynomial | None:
    if len(about) != 2 or any(guard.kind != "ge" for guard in about):
        return None
    low = high = None
    for guard in about:
        value = guard.whole.linear(name)
        if value is None:
            return None
        if guard.whole.terms[(name,)] == 1:
            low = value
        else:
            high = value
    return None if low is None or high is None else high - low + 1


def integer_place(part: str, of: Polynomial) -> Place:
    """Return an atom of a polynomial as an element."""
    inner = of.opaque.get(part)
    return Place("#INT", (variable(part) if inner is None else atom(inner),))


def powers(product: Product, context: Context) -> Product:
    """Return the product with powers in simplest form.

    x^2 is x for a truth value, |x|^2 is x^2, sign(x) |x| is x.
    """
    coefficient = product.coefficient
    changed: dict[Place, Fraction] = {}
    simple = True
    for place, exponent in product.factors.items():
        new, kept = place, exponent
        if place.head in context.idempotent:
            if exponent > 0:
                kept = Fraction(1)
        elif place.head.startswith("abs(") and exponent.denominator == 1 and exponent % 2 == 0:
            new = Place(place.head[4:-1], place.indices)
        elif place.head == "#INT" and place.indices[0].number is not None:
            value = place.indices[0].number
            if exponent.denominator == 1 and (value or exponent > 0):
                coefficient *= Fraction(value) ** int(exponent)
                kept = Fraction(0)
        elif place.head.startswith("N:") and place.head[2:].isdigit():
            whole = exponent.numerator // exponent.denominator
            coefficient *= Fraction(int(place.head[2:])) ** whole
            kept = exponent - whole
        simple = simple and new is place and kept == exponent
        changed[new] = changed.get(new, Fraction(0)) + kept
    if any(place.head.startswith(("sign(", "abs(")) for place in changed):
        changed, simple = _signed(changed, context), False
    if simple:
        return product
    return Product(coefficient, product.bound, product.guards, changed)


def _signed(factors: dict[Place, Fraction], context: Context) -> dict[Place, Fraction]:
    """Return powers in which of x, |x| and sign(x) as few as possible are left."""
    exponents = dict(factors)
    for place in factors:
        function, _, rest = place.head.partition("(")
        base = Place(rest[:-1], place.indices)
        size = Place(f"abs({base.head})", base.indices)
        sign = Place(f"sign({base.head})", base.indices)
        if function not in ("abs", "sign") or (place == sign and size in factors):
            continue
        base_power, size_power, sign_power = (
            exponents.get(p, Fraction(0)) for p in (base, size, sign)
        )
        if sign.head in context.idempotent:  # x is never negative, and no |x| is there
            if base_power:
                exponents.pop(sign, None)
            continue
        if not base_power.denominator == size_power.denominator == sign_power.denominator == 1:
            continue
        power, odd = base_power + size_power, (base_power + sign_power) % 2
        for part in (base, size, sign):
            exponents.pop(part, None)
        if base_power or size_power:
            # where x is 0, all of this is, or has no value
            if not power:
                exponents[sign] = odd
            elif odd == power % 2:
                exponents[base] = power
            else:
                exponents[size], exponents[base] = Fraction(1), power - 1
        elif sign_power:
            exponents[sign] = 2 - odd
    return exponents
