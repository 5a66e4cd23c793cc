"""A model as a plan sees it: operators as kernels, in order, and the values between them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import numpy_helper

from ..catalog.errors import ModelError
from ..optimizer.graph.convert import load_graph
from ..optimizer.graph.fold import fold_constants
from ..optimizer.graph.free_sizes import not_given, sizes_from
from ..optimizer.graph.graph import Graph
from ..optimizer.graph.infer import bound_types, infer_types
from ..optimizer.graph.simplify import remove_dead
from ..optimizer.price import kernel_of
from ..profiles.kernel import Kernel, numpy_dtype
from ..rules import ABSENT
from .runnable_plan import Slot

# What is computed of constants alone is computed now, if it stays as small as this.
_FOLD_BYTES = 64 << 10


@dataclass(frozen=True)
class Value:
    """A tensor: name, element type, shape. `constant`: it is known before the model runs."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    constant: bool

    @cached_property
    def item_bytes(self) -> int:
        """Bytes of an element."""
        return numpy_dtype(self.dtype).itemsize

    @cached_property
    def size_bytes(self) -> int:
        """Bytes of all elements."""
        return math.prod(self.shape) * self.item_bytes


@dataclass(frozen=True)
class Operator:
    """A node: its kernel, and the values it reads and gives by position (None: absent)."""

    name: str
    node: int
    kernel: Kernel
    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]
    captures: tuple[int, ...] = ()

    @cached_property
    def reads(self) -> tuple[tuple[int, int], ...]:
        """Give the values that it reads, each with the input that it is (-1: in a subgraph)."""
        inputs = ((position, value) for position, value in enumerate(self.inputs))
        captures = ((-1, value) for value in self.captures)
        return (*((p, v) for p, v in inputs if v is not None), *captures)


@dataclass(frozen=True)
class Workload:
    """A model at known sizes: operators in the order of the graph, values by number."""

    graph: Graph
    operators: tuple[Operator, ...]
    values: Mapping[int, Value]

    @property
    def producer(self) -> dict[int, tuple[int, int]]:
        """Give the operator that gives a value, and at which output, by the value."""
        return {
            value: (number, position)
            for number, operator in enumerate(self.operators)
            for position, value in enumerate(operator.outputs)
            if value is not None
        }

    @property
    def outputs(self) -> tuple[int, ...]:
        """Give the values that the model gives."""
        return self.graph.graph_outputs

    @property
    def constant_bytes(self) -> int:
        """Bytes of all constants that operators read, each once."""
        read = {value for operator in self.operators for _, value in operator.reads}
        return sum(self.values[v].size_bytes for v in read if self.values[v].constant)


def read_workload(
    model: str | Path | bytes | onnx.ModelProto,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
) -> Workload:
    """Read a model at the sizes of `input_shapes` (by input name; none where all are declared).

    Weights may be external, and are not read. Raises ModelError for a model that can't be read, or
    one with sizes that are not known.
    """
    proto = _load(model)
    folder = str(Path(model).parent) if isinstance(model, (str, Path)) else ""
    try:
        graph = load_graph(proto, partial(numpy_helper.to_array, base_dir=folder))
    except (ValueError, TypeError, KeyError) as error:
        raise ModelError(f"the model can't be read: {error}") from error
    graph.types = infer_types(graph)
    sizes = sizes_from(graph, input_shapes or {})
    if missing := not_given(graph, sizes):
        raise ModelError(
            f"the size {missing[0]} of the model's inputs is not known: give all sizes of the input"
        )
    graph.types = bound_types(graph, sizes)
    fold_constants(graph, _FOLD_BYTES)
    remove_dead(graph)
    for value, type_ in infer_types(graph, sizes).items():
        graph.types.setdefault(value, type_)
    return workload_of(graph)


def workload_of(graph: Graph) -> Workload:
    """Return a graph of known sizes as a workload. Raises ModelError where one is not known."""
    operators, values = [], {}
    for number in graph.order():
        node = graph.nodes[number]
        kernel = kernel_of(graph, number, graph.types)
        if kernel is None or any(_shape(graph, v) is None for v in node.outputs if v != ABSENT):
            raise ModelError(
                f"the sizes of {graph.node_name(number)} ({node.op_type}) are not known before the"
                " model runs: it can't be planned"
            )
        for value in (*node.reads, *(v for v in node.outputs if v != ABSENT)):
            shape = _shape(graph, value)
            if shape is None:
                raise ModelError(f"the sizes of {graph.value_name(value)} are not known")
            dtype = graph.dtype(value) or "float32"
            values[value] = Value(graph.value_name(value), dtype, shape, graph.is_constant(value))
        operators.append(
            Operator(
                graph.node_name(number),
                number,
                kernel,
                tuple(None if v == ABSENT else v for v in node.inputs[: len(kernel.inputs)]),
                tuple(None if v == ABSENT else v for v in node.outputs),
                tuple(sorted(node.captures)),
            )
        )
    return Workload(graph, tuple(operators), values)


def slots_of(workload: Workload) -> tuple[tuple[Slot, ...], tuple[Slot, ...]]:
    """Return what the model takes and gives, at the sizes that are planned for."""
    graph = workload.graph
    defaults = {tensor.name for tensor in graph.base.graph.initializer}
    sides = []
    for values in (graph.graph_inputs, graph.graph_outputs):
        slots = []
        for value in values:
            if graph.names[value] not in defaults or values is graph.graph_outputs:
                type_ = graph.types[value]
                slots.append(Slot(graph.names[value], type_.dtype, type_.shape or ()))
        sides.append(tuple(slots))
    return sides[0], sides[1]


def _shape(graph: Graph, value: int) -> tuple[int, ...] | None:
    shape = graph.shape(value)
    if shape is None or not all(isinstance(size, int) for size in shape):
        return None
    return tuple(int(size) for size in shape)


def _load(model: str | Path | bytes | onnx.ModelProto) -> onnx.ModelProto:
    if isinstance(model, onnx.ModelProto):
        return model
    try:
        if isinstance(model, bytes):
            return onnx.load_from_string(model)
        return onnx.load(str(model), load_external_data=False)
    except (OSError, DecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no ONNX model"
        raise ModelError(
            f"{model if isinstance(model, (str, Path)) else 'the model'}: {reason}"
        ) from error
