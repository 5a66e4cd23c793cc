"""The main graph of a model in memory: what the search driver rewrites.

Values and nodes are integers, as in the relations that the Datalog programs read; names come back
when the graph is written out. Subgraphs stay inside their node, whose `captures` lists the outer
values they read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ...catalog.operators import schema_for
from ...catalog.operators.contributed import DOMAINS
from ...catalog.ordering import CycleError, topological
from ...profiles.kernel import dtype_name, numpy_dtype
from ...rules import ABSENT

Shape = tuple[int | str, ...]
Loader = Callable[[onnx.TensorProto], np.ndarray]


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type as numpy names it, and shape; a name stands for an unknown dimension."""

    dtype: str
    shape: Shape | None

    @property
    def size_bytes(self) -> int | None:
        """Give the size in bytes, or None where a dimension is not known."""
        if self.shape is None or not all(isinstance(size, int) for size in self.shape):
            return None
        count = 1
        for size in self.shape:
            count *= int(size)
        return count * numpy_dtype(self.dtype).itemsize


@dataclass(frozen=True, slots=True)
class Node:
    """One operator application; `rule` names the substitution that made it, '' for an original."""

    op_type: str
    domain: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: Mapping[str, onnx.AttributeProto]
    captures: frozenset[int] = frozenset()
    name: str = ""
    rule: str = ""
    proto: onnx.NodeProto | None = None

    @property
    def operator(self) -> str:
        """Name the operator as the rules do: `Conv`, or `com.microsoft:FusedConv`."""
        return f"{self.domain}:{self.op_type}" if self.domain else self.op_type

    @property
    def reads(self) -> Iterator[int]:
        """Yield each value that the node reads, captured ones included."""
        yield from (value for value in self.inputs if value != ABSENT)
        yield from self.captures


@dataclass(frozen=True, slots=True)
class Constant:
    """A tensor known now; its bytes stay where they lie until somebody asks for the array."""

    type: TensorType
    tensor: onnx.TensorProto | np.ndarray
    load: Loader = numpy_helper.to_array

    def array(self) -> np.ndarray:
        """Read the tensor."""
        return self.tensor if isinstance(self.tensor, np.ndarray) else self.load(self.tensor)


def constant_of(array: np.ndarray) -> Constant:
    """Wrap an array as a constant."""
    dtype = dtype_name(helper.np_dtype_to_tensor_dtype(array.dtype))
    return Constant(TensorType(dtype, tuple(array.shape)), array)


