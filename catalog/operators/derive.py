"""What follows from a value in index notation: operations, bytes, and where zeros stay zeros."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..tensors import dtype_name
from ..terms.index_notation import Apply, Read, Reduce, Select, Term, apply, product, reads, total
from .expand import Expansion, Shape, expand
from .functions import ShapeError
from .syntax import Function, Operator

# Primitives that give 0 where their first operand is 0.
_KEEP_ZERO = frozenset(
    [
        *[
            "neg",
            "abs",
            "sign",
            "sqrt",
            "erf",
            "floor",
            "ceil",
            "round",
            "real",
            "int32",
            "saturate",
        ],
        *["sin", "tan", "sinh", "tanh", "asin", "atan", "asinh", "atanh"],
    ]
)


def operations(expansion: Expansion) -> Term:
    """Return how many primitives are applied to elements; indices and conditions are free."""
    return total(
        [
            apply("*", product(list(definition.shape)), _operations(definition.value))
            for definition in (*expansion.locals, *expansion.outputs)
        ]
    )


def _operations(term: Term) -> Term:
    match term:
        case Apply(_, arguments) if reads(term):
            return total([1, *(_operations(argument) for argument in arguments)])
        case Select(condition, then, otherwise):
            first, second = _operations(then), _operations(otherwise)
            more = first if first == second or second == 0 else apply("max", first, second)
            return apply("+", _operations(condition), more)
        case Reduce(_, _, extents, _, body):
            return apply("*", product(list(extents)), apply("+", _operations(body), 1))
        case _:
            return 0


def bytes_moved(expansion: Expansion, element_bytes: int) -> Term:
    """Return the bytes of all inputs that are read and of all outputs."""
    shapes = [list(tensor.shape) for tensor in expansion.inputs if tensor is not None]
    shapes += [list(output.shape) for output in expansion.outputs]
    return apply("*", element_bytes, total([product(shape) for shape in shapes]))


def element_types(expansion: Expansion, types: Sequence[str | None]) -> list[str]:
    """Return the outputs' element types, from those of the inputs by position ("float32")."""
    first = next((kind for kind in types if kind is not None), "float32")
    named = {
        tensor.name: kind
        for tensor, kind in zip(expansion.inputs, types, strict=True)
        if tensor is not None and kind is not None
    }
    outputs = []
    for output in expansion.outputs:
        if output.like is not None:
            outputs.append(named.get(output.like, first))
        elif isinstance(output.type, int):
            outputs.append(dtype_name(output.type))
        else:
            outputs.append(output.type or first)
    return outputs


def integer_range(dtype: str) -> tuple[int, int] | None:
    """Return the least and the largest integer of a type; None where it is none of integers."""
    parts = re.fullmatch(r"(u?)int(\d+)", dtype)
    if parts is None:
        return None
    bits = int(parts[2])
    return (0, 2**bits - 1) if parts[1] else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def saturated(value: Term, dtype: str) -> Term:
    """Return the value of an output of known type with `saturate` written out.

    It stands outermost, or in the branches of a choice. Raises ShapeError for a type that is none
    of integers.
    """
    match value:
        case Apply("saturate", (inner,)):
            limits = integer_range(dtype)
            if limits is None:
                raise ShapeError(f"saturation to {dtype} is not described")
            return apply("min", apply("max", inner, limits[0]), limits[1])
        case Select(condition, then, otherwise):
            return Select(condition, saturated(then, dtype), saturated(otherwise, dtype))
        case _:
            return value


def sparse_safe_inputs(
    operator: Operator, functions: Mapping[str, Function]
) -> tuple[str, ...] | None:
    """Return the inputs whose zeros make zeros, where optional ones are absent.

    None where the defaults of the attributes don't say enough.
    """
    shapes: list[Shape | None] = []
    for declared in operator.inputs:
        if declared.kind != "tensor" and not declared.optional:
            return None
        if declared.optional:
            shapes.append(None)
            continue
        names: list[str] = []
        for item in declared.shape:
            if item.kind in ("star", "broadcast"):
                names += [f"{item.name}0", f"{item.name}1"][: 1 if item.length else 2]
            else:
                names.append(item.name or "d")
        shapes += [names] * (2 if declared.variadic else 1)
    try:
        expansion = expand(operator, functions, shapes, {}, {}, None)
    except ShapeError:
        return None
    return zeros_pass(expansion)


def zeros_pass(expansion: Expansion) -> tuple[str, ...]:
    """Return the inputs whose zeros make the first output 0; 0 * Inf counts as 0."""
    safe = []
    for tensor in expansion.inputs:
        if tensor is None:
            continue
        zero = {tensor.name}
        for local in expansion.locals:
            if _is_zero(local.value, zero):
                zero.add(local.name)
        if expansion.outputs and _is_zero(expansion.outputs[0].value, zero):
            safe.append(tensor.name)
    return tuple(safe)


def _is_zero(term: Term, zero: set[str]) -> bool:
    """Whether a term is 0 where all elements of the tensors `zero` are."""
    match term:
        case bool():
            return term is False
        case int() | float():
            return term == 0
        case Read(tensor, _):
            return tensor in zero
        case Apply("*" | "and" | "bit_and", arguments):
            return any(_is_zero(argument, zero) for argument in arguments)
        case Apply("/" | "mod" | "fmod" | "shift_left" | "shift_right", (left, _)):
            return _is_zero(left, zero)
        case Apply("+" | "-" | "max" | "min" | "or" | "xor" | "bit_or" | "bit_xor", arguments):
            return all(_is_zero(argument, zero) for argument in arguments)
        case Apply("pow", (left, int() | float() as exponent)):
            return exponent > 0 and _is_zero(left, zero)
        case Apply("!=" | "<" | ">", arguments):
            return all(_is_zero(argument, zero) for argument in arguments)
        case Apply(function, (operand,)):
            return function in _KEEP_ZERO and _is_zero(operand, zero)
        case Select(condition, then, otherwise):
            return _branches_are_zero(condition, then, otherwise, zero)
        case Reduce(kind, _, _, _, body):
            return kind != "all" and kind != "prod" and _is_zero(body, zero)
        case _:
            return False


def _branches_are_zero(condition: Term, then: Term, otherwise: Term, zero: set[str]) -> bool:
    if _is_zero(condition, zero):
        return _is_zero(otherwise, zero)
    match condition:
        case Apply("=" | ">=" | "<=", (left, right)):
            if _both(left, right, zero):
                return _is_zero(then, zero)
    return _is_zero(then, zero) and _is_zero(otherwise, zero)


def _both(left: Term, right: Term, zero: set[str]) -> bool:
    return _is_zero(left, zero) and _is_zero(right, zero)
