"""A node that runs again and again, what NumPy does for it looked up once.

`evaluate` looks at a node each time, and keeps numbers in 0-d arrays, with which NumPy takes ten
times as long as with its own numbers. Of such nodes there are many beside kernels.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from .dag import Node, Program
from .evaluate import BINARY, UNARY, evaluate

# What Python's operators do with NumPy's numbers of floating-point types, they do as the ufuncs.
_NUMBERS: Mapping[str, Callable[..., Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": operator.truediv,
    "Neg": operator.neg,
    "Abs": operator.abs,
    "Equal": operator.eq,
    "Greater": operator.gt,
    "Less": operator.lt,
    "GreaterOrEqual": operator.ge,
    "LessOrEqual": operator.le,
}
_FLOATS = frozenset(["float32", "float64"])
# Elements from which on the time is that of the array.
_LARGE = 1 << 14


def bound(program: Program, node: Node) -> Callable[..., Any]:
    """Return what gives a node's value for those of its operands, with evaluate's meaning.

    A number comes as NumPy's or as a 0-d array, and may be given as either.
    """
    operands = [program.nodes[at] for at in node.inputs]
    if all(one.layout == "dense" and one.size < _LARGE for one in (node, *operands)):
        if all(not one.shape and one.dtype in _FLOATS for one in operands) and node.op in _NUMBERS:
            return _NUMBERS[node.op]
        if len(operands) == 2 and node.op in BINARY:
            return BINARY[node.op]
        if len(operands) == 1 and node.op in UNARY:
            return UNARY[node.op]
    return lambda *given: evaluate(node, given)
