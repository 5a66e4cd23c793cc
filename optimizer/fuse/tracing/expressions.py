"""What waits in a call: expressions of a region, and the values that the region reads.

Expressions say nothing of values: an Input is the value at a place, the same for all calls. What an
operator makes of given expressions is remembered with the first of them (`remembered`), so that a
call which goes the same way as one before meets the same objects, which tell the region it is.

`Record` holds the values and numbers that a region reads, in the order in which the call reached
them; expressions name them by their places. `Places` has the Inputs of a function's regions, the
same for all of its calls. A `Thunk` stands for one value of a call: there, or waiting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any

import numpy as np

from ..blocks.partitioned import Partitioned
from ..program.dag import FLOATS

Attributes = tuple[tuple[str, Any], ...]

# The types that are traced; whatever meets another one is left to NumPy.
TRACED = frozenset(
    ["bool", "float32", "float64"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)


def type_name(dtype: Any) -> str:
    """Return the name of a traced type; "" of one that isn't, or is in another byte order."""
    name = _NAMES.get(dtype)
    if name is None:
        kind = np.dtype(dtype)
        name = _NAMES[dtype] = kind.name if kind.name in TRACED and kind.isnative else ""
    return name


_NAMES: dict[Any, str] = {}


@lru_cache(maxsize=256)
def common_type(first: str, other: str) -> str:
    """Return the type in which NumPy computes with arrays of two types."""
    name: str = np.result_type(np.dtype(first), np.dtype(other)).name
    return name


class Expression:
    """An operator applied to expressions; never changed once others may know it.

    An Input is the value at `place` of what its region reads. A Constant has its value in
    `attributes`, or it is the number at `place` of the region's, rounded to its type. `steady` says
    that a call which goes the same way meets this very object; `following` is what was made of it.
    """

    __slots__ = (
        "attributes",
        "depth",
        "dtype",
        "following",
        "layout",
        "nnz",
        "op",
        "operands",
        "place",
        "places",
        "shape",
        "steady",
    )

    def __init__(
        self,
        op: str,
        operands: tuple[Expression, ...],
        shape: tuple[int, ...],
        dtype: str,
        attributes: Attributes = (),
        layout: str = "dense",
        nnz: int | None = None,
    ) -> None:
        self.op = op
        self.operands = operands
        self.attributes = attributes
        self.shape = shape
        self.dtype = dtype
        self.layout = layout
        self.nnz = nnz
        self.place = -1
        self.places: tuple[int, ...] | None = None
        self.steady = False
        self.following: dict[Hashable, Expression] = {}
        self.depth: int = 1 + max((operand.depth for operand in operands), default=-1)

    def reads(self) -> tuple[int, ...]:
        """Return the places of the values that it is made of."""
        if self.places is None:
            places, seen, waiting = set[int](), set[int](), [self]
            while waiting:
                expression = waiting.pop()
                if id(expression) in seen:
                    continue
                seen.add(id(expression))
                waiting += expression.operands
                if expression.op == "Input":
                    places.add(expression.place)
            self.places = tuple(sorted(places))
        return self.places


# What one expression is remembered to lead to. Numbers that change from call to call, such as an
# exponent, would fill it.
_FOLLOWING = 64


def remembered(
    first: Expression, key: Hashable, build: Callable[[], Expression], *others: Expression
) -> Expression:
    """Return what was built of an expression under this key before, or build it.

    The key must tell all that the result depends on; the `others` that it is built of stand in it
    as themselves.
    """
    result = first.following.get(key)
    if result is None:
        result = build()
        steady = first.steady and all(other.steady for other in others)
        if steady and result is not first and len(first.following) < _FOLLOWING:
            result = first.following.setdefault(key, result)
            result.steady = True
    return result


def numbered(place: int, dtype: str) -> Expression:
    """Return the number at a place of those that the region reads, rounded to its type."""
    expression = Expression("Constant", (), (), dtype)
    expression.place = place
    return expression


