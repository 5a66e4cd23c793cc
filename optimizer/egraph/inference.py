"""Types of what e-nodes give and the kernels they are: asked of a graph of one node, once each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import onnx
from onnx.shape_inference import InferenceError

from ...catalog.operators import schema_for
from ...profiles.kernel import Kernel
from ...rules import ABSENT
from ..graph.graph import Graph, Node, TensorType
from ..graph.infer import infer_node
from ..price import kernel_of
from .absorbing_rules import DOMAIN
from .interning import Attributes, Operator, Vocabulary


@dataclass(frozen=True)
class Operand:
    """What inference and prices may know of an operand: type, constness, its elements if few."""

    type: int | None
    known: bool = False
    constant: int | None = None


Operands = tuple[Operand | None, ...]


class Inference:
    """Answers per operator, attributes and operands; equal questions are asked of ONNX once."""

    def __init__(self, base: onnx.ModelProto, vocabulary: Vocabulary) -> None:
        self.base, self.vocabulary = base, vocabulary
        self._types: dict[tuple[int, int, Operands], tuple[TensorType | None, ...] | None] = {}
        self._kernels: dict[tuple[int, int, Operands, tuple[int | None, ...]], Kernel | None] = {}
        self._pure: dict[int, bool] = {}
        self._empty = Graph(base=base, names=[])

    def opset(self, domain: str) -> int:
        """The version of an operator set that the model imports."""
        return self._empty.opset(domain)

    def is_pure(self, operator: int) -> bool:
        """Whether equal operands give equal results."""
        if operator not in self._pure:
            op = self.vocabulary.operators[operator]
            spec = schema_for(op.domain, op.op_type, self.opset(op.domain))
            self._pure[operator] = spec is not None and spec.deterministic
        return self._pure[operator]

    def types(
        self, operator: int, attributes: int, operands: Operands
    ) -> tuple[TensorType | None, ...] | None:
        """The types of the outputs by position; None where the operands don't fit the operator.

        Sizes that can't be told have names that begin with `?` and are made anew by the caller.
        """
        if self.vocabulary.operators[operator].domain == DOMAIN:
            # Types and shapes alone tell theirs, so that one answer is that of all layers.
            operands = tuple(o and replace(o, constant=None) for o in operands)
        key = (operator, attributes, operands)
        if key not in self._types:
            graph, outputs = self._single(operator, attributes, operands, ())
            try:
                types = infer_node(graph, 0)
                self._types[key] = tuple(types.get(value) for value in outputs)
            except InferenceError:
                self._types[key] = None
        return self._types[key]

    def kernel(
        self, operator: int, attributes: int, operands: Operands, results: tuple[int | None, ...]
    ) -> Kernel | None:
        """What an e-node is measured as; None where a size is not known."""
        is_typed = all(o is None or o.type is not None for o in operands)
        key = (operator, attributes, operands, results)
        if key not in self._kernels:
            graph, _ = self._single(operator, attributes, operands, results)
            fixed = {v for v, operand in enumerate(operands) if operand and operand.known}
            self._kernels[key] = kernel_of(graph, 0, graph.types, fixed) if is_typed else None
        return self._kernels[key]

    def _single(
        self,
        operator: int,
        attributes: int,
        operands: Operands,
        results: Sequence[int | None],
    ) -> tuple[Graph, tuple[int, ...]]:
        op, node_attributes = (
            self.vocabulary.operators[operator],
            self.vocabulary.attributes[attributes],
        )
        return self.graph_of([(op, node_attributes, operands, results)])

    def graph_of(
        self, nodes: Sequence[tuple[Operator, Attributes, Operands, Sequence[int | None]]]
    ) -> tuple[Graph, tuple[int, ...]]:
        """A graph of nodes side by side, with values of their own; and the outputs of all."""
        graph = Graph(base=self.base, names=[])
        all_outputs: list[int] = []
        for op, attributes, operands, results in nodes:
            inputs = tuple(self._operand(graph, operand) for operand in operands)
            first = len(graph.names)
            outputs = tuple(
                first + sum(attributes.present[:place]) if present else ABSENT
                for place, present in enumerate(attributes.present)
            )
            graph.names += [f"v{first + place}" for place in range(sum(attributes.present))]
            for value, type_ in zip(outputs, results, strict=False):
                if type_ is not None and value != ABSENT:
                    graph.types[value] = self.vocabulary.types[type_]
            protos = dict(attributes.protos)
            graph.add_node(Node(op.op_type, op.domain, inputs, outputs, protos))
            all_outputs += outputs
        graph.graph_outputs = tuple(value for value in all_outputs if value != ABSENT)
        return graph, tuple(all_outputs)

    def _operand(self, graph: Graph, operand: Operand | None) -> int:
        if operand is None:
            return ABSENT
        value = len(graph.names)
        graph.names.append(f"v{value}")
        if operand.constant is not None:
            graph.set_constant(value, self.vocabulary.constants[operand.constant])
        elif operand.type is not None:
            graph.types[value] = self.vocabulary.types[operand.type]
        return value


def renamed(type_: TensorType, stem: int) -> TensorType:
    """Give unknown sizes names that no other value's have."""
    if type_.shape is None:
        return type_
    shape = tuple(
        f"?{stem}.{axis}" if isinstance(size, str) and size.startswith("?") else size
        for axis, size in enumerate(type_.shape)
    )
    return replace(type_, shape=shape)
