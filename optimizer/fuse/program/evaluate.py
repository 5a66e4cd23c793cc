"""A program's values by NumPy and SciPy: what runs where nothing is fused, and what fused code must
agree with.

Dense values are ndarrays, numbers 0-d ones; sparse ones are SciPy's sparse arrays (never its
matrices, whose `*` means another thing) in the node's layout.
"""

from __future__ import annotations

import importlib
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from . import memory_pool
from .dag import FLOATS, Node, Program, ProgramError
from .kept_axes import reduced_axes

# Imported within functions: SciPy's functions, for programs that call them.

Value = Any  # an ndarray, or a SciPy sparse array


def _states_of_errors() -> Any:
    """Return what holds the states, from NumPy 2 on: asking for them all takes a microsecond."""
    try:
        umath = importlib.import_module("numpy._core.umath")
    except ImportError:
        return None
    return getattr(umath, "_extobj_contextvar", None)


# How NumPy tells of floating-point errors: what was set by np.errstate.
ERROR_STATES = _states_of_errors()


class _Ignored:
    """np.errstate(all="ignore") in a third of the time."""

    __slots__ = ("_token",)

    def __enter__(self) -> None:
        self._token = ERROR_STATES.set(_ignoring)

    def __exit__(self, *_: object) -> None:
        ERROR_STATES.reset(self._token)


def ignored() -> Any:
    """Return what turns NumPy's warnings off while it is entered."""
    return np.errstate(all="ignore") if ERROR_STATES is None else _Ignored()


with np.errstate(all="ignore"):
    _ignoring: Any = None if ERROR_STATES is None else ERROR_STATES.get()

UNARY: Mapping[str, Callable[[Any], Any]] = {
    "Identity": lambda a: a.copy(),
    "Abs": np.absolute,
    "Neg": np.negative,
    "Sign": np.sign,
    "Ceil": np.ceil,
    "Floor": np.floor,
    "Round": np.rint,
    "Exp": np.exp,
    "Log": np.log,
    "Sqrt": np.sqrt,
    "Reciprocal": np.reciprocal,
    "Sin": np.sin,
    "Cos": np.cos,
    "Tan": np.tan,
    "Asin": np.arcsin,
    "Acos": np.arccos,
    "Atan": np.arctan,
    "Sinh": np.sinh,
    "Cosh": np.cosh,
    "Tanh": np.tanh,
    "Asinh": np.arcsinh,
    "Acosh": np.arccosh,
    "Atanh": np.arctanh,
    "Expm1": np.expm1,
    "Log1p": np.log1p,
    "Exp2": np.exp2,
    "Log2": np.log2,
    "Log10": np.log10,
    "Not": np.logical_not,
    "IsNaN": np.isnan,
    "IsInf": np.isinf,
    "Relu": lambda a: np.maximum(a, a.dtype.type(0)),
}

