"""Expressions of a region: operators applied to the values that the region reads.

They say nothing of values: an Input is the value at a place, the same for all calls. What an
operator makes of given expressions is remembered with the first of them (`remembered`), so that a
call which goes the same way as one before meets the same objects, which tell the region it is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any

import numpy as np

Attributes = tuple[tuple[str, Any], ...]

# The types that are traced; whatever meets another one is left to NumPy.
TRACED = frozenset(
    ["bool", "float32", "float64"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)


def type_name(dtype: Any) -> str:
    """Return the name of a traced type; "" of one that isn't, or is in another byte order."""
    found = _NAMES.get(dtype)
    if found is None:
        kind = np.dtype(dtype)
        found = _NAMES[dtype] = kind.name if kind.name in TRACED and kind.isnative else ""
    return found


_NAMES: dict[Any, str] = {}


@lru_cache(maxsize=256)
def common_type(one: str, other: str) -> str:
    """Return the type in which NumPy computes with arrays of two types."""
    found: str = np.result_type(np.dtype(one), np.dtype(other)).name
    return found


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
        self.depth: int = 1 + max((one.depth for one in operands), default=-1)

    def reads(self) -> tuple[int, ...]:
        """Return the places of the values that it is made of."""
        if self.places is None:
            found, seen, waiting = set[int](), set[int](), [self]
            while waiting:
                one = waiting.pop()
                if id(one) in seen:
                    continue
                seen.add(id(one))
                waiting += one.operands
                if one.op == "Input":
                    found.add(one.place)
            self.places = tuple(sorted(found))
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
    found = first.following.get(key)
    if found is None:
        found = build()
        steady = first.steady and all(one.steady for one in others)
        if steady and found is not first and len(first.following) < _FOLLOWING:
            found = first.following.setdefault(key, found)
            found.steady = True
    return found


def numbered(place: int, dtype: str) -> Expression:
    """Return the number at a place of those that the region reads, rounded to its type."""
    found = Expression("Constant", (), (), dtype)
    found.place = place
    return found


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
    if dtype in ("float32", "float64") and _is_count(operand):
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
            shape = np.broadcast_shapes(*[each.shape for each in operands])
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