def constant(value: float, dtype: str) -> Expression:
    """Return a number known beforehand, rounded to its type."""
    number = np.dtype(dtype).type(value).item()
    return Expression("Constant", (), (), dtype, (("value", number),))


_VIEWS = frozenset(["Unsqueeze", "Squeeze", "Reshape", "Transpose"])


def _is_count(operand: Expression) -> bool:
    """Whether it is how many bools are true, made a whole number of what they are added up in."""
    if operand.op != "Cast" or operand.operands[0].op != "ReduceSum":
        return False
    added = operand.operands[0].operands[0]
    return added.op == "Cast" and added.operands[0].dtype == "bool"


def cast(operand: Expression, dtype: str) -> Expression:
    """Return the operand in another type; itself where it has it."""
    if operand.dtype == dtype:
        return operand
    if operand.op == "Constant" and operand.attributes:
        return constant(operand.attributes[0][1], dtype)
    if dtype in FLOATS and _is_count(operand):
        return cast(operand.operands[0], dtype)
    if operand.op in _VIEWS and operand.layout == "dense" and _is_count(operand.operands[0]):
        (count,) = operand.operands
        inner = cast(count, dtype)
        return Expression(operand.op, (inner,), operand.shape, dtype, operand.attributes)
    return Expression(
        "Cast",
        (operand,),
        operand.shape,
        dtype,
        (("to", dtype),),
        operand.layout,
        operand.nnz,
    )


def elementwise(
    op: str, *operands: Expression, dtype: str | None = None, attributes: Attributes = ()
) -> Expression:
    """Return an operator applied with broadcasting; raises ValueError where shapes don't fit."""
    shape = operands[0].shape
    for operand in operands:
        if operand.shape == shape or not operand.shape:
            continue
        if shape:
            shape = np.broadcast_shapes(*[operand.shape for operand in operands])
            break
        shape = operand.shape
    return Expression(op, operands, shape, dtype or operands[-1].dtype, attributes)


def reduction(
    op: str,
    operand: Expression,
    axes: tuple[int, ...],
    keepdims: bool,
    dtype: str | None = None,
    attributes: Attributes | None = None,
) -> Expression:
    """Return a reduction over axes (not negative, ascending)."""
    shape = tuple(
        1 if axis in axes else extent
        for axis, extent in enumerate(operand.shape)
        if keepdims or axis not in axes
    )
    if attributes is None:
        attributes = (("axes", axes), ("keepdims", int(keepdims)))
    return Expression(op, (operand,), shape, dtype or operand.dtype, attributes)


# So many kinds of values are known, and each at so many places; then all are forgotten.
_KINDS = 1024
_NUMBERS = 4096


class Kind:
    """What is known of a value without reading it; values that plans don't tell apart share one.

    `nnz` is that of the first such value: those of sparse ones count by powers of two.
    """

    __slots__ = ("dtype", "inputs", "layout", "nnz", "shape")

    def __init__(
        self, shape: tuple[int, ...], dtype: str, layout: str = "dense", nnz: int | None = None
    ) -> None:
        self.shape = shape
        self.dtype = dtype
        self.layout = layout
        self.nnz = nnz
        self.inputs: dict[int, Expression] = {}

    def input_at(self, place: int) -> Expression:
        """Return the Input that stands for a value of this kind at a place."""
        expression = self.inputs.get(place)
        if expression is None:
            input_ = Expression("Input", (), self.shape, self.dtype, (), self.layout, self.nnz)
            input_.place, input_.steady = place, True
            expression = self.inputs.setdefault(place, input_)
        return expression


