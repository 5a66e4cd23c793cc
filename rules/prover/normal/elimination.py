"""Bound indices as what equations say they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..solve.polynomials import (
    Constraint,
    Polynomial,
    at_least,
    equals,
    quotient,
    variable,
)
from .context import Context


@dataclass(frozen=True)
class Eliminated:
    """Constraints without the bound indices that equations determine, and those left over."""

    bound: tuple[str, ...]
    constraints: tuple[Constraint, ...]

    @property
    def impossible(self) -> bool:
        """Whether no index fulfils the constraints."""
        return any(constraint.truth is False for constraint in self.constraints)


def eliminated(
    bound: Sequence[str],
    equations: Iterable[Polynomial],
    guards: Iterable[Constraint],
    context: Context,
) -> Eliminated:
    """Eliminate bound indices by equations p = 0; exactly one value is left for each.

    For a divisor q >= 1, q * v = p has the one solution v = p // q if q * (p // q) = p, else none,
    and 0 <= p - q * v < q has the one solution v = p // q: v is the higher of two digits.
    """
    unsolved = list(bound)
    waiting = list(equations)
    others = [part for guard in guards for part in guard.conjuncts()]
    while unsolved:
        step = _step(unsolved, waiting, context)
        if step is not None:
            used, name, value, kept = step
            waiting = [equation for equation in waiting if kept or equation is not used]
        else:
            digit = _digit(unsolved, others, context)
            if digit is None:
                break
            name, value, ranges = digit
            others = [guard for guard in others if guard not in ranges]
        replacements = {name: value}
        waiting = [context.fold(equation.substitute(replacements)) for equation in waiting]
        others = [context.fold_constraint(guard.substitute(replacements)) for guard in others]
        unsolved.remove(name)
    constraints = {}
    for constraint in (*(equals(equation, 0) for equation in waiting), *others):
        for part in constraint.conjuncts():
            if context.solver.plain(part) is not True:
                constraints[part.text] = part
    return Eliminated(tuple(unsolved), tuple(constraints[text] for text in sorted(constraints)))


def _step(
    unsolved: Sequence[str], equations: Sequence[Polynomial], context: Context
) -> tuple[Polynomial, str, Polynomial, bool] | None:
    for equation in equations:
        for name in unsolved:
            value = equation.linear(name)
            if value is not None:
                return equation, name, value, False
    for equation in equations:
        for name in unsolved:
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
            if not factor.variables <= context.symbols or context.solver.bound(factor) < 1:
                continue
            rest = equation - Polynomial({monomial: coefficient}, equation.opaque)
            whole = rest * (-1 if coefficient > 0 else 1)
            return equation, name, _floor(whole, factor), True
    return None


def _digit(
    unsolved: Sequence[str], guards: Sequence[Constraint], context: Context
) -> tuple[str, Polynomial, tuple[Constraint, Constraint]] | None:
    """Return an index v, its value and the guards 0 <= p - q * v < q that determine it."""
    for low in guards:
        if low.kind != "ge":
            continue
        for name in unsolved:
            by = _factor(low.whole, name)
            if by is None or not by.variables <= context.symbols:
                continue
            high = at_least(by - 1, low.whole)
            if high in guards and context.solver.bound(by) >= 1:
                return name, _floor(low.whole + by * variable(name), by), (low, high)
    return None


def _factor(whole: Polynomial, name: str) -> Polynomial | None:
    """Return q where the polynomial is p - q * v for the variable v, which p doesn't mention."""
    with_name = {m: c for m, c in whole.terms.items() if name in m}
    if len(with_name) != 1:
        return None
    ((monomial, coefficient),) = with_name.items()
    rest = whole - Polynomial(with_name, whole.opaque)
    factor = Polynomial({tuple(atom for atom in monomial if atom != name): -coefficient}, {})
    plain = monomial.count(name) == 1 and not any(atom in whole.opaque for atom in monomial)
    return factor if plain and coefficient < 0 and name not in rest.variables else None


def _floor(whole: Polynomial, by: Polynomial) -> Polynomial:
    """Return whole // by, the monomials that `by` divides apart."""
    done, more = whole.divided(by)
    return done + quotient(more, by)
