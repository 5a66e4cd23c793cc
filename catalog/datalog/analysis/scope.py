"""Which variables are bound where: groundedness, and the scopes of aggregates.

After `resolve`, names are unique: a variable local to an aggregate shares its name with nothing
outside, and every `range` stands alone as `fresh = range(...)`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator

from ...terms.syntax_tree import walk
from ..language.structures import builds, is_pattern
from ..language.syntax import (
    Aggregate,
    Atom,
    Cast,
    Clause,
    Comparison,
    DatalogError,
    Expression,
    Functor,
    Literal,
    Variable,
    Wildcard,
    aggregates,
    literal_variables,
    variables,
)

LOCAL = "@"  # joins a variable's name to its scope's number; no source name contains it


WHOLE = f"record{LOCAL}"  # begins the names of what an atom holds where a structure stands


def shown(name: str) -> str:
    """Spell a variable as the source does."""
    return name.split(LOCAL)[0]


def grounded(literals: Iterable[Literal], bound: frozenset[str] = frozenset()) -> set[str]:
    """Name the variables that a conjunction binds, aggregates taken as values.

    Souffle's rule: a positive atom binds the variables that are its arguments, and an equality
    binds a variable to an expression whose variables are bound.
    """
    names = set(bound)
    pending: list[tuple[set[str], set[str]]] = []
    for literal in literals:
        if isinstance(literal, Atom):
            for argument in literal.arguments:
                names |= bindable(argument)
        elif isinstance(literal, Comparison) and literal.operator == "=":
            for side, other in ((literal.left, literal.right), (literal.right, literal.left)):
                bindable_names = bindable(side)
                if bindable_names and not is_pattern(other):
                    needed = {v.name for v in variables(other, inside=False)}
                    pending.append((bindable_names, needed))
    changed = True
    while changed and pending:
        changed = False
        rest = []
        for bindable_names, needed in pending:
            if needed <= names:
                changed = changed or not bindable_names <= names
                names |= bindable_names
            else:
                rest.append((bindable_names, needed))
        pending = rest
    return names


def bindable(expression: Expression) -> set[str]:
    """Name the variables that get a value where an expression is equated: itself, or its fields."""
    if isinstance(expression, Variable):
        return {expression.name}
    if isinstance(expression, Functor) and builds(expression):
        return set().union(*(bindable(argument) for argument in expression.arguments))
    return set()


def rename(expression: Expression, change: Callable[[Expression], Expression | None]) -> Expression:
    """Copy an expression, with `change` replacing the nodes for which it gives another."""
    replaced = change(expression)
    if replaced is not None:
        return replaced
    if isinstance(expression, Aggregate):
        target = None if expression.target is None else rename(expression.target, change)
        body = tuple(rename_literal(b, change) for b in expression.body)
        return Aggregate(expression.name, target, body, expression.position, expression.local)
    if isinstance(expression, Functor | Cast):
        return expression.with_parts(lambda part: rename(part, change))
    return expression


def rename_literal(literal: Literal, change: Callable[[Expression], Expression | None]) -> Literal:
    """Copy a literal, renaming its expressions."""
    return literal.with_parts(lambda part: rename(part, change))


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
        body, arguments = self._conjunction(clause.body, clause.head.arguments, frozenset())
        head = Atom(clause.head.name, arguments, clause.head.position)
        return Clause(head, body, clause.position)

    def _conjunction(
        self,
        literals: tuple[Literal, ...],
        expressions: tuple[Expression, ...],
        bound: frozenset[str],
    ) -> tuple[tuple[Literal, ...], tuple[Expression, ...]]:
        """Resolve a body and the expressions over it; `bound` are variables from outside of it."""
        literals, expressions = self._with_witnesses(literals, expressions, bound)
        inside = frozenset(grounded(literals, bound))
        hoisted: list[Literal] = []

        def change(node: Expression) -> Expression | None:
            return self._expression(node, inside, hoisted)

        body = [self._flat(self._literal(b, change), hoisted) for b in self._equated(literals)]
        changed = tuple(rename(e, change) for e in expressions)
        return (*body, *hoisted), changed

    @staticmethod
    def _equated(literals: Iterable[Literal]) -> Iterator[Literal]:
        """Replace the equality of two structures by those of their fields."""
        pending = list(literals)[::-1]
        while pending:
            literal = pending.pop()
            if not isinstance(literal, Comparison) or literal.operator != "=":
                yield literal
                continue
            left, right = literal.left, literal.right
            if not (
                isinstance(left, Functor)
                and isinstance(right, Functor)
                and builds(left)
                and builds(right)
                and left.name == right.name
                and 0 < len(left.arguments) == len(right.arguments)
            ):
                yield literal
                continue
            for argument, other in zip(left.arguments, right.arguments, strict=True):
                if not isinstance(argument, Wildcard) and not isinstance(other, Wildcard):
                    pending.append(Comparison("=", argument, other, literal.position))

    def _flat(self, literal: Literal, hoisted: list[Literal]) -> Literal:
        """Take structures with variables out of an atom's arguments: they take its values apart."""
        if not isinstance(literal, Atom):
            return literal
        arguments: list[Expression] = []
        for argument in literal.arguments:
            names = {v.name for v in variables(argument)}
            if builds(argument) and (names or is_pattern(argument)):
                whole = Variable(f"{WHOLE}{next(self.numbers)}", argument.position)
                hoisted.append(Comparison("=", whole, argument, argument.position))
                argument = Variable(whole.name, argument.position)
            arguments.append(argument)
        return Atom(literal.name, tuple(arguments), literal.position)

    def _literal(
        self, literal: Literal, change: Callable[[Expression], Expression | None]
    ) -> Literal:
        if isinstance(literal, Comparison):
            for side in literal.parts:
                fields = {a for n in walk(side) if builds(n) for a in n.parts}
                for node in walk(side):
                    if isinstance(node, Wildcard) and node not in fields:
                        raise DatalogError.at(
                            node.position, "an underscore can't stand in a constraint"
                        )
        return rename_literal(literal, change)

    def _expression(
        self, node: Expression, bound: frozenset[str], hoisted: list[Literal]
    ) -> Expression | None:
        if isinstance(node, Aggregate):
            return self._aggregate(node, bound)
        if isinstance(node, Functor) and node.name == "range":

            def change(inner: Expression) -> Expression | None:
                return self._expression(inner, bound, hoisted)

            arguments = tuple(rename(a, change) for a in node.arguments)
            fresh = Variable(f"range{LOCAL}{next(self.numbers)}", node.position)
            counted = Functor("range", arguments, node.position, node.depth)
            hoisted.append(Comparison("=", fresh, counted, node.position))
            return Variable(fresh.name, node.position)
        return None

    def _aggregate(self, node: Aggregate, bound: frozenset[str]) -> Aggregate:
        within = {v.name for v in variables(node)}
        targets = set() if node.target is None else {v.name for v in variables(node.target)}
        # What the expression reads is the body's where the body binds it.
        injected = (within & bound) - (targets & grounded(node.body, bound - targets))
        scope = next(self.numbers)
        local = {
            name: Variable(f"{name}{LOCAL}{scope}", node.position) for name in within - injected
        }
        for expression in () if node.target is None else walk(node.target):
            if isinstance(expression, Wildcard):
                raise DatalogError.at(
                    expression.position, f"an underscore can't be what {node.name} takes"
                )
        inner = _renamed(node, local)
        targeted = () if inner.target is None else (inner.target,)
        body, taken = self._conjunction(inner.body, targeted, frozenset(injected))
        local_names = {v.name for b in body for v in literal_variables(b, inside=False)}
        local_names |= {v.name for e in taken for v in variables(e, inside=False)}
        target = taken[0] if taken else None
        return Aggregate(node.name, target, body, node.position, frozenset(local_names - injected))

    # -- witnesses

    def _with_witnesses(
        self,
        literals: tuple[Literal, ...],
        expressions: tuple[Expression, ...],
        outer: frozenset[str],
    ) -> tuple[tuple[Literal, ...], tuple[Expression, ...]]:
        """Write what min and max hand out as literals.

        n = min w : { P(a, w) } with `a` used outside becomes g = min w' : { P(a', w') }, n = g,
        P(a, w"), w" = g. Aggregates of one round don't see each other's witnesses, so that each
        ranges over all; those nested in a body that was written out belong to the next round.
        """
        while True:
            bound = grounded(literals, outer)
            everything = (
                *(e for b in literals for e in b.parts),
                *expressions,
            )
            outside = {v.name for e in everything for v in variables(e, inside=False)}
            values: dict[Aggregate, Variable] = {}
            written: list[Literal] = []
            for node in (a for e in everything for a in aggregates(e)):
                within = {v.name for v in variables(node)}
                witnesses = (within & outside) - bound & _handed_out(node)
                if witnesses and node not in values:
                    values[node] = self._written(node, witnesses, bound, written)
            if not values:
                return literals, expressions

            def change(
                node: Expression, values: dict[Aggregate, Variable] = values
            ) -> Expression | None:
                value = values.get(node) if isinstance(node, Aggregate) else None
                return None if value is None else Variable(value.name, node.position)

            literals = (*(rename_literal(b, change) for b in literals), *written)
            expressions = tuple(rename(e, change) for e in expressions)

    def _written(
        self, node: Aggregate, witnesses: set[str], bound: set[str], written: list[Literal]
    ) -> Variable:
        """Write an extreme value and the body once more where it is taken; name the value."""
        if node.name not in ("min", "max"):
            name = min(witnesses)
            place = next(v for v in variables(node) if v.name == name)
            raise DatalogError.at(
                place.position, f"{name} is bound inside {node.name} but used outside of it"
            )
        scope = next(self.numbers)
        assert node.target is not None
        targets = {v.name for v in variables(node.target)}
        shadowing = targets & grounded(node.body, frozenset(bound - targets))
        within = {v.name for v in variables(node)}
        value = Variable(f"{node.name}{LOCAL}{scope}", node.position)
        alone = {name: Variable(f"{name}{LOCAL}{scope}a", node.position) for name in witnesses}
        once_more = {
            name: Variable(f"{name}{LOCAL}{scope}w", node.position)
            for name in within - witnesses - (bound - shadowing)
        }
        copy = _renamed(node, once_more)
        assert copy.target is not None
        written.append(Comparison("=", value, _renamed(node, alone), node.position))
        written.extend(copy.body)
        reached = Variable(value.name, node.position)
        written.append(Comparison("=", reached, copy.target, node.position))
        return value


