"""Least values of dimensions, by laws that a solver of nonlinear arithmetic is slow at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .constraint import Constraint
from .polynomial import Monomial, Polynomial
from .solver import Solver


def learned(assumptions: Sequence[Constraint], minimum: Mapping[str, int]) -> dict[str, int]:
    """Return least values of variables that follow from assumptions.

    A product of numbers that aren't negative is at least 1 only if each of them is: where a
    constraint says that a product exceeds what is never negative, or equals a product that is at
    least 1, all of its factors are at least 1.
    """
    found = dict(minimum)
    for _ in range(len(assumptions) + 2):
        before = dict(found)
        for one in assumptions:
            for name, least in _steps(one, Solver((), found)):
                found[name] = max(least, found.get(name, least))
        if found == before:
            break
    return found


def _steps(one: Constraint, solver: Solver) -> list[tuple[str, int]]:
    whole = one.whole
    if one.kind == "ge":
        return _from_inequality(one, solver)
    if one.kind == "ne":
        name = whole.variable
        if name is not None and solver.bound(whole) == 0:
            return [(name, 1)]
    if one.kind == "eq":
        # whole = 0, so that and its negative are both >= 0
        return [
            step
            for sign in (1, -1)
            for step in _from_inequality(Constraint("ge", whole * sign), solver)
        ]
    return []


def _from_inequality(one: Constraint, solver: Solver) -> list[tuple[str, int]]:
    """Use p - q >= 0 for one product p: it is at least the least value of q."""
    whole = one.whole
    above = [(m, c) for m, c in whole.terms.items() if m and c > 0]
    if len(above) != 1:
        return []
    ((monomial, coefficient),) = above
    rest = coefficient * _monomial(monomial, one) - whole
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
    if any(solver.bound(_monomial((part,), one)) < 0 for part in monomial):
        return []
    return [(part, 1) for part in monomial if part not in whole.opaque]


def _monomial(monomial: Monomial, of: Constraint) -> Polynomial:
    return Polynomial({monomial: 1}, of.whole.opaque)
