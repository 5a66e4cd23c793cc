"""Sizes that equations between sizes give as products of others, so that they needn't be named.

Of X0 * X1 * X2 = X0 * s with X0 >= 1 there follows s = X1 * X2. With that in the place of s, what
is the same has one text, which spares questions about products that solvers are slow at.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from .constraint import Constraint, compared
from .polynomial import Monomial, Polynomial, divided


def replaced(
    assumptions: Sequence[Constraint], minimum: Mapping[str, int], sizes: Collection[str]
) -> dict[str, Polynomial]:
    """Return what sizes are, each a number or a product of other sizes that isn't replaced.

    It follows from the assumptions where variables are at least what `minimum` says.
    """
    found: dict[str, Polynomial] = {}
    for one in assumptions:
        if one.kind != "eq":
            continue
        step = _solved(one.substitute(found), minimum, sizes)
        if step is not None:
            name, value = step
            found = {old: whole.substitute({name: value}) for old, whole in found.items()}
            found[name] = value
    return found


def _solved(
    one: Constraint, minimum: Mapping[str, int], sizes: Collection[str]
) -> tuple[str, Polynomial] | None:
    """Return a size and the product that an equation a * p = a * q says it is, for a > 0."""
    whole = one.whole
    if one.kind != "eq" or any(atom in whole.opaque for m in whole.terms for atom in m):
        return None
    common = _common(list(whole.terms), minimum)
    if common:
        whole = compared("eq", divided(whole, Polynomial({common: 1}, {}))[0]).whole
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
    left = [list(monomial) for monomial in monomials]
    for atom in list(left[0]) if left else ():
        if minimum.get(atom, 0) >= 1 and all(atom in one for one in left):
            shared.append(atom)
            for one in left:
                one.remove(atom)
    return tuple(shared)
