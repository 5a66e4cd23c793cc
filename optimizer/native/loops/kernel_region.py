"""A region: nodes of a model's graph that one kernel computes, and what each of them means."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import onnx

from ....catalog.operators import ShapeError, Specification, specification
from ....catalog.operators.expand import Expansion
from ....catalog.terms.index_notation import Apply
from ....rules import ABSENT
from ...codegen.expressions import LoweringError
from ...graph.graph import Graph, TensorType
from .affine import Extent
from .element_types import ELEMENTS, FULL, as_numbers
from .reshape import expanded_reshape

LARGEST = float(np.finfo(np.float32).max)
# The operator set from which on Clip may lack a bound; before, these are attributes with defaults.
BOUNDS_ARE_INPUTS = 11
# What takes more is beyond any kernel, and its sizes are sums of so many terms.
_MOST_INPUTS = 256


@dataclass(frozen=True)
class Region:
    """Nodes in topological order, the values they read, and those that are needed outside.

    `space` is the shape that the kernel runs over, that of the outputs; `reduced` says over how
    many of its axes, side by side, something is reduced, 0 where nothing is, and `behind` how many
    axes come after these. Outputs may lack what is reduced. `sort` says which kernels it is for.
    """

    nodes: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    space: tuple[Extent, ...]
    reduced: int = 0
    behind: int = 0
    sort: str = "cells"

    @property
    def over(self) -> range:
        """The axes that are reduced."""
        end = len(self.space) - self.behind
        return range(end - self.reduced, end)


def read_by(graph: Graph, nodes: Sequence[int]) -> tuple[int, ...]:
    """Return what nodes read that none of them produces, shapes and axes included."""
    produced = {value for number in nodes for value in graph.nodes[number].outputs}
    return tuple(
        dict.fromkeys(
            value
            for number in nodes
            for value in graph.nodes[number].inputs
            if value != ABSENT and value not in produced
        )
    )


def needed_outside(graph: Graph, nodes: Collection[int]) -> list[int]:
    """Return what some nodes give that others read, or the model gives."""
    inside = set(nodes)
    return [
        value
        for number in nodes
        for value in graph.nodes[number].outputs
        if graph.is_pinned(value) or graph.users.get(value, set()) - inside
    ]


class Laying(Protocol):
    """How a constant is laid out before a model runs; it is hashable, equal ways are one."""

    @property
    def kind(self) -> str:
        """What the result is called, behind the constant's name."""

    def lay(self, array: np.ndarray) -> np.ndarray:
        """Return the constant as a kernel reads it."""

    def type_of(self, constant_type: TensorType) -> TensorType:
        """Return the type of what `lay` returns, of a constant of some type."""


class LaidOut(NamedTuple):
    """A value that a constant, its `source`, becomes when it is laid out."""

    value: int
    source: int
    how: Laying


def _bounded(expansion: Expansion) -> Expansion:
    """Give a Clip the bounds that it has where the model names none: the largest numbers.

    The specification lets an infinity pass there, of which Softmax would make NaN; the runtime, as
    the standard says, doesn't.
    """
    (output,) = expansion.outputs
    value, (_, low, high) = output.value, (*expansion.inputs, None, None)[:3]
    if low is None:
        value = Apply("max", (value, -LARGEST))
    if high is None:
        value = Apply("min", (value, LARGEST))
    return replace(expansion, outputs=(replace(output, value=value),))


