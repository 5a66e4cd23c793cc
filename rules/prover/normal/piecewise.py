"""Functions of sums by cases: under outer guards and for each truth value, the sum is simpler."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..solve.polynomials import Constraint
from .arithmetic import guarded, plus, tidy, times
from .context import Context, UndecidedError
from .definedness import Path
from .sums import Place, Product, Sum, number, scaled, single

_MOST_CASES = 64

Function = Callable[[Sum, Path], list[Product]]


def by_cases(whole: Sum, context: Context, path: Path, function: Function) -> list[Product]:
    """Return a function of a sum, applied where all outer guards and truth values are known."""
    return _by_cases(whole, context, path, function, [0])


def _by_cases(
    whole: Sum, context: Context, path: Path, function: Function, count: list[int]
) -> list[Product]:
    count[0] += 1
    if count[0] > _MOST_CASES:
        raise UndecidedError(f"a function of more than {_MOST_CASES} cases")
    place = outer_truth(whole, context)
    if place is not None:
        yes = _by_cases(
            under_truth(whole, place, True, context),
            context,
            path.inner((), ((place, True),)),
            function,
            count,
        )
        no = _by_cases(
            under_truth(whole, place, False, context),
            context,
            path.inner((), ((place, False),)),
            function,
            count,
        )
        return choose(single(place), yes, no, context)
    guard = outer_guard(whole, path)
    if guard is None:
        bare = tidy((product.without(path.guards) for product in whole), context)
        return function(bare, path)
    result: list[Product] = []
    for inner, case_guards, kept in cases_of(guard, whole, context, path):
        part = _by_cases(kept, context, inner, function, count)
        result += guarded(part, case_guards, context)
    return result


def outer_guard(products: Sequence[Product], path: Path) -> Constraint | None:
    """Return a guard that says nothing of what is summed over, and that the path doesn't hold."""
    guards = {guard.text: guard for product in products for guard in product.outer_guards()}
    unknown = [text for text, guard in guards.items() if guard not in path.guards]
    return guards[min(unknown)] if unknown else None


def cases_of(
    guard: Constraint, products: Sequence[Product], context: Context, path: Path
) -> Iterator[tuple[Path, tuple[Constraint, ...], list[Product]]]:
    """Yield the path where a guard holds, what it says, and what is left; then where it doesn't."""
    for case in (guard, guard.negation):
        inner = path.inner(case.conjuncts())
        if context.solver.feasible(inner.guards):
            kept = [
                product.without(case.conjuncts())
                for product in products
                if not any(
                    guard.negation == case or guard.negation in case.conjuncts()
                    for guard in product.outer_guards()
                )
            ]
            yield inner, case.conjuncts(), kept


def choose(truth: Sum, then: Sum, otherwise: Sum, context: Context) -> list[Product]:
    """Return `then` where a truth value is 1 and the other where it is 0."""
    difference = plus(then, scaled(otherwise, -1))
    return plus(times(truth, difference, context), otherwise)


def negated(truth: Sum) -> list[Product]:
    """Return 1 - a truth value."""
    return plus(number(1), scaled(truth, -1))


def outer_truth(whole: Sum, context: Context) -> Place | None:
    """Return a truth value in the sum that doesn't depend on what is summed over."""
    truths: list[Place] = []
    for product in whole:
        bound_names = set(product.bound)
        truths += [
            place
            for place in product.factors
            if place.head in context.idempotent and place.variables.isdisjoint(bound_names)
        ]
    return min(truths, key=lambda place: place.text) if truths else None


def under_truth(whole: Sum, place: Place, value: bool, context: Context) -> list[Product]:
    """Return a sum where a truth value is known."""
    products = []
    for product in whole:
        if place not in product.factors:
            products.append(product)
        elif value:
            factors = {p: e for p, e in product.factors.items() if p != place}
            products.append(Product(product.coefficient, product.bound, product.guards, factors))
    return tidy(products, context)
