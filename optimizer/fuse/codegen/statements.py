"""The elementwise nodes of a region, and the parts of its reductions, as expressions of C.

They come from the operators' specifications: a term of index notation at one element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ....catalog.operators.expand import Expansion
from ....catalog.terms.index_notation import Apply, Read, Reduce, Symbol, Term, map_children
from ...codegen.expressions import (
    C_TYPES,
    SUFFIXES,
    WHOLE,
    LoweringError,
    Reduction,
    declared,
    expression,
)
from ..program.dag import Node, Program
from ..program.numpy_operators import FUNCTIONS

# How functions of C over elements of a type end.
BITS: Mapping[str, str] = {**SUFFIXES, "bool": "8"}

# Types that are read and then computed with as double, which holds each of their numbers.
SMALL_INTEGERS = frozenset(["int8", "uint8", "int16", "uint16", "int32", "uint32"])

NO_ALIAS: Mapping[int, int] = MappingProxyType({})

# Moves that leave a row of cells as it is.
MOVES = frozenset(["Expand", "Transpose", "Squeeze", "Unsqueeze", "Reshape"])

# Operators whose results are truth values; others give numbers that have to be made some.
LOGICAL = frozenset(
    (
        *("And", "Or", "Xor", "Not", "Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"),
        *("IsNaN", "IsInf", "Cast", "Where", "Identity"),
    )
)


def kernel_dtype(node: Node) -> str:
    """Return the type that a node's elements have inside a kernel; raise LoweringError."""
    if node.dtype in BITS:
        return node.dtype
    if node.dtype in SMALL_INTEGERS or node.dtype in ("int64", "uint64"):
        return "float64"
    raise LoweringError(f"{node.dtype} (%{node.id}) is no type of a kernel")


def computed_dtype(program: Program, node: Node) -> str:
    """Return the floating-point type that a node is computed in."""
    for typed in (node, *(program.nodes[number] for number in node.inputs)):
        if typed.dtype in SUFFIXES:
            return typed.dtype
    return "float64"


def statement(program: Program, node: Node, alias: Mapping[int, int] = NO_ALIAS) -> str:
    """Return the statement that computes an element of a node from v<id> of its inputs.

    `alias` names the nodes that moves only show in another shape.
    """
    operands = [program.nodes[number] for number in node.inputs]
    _refuse_integers(node, operands)
    if node.op in MOVES:
        constant = operands[0].attributes["value"] if operands[0].op == "Constant" else None
        name = f"v{alias.get(operands[0].id, operands[0].id)}"
        operand = {"X": name if constant is None else constant}
        return declare(node, expression(Read("X", ()), computed_dtype(program, node), operand))
    if not node.is_elementwise:
        raise LoweringError(f"{node.op} is not elementwise")
    if node.op == "Cast":
        return declare(node, _cast(node, operands[0], alias))
    expansion = program.expansion(node.id)
    value = expansion.outputs[0].value
    if node.op in FUNCTIONS:  # what it means may be less exact, computed as it is written
        named = tuple(Read(tensor.name, ()) for tensor in expansion.inputs if tensor is not None)
        value = Apply(FUNCTIONS[node.op], named)
    operand_texts = reads(expansion, operands, alias)
    return declare(node, expression(value, computed_dtype(program, node), operand_texts))


def reads(
    expansion: Expansion, operands: Sequence[Node], alias: Mapping[int, int] = NO_ALIAS
) -> Mapping[str, str | float | bool]:
    """Return what an element of each input of a specification is: v<id>, or a known number."""
    names: dict[str, str | float | bool] = {}
    for tensor, operand in zip(expansion.inputs, operands, strict=False):
        if tensor is not None:
            constant = operand.op == "Constant"
            name = f"v{alias.get(operand.id, operand.id)}"
            names[tensor.name] = operand.attributes["value"] if constant else name
    return names


def _cast(node: Node, operand: Node, alias: Mapping[int, int]) -> str:
    name = f"v{alias.get(operand.id, operand.id)}"
    if operand.op == "Constant":
        value = operand.attributes["value"]
        name = f"({float(value).hex()})"
    if node.dtype == "bool":
        return f"({name} != 0)"
    return f"({C_TYPES[kernel_dtype(node)]}){name}"


def _refuse_integers(node: Node, operands: Sequence[Node]) -> None:
    """Integer arithmetic wraps around in NumPy; doubles hold the smaller types' numbers only."""
    if node.dtype not in BITS:
        raise LoweringError(f"{node.op} (%{node.id}) of {node.dtype}")
    if node.dtype == "bool" and node.op not in LOGICAL | MOVES:
        raise LoweringError(f"{node.op} (%{node.id}) of bool")
    for operand in operands:
        kernel_dtype(operand)
        wide = operand.dtype in ("int64", "uint64") and operand.op != "Constant"
        if wide and not (node.op == "Cast" and node.dtype == "float64"):
            raise LoweringError(f"{node.op} (%{node.id}) of {operand.dtype}")


def reduction(program: Program, node: Node, alias: Mapping[int, int] = NO_ALIAS) -> Reduction:
    """Return the parts of a Reduce*; raise LoweringError where its value has another form."""
    operand = program.nodes[node.inputs[0]]
    _refuse_integers(node, [operand])
    if node.dtype not in SUFFIXES or operand.dtype != node.dtype:
        raise LoweringError(f"{node.op} (%{node.id}) of {operand.dtype} as {node.dtype}")
    if node.op == "ReduceLogSumExp":
        raise LoweringError("ReduceLogSumExp overflows if it is computed as it is written")
    expansion = program.expansion(node.id)
    reduces: list[Reduce] = []
    last = _without_reduce(expansion.outputs[0].value, reduces)
    if len(reduces) != 1:
        if reduces:
            raise LoweringError(f"{node.op} of several reductions")
        # nothing is reduced: the value is elementwise
        body = expression(last, node.dtype, reads(expansion, [operand], alias))
        return Reduction(node.id, "none", body, node.dtype)
    if reduces[0].condition is not True or reduces[0].kind not in ("sum", "prod", "max", "min"):
        raise LoweringError(f"{node.op} under a condition")
    body = expression(reduces[0].body, node.dtype, reads(expansion, [operand], alias))
    return Reduction(node.id, reduces[0].kind, body, node.dtype, last)


def _without_reduce(term: Term, reduces: list[Reduce]) -> Term:
    match term:
        case Reduce():
            reduces.append(term)
            return WHOLE
        case Symbol():
            raise LoweringError(f"{term} must be known")
        case Read():
            return term
        case _:
            return map_children(lambda part: _without_reduce(part, reduces), term)


def declare(node: Node, value: str) -> str:
    """Return the statement that reads a node's element from memory, or computes it."""
    return declared(f"v{node.id}", kernel_dtype(node), value)
