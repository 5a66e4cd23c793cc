"""Statements that are particular cases of others, which need no proof of their own.

What holds for all integers that a symbol may stand for holds where a term stands in its place: a
window with `auto_pad` is one whose pads are what that word says. That a statement is another one
with terms put for symbols is seen by putting them there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ....catalog.operators.expand import Definition
from ....catalog.terms.index_notation import (
    Apply,
    Read,
    Reduce,
    Symbol,
    Term,
    Variable,
    children,
    is_integer,
    never_negative,
    substitute,
    subterms,
)
from ..assumptions import conjuncts
from ..statement import Statement


def is_instance(special: Statement, general: Statement) -> bool:
    """Whether a statement is another one with terms put for symbols that it doesn't have."""
    special_names = {symbol.name for symbol in special.symbols}
    free = {symbol.name: symbol for symbol in general.symbols if symbol.name not in special_names}
    if any(symbol.kind != "integer" for symbol in free.values()):
        return False
    if len(special.definitions) != len(general.definitions):
        return False
    replacements: dict[str, Term] = dict.fromkeys(free, 0)
    for general_definition, special_definition in zip(
        general.definitions, special.definitions, strict=True
    ):
        for pair in zip(
            (*general_definition.shape, general_definition.value),
            (*special_definition.shape, special_definition.value),
            strict=False,
        ):
            replacements |= _match(*pair, free)
    return _says_all(general, special, replacements)


def _match(general: Term, special: Term, free: Mapping[str, Symbol]) -> dict[str, Term]:
    """What stands in one term where the other has symbols, as far as they are alike."""
    replacements: dict[str, Term] = {}
    waiting = [(general, special)]
    while waiting:
        general, special = waiting.pop()
        if isinstance(general, Symbol) and general.name in free:
            if is_integer(special) and _is_known(special):
                replacements.setdefault(general.name, special)
        elif type(general) is type(special):
            here, there = children(general), children(special)
            if len(here) == len(there):
                waiting += zip(here, there, strict=True)
    return replacements


def _is_known(term: Term) -> bool:
    """Whether a term is the same number everywhere: it depends on no index and no element."""
    return not any(isinstance(part, Variable | Read | Reduce) for part in subterms(term))


def _says_all(general: Statement, special: Statement, replacements: Mapping[str, Term]) -> bool:
    """Whether one statement with terms put for symbols says what the other does, or more."""
    if general.region is not None or special.region is not None:
        return False
    whole = (general.equations, general.source, dict(general.algebras))
    if whole != (special.equations, special.source, dict(special.algebras)):
        return False

    def new(term: Term) -> Term:
        return substitute(term, replacements)

    def shape(sizes: tuple[Term, ...]) -> tuple[Term, ...]:
        return tuple(map(new, sizes))

    operands = [replace(operand, shape=shape(operand.shape)) for operand in general.operands]
    definitions: list[Definition] = [
        replace(definition, shape=shape(definition.shape), value=new(definition.value))
        for definition in general.definitions
    ]
    if operands != list(special.operands) or definitions != list(special.definitions):
        return False
    granted = {True, *conjuncts(special.assumptions)}
    for part in conjuncts([new(assumption) for assumption in general.assumptions]):
        match part:
            case Apply(">=", (term, int() as least)) if least <= 0 and _is_count(term):
                continue
        if part not in granted:
            return False
    shown = {
        True,
        *conjuncts([new(obligation.condition) for obligation in general.obligations]),
    } | granted
    return all(
        part in shown
        for part in conjuncts(obligation.condition for obligation in special.obligations)
    )


def _is_count(term: Term) -> bool:
    """Whether an integer is seen to be at least 0; half of a count, rounded up, is a count."""
    match term:
        case Apply("neg", (Apply("//", (Apply("neg", (whole,)), int() as by)),)) if by > 0:
            return never_negative(whole)
        case _:
            return never_negative(term)