BINARY: Mapping[str, Callable[[Any, Any], Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Pow": np.power,
    "Max": np.maximum,
    "Min": np.minimum,
    "Equal": np.equal,
    "Greater": np.greater,
    "Less": np.less,
    "GreaterOrEqual": np.greater_equal,
    "LessOrEqual": np.less_equal,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
    "MatMul": np.matmul,
    "Hypot": np.hypot,
    "LogAddExp": np.logaddexp,
    "Atan2": np.arctan2,
}

# What makes one element of all, and one part of several.
REDUCTIONS: Mapping[str, np.ufunc] = {
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceSumSquare"), np.add),
    "ReduceProd": np.multiply,
    "ReduceMax": np.maximum,
    "ReduceMin": np.minimum,
}


def run(program: Program, inputs: Sequence[Value], scipy_formats: bool = False) -> list[Value]:
    """Return the outputs of a program, computed node by node; values are dropped after use.

    With `scipy_formats`, sparse values keep the formats in which SciPy gives them, as where it runs
    alone.
    """
    values: dict[int, Value] = dict(zip(program.inputs, inputs, strict=True))
    with np.errstate(all="ignore"):
        for node, dropped in program.schedule:
            operands = [values[operand] for operand in node.inputs]
            values[node.id] = evaluate(node, operands, scipy_formats)
            for operand in dropped:
                del values[operand]
    return [values[output] for output in program.outputs]


def extend(values: dict[int, Value], nodes: Iterable[Node]) -> None:
    """Add the values of nodes, each after its operands."""
    with np.errstate(all="ignore"):
        for node in nodes:
            values[node.id] = evaluate(node, [values[operand] for operand in node.inputs])


def evaluate(node: Node, operands: Sequence[Value], scipy_formats: bool = False) -> Value:
    """Return the value of one node; an ndarray, or a sparse array in the node's layout.

    Raises ProgramError for an operator that has no meaning here, and what NumPy raises.
    """
    if node.op == "Constant":
        return np.asarray(node.attributes["value"], dtype=node.dtype)
    for operand in operands:
        if type(operand) is not np.ndarray and is_sparse(operand):
            return evaluate_sparse(node, operands, scipy_formats)
    return np.asarray(_dense(node, operands))


def is_sparse(value: object) -> bool:
    """Whether a value is one of SciPy's sparse arrays or matrices; SciPy isn't loaded for that."""
    return hasattr(value, "tocsr") and not isinstance(value, np.ndarray)


def _dense(node: Node, operands: Sequence[Any]) -> Any:
    op, attributes = node.op, node.attributes
    if op in UNARY:
        return _called(UNARY[op], node, operands)
    if op in BINARY and len(operands) == 2:
        return _called(BINARY[op], node, operands)
    if op in ("Max", "Min"):
        result = operands[0]
        for operand in operands[1:]:
            result = BINARY[op](result, operand)
        return result
    if op.startswith("Reduce"):
        return _reduce(node, operands[0])
    match op:
        case "Where":
            return np.where(*operands)
        case "Cast":
            return operands[0].astype(node.dtype)
        case "Mod":
            return (np.fmod if attributes.get("fmod") else np.remainder)(*operands)
        case "Transpose":
            return np.transpose(operands[0], attributes["perm"])
        case "Reshape":
            return np.reshape(operands[0], attributes["shape"])
        case "Expand":
            return np.broadcast_to(operands[0], node.shape)
        case "Squeeze":
            return np.squeeze(operands[0], attributes["axes"])
        case "Unsqueeze":
            return np.expand_dims(operands[0], attributes["axes"])
        case "Slice":
            return operands[0][slices(node, operands[0].ndim)]
        case "Concat":
            return np.concatenate(operands, attributes["axis"])
        case "CumSum":
            return np.add.accumulate(operands[0], attributes["axis"])
        case "Sigmoid" | "Erf":
            return _special(op)(operands[0])
        case "Call":
            return _call(node, operands)
    raise ProgramError(f"{op} can't be computed by NumPy here")


def _called(function: Callable[..., Any], node: Node, operands: Sequence[Any]) -> Any:
    """Return what a function returns, in memory that is lent where that is worth while."""
    if not memory_pool.is_lent(node.shape) or not isinstance(function, np.ufunc):
        return function(*operands)
    if function is not np.matmul and not all(operand.flags.c_contiguous for operand in operands):
        return function(*operands)  # whose result lies as they do
    return function(*operands, out=memory_pool.empty(node.shape, node.dtype))


def _reduce(node: Node, operand: Any) -> Any:
    if node.op not in REDUCTIONS:
        raise ProgramError(f"{node.op} can't be computed by NumPy here")
    axes = reduced_axes(node, operand.ndim)
    keepdims = bool(node.attributes.get("keepdims", 1))
    dtype = None if node.op in ("ReduceMax", "ReduceMin") else node.dtype
    values = operand * operand if node.op == "ReduceSumSquare" else operand
    whole = REDUCTIONS[node.op].reduce(values, axis=axes, keepdims=keepdims, dtype=dtype)
    if node.op != "ReduceMean":
        return whole
    count = math.prod(operand.shape[axis] for axis in axes)
    return np.true_divide(whole, operand.dtype.type(count))


def slices(node: Node, rank: int) -> tuple[slice, ...]:
    """Return a Slice's bounds as Python's, one for each of `rank` axes."""
    window = [slice(None)] * rank
    attributes = node.attributes
    for axis, start, end, step in zip(
        attributes["axes"],
        attributes["starts"],
        attributes["ends"],
        attributes["steps"],
        strict=True,
    ):
        window[axis] = slice(start, None if end < 0 else end, step)
    return tuple(window)


def _special(op: str) -> Callable[[Any], Any]:
    """Return a function of SciPy's; only a program traced from one of them has these operators."""
    from scipy import special

    function: Callable[[Any], Any] = special.expit if op == "Sigmoid" else special.erf
    return function


def _call(node: Node, operands: Sequence[Any]) -> Any:
    name = str(node.attributes["function"])
    options = dict(node.attributes.get("options", ()))
    if name.startswith("scipy.special."):
        from scipy import special

        return attrgetter(name.removeprefix("scipy.special."))(special)(*operands, **options)
    return attrgetter(name.removeprefix("numpy."))(np)(*operands, **options)


def _keeps_zero(function: Callable[[Any], Any]) -> bool:
    """Whether a function maps 0 to 0."""
    with np.errstate(all="ignore"):
        value = function(np.float64(0.0))
    return bool(value.dtype == np.float64 and value == 0.0)


# Elementwise functions that map 0 to 0, applied to the stored values.
ZERO_TO_ZERO: Mapping[str, np.ufunc] = {
    name: function
    for name, function in UNARY.items()
    if isinstance(function, np.ufunc) and _keeps_zero(function)
}


def evaluate_sparse(node: Node, operands: Sequence[Any], scipy_formats: bool) -> Any:
    """Return the value of a node with a sparse operand; see evaluate.evaluate."""
    result = _value(node, operands)
    if node.layout == "dense":
        dense = result.toarray() if hasattr(result, "tocsr") else np.asarray(result)
        return dense.reshape(node.shape)
    return result if scipy_formats else result.asformat(node.layout)


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
            return _with_data(first, BINARY[node.op](first.data, operands[1]))
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
# Elements from which on the time is that of the array.
_LARGE = 1 << 14


def bound(program: Program, node: Node) -> Callable[..., Any]:
    """Return what gives a node's value for those of its operands, with evaluate's meaning.

    A number comes as NumPy's or as a 0-d array, and may be given as either.
    """
    operands = [program.nodes[number] for number in node.inputs]
    if all(around.layout == "dense" and around.size < _LARGE for around in (node, *operands)):
        if (
            all(not operand.shape and operand.dtype in FLOATS for operand in operands)
            and node.op in _NUMBERS
        ):
            return _NUMBERS[node.op]
        if len(operands) == 2 and node.op in BINARY:
            return BINARY[node.op]
        if len(operands) == 1 and node.op in UNARY:
            return UNARY[node.op]
    return lambda *inputs: evaluate(node, inputs)
