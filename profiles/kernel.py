"""A kernel: one operator with its attributes, shapes and dtypes, the unit that has a cost."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from ..catalog.errors import TensologError

# Integer constants up to this many elements belong to the kernel: they are shapes, axes, indices.
VALUE_LIMIT = 64
# Float constants whose value decides which code runs or whether it runs at all: operator -> inputs.
FLOAT_VALUES = {
    "Clip": {1, 2},
    "DequantizeLinear": {1},
    "Dropout": {1},
    "Pow": {1},
    "QuantizeLinear": {1},
    "Range": {0, 1, 2},
    "Resize": {1, 2},
    "Upsample": {1},
}
# ONNX Runtime lets the output share the input's buffer: inside a graph these cost a dispatch.
VIEWS = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})

_ALIASES = {"float": "float32", "double": "float64", "object": "string", "str": "string"}


class KernelError(TensologError):
    """A kernel can't be built or run on its own."""


@lru_cache(maxsize=1)
def _element_types() -> dict[str, int]:
    types = {}
    for element in TensorProto.DataType.values():
        if element == TensorProto.STRING:
            types["string"] = element
        elif element != TensorProto.UNDEFINED:
            types[helper.tensor_dtype_to_np_dtype(element).name] = element
    return types


def element_type(dtype: str) -> int:
    """Return ONNX's element type number of a dtype name such as "float32"; KernelError if none."""
    dtype = _ALIASES.get(dtype, dtype)
    if dtype not in _element_types():
        raise KernelError(f"unknown dtype {dtype!r}")
    return _element_types()[dtype]


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """Return the numpy dtype (ml_dtypes' for the narrow ones) of a dtype name."""
    return helper.tensor_dtype_to_np_dtype(element_type(dtype))


@lru_cache(maxsize=1)
def _names() -> dict[int, str]:
    return {element: name for name, element in _element_types().items()}


def dtype_name(element: int) -> str:
    """Return the dtype name of ONNX's element type number; KernelError if there is none."""
    if element not in _names():
        raise KernelError(f"unknown element type {element}")
    return _names()[element]


