"""Which variables are bound where: groundedness, and the scopes of aggregates.

After `resolve`, names are unique: a variable local to an aggregate shares its name with nothing
outside, and every `range` stands alone as `fresh = range(...)`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator

from .syntax import (
    Aggregate,
    Atom,
    Cast,
    Clause,
    Comparison,
    DatalogError,
    Expression,
    Functor,
    Literal,
    Negation,
    Variable,
    Wildcard,
    aggregates,
    literal_expressions,
    literal_variables,
    variables,
    walk,
)

LOCAL = "@"  # joins a variable's name to its scope's number; no source name contains it


def shown(name: str) -> str:
    """Spell a variable as the source does."""
    return name.split(LOCAL)[0]


def grounded(literals: Iterable[Literal], bound: frozenset[str] = frozenset()) -> set[str]:
    """Name the variables that a conjunction binds, aggregates taken as values.

    Souffle's rule: a positive atom binds the variables that are its arguments, and an equality
    binds a variable to an expression whose variables are bound.
    """
    names = set(bound)
    pending: list[tuple[str, set[str]]] = []
    for literal in literals:
        if isinstance(literal, Atom):
            names.update(a.name for a in literal.arguments if isinstance(a, Variable))
        elif isinstance(literal, Comparison) and literal.operator == "=":
            for side, other in ((literal.left, literal.right), (literal.right, literal.left)):
                if isinstance(side, Variable):
                    if any(isinstance(node, Wildcard) for node in walk(other)):
                        continue
                    needed = {v.name for v in variables(other, inside=False)}
                    pending.append((side.name, needed))
    changed = True
    while changed and pending:
        changed = False
        rest = []
        for name, needed in pending:
            if needed <= names:
                changed = changed or name not in names
                names.add(name)
            else:
                rest.append((name, needed))
        pending = rest
    return names


def rename(expression: Expression, change: Callable[[Expression], Expression | None]) -> Expression:
    """Copy an expression, with `change` replacing the nodes for which it gives another."""
    replaced = change(expression)
    if replaced is not None:
        return replaced
    if isinstance(expression, Functor):
        arguments = tuple(rename(a, change) for a in expression.arguments)
        return Functor(expression.name, arguments, expression.position, expression.depth)
    if isinstance(expression, Cast):
        return Cast(rename(expression.value, change), expression.type_name, expression.position)
    if isinstance(expression, Aggregate):
        target = None if expression.target is None else rename(expression.target, change)
        body = tuple(rename_literal(b, change) for b in expression.body)
        return Aggregate(expression.name, target, body, expression.position, expression.local)
    return expression


def rename_literal(literal: Literal, change: Callable[[Expression], Expression | None]) -> Literal:
    """Copy a literal, renaming its expressions."""
    if isinstance(literal, Atom):
        return rename_atom(literal, change)
    if isinstance(literal, Negation):
        return Negation(rename_atom(literal.atom, change), literal.position)
    if isinstance(literal, Comparison):
        left, right = rename(literal.left, change), rename(literal.right, change)
        return Comparison(literal.operator, left, right, literal.position)
    return literal


def rename_atom(atom: Atom, change: Callable[[Expression], Expression | None]) -> Atom:
    """Copy an atom, renaming its arguments."""
    return Atom(atom.name, tuple(rename(a, change) for a in atom.arguments), atom.position)


def substitution(names: dict[str, Expression]) -> Callable[[Expression], Expression | None]:
    """Make a change that replaces variables by name."""

    def change(node: Expression) -> Expression | None:
        return names.get(node.name) if isinstance(node, Variable) else None

    return change


def resolve(clause: Clause) -> Clause:
    """Give aggregates' local variables names of their own and hoist `range`.

    Raises DatalogError for a witness of count, sum or mean and for misplaced underscores.
    """
    return _Resolver().clause(clause)


class _Resolver:
    def __init__(self) -> None:
        self.numbers = itertools.count(1)

    def clause(self, clause: Clause) -> Clause:
        for argument in clause.head.arguments:
            for node in walk(argument):
                if isinstance(node, Wildcard):
                    raise DatalogError.at(node.position, "an underscore can't stand in a head")
        body = list(clause.body)
        head_literal: Literal = Negation(clause.head, clause.head.position)
        outside = {
            v.name for b in (*body, head_literal) for v in literal_variables(b, inside=False)
        }
        bound = grounded(body)
        extra: list[Literal] = []

        def change(node: Expression) -> Expression | None:
            return self._expression(node, frozenset(bound), frozenset(outside), extra)

        new_body = [self._literal(b, change) for b in body]
        head = rename_atom(clause.head, change)
        return Clause(head, (*new_body, *extra), clause.position)

    def _literal(
        self, literal: Literal, change: Callable[[Expression], Expression | None]
    ) -> Literal:
        if isinstance(literal, Comparison):
            for side in literal_expressions(literal):
                for node in walk(side):
                    if isinstance(node, Wildcard):
                        raise DatalogError.at(
                            node.position, "an underscore can't stand in a constraint"
                        )
        return rename_literal(literal, change)

    def _expression(
        self,
        node: Expression,
        bound: frozenset[str],
        outside: frozenset[str],
        extra: list[Literal],
    ) -> Expression | None:
        def change(inner: Expression) -> Expression | None:
            return self._expression(inner, bound, outside, extra)

        if isinstance(node, Aggregate):
            return self._aggregate(node, bound, outside, extra)
        if isinstance(node, Functor) and node.name == "range":
            arguments = tuple(rename(a, change) for a in node.arguments)
            fresh = Variable(f"range{LOCAL}{next(self.numbers)}", node.position)
            hoisted = Functor("range", arguments, node.position, node.depth)
            extra.append(Comparison("=", fresh, hoisted, node.position))
            return Variable(fresh.name, node.position)
        return None

    def _aggregate(
        self,
        node: Aggregate,
        bound: frozenset[str],
        outside: frozenset[str],
        extra: list[Literal],
    ) -> Aggregate:
        within = {v.name for v in variables(node)}
        targets = set() if node.target is None else {v.name for v in variables(node.target)}
        # What the expression reads is the body's where the body binds it.
        injected = (within & bound) - (targets & grounded(node.body, bound - targets))
        witnesses = ((within & outside) - bound - targets) & grounded(node.body)
        if witnesses:
            if node.name not in ("min", "max"):
                name = min(witnesses)
                place = next(v for v in variables(node) if v.name == name)
                raise DatalogError.at(
                    place.position,
                    f"{name} is bound inside {node.name} but used outside of it",
                )
            self._witness(node, injected | witnesses, extra, bound, outside)
        scope = next(self.numbers)
        local = {
            name: Variable(f"{name}{LOCAL}{scope}", node.position) for name in within - injected
        }
        inner = self._renamed(node, local)
        inner_bound = frozenset(grounded(inner.body, frozenset(injected)))
        hoisted: list[Literal] = []
        inner_outside = frozenset(
            v.name for b in inner.body for v in literal_variables(b, inside=False)
        )

        def change(child: Expression) -> Expression | None:
            return self._expression(child, inner_bound, inner_outside, hoisted)

        body = [self._literal(b, change) for b in inner.body]
        target = None if inner.target is None else rename(inner.target, change)
        for expression in () if target is None else walk(target):
            if isinstance(expression, Wildcard):
                raise DatalogError.at(
                    expression.position, f"an underscore can't be what {node.name} takes"
                )
        body.extend(hoisted)
        own = {v.name for b in body for v in literal_variables(b, inside=False)}
        if target is not None:
            own |= {v.name for v in variables(target, inside=False)}
        return Aggregate(node.name, target, tuple(body), node.position, frozenset(own - injected))

    @staticmethod
    def _renamed(node: Aggregate, names: dict[str, Variable]) -> Aggregate:
        def change(child: Expression) -> Expression | None:
            if isinstance(child, Variable) and child.name in names:
                return Variable(names[child.name].name, child.position)
            return None

        target = None if node.target is None else rename(node.target, change)
        return Aggregate(
            node.name, target, tuple(rename_literal(b, change) for b in node.body), node.position
        )

    def _witness(
        self,
        node: Aggregate,
        kept: set[str],
        extra: list[Literal],
        bound: frozenset[str],
        outside: frozenset[str],
    ) -> None:
        """Add the body once more outside, where the target takes the extreme value."""
        scope = next(self.numbers)
        names = {
            v.name: Variable(f"{v.name}{LOCAL}{scope}", v.position)
            for v in variables(node)
            if v.name not in kept
        }
        copy = self._renamed(node, names)
        alone = {
            v.name: Variable(f"{v.name}{LOCAL}{scope}w", v.position)
            for v in variables(node)
            if v.name not in kept - {v.name for v in variables(node) if v.name not in bound}
        }
        value = self._renamed(node, alone)
        assert copy.target is not None
        equal = Comparison("=", copy.target, value, node.position)

        def change(child: Expression) -> Expression | None:
            return self._expression(child, bound, outside, extra)

        extra.extend(self._literal(b, change) for b in (*copy.body, equal))


def check_grounded(clause: Clause) -> None:
    """Refuse a resolved clause with a variable that nothing binds."""
    bound = grounded(clause.body)
    head = (Negation(clause.head, clause.head.position),)
    for literal in (*clause.body, *head):
        _check_literal(literal, bound, clause.body)


def _check_literal(literal: Literal, bound: set[str], body: tuple[Literal, ...]) -> None:
    for expression in literal_expressions(literal):
        for variable in variables(expression, inside=False):
            if variable.name not in bound:
                raise DatalogError.at(
                    variable.position, f"variable {shown(variable.name)} is not grounded"
                )
        for aggregate in aggregates(expression):
            _check_aggregate(aggregate, bound)


def _check_aggregate(aggregate: Aggregate, bound: set[str]) -> None:
    inner = grounded(aggregate.body, frozenset(bound))
    for literal in aggregate.body:
        _check_literal(literal, inner, aggregate.body)
    for variable in () if aggregate.target is None else variables(aggregate.target, inside=False):
        if variable.name not in inner:
            raise DatalogError.at(
                variable.position, f"variable {shown(variable.name)} is not grounded"
            )


def needs(aggregate: Aggregate) -> set[str]:
    """Name the variables that a resolved aggregate takes from outside."""
    expressions = [e for b in aggregate.body for e in literal_expressions(b)]
    if aggregate.target is not None:
        expressions.append(aggregate.target)
    names: set[str] = set()
    for expression in expressions:
        names |= required(expression)
    return names - aggregate.local


def required(expression: Expression) -> set[str]:
    """Name the variables that an expression needs, what its aggregates need among them."""
    names = {v.name for v in variables(expression, inside=False)}
    for aggregate in aggregates(expression):
        names |= needs(aggregate)
    return names


def literal_required(literal: Literal) -> set[str]:
    """Name the variables that a literal mentions or needs."""
    names: set[str] = set()
    for expression in literal_expressions(literal):
        names |= required(expression)
    return names


def aggregate_atoms(aggregate: Aggregate) -> Iterator[Atom]:
    """Visit the positive atoms of an aggregate's own body."""
    for literal in aggregate.body:
        if isinstance(literal, Atom):
            yield literal


def counts_rows(aggregate: Aggregate) -> bool:
    """Say whether an aggregate ranges over the rows of one atom, not over distinct bindings.

    Souffle materializes any other body as a set of its named variables first, with `_` among
    them for count only: sum x : { A(x, _), B(x) } adds each x once.
    """
    atoms = list(aggregate_atoms(aggregate))
    if len(atoms) != 1:
        return False
    names = [v.name for a in atoms[0].arguments for v in variables(a)]
    if len(names) != len(set(names)):
        return False
    expressions = [e for b in aggregate.body for e in literal_expressions(b)]
    if aggregate.target is not None:
        expressions.append(aggregate.target)
    for expression in expressions:
        for node in walk(expression):
            if isinstance(node, Aggregate) or (isinstance(node, Functor) and node.name == "range"):
                return False
    return True
