"""Kernel -> a model of that one operator, and inputs to run it with."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper

from ...catalog.onnx.long_lists import infer_with_data
from ..kernel import (
    Kernel,
    KernelError,
    Opaque,
    TensorSpec,
    TensorValue,
    dtype_name,
    element_type,
    numpy_dtype,
)
from ..sessions.feeds import random_array
from .faults import fatal_input

Array = np.ndarray[Any, Any]

SIZE_LIMIT = 1 << 30  # bytes; a protobuf ends at 2 GiB, and copies are made on the way
_OLDEST_OPSET = 7  # ONNX Runtime supports no older one
_LARGE = 4 << 20  # bytes
_PERIOD = 1 << 14  # elements after which random data repeats
_IR_VERSION = 10  # understood by every supported ONNX Runtime

# Where a float operator is undefined or leaves its usual path outside of a range: draw inside it.
_POSITIVE = {"Log", "Sqrt", "Pow", "ReduceLogSum"}
_UNIT = {"Acos", "Asin", "Atanh"}


def build_model(
    kernel: Kernel, copies: int = 1, external_arrays: dict[str, Array] | None = None
) -> tuple[bytes, dict[str, Array]]:
    """Return a serialized model of `copies` independent copies, and its feeds.

    The copies have inputs of their own, so that no runtime merges them, and constants of their own,
    since inside a model no kernel finds its constants in the cache because another has them too:
    they differ, for the runtime keeps equal ones once.
    A view is timed on one element: inside a graph the runtime only renames its buffer, while here
    it would copy the model's input. Constants of 4 MiB and more go into `external_arrays`, by name,
    if it is given, and are declared as external data: a protobuf would hold them three times on the
    way.
    KernelError where the operator can't stand alone.
    """
    if kernel.is_view and not kernel.is_constant:
        spec = kernel.inputs[0]
        assert spec is not None
        single = TensorSpec(spec.dtype, (1,))
        kernel = Kernel("", "Identity", _OLDEST_OPSET, (), (single,))
    _refuse(kernel)
    rng = np.random.default_rng(0)
    constants: list[TensorProto] = []
    feeds: dict[str, Array] = {}
    inputs, outputs, nodes = [], [], []
    operand_arrays: dict[str, Array] = {}
    arrays = {
        position: kernel_input(kernel, position, spec, rng)
        for position, spec in enumerate(kernel.inputs)
        if spec is not None and spec.constant
    }
    for copy in range(copies):
        names = []
        for position, spec in enumerate(kernel.inputs):
            if spec is None:
                names.append("")
            elif spec.constant:
                name, array = f"c{position}_{copy}", arrays[position]
                if copy and spec.value is None:
                    array = np.roll(array, copy)
                names.append(name)
                operand_arrays[name] = array
                if external_arrays is None or array.nbytes < _LARGE:
                    constants.append(_tensor(name, spec.dtype, array))
                else:
                    external_arrays[name] = array.copy()
                    constants.append(_external(name, spec, array.nbytes))
            else:
                name = f"x{position}_{copy}"
                names.append(name)
                inputs.append(
                    helper.make_tensor_value_info(name, element_type(spec.dtype), spec.shape)
                )
                feeds[name] = operand_arrays[name] = kernel_input(kernel, position, spec, rng)
        if reason := fatal_input(kernel.op_type, [operand_arrays.get(name) for name in names]):
            raise KernelError(f"{kernel.label()}: {reason}")
        output_names = [f"y{position}_{copy}" for position in range(max(1, kernel.outputs))]
        nodes.append(_node(kernel, names, output_names))
        outputs += [onnx.ValueInfoProto(name=name) for name in output_names]
    graph = helper.make_graph(nodes, "kernel", inputs, outputs, constants)
    return _model(kernel, graph).SerializeToString(), feeds


@lru_cache(maxsize=8192)
def output_shapes(kernel: Kernel) -> tuple[tuple[str, tuple[int, ...]] | None, ...]:
    """Return (dtype, shape) of each output by ONNX's shape inference; None where it can't tell."""
    unknown = (None,) * max(1, kernel.outputs)
    inputs, constants, names = [], [], []
    rng = np.random.default_rng(0)
    try:
        for position, spec in enumerate(kernel.inputs):
            names.append("" if spec is None else f"x{position}")
            if spec is None:
                continue
            if spec.value is not None:
                array = kernel_input(kernel, position, spec, rng)
                constants.append(_tensor(names[-1], spec.dtype, array))
            else:
                inputs.append(
                    helper.make_tensor_value_info(names[-1], element_type(spec.dtype), spec.shape)
                )
        output_names = [f"y{position}" for position in range(max(1, kernel.outputs))]
        graph = helper.make_graph(
            [_node(kernel, names, output_names)], "kernel", inputs, [], constants
        )
        inferred = infer_with_data(_model(kernel, graph))
    except Exception:
        return unknown
    types = {info.name: info.type.tensor_type for info in inferred.graph.value_info}
    shapes: list[tuple[str, tuple[int, ...]] | None] = []
    for name in output_names:
        tensor = types.get(name)
        if tensor is None or not tensor.elem_type or not tensor.HasField("shape"):
            shapes.append(None)
        elif all(size.HasField("dim_value") for size in tensor.shape.dim):
            dtype = dtype_name(tensor.elem_type)
            shapes.append((dtype, tuple(size.dim_value for size in tensor.shape.dim)))
        else:
            shapes.append(None)
    return tuple(shapes)


def kernel_input(
    kernel: Kernel, position: int, spec: TensorSpec, rng: np.random.Generator
) -> Array:
    """Return data for one input: its value if it has one, else data the operator accepts."""
    if spec.value is not None:
        if len(spec.value) != spec.size:
            raise KernelError(
                f"{kernel.label()}: input {position} has {len(spec.value)} values"
                f" for {spec.size} elements"
            )
        return np.array(spec.value).astype(numpy_dtype(spec.dtype)).reshape(spec.shape)
    low, high = _integer_range(kernel, position)
    array = random_array(rng, spec.dtype, spec.shape, low=low, high=high, period=_PERIOD)
    if array.dtype.kind != "f":
        return array
    if kernel.op_type in _POSITIVE or (kernel.op_type == "BatchNormalization" and position == 4):
        return (np.abs(array) + 0.1).astype(array.dtype)
    if kernel.op_type in _UNIT:
        return np.clip(array / 4, -0.9, 0.9).astype(array.dtype)
    if kernel.op_type == "Acosh":
        return (np.abs(array) + 1.0).astype(array.dtype)
    return array


def index_inputs(kernel: Kernel) -> list[int]:
    """Return the positions of data that says where another input is read or written."""
    return [
        position
        for position, spec in enumerate(kernel.inputs)
        if spec is not None and not spec.constant and _places(kernel, position) is not None
    ]


def draw_indices(kernel: Kernel, feeds: Mapping[str, Array], rng: np.random.Generator) -> None:
    """Write other indices into the feeds of a model of copies, in place.

    A model looks up other rows in each run; those of the last one are still in the caches, and the
    processor has learned where they are.
    """
    for position in index_inputs(kernel):
        spec = kernel.inputs[position]
        assert spec is not None
        for name, array in feeds.items():
            if name.startswith(f"x{position}_"):
                array[...] = kernel_input(kernel, position, spec, rng)


def _refuse(kernel: Kernel) -> None:
    """Raise KernelError for what can't run on its own."""
    for name, value in kernel.attributes:
        if isinstance(value, Opaque):
            raise KernelError(f"{kernel.op_type}: attribute {name} is a {value.kind}")
    if kernel.is_constant:
        raise KernelError(f"{kernel.op_type}: all inputs are constant, the runtime folds it")
    output_bytes = [numpy_dtype(shape[0]).itemsize * int(np.prod(shape[1], dtype=np.int64))
            for shape in output_shapes(kernel) if shape is not None]  # fmt: skip
    if kernel.input_bytes + sum(output_bytes) > SIZE_LIMIT:
        raise KernelError(f"{kernel.label()}: its tensors take more than {SIZE_LIMIT >> 20} MiB")
    for spec in kernel.inputs:
        if spec is not None and spec.dtype == "string":
            raise KernelError(f"{kernel.op_type}: strings are not timed")