class Places:
    """The kinds of values, and the numbers, that the regions of a function read."""

    __slots__ = ("_kinds", "_numbers")

    def __init__(self) -> None:
        self._kinds: dict[Hashable, Kind] = {}
        self._numbers: dict[tuple[int, str], Expression] = {}

    @property
    def full(self) -> bool:
        """Whether it knows so much that a new one should be begun."""
        return len(self._kinds) >= _KINDS or len(self._numbers) >= _NUMBERS

    def kind(self, value: Any) -> Kind:
        """Return what is known of an ndarray, a canonical sparse array, or one in blocks."""
        dtype = type_name(value.dtype) or value.dtype.name
        if type(value) is np.ndarray:
            return self._kind((value.shape, dtype), value.shape, dtype)
        cut = (value.axis, value.rows) if isinstance(value, Partitioned) else ()
        layout, nnz = "dense", None
        if isinstance(value, Partitioned):
            layout, nnz = value.layout, value.nnz
        elif hasattr(value, "tocsr"):
            layout, nnz = value.format, int(value.nnz)
        bucket = None if nnz is None else round(math.log2(nnz + 1))
        return self._kind(
            (value.shape, dtype, layout, bucket, cut), value.shape, dtype, layout, nnz
        )

    def _kind(
        self,
        key: Hashable,
        shape: tuple[int, ...],
        dtype: str,
        layout: str = "dense",
        nnz: int | None = None,
    ) -> Kind:
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds.setdefault(key, Kind(shape, dtype, layout, nnz))
        return kind

    def number(self, place: int, dtype: str) -> Expression:
        """Return the number at a place of those that a region reads, in a type."""
        expression = self._numbers.get((place, dtype))
        if expression is None:
            new_number = numbered(place, dtype)
            new_number.steady = True
            expression = self._numbers.setdefault((place, dtype), new_number)
        return expression


class Record:
    """The values and numbers that one region reads, by place; each object once."""

    __slots__ = ("_numbered", "_placed", "leaves", "numbers", "places")

    def __init__(self, places: Places) -> None:
        self.places = places
        self.leaves: list[Any] | dict[int, Any] = []
        self.numbers: list[Any] = []
        self._placed: dict[int, Expression] = {}
        self._numbered: dict[int, int] = {}

    def place(self, value: Any, kind: Kind) -> Expression:
        """Return the Input of a value: the next one, where the region didn't read it before."""
        expression = self._placed.get(id(value))
        if expression is None:
            expression = self._placed[id(value)] = kind.input_at(len(self.leaves))
            assert isinstance(self.leaves, list)
            self.leaves.append(value)
        return expression

    def number(self, value: Any) -> int:
        """Return the place of a number of Python's or NumPy's.

        Equal ones are told apart unless they are one object: which are depends on the way alone.
        """
        number = self._numbered.get(id(value))
        if number is None:
            number = self._numbered[id(value)] = len(self.numbers)
            self.numbers.append(value)
        return number

    def only(self, expression: Expression) -> Record:
        """Return a record that holds no more than an expression reads."""
        record = Record(self.places)
        record.numbers = self.numbers
        record.leaves = {place: self.leaves[place] for place in expression.reads()}
        return record


class Thunk:
    """A value that is there, or an expression that waits for it.

    `kind` says its shape, type and layout: a Kind, or the expression. `expression` stands for it in
    the region number `epoch`. One that was left out of its region when that was computed, as nobody
    was to read it, has that region's record in `origin`. `owns_entries` says that a sparse value's
    entries, if not its pattern, are in memory that nothing else has.
    """

    __slots__ = ("epoch", "expression", "kind", "origin", "owns_entries", "value")

    def __init__(self, expression: Expression, epoch: int) -> None:
        self.kind: Expression | Kind = expression
        self.expression: Expression | None = expression
        self.epoch = epoch
        self.value: Any = None
        self.origin: Record | None = None
        self.owns_entries = False

    def resolve(self, value: Any, kind: Kind) -> None:
        """Have a value from now on."""
        self.value, self.kind = value, kind
        self.expression, self.epoch, self.origin, self.owns_entries = None, -1, None, False


def leaf(value: Any, places: Places) -> Thunk:
    """Return what holds a value that is there."""
    thunk = Thunk.__new__(Thunk)
    thunk.value, thunk.kind = value, places.kind(value)
    thunk.expression, thunk.epoch, thunk.origin, thunk.owns_entries = None, -1, None, False
    return thunk
