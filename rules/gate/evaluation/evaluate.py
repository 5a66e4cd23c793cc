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

from ....catalog.operators.evaluate import PRIMITIVE
from ....catalog.operators.expand import Definition
from ....catalog.operators.terms import Apply, Read, Reduce, Select, Symbol, Term, Variable
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

_RELATIONS = ("=", "!=", "<", "<=", ">", ">=")
_SAME = ("+", "-", "*", "neg", "max", "min", "abs", "sign")


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


class Grid:
    """Indices bound to axes: the v-th bound index runs along axis -(v + 1)."""

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        symbols: Mapping[str, Number],
        arithmetic: Arithmetic,
    ) -> None:
        self.tensors, self.symbols, self.arithmetic = tensors, symbols, arithmetic
        self.bound: dict[Variable, Array] = {}
        self.depth = 0

    def bind(self, variable: Variable, extent: int) -> None:
        """Let an index run along the next axis, to the left of those that are bound."""
        self.bound[variable] = np.arange(extent).reshape((-1,) + (1,) * self.depth)
        self.depth += 1

    def element(self, term: Term) -> Element:
        """A term on the grid."""
        match term:
            case bool():
                return Element(np.asarray(term), True, "boolean")
            case int():
                return Element(np.asarray(term), True, "index")
            case float():
                return Element(self.arithmetic.real(term), True, "real")
            case Variable():
                return Element(self.bound[term], True, "index")
            case Symbol(name, kind):
                value = self.symbols[name]
                if kind == "real":
                    return Element(self.arithmetic.real(value), True, "real")
                return Element(np.asarray(value), True, "index")
            case Apply("pi", ()):
                return Element(self.arithmetic.pi(), True, "real")
            case Apply(("and" | "or") as function, (left, right)):
                return self._logical(function, left, right)
            case Apply(function, arguments):
                return self._apply(function, [self.element(argument) for argument in arguments])
            case Select():
                return self._select(term)
            case Read(tensor, indices):
                return self._read(tensor, indices)
            case Reduce():
                return self._reduce(term)

    def _logical(self, function: str, left: Term, right: Term) -> Element:
        """What the left side decides, the right side need not be defined for."""
        first = converted(self.element(left), "boolean", self.arithmetic)
        two = converted(self.element(right), "boolean", self.arithmetic)
        decided = first.values if function == "or" else np.logical_not(first.values)
        join = np.logical_or if function == "or" else np.logical_and
        defined = np.logical_and(first.defined, np.logical_or(decided, two.defined))
        return Element(join(first.values, two.values), defined, "boolean")

    def _apply(self, function: str, arguments: list[Element]) -> Element:
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
        if whole and function in _RELATIONS:
            return Element(PRIMITIVE[function](*(a.values for a in arguments)), defined, "boolean")
        if whole and (function in _WHOLE or (function == "/" and "integer" in kinds)):
            return self._whole(function, arguments, defined)
        reals = [converted(a, "real", self.arithmetic).values for a in arguments]
        if function in _RELATIONS:
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

    def _whole(self, function: str, arguments: list[Element], defined: Any) -> Element:
        """Integers, which wrap around; a division by 0 has no value."""
        kind: Kind = "integer" if any(a.kind == "integer" for a in arguments) else "index"
        values = [np.asarray(a.values) for a in arguments]
        values = [v.astype(np.int64) if v.dtype.kind == "b" else v for v in values]
        if function in ("/", "//", "%", "mod", "fmod"):
            divisor = values[1]
            defined = np.logical_and(defined, divisor != 0)
            values[1] = np.where(divisor == 0, 1, divisor)
        if function == "pow":
            defined = np.logical_and(defined, values[1] >= 0)
            values[1] = np.where(values[1] < 0, 0, values[1])
        if function in ("floor", "ceil", "round", "int32"):
            return Element(values[0], defined, kind)
        return Element(np.asarray(PRIMITIVE[function](*values)), defined, kind)

    def _select(self, term: Select) -> Element:
        chosen = converted(self.element(term.condition), "boolean", self.arithmetic)
        known = np.asarray(chosen.values)
        if known.all():
            then = self.element(term.then)
            return Element(
                then.values, np.logical_and(chosen.defined, then.defined), self._joint(term, then)
            )
        then, otherwise = self.element(term.then), self.element(term.otherwise)
        kind = _joint(then.kind, otherwise.kind)
        first = converted(then, kind, self.arithmetic)
        two = converted(otherwise, kind, self.arithmetic)
        defined = np.where(known, first.defined, two.defined)
        return Element(
            np.where(known, first.values, two.values), np.logical_and(chosen.defined, defined), kind
        )

    def _joint(self, term: Select, then: Element) -> Kind:
        """The kind of a choice whose other term is never chosen."""
        if then.kind == "index" and not isinstance(term.otherwise, int):
            return _joint(then.kind, self.element(term.otherwise).kind)
        return then.kind

    def _read(self, name: str, indices: Sequence[Term]) -> Element:
        tensor = self.tensors[name]
        places: list[Array] = []
        defined: Any = True
        for index, extent in zip(indices, tensor.values.shape, strict=True):
            index_element = self.element(index)
            place = np.asarray(index_element.values)
            inside = np.logical_and(place >= 0, place < extent)
            defined = np.logical_and(np.logical_and(defined, index_element.defined), inside)
            places.append(np.clip(place, 0, max(extent - 1, 0)).astype(np.int64))
        if 0 in tensor.values.shape:
            nothing: Any = np.zeros((), stored_as(tensor.kind))
            nothing = self.arithmetic.real(nothing) if tensor.kind == "real" else nothing
            return Element(nothing, False, tensor.kind)
        element = tuple(places)
        return Element(
            np.asarray(tensor.values[element]),
            np.logical_and(defined, tensor.defined[element]),
            tensor.kind,
        )

    def _reduce(self, term: Reduce) -> Element:
        depth = self.depth
        extents = [int(number(extent, self.symbols)) for extent in term.extents]
        for variable, extent in zip(term.variables, extents, strict=True):
            self.bind(variable, max(extent, 0))
        try:
            guard = converted(self.element(term.condition), "boolean", self.arithmetic)
            body = self.element(term.body)
        finally:
            self.depth = depth
        kind: Kind = body.kind
        if term.kind in ("any", "all"):
            body, kind = converted(body, "boolean", self.arithmetic), "boolean"
        elif kind == "boolean":
            body, kind = converted(body, "integer", self.arithmetic), "integer"
        ndim = depth + len(extents)
        axes = tuple(range(len(extents)))
        counted = self._spread(guard.values, ndim, extents)
        valued = self._spread(body.defined, ndim, extents)
        known = self._spread(guard.defined, ndim, extents)
        defined = np.logical_and(
            known.all(axis=axes), np.logical_or(~counted, valued).all(axis=axes)
        )
        if term.kind in ("max", "min"):
            defined = np.logical_and(defined, counted.any(axis=axes))
        values = self._spread(body.values, ndim, extents)
        neutral = self._neutral(term.kind, kind)
        if any(extent <= 0 for extent in extents):
            return Element(self._empty(neutral, term.kind, kind), defined, kind)
        values = np.where(np.logical_and(counted, valued), values, neutral)
        if kind == "real":
            return Element(self.arithmetic.reduce(term.kind, values, axes), defined, kind)
        return Element(REDUCE[term.kind](values, axis=axes), defined, kind)

    def _spread(self, values: Any, ndim: int, extents: Sequence[int]) -> Array:
        """Values over all of a reduction's own axes, which are the first ones."""
        array = np.asarray(values)
        array = array.reshape((1,) * (ndim - array.ndim) + array.shape)
        sizes = tuple(max(extent, 0) for extent in reversed(extents))
        return np.broadcast_to(array, sizes + array.shape[len(extents) :])

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
    element = grid.element(term)
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
    if math.prod(shape) * _volume(definition.value, symbols) > arithmetic.largest:
        raise TooLargeError(f"{definition.name} takes too many steps at {symbols}")
    grid = Grid(tensors, symbols, arithmetic)
    for variable, extent in zip(definition.indices, shape, strict=True):
        grid.bind(variable, extent)
    with np.errstate(all="ignore"):
        element = converted(grid.element(definition.value), kind, arithmetic)
    # axis -(v + 1) of the grid is the v-th index
    order = range(len(shape))[::-1]
    values = np.broadcast_to(np.asarray(element.values), shape[::-1]).transpose(order)
    defined = np.broadcast_to(np.asarray(element.defined), shape[::-1]).transpose(order)
    return Tensor(values, defined, kind)


def _volume(term: Term, symbols: Mapping[str, Number]) -> float:
    """How many elements a reduction's grid has for one element of the output."""
    match term:
        case Reduce(_, _, extents, _, body):
            volume = math.prod(float(max(0, number(extent, symbols))) for extent in extents)
            return volume * _volume(body, symbols)
        case Apply(_, arguments):
            return max([1.0, *(_volume(argument, symbols) for argument in arguments)])
        case Select(_, then, otherwise):
            return max(_volume(then, symbols), _volume(otherwise, symbols))
        case _:
            return 1.0
