"""Statements whose assumptions offer shapes to choose from: one statement for each.

`shape(s) = repeat(1, r) or shape(s) = [1, m] ++ repeat(1, n)` is a disjunction of lists of
equations. What follows from it follows from each of them, and there sizes are known: a solver of
nonlinear arithmetic is slow at what is a matter of replacing symbols.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ...catalog.operators.terms import Apply, Symbol, Term, substitute
from .bounds import parts_of
from .statement import Obligation, Statement

# More are left to the solver.
_MOST = 8
# A disjunction of single equations, as of sizes that broadcast, is one for each axis: too many.
_LEAST_EQUATIONS = 2


def alternatives(statement: Statement) -> list[Statement]:
    """Return statements that together say what the statement says; itself, if it has no choice."""
    waiting = [statement]
    found: list[Statement] = []
    while waiting and len(waiting) + len(found) <= _MOST:
        one = waiting.pop(0)
        choice = next(filter(None, map(_choice, parts_of(one.assumptions))), None)
        if choice is None:
            found.append(one)
        else:
            waiting += [_narrowed(one, whole, known) for whole, known in choice]
    return [*found, *waiting]


def _choice(condition: Term) -> list[tuple[Term, Mapping[str, Term]]] | None:
    """Return the parts of a disjunction with what symbols are there, if all of them say that."""
    disjuncts = list(_disjuncts(condition))
    if len(disjuncts) < 2:
        return None
    found: list[tuple[Term, Mapping[str, Term]]] = []
    for one in disjuncts:
        known: dict[str, Term] = {}
        for part in parts_of([one]):
            match substitute(part, known):
                case Apply("=", (Symbol(name) as symbol, int() | Symbol() as value)) | Apply(
                    "=", (int() as value, Symbol(name) as symbol)
                ) if symbol.kind != "real" and symbol != value:
                    known = {n: substitute(v, {name: value}) for n, v in known.items()}
                    known[name] = value
        if len(known) < _LEAST_EQUATIONS:
            return None
        found.append((one, known))
    return found


def _disjuncts(condition: Term) -> Iterator[Term]:
    match condition:
        case Apply("or", arguments):
            for one in arguments:
                yield from _disjuncts(one)
        case _:
            yield condition


def _narrowed(statement: Statement, chosen: Term, known: Mapping[str, Term]) -> Statement:
    """Return the statement where one part of a disjunction holds, symbols replaced by it.

    A replaced symbol's own bound, to be at least 0, is assumed of what it is.
    """

    def new(term: Term) -> Term:
        return substitute(term, known)

    def shape(sizes: Sequence[Term]) -> tuple[Term, ...]:
        return tuple(map(new, sizes))

    kinds = {one.name: one.kind for one in statement.symbols}
    bounds = [Apply(">=", (v, 0)) for n, v in known.items() if kinds.get(n) == "dimension"]
    assumptions = (*map(new, (chosen, *statement.assumptions)), *bounds)
    return replace(
        statement,
        assumptions=tuple(one for one in dict.fromkeys(assumptions) if one is not True),
        operands=tuple(replace(one, shape=shape(one.shape)) for one in statement.operands),
        definitions=tuple(
            replace(one, shape=shape(one.shape), value=new(one.value))
            for one in statement.definitions
        ),
        obligations=tuple(
            Obligation(one.text, new(one.condition)) for one in statement.obligations
        ),
        region=None if statement.region is None else new(statement.region),
    )
