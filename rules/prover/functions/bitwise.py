"""Laws of "and", "or" and "exclusive or" of the bits of integers, which are a lattice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from ..normal.context import Context
from ..normal.sums import Place

Value = Place | Fraction

_DUAL = {"bit_and": "bit_or", "bit_or": "bit_and"}
BITWISE = frozenset({*_DUAL, "bit_xor"})


def bit_operands(function: str, values: Sequence[Value], context: Context) -> list[Value]:
    """What is left of the operands of one function, in an order of its own; none: it gives 0.

    They are joined with those of the same function among them. Of equal ones "and" and "or" keep
    one, "exclusive or" none of each two; and what the other function makes of an operand and more
    says nothing beside that operand.
    """
    joined: Counter[Value] = Counter()
    for value in values:
        inner, operands = context.bitwise.get(value, ("", ()))
        joined.update(operands if inner == function else [value])
    if function == "bit_and" and Fraction(0) in joined:
        return []
    if function == "bit_xor":
        kept = [value for value, count in joined.items() if count % 2]
    else:
        kept = [value for value in joined if not _absorbed(value, function, joined, context)]
    if function != "bit_and":
        kept = [value for value in kept if value != 0]
    return sorted(kept, key=str)


def _absorbed(value: Value, function: str, beside: Counter[Value], context: Context) -> bool:
    inner, operands = context.bitwise.get(value, ("", ()))
    return inner == _DUAL[function] and any(operand in beside for operand in operands)
