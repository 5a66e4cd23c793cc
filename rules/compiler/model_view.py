"""A small ONNX model as a `GraphView`: for the instances on which rules are tested and proven."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from ...catalog.operators.contributed import infer_shapes, schema
from ...catalog.tensors import dtype_name
from ..language import schemas
from ..language.syntax import Rule
from .view import ABSENT, Match


class ModelView:
    """The main graph of a model; ids count values and nodes in order of occurrence."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = infer_shapes(model, strict=True)
        graph = self.model.graph
        self.nodes = list(graph.node)
        self.opset = next((o.version for o in model.opset_import if o.domain == ""), 1)
        self.constants: dict[str, NDArray[Any]] = {
            t.name: numpy_helper.to_array(t) for t in graph.initializer
        }
        self.types: dict[str, onnx.TypeProto.Tensor] = {
            info.name: info.type.tensor_type
            for info in (*graph.value_info, *graph.input, *graph.output)
        }
        names: dict[str, None] = dict.fromkeys(i.name for i in graph.input)
        names.update(dict.fromkeys(self.constants))
        for node in self.nodes:
            names.update(dict.fromkeys(name for name in (*node.input, *node.output) if name))
        self.names = list(names)
        self.ids = {name: i for i, name in enumerate(self.names)}

    # ------------------------------------------------------------------------ GraphView

    def shape(self, value: int) -> tuple[int | str, ...] | None:
        """Sizes, a name where one is symbolic; None when the rank is unknown."""
        name = self.names[value]
        if name in self.constants:
            return tuple(self.constants[name].shape)
        type_ = self.types.get(name)
        if type_ is None or not type_.HasField("shape"):
            return None
        return tuple(
            d.dim_value if d.HasField("dim_value") else d.dim_param or f"{name}:{axis}"
            for axis, d in enumerate(type_.shape.dim)
        )

    def dtype(self, value: int) -> str | None:
        """The element type, None when unknown."""
        name = self.names[value]
        if name in self.constants:
            return str(self.constants[name].dtype)
        type_ = self.types.get(name)
        return None if type_ is None or not type_.elem_type else dtype_name(type_.elem_type)

    def attribute(self, node: int, name: str) -> object:
        """The attribute, the schema's default when it is not set, None without either."""
        attributes = self.attributes(node)
        if name in attributes:
            return attributes[name]
        declared = self._schema_attributes(node).get(name)
        return None if declared is None else schemas.default_of(declared)

    def _schema_attributes(self, node: int) -> Mapping[str, onnx.defs.OpSchema.Attribute]:
        op = self.nodes[node]
        operator_schema = schema(op.op_type, self.opset, op.domain)
        return {} if operator_schema is None else operator_schema.attributes

    def attributes(self, node: int) -> Mapping[str, object]:
        """The attributes that are set on the node."""
        return {
            a.name: schemas.plain(helper.get_attribute_value(a)) for a in self.nodes[node].attribute
        }

    def is_constant(self, value: int) -> bool:
        """Whether the value is an initializer."""
        return self.names[value] in self.constants

    def constant(self, value: int) -> NDArray[np.generic] | None:
        """The value of an initializer."""
        return self.constants.get(self.names[value])

    def op_type(self, node: int) -> str:
        """The operator with its domain."""
        domain = self.nodes[node].domain
        return f"{domain}:{self.nodes[node].op_type}" if domain else self.nodes[node].op_type

    def inputs(self, node: int) -> tuple[int, ...]:
        """The value ids of the node's inputs."""
        return tuple(self.ids[name] if name else ABSENT for name in self.nodes[node].input)

    def outputs(self, node: int) -> tuple[int, ...]:
        """The value ids of the node's outputs."""
        return tuple(self.ids[name] if name else ABSENT for name in self.nodes[node].output)

    # ----------------------------------------------------------------- talking about it

    def value_name(self, value: int) -> str:
        """The value's name in the model."""
        return self.names[value]

    def node_name(self, node: int) -> str:
        """The node's name, or its operator and number."""
        return self.nodes[node].name or f"{self.nodes[node].op_type}_{node}"

    def use_count(self, value: int) -> int:
        """How many node inputs and graph outputs use the value."""
        name = self.names[value]
        read = [item for node in self.nodes for item in node.input]
        read += [output.name for output in self.model.graph.output]
        return read.count(name)

    # ------------------------------------------------------------------------- instances

    def match(self, rule: Rule, positions: Mapping[str, int]) -> Match:
        """The match of a rule whose pattern names are this model's node and value names."""
        nodes = {n.name: i for i, n in enumerate(self.nodes)}
        values: dict[str, int] = {}
        for node in rule.match:
            for item in node.inputs:
                if item.value and not item.star:
                    values[item.value] = self.ids.get(item.value, ABSENT)
            for output in node.outputs:
                if not output.star:
                    values[output.value] = self.ids[output.value]
        matched = {node.name: nodes[node.name] for node in rule.match}
        return Match(rule, matched, values, {}, positions)
