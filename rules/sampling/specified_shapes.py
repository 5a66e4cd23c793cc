"""Which sizes an operator's specification gives its operands, once the shapes of some are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from ...catalog.operators import ShapeError
from ...catalog.operators.definition import functions
from ...catalog.operators.expand import lengths_of
from ...catalog.operators.instantiate import Lazy, Scope, evaluate
from ...catalog.operators.syntax import Input, Operator

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
        try:
            lengths = lengths_of(declared, len(shape), scope)
        except ShapeError:
            return None
        start = 0
        for item, length in zip(declared.shape, lengths, strict=True):
            if item.name is not None and item.kind in ("plain", "star", "broadcast"):
                names.setdefault(item.name, shape[start : start + length])
            if item.name is not None and item.kind == "star":
                scope.names.setdefault(item.name, names[item.name])
            start += length
    return names


def _scope(block: Operator, attributes: Mapping[str, object]) -> Scope:
    scope = Scope({}, functions())
    for attribute in block.attributes:
        if attribute.default is not None:
            scope.names[attribute.name] = Lazy(partial(evaluate, attribute.default, scope))
    return scope.inner(attributes)
