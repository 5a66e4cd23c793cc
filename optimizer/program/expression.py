"""Expressions that wait to be computed, and the program that computes some of them together.

An expression becomes a leaf with a value when it has been computed, so that everything that reads
it sees the value from then on and what it was made of is freed.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .dag import Node, Program

Attributes = tuple[tuple[str, Any], ...]

# The types that are traced; whatever meets another one is left to NumPy.
TRACED = frozenset(
    ["bool", "float32", "float64"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)


class Expression:
    """An operator applied to expressions, or (op Input) a value that is there.

    `value` is an ndarray or a canonical sparse array of SciPy's.
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
        self.depth = 1 + max((operand.depth for operand in self.operands), default=-1)

    @property
    def is_leaf(self) -> bool:
        """Whether a value is there."""
        return self.op == "Input"

    def settle(self, value: Any) -> None:
        """Become a leaf with this value."""
        self.op, self.operands, self.attributes = "Input", (), ()
        self.value, self.depth = value, 0
        self.shape, self.dtype = value.shape, value.dtype.name
        if hasattr(value, "tocsr"):
            self.layout, self.nnz = value.format, int(value.nnz)
        else:
            self.layout, self.nnz = "dense", None


def leaf(value: Any) -> Expression:
    """Return an expression whose value is there."""
    found = Expression("Input", (), value.shape, value.dtype.name)
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
    first = operands[0]
    shape = first.shape
    if any(operand.shape != shape for operand in operands[1:]):
        shape = np.broadcast_shapes(*(operand.shape for operand in operands))
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


@dataclass(frozen=True)
class Region:
    """A program, the values of its inputs, and what it is known by.

    `key` leaves out the values of constants, which are in `constants` by position of their node.
    """

    nodes: tuple[Node, ...]
    leaves: Mapping[int, Any]
    outputs: tuple[int, ...]
    constants: tuple[tuple[int, Any], ...]
    key: Hashable

    def program(self, varying: frozenset[int]) -> tuple[Program, list[Any]]:
        """Return the program and its inputs' values, the constants `varying` being inputs."""
        nodes = [
            Node(node.id, "Input", (), {}, (), node.dtype) if node.id in varying else node
            for node in self.nodes
        ]
        given = {
            at: np.asarray(value, dtype=self.nodes[at].dtype)
            for at, value in self.constants
            if at in varying
        }
        inputs = sorted([*self.leaves, *given])
        values = [self.leaves[at] if at in self.leaves else given[at] for at in inputs]
        return Program(tuple(nodes), tuple(inputs), self.outputs), values


def region(wanted: Sequence[Expression]) -> Region:
    """Return the program that computes the wanted expressions from the leaves under them.

    Equal subexpressions become one node; sizes of sparse leaves count by powers of two in the key.
    """
    nodes: list[Node] = []
    leaves: dict[int, Any] = {}
    constants: list[tuple[int, Any]] = []
    parts: list[Hashable] = []
    known: dict[Hashable, int] = {}
    place: dict[int, int] = {}  # by id: `wanted` keeps all of them alive
    stack: list[tuple[Expression, bool]] = [(one, False) for one in reversed(wanted)]
    while stack:
        one, ready = stack.pop()
        if id(one) in place:
            continue
        if not ready and one.operands:
            stack.append((one, True))
            stack += [(operand, False) for operand in reversed(one.operands)]
            continue
        operands = tuple(place[id(operand)] for operand in one.operands)
        name: Hashable = id(one.value) if one.is_leaf else _named(one.attributes)
        identity = (one.op, operands, name, one.shape, one.dtype)
        found = known.get(identity)
        if found is None:
            found = known[identity] = len(nodes)
            attributes = dict(one.attributes)
            nodes.append(
                Node(found, one.op, operands, attributes, one.shape, one.dtype, one.nnz, one.layout)
            )
            if one.is_leaf:
                leaves[found] = one.value
            elif one.op == "Constant":
                constants.append((found, one.attributes[0][1]))
            bucket = None if one.nnz is None else round(math.log2(one.nnz + 1))
            told = () if one.is_leaf or one.op == "Constant" else name
            parts.append((one.op, operands, told, one.shape, one.dtype, one.layout, bucket))
        place[id(one)] = found
    outputs = tuple(place[id(one)] for one in wanted)
    return Region(tuple(nodes), leaves, outputs, tuple(constants), (tuple(parts), outputs))


def _named(attributes: Attributes) -> Hashable:
    """Return attributes so that equal ones mean the same: 0.0 isn't -0.0, and True isn't 1."""
    return tuple((name, repr(value)) for name, value in attributes)