def _integer_range(kernel: Kernel, position: int) -> tuple[int, int]:
    """Return [low, high) of integers that the operator accepts at this input."""
    places = _places(kernel, position)
    if places is not None:
        return 0, places
    if kernel.op_type in {"Div", "Mod"} and position == 1:
        return 1, 8
    if kernel.op_type in {"CumSum", "CumProd"} and position == 1:
        return 0, 1
    return 0, 2


def _places(kernel: Kernel, position: int) -> int | None:
    """Return how many places of another input an index at this one can name; None if it's none."""
    data = kernel.inputs[0]
    if data is None or not data.shape or position != 1:
        return None
    if kernel.op_type in {"Gather", "GatherElements", "ScatterElements", "Scatter"}:
        axis = int(kernel.attribute("axis", 0))
        if -len(data.shape) <= axis < len(data.shape):
            return max(1, data.shape[axis])
    if kernel.op_type in {"GatherND", "ScatterND"}:
        return max(1, min(data.shape))
    return None


def _node(kernel: Kernel, names: list[str], output_names: list[str]) -> onnx.NodeProto:
    node = helper.make_node(kernel.op_type, names, output_names, domain=kernel.domain or None)
    for name, value in kernel.attributes:
        if isinstance(value, Opaque):
            raise KernelError(f"{kernel.op_type}: attribute {name} is a {value.kind}")
        if isinstance(value, TensorValue):
            tensor = TensorProto(data_type=element_type(value.dtype), dims=value.shape)
            tensor.raw_data = value.data
            node.attribute.append(helper.make_attribute(name, tensor))
        elif value == ():
            kind = _attribute_type(kernel, name)
            node.attribute.append(onnx.AttributeProto(name=name, type=kind))
        else:
            node.attribute.append(helper.make_attribute(name, value))
    return node


