"""Bound indices as what equations say they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .constraint import Constraint, equals
from .polynomial import Polynomial, divided, quotient
from .space import Space


@dataclass(frozen=True)
class Solved:
    """Constraints without the bound indices that equations determine, and those left over."""

    bound: tuple[str, ...]
    constraints: tuple[Constraint, ...]

    @property
    def impossible(self) -> bool:
        """Whether no index fulfils the constraints."""
        return any(one.known is False for one in self.constraints)


def solved(
    bound: Sequence[str],
    equations: Iterable[Polynomial],
    guards: Iterable[Constraint],
    space: Space,
) -> Solved:
    """Eliminate bound indices by equations p = 0; exactly one value is left for each.

    For a divisor q >= 1, q * v = p has the one solution v = p // q if q * (p // q) = p, else none.
    """
    left = list(bound)
    waiting = list(equations)
    others = list(guards)
    while left:
        step = _step(left, waiting, space)
        if step is None:
            break
        used, name, value, kept = step
        known = {name: value}
        waiting = [
            space.fold(equation.substitute(known))
            for equation in waiting
            if kept or equation is not used
        ]
        others = [space.fold_constraint(guard.substitute(known)) for guard in others]
        left.remove(name)
    constraints = {}
    for one in (*(equals(equation, 0) for equation in waiting), *others):
        for part in one.conjuncts():
            if space.solver.plain(part) is not True:
                constraints[part.text] = part
    return Solved(tuple(left), tuple(constraints[text] for text in sorted(constraints)))


def _step(
    left: Sequence[str], equations: Sequence[Polynomial], space: Space
) -> tuple[Polynomial, str, Polynomial, bool] | None:
    for equation in equations:
        for name in left:
            value = equation.linear(name)
            if value is not None:
                return equation, name, value, False
    for equation in equations:
        for name in left:
            with_name = {
                m: c
                for m, c in equation.terms.items()
                if any(
                    name == atom
                    or (atom in equation.opaque and name in equation.opaque[atom].names)
                    for atom in m
                )
            }
            if len(with_name) != 1:
                continue
            ((monomial, coefficient),) = with_name.items()
            if monomial.count(name) != 1 or any(atom in equation.opaque for atom in monomial):
                continue
            factor = Polynomial(
                {tuple(atom for atom in monomial if atom != name): abs(coefficient)}, {}
            )
            if not factor.variables <= space.symbols or space.solver.bound(factor) < 1:
                continue
            rest = equation - Polynomial({monomial: coefficient}, equation.opaque)
            whole = rest * (-1 if coefficient > 0 else 1)
            done, more = divided(whole, factor)
            return equation, name, done + quotient(more, factor), True
    return None
