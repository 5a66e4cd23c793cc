"""The program that computes some of the expressions that wait together."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..blocks.partitioned import Partitioned
from .dag import Node, Program
from .expression import Expression
from .held import Record


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
            if one.op == "Constant":
                attributes = {"value": self.constants[at]}
            node = Node(at, one.op, operands, attributes, one.shape, one.dtype, one.nnz, one.layout)
            nodes.append(
                Node(at, "Input", (), {}, (), one.dtype) if at in varying else node,
            )
        return Program(tuple(nodes), tuple(sorted([*self.leaves, *varying])), self.outputs)


def _told(value: Any) -> Hashable:
    """Return how a value is held, as far as what runs depends on that."""
    return (value.axis, value.rows) if isinstance(value, Partitioned) else ()


def number_at(record: Record, expression: Expression) -> Any:
    """Return the value of a Constant as a number of Python's."""
    if expression.attributes:
        return expression.attributes[0][1]
    return np.asarray(record.numbers[expression.place], expression.dtype).item()


def region(wanted: Sequence[Expression], record: Record) -> Region:
    """Return the program that computes the wanted expressions from the values under them.

    Equal subexpressions become one node; sizes of sparse values count by powers of two in the key.
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
        value: Any = None
        if one.op == "Input":
            value = record.leaves[one.place]
            told, name = _told(value), one.place
        elif one.op == "Constant":
            value = number_at(record, one)
            # By its text: 0.0 isn't -0.0, and True isn't 1. Two that come from elsewhere may differ
            # in another call.
            told, name = (), one.place if one.place >= 0 else repr(value)
        identity = (one.op, operands, name, one.shape, one.dtype)
        found = known.get(identity)
        if found is None:
            found = known[identity] = len(expressions)
            expressions.append(one)
            places.append(operands)
            if one.op == "Input":
                leaves[found] = value
            elif one.op == "Constant":
                constants[found] = value
            bucket = None if one.nnz is None else round(math.log2(one.nnz + 1))
            parts.append((one.op, operands, told, one.shape, one.dtype, one.layout, bucket))
        place[id(one)] = found
    outputs = tuple([place[id(one)] for one in wanted])
    key = (tuple(parts), outputs)
    return Region(tuple(expressions), tuple(places), leaves, outputs, constants, key)
