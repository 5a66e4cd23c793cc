"""Terms over typed variables: what is enumerated, compared, and printed as the side of a rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import onnx

Shape = tuple[int, ...]
# What is known of an operand: numbers, or one.
Known = int | tuple[int, ...]
OPSET = 21


@dataclass(frozen=True)
class Sort:
    """An element type, and a shape under each of the assignments of sizes."""

    dtype: str
    shapes: tuple[Shape, ...]

    @property
    def rank(self) -> int:
        """The number of dimensions, which is the same under all assignments."""
        return len(self.shapes[0])


@dataclass(frozen=True)
class Operation:
    """An operator with all that a term fixes of it.

    `slots` are the positions of its operands among the inputs, `known` the contents of the inputs
    that must be known (axes, pads), by position.
    """

    op_type: str
    slots: tuple[int, ...]
    attributes: tuple[tuple[str, object], ...] = ()
    known: tuple[tuple[int, Known], ...] = ()
    commutative: bool = False


@dataclass(frozen=True)
class Variable:
    """An input of any value."""

    name: str
    sort: Sort

    @property
    def nodes(self) -> int:
        """The number of operators."""
        return 0

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Apply:
    """An operation on terms."""

    operation: Operation
    operands: tuple[Term, ...]

    @cached_property
    def nodes(self) -> int:
        """The number of operators, those that occur twice counted once."""
        return sum(isinstance(part, Apply) for part in parts((self,)))

    @cached_property
    def text(self) -> str:
        """The term as the rule language writes it."""
        return written(self.operation, [str(operand) for operand in self.operands])

    def __str__(self) -> str:
        return self.text


Term = Variable | Apply


def written(operation: Operation, operands: Sequence[str]) -> str:
    """An operation on named operands, as the rule language writes it."""
    said = [f"{name}={_literal(value)}" for name, value in operation.attributes]
    head = f"{operation.op_type}<{', '.join(said)}>" if said else operation.op_type
    inputs = dict(zip(operation.slots, operands, strict=True))
    inputs |= {position: _literal(value) for position, value in operation.known}
    listed = [inputs.get(position, "") for position in range(max(inputs, default=-1) + 1)]
    return f"{head}({', '.join(listed)})"


def _literal(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(str, value))}]"
    return str(value)


def parts(terms: Sequence[Term]) -> Iterator[Term]:
    """Yield each distinct part of some terms once, operands before what reads them."""
    seen: set[Term] = set()

    def visit(term: Term) -> Iterator[Term]:
        if term in seen:
            return
        seen.add(term)
        if isinstance(term, Apply):
            for operand in term.operands:
                yield from visit(operand)
        yield term

    for term in terms:
        yield from visit(term)


def variables(term: Term) -> tuple[Variable, ...]:
    """The variables of a term, each once, in the order of their first occurrence."""
    return tuple(part for part in parts((term,)) if isinstance(part, Variable))


def operators(terms: Sequence[Term]) -> tuple[str, ...]:
    """The operators of some terms, outermost last, repetitions kept."""
    return tuple(part.operation.op_type for part in parts(terms) if isinstance(part, Apply))


def renamed(term: Term, names: Mapping[Variable, Term]) -> Term:
    """A term with others in the place of its variables."""
    if isinstance(term, Variable):
        return names.get(term, term)
    return Apply(term.operation, tuple(renamed(operand, names) for operand in term.operands))


def model_of(terms: Sequence[Term], assignment: int = 0) -> onnx.ModelProto:
    """A model whose output number i is named `term_i` and computes terms[i].

    Sizes are those of an assignment; inputs have the names of the variables.
    """
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper

    nodes, inputs = [], []
    initializers: dict[str, onnx.TensorProto] = {}
    names: dict[Term, str] = {}
    for number, part in enumerate(parts(terms)):
        if isinstance(part, Variable):
            names[part] = part.name
            inputs.append(
                helper.make_tensor_value_info(
                    part.name, _element_type(part.sort.dtype), part.sort.shapes[assignment]
                )
            )
            continue
        operation = part.operation
        read = dict(zip(operation.slots, (names[o] for o in part.operands), strict=True))
        for position, value in operation.known:
            name = "known_" + "_".join(map(str, value if isinstance(value, tuple) else ("", value)))
            initializers[name] = numpy_helper.from_array(np.array(value, np.int64), name)
            read[position] = name
        names[part] = f"value_{number}"
        listed = [read.get(position, "") for position in range(max(read) + 1)]
        said: dict[str, Any] = dict(operation.attributes)
        nodes.append(helper.make_node(operation.op_type, listed, [names[part]], **said))
    outputs = []
    for number, term in enumerate(terms):
        nodes.append(helper.make_node("Identity", [names[term]], [f"term_{number}"]))
        outputs.append(helper.make_empty_tensor_value_info(f"term_{number}"))
    graph = helper.make_graph(nodes, "terms", inputs, outputs, list(initializers.values()))
    opset = helper.make_opsetid("", OPSET)
    return helper.make_model(graph, opset_imports=[opset], ir_version=onnx.IR_VERSION_2023_5_5)


def _element_type(dtype: str) -> int:
    import numpy as np
    from onnx import helper

    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
