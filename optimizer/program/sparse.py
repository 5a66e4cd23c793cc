"""What SciPy computes when an operand of a node is sparse."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .dag import Node, ProgramError

# Elementwise functions that map 0 to 0, applied to the stored values.
ZERO_TO_ZERO: Mapping[str, Callable[[Any], Any]] = {
    "Abs": np.absolute,
    "Neg": np.negative,
    "Sign": np.sign,
    "Ceil": np.ceil,
    "Floor": np.floor,
    "Round": np.rint,
    "Sqrt": np.sqrt,
    "Sin": np.sin,
    "Tan": np.tan,
    "Asin": np.arcsin,
    "Atan": np.arctan,
    "Sinh": np.sinh,
    "Tanh": np.tanh,
    "Asinh": np.arcsinh,
    "Atanh": np.arctanh,
    "Expm1": np.expm1,
    "Log1p": np.log1p,
}


COMPARED: Mapping[str, Callable[[Any, Any], Any]] = {
    "Greater": np.greater,
    "Less": np.less,
    "GreaterOrEqual": np.greater_equal,
    "LessOrEqual": np.less_equal,
    "Equal": np.equal,
}


def evaluate_sparse(node: Node, operands: Sequence[Any]) -> Any:
    """Return the value of a node with a sparse operand; see evaluate.evaluate."""
    result = _value(node, operands)
    if node.layout == "dense":
        dense = result.toarray() if hasattr(result, "tocsr") else np.asarray(result)
        return dense.reshape(node.shape)
    return result.asformat(node.layout)


def _value(node: Node, operands: Sequence[Any]) -> Any:
    first = operands[0]
    if node.op in ZERO_TO_ZERO:
        return _with_data(first, ZERO_TO_ZERO[node.op](first.data))
    match node.op:
        case "Identity":
            return first.copy()
        case "Cast":
            return _with_data(first, first.data.astype(node.dtype))
        case "Transpose":
            return first.T
        case "MatMul":
            return first @ operands[1]
        case "Mul" | "Div":
            return _product(node, *operands)
        case "Add" | "Sub":
            return _sum(node, *operands)
        case "Greater" | "Less" | "GreaterOrEqual" | "LessOrEqual" | "Equal":
            return _with_data(first, COMPARED[node.op](first.data, operands[1]))
        case "Pow":
            return _with_data(first, np.power(first.data, operands[1]))
        case "ReduceSum":
            axes = node.attributes.get("axes", (0, 1))
            if len(axes) != 1:
                return first.sum() if axes else first
            return first.sum(axis=axes[0])
    raise ProgramError(f"{node.op} of a sparse operand can't be computed by SciPy here")


def _with_data(sparse: Any, data: Any) -> Any:
    """Return an array of the same pattern with other stored values."""
    if sparse.format == "coo":
        return type(sparse)((data, sparse.coords), shape=sparse.shape)
    return type(sparse)((data, sparse.indices, sparse.indptr), shape=sparse.shape)


def _product(node: Node, left: Any, right: Any) -> Any:
    if not hasattr(left, "tocsr"):
        if node.op == "Div":
            raise ProgramError("a dense value divided by a sparse one")
        left, right = right, left
    if hasattr(right, "tocsr"):
        if node.op == "Div":
            raise ProgramError("a sparse value divided by a sparse one")
        return left.multiply(right)
    if right.size == 1:
        number = right.reshape(())
        return _with_data(left, left.data * number if node.op == "Mul" else left.data / number)
    return left.multiply(right) if node.op == "Mul" else left.multiply(1 / right)


def _sum(node: Node, left: Any, right: Any) -> Any:
    if hasattr(left, "tocsr") and hasattr(right, "tocsr"):
        return left + right if node.op == "Add" else left - right
    dense_left = left.toarray() if hasattr(left, "tocsr") else left
    dense_right = right.toarray() if hasattr(right, "tocsr") else right
    return dense_left + dense_right if node.op == "Add" else dense_left - dense_right
