"""What assumptions say of sizes: least values, and sizes that are products of others.

Both by laws that a solver of nonlinear arithmetic is slow at. Of X0 * X1 * X2 = X0 * s with X0 >= 1
there follows s = X1 * X2. With that in the place of s, what is the same has one text, which spares
questions about products.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from .polynomials import Constraint, Monomial, Polynomial, compared, equals, variable
from .smt import Solver


def least_values(assumptions: Sequence[Constraint], minimum: Mapping[str, int]) -> dict[str, int]:
    """Return least values of variables that follow from assumptions.

    A product of numbers that aren't negative is at least 1 only if each of them is: where a
    constraint says that a product exceeds what is never negative, or equals a product that is at
    least 1, all of its factors are at least 1.
    """
    least_by_name = dict(minimum)
    for _ in range(len(assumptions) + 2):
        before = dict(least_by_name)
        for assumption in assumptions:
            for name, least in _steps(assumption, Solver((), least_by_name)):
                least_by_name[name] = max(least, least_by_name.get(name, least))
        if least_by_name == before:
            break
    return least_by_name


def _steps(assumption: Constraint, solver: Solver) -> list[tuple[str, int]]:
    whole = assumption.whole
    if assumption.kind == "ge":
        return _from_inequality(assumption, solver)
    if assumption.kind == "ne":
        name = whole.variable
        if name is not None and solver.bound(whole) == 0:
            return [(name, 1)]
    if assumption.kind == "eq":
        # whole = 0, so that and its negative are both >= 0
        return [
            step
            for sign in (1, -1)
            for step in _from_inequality(Constraint("ge", whole * sign), solver)
        ]
    return []


def _from_inequality(inequality: Constraint, solver: Solver) -> list[tuple[str, int]]:
    """Use p - q >= 0 for one product p: it is at least the least value of q."""
    whole = inequality.whole
    above = [(m, c) for m, c in whole.terms.items() if m and c > 0]
    if len(above) != 1:
        return []
    ((monomial, coefficient),) = above
    rest = coefficient * _monomial(monomial, inequality) - whole
    least = solver.bound(rest)
    if least == float("-inf"):
        return []
    if len(monomial) == 1 and monomial[0] not in whole.opaque:
        return [(monomial[0], -(-int(least) // coefficient))]
    if least < 1:
        return []
    inner = whole.opaque.get(monomial[0]) if len(monomial) == 1 else None
    if inner is not None and inner.function == "//" and solver.bound(inner.arguments[1]) >= 1:
        # floor(p / q) >= 1, so p >= q >= 1
        return _from_inequality(Constraint("ge", inner.arguments[0] - 1), solver)
    if any(solver.bound(_monomial((part,), inequality)) < 0 for part in monomial):
        return []
    return [(part, 1) for part in monomial if part not in whole.opaque]


def _monomial(monomial: Monomial, of: Constraint) -> Polynomial:
    return Polynomial({monomial: 1}, of.whole.opaque)


def sizes_as_products(
    assumptions: Sequence[Constraint], minimum: Mapping[str, int], sizes: Collection[str]
) -> dict[str, Polynomial]:
    """Return what sizes are, each a number or a product of other sizes that isn't replaced.

    It follows from the assumptions where variables are at least what `minimum` says.
    """
    products: dict[str, Polynomial] = {}
    for assumption in assumptions:
        if assumption.kind != "eq":
            continue
        step = _solved(assumption.substitute(products), minimum, sizes)
        if step is not None:
            name, value = step
            products = {old: whole.substitute({name: value}) for old, whole in products.items()}
            products[name] = value
    return products


def sizes_as_multiples(
    assumptions: Sequence[Constraint], minimum: Mapping[str, int], sizes: Collection[str]
) -> dict[str, Polynomial]:
    """Return the sizes of which assumptions say that others divide them, as products with those.

    The other factor is a variable of its own, an integer that is never negative.
    """
    multiples: dict[str, Polynomial] = {}
    for assumption in assumptions:
        for atom in assumption.whole.atoms() if assumption.kind == "eq" else ():
            if atom.function != "//":
                continue
            whole, by = atom.arguments
            quotient = Polynomial({(atom.text,): 1}, {atom.text: atom})
            fits = whole.variable in sizes and Solver((), minimum).bound(by) >= 1
            if not fits or equals(quotient * by, whole) != assumption:
                continue
            said = frozenset().union(*(value.variables for value in multiples.values()))
            if whole.text not in said and multiples.keys().isdisjoint({whole.text, *by.variables}):
                multiples[whole.text] = by * variable(f"{whole} / {by}")
    return multiples


def _solved(
    equation: Constraint, minimum: Mapping[str, int], sizes: Collection[str]
) -> tuple[str, Polynomial] | None:
    """Return a size and the product that an equation a * p = a * q says it is, for a > 0."""
    whole = equation.whole
    if equation.kind != "eq" or any(atom in whole.opaque for m in whole.terms for atom in m):
        return None
    common = _common(list(whole.terms), minimum)
    if common:
        whole = compared("eq", whole.divided(Polynomial({common: 1}, {}))[0]).whole
    if len(whole.terms) > 2 or not all(abs(c) == 1 for m, c in whole.terms.items() if m):
        return None
    for name in sorted(whole.variables & set(sizes), reverse=True):
        value = whole.linear(name)
        if value is not None and all(c > 0 for c in value.terms.values()):
            return name, value
    return None


def _common(monomials: Sequence[Monomial], minimum: Mapping[str, int]) -> Monomial:
    """Return the factors above 0 that all monomials share."""
    shared: list[str] = []
    remaining = [list(monomial) for monomial in monomials]
    for atom in list(remaining[0]) if remaining else ():
        if minimum.get(atom, 0) >= 1 and all(atom in factors for factors in remaining):
            shared.append(atom)
            for factors in remaining:
                factors.remove(atom)
    return tuple(shared)