def _handed_out(node: Aggregate) -> set[str]:
    """Name the variables that an aggregate's body binds, by its own extremes too."""
    names = grounded(node.body)
    for literal in node.body:
        for expression in literal.parts:
            for inner in aggregates(expression):
                if inner.name in ("min", "max"):
                    names |= _handed_out(inner)
    return names


def _renamed(node: Aggregate, names: dict[str, Variable]) -> Aggregate:
    """Copy an aggregate with variables renamed, where they stand in nested ones too."""

    def change(child: Expression) -> Expression | None:
        if isinstance(child, Variable) and child.name in names:
            return Variable(names[child.name].name, child.position)
        return None

    target = None if node.target is None else rename(node.target, change)
    body = tuple(rename_literal(b, change) for b in node.body)
    return Aggregate(node.name, target, body, node.position)


def check_grounded(clause: Clause) -> None:
    """Refuse a resolved clause with a variable that nothing binds."""
    bound = grounded(clause.body)
    for literal in clause.literals:
        _check_literal(literal, bound)


def _check_literal(literal: Literal, bound: set[str]) -> None:
    for expression in literal.parts:
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
        _check_literal(literal, inner)
    for variable in () if aggregate.target is None else variables(aggregate.target, inside=False):
        if variable.name not in inner:
            raise DatalogError.at(
                variable.position, f"variable {shown(variable.name)} is not grounded"
            )


def needs(aggregate: Aggregate) -> set[str]:
    """Name the variables that a resolved aggregate takes from outside."""
    expressions = [e for b in aggregate.body for e in b.parts]
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
    for expression in literal.parts:
        names |= required(expression)
    return names


def aggregate_atoms(aggregate: Aggregate) -> Iterator[Atom]:
    """Visit the positive atoms of an aggregate's own body."""
    for literal in aggregate.body:
        if isinstance(literal, Atom):
            yield literal


def named_wildcards(literal: Literal, numbers: Iterator[int]) -> Literal:
    """Give the underscores of a positive atom names of their own, so that they count."""
    if not isinstance(literal, Atom):
        return literal

    def named(argument: Expression) -> Expression:
        if isinstance(argument, Wildcard):
            return Variable(f"_{next(numbers)}{LOCAL}", argument.position)
        return argument

    return literal.with_parts(named)


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
    expressions = [e for b in aggregate.body for e in b.parts]
    if aggregate.target is not None:
        expressions.append(aggregate.target)
    for expression in expressions:
        for node in walk(expression):
            if isinstance(node, Aggregate) or (isinstance(node, Functor) and node.name == "range"):
                return False
    return True
