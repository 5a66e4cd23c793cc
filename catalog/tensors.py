"""Tensors in models: element types, their bytes, and references to constants in place of bytes.

A reference is a TensorProto without data whose external_data ends with the entries
`tensolog_constant` (the constant's hash) and `tensolog_storage` (where the bytes stood: raw_data,
a typed field, another file). It restores to the very message it came from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import cache

import numpy as np
import numpy.typing as npt
import onnx
import onnx.helper
import onnx.numpy_helper

from .errors import ModelError
from .subgraphs import graphs_of, nested

CONSTANT_KEY = "tensolog_constant"
STORAGE_KEY = "tensolog_storage"
RESERVED = "tensolog_"

_RENAMED = {"FLOAT": "float32", "DOUBLE": "float64"}
_BITS = {
    "float32": 32, "float64": 64, "float16": 16, "bfloat16": 16, "bool": 8,
    "int8": 8, "int16": 16, "int32": 32, "int64": 64,
    "uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64,
    "complex64": 64, "complex128": 128,
    "float8_e4m3fn": 8, "float8_e4m3fnuz": 8, "float8_e5m2": 8, "float8_e5m2fnuz": 8,
    "float8_e8m0": 8, "float4_e2m1": 4, "uint4": 4, "int4": 4, "uint2": 2, "int2": 2,
    "float6_e2m3": 6, "float6_e3m2": 6,
}  # fmt: skip
_TYPED_FIELDS = (
    "float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data",
)  # fmt: skip


@cache
def dtype_name(data_type: int) -> str:
    """Return the name of an element type as NumPy and ml_dtypes write it: float32, float8_e5m2.

    Raises ModelError for a type that the installed onnx does not know.
    """
    try:
        name = str(onnx.TensorProto.DataType.Name(data_type))
    except ValueError:
        raise ModelError(f"element type {data_type} is unknown: upgrade the onnx package") from None
    if name in _RENAMED:
        return _RENAMED[name]
    for start in ("FLOAT8", "FLOAT4", "FLOAT6"):
        if name.startswith(start):
            return f"{start.lower()}_{name[len(start) :].lower()}"
    return name.lower()


@cache
def data_type(name: str) -> int:
    """Return the element type of a name; the inverse of `dtype_name`."""
    for value in onnx.TensorProto.DataType.values():
        if dtype_name(value) == name:
            return int(value)
    raise ModelError(f"element type {name} is unknown: upgrade the onnx package")


@cache
def numpy_dtype(name: str) -> np.dtype[np.generic]:
    """Return the NumPy type (of ml_dtypes where NumPy has none); object for strings."""
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(data_type(name)))


def size_bytes(dtype: str, shape: Iterable[int]) -> int:
    """Return how many bytes the elements take, 4-bit and smaller types packed."""
    return -(-math.prod(shape) * _BITS[dtype] // 8)


def data_bytes(tensor: onnx.TensorProto) -> tuple[bytes, str]:
    """Return the little-endian bytes of a tensor with inline data, and where they stood.

    The place is raw, typed, or verbatim: typed, but not as the bytes would be written again.
    Raises ModelError when the data does not fit type and shape.
    """
    dtype = dtype_name(tensor.data_type)
    if tensor.HasField("segment"):
        raise ModelError(f"tensor {tensor.name!r} is in segments, which ONNX leaves unused")
    if dtype == "string":
        if tensor.HasField("raw_data"):
            raise ModelError(f"tensor {tensor.name!r} of strings has raw_data")
        _check_count(tensor, len(tensor.string_data), math.prod(tensor.dims))
        return pack_strings(tensor.string_data), "typed"
    if dtype not in _BITS:
        raise ModelError(f"tensor {tensor.name!r} has element type {dtype}")
    expected = size_bytes(dtype, tensor.dims)
    if tensor.HasField("raw_data"):
        raw = tensor.raw_data
        _check_count(tensor, len(raw), expected, "bytes")
        # Two sets of data in one tensor: the standard forbids it, runtimes read raw_data.
        if any(len(getattr(tensor, field)) for field in _TYPED_FIELDS):
            return raw, "verbatim"
        return raw, "raw"
    if _BITS[dtype] == 6:  # one code an item, but packed in raw_data
        try:
            packed = onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor)).raw_data
        except ValueError as error:
            raise ModelError(f"tensor {tensor.name!r} does not fit its shape: {error}") from error
        return packed, "verbatim"
    field, wide, narrow = _typed(dtype)
    values = np.asarray(getattr(tensor, field), wide)
    data = values.astype(narrow).tobytes() if narrow != wide else values.tobytes()
    _check_count(tensor, len(data), expected, "bytes")
    again = onnx.TensorProto()
    _write_typed(again, dtype, data)
    same = np.asarray(getattr(again, field), wide).tobytes() == values.tobytes()
    if field in ("float_data", "double_data"):
        same = same and not np.isnan(values).any()  # signaling NaNs don't survive being read
    alone = not any(len(getattr(tensor, other)) for other in _TYPED_FIELDS if other != field)
    return data, "typed" if same and alone else "verbatim"


def _check_count(tensor: onnx.TensorProto, count: int, expected: int, unit: str = "items") -> None:
    if count != expected:
        raise ModelError(
            f"tensor {tensor.name!r} of shape {list(tensor.dims)} "
            f"({dtype_name(tensor.data_type)}) needs {expected} {unit} and has {count}"
        )


def _typed(dtype: str) -> tuple[str, str, str]:
    """Return the typed field of a type, the type of its items, and of the bytes in them."""
    if dtype in ("float32", "complex64"):
        return "float_data", "<f4", "<f4"
    if dtype in ("float64", "complex128"):
        return "double_data", "<f8", "<f8"
    if dtype == "int64":
        return "int64_data", "<i8", "<i8"
    if dtype in ("uint32", "uint64"):
        return "uint64_data", "<u8", "<u4" if dtype == "uint32" else "<u8"
    if dtype in ("int8", "int16", "int32"):
        return "int32_data", "<i4", f"<i{_BITS[dtype] // 8}"
    return "int32_data", "<i4", "<u2" if _BITS[dtype] == 16 else "<u1"


def _write_typed(tensor: onnx.TensorProto, dtype: str, data: bytes | memoryview) -> None:
    field, _, narrow = _typed(dtype)
    getattr(tensor, field).extend(np.frombuffer(data, narrow).tolist())


def pack_strings(strings: Iterable[bytes]) -> bytes:
    """Return byte strings as one: an 8-byte little-endian length before each."""
    return b"".join(len(item).to_bytes(8, "little") + item for item in strings)


def unpack_strings(data: bytes) -> list[bytes]:
    """Return what `pack_strings` packed."""
    out, position = [], 0
    while position < len(data):
        length = int.from_bytes(data[position : position + 8], "little")
        out.append(data[position + 8 : position + 8 + length])
        position += 8 + length
    return out


def to_array(
    dtype: str, shape: tuple[int, ...], data: bytes | memoryview | npt.NDArray[np.uint8]
) -> npt.NDArray[np.generic]:
    """Return bytes as an array, read-only; strings as objects, small types one byte an element."""
    if dtype == "string":
        items = [_text(item) for item in unpack_strings(bytes(data))]
        array = np.empty(len(items), object)
        array[:] = items
        array = array.reshape(shape)
    elif _BITS[dtype] < 8:
        tensor = onnx.TensorProto(data_type=data_type(dtype), dims=shape, raw_data=bytes(data))
        array = onnx.numpy_helper.to_array(tensor)
    else:
        array = np.frombuffer(data, numpy_dtype(dtype)).reshape(shape)
    array.flags.writeable = False
    return array


def _text(item: bytes) -> str | bytes:
    try:
        return item.decode()
    except UnicodeDecodeError:
        return item


# ---------------------------------------------------------------------------------- references


def is_external(tensor: onnx.TensorProto) -> bool:
    """Whether the bytes of the tensor lie in another file, or in the catalog."""
    return tensor.data_location == onnx.TensorProto.EXTERNAL


def entry(tensor: onnx.TensorProto, key: str) -> str | None:
    """Return the value of an external_data entry."""
    return next((item.value for item in tensor.external_data if item.key == key), None)


def refer(tensor: onnx.TensorProto, constant_hash: str, storage: str) -> None:
    """Turn a tensor into a reference: its data is dropped, or kept where storage is verbatim."""
    if storage != "external" and tensor.HasField("data_location"):
        storage += " default"
    if not storage.startswith("verbatim"):
        tensor.ClearField("raw_data")
        for field in _TYPED_FIELDS:
            tensor.ClearField(field)
    tensor.external_data.add(key=CONSTANT_KEY, value=constant_hash)
    tensor.external_data.add(key=STORAGE_KEY, value=storage)
    tensor.data_location = onnx.TensorProto.EXTERNAL


def unrefer(tensor: onnx.TensorProto) -> tuple[str, str]:
    """Take the reference out of a tensor and return (constant hash, storage).

    What is left has data_location and external_data as they were, and no data.
    """
    constant_hash, storage = entry(tensor, CONSTANT_KEY), entry(tensor, STORAGE_KEY) or "raw"
    assert constant_hash is not None
    kept = [item for item in tensor.external_data if not item.key.startswith(RESERVED)]
    del tensor.external_data[:]
    tensor.external_data.extend(kept)
    if storage != "external":
        storage, _, explicit = storage.partition(" ")
        tensor.ClearField("data_location")
        if explicit:
            tensor.data_location = onnx.TensorProto.DEFAULT
    return constant_hash, storage


def fill(tensor: onnx.TensorProto, data: bytes, storage: str) -> None:
    """Put the bytes back where they stood; external and verbatim tensors need none."""
    if storage == "raw":
        tensor.raw_data = data
    elif storage == "typed":
        if tensor.data_type == onnx.TensorProto.STRING:
            tensor.string_data.extend(unpack_strings(data))
        else:
            _write_typed(tensor, dtype_name(tensor.data_type), data)


# ---------------------------------------------------------------------------------- all tensors


def model_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield every tensor of a model: initializers, attributes, sparse parts, at any depth."""
    yield from graph_tensors(model.graph)
    for function in model.functions:
        for node in function.node:
            yield from attribute_tensors(node.attribute)
        yield from attribute_tensors(function.attribute_proto)
    for training in model.training_info:
        yield from graph_tensors(training.initialization)
        yield from graph_tensors(training.algorithm)


def graph_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Yield every tensor of a graph and the graphs in it."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from sparse_tensors(sparse)
    for node in graph.node:
        yield from attribute_tensors(node.attribute)


def initializers_of(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Yield the dense initializers of a graph and the graphs in it."""
    for subgraph in nested(graph):
        yield from subgraph.initializer


def attribute_tensors(attributes: Iterable[onnx.AttributeProto]) -> Iterator[onnx.TensorProto]:
    """Yield every tensor of attributes and the graphs in them."""
    for attribute in attributes:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        for graph in graphs_of(attribute):
            yield from graph_tensors(graph)
        if attribute.HasField("sparse_tensor"):
            yield from sparse_tensors(attribute.sparse_tensor)
        for sparse in attribute.sparse_tensors:
            yield from sparse_tensors(sparse)


def sparse_tensors(sparse: onnx.SparseTensorProto) -> Iterator[onnx.TensorProto]:
    """Yield values and indices of a sparse tensor, those that are there."""
    if sparse.HasField("values"):
        yield sparse.values
    if sparse.HasField("indices"):
        yield sparse.indices
