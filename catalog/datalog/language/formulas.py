"""Bodies as formulas: brought into disjunctive normal form, one clause a conjunction."""

from __future__ import annotations

from collections.abc import Iterator

from ...terms.comparisons import NEGATED
from .syntax import (
    Atom,
    Comparison,
    DatalogError,
    Formula,
    Literal,
    Negation,
    Truth,
    Variable,
    literal_variables,
)

MAX_CONJUNCTIONS = 4096
_NEGATED = {
    **NEGATED,
    "match": "!match",
    "contains": "!contains",
    "!match": "match",
    "!contains": "contains",
}


def conjunctions(formula: Formula | Literal, negated: bool = False) -> list[tuple[Literal, ...]]:
    """Bring a body into disjunctive normal form; raises DatalogError where it explodes."""
    if not isinstance(formula, Formula):
        return [(negate(formula) if negated else formula,)]
    if formula.connective == "not":
        return conjunctions(formula.parts[0], not negated)
    parts = [conjunctions(part, negated) for part in formula.parts]
    if (formula.connective == "or") != negated:
        return [conjunction for part in parts for conjunction in part]
    products: list[tuple[Literal, ...]] = [()]
    for part in parts:
        products = [left + right for left in products for right in part]
        if len(products) > MAX_CONJUNCTIONS:
            raise DatalogError.at(
                formula.position,
                f"this body unfolds into more than {MAX_CONJUNCTIONS} conjunctions",
            )
    return products


def formula_variables(formula: Formula | Literal) -> Iterator[Variable]:
    """Visit every variable of a body, those of aggregates too."""
    if isinstance(formula, Formula):
        for part in formula.parts:
            yield from formula_variables(part)
    else:
        yield from literal_variables(formula)


def negate(literal: Literal) -> Literal:
    """Negate one literal."""
    if isinstance(literal, Atom):
        return Negation(literal, literal.position)
    if isinstance(literal, Negation):
        return literal.atom
    if isinstance(literal, Truth):
        return Truth(not literal.value, literal.position)
    return Comparison(_NEGATED[literal.operator], literal.left, literal.right, literal.position)
