"""Which numbers operators take: floats away from poles and branch cuts, integers within bounds."""

from __future__ import annotations

_POSITIVE = frozenset({("Pow", 0), ("Sqrt", 0), ("Log", 0), ("BatchNormalization", 4)})
_NONZERO = frozenset({("Div", 1), ("Reciprocal", 0)})
# Operators that take integers as places, lengths, amounts or divisors: any other number may be out
# of bounds, and of a division of integers ONNX Runtime may end the process.
BOUNDED = frozenset(
    (
        *("BitShift", "Div", "Gather", "GatherElements", "GatherND", "Mod", "OneHot", "Pow"),
        *("Range", "ReverseSequence", "RotaryEmbedding", "ScatterElements", "ScatterND"),
    )
)


def domain_of(operator: str, position: int) -> str:
    """Return which numbers an operator takes: "positive", "nonzero", a "position", or "any"."""
    operand = operator, position
    if operand in _POSITIVE:
        return "positive"
    if operand in _NONZERO:
        return "nonzero"
    return "position" if operand == ("RotaryEmbedding", 1) else "any"
