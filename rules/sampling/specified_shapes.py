"""Which sizes an operator's specification gives its operands, once the shapes of some are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from ...catalog.operators import ShapeError
from ...catalog.operators.definition import functions
from ...catalog.operators.instantiate import Lazy, Scope, evaluate
from ...catalog.operators.syntax import Dimension, Input, Operator

Shape = tuple[int, ...]


def operand(block: Operator, position: int) -> Input | None:
    """The tensor that a block of text has at a position; None where it has none, or a list."""
    last = len(block.inputs) - 1
    if position > last and not block.inputs[last].variadic:
        return None
    declared = block.inputs[min(position, last)]
    return declared if declared.kind == "tensor" else None


def sizes_of(
    block: Operator, shapes: Sequence[Shape | None], attributes: Mapping[str, object]
) -> dict[str, Shape] | None:
    """What the known shapes make of the names in a block's signature: of each a list of sizes.

    Attributes that are not given count as their defaults. None where the ranks are others.
    """
    names: dict[str, Shape] = {
        name: (value,) for name, value in attributes.items() if isinstance(value, int)
    }
    scope = _scope(block, attributes)
    for position, shape in enumerate(shapes):
        declared = operand(block, position)
        if shape is None or declared is None:
            continue
        lengths = _lengths(declared.shape, len(shape), names, scope)
        if lengths is None:
            return None
        at = 0
        for item, length in zip(declared.shape, lengths, strict=True):
            if item.name is not None and item.kind in ("plain", "star", "broadcast"):
                names.setdefault(item.name, shape[at : at + length])
            at += length
    return names


def _scope(block: Operator, attributes: Mapping[str, object]) -> Scope:
    scope = Scope({}, functions())
    for attribute in block.attributes:
        if attribute.default is not None:
            scope.names[attribute.name] = Lazy(partial(evaluate, attribute.default, scope))
    return scope.inner(attributes)


def _lengths(
    items: Sequence[Dimension], rank: int, names: Mapping[str, Shape], scope: Scope
) -> list[int] | None:
    """How many axes each entry of a signature stands for; None where they are not so many."""
    lengths: list[int | None] = []
    for item in items:
        if item.kind == "plain":
            lengths.append(1)
        elif item.length is not None:
            try:
                length = evaluate(item.length, scope)
            except ShapeError:
                return None
            lengths.append(length + rank if length < 0 else length)
        else:
            known = names.get(item.name or "") if item.kind == "star" else None
            lengths.append(None if known is None else len(known))
    open_ = rank - sum(length or 0 for length in lengths)
    if open_ < 0 or (open_ and None not in lengths):
        return None
    return [open_ if length is None else length for length in lengths]
