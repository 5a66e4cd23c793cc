"""Nodes that kernels may compute: what the runtime computes in each run, and rounds to no integer.

What depends on no input is folded by the runtime when a session opens. And where a number is
rounded to an integer right after, the last bit decides: by other sums, positions that are just as
far apart would fall into other buckets. What computes exactly, an addition, say, is the same there
and here, so that what is quantized right after it may be in a kernel.
"""

from __future__ import annotations

from collections.abc import Collection

from ...catalog.operators.terms import Apply, Read, Select, Term
from ..fuse.codegen.statements import LoweringError
from ..graph.graph import Graph
from .loops.kernel_region import Meanings

STEPS = frozenset({"Floor", "Ceil", "Round"})
QUANTIZATION = "QuantizeLinear"
# Kinds of operators that lead from a number to one that is rounded.
_PASSING = frozenset({"elementwise", "movement"})
# Primitives of which IEEE 754 leaves nothing open, or that round to what is an integer anyhow. A
# root isn't one: kernels divide by one of a row by multiplying with its inverse.
_EXACT = frozenset(
    {"+", "-", "*", "/", "abs", "neg", "max", "min", "round", "floor", "ceil", "real"}
    | {"<", "<=", ">", ">=", "=", "!=", "and", "or", "xor", "not", "isnan", "saturated"}
    | {"is_positive_inf", "is_negative_inf", "rounded_float16", "rounded_bfloat16"}
)


def steady(meanings: Meanings, allowed: Collection[int]) -> set[int]:
    """Return those of some nodes that kernels may compute."""
    graph = meanings.graph
    order = graph.order()
    varying: set[int] = set(graph.graph_inputs)
    running: set[int] = set()
    for number in order:
        node = graph.nodes[number]
        if varying & set(node.reads):
            varying |= set(node.outputs)
            running.add(number)
    # values that are made integers, after elementwise operators and moves
    rounded: set[int] = set()
    for number in reversed(order):
        node = graph.nodes[number]
        stepping = node.op_type in (*STEPS, QUANTIZATION) or _makes_integers(graph, number)
        if stepping or (rounded & set(node.outputs) and meanings.kind(number) in _PASSING):
            rounded |= set(node.inputs)
    return {
        number
        for number in allowed
        if number in running
        and graph.nodes[number].op_type not in STEPS
        and (not rounded & set(graph.nodes[number].outputs) or _is_exact(meanings, number))
    }


def _is_exact(meanings: Meanings, number: int) -> bool:
    """Tell whether a node's specification leaves nothing to rounding in another order."""
    try:
        expansion = meanings.of(number)
    except LoweringError:
        return False
    return all(_computes_exactly(one.value) for one in (*expansion.outputs, *expansion.locals))


def _computes_exactly(term: Term) -> bool:
    match term:
        case Apply(function, arguments):
            return function in _EXACT and all(map(_computes_exactly, arguments))
        case Select(condition, then, otherwise):
            return all(map(_computes_exactly, (condition, then, otherwise)))
        case Read():
            return True
        case _:
            return isinstance(term, bool | int | float)


def _makes_integers(graph: Graph, number: int) -> bool:
    node = graph.nodes[number]
    if node.op_type != "Cast":
        return False
    source, target = graph.dtype(node.inputs[0]) or "", graph.dtype(node.outputs[0]) or ""
    return "float" in source and "int" in target
