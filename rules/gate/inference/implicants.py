"""A formula over integers, told as a few conjunctions of bounds.

Quantifier elimination leaves formulas that nobody would write: choices within sums, bounds that
follow from others. Each model of such a formula meets some of its atoms; of these as few are kept
as imply the formula, a prime implicant of it, and the next model is one that no implicant covers
(as prime implicants of two-level logic are found; Quine, "A way to simplify truth functions",
American Mathematical Monthly 62, 1955). Z3 answers what implies what.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import z3

from ...prover.work_clock import limit
from ..counterexample.symbol_values import endable_solver

# The signs of comparisons, and of what holds where they don't.
_SIGNS = {
    z3.Z3_OP_LE: ("<=", ">"),
    z3.Z3_OP_GE: (">=", "<"),
    z3.Z3_OP_LT: ("<", ">="),
    z3.Z3_OP_GT: (">", "<="),
}
_QUESTION_S = 2.0
_MOST = 6


class NotPlainError(Exception):
    """A formula that isn't made of integers, + - * // % and comparisons, or has no short form."""


def implicants(
    formula: z3.BoolRef, context: Sequence[z3.BoolRef], usual: Sequence[z3.BoolRef]
) -> list[list[z3.BoolRef]]:
    """Return conjunctions whose union is a formula, wherever `context` and `usual` hold.

    The union covers the formula where `context` alone holds. An empty conjunction is everything.
    Raises NotPlainError.
    """
    conjunctions: list[list[z3.BoolRef]] = []
    search, against, known = endable_solver(), endable_solver(), endable_solver()
    for solver in (search, against, known):
        limit(solver, _QUESTION_S)
        solver.add(*context)
    search.add(formula)
    against.add(*usual, z3.Not(formula))
    while (answer := search.check()) == z3.sat:
        if len(conjunctions) == _MOST:
            raise NotPlainError("it takes more than a few conjunctions")
        cube = _minimal(_atoms_met(formula, search.model()), against)
        conjunctions.append(_tight(cube, known))
        search.add(z3.Not(z3.And(*cube)))
    if answer != z3.unsat:
        raise NotPlainError("the solver can't tell")
    return conjunctions


def _minimal(literals: list[z3.BoolRef], against: z3.Solver) -> list[z3.BoolRef]:
    """Drop what is not needed to imply the formula, what is about sizes alone first."""
    kept = sorted(literals, key=_worth)
    if against.check(*kept) != z3.unsat:
        raise NotPlainError("what holds at a number doesn't imply it")
    for literal in list(kept):
        rest = [other for other in kept if other is not literal]
        if against.check(*rest) == z3.unsat:
            kept = rest
    return kept


def _tight(cube: list[z3.BoolRef], context: z3.Solver) -> list[z3.BoolRef]:
    """Write bounds as equations that are such, given the others and what holds anyway."""
    tightened = list(cube)
    for i, literal in enumerate(tightened):
        equation = _at_its_bound(literal)
        if equation is not None and context.check(*tightened, z3.Not(equation)) == z3.unsat:
            tightened[i] = equation
    return tightened


def _at_its_bound(literal: z3.BoolRef) -> z3.BoolRef | None:
    """The equation of an inequality of integers."""
    negated = z3.is_not(literal)
    atom = literal.children()[0] if negated else literal
    kind, children = atom.decl().kind(), atom.children()
    if kind not in _SIGNS or not all(map(z3.is_int, children)):
        return None
    left, right = children
    # a < b and not a >= b are tight where a + 1 = b, and so on
    offset = {"<": 1, ">": -1, "<=": 0, ">=": 0}[_SIGNS[kind][negated]]
    return left + offset == right


def _worth(literal: z3.BoolRef) -> tuple[bool, int]:
    text = literal.sexpr()
    return "i@" in text, -len(text)


# ------------------------------------------------------------------------ what a model meets


def _atoms_met(formula: z3.BoolRef, model: z3.ModelRef) -> list[z3.BoolRef]:
    """The atoms of a formula as a model meets them, choices within terms made as they are there."""
    atoms: dict[str, z3.BoolRef] = {}
    _collect(formula, model, atoms)
    return list(atoms.values())


def _collect(formula: z3.BoolRef, model: z3.ModelRef, atoms: dict[str, z3.BoolRef]) -> None:
    if z3.is_true(formula) or z3.is_false(formula):
        return
    if z3.is_quantifier(formula):
        raise NotPlainError("a quantifier is left")
    children = formula.children()
    junction = z3.is_and(formula) or z3.is_or(formula) or z3.is_not(formula)
    if junction or all(map(z3.is_bool, children)):  # among those: ite, =, => of truth values
        for child in children:
            _collect(child, model, atoms)
    else:
        plain = formula.decl()(*(_without_choices(child, model, atoms) for child in children))
        holds = z3.is_true(model.eval(plain, model_completion=True))
        for literal in _as_true(plain, holds, model):
            atoms.setdefault(literal.sexpr(), literal)


def _without_choices(
    term: z3.ExprRef, model: z3.ModelRef, atoms: dict[str, z3.BoolRef]
) -> z3.ExprRef:
    """A term without choices, the conditions of those that were made noted."""
    if z3.is_app_of(term, z3.Z3_OP_ITE):
        condition, then, otherwise = term.children()
        _collect(condition, model, atoms)
        holds = z3.is_true(model.eval(condition, model_completion=True))
        return _without_choices(then if holds else otherwise, model, atoms)
    if not term.children():
        return term
    return term.decl()(*(_without_choices(child, model, atoms) for child in term.children()))


def _as_true(atom: z3.ExprRef, holds: bool, model: z3.ModelRef) -> Iterator[z3.BoolRef]:
    """An atom that holds, or the one that holds in its place; an inequality for what is unequal."""
    if holds:
        yield atom
        return
    if z3.is_eq(atom) or z3.is_distinct(atom):
        left, right = atom.children()
        if z3.is_distinct(atom):
            yield left == right
        elif z3.is_true(model.eval(left < right, model_completion=True)):
            yield left < right
        else:
            yield left > right
        return
    yield z3.Not(atom)
