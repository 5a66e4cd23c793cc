"""The rules of the rule base applied to a program, before it is planned.

The program becomes a graph of ONNX operators, as the rules read it, and back: what the rules have
no say in, sparse values and NumPy's own functions, is a node of a domain that no rule names.

Rules that hold exactly, NaN and signs of zeros included, are applied where they are always an
improvement, and otherwise where the program costs less by counts of operations. Of those that hold
up to rounding only the ones about sums and products of matrices are applied, where that costs less:
so the tolerance and the reservation about infinities are those of a reordered product. A rule is
applied only while its proof in the ledger holds.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper

from ....catalog.disk_cache import cache_path, cached_on_disk, load_data
from ...graph.graph import Graph, TensorType, attribute_value
from ...graph.graph import Node as GraphNode
from ...match.rewrite import attribute_proto
from .dag import Node, Program, type_code
from .numpy_operators import FUNCTIONS, OPSET, listed_inputs
from .value_rewrites import Builder

if TYPE_CHECKING:
    from ....rules import Rule

# Imported within functions: rules and matching, for programs that a rule may match.

# Rounds of matching, each of which leaves the program cheaper by one rule.
_ROUNDS = 12
# Matches tried on a program: what each leads to is built, which takes as long as the program is.
_TRIED = 64

# Operators that every part of a program can be computed with: here, by kernels, in blocks.
_KNOWN = frozenset(
    [
        *("Abs", "Neg", "Sign", "Ceil", "Floor", "Round", "Exp", "Log", "Sqrt", "Reciprocal"),
        *("Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Tanh", "Asinh", "Acosh"),
        *("Atanh", "IsNaN", "IsInf", "Sigmoid", "Erf", "Not", "Identity", "Cast", "Where", "Mod"),
        *("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "And", "Or", "Xor", "Equal", "Greater"),
        *("Less", "GreaterOrEqual", "LessOrEqual", "MatMul", "Transpose", "Reshape", "Expand"),
        *("Squeeze", "Unsqueeze", "Slice", "Concat", "CumSum", "ReduceSum", "ReduceMax"),
        *("ReduceMin", "ReduceProd", "ReduceMean", "ReduceSumSquare"),
    ]
)
_SUMMING = frozenset(["MatMul", "ReduceSum", "ReduceMean"])
_LINEAR = _SUMMING | {"Add", "Sub", "Transpose", "Concat", "Slice", "Reshape", "Expand"}
_DEAR = frozenset(["Exp", "Log", "Pow", "Tanh", "Sigmoid", "Erf", "Div", "Sqrt"])


def apply_rules(program: Program) -> tuple[Program, tuple[str, ...]]:
    """Return a program that computes the same, and the rules that were applied, in order."""
    present = {node.op for node in program.nodes}
    rules = tuple(candidate.rule for candidate in usable() if candidate.occurs(present))
    if not rules:
        return program, ()
    applied: list[str] = []
    refused: set[tuple[str, tuple[int, ...]]] = set()
    for _ in range(_ROUNDS):
        rewritten = _round(program, rules, applied, refused)
        if rewritten is None:
            break
        program = rewritten
    return program, tuple(applied)


def _round(
    program: Program,
    rules: Sequence[Rule],
    applied: list[str],
    refused: set[tuple[str, tuple[int, ...]]],
) -> Program | None:
    """Apply the first match that pays; None where none does."""
    from ...match.matcher import Matcher, with_present_operators
    from ...match.rewrite import RewriteError, apply_match

    graph = graph_of(program)
    for match in Matcher(with_present_operators(rules, graph)).find(graph):
        key = (match.rule.name, tuple(sorted(match.nodes.values())))
        if key in refused:
            continue
        if len(refused) + len(applied) >= _TRIED:
            return None
        changed = graph.copy()
        try:
            apply_match(changed, match)
            after = program_of(changed, program)
        except (RewriteError, TranslationError):
            refused.add(key)
            continue
        if _cost(after) < _cost(program) * (1.0 if _is_exact(match.rule) else 0.95):
            applied.append(match.rule.name)
            refused.clear()  # nodes have other numbers now
            return after
        refused.add(key)
    return None


def _cost(program: Program) -> float:
    """Return the operations of a program, each node computed on its own; a node counts as some."""
    total = 0.0
    for node in program.nodes:
        if node.is_leaf:
            continue
        operands = [program.nodes[number] for number in node.inputs]
        if node.op == "MatMul":
            work = 2.0 * node.size * operands[0].shape[-1]
        else:
            moved = max([node.size, *(operand.size for operand in operands)])
            work = moved * (8.0 if node.op in _DEAR else 1.0)
        total += 8.0 + work + node.size
    return total


def _is_exact(rule: Rule) -> bool:
    return rule.equal == "exact" and not rule.finite_math


@dataclass(frozen=True)
class Usable:
    """A rule that may be applied to programs, read where the operators that it matches occur."""

    operators: tuple[frozenset[str], ...]  # of each matched node: those that it may be
    pickled: bytes

    def occurs(self, present: Set[str]) -> bool:
        """Whether a program of these operators may have a match."""
        return all(present & alternatives for alternatives in self.operators)

    @cached_property
    def rule(self) -> Rule:
        """The rule itself."""
        rule: Rule = load_data(self.pickled)
        return rule


@cache
def usable() -> tuple[Usable, ...]:
    """Return the rules that may be applied to programs, kept on disk as read and admitted."""
    return cached_on_disk(cache_path() / f"rules-{_version()}.pickle", _read)


def _read() -> tuple[Usable, ...]:
    from ....rules import load_rules
    from ....rules.gate.ledger.ledger import admitted

    return described(admitted(load_rules()))


def described(rules: Iterable[Rule]) -> tuple[Usable, ...]:
    """Return those of the rules that suit programs."""
    return tuple(
        Usable(tuple(frozenset(node.operators) for node in rule.match), pickle.dumps(rule))
        for rule in rules
        if _is_usable(rule)
    )


def _version() -> str:
    """Return what the usable rules depend on: rules, proofs, prover, specifications, Python."""
    from ....rules.gate.ledger.fingerprints import library, normaliser

    digest = hashlib.sha256(f"{sys.version}{normaliser()}{library()}{__name__}".encode())
    folder = resources.files(normaliser.__module__.partition(".gate")[0])
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith((".rules", ".jsonl", ".py")):
            digest.update(file.read_bytes())
    digest.update((resources.files(str(__package__)) / "rule_rewrites.py").read_bytes())
    return digest.hexdigest()[:16]


def _is_usable(rule: Rule) -> bool:
    operators = [set(node.operators) for node in (*rule.match, *rule.rewrite, *rule.correct)]
    if rule.target or not rule.match:
        return False
    are_known = all(alternatives & _KNOWN for alternatives in operators[: len(rule.match)])
    if not are_known or not all(
        alternatives <= _KNOWN
        for alternatives in operators[len(rule.match) :]
        if len(alternatives) == 1
    ):
        return False
    if _is_exact(rule):
        return True
    matched = {name for alternatives in operators[: len(rule.match)] for name in alternatives}
    return bool(matched & _SUMMING) and all(alternatives <= _LINEAR for alternatives in operators)


# Of the nodes that no rule may touch; they are numbered as in the program.
_DOMAIN = "tensolog"


class TranslationError(Exception):
    """A graph that is no program: a value that no node of a program has."""


def graph_of(program: Program) -> Graph:
    """Return a program as a graph: value n is what node n computes."""
    version = min(OPSET, onnx.defs.onnx_opset_version())
    base = onnx.ModelProto()
    base.opset_import.append(helper.make_opsetid("", version))
    graph = Graph(base, [f"v{node.id}" for node in program.nodes])
    for node in program.nodes:
        graph.types[node.id] = TensorType(node.dtype, node.shape)
        if node.op == "Constant":
            graph.constants[node.id] = _constant(graph, node.attributes["value"], node.dtype)
    for node in program.nodes:
        if not node.is_leaf:
            graph.add_node(_graph_node(graph, program, node))
    graph.graph_inputs = program.inputs
    graph.graph_outputs = program.outputs
    return graph


def _constant(graph: Graph, value: Any, dtype: str) -> Any:
    return graph.shelve(np.asarray(value, dtype=dtype))


def _graph_node(graph: Graph, program: Program, node: Node) -> GraphNode:
    operands = [program.nodes[number] for number in node.inputs]
    outside_onnx = node.op == "Call" or node.op in FUNCTIONS
    if outside_onnx or any(described.layout != "dense" for described in (node, *operands)):
        return GraphNode(str(node.id), _DOMAIN, node.inputs, (node.id,), {})
    attributes: dict[str, Any] = {}
    listed = listed_inputs(node.op)
    inputs = list(node.inputs)
    for name in listed:
        if name not in node.attributes:
            continue
        value = np.asarray(node.attributes[name], np.int64)
        inputs.append(graph.add_constant(value, f"v{node.id}/{name}"))
    for name, value in node.attributes.items():
        if name not in listed:
            attributes[name] = type_code(node.dtype) if node.op == "Cast" else value
    if node.op.startswith("Reduce") and node.attributes.get("axes") == ():
        attributes["noop_with_empty_axes"] = 1
    protos = {
        name: attribute_proto(graph, "", node.op, name, list(value) if _is_list(value) else value)
        for name, value in attributes.items()
    }
    return GraphNode(node.op, "", tuple(inputs), (node.id,), protos)


def _is_list(value: object) -> bool:
    return isinstance(value, tuple)


def program_of(graph: Graph, before: Program) -> Program:
    """Return the graph, made of a program's, as a program; raise TranslationError if it is none."""
    builder = Builder()
    place: dict[int, int] = {number: builder.keep(before.nodes[number]) for number in before.inputs}

    def operand(value: int) -> int:
        if value not in place:
            constant = graph.constants.get(value)
            if constant is None or constant.array().ndim:
                raise TranslationError(f"{graph.value_name(value)} is no number")
            array = constant.array()
            place[value] = builder.constant(array.item(), array.dtype.name)
        return place[value]

    for number in graph.order():
        node = graph.nodes[number]
        (value,) = node.outputs
        if node.domain == _DOMAIN:
            kept = before.nodes[int(node.op_type)]
            place[value] = builder.copy(kept, [operand(number) for number in node.inputs])
            continue
        type_ = graph.types.get(value)
        if node.domain or type_ is None or type_.shape is None:
            raise TranslationError(f"{node.operator} is no operator of programs")
        # Of what has lists as inputs, the first one is the array.
        count = 1 if listed_inputs(node.op_type) else len(node.inputs)
        shape = tuple(int(extent) for extent in type_.shape)
        attributes = _attributes(graph, node, shape)
        operands = [operand(number) for number in node.inputs[:count]]
        place[value] = builder.add(node.op_type, operands, shape, type_.dtype, attributes)
    outputs = [operand(value) for value in graph.graph_outputs]
    return builder.program([place[number] for number in before.inputs], outputs)


