"""Whether two normal forms are equal for all sizes and all elements.

The difference of two sums is sorted by monomial: which heads stand in a product, to which powers.
For one monomial, each product gives every choice of places u a coefficient: the number of values of
its bound indices for which its guards hold and its places are u. Where the coefficients of all
products of a monomial add up to 0 at every u, the sums are equal whatever the tensors hold; nothing
is assumed of what different heads have to do with each other, so this is sound for interned heads
too. Bound indices that u doesn't determine are further coordinates, paired in order of appearance:
sums over them are equal if they are so term by term. Places of equal heads commute: every order in
which they match u counts. The remaining question, whether integers exist at which a sum of
guarded coefficients isn't 0, is Z3's.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

from ..solve.polynomials import Constraint, ordered, variable
from ..solve.smt import symbol
from .arithmetic import tidy
from .context import Context, UndecidedError
from .elimination import Eliminated, eliminated
from .simplify import simplified
from .sums import Place, Product, Sum, scaled

# Orders of equal heads in one product; more are not tried.
_MOST_ORDERS = 120

Signature = tuple[tuple[str, Fraction], ...]


def require_zero(
    difference: Sum, context: Context, purpose: str, under: Sequence[Constraint]
) -> None:
    """Raise UndecidedError unless a sum is shown to be 0, monomial by monomial."""
    classes: dict[tuple[Signature, int], list[tuple[Fraction, list[Eliminated]]]] = {}
    for product in tidy(difference, context):
        signature, orders = _orders(product, context)
        key = (signature, len(orders[0].bound) if orders else 0)
        classes.setdefault(key, []).append((product.coefficient, orders))
    for (signature, _), members in classes.items():
        _require_class(signature, members, context, purpose, under)


def _occurrences(product: Product) -> list[tuple[str, Fraction, Place]]:
    occurrences = []
    for place, exponent in product.factors.items():
        if exponent.denominator == 1 and exponent > 0:
            occurrences += [(place.head, Fraction(1), place)] * int(exponent)
        else:
            occurrences.append((place.head, exponent, place))
    return sorted(occurrences, key=lambda o: (o[0], o[1], o[2].text))


def coordinate(position: int, axis: int) -> str:
    """Return the name of an index of the place that stands at a position of a monomial."""
    return f"u@{position}.{axis}"


def _orders(product: Product, context: Context) -> tuple[Signature, list[Eliminated]]:
    occurrences = _occurrences(product)
    signature = tuple((head, exponent) for head, exponent, _ in occurrences)
    blocks = [list(b) for _, b in itertools.groupby(range(len(signature)), signature.__getitem__)]
    count = math.prod(math.factorial(len(block)) for block in blocks)
    if count > _MOST_ORDERS:
        raise UndecidedError(f"a product of {len(signature)} places has {count} orders")
    orders = []
    for order in itertools.product(*(itertools.permutations(block) for block in blocks)):
        positions = [position for block in order for position in block]
        equations = [
            variable(coordinate(position, axis)) - index
            for (_, _, place), position in zip(occurrences, positions, strict=True)
            for axis, index in enumerate(place.indices)
        ]
        orders.append(_named(eliminated(product.bound, equations, product.guards, context)))
    return signature, orders


def _named(system: Eliminated) -> Eliminated:
    """Return constraints with the bound indices left over named in order of appearance."""
    if not system.bound:
        return system
    names = ordered(system.bound, system.constraints)
    new = {name: variable(f"w@{number}") for number, name in enumerate(names)}
    constraints = sorted((c.substitute(new) for c in system.constraints), key=lambda c: c.text)
    return Eliminated(tuple(f"w@{number}" for number in range(len(names))), tuple(constraints))


def _require_class(
    signature: Signature,
    members: Sequence[tuple[Fraction, list[Eliminated]]],
    context: Context,
    purpose: str,
    under: Sequence[Constraint],
) -> None:
    weights: dict[str, Fraction] = {}
    conditions: dict[str, tuple[Constraint, ...]] = {}
    for coefficient, orders in members:
        for order in orders:
            if order.impossible:
                continue
            text = " & ".join(part.text for part in order.constraints)
            weights[text] = weights.get(text, Fraction(0)) + coefficient
            conditions[text] = order.constraints
    context.widest = max(context.widest, len(members))
    weights = {text: weight for text, weight in weights.items() if weight}
    if not weights:
        return
    scale = math.lcm(*(weight.denominator for weight in weights.values()))
    solver = context.solver
    # where one of the constraints of all doesn't hold, all coefficients are 0
    shared = set.intersection(*(set(conditions[text]) for text in weights))
    parts = []
    for text, weight in weights.items():
        clauses = [solver.constraint(part) for part in conditions[text] if part not in shared]
        condition = "true" if not clauses else clauses[0]
        if len(clauses) > 1:
            condition = f"(and {' '.join(clauses)})"
        value = int(weight * scale)
        number = str(value) if value >= 0 else f"(- {-value})"
        parts.append(f"(ite {condition} {number} 0)")
    total = parts[0] if len(parts) == 1 else f"(+ {' '.join(parts)})"
    about = [part for text in weights for part in conditions[text]]
    common = [part for part in conditions[next(iter(weights))] if part in shared]
    heads = " ".join(head if e == 1 else f"{head}^{e}" for head, e in signature) or "1"
    context.deadline()
    result = solver.ask(
        f"{purpose}: the coefficients of {heads} add up to 0",
        [*map(solver.constraint, (*under, *common)), f"(not (= {total} 0))"],
        [*under, *about],
    )
    if result == "sat":
        raise UndecidedError(f"{purpose}: the coefficients of {heads} differ")
    if result == "unknown":
        raise UndecidedError(f"{purpose}: the solver can't tell the coefficients of {heads}")


def require_same_family(
    left: Sum, right: Sum, context: Context, purpose: str, under: Sequence[Constraint] = ()
) -> None:
    """Raise UndecidedError unless two lists of places are the same, each as often as in the other.

    The places count for themselves: what an interned one stands for is left alone.
    """
    require_zero([*left, *scaled(right, -1)], context, purpose, under)


def require_same_elements(
    left: Sequence[Product],
    right: Sequence[Product],
    context: Context,
    purpose: str,
    under: Sequence[Constraint] = (),
) -> None:
    """Raise UndecidedError unless the places of two lists of elements are the same sets."""
    require_covered(left, right, context, purpose, under)
    require_covered(right, left, context, purpose, under)


def place_of(element: Product) -> Place:
    """Return the one place that an element of a largest or smallest is."""
    (place,) = element.factors
    return place


def require_covered(
    elements: Sequence[Product],
    by: Sequence[Product],
    context: Context,
    purpose: str,
    under: Sequence[Constraint] = (),
) -> None:
    """Raise UndecidedError unless every place of the elements is one of the others'."""
    for product in elements:
        simple = simplified(product, context, count=False)
        if simple is None:
            continue
        element = context.renamed(simple)
        place = place_of(element)
        texts = []
        about: list[Constraint] = []
        covered = False
        context.widest = max(context.widest, 1 + len(by))
        for other in by:
            if place_of(other).head != place.head:
                continue
            other = context.renamed(other)
            there = place_of(other)
            equations = [a - b for a, b in zip(place.indices, there.indices, strict=True)]
            system = eliminated(other.bound, equations, other.guards, context)
            if system.impossible:
                continue
            missing = [c for c in system.constraints if c not in element.guards]
            if not missing and not system.bound:
                covered = True
                break
            texts.append(exists(system, context))
            about += system.constraints
        if covered:
            continue
        solver = context.solver
        context.deadline()
        result = solver.ask(
            f"{purpose}: every {place.head} is among the others",
            [
                *(solver.constraint(part) for part in (*under, *element.guards)),
                *(f"(not {text})" for text in texts),
            ],
            [*under, *element.guards, *about, *place.indices],
        )
        if result != "unsat":
            raise UndecidedError(f"{purpose}: not every {place.head} is seen among the others")


def exists(system: Eliminated, context: Context) -> str:
    """Return "there are bound indices such that the constraints hold" as an SMT-LIB term."""

    clauses = [context.solver.constraint(part) for part in system.constraints]
    body = "true" if not clauses else clauses[0]
    if len(clauses) > 1:
        body = f"(and {' '.join(clauses)})"
    if not system.bound:
        return body
    names = " ".join(f"({symbol(name)} Int)" for name in system.bound)
    return f"(exists ({names}) {body})"
