"""Types of values: element type and dimensions out of ONNX's TypeProto."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from ..errors import ModelError
from ..tensors import dtype_name

Dimension = tuple[int | None, str | None]  # size, symbol


def describe_type(kind: onnx.TypeProto) -> tuple[str | None, list[Dimension] | None]:
    """Return element type and dimensions of a tensor type; None for what is not known."""
    if not kind.HasField("tensor_type"):
        return None, None
    tensor = kind.tensor_type
    try:
        dtype = dtype_name(tensor.elem_type) if tensor.elem_type else None
    except ModelError:
        dtype = None
    if not tensor.HasField("shape"):
        return dtype, None
    return dtype, [_dimension(item) for item in tensor.shape.dim]


def _dimension(item: onnx.TensorShapeProto.Dimension) -> Dimension:
    if item.HasField("dim_value"):
        # Some exporters write -1 for an unknown size.
        return (item.dim_value if item.dim_value >= 0 else None), None
    return None, item.dim_param or None


def tensor_type(data_type: int, shape: Iterable[int]) -> onnx.TypeProto:
    """Return the type of a tensor of known shape."""
    kind = onnx.TypeProto()
    kind.tensor_type.elem_type = data_type
    kind.tensor_type.shape.SetInParent()
    for size in shape:
        kind.tensor_type.shape.dim.add(dim_value=size)
    return kind
