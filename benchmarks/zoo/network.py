"""Write ONNX graphs as an exporter writes them: nothing fused, dynamic shapes computed by nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = npt.NDArray[np.generic]
Dimension = int | str
# Metadata that say how long what an input indexes is.
INDEX = "indexes:"


class Network:
    """An ONNX graph under construction; values are their names.

    Weights are drawn from one seeded generator in the order in which layers ask for them, so a
    builder with equal arguments gives an equal model.
    """

    def __init__(self, name: str, *, opset: int, seed: int) -> None:
        self.name = name
        self.opset = opset
        self.random = np.random.default_rng(seed)
        self._scopes: list[str] = []
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: dict[str, onnx.TensorProto] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._used: dict[str, int] = {}
        self._domains: set[str] = set()
        self.shape_of: dict[str, Sequence[Dimension]] = {}
        # inputs that index something, and how long that is, where no table in the model says so
        self.indices: dict[str, int] = {}

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Prefix the names of all nodes and weights made inside."""
        self._scopes.append(name)
        yield
        self._scopes.pop()

    def input(self, name: str, shape: Sequence[Dimension], dtype: int = TensorProto.FLOAT) -> str:
        self._inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        self.shape_of[name] = shape
        return name

    def output(self, value: str, name: str, shape: Sequence[Dimension]) -> None:
        """Make `value` the graph output `name` (float32)."""
        for node in self._nodes:
            node.output[:] = [name if output == value else output for output in node.output]
            node.input[:] = [name if input_ == value else input_ for input_ in node.input]
        self._outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        self.shape_of[name] = shape

    def op(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Append a node of one output and return that output."""
        return self.ops(op_type, *inputs, outputs=1, **attributes)[0]

    def ops(self, op_type: str, *inputs: str, outputs: int, **attributes: Any) -> list[str]:
        """Append a node of several outputs and return them."""
        self._domains.add(attributes.get("domain", ""))
        name = self._fresh("/" + "/".join([*self._scopes, op_type]))
        results = [f"{name}_output_{position}" for position in range(outputs)]
        self._nodes.append(helper.make_node(op_type, inputs, results, name=name, **attributes))
        return results

    def constant(self, value: object, dtype: npt.DTypeLike = np.float32) -> str:
        """Append a Constant node, as the exporter does for numbers in the source."""
        return self.op("Constant", value=numpy_helper.from_array(np.asarray(value, dtype)))

    def integers(self, *values: int) -> str:
        """Append a Constant node holding a 1-D int64 tensor."""
        return self.constant(values, np.int64)

    def weight(self, name: str, array: Array) -> str:
        """Add an initializer; a name used before gets a number."""
        name = self._fresh(".".join([*self._scopes, name]))
        self._initializers[name] = numpy_helper.from_array(array, name)
        return name

    def normal(self, name: str, *shape: int, std: float, mean: float = 0.0) -> str:
        """Add a float32 initializer drawn from a normal distribution."""
        array = self.random.standard_normal(shape, np.float32)
        return self.weight(name, array * np.float32(std) + np.float32(mean))

    def uniform(self, name: str, *shape: int, low: float, high: float) -> str:
        """Add a float32 initializer drawn from a uniform distribution."""
        return self.weight(name, self.random.uniform(low, high, shape).astype(np.float32))

    def model(self) -> onnx.ModelProto:
        """Return the finished model, checked and with inferred shapes."""
        graph = helper.make_graph(
            self._nodes, self.name, self._inputs, self._outputs, list(self._initializers.values())
        )
        model = helper.make_model(
            graph,
            opset_imports=[
                helper.make_opsetid("", self.opset),
                *(helper.make_opsetid(domain, 3) for domain in sorted(self._domains - {""})),
            ],
            ir_version=8 if self.opset < 19 else 10,
            producer_name="tensolog-zoo",
        )
        for name, length in self.indices.items():
            model.metadata_props.add(key=f"{INDEX}{name}", value=str(length))
        onnx.checker.check_model(model)
        return model

    def _fresh(self, name: str) -> str:
        count = self._used.get(name, 0)
        self._used[name] = count + 1
        return f"{name}_{count}" if count else name


# Operators whose axes moved from attributes to inputs: the spelling depends on the opset.


def reduce_mean(net: Network, value: str, *axes: int, keepdims: int = 1) -> str:
    if net.opset >= 18:
        return net.op("ReduceMean", value, net.integers(*axes), keepdims=keepdims)
    return net.op("ReduceMean", value, axes=axes, keepdims=keepdims)


def unsqueeze(net: Network, value: str, *axes: int) -> str:
    return net.op("Unsqueeze", value, net.integers(*axes))


def split(net: Network, value: str, sizes: Sequence[int], axis: int) -> list[str]:
    return net.ops("Split", value, net.integers(*sizes), outputs=len(sizes), axis=axis)


def slice_(net: Network, value: str, start: int, end: int, axis: int) -> str:
    bounds = (net.integers(start), net.integers(end), net.integers(axis), net.integers(1))
    return net.op("Slice", value, *bounds)


def dimension(net: Network, value: str, axis: int) -> str:
    """Compute one dimension of `value` as a scalar, the way exporters do."""
    return net.op("Gather", net.op("Shape", value), net.constant(axis, np.int64), axis=0)


def reshape(net: Network, value: str, shape: Sequence[Dimension]) -> str:
    """Reshape; a scalar value's name in `shape` makes the node chain that assembles it."""
    if all(isinstance(item, int) for item in shape):
        return net.op("Reshape", value, net.integers(*(int(item) for item in shape)))
    return net.op("Reshape", value, assemble(net, shape))


def assemble(net: Network, shape: Sequence[Dimension]) -> str:
    """Concatenate numbers and computed scalars into a shape."""
    parts = [
        net.integers(item) if isinstance(item, int) else unsqueeze(net, item, 0) for item in shape
    ]
    return net.op("Concat", *parts, axis=0)
