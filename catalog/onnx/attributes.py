"""Attributes of nodes as columns, and back."""

from __future__ import annotations

from dataclasses import dataclass

import onnx

from ..attribute_text import attribute_text, attribute_type

_TYPE = onnx.AttributeProto


@dataclass(frozen=True)
class AttributeColumns:
    """What the attribute table holds of an attribute, tensors and graphs aside."""

    name: str
    type: str
    value: str | None
    int_value: int | None
    float_value: float | None
    rest: bytes | None


def columns_of(attribute: onnx.AttributeProto) -> AttributeColumns:
    """Return an attribute as columns; its graphs, stored by themselves, are taken out of it."""
    kind = attribute_type(attribute)
    columns = AttributeColumns(
        name=attribute.name,
        type=_TYPE.AttributeType.Name(kind),
        value=attribute_text(attribute),
        int_value=attribute.i if kind == _TYPE.INT else None,
        float_value=attribute.f if kind == _TYPE.FLOAT else None,
        rest=None,
    )
    attribute.ClearField("g")
    attribute.ClearField("graphs")
    # NaNs, bytes that are no text, references and the like are not equal, and stay serialized.
    if from_columns(columns) == attribute:
        return columns
    attribute.ClearField("name")
    rest = attribute.SerializeToString()
    return AttributeColumns(
        columns.name, columns.type, columns.value, columns.int_value, columns.float_value, rest
    )


def from_columns(columns: AttributeColumns) -> onnx.AttributeProto:
    """Return the attribute that columns stand for; the inverse of `columns_of`."""
    if columns.rest is not None:
        attribute = onnx.AttributeProto()
        attribute.MergeFromString(columns.rest)
        attribute.name = columns.name
        return attribute
    kind = _TYPE.AttributeType.Value(columns.type)
    attribute = onnx.AttributeProto(name=columns.name, type=kind)
    if kind == _TYPE.INT and columns.int_value is not None:
        attribute.i = columns.int_value
    elif kind == _TYPE.FLOAT and columns.float_value is not None:
        attribute.f = columns.float_value
    elif kind == _TYPE.STRING and columns.value is not None:
        attribute.s = columns.value.encode()
    elif kind == _TYPE.INTS:
        attribute.ints.extend(int(item) for item in _items(columns.value))
    elif kind == _TYPE.FLOATS:
        attribute.floats.extend(float(item) for item in _items(columns.value))
    return attribute


def _items(text: str | None) -> list[str]:
    inner = (text or "[]")[1:-1]
    return inner.split(", ") if inner else []
