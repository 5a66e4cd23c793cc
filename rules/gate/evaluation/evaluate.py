"""Statements at concrete sizes and numbers: every definition of both sides, element by element.

A term is computed on a grid of indices: all elements of a tensor at once. Each element has a value
or has none: dividing by 0, the root of a negative number, the maximum of nothing and a read outside
of a tensor give none, and neither does what uses such an element. What a number is, the arithmetic
says: float64, a prime field, or exact intervals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....catalog.operators.expand import Definition
from ....catalog.terms.comparisons import COMPARISONS
from ....catalog.terms.index_notation import Read, Reduce, Symbol, Term, Variable
from ....catalog.terms.numpy_evaluator import PRIMITIVE
from ....catalog.terms.term_evaluator import GridEvaluator, by_index, grid_elements
from ...language.conditions import INTEGERS
from ...prover.statement import Statement
from .arithmetic import (
    KINDS,
    REDUCE,
    Arithmetic,
    Array,
    Assignment,
    Element,
    Kind,
    NoValueError,
    Number,
    Tensor,
    TooLargeError,
    number,
    shape_at,
    stored_as,
)

_SAME = ("+", "-", "*", "neg", "max", "min", "abs", "sign")
# Up to here float64 has every integer.
_LARGEST_POWER = 2.0**53


def converted(element: Element, kind: Kind, arithmetic: Arithmetic) -> Element:
    """An element as one of another kind, as Cast does."""
    actual = element.kind
    if actual == kind or (kind in ("index", "integer") and actual in ("index", "integer")):
        return Element(element.values, element.defined, kind)
    if kind == "real":
        return Element(arithmetic.real(element.values), element.defined, kind)
    if kind == "boolean":
        if actual == "real":
            zero = arithmetic.real(0)
            return Element(
                arithmetic.compare("!=", np.asarray(element.values), zero), element.defined, kind
            )
        return Element(np.not_equal(element.values, 0), element.defined, kind)
    if actual == "real":
        return Element(arithmetic.truncate(np.asarray(element.values)), element.defined, kind)
    return Element(np.asarray(element.values).astype(np.int64), element.defined, kind)


class Grid(GridEvaluator[Element]):
    """Evaluates terms to elements that have a value or none, in an arithmetic of real numbers."""

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        symbols: Mapping[str, Number],
        arithmetic: Arithmetic,
    ) -> None:
        super().__init__()
        self.tensors, self.symbols, self.arithmetic = tensors, symbols, arithmetic

    def constant(self, value: bool | int | float) -> Element:
        """A known number."""
        if isinstance(value, float):
            return Element(self.arithmetic.real(value), True, "real")
        return Element(np.asarray(value), True, "boolean" if isinstance(value, bool) else "index")

    def variable(self, variable: Variable) -> Element:
        """An index."""
        return Element(self.bound[variable], True, "index")

    def symbol(self, symbol: Symbol) -> Element:
        """A size, an integer or a scalar of the rule."""
        value = self.symbols[symbol.name]
        if symbol.kind == "real":
            return Element(self.arithmetic.real(value), True, "real")
        return Element(np.asarray(value), True, "index")

    def junction(self, function: str, left: Term, right: Term) -> Element:
        """What the left side decides, the right side need not be defined for."""
        first = converted(self.value(left), "boolean", self.arithmetic)
        two = converted(self.value(right), "boolean", self.arithmetic)
        decided = first.values if function == "or" else np.logical_not(first.values)
        join = np.logical_or if function == "or" else np.logical_and
        defined = np.logical_and(first.defined, np.logical_or(decided, two.defined))
        return Element(join(first.values, two.values), defined, "boolean")

    def apply(self, function: str, arguments: Sequence[Element]) -> Element:
        """A primitive of elements, which has a value where all of them have one."""
        if function == "pi":
            return Element(self.arithmetic.pi(), True, "real")
        defined: Any = True
        for argument in arguments:
            defined = np.logical_and(defined, argument.defined)
        kinds = {argument.kind for argument in arguments}
        if function.startswith("to_"):
            return self._cast(function.removeprefix("to_"), arguments[0])
        if function in ("not", "xor"):
            truths = [converted(a, "boolean", self.arithmetic).values for a in arguments]
            return Element(PRIMITIVE[function](*truths), defined, "boolean")
        whole = kinds <= {"index", "integer", "boolean"}
        if whole and function in COMPARISONS:
            return Element(PRIMITIVE[function](*(a.values for a in arguments)), defined, "boolean")
        if whole and (function in _WHOLE or (function == "/" and "integer" in kinds)):
            return self._whole(function, arguments, defined)
        reals = [converted(a, "real", self.arithmetic).values for a in arguments]
        if function in COMPARISONS:
            return Element(self.arithmetic.compare(function, *reals), defined, "boolean")
        if function in ("isnan", "is_positive_inf", "is_negative_inf"):
            return Element(np.zeros(np.shape(reals[0]), bool), defined, "boolean")
        if function == "int32":
            return Element(self.arithmetic.truncate(reals[0]), defined, "integer")
        if function == "real":
            return Element(reals[0], defined, "real")
        values, has_value = self.arithmetic.apply(function, reals)
        return Element(values, np.logical_and(defined, has_value), "real")

    def _cast(self, dtype: str, element: Element) -> Element:
        """An element of another type; integers wrap around in theirs."""
        if dtype == "bool":
            return converted(element, "boolean", self.arithmetic)
        if dtype not in INTEGERS:
            return converted(element, "real", self.arithmetic)
        whole = converted(element, "integer", self.arithmetic)
        wrapped = np.asarray(whole.values).astype(np.dtype(dtype)).astype(np.int64)
        if dtype == "uint64" and np.any(wrapped < 0):
            raise NoValueError("a number of 64 bits is more than is computed with")
        return Element(wrapped, whole.defined, "integer")

    def _whole(self, function: str, arguments: Sequence[Element], defined: Any) -> Element:
        """Integers, which wrap around; a division by 0 has no value."""
        kind: Kind = "integer" if any(a.kind == "integer" for a in arguments) else "index"
        values = [np.asarray(a.values) for a in arguments]
        values = [v.astype(np.int64) if v.dtype.kind == "b" else v for v in values]
        if function in ("/", "//", "%", "mod", "fmod"):
            divisor = values[1]
            defined = np.logical_and(defined, divisor != 0)
            values[1] = np.where(divisor == 0, 1, divisor)
        if function == "pow":
            # by way of a float, so that large ones saturate or are rounded
            size = np.abs(np.asarray(values[0], float)) ** np.maximum(values[1], 0)
            defined = np.logical_and(defined, (values[1] >= 0) & (size < _LARGEST_POWER))
            values[1] = np.where(values[1] < 0, 0, values[1])
        if function in ("floor", "ceil", "round", "int32"):
            return Element(values[0], defined, kind)
        return Element(np.asarray(PRIMITIVE[function](*values)), defined, kind)

    def select(self, condition: Term, then: Term, otherwise: Term) -> Element:
        """One of two elements, of a kind that holds both."""
        chosen = converted(self.value(condition), "boolean", self.arithmetic)
        condition_values = np.asarray(chosen.values)
        first = self.value(then)
        if condition_values.all():
            kind = first.kind
            if kind == "index" and not isinstance(otherwise, int):
                kind = _joint(kind, self.value(otherwise).kind)
            return Element(first.values, np.logical_and(chosen.defined, first.defined), kind)
        other = self.value(otherwise)
        kind = _joint(first.kind, other.kind)
        first = converted(first, kind, self.arithmetic)
        other = converted(other, kind, self.arithmetic)
        defined = np.where(condition_values, first.defined, other.defined)
        return Element(
            np.where(condition_values, first.values, other.values),
            np.logical_and(chosen.defined, defined),
            kind,
        )

    def read(self, element: Read) -> Element:
        """An element of a tensor; outside of it there is none."""
        tensor = self.tensors[element.tensor]
        places: list[Array] = []
        defined: Any = True
        for term, extent in zip(element.indices, tensor.values.shape, strict=True):
            index = self.value(term)
            place = np.asarray(index.values)
            inside = np.logical_and(place >= 0, place < extent)
            defined = np.logical_and(np.logical_and(defined, index.defined), inside)
            places.append(np.clip(place, 0, max(extent - 1, 0)).astype(np.int64))
        if 0 in tensor.values.shape:
            nothing: Any = np.zeros((), stored_as(tensor.kind))
            nothing = self.arithmetic.real(nothing) if tensor.kind == "real" else nothing
            return Element(nothing, False, tensor.kind)
        place_of_all = tuple(places)
        return Element(
            np.asarray(tensor.values[place_of_all]),
            np.logical_and(defined, tensor.defined[place_of_all]),
            tensor.kind,
        )

    def reduce(self, reduction: Reduce) -> Element:
        """A reduction, which has a value where all that it is of have one."""
        extents = [max(0, int(number(size, self.symbols))) for size in reduction.extents]
        with self.binding(reduction.variables, extents):
            guard = converted(self.value(reduction.condition), "boolean", self.arithmetic)
            body = self.value(reduction.body)
        kind: Kind = body.kind
        if reduction.kind in ("any", "all"):
            body, kind = converted(body, "boolean", self.arithmetic), "boolean"
        elif kind == "boolean":
            body, kind = converted(body, "integer", self.arithmetic), "integer"
        axes = tuple(range(len(extents)))
        counted = self.spread(guard.values, extents)
        valued = self.spread(body.defined, extents)
        is_defined = self.spread(guard.defined, extents)
        defined = np.logical_and(
            is_defined.all(axis=axes), np.logical_or(~counted, valued).all(axis=axes)
        )
        if reduction.kind in ("max", "min"):
            defined = np.logical_and(defined, counted.any(axis=axes))
        values = self.spread(body.values, extents)
        neutral = self._neutral(reduction.kind, kind)
        if 0 in extents:
            return Element(self._empty(neutral, reduction.kind, kind), defined, kind)
        values = np.where(np.logical_and(counted, valued), values, neutral)
        if kind == "real":
            return Element(self.arithmetic.reduce(reduction.kind, values, axes), defined, kind)
        return Element(REDUCE[reduction.kind](values, axis=axes), defined, kind)

    def _empty(self, neutral: Any, kind: str, of: Kind) -> Any:
        """A reduction of nothing; an extreme of nothing is not defined, whatever stands here."""
        return self.arithmetic.real(0) if of == "real" and kind in ("max", "min") else neutral

    def _neutral(self, kind: str, of: Kind) -> Any:
        if kind in ("any", "all"):
            return np.asarray(kind == "all")
        if of == "real":
            return self.arithmetic.real(self.arithmetic.neutral(kind))
        limits = np.iinfo(np.int64)
        return np.asarray({"sum": 0, "prod": 1, "max": limits.min, "min": limits.max}[kind])


def _joint(first: Kind, two: Kind) -> Kind:
    """The kind of what may be either."""
    if first == two:
        return first
    if "real" in (first, two):
        return "real"
    return "integer" if "integer" in (first, two) else "index"


_WHOLE = frozenset(
    (
        *_SAME, "//", "%", "mod", "fmod", "pow", "floor", "ceil", "round", "int32",
        "bit_and", "bit_or", "bit_xor", "bit_not", "shift_left", "shift_right",
    )
)  # fmt: skip


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
        tensor = _definition(definition, KINDS[algebra], tensors, assignment.symbols, arithmetic)
        dtype = statement.origin and statement.origin.types.get(definition.name)
        if dtype in INTEGERS:
            try:
                wrapped = tensor.values.astype(np.dtype(dtype)).astype(np.int64)
            except OverflowError:  # a literal that no integer of a machine is
                raise NoValueError(f"{definition.name} leaves the range of integers") from None
            tensor = Tensor(wrapped, tensor.defined, tensor.kind)
        tensors[definition.name] = tensor
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
    element = grid.value(term)
    return np.asarray(np.logical_and(element.values, element.defined))


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
    elements = grid_elements(definition.value, lambda size: max(0.0, number(size, symbols)))
    if math.prod(shape) * elements > arithmetic.largest:
        raise TooLargeError(f"{definition.name} takes too many steps at {symbols}")
    grid = Grid(tensors, symbols, arithmetic)
    for variable, extent in zip(definition.indices, shape, strict=True):
        grid.bind(variable, range(extent))
    with np.errstate(all="ignore"):
        element = converted(grid.value(definition.value), kind, arithmetic)
    return Tensor(by_index(element.values, shape), by_index(element.defined, shape), kind)
