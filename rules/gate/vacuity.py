"""Rules that say nothing: both sides the same program, conditions that can't hold, no values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import count
from typing import TYPE_CHECKING

from ...catalog.terms.index_notation import (
    Apply,
    Read,
    Reduce,
    Select,
    Symbol,
    Term,
    Variable,
    map_children,
)
from ..language.syntax import Input, PatternNode, Rule

if TYPE_CHECKING:
    from ..prover.statement import Statement


def same_program(rule: Rule) -> bool:
    """Whether both sides are written alike, whatever the values on the way are called.

    Operands in another order are another program: that they commute is something to be proved.
    """
    aliases = {alias.output: alias.source for alias in rule.aliases}
    return _written_out(rule.match, {}, rule.outputs) == _written_out(
        rule.rewrite, aliases, rule.outputs
    )


def _written_out(
    nodes: Sequence[PatternNode], aliases: dict[str, Input], outputs: Sequence[str]
) -> tuple[object, ...]:
    makers = {o.value: (node, i) for node in nodes for i, o in enumerate(node.outputs)}

    def value(name: str) -> object:
        if name in aliases:
            return argument(aliases[name])
        if name not in makers:
            return name
        node, output = makers[name]
        attributes = tuple(sorted((key, repr(said)) for key, said in node.attributes))
        inputs = tuple(argument(item) for item in node.inputs)
        stars = tuple(o.star for o in node.outputs)
        return (output, stars, node.operator, node.choices, attributes, node.rest, inputs)

    def argument(input_: Input) -> object:
        if input_.value is None:
            return repr(input_.literal)
        return (input_.star, input_.optional, value(input_.value))

    return tuple(value(name) for name in outputs)


def has_no_value(statement: Statement) -> bool:
    """Whether no element of the left side has a value, at any sizes: all are read out of bounds.

    Both sides of such a statement agree, as neither has anything that could differ. What isn't
    understood is left out, so that False says nothing.
    """
    from .counterexample.symbol_values import unsatisfiable  # loads Z3

    shapes = {operand.name: operand.shape for operand in statement.operands}
    shapes |= {definition.name: definition.shape for definition in statement.definitions}
    return bool(statement.equations) and all(
        unsatisfiable(
            statement, list(_Needs(statement).element(equation.source, shapes[equation.source]))
        )
        for equation in statement.equations
    )


class _Needs:
    """What must hold for an element to have a value, in terms of sizes and unknown numbers.

    Those are positions of outputs, and elements of operands, which may serve as indices.
    """

    def __init__(self, statement: Statement) -> None:
        self.operands = {operand.name: operand for operand in statement.operands}
        self.definitions = {definition.name: definition for definition in statement.definitions}
        self.numbers = count()

    def element(self, tensor: str, shape: Sequence[Term]) -> Iterator[Term]:
        """Yield what some element of a tensor needs."""
        yield from self._read(tensor, [self._unknown("position", "integer") for _ in shape])

    def _unknown(self, name: str, kind: str) -> Symbol:
        return Symbol(f"{name} {next(self.numbers)}", kind)

    def _read(self, tensor: str, places: Sequence[Term]) -> Iterator[Term]:
        defined = self.definitions.get(tensor)
        shape = self.operands[tensor].shape if defined is None else defined.shape
        for place, size in zip(places, shape, strict=True):
            yield Apply("and", (Apply(">=", (place, 0)), Apply("<", (place, size))))
        if defined is not None:
            known = dict(zip(defined.indices, places, strict=True))
            yield from self._value(defined.value, known)

    def _value(self, term: Term, known: Mapping[Variable, Term]) -> Iterator[Term]:
        match term:
            case Read(tensor, indices):
                for index in indices:
                    yield from self._value(index, known)
                yield from self._read(tensor, [self._index(index, known) for index in indices])
            case Apply("and" | "or", (first, _)):
                yield from self._value(first, known)
            case Apply(_, arguments):
                for argument in arguments:
                    yield from self._value(argument, known)
            case Select(condition, then, otherwise):
                yield from self._value(condition, known)
                chosen = self._index(condition, known)
                for turn, part in ((Apply("not", (chosen,)), then), (chosen, otherwise)):
                    if needs := list(self._value(part, known)):
                        both = reduce(lambda first, other: Apply("and", (first, other)), needs)
                        yield Apply("or", (turn, both))

    def _index(self, term: Term, known: Mapping[Variable, Term]) -> Term:
        """A term over sizes and unknown numbers."""
        match term:
            case Variable():
                return known.get(term, term)
            case Read(tensor, indices):
                places = tuple(self._index(index, known) for index in indices)
                if tensor in self.definitions:
                    definition = self.definitions[tensor]
                    return self._index(
                        definition.value, dict(zip(definition.indices, places, strict=True))
                    )
                kind = "integer" if self.operands[tensor].algebra == "integer" else "real"
                return Symbol(str(Read(tensor, places)), kind)
            case Reduce():
                return self._unknown(term.kind, "real")
            case _:
                return map_children(lambda part: self._index(part, known), term)
