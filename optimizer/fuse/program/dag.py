"""A program over arrays as a DAG of operators; specifications say what each of them means.

Operators have ONNX's names, or those of numpy_operators.py, and what ONNX passes as a list in an
input (axes, a new shape, the bounds of a slice) stands in `attributes`, so that every input of a
node is an array. Beside the specified operators there are three kinds of nodes:

- Input: an array that is given when the program runs.
- Constant: a number known beforehand, in `attributes["value"]` as a Python bool, int or float.
- Call: a NumPy function, or a ufunc's method, without a specification, named in
  `attributes["function"]` with what it is called with in `attributes["options"]`; never fused.

Types are strict: the operands of arithmetic, comparisons, Max, Min, Where's last two and MatMul
have one type, and a Cast stands wherever NumPy would have promoted one. Shapes are NumPy's, and
operands broadcast as in NumPy.

Known attributes, beside those of the specification:
Cast `to` (a type such as "float64"); Reduce* `axes` (ascending, not negative; the empty tuple
reduces nothing) and `keepdims` (0 or 1); Transpose `perm`; Reshape and Expand `shape`; Squeeze and
Unsqueeze `axes`; Slice `starts`, `ends`, `axes`, `steps` (not negative starts and ends; steps of
either sign, where an end of -1 - size stands for "past the first"); Concat `axis`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

from ....catalog.errors import TensologError
from ....catalog.operators import Specification
from ....catalog.operators.expand import Expansion
from .numpy_operators import listed_inputs, meaning

# Imported within functions: onnx, which planning does without.

LEAVES = frozenset(["Input", "Constant"])
FLOATS = frozenset(["float32", "float64"])

_NO_ATTRIBUTES: Mapping[str, Any] = MappingProxyType({})


class ProgramError(TensologError):
    """A DAG that is none, or a node whose operator has no such meaning."""


@dataclass(frozen=True)
class Node:
    """One operator at known shapes.

    `id` is its position in the program. `dtype` is a NumPy type's name ("float64", "bool").
    `nnz` estimates the non-zeros of a value that is sparse in SciPy's sense (None: dense), and
    `layout` says how such a value is held: "dense", "csr", "csc" or "coo".
    """

    id: int
    op: str
    inputs: tuple[int, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=lambda: _NO_ATTRIBUTES)
    shape: tuple[int, ...] = ()
    dtype: str = "float64"
    nnz: int | None = None
    layout: str = "dense"

    @property
    def size(self) -> int:
        """The number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def is_leaf(self) -> bool:
        """Whether the node computes nothing."""
        return self.op in LEAVES

    @property
    def density(self) -> float:
        """The share of elements that are stored: 1 when dense, or of nothing."""
        return 1.0 if self.nnz is None or not self.size else min(1.0, self.nnz / self.size)

    @cached_property
    def specification(self) -> Specification | None:
        """What the operator means; None for leaves, for Call and for what has no meaning."""
        meant = None if self.op in ("Input", "Constant", "Call") else meaning(self.op)
        return None if meant is None or meant.opaque is not None else meant

    @property
    def kind(self) -> str:
        """The class of the operator; of leaves, and of what has no specification, "other"."""
        return "other" if self.specification is None else self.specification.kind

    @property
    def is_elementwise(self) -> bool:
        """Whether an element of the output is made of one element of each input."""
        return self.kind == "elementwise"

    def __str__(self) -> str:
        attributes = ", ".join(f"{name}={value}" for name, value in self.attributes.items())
        operands = ", ".join(f"%{operand}" for operand in self.inputs)
        shape = shape_text(self.shape)
        store = "" if self.layout == "dense" else f" {self.layout} nnz={self.nnz}"
        called = f"{self.op}<{attributes}>" if attributes else self.op
        return f"%{self.id} = {called}({operands}) : {self.dtype} {shape}{store}"


def shape_text(shape: Sequence[int]) -> str:
    """Return a shape as people read it."""
    return "x".join(map(str, shape)) or "scalar"


@dataclass(frozen=True)
class Program:
    """Nodes in topological order, each at the position that is its id.

    `inputs` are the Input nodes in the order in which arrays are given, `outputs` the nodes whose
    values are wanted, in order; one node may be wanted twice, and an input may be an output.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def __post_init__(self) -> None:
        for position, node in enumerate(self.nodes):
            if node.id != position:
                raise ProgramError(f"node {node.id} stands at position {position}")
            if any(not 0 <= operand < position for operand in node.inputs):
                raise ProgramError(f"node {node.id} ({node.op}) reads a node that isn't before it")
        input_ids = tuple(node.id for node in self.nodes if node.op == "Input")
        if sorted(self.inputs) != list(input_ids):
            raise ProgramError(f"the inputs are {self.inputs}, but the Input nodes are {input_ids}")
        if any(not 0 <= output < len(self.nodes) for output in self.outputs):
            raise ProgramError(f"an output of {self.outputs} is no node")

    @cached_property
    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """For each node, the nodes that read it, ascending, each once."""
        consumers: list[list[int]] = [[] for _ in self.nodes]
        for node in self.nodes:
            for operand in sorted(set(node.inputs)):
                consumers[operand].append(node.id)
        return tuple(map(tuple, consumers))

    @cached_property
    def live(self) -> tuple[int, ...]:
        """The nodes that outputs depend on, ascending."""
        needed = set(self.outputs)
        for node in reversed(self.nodes):
            if node.id in needed:
                needed.update(node.inputs)
        return tuple(sorted(needed))

    @cached_property
    def schedule(self) -> tuple[tuple[Node, tuple[int, ...]], ...]:
        """The nodes that compute what the outputs need, in order; the operands read there last."""
        steps: list[tuple[Node, tuple[int, ...]]] = []
        kept = set(self.outputs)
        for node in (self.nodes[number] for number in reversed(self.live)):
            if node.op != "Input":
                steps.append((node, tuple(sorted(set(node.inputs) - kept))))
                kept |= set(node.inputs)
        return tuple(reversed(steps))

    def expansion(self, node_id: int) -> Expansion:
        """Return shape and value of a node as terms of index notation.

        Raises ProgramError for a node without a specification, ShapeError where nothing fits.
        """
        node = self.nodes[node_id]
        spec = node.specification
        if spec is None:
            raise ProgramError(f"{node.op} has no specification")
        shapes: list[Sequence[int] | None] = [self.nodes[i].shape for i in node.inputs]
        listed = listed_inputs(node.op)
        values: dict[int, object] = {}
        attributes = {name: v for name, v in node.attributes.items() if name not in listed}
        for name in listed:
            if name in node.attributes:
                value = node.attributes[name]
                values[len(shapes)] = list(value) if isinstance(value, tuple) else value
                shapes.append((len(value),) if isinstance(value, tuple) else ())
        if node.op.startswith("Reduce") and node.attributes.get("axes") == ():
            attributes["noop_with_empty_axes"] = 1
        if node.op == "Cast":
            attributes["to"] = type_code(node.dtype)
        return spec.expand(shapes, attributes, values=values, outputs=1)

    def __str__(self) -> str:
        outputs = ", ".join(f"%{output}" for output in self.outputs)
        return "\n".join([*map(str, self.nodes), f"return {outputs}"])


def type_code(name: str) -> int:
    """Return ONNX's number of a type."""
    from onnx import TensorProto

    onnx_name = {"float32": "FLOAT", "float64": "DOUBLE"}.get(name, name.upper())
    return int(TensorProto.DataType.Value(onnx_name))