@dataclass(eq=False)
class Meanings:
    """What the nodes of a graph mean at their shapes, expanded when first asked for.

    `optimized` are the nodes of the model as the runtime optimizes it, by the names of what they
    give, None where nobody knows; of what is quantized while it runs, kernels round as these.
    `packed` has the values that others become, by what they are and how they are laid out, where
    kernels read them in another layout.
    """

    graph: Graph
    optimized: Mapping[str, onnx.NodeProto] | None = None
    packed: dict[tuple[int, object], int] = field(default_factory=dict)
    _expanded: dict[int, Expansion | str] = field(default_factory=dict)

    def of(self, number: int) -> Expansion:
        """Expand a node's specification; raise LoweringError where no kernel can mean it."""
        if number not in self._expanded:
            try:
                self._expanded[number] = self._expand(number)
            except (LoweringError, ShapeError) as error:
                self._expanded[number] = str(error)
        expanded = self._expanded[number]
        if isinstance(expanded, str):
            raise LoweringError(expanded)
        return expanded

    @cached_property
    def order(self) -> Sequence[int]:
        """The nodes in topological order, as `Graph.order`: the graph isn't to change any more."""
        return self.graph.order()

    @cached_property
    def position(self) -> Mapping[int, int]:
        """Where each node is in that order."""
        return {number: position for position, number in enumerate(self.order)}

    def in_order(self, nodes: Iterable[int]) -> tuple[int, ...]:
        """Sort nodes topologically."""
        return tuple(sorted(nodes, key=self.position.__getitem__))

    def laid_out(self, source: int, how: Laying) -> LaidOut:
        """Return the value that a constant is when it is laid out, the same for all that ask.

        `supply` gives the graph its numbers, where a kernel that reads it is chosen.
        """
        key = (source, how)
        if key not in self.packed:
            type_ = how.type_of(self.graph.constants[source].type)
            self.packed[key] = self.graph.new_value(f"{self.graph.names[source]}.{how.kind}", type_)
        return LaidOut(self.packed[key], source, how)

    def has(self, number: int) -> bool:
        """Tell whether a kernel may contain a node."""
        try:
            self.of(number)
        except LoweringError:
            return False
        return True

    def specification(self, number: int) -> Specification | None:
        """Give a node's specification, None where there is none."""
        node = self.graph.nodes[number]
        return specification(node.domain, node.op_type, self.graph.opset(node.domain))

    def kind(self, number: int) -> str:
        """Give the class of a node's operator."""
        spec = self.specification(number)
        return "opaque" if spec is None else spec.kind

    def is_full(self, number: int) -> bool:
        """Tell whether all that a node reads and gives is float32, truth values, or known."""
        graph, node = self.graph, self.graph.nodes[number]
        spec = self.specification(number)
        known_positions = set() if spec is None else set(spec.known_inputs)
        read = [
            v
            for position, v in enumerate(node.inputs)
            if v != ABSENT and position not in known_positions
        ]
        return all(graph.dtype(value) in FULL for value in (*read, *node.outputs))

    def shape(self, value: int) -> tuple[Extent, ...]:
        """Give a value's shape; raise LoweringError where it isn't known."""
        shape = self.graph.shape(value)
        if shape is None:
            raise LoweringError(f"the shape of {self.graph.value_name(value)} is not known")
        return shape

    def scalar(self, value: int) -> float | bool | None:
        """Give the number that a constant of one element is, None for anything else."""
        constant = self.graph.constants.get(value)
        if constant is None or constant.type.dtype not in ELEMENTS or constant.type.shape is None:
            return None
        if any(size != 1 for size in constant.type.shape):
            return None
        number = constant.array().reshape(()).item()
        return number if isinstance(number, bool) else float(number)

    def uniform(self, value: int) -> float | None:
        """Give the number that all elements of a constant of float32 are, None for others."""
        constant = self.graph.constants.get(value)
        if constant is None or constant.type.dtype != "float32":
            return None
        bits = constant.array().reshape(-1).view(np.uint32)
        if bits.size == 0 or (bits != bits[0]).any():
            return None
        return float(bits[:1].view(np.float32)[0])

    def _expand(self, number: int) -> Expansion:
        graph, node = self.graph, self.graph.nodes[number]
        spec = self.specification(number)
        if spec is None or spec.opaque is not None or node.captures:
            raise LoweringError(f"{node.operator} has no meaning that a kernel computes")
        if len(node.inputs) > _MOST_INPUTS:
            raise LoweringError(f"{node.operator} of {len(node.inputs)} inputs")
        if node.operator == "ReduceLogSumExp":
            raise LoweringError("ReduceLogSumExp overflows if it is computed as it is written")
        output_types = [
            "" if value == ABSENT else graph.dtype(value) or "" for value in node.outputs
        ]
        if any(dtype not in ELEMENTS for dtype in output_types):
            raise LoweringError(f"{node.operator} gives something else than kernels do")
        shapes: list[Sequence[Extent] | None] = []
        values: dict[int, object] = {}
        input_types: list[str | None] = []
        for position, value in enumerate(node.inputs):
            input_types.append(None if value == ABSENT else graph.dtype(value))
            if value == ABSENT:
                shapes.append(None)
                continue
            shapes.append(self.shape(value))
            if position in spec.known_inputs:
                constant = graph.constant(value)
                if constant is None:
                    raise LoweringError(f"{node.operator}: its input {position} is not known")
                values[position] = constant.tolist()
            elif graph.dtype(value) not in ELEMENTS and (node.operator, position) != ("Gather", 1):
                raise LoweringError(f"{node.operator} of {graph.dtype(value)}")
        attributes = graph.attributes(number)
        if node.op_type == "Reshape" and (kept := self._reshaped(number, spec)) is not None:
            return kept
        expansion = spec.expand(shapes, attributes, values=values, outputs=len(node.outputs))
        if expansion.requirements:
            raise LoweringError(f"{node.operator}: {expansion.requirements[0][1]} is not known")
        if len(expansion.outputs) != len(node.outputs):
            raise LoweringError(f"{node.operator}: not all outputs are specified")
        expansion = as_numbers(node.op_type, expansion, input_types, output_types)
        if node.operator == "Clip" and graph.opset() >= BOUNDS_ARE_INPUTS:
            return _bounded(expansion)
        return expansion

    def _reshaped(self, number: int, spec: Specification) -> Expansion | None:
        """Expand a Reshape with free dimensions, None for another one."""
        node = self.graph.nodes[number]
        shape, target = self.shape(node.inputs[0]), self.graph.constant(node.inputs[1])
        if target is None or all(isinstance(size, int) for size in shape):
            return None
        return expanded_reshape(spec, shape, target.tolist(), self.graph.attributes(number))
