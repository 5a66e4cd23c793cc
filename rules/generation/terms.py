"""Terms over typed variables: what is enumerated, compared, and printed as the side of a rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...catalog.ordering import topological

if TYPE_CHECKING:
    import onnx

Shape = tuple[int, ...]
OPSET = 21


@dataclass(frozen=True)
class Size:
    """The size of a dimension of variables, in the place of a number: one under each assignment."""

    values: tuple[int, ...]

    def __str__(self) -> str:
        return f"d{'_'.join(map(str, self.values))}"


# What is known of an operand: a list of numbers or sizes, or one number.
Known = int | tuple[int | Size, ...]


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

    `slots` are the positions of its operands among the inputs, `contents` those of the inputs
    that must be known (axes, pads), by position. It stands for one `output` of so many; `options`
    counts what is said although it need not be.
    """

    op_type: str
    slots: tuple[int, ...]
    attributes: tuple[tuple[str, object], ...] = ()
    contents: tuple[tuple[int, Known], ...] = ()
    commutative: bool = False
    output: int = 0
    outputs: int = 1
    options: int = 0

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Terms are keys everywhere: what they are made of is hashed once.
        return hash((self.op_type, self.slots, self.attributes, self.contents, self.output))

    def __reduce__(self) -> tuple[object, ...]:
        # Hashes of strings differ from process to process.
        return Operation, tuple(getattr(self, field.name) for field in fields(self))

    def lists(self, assignment: int) -> dict[int, int | list[int]]:
        """What is known of operands, by position, under an assignment of sizes."""
        return {
            position: [size_at(item, assignment) for item in value]
            if isinstance(value, tuple)
            else value
            for position, value in self.contents
        }


def size_at(item: int | Size, assignment: int) -> int:
    """A number, or the size that stands for it under an assignment."""
    return item.values[assignment] if isinstance(item, Size) else item


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
class Number:
    """A constant of one element."""

    value: int
    sort: Sort

    @property
    def nodes(self) -> int:
        """The number of operators."""
        return 0

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True)
class Apply:
    """An operation on terms."""

    operation: Operation
    operands: tuple[Term, ...]

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.operation, self.operands))

    def __reduce__(self) -> tuple[object, ...]:
        return Apply, (self.operation, self.operands)

    @cached_property
    def nodes(self) -> int:
        """The number of operators, those that occur twice counted once; constants have none."""
        return len(
            {
                (
                    part.operation.op_type,
                    part.operation.attributes,
                    part.operation.contents,
                    part.operands,
                )
                for part in parts((self,))
                if isinstance(part, Apply) and not part.is_constant
            }
        )

    @cached_property
    def is_constant(self) -> bool:
        """Whether no variable occurs in it, so that it is computed before a model runs."""
        return not variables(self)

    @cached_property
    def text(self) -> str:
        """The term as the rule language writes it."""
        return written(self.operation, [str(operand) for operand in self.operands])

    def __str__(self) -> str:
        return self.text


Term = Variable | Number | Apply


def written(operation: Operation, operands: Sequence[str]) -> str:
    """An operation on named operands, as the rule language writes it."""
    parameters = [
        name if name.startswith("*") else f"{name}={_literal(value)}"
        for name, value in operation.attributes
    ]
    head = f"{operation.op_type}<{', '.join(parameters)}>" if parameters else operation.op_type
    inputs = dict(zip(operation.slots, operands, strict=True))
    inputs |= {position: _literal(value) for position, value in operation.contents}
    listed = [inputs.get(position, "") for position in range(max(inputs, default=-1) + 1)]
    part = f"[{operation.output}]" if operation.outputs > 1 else ""
    return f"{head}({', '.join(listed)}){part}"


def _literal(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(str, value))}]"
    return str(value)


def parts(terms: Sequence[Term]) -> list[Term]:
    """Each distinct part of some terms once, operands before what reads them."""
    return topological(
        terms, lambda term: reversed(term.operands) if isinstance(term, Apply) else ()
    )


def variables(term: Term) -> tuple[Variable, ...]:
    """The variables of a term, each once, in the order of their first occurrence."""
    return tuple(part for part in parts((term,)) if isinstance(part, Variable))


def operators(terms: Sequence[Term]) -> tuple[str, ...]:
    """The operators of some terms, outermost last, repetitions kept; not those of constants."""
    return tuple(
        part.operation.op_type
        for part in parts(terms)
        if isinstance(part, Apply) and not part.is_constant
    )


def renamed(term: Term, names: Mapping[Variable, Term]) -> Term:
    """A term with others in the place of its variables."""
    if isinstance(term, Variable):
        return names.get(term, term)
    if isinstance(term, Number):
        return term
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
    outputs_of: dict[tuple[object, ...], list[str]] = {}
    for number, part in enumerate(parts(terms)):
        if isinstance(part, Number):
            names[part] = f"number_{part.value}"
            array = np.array(part.value, part.sort.dtype)
            initializers[names[part]] = numpy_helper.from_array(array, names[part])
            continue
        if isinstance(part, Variable):
            names[part] = part.name
            inputs.append(
                helper.make_tensor_value_info(
                    part.name, _element_type(part.sort.dtype), part.sort.shapes[assignment]
                )
            )
            continue
        operation = part.operation
        key = (operation.op_type, operation.attributes, operation.contents, part.operands)
        if key not in outputs_of:
            read = dict(zip(operation.slots, (names[o] for o in part.operands), strict=True))
            for position, value in operation.lists(assignment).items():
                name = f"known_{str(value).strip('[]').replace(', ', '_')}_{np.ndim(value)}"
                initializers[name] = numpy_helper.from_array(np.array(value, np.int64), name)
                read[position] = name
            outputs_of[key] = [f"value_{number}_{i}" for i in range(operation.outputs)]
            listed = [read.get(position, "") for position in range(max(read) + 1)]
            attributes: dict[str, Any] = dict(operation.attributes)
            node = helper.make_node(operation.op_type, listed, outputs_of[key], **attributes)
            nodes.append(node)
        names[part] = outputs_of[key][operation.output]
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