@dataclass(frozen=True)
class TensorSpec:
    """A tensor as a kernel sees it: dtype, shape, constness, and the value where it counts."""

    dtype: str
    shape: tuple[int, ...]
    constant: bool = False
    value: tuple[int | float | bool, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", _ALIASES.get(self.dtype, self.dtype))
        object.__setattr__(self, "shape", tuple(int(size) for size in self.shape))
        if self.value is not None:
            value = tuple(_number(number) for number in np.asarray(self.value).ravel().tolist())
            object.__setattr__(self, "value", value)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def size_bytes(self) -> int:
        """Bytes of the elements; 4-bit types count half a byte."""
        bits = _bits(self.dtype)
        return (self.size * bits + 7) // 8

    def canonical(self) -> list[object]:
        """Return the JSON form that is hashed and stored."""
        value = None if self.value is None else list(self.value)
        return [self.dtype, list(self.shape), self.constant, value]


@dataclass(frozen=True)
class TensorValue:
    """A tensor held by an attribute: dtype, shape and little-endian bytes."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    def canonical(self) -> list[object]:
        """Return the JSON form: the bytes are given by their hash."""
        return ["tensor", self.dtype, list(self.shape), hashlib.sha256(self.data).hexdigest()]


@dataclass(frozen=True)
class Opaque:
    """An attribute that a kernel on its own can't have: a subgraph, a type, a sparse tensor."""

    kind: str
    digest: str

    def canonical(self) -> list[object]:
        """Return the JSON form."""
        return [self.kind, self.digest]


@dataclass(frozen=True)
class Kernel:
    """One operator with everything its cost depends on.

    Made canonical on construction, so that equal work has an equal hash: the opset becomes the
    version that introduced the operator, attributes are sorted, defaults dropped, floats rounded to
    float32. `inputs` holds None for an absent optional input; `outputs` counts them.
    """

    domain: str
    op_type: str
    opset: int
    attributes: tuple[tuple[str, object], ...]
    inputs: tuple[TensorSpec | None, ...]
    outputs: int = 1

    def __post_init__(self) -> None:
        domain = "" if self.domain == "ai.onnx" else self.domain
        since, defaults = _schema(domain, self.op_type, self.opset)
        pairs = self.attributes.items() if isinstance(self.attributes, Mapping) else self.attributes
        canonical = {name: _canonical_attribute(value) for name, value in pairs}
        kept = tuple(
            (name, canonical[name])
            for name in sorted(canonical)
            if canonical[name] is not None
            and not (name in defaults and defaults[name] == canonical[name])
        )
        inputs = list(self.inputs)
        while inputs and inputs[-1] is None:
            inputs.pop()
        object.__setattr__(self, "domain", domain)
        object.__setattr__(self, "opset", since)
        object.__setattr__(self, "attributes", kept)
        object.__setattr__(self, "inputs", tuple(inputs))

    @property
    def is_view(self) -> bool:
        """True where the runtime only renames the buffer."""
        if self.domain == "" and self.op_type == "Dropout":
            training = self.inputs[2] if len(self.inputs) > 2 else None
            return self.outputs == 1 and (training is None or training.value == (False,))
        return self.domain == "" and self.op_type in VIEWS

    @property
    def is_constant(self) -> bool:
        """True where the runtime computes it once, when it loads the model."""
        return all(spec is None or spec.constant for spec in self.inputs)

    @property
    def input_bytes(self) -> int:
        """Bytes of all inputs."""
        return sum(spec.size_bytes for spec in self.inputs if spec is not None)

    @property
    def constant_bytes(self) -> int:
        """Bytes of the constant inputs."""
        return sum(spec.size_bytes for spec in self.inputs if spec is not None and spec.constant)

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute that differs from the operator's own default, or `default`."""
        return dict(self.attributes).get(name, default)

    def attributes_json(self) -> str:
        """Return the attributes as canonical JSON."""
        return _json({name: _plain(value) for name, value in self.attributes})

    def inputs_json(self) -> str:
        """Return the inputs as canonical JSON."""
        return _json([None if spec is None else spec.canonical() for spec in self.inputs])

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the canonical JSON, in hex: the key of the tables kernel and measurement."""
        head = _json([self.domain, self.op_type, self.opset, self.outputs])
        text = "\n".join([head, self.attributes_json(), self.inputs_json()])
        return hashlib.sha256(text.encode()).hexdigest()

    def label(self) -> str:
        """Name the kernel for people: "Conv 3x3 64->64 56x56"."""
        specs = [spec for spec in self.inputs if spec is not None]
        name = f"{self.domain}.{self.op_type}" if self.domain else self.op_type
        if not specs:
            return name
        first = specs[0]
        extra = "" if first.dtype == "float32" else f" {first.dtype}"
        if self.op_type == "Conv" and len(specs) > 1 and len(first.shape) > 2:
            weight = specs[1].shape
            group = int(self.attribute("group", 1))
            ends = f"{weight[1] * group}->{weight[0]}" + (f" /{group}" if group > 1 else "")
            return f"{name} {_times(weight[2:])} {ends} {_times(first.shape[2:])}{extra}"
        if self.op_type in {"MatMul", "Gemm"} and len(specs) > 1:
            left, right = list(first.shape), list(specs[1].shape)
            if self.op_type == "Gemm":
                left = left[::-1] if self.attribute("transA") else left
                right = right[::-1] if self.attribute("transB") else right
            return f"{name} {_times(left)} * {_times(right)}{extra}"
        shapes = [_times(first.shape)]
        if len(specs) > 1 and specs[1].dtype == first.dtype and specs[1].shape != first.shape:
            shapes.append(_times(specs[1].shape))
        return f"{name} {', '.join(shapes)}{extra}"


def attribute_value(attribute: AttributeProto) -> object:
    """Return an ONNX attribute as a kernel holds it: number, string, tuple, TensorValue, Opaque."""
    kind = AttributeProto.AttributeType.Name(attribute.type)
    if kind in {"INT", "FLOAT", "STRING", "INTS", "FLOATS", "STRINGS"}:
        return _canonical_attribute(helper.get_attribute_value(attribute))
    if kind == "TENSOR":
        if attribute.t.external_data:
            return _opaque("tensor", attribute)
        try:
            array = numpy_helper.to_array(attribute.t)
        except (ValueError, TypeError, OSError):
            return _opaque("tensor", attribute)
        if attribute.t.data_type == TensorProto.STRING:
            return _opaque("string tensor", attribute)
        return _canonical_attribute(array)
    return _opaque(kind.lower(), attribute)


def small_value(op_type: str, position: int, array: np.ndarray[Any, Any] | None) -> Any:
    """Return the value that belongs to a kernel's input, or None where only its shape counts.

    Integers and booleans up to 64 elements; floats where FLOAT_VALUES names the input.
    """
    if array is None or array.size > VALUE_LIMIT:
        return None
    if array.dtype.kind in "iub":
        return tuple(array.ravel().tolist())
    if position in FLOAT_VALUES.get(op_type, ()) and array.dtype.kind == "f":
        return tuple(array.ravel().tolist())
    return None


def _opaque(kind: str, attribute: AttributeProto) -> Opaque:
    data = attribute.SerializeToString(deterministic=True)
    return Opaque(kind, hashlib.sha256(data).hexdigest())


@lru_cache(maxsize=4096)
def _schema(domain: str, op_type: str, opset: int) -> tuple[int, dict[str, object]]:
    try:
        schema = onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return opset, {}
    defaults = {
        name: attribute_value(attribute.default_value)
        for name, attribute in schema.attributes.items()
        if attribute.default_value.name
    }
    return int(schema.since_version), defaults


def _canonical_attribute(value: Any) -> Any:
    if isinstance(value, AttributeProto):
        return attribute_value(value)
    if isinstance(value, TensorProto):
        value = numpy_helper.to_array(value)
    if isinstance(value, np.ndarray):
        data = value.astype(value.dtype.newbyteorder("<"), copy=False).tobytes()
        return TensorValue(_ALIASES.get(value.dtype.name, value.dtype.name), value.shape, data)
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, list | tuple):
        return tuple(_canonical_attribute(item) for item in value)
    if isinstance(value, bool | np.bool_):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(np.float32(value))
    if isinstance(value, np.integer):
        return int(value)
    if value is None or isinstance(value, int | str | TensorValue | Opaque):
        return value
    return Opaque(type(value).__name__, hashlib.sha256(repr(value).encode()).hexdigest())


def _number(value: Any) -> Any:
    return float(np.float32(value)) if isinstance(value, float) else value


def _plain(value: object) -> object:
    if isinstance(value, TensorValue | Opaque):
        return value.canonical()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _times(shape: tuple[int, ...] | list[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"


@lru_cache(maxsize=64)
def _bits(dtype: str) -> int:
    narrow = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}
    return narrow.get(dtype) or 8 * numpy_dtype(dtype).itemsize