@dataclass
class Graph:
    """The main graph: nodes, the constants it reads, and the type of each value where known."""

    base: onnx.ModelProto
    names: list[str]
    nodes: dict[int, Node] = field(default_factory=dict)
    constants: dict[int, Constant] = field(default_factory=dict)
    types: dict[int, TensorType] = field(default_factory=dict)
    graph_inputs: tuple[int, ...] = ()
    graph_outputs: tuple[int, ...] = ()
    producer: dict[int, int] = field(default_factory=dict)
    users: dict[int, set[int]] = field(default_factory=dict)
    reserved: frozenset[str] = frozenset()
    next_node: int = 0
    shelve: Callable[[np.ndarray], Constant] = constant_of

    def copy(self) -> Graph:
        """Make an independent graph; nodes and constants are shared, being immutable."""
        return replace(
            self,
            names=list(self.names),
            nodes=dict(self.nodes),
            constants=dict(self.constants),
            types=dict(self.types),
            producer=dict(self.producer),
            users={value: set(users) for value, users in self.users.items()},
        )

    # ------------------------------------------------------------------------------- versions

    def opset(self, domain: str = "") -> int:
        """Give the version of an operator set that the model imports, 0 where it imports none.

        Those that rules bring operators of count as imported: they are, where a node needs them.
        """
        for entry in self.base.opset_import:
            if (entry.domain or "") == domain or (domain == "" and entry.domain == "ai.onnx"):
                return int(entry.version)
        return DOMAINS.get(domain, 0)

    # --------------------------------------------------------------------------------- change

    def new_value(self, stem: str, type_: TensorType | None = None) -> int:
        """Add a value under a name that nothing in the model bears yet."""
        name, count = stem, 0
        while name in self.reserved or name in self._own_names:
            count += 1
            name = f"{stem}_{count}"
        value = len(self.names)
        self._own_names.add(name)
        self.names.append(name)
        if type_ is not None:
            self.types[value] = type_
        return value

    @property
    def _own_names(self) -> set[str]:
        cached: set[str] | None = self.__dict__.get("_name_set")
        if cached is None or len(cached) != len(self.names):
            cached = set(self.names)
            self.__dict__["_name_set"] = cached
        return cached

    def add_constant(self, array: np.ndarray, stem: str) -> int:
        """Add a constant under a new name."""
        value = self.new_value(stem)
        self.set_constant(value, self.shelve(array))
        return value

    def set_constant(self, value: int, constant: Constant) -> None:
        """Make `value` a constant; whoever produced it must be gone already."""
        self.constants[value] = constant
        self.types[value] = constant.type

    def add_node(self, node: Node) -> int:
        """Add a node; its outputs must have no producer."""
        number = self.next_node
        self.next_node += 1
        self.put_node(number, node)
        return number

    def put_node(self, number: int, node: Node) -> None:
        """Put a node where one was removed; its outputs must have no producer."""
        self.nodes[number] = node
        for value in node.outputs:
            if value != ABSENT:
                if value in self.producer:
                    raise ValueError(f"value {self.names[value]!r} has a producer already")
                self.producer[value] = number
        for value in node.reads:
            self.users.setdefault(value, set()).add(number)

    def remove_node(self, number: int) -> None:
        """Remove a node; its outputs are left without a producer."""
        node = self.nodes.pop(number)
        for value in node.outputs:
            self.producer.pop(value, None)
        for value in node.reads:
            self.users[value].discard(number)

    def replace_uses(self, old: int, new: int) -> None:
        """Let every node that reads `old` read `new`; captured and output values can't move."""
        for number in sorted(self.users.get(old, ())):
            node = self.nodes[number]
            moved = replace(
                node, inputs=tuple(new if value == old else value for value in node.inputs)
            )
            self.nodes[number] = moved
            self.users.setdefault(new, set()).add(number)
        self.users[old] = set()

    def transfer(self, old: int, new: int, *, rename: bool) -> None:
        """Let everything that reads `old` read `new`, the outside included.

        With `rename` the two swap their names, so that outputs and subgraphs, which go by name,
        follow; without, nothing outside may read `old`.
        """
        captors = [n for n in self.users.get(old, ()) if old in self.nodes[n].captures]
        for number in captors:
            node = self.nodes[number]
            self.nodes[number] = replace(node, captures=node.captures - {old} | {new})
        self.replace_uses(old, new)
        self.graph_outputs = tuple(new if v == old else v for v in self.graph_outputs)
        if rename:
            self.names[old], self.names[new] = self.names[new], self.names[old]

    # ---------------------------------------------------------------------------------- reading

    def is_pinned(self, value: int) -> bool:
        """Tell whether a value's name matters: it is an output or a subgraph reads it by name."""
        return value in self.graph_outputs or any(
            value in self.nodes[number].captures for number in self.users.get(value, ())
        )

    def may_be_renamed(self, value: int) -> bool:
        """Tell whether a value's name is free to change: nothing outside goes by it."""
        is_given = value in self.producer or value in self.constants
        return is_given and not self.is_pinned(value)

    def order(self) -> list[int]:
        """Sort the nodes topologically, keeping the original order where it is one.

        Raises ValueError where there is none, which no rewrite may bring about.
        """
        producer, nodes = self.producer, self.nodes
        try:
            return topological(
                nodes, lambda n: [producer[value] for value in nodes[n].reads if value in producer]
            )
        except CycleError as error:
            name = self.node_name(error.item)
            raise ValueError(f"the graph has a cycle through {name}") from error

    # GraphView, as the rules read it

    def op_type(self, node: int) -> str:
        """Name a node's operator."""
        return self.nodes[node].operator

    def shape(self, value: int) -> Shape | None:
        """Give a value's shape, or None where not even the rank is known."""
        type_ = self.types.get(value)
        return type_.shape if type_ else None

    def dtype(self, value: int) -> str | None:
        """Give a value's element type, or None where it is not known or no tensor."""
        type_ = self.types.get(value)
        return type_.dtype if type_ else None

    def is_constant(self, value: int) -> bool:
        """Tell whether a value is known now."""
        return value in self.constants

    def constant(self, value: int) -> np.ndarray | None:
        """Read a constant, None where the value is not one."""
        constant = self.constants.get(value)
        return constant.array() if constant else None

    def attributes(self, node: int) -> dict[str, object]:
        """Give the attributes that are set on a node, as Python values."""
        protos = self.nodes[node].attributes
        return {name: attribute_value(proto) for name, proto in protos.items()}

    def defaults(self, node: int) -> Mapping[str, object]:
        """Give the defaults of a node's operator in the model's opset."""
        node_ = self.nodes[node]
        spec = schema_for(node_.domain, node_.op_type, self.opset(node_.domain))
        return spec.defaults if spec else {}

    def attribute(self, node: int, name: str) -> object:
        """Give one attribute, its default where absent, None where there is no default."""
        proto = self.nodes[node].attributes.get(name)
        return attribute_value(proto) if proto is not None else self.defaults(node).get(name)

    def inputs(self, node: int) -> tuple[int, ...]:
        """Give a node's inputs by position, ABSENT where one is left out."""
        return self.nodes[node].inputs

    def outputs(self, node: int) -> tuple[int, ...]:
        """Give a node's outputs by position, ABSENT where one is left out."""
        return self.nodes[node].outputs

    def value_name(self, value: int) -> str:
        """Name a value as the model does."""
        return self.names[value] if value != ABSENT else ""

    def node_name(self, node: int) -> str:
        """Name a node, or its operator and first output where the model does not name it."""
        node_ = self.nodes[node]
        return (
            node_.name or f"{node_.op_type}({', '.join(map(self.value_name, node_.outputs[:1]))})"
        )

    def use_count(self, value: int) -> int:
        """Count the node inputs, graph outputs and subgraphs that read a value."""
        return self.graph_outputs.count(value) + sum(
            self.nodes[number].inputs.count(value) + (value in self.nodes[number].captures)
            for number in self.users.get(value, ())
        )


def attribute_value(proto: onnx.AttributeProto) -> Any:
    """Turn an attribute into a Python value; lists become tuples, bytes become text."""
    value = helper.get_attribute_value(proto)
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, onnx.TensorProto):
        # Large tensors lie elsewhere; no rule asks for the elements of one.
        return value if value.external_data else numpy_helper.to_array(value)
    if isinstance(value, (list, tuple)) or hasattr(value, "__len__"):
        items: Iterable[Any] = value
        return tuple(
            item.decode("utf-8", "surrogateescape") if isinstance(item, bytes) else item
            for item in items
        )
    return value
