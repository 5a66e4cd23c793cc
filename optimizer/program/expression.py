"""Expressions that wait to be computed, and the program that computes some of them together.

An expression becomes a leaf with a value when it has been computed, so that everything that reads
it sees the value from then on and what it was made of is freed.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..blocks.partitioned import Partitioned
from .dag import Node, Program

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
    """An operator applied to expressions, or (op Input) a value that is there.

    `value` is an ndarray, a canonical sparse array of SciPy's, or one of these in blocks.
    """

    __slots__ = (
        "attributes",
        "depth",
        "dtype",
        "layout",
        "nnz",
        "op",
        "operands",
        "shape",
        "value",
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
        self.value: Any = None
        self.depth = 0
        self.measure()

    def measure(self) -> None:
        """Count the operators on the longest way to a value that is there.

        An operand just built for this one, such as a Cast, isn't counted anew: it adds little.
        """
        depth = 0
        for operand in self.operands:
            if operand.depth >= depth:
                depth = operand.depth + 1
        self.depth = depth

    @property
    def is_leaf(self) -> bool:
        """Whether a value is there."""
        return self.op == "Input"

    def settle(self, value: Any) -> None:
        """Become a leaf with this value."""
        self.op, self.operands, self.attributes = "Input", (), ()
        self.value, self.depth = value, 0
        self.shape, self.dtype = value.shape, type_name(value.dtype) or value.dtype.name
        if isinstance(value, Partitioned):
            self.layout, self.nnz = value.layout, value.nnz
        elif hasattr(value, "tocsr"):
            self.layout, self.nnz = value.format, int(value.nnz)
        else:
            self.layout, self.nnz = "dense", None


def leaf(value: Any) -> Expression:
    """Return an expression whose value is there."""
    found = Expression("Input", (), value.shape, "")
    found.settle(value)
    return found


def constant(value: float, dtype: str) -> Expression:
    """Return a number known beforehand, rounded to its type."""
    number = np.dtype(dtype).type(value).item()
    return Expression("Constant", (), (), dtype, (("value", number),))


def cast(operand: Expression, dtype: str) -> Expression:
    """Return the operand in another type; itself where it has it."""
    if operand.dtype == dtype:
        return operand
    if operand.op == "Constant":
        return constant(operand.attributes[0][1], dtype)
    return Expression(
        "Cast",
        (operand,),
        operand.shape,
        dtype,
        (("to", dtype),),
        operand.layout,
        operand.nnz,
    )


def elementwise(op: str, *operands: Expression, dtype: str | None = None) -> Expression:
    """Return an operator applied with broadcasting; raises ValueError where shapes don't fit."""
    shape = operands[0].shape
    for operand in operands:
        if operand.shape == shape or not operand.shape:
            continue
        if shape:
            shape = np.broadcast_shapes(*[each.shape for each in operands])
            break
        shape = operand.shape
    return Expression(op, operands, shape, dtype or operands[-1].dtype)


def reduction(
    op: str, operand: Expression, axes: tuple[int, ...], keepdims: bool, dtype: str | None = None
) -> Expression:
    """Return a reduction over axes (not negative, ascending)."""
    shape = tuple(
        1 if axis in axes else extent
        for axis, extent in enumerate(operand.shape)
        if keepdims or axis not in axes
    )
    attributes = (("axes", axes), ("keepdims", int(keepdims)))
    return Expression(op, (operand,), shape, dtype or operand.dtype, attributes)


@dataclass(frozen=True, slots=True)
class Region:
    """Expressions each after its operands, which `operands` names by position.

    `leaves` and `constants` are the values by position; `key` is what the region is known by: it
    leaves out those values.
    """

    expressions: tuple[Expression, ...]
    operands: tuple[tuple[int, ...], ...]
    leaves: Mapping[int, Any]
    outputs: tuple[int, ...]
    constants: Mapping[int, Any]
    key: Hashable

    def inputs(self, varying: frozenset[int]) -> list[Any]:
        """Return the values of the inputs, the constants `varying` being some."""
        if not varying:
            return list(self.leaves.values())
        given = {
            at: np.asarray(self.constants[at], dtype=self.expressions[at].dtype) for at in varying
        }
        return [value for _, value in sorted({**self.leaves, **given}.items())]

    def program(self, varying: frozenset[int]) -> Program:
        """Return the program, the constants `varying` being inputs."""
        nodes = []
        for at, (one, operands) in enumerate(zip(self.expressions, self.operands, strict=True)):
            attributes = dict(one.attributes)
            node = Node(at, one.op, operands, attributes, one.shape, one.dtype, one.nnz, one.layout)
            nodes.append(
                Node(at, "Input", (), {}, (), one.dtype) if at in varying else node,
            )
        return Program(tuple(nodes), tuple(sorted([*self.leaves, *varying])), self.outputs)


def _held(value: Any) -> Hashable:
    """Return how a value is held, as far as what runs depends on that."""
    return (value.axis, value.rows) if isinstance(value, Partitioned) else ()


def region(wanted: Sequence[Expression]) -> Region:
    """Return the program that computes the wanted expressions from the leaves under them.

    Equal subexpressions become one node; sizes of sparse leaves count by powers of two in the key.
    """
    expressions: list[Expression] = []
    places: list[tuple[int, ...]] = []
    leaves: dict[int, Any] = {}
    constants: dict[int, Any] = {}
    parts: list[Hashable] = []
    known: dict[Hashable, int] = {}
    place: dict[int, int] = {}  # by id: `wanted` keeps all of them alive
    stack = list(reversed(wanted))
    while stack:
        one = stack[-1]
        if id(one) in place:
            stack.pop()
            continue
        below = one.operands
        if below:
            waiting = len(stack)
            for operand in reversed(below):
                if id(operand) not in place:
                    stack.append(operand)
            if len(stack) > waiting:
                continue
        stack.pop()
        operands = tuple([place[id(operand)] for operand in below])
        told: Hashable = one.attributes
        name: Hashable = told
        if one.op == "Input":
            told, name = _held(one.value), id(one.value)
        elif one.op == "Constant":
            # By its text: 0.0 isn't -0.0, and True isn't 1.
            told, name = (), repr(one.attributes[0][1])
        identity = (one.op, operands, name, one.shape, one.dtype)
        found = known.get(identity)
        if found is None:
            found = known[identity] = len(expressions)
            expressions.append(one)
            places.append(operands)
            if one.op == "Input":
                leaves[found] = one.value
            elif one.op == "Constant":
                constants[found] = one.attributes[0][1]
            bucket = None if one.nnz is None else round(math.log2(one.nnz + 1))
            parts.append((one.op, operands, told, one.shape, one.dtype, one.layout, bucket))
        place[id(one)] = found
    outputs = tuple([place[id(one)] for one in wanted])
    key = (tuple(parts), outputs)
    return Region(tuple(expressions), tuple(places), leaves, outputs, constants, key)