def _attribute_type(kernel: Kernel, name: str) -> Any:
    """Return the declared type of an empty list, which does not show it."""
    try:
        schema = onnx.defs.get_schema(kernel.op_type, kernel.opset, kernel.domain)
        return schema.attributes[name].type
    except (onnx.defs.SchemaError, KeyError):
        return onnx.AttributeProto.INTS


def _tensor(name: str, dtype: str, array: Array) -> TensorProto:
    if dtype in {"string", "int4", "uint4", "int2", "uint2", "float4_e2m1fn"}:
        return helper.make_tensor(name, element_type(dtype), array.shape, array.ravel().tolist())
    tensor = TensorProto(name=name, data_type=element_type(dtype), dims=array.shape)
    tensor.raw_data = np.ascontiguousarray(array).tobytes()
    return tensor


def _external(name: str, spec: TensorSpec, size: int) -> TensorProto:
    """Declare a tensor whose data the session is given beside the model."""
    tensor = TensorProto(name=name, data_type=element_type(spec.dtype), dims=spec.shape)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "beside the model"), ("offset", 0), ("length", size)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def _model(kernel: Kernel, graph: onnx.GraphProto) -> ModelProto:
    is_onnx = kernel.domain == ""
    imports = [helper.make_opsetid("", max(_OLDEST_OPSET, kernel.opset) if is_onnx else 17)]
    if not is_onnx:
        imports.append(helper.make_opsetid(kernel.domain, kernel.opset))
    return helper.make_model(graph, opset_imports=imports, ir_version=_IR_VERSION)