def _attributes(graph: Graph, node: GraphNode, shape: tuple[int, ...]) -> Mapping[str, Any]:
    """Return a node's attributes as a program spells them: none is negative, none is left out."""
    attributes = {name: attribute_value(proto) for name, proto in node.attributes.items()}
    attributes.pop("noop_with_empty_axes", None)
    for name, value in zip(listed_inputs(node.op_type), node.inputs[1:], strict=False):
        constant = graph.constant(value)
        if constant is None:
            raise TranslationError(f"{name} of {node.operator} isn't known")
        attributes[name] = tuple(int(axis) for axis in constant) if constant.ndim else int(constant)
    extents = tuple(int(extent) for extent in graph.types[node.inputs[0]].shape or ())
    rank = len(extents)
    match node.op_type:
        case "Cast":
            return {"to": graph.types[node.outputs[0]].dtype}
        case "Reshape" | "Expand":
            return {"shape": shape}
        case "Transpose":
            return {"perm": tuple(attributes.get("perm", reversed(range(rank))))}
        case "Concat" | "CumSum":
            return {"axis": int(attributes["axis"]) % rank}
        case "Slice":
            return _slice(attributes, extents)
        case "Unsqueeze":
            return {"axes": tuple(sorted(axis % len(shape) for axis in attributes["axes"]))}
        case "Squeeze":
            ones = tuple(axis for axis, extent in enumerate(extents) if extent == 1)
            return {"axes": tuple(sorted(axis % rank for axis in attributes.get("axes", ones)))}
    if node.op_type.startswith("Reduce"):
        axes = attributes.get("axes", tuple(range(rank)))
        keepdims = int(attributes.get("keepdims", 1))
        return {"axes": tuple(sorted(axis % rank for axis in axes)), "keepdims": keepdims}
    return attributes


def _slice(attributes: Mapping[str, Any], extents: tuple[int, ...]) -> Mapping[str, Any]:
    starts, ends = attributes["starts"], attributes["ends"]
    axes = attributes.get("axes", tuple(range(len(starts))))
    rows = []
    for axis, start, end, step in zip(
        axes, starts, ends, attributes.get("steps", (1,) * len(starts)), strict=True
    ):
        extent = extents[axis]
        open_end = None if step < 0 and end < -extent else end
        first, last, _ = slice(start, open_end, step).indices(extent)
        rows.append((axis % len(extents), first, last if last >= 0 else -1 - extent, step))
    columns = [tuple(column) for column in zip(*sorted(rows), strict=True)]
    return dict(zip(("axes", "starts", "ends", "steps"), columns, strict=True))
