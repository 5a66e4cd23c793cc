"""The element types that the tensors of a rule may have, and whether its right side takes them all.

ONNX's schemas say by type variables which operands of a node share a type and which types it takes.
Tensors that must share one form a class; a rule is about every combination of types that its left
side allows, so the right side has to take every one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache

import onnx
from onnx import defs

from ....catalog.operators.contributed import schema
from ....catalog.operators.derive import integer_range
from ....catalog.tensors import dtype_name
from ....catalog.terms.syntax_tree import Binary, Call, Expression, Literal, Name
from ...language.conditions import FLOATS, INTEGERS, types_of
from ...language.schemas import type_name
from ...language.syntax import Input, PatternNode, Rule

# The type that stands for all of its algebra.
PREFERRED = (*("float32", "float64", "float16", "bfloat16"), *("int64", "int32"), *INTEGERS, "bool")
_ANY = frozenset([*FLOATS, "bfloat16", *INTEGERS, "bool"])


@dataclass(frozen=True)
class Slot:
    """The type of an input or output of an operator: a variable, and what it may stand for."""

    variable: str
    types: frozenset[str]


@dataclass(frozen=True)
class Signature:
    """The slots of an operator; the last input or output may repeat."""

    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]

    def slot(self, position: int, *, output: bool = False) -> Slot:
        """The slot of a position; one that takes anything where the schema has none."""
        slots = self.outputs if output else self.inputs
        return slots[min(position, len(slots) - 1)] if slots else Slot("", _ANY)


@cache
def signature(operator: str, opset: int) -> Signature | None:
    """What the schema of an operator set says of types; None for an operator without a schema."""
    domain, _, name = operator.rpartition(":")
    operator_schema = schema(name, opset, domain)
    if operator_schema is None:
        return None
    allowed = {
        constraint.type_param_str: frozenset(map(type_name, constraint.allowed_type_strs))
        for constraint in operator_schema.type_constraints
    }

    def slot(text: str) -> Slot:
        if text in allowed:
            return Slot(text, allowed[text])
        return Slot("", frozenset([type_name(text)]))

    return Signature(
        tuple(slot(input_.type_str) for input_ in operator_schema.inputs),
        tuple(slot(output.type_str) for output in operator_schema.outputs),
    )


@dataclass
class Classes:
    """Tensors that share a type, and the types that each class may have."""

    parents: dict[str, str] = field(default_factory=dict)
    types: dict[str, frozenset[str]] = field(default_factory=dict)

    def root(self, name: str) -> str:
        """The tensor that stands for all of a class."""
        parent = self.parents.setdefault(name, name)
        if parent == name:
            self.types.setdefault(name, _ANY)
            return name
        self.parents[name] = self.root(parent)
        return self.parents[name]

    def join(self, left: str, right: str) -> None:
        """Let two tensors share a type."""
        a, b = self.root(left), self.root(right)
        if a != b:
            self.parents[b] = a
            self.types[a] &= self.types.pop(b)

    def narrow(self, name: str, types: Iterable[str]) -> None:
        """Allow a class only these types."""
        self.types[self.root(name)] &= frozenset(types)

    def of(self, name: str) -> frozenset[str]:
        """The types that a tensor may have."""
        return self.types[self.root(name)]

    def roots(self) -> tuple[str, ...]:
        """One tensor of each class, in the order in which they came."""
        return tuple(dict.fromkeys(map(self.root, list(self.parents))))


def source_classes(rule: Rule, opset: int, operators: Mapping[str, str]) -> Classes:
    """The classes of the left side, for a choice of its operator variables."""
    classes = _source_classes(rule, opset, tuple(sorted(operators.items())))
    return Classes(dict(classes.parents), dict(classes.types))


@lru_cache(maxsize=512)
def _source_classes(rule: Rule, opset: int, taken: tuple[tuple[str, str], ...]) -> Classes:
    classes, operators = Classes(), dict(taken)
    for node in rule.match:
        _add(classes, chosen(node, operators), opset)
    for operand in rule.operands:
        if operand.dtypes and operand.name in classes.parents:
            classes.narrow(operand.name, types_of(operand.dtypes))
    for expression in rule.given:
        for tensor, other_tensor in _same_types(expression):
            if tensor in classes.parents and other_tensor in classes.parents:
                classes.join(tensor, other_tensor)
    return classes


def chosen(node: PatternNode, operators: Mapping[str, str]) -> PatternNode:
    """A node with its operator variable replaced by what it stands for."""
    return replace(node, op_type=operators[node.op_type], choices=()) if node.choices else node


def _same_types(expression: Expression) -> Iterator[tuple[str, str]]:
    """The tensors that a condition says to be of one type."""
    match expression:
        case Binary("and", left, right):
            yield from _same_types(left)
            yield from _same_types(right)
        case Binary("=", Call("dtype", (Name(tensor),)), Call("dtype", (Name(other_tensor),))):
            yield tensor, other_tensor


def _add(classes: Classes, node: PatternNode, opset: int) -> None:
    node_signature = signature(node.operator, opset)
    places: list[tuple[str, Slot]] = []
    for position, item in enumerate(node.inputs):
        if item.value:
            slot = node_signature.slot(position) if node_signature else Slot("T", _ANY)
            places.append((item.value, slot))
    for position, output in enumerate(node.outputs):
        slot = node_signature.slot(position, output=True) if node_signature else Slot("T", _ANY)
        places.append((output.value, slot))
    for name, expression in node.attributes:
        if (node.op_type, name) == ("Cast", "to") and isinstance(expression, Literal):
            cast_type = dtype_name(expression.value) if isinstance(expression.value, int) else ""
            if cast_type in _ANY:
                classes.narrow(node.outputs[0].value, [cast_type])
    first: dict[str, str] = {}
    for name, slot in places:
        classes.narrow(name, slot.types)
        if slot.variable:
            classes.join(first.setdefault(slot.variable, name), name)


def limits_of(types: Iterable[str]) -> tuple[int, int] | None:
    """The least and the largest integer that one of some types holds; None beyond 16 bits.

    What is known of the integers of a rule, it is known of those of every type that they may have.
    """
    ranges = [integer_range(name) for name in types if name not in (*FLOATS, "bfloat16", "bool")]
    known = [range_ for range_ in ranges if range_ is not None and range_[1] - range_[0] < 2**16]
    if not known or len(known) < len(ranges):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def representatives(
    types: Iterable[str], *, both_integers: bool = False, all_integers: bool = False
) -> tuple[str, ...]:
    """One type of each algebra, reals first; of integers, where a Cast may cut them, up to four.

    Those are the widest and the narrowest with a sign and without: what an operand of the widest
    type may hold includes all that others may, and the narrowest cuts all that others would. Where
    values saturate, it is all of them (`all_integers`).
    """
    allowed = [name for name in PREFERRED if name in set(types)]
    picked: list[str] = []
    for group in ((*FLOATS, "bfloat16"), INTEGERS, ("bool",)):
        one_algebra = [name for name in allowed if name in group]
        if all_integers and group is INTEGERS:
            picked += one_algebra
        elif both_integers and group is INTEGERS:
            for signless in (False, True):
                widths = [name for name in one_algebra if name.startswith("u") == signless]
                widths.sort(key=lambda name: int(name.removeprefix("u").removeprefix("int")))
                picked += dict.fromkeys([*widths[-1:], *widths[:1]])
        else:
            picked += one_algebra[:1]
    return tuple(picked)


def type_problem(rule: Rule, opset: int, operators: Mapping[str, str]) -> str | None:
    """Why the right side doesn't take every type that the left side allows; None where it does."""
    classes = source_classes(rule, opset, operators)
    if any(not types for types in classes.types.values()):
        return None  # the left side does not exist in this operator set
    # tensor of the right side -> a tensor of the left of its type
    equal_types: dict[str, str | None] = {}

    def stands_for(item: Input) -> str | None:
        return None if item.value is None else equal_types.get(item.value, item.value)

    for written in rule.rewrite:
        node = chosen(written, operators)
        node_signature = signature(node.operator, opset)
        if node_signature is None:
            if node.domain in ("", "ai.onnx"):
                return f"{node.operator} is not in opset {opset}"
            continue
        bound: dict[str, str] = {}
        for position, item in enumerate(node.inputs):
            slot, name = node_signature.slot(position), stands_for(item)
            if name is None or name not in classes.parents:
                continue
            if extra := classes.of(name) - slot.types:
                return f"{node.operator} doesn't take {_some(extra)} in opset {opset}"
            other = bound.setdefault(slot.variable, name) if slot.variable else name
            if not _agree(classes, name, other):
                return f"{node.operator} takes operands of one type; {name} and {other} may differ"
        for position, output in enumerate(node.outputs):
            slot = node_signature.slot(position, output=True)
            result = bound.get(slot.variable) if slot.variable else None
            if output.value in rule.outputs:
                if problem := _output_problem(classes, output.value, slot, result, node):
                    return problem
                equal_types[output.value] = output.value
            else:
                equal_types[output.value] = result
    for alias in rule.aliases:
        source = stands_for(alias.source)
        if source is not None and not _agree(classes, source, alias.output):
            return f"{alias.output} and {source} may differ in their type"
    return None


def _output_problem(
    classes: Classes, name: str, slot: Slot, result: str | None, node: PatternNode
) -> str | None:
    if result is not None and not _agree(classes, result, name):
        return f"{name} may differ in its type from {result}, which {node.operator} makes it of"
    if extra := classes.of(name) - slot.types:
        return f"{node.operator} doesn't give {_some(extra)}"
    return None


def _agree(classes: Classes, left: str, right: str) -> bool:
    if classes.root(left) == classes.root(right):
        return True
    return len(classes.of(left)) == 1 and classes.of(left) == classes.of(right)


def _some(types: Iterable[str]) -> str:
    order = [name for name in PREFERRED if name in set(types)]
    return ", ".join([*order, *sorted(set(types) - set(order))][:3])


def type_code(dtype: str) -> int:
    """ONNX's number of an element type."""
    for code in onnx.TensorProto.DataType.values():
        if code and dtype_name(code) == dtype:
            return int(code)
    raise KeyError(dtype)


def opsets(rule: Rule, earliest: int) -> Sequence[int]:
    """The operator sets that a rule claims."""
    latest = defs.onnx_opset_version()
    return range(rule.opset_from or earliest, min(rule.opset_to or latest, latest) + 1)
