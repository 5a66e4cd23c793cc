"""Element types of kernels: what memory holds, and what it means as the float32 numbers computed.

Numbers of 16 bits are read and written by conversions that round to nearest even (elements.h), as
ONNX Runtime's Cast does; between operators nothing is rounded, as the runtime rounds nothing there
either: it has few kernels for them, and computes in float32 from cast to cast. Integers of up to 16
bits are float32 numbers without any loss, so what quantizes and dequantizes is exact, and what
wraps around is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ....catalog.operators.derive import integer_range
from ....catalog.operators.expand import Definition, Expansion
from ....catalog.terms.index_notation import Apply, Read, Select, Term
from ...codegen.expressions import LoweringError

# Those that C has no arithmetic for: they are converted, many at a time.
HALVES = frozenset({"float16", "bfloat16"})
# The types that products, convolutions and attention are computed in.
FULL = frozenset({"float32", "bool"})
# The types of elements that kernels read and write.
ELEMENTS = FULL | HALVES | {"int8", "uint8", "int16", "uint16"}


def stored(text: str, dtype: str) -> str:
    """Return a number as an element that an assignment leaves as it is."""
    return f"(int32_t)({text})" if integer_range(dtype) else text


def as_numbers(
    op_type: str,
    expansion: Expansion,
    input_types: Sequence[str | None],
    output_types: Sequence[str],
) -> Expansion:
    """Return what a node computes in float32, from its specification and its operands' types.

    `input_types` and `output_types` are the element types of a node. Raises LoweringError
    where integers would wrap around, or a number is cut off to become one.
    """
    named = {
        tensor.name: dtype
        for tensor, dtype in zip(expansion.inputs, input_types, strict=False)
        if tensor is not None
    }
    outputs = []
    for output, dtype in zip(expansion.outputs, output_types, strict=False):
        value = output.value
        if integer_range(dtype):
            value = _integer(value, dtype, named)
        elif op_type in ("Cast", "CastLike") and input_types[0] != dtype:
            value = _cast(output, dtype)
        outputs.append(replace(output, value=value))
    return replace(expansion, outputs=tuple(outputs))


def _cast(output: Definition, dtype: str) -> Term:
    if dtype == "bool":
        return Apply("!=", (output.value, 0))
    return Apply(f"rounded_{dtype}", (output.value,)) if dtype in HALVES else output.value


def _integer(term: Term, dtype: str, named: Mapping[str, str | None]) -> Term:
    """Return a term whose value is an integer of a type; raise LoweringError for any other."""
    match term:
        case Apply("saturate", (inner,)):
            low, high = integer_range(dtype) or (0, 0)
            return Apply("saturated", (inner, low, high))
        case Select(condition, then, otherwise):
            return Select(
                condition, _integer(then, dtype, named), _integer(otherwise, dtype, named)
            )
        case Apply("max" | "min" as function, arguments):
            return Apply(
                function, tuple(_integer(argument, dtype, named) for argument in arguments)
            )
        case Read(tensor, _) if named.get(tensor) in (dtype, "bool"):
            return term
        case bool() | int():
            return term
    raise LoweringError(f"arithmetic of {dtype}, which wraps around")
