"""Nodes added to a graph one by one, for derivations that no rule can say."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import helper

from ...rules import ABSENT
from .graph import Graph, Node
from .infer import infer_node


class Maker:
    """Adds nodes of one derivation, `name`, with the types of what they give; `count` of them."""

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph, self.name, self.count = graph, name, 0

    def constant(self, array: np.ndarray) -> int:
        """Add a constant and return its value."""
        return self.graph.add_constant(array, f"{self.name}/constant")

    def node(self, op_type: str, inputs: Sequence[int], **attributes: object) -> int:
        """Add a node of one output, of ONNX's own domain, and return that."""
        protos = {name: helper.make_attribute(name, value) for name, value in attributes.items()}
        return self.add(Node(op_type, "", tuple(inputs), (), protos))

    def add(self, node: Node) -> int:
        """Add a node as it stands but for its outputs: it gets one, which is returned."""
        output = self.value(node.op_type)
        self.give(node, (output,))
        return output

    def value(self, op_type: str) -> int:
        """Add a value that an operator is to give."""
        return self.graph.new_value(f"{self.name}/{op_type}")

    def give(self, node: Node, outputs: tuple[int, ...]) -> None:
        """Add a node as it stands but for its outputs; these must have no producer."""
        assert ABSENT not in node.inputs
        number = self.graph.add_node(
            Node(node.op_type, node.domain, node.inputs, outputs, node.attributes, rule=self.name)
        )
        self.graph.types.update(infer_node(self.graph, number))
        self.count += 1
