"""Canonical text of attribute values: one spelling a value, equal values equal text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

_TYPE = onnx.AttributeProto


def attribute_type(attribute: onnx.AttributeProto) -> int:
    """Return the type of an attribute, inferred from its fields where old files leave it out."""
    if attribute.type != _TYPE.UNDEFINED:
        return attribute.type
    for field, kind in (
        ("f", _TYPE.FLOAT),
        ("i", _TYPE.INT),
        ("s", _TYPE.STRING),
        ("t", _TYPE.TENSOR),
        ("g", _TYPE.GRAPH),
        ("sparse_tensor", _TYPE.SPARSE_TENSOR),
        ("tp", _TYPE.TYPE_PROTO),
    ):
        if attribute.HasField(field):
            return kind
    for values, kind in (
        (attribute.floats, _TYPE.FLOATS),
        (attribute.ints, _TYPE.INTS),
        (attribute.strings, _TYPE.STRINGS),
        (attribute.tensors, _TYPE.TENSORS),
        (attribute.graphs, _TYPE.GRAPHS),
    ):
        if len(values):
            return kind
    return _TYPE.UNDEFINED


def attribute_text(attribute: onnx.AttributeProto) -> str | None:
    """Return 3, 0.5, [1, 2], a string as it is, ["a", "b"]; None for tensors, graphs and types."""
    kind = attribute_type(attribute)
    if kind == _TYPE.INT:
        return str(attribute.i)
    if kind == _TYPE.FLOAT:
        return float_text(attribute.f)
    if kind == _TYPE.STRING:
        return string_text(attribute.s)
    if kind == _TYPE.INTS:
        return list_text([str(value) for value in attribute.ints])
    if kind == _TYPE.FLOATS:
        return list_text([float_text(value) for value in attribute.floats])
    if kind == _TYPE.STRINGS:
        return list_text([quoted(string_text(value)) for value in attribute.strings])
    return None


def list_text(items: Sequence[str]) -> str:
    """Return [a, b] of items that are text already."""
    return f"[{', '.join(items)}]"


def float_text(value: float) -> str:
    """Return the shortest decimal that is this float32 again: 0.1, 1e-05, inf, nan."""
    return repr(float(str(np.float32(value))))


def string_text(value: bytes | str) -> str:
    r"""Return bytes as text, with \xNN for what is not UTF-8."""
    return value if isinstance(value, str) else value.decode("utf-8", "backslashreplace")


def quoted(value: str) -> str:
    r"""Return the text in double quotes, with \" and \\ inside."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
