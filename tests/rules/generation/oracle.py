"""The operators of small runs in NumPy, written by hand: no specification has a say in them."""

from __future__ import annotations

import numpy as np
from tensolog.rules.generation.terms import Number, Variable


def _axes(lists, rank):
    return tuple(axis % rank for axis in lists.get(1, range(rank)))


def _sum(inputs, attributes, lists):
    (x,) = inputs
    if attributes.get("noop_with_empty_axes") and 1 not in lists:
        return x
    return x.sum(axis=_axes(lists, x.ndim), keepdims=bool(attributes.get("keepdims", 1)))


def _slice(inputs, attributes, lists):
    (x,) = inputs
    axes = lists.get(3, range(len(lists[1])))
    steps = lists.get(4, [1] * len(lists[1]))
    for start, end, axis, step in zip(lists[1], lists[2], axes, steps, strict=True):
        places = [slice(None)] * x.ndim
        places[axis] = slice(start, end, step)
        x = x[tuple(places)]
    return x


NUMPY = {
    "Add": lambda i, a, k: i[0] + i[1],
    "Sub": lambda i, a, k: i[0] - i[1],
    "Mul": lambda i, a, k: i[0] * i[1],
    "Neg": lambda i, a, k: -i[0],
    "Relu": lambda i, a, k: np.maximum(i[0], 0),
    "Max": lambda i, a, k: np.maximum(i[0], i[1]),
    "MatMul": lambda i, a, k: np.matmul(i[0], i[1]),
    "Concat": lambda i, a, k: np.concatenate(i, axis=a["axis"]),
    "Transpose": lambda i, a, k: np.transpose(i[0], a.get("perm")),
    "ReduceSum": _sum,
    "Slice": _slice,
    "Floor": lambda i, a, k: np.floor(i[0]),
    "Where": lambda i, a, k: np.where(i[0], i[1], i[2]),
    "Not": lambda i, a, k: ~i[0],
    "Less": lambda i, a, k: i[0] < i[1],
    "And": lambda i, a, k: i[0] & i[1],
}


def compute(term, values, assignment=0):
    """A term by NumPy; `values` holds arrays by the name of a variable."""
    if isinstance(term, Variable):
        return values[term.name]
    if isinstance(term, Number):
        return np.array(term.value, term.sort.dtype)
    operation = term.operation
    inputs = [compute(operand, values, assignment) for operand in term.operands]
    lists = operation.lists(assignment)
    outputs = NUMPY[operation.op_type](inputs, dict(operation.attributes), lists)
    return outputs[operation.output] if operation.outputs > 1 else outputs


def random_values(variables, rng, assignment):
    """Arrays for variables: halves, so that float64 computes without rounding."""
    values = {}
    for variable in variables:
        shape = variable.sort.shapes[assignment]
        if variable.sort.dtype == "bool":
            values[variable.name] = rng.integers(0, 2, shape).astype(bool)
        elif variable.sort.dtype == "float32":
            values[variable.name] = rng.integers(-16, 17, shape) / 2
        else:
            values[variable.name] = rng.integers(0, 2, shape)
    return values
