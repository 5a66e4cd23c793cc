"""Which clauses of a recursion make values: only these can let it run for ever.

A recursion that moves the values it starts from ends, since there are finitely many rows of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..language.structures import builds
from ..language.syntax import (
    Aggregate,
    Atom,
    Cast,
    Clause,
    Comparison,
    Expression,
    Functor,
    Literal,
    Variable,
    variables,
)
from .scope import bindable


def growing_expression(clause: Clause, members: Collection[str]) -> Expression | None:
    """Find what a resolved clause computes for its head from relations recursive with it.

    `members` are these relations. None where the head's values are all moved.
    """
    body = _Body(clause.body, members)
    growths = (body.computed(argument, frozenset()) for argument in clause.head.arguments)
    return next((expression for expression in growths if expression is not None), None)


class _Body:
    """Where the variables of a body get their values."""

    def __init__(self, literals: Iterable[Literal], members: Collection[str]) -> None:
        literals = list(literals)
        self.moved: set[str] = set()  # bound by atoms, or fields of what they bind
        self.recursive: set[str] = set()  # those of them that only the recursion brings
        atoms = [b for b in literals if isinstance(b, Atom)]
        for atom in sorted(atoms, key=lambda atom: atom.name in members):
            names = {a.name for a in atom.arguments if isinstance(a, Variable)}
            if atom.name in members:
                self.recursive |= names - self.moved
            self.moved |= names
        pairs = [
            pair
            for b in literals
            if isinstance(b, Comparison) and b.operator == "="
            for pair in ((b.left, b.right), (b.right, b.left))
        ]
        before = -1
        while before < len(self.moved):
            before = len(self.moved)
            for side, other in pairs:
                is_moved = isinstance(side, Variable) and side.name in self.moved
                if is_moved and (isinstance(other, Variable) or builds(other)):
                    names = bindable(other) - self.moved
                    self.moved |= names
                    if bindable(side) <= self.recursive:
                        self.recursive |= names
        self.defined = {
            side.name: other
            for side, other in pairs
            if isinstance(side, Variable) and side.name not in self.moved
        }

    def computed(self, expression: Expression, seen: frozenset[str]) -> Expression | None:
        """Find the part of an expression that is computed from what the recursion brings."""
        if isinstance(expression, Variable):
            if expression.name in seen or expression.name not in self.defined:
                return None
            return self.computed(self.defined[expression.name], seen | {expression.name})
        if isinstance(expression, Cast):
            return self.computed(expression.value, seen)
        is_computed = isinstance(expression, Functor | Aggregate) and self.depends(expression, seen)
        return expression if is_computed else None

    def depends(self, expression: Expression, seen: frozenset[str]) -> bool:
        """Say whether a value depends on what the recursion brings."""
        for name in {v.name for v in variables(expression)} - seen:
            if name in self.recursive:
                return True
            if name in self.defined and self.depends(self.defined[name], seen | {name}):
                return True
        return False
