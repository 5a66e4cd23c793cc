"""Operators, attributes, types and constants by number, so that columns can hold them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import onnx

from ..graph.graph import Constant, TensorType, attribute_value

# Leaves are e-nodes too: what the model is given, and what is known before it runs.
INPUT, CONSTANT = "@input", "@constant"
# Constants up to this size are told apart by their elements, larger ones by where they lie.
SMALL_BYTES = 4096


@dataclass(frozen=True)
class Operator:
    """An operator of a domain."""

    domain: str
    op_type: str

    @property
    def name(self) -> str:
        """The name as the rules write it."""
        return f"{self.domain}:{self.op_type}" if self.domain else self.op_type

    @property
    def is_leaf(self) -> bool:
        """Whether an e-node of it reads nothing and is there before the model runs."""
        return self.op_type in (INPUT, CONSTANT)

    @property
    def is_virtual(self) -> bool:
        """Whether it stands in the e-graph alone and in no model."""
        return self.op_type.startswith("@")


@dataclass(frozen=True)
class Attributes:
    """The attributes of an e-node, which outputs it has, and what tells it from its equals.

    `identity` is set where equal operands don't mean equal results, or for a leaf.
    """

    protos: Mapping[str, onnx.AttributeProto]
    present: tuple[bool, ...]
    identity: object = None

    @property
    def values(self) -> dict[str, object]:
        """The attributes that are set, as Python values."""
        return {name: attribute_value(proto) for name, proto in self.protos.items()}


class Vocabulary:
    """Everything that columns refer to by number."""

    def __init__(self) -> None:
        self.operators: list[Operator] = []
        self.attributes: list[Attributes] = []
        self.types: list[TensorType] = []
        self.constants: list[Constant] = []
        self._operators: dict[Operator, int] = {}
        self._attributes: dict[tuple[object, ...], int] = {}
        self._types: dict[TensorType, int] = {}
        self._constants: dict[object, int] = {}

    def operator(self, domain: str, op_type: str) -> int:
        """The number of an operator."""
        return _number(self._operators, self.operators, Operator(domain, op_type))

    def attribute(self, attributes: Attributes) -> int:
        """The number of an e-node's attributes; equal ones have equal numbers."""
        spelled = tuple(
            sorted(
                (name, proto.SerializeToString(deterministic=True))
                for name, proto in attributes.protos.items()
            )
        )
        key = (spelled, attributes.present, attributes.identity)
        if key not in self._attributes:
            self._attributes[key] = len(self.attributes)
            self.attributes.append(attributes)
        return self._attributes[key]

    def type(self, type_: TensorType) -> int:
        """The number of a type."""
        return _number(self._types, self.types, type_)

    def constant(self, constant: Constant, place: object) -> int:
        """The number of a constant: that of its elements or, where they are many, of its place."""
        size = constant.type.size_bytes
        key = place
        if size is not None and size <= SMALL_BYTES and constant.type.dtype != "string":
            key = (constant.type, constant.array().tobytes())
        if key not in self._constants:
            self._constants[key] = len(self.constants)
            self.constants.append(constant)
        return self._constants[key]


T = TypeVar("T")


def _number(numbers: dict[T, int], items: list[T], item: T) -> int:
    """The place of an item in a list, where it is put if it is new."""
    if item not in numbers:
        numbers[item] = len(items)
        items.append(item)
    return numbers[item]
