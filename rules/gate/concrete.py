"""Statements at concrete sizes and numbers: every definition of both sides, element by element.

Each element has a value or has none: dividing by 0, the root of a negative number, the maximum of
nothing and a read outside of a tensor give none, and neither does what uses such an element. What
a number is, the arithmetic says: float64, a prime field, or exact intervals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ...catalog.operators.expand import Definition
from ...catalog.operators.terms import Apply, Reduce, Select, Term, Variable
from ..conditions import INTEGERS
from ..prover.statement import Statement
from .arithmetic import (
    KINDS,
    Arithmetic,
    Array,
    Assignment,
    Kind,
    NoValueError,
    Number,
    Tensor,
    TooLargeError,
    number,
    shape_at,
    stored_as,
)
from .grid import Grid, converted

# No axis of an array of NumPy is longer, whatever the others are.
_LONGEST = 1 << 40


def compute(
    statement: Statement,
    assignment: Assignment,
    arithmetic: Arithmetic,
    names: frozenset[str] | None = None,
) -> dict[str, Tensor]:
    """The operands and definitions of a statement as tensors, `names` and the operands only.

    Raises NoValueError where a shape is none, TooLargeError for too many elements.
    """
    tensors: dict[str, Tensor] = {}
    for operand in statement.operands:
        array = assignment.arrays[operand.name]
        real = operand.algebra == "real"
        values = arithmetic.real(array) if real else array
        tensors[operand.name] = Tensor(values, np.ones(array.shape, bool), KINDS[operand.algebra])
    for definition in statement.definitions:
        if names is not None and definition.name not in names:
            continue
        algebra = statement.algebras.get(definition.name, "real")
        made = _definition(definition, KINDS[algebra], tensors, assignment.symbols, arithmetic)
        dtype = statement.origin and statement.origin.types.get(definition.name)
        if dtype in INTEGERS:
            try:
                wrapped = made.values.astype(np.dtype(dtype)).astype(np.int64)
            except OverflowError:  # a literal that no integer of a machine is
                raise NoValueError(f"{definition.name} leaves the range of integers") from None
            made = Tensor(wrapped, made.defined, made.kind)
        tensors[definition.name] = made
    return tensors


def holds(
    term: Term,
    variables: Mapping[Variable, Array],
    tensors: Mapping[str, Tensor],
    symbols: Mapping[str, Number],
    arithmetic: Arithmetic,
) -> Array:
    """Where a condition over indices holds; each variable runs along an axis of its own array."""
    grid = Grid(tensors, symbols, arithmetic)
    grid.bound.update(variables)
    grid.depth = max((array.ndim for array in variables.values()), default=0)
    found = grid.element(term)
    return np.asarray(np.logical_and(found.values, found.defined))


def _definition(
    definition: Definition,
    kind: Kind,
    tensors: Mapping[str, Tensor],
    symbols: Mapping[str, Number],
    arithmetic: Arithmetic,
) -> Tensor:
    shape = shape_at(definition.shape, symbols)
    if any(size > _LONGEST for size in shape):
        raise TooLargeError(f"{definition.name} is too large at {symbols}")
    if 0 in shape:
        values: Array = np.zeros(shape, stored_as(kind))
        real = kind == "real"
        return Tensor(arithmetic.real(values) if real else values, np.ones(shape, bool), kind)
    if math.prod(shape) * _volume(definition.value, symbols) > arithmetic.largest:
        raise TooLargeError(f"{definition.name} takes too many steps at {symbols}")
    grid = Grid(tensors, symbols, arithmetic)
    for variable, extent in zip(definition.indices, shape, strict=True):
        grid.bind(variable, extent)
    with np.errstate(all="ignore"):
        found = converted(grid.element(definition.value), kind, arithmetic)
    # axis -(v + 1) of the grid is the v-th index
    order = range(len(shape))[::-1]
    values = np.broadcast_to(np.asarray(found.values), shape[::-1]).transpose(order)
    defined = np.broadcast_to(np.asarray(found.defined), shape[::-1]).transpose(order)
    return Tensor(values, defined, kind)


def _volume(term: Term, symbols: Mapping[str, Number]) -> float:
    """How many elements a reduction's grid has for one element of the output."""
    match term:
        case Reduce(_, _, extents, _, body):
            own = math.prod(float(max(0, number(extent, symbols))) for extent in extents)
            return own * _volume(body, symbols)
        case Apply(_, arguments):
            return max([1.0, *(_volume(argument, symbols) for argument in arguments)])
        case Select(_, then, otherwise):
            return max(_volume(then, symbols), _volume(otherwise, symbols))
        case _:
            return 1.0
