"""Taking an axis away from a statement along which both sides act point by point."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from ....catalog.operators.expand import Definition
from ....catalog.terms.index_notation import (
    Apply,
    Read,
    Reduce,
    Select,
    Symbol,
    Term,
    Variable,
    apply,
    children,
    map_children,
    select,
    subterms,
    symbol_names,
    tensors_read,
)
from ....catalog.terms.term_evaluator import PrefixText
from ..statement import Operand, Statement

T = TypeVar("T")


@dataclass(frozen=True)
class Program:
    """What of a statement decides its truth: operands, tensors that are read, conditions."""

    operands: tuple[Operand, ...]
    definitions: tuple[Definition, ...]
    equations: tuple[tuple[str, str], ...]
    assumptions: tuple[Term, ...]
    obligations: tuple[Term, ...]

    @staticmethod
    def of(statement: Statement) -> Program:
        """The program of a statement, without the tensors that nothing reads."""
        wanted = {
            name for equation in statement.equations for name in (equation.source, equation.target)
        }
        for definition in reversed(statement.definitions):
            if definition.name in wanted:
                wanted |= tensors_read(definition.value)
        return Program(
            tuple(operand for operand in statement.operands if operand.name in wanted),
            tuple(
                _without_range_checks(definition)
                for definition in statement.definitions
                if definition.name in wanted
            ),
            tuple((equation.source, equation.target) for equation in statement.equations),
            statement.assumptions,
            tuple(obligation.condition for obligation in statement.obligations),
        )

    @property
    def shapes(self) -> dict[str, tuple[Term, ...]]:
        """The shapes of all tensors, in order of use."""
        operand_shapes = {operand.name: operand.shape for operand in self.operands}
        return operand_shapes | {
            definition.name: definition.shape for definition in self.definitions
        }


def _without_range_checks(definition: Definition) -> Definition:
    """A definition without what is so wherever it is looked at: each index is within its range."""
    ranges = dict(zip(definition.indices, definition.shape, strict=True))
    return replace(definition, value=_within(definition.value, ranges))


def _within(term: Term, ranges: Mapping[Variable, Term]) -> Term:
    """A term where indices are at least 0 and below their extents; those below 1 are 0."""
    match term:
        case Variable():
            return 0 if ranges.get(term) == 1 else term
        case Apply("<=", (0, Variable() as index)) if index in ranges:
            return True
        case Apply("<", (Variable() as index, extent)) if ranges.get(index) == extent:
            return True
        case Apply("and" | "or" as function, arguments):
            return apply(function, *(_within(argument, ranges) for argument in arguments))
        case Select(condition, then, otherwise):
            return select(*(_within(child, ranges) for child in (condition, then, otherwise)))
        case Reduce(kind, variables, extents, condition, body):
            inner = {**ranges, **dict(zip(variables, extents, strict=True))}
            guard, whole = (_within(child, inner) for child in (condition, body))
            return Reduce(kind, variables, extents, guard, whole)
        case _:
            return map_children(lambda part: _within(part, ranges), term)


def slices(statement: Statement, name: str, smaller: Collection[str]) -> bool:
    """Whether an axis can be taken away so that a case is left that was looked at as well.

    `smaller` are the cases in which what `name` measures is one shorter, in canonical spelling.
    """
    extent = statement.free[name]
    if not statement.equations or not extent.places:
        return False
    program = Program.of(statement)
    for axis in range(extent.length):
        start = {tensor: first + axis for tensor, first in extent.places}
        less = _without_axis(program, start)
        if less is not None and canonical(less) in smaller:
            return True
    return False


def _without_axis(program: Program, start: Mapping[str, int]) -> Program | None:
    """The program on a slice along the axis at which it starts; None if not point by point."""
    shapes = program.shapes
    places = {tensor: place for tensor, place in start.items() if tensor in shapes}
    axis_symbols: set[str] = set()
    if not places:
        return None
    while True:
        axis_symbols = axis_symbols.union(
            *(symbol_names(shapes[tensor][axis]) for tensor, axis in places.items())
        )
        extended = dict(places)
        for tensor, shape in shapes.items():
            axes = [p for p, size in enumerate(shape) if axis_symbols & symbol_names(size)]
            if len(axes) > 1 or (axes and extended.setdefault(tensor, axes[0]) != axes[0]):
                return None
        for definition in program.definitions:
            if definition.name in extended:
                index = definition.indices[extended[definition.name]]
                for part in subterms(definition.value):
                    if not isinstance(part, Read):
                        continue
                    axes = [
                        place
                        for place, i in enumerate(part.indices)
                        if index in set(_outside_reads(i))  # the others are places of theirs
                    ]
                    if len(axes) > 1 or (
                        axes and extended.setdefault(part.tensor, axes[0]) != axes[0]
                    ):
                        return None
            elif (place := _unit(definition, extended, shapes)) is not None:
                extended[definition.name] = place
        if extended == places:
            break
        places = extended
    unit_tensors = {tensor for tensor, axis in places.items() if shapes[tensor][axis] == 1}
    definitions = []
    for definition in program.definitions:
        place = places.get(definition.name)
        axis_index = None if place is None else definition.indices[place]
        try:
            value = _sliced(definition.value, axis_index, places, unit_tensors)
        except _ReadElsewhereError:
            return None
        if axis_symbols & symbol_names(value) or axis_index in set(subterms(value)):
            return None
        definitions.append(
            Definition(
                definition.name,
                without(definition.shape, place),
                without(definition.indices, place),
                value,
            )
        )
    assumptions = []
    for condition in program.assumptions:
        symbols = symbol_names(condition)
        if symbols & axis_symbols and not symbols <= axis_symbols:
            return None
        if not symbols & axis_symbols:
            assumptions.append(condition)
    operands = tuple(
        replace(operand, shape=without(operand.shape, places.get(operand.name)))
        for operand in program.operands
    )
    for condition in program.obligations:
        if symbol_names(condition) & axis_symbols and not symbol_names(condition) <= axis_symbols:
            return None
    return Program(operands, tuple(definitions), program.equations, tuple(assumptions), ())


def _outside_reads(term: Term) -> Iterator[Term]:
    """Yield a term and the terms inside of it, but not those at which an element of it is read."""
    yield term
    if not isinstance(term, Read):
        for part in children(term):
            yield from _outside_reads(part)


def _unit(
    definition: Definition, places: Mapping[str, int], shapes: Mapping[str, tuple[Term, ...]]
) -> int | None:
    """The axis of a result, of size 1, that stands over an axis of size 1 that is taken away.

    Only a constant of one element has such an axis: nothing else tells that the result has it from
    there. At worst it is another axis of size 1, and what is left was not proved.
    """
    for part in subterms(definition.value):
        if isinstance(part, Read) and part.tensor in places:
            shape = shapes[part.tensor]
            place = places[part.tensor] - len(shape) + len(definition.shape)
            if shape[places[part.tensor]] == 1 and place >= 0 and definition.shape[place] == 1:
                return place
    return None


class _ReadElsewhereError(Exception):
    """A tensor is read elsewhere than at its own index along the axis."""


def _sliced(
    term: Term, index: Variable | None, places: Mapping[str, int], unit_tensors: Collection[str]
) -> Term:
    """A value with the axis left out of all reads; raises _ReadElsewhereError.

    `unit_tensors` are the tensors of which the axis has the size 1.
    """
    match term:
        case Read(tensor, indices):
            place = places.get(tensor)
            if place is not None and not (
                _stays(indices[place], index) or (indices[place] == 0 and tensor in unit_tensors)
            ):
                raise _ReadElsewhereError
            kept = without(indices, place)
            return Read(
                tensor,
                tuple(_sliced(kept_index, index, places, unit_tensors) for kept_index in kept),
            )
        case _:
            return map_children(lambda part: _sliced(part, index, places, unit_tensors), term)


def without(items: tuple[T, ...], place: int | None) -> tuple[T, ...]:
    """A tuple without the item at a place; None: all of it."""
    return items if place is None else (*items[:place], *items[place + 1 :])


def _stays(place: Term, index: Variable | None) -> bool:
    """Whether a tensor is read at the index itself, or at 0 where its dimension is 1."""
    if index is None:
        return False
    match place:
        case Select(Apply("=", (_, 1)), 0, inner):
            return inner == index
        case _:
            return place == index


def _single(program: Program) -> set[tuple[str, int]]:
    """The axes of operands, by tensor and place, whose only index is known wherever it stands."""
    unit_axes = {
        (operand.name, axis)
        for operand in program.operands
        for axis, size in enumerate(operand.shape)
        if type(size) is int and size == 1
    }
    outputs = {name for pair in program.equations for name in pair}
    for definition in program.definitions:
        for part in subterms(definition.value):
            if isinstance(part, Read):
                unit_axes -= {
                    (part.tensor, axis) for axis, index in enumerate(part.indices) if index != 0
                }
    return {(tensor, axis) for tensor, axis in unit_axes if tensor not in outputs}


class _Numbered(PrefixText):
    """Spells terms in which symbols and indices have numbers by order of use."""

    def __init__(self, single: set[tuple[str, int]]) -> None:
        """`single` are the axes, by tensor and place, along which only one index is read."""
        self.single = single
        self.symbols: dict[Symbol, str] = {}
        self.variables: dict[Variable, str] = {}

    def symbol(self, symbol: Symbol) -> str:
        """Spell a symbol by its kind and its number."""
        return self.symbols.setdefault(symbol, f"{symbol.kind[0]}{self._count}")

    def variable(self, variable: Variable) -> str:
        """Spell an index by its number."""
        return self.variables.setdefault(variable, f"v{self._count}")

    @property
    def _count(self) -> int:
        return len(self.symbols) + len(self.variables)

    def read(self, element: Read) -> str:
        """Spell an element, without the index of an axis that has one alone."""
        tensor = element.tensor
        indices = [i for axis, i in enumerate(element.indices) if (tensor, axis) not in self.single]
        return f"{tensor}[{self.values(indices)}]"


def canonical(program: Program) -> str:
    """A spelling of a program in which symbols and indices have numbers by order of use.

    Axes of size 1 that operands are only read at 0 along say nothing, and are left out.
    """
    text = _Numbered(_single(program))
    lines = []
    for operand in program.operands:
        axes = enumerate(operand.shape)
        sizes = [size for axis, size in axes if (operand.name, axis) not in text.single]
        lines.append(f"{operand.name} {operand.algebra} {text.values(sizes)}")
    for definition in program.definitions:
        text.variables = {index: f"i{axis}" for axis, index in enumerate(definition.indices)}
        shape, value = text.values(definition.shape), text.value(definition.value)
        lines.append(f"{definition.name} {shape} = {value}")
    lines += [f"{source} = {target}" for source, target in program.equations]
    symbols_used = set(text.symbols)
    for condition in program.assumptions:
        if {part for part in subterms(condition) if isinstance(part, Symbol)} <= symbols_used:
            lines.append(text.value(condition))
    return "\n".join(lines)
