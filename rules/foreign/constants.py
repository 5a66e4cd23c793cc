"""Constants by their place: `Imatmul` stands for identities of different sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .operators import CONSTANTS
from .shapes import Shapes
from .terms import Apply, ForeignRule, Term, Variable, parts


def separated(rule: ForeignRule) -> ForeignRule:
    """A rule whose constants are terms of their own wherever they stand, told apart by `output`."""
    if rule.sources == rule.targets:
        return rule
    count = 0

    def fresh(term: Apply) -> Term:
        nonlocal count
        count += 1
        return replace(term, output=count)

    sources: dict[Term, Term] = {}
    targets: dict[Term, Term] = {}
    pairs = [(_copied(a, fresh, sources), _copied(b, fresh, targets)) for a, b in rule.outputs]
    return replace(rule, outputs=tuple(pairs))


def _copied(term: Term, fresh: Callable[[Apply], Term], copies: dict[Term, Term]) -> Term:
    """A term with constants made anew; what has inputs stays one term wherever it stands."""
    if isinstance(term, Variable):
        return term
    if term.operator in CONSTANTS:
        return fresh(term)
    if term in copies:
        return copies[term]
    copied = replace(term, operands=tuple(_copied(item, fresh, copies) for item in term.operands))
    if any(isinstance(part, Variable) for part in parts((term,))):
        copies[term] = copied
    return copied


def merged(rule: ForeignRule, shapes: Shapes) -> ForeignRule:
    """The rule with constants of one kind and one size as one term again."""
    first: dict[object, Term] = {}
    copies: dict[Term, Term] = {}
    for term in parts((*rule.sources, *rule.targets)):
        if isinstance(term, Apply) and term.operator in CONSTANTS:
            key = (term.operator, term.parameters, shapes.shape(term))
            copies[term] = first.setdefault(key, term)

    def visit(term: Term) -> Term:
        if isinstance(term, Variable):
            return term
        if term not in copies:
            copies[term] = replace(term, operands=tuple(map(visit, term.operands)))
        return copies[term]

    return replace(rule, outputs=tuple((visit(a), visit(b)) for a, b in rule.outputs))
