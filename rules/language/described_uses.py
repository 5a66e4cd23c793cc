"""Uses of operators that their specifications describe; what is proved is proved of these.

Attributes: for other values than those described, an operator does something that no specification
says. BatchNormalization in training is one: what is proved of `*rest` is proved at the values
described.

Windows: ONNX Runtime lets a pool whose window is larger than its image have one element if less
than a stride is missing, and refuses a convolution. The specifications describe neither, and what
is proved of windows is proved where they fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache

from onnx import defs

from ...catalog.operators import ShapeError, Specification, specification
from ...catalog.terms.syntax_tree import Call, Name, walk
from .schemas import EARLIEST_OPSET


@cache
def limited(operator: str, opset_from: int | None, opset_to: int | None) -> frozenset[str]:
    """The attributes of an operator that are described at some values only, in these opsets."""
    domain, _, name = operator.rpartition(":")
    latest = defs.onnx_opset_version()
    attributes: set[str] = set()
    for opset in range(opset_from or EARLIEST_OPSET, min(opset_to or latest, latest) + 1):
        meaning = specification(domain, name, opset)
        for block in () if meaning is None else meaning.blocks:
            said = {
                part.text
                for require in block.requires
                if require.only
                for part in walk(require.condition)
                if isinstance(part, Name)
            }
            attributes |= said & {attribute.name for attribute in block.attributes}
    return frozenset(attributes)


_ROOM = "room"  # as the specifications call it
Shape = tuple[int | str, ...]


@cache
def needs_room(operator: str) -> bool:
    """Whether an operator has windows for which there must be room."""
    meaning = _described(operator, defs.onnx_opset_version())
    if meaning is None or meaning.opaque is not None:
        return False
    return any(
        isinstance(part, Call) and part.function == _ROOM
        for block in meaning.blocks
        for require in block.requires
        for part in walk(require.condition)
    )


def finds_room(
    operator: str,
    opset: int | None,
    shapes: Sequence[Shape | None],
    attributes: dict[str, object],
    outputs: int,
) -> bool:
    """Return False where a window is known not to fit: where a size isn't known, it may."""
    if any(isinstance(size, str) for shape in shapes if shape is not None for size in shape):
        return True
    known = tuple(sorted((name, _plain(value)) for name, value in attributes.items()))
    return _fits(operator, opset or defs.onnx_opset_version(), tuple(shapes), known, outputs)


@lru_cache(maxsize=4096)
def _fits(
    operator: str,
    opset: int,
    shapes: tuple[Shape | None, ...],
    attributes: tuple[tuple[str, object], ...],
    outputs: int,
) -> bool:
    meaning = _described(operator, opset)
    if meaning is None:
        return True
    try:
        meaning.expand(
            shapes,
            {name: list(v) if isinstance(v, tuple) else v for name, v in attributes},
            outputs=outputs,
        )
    except ShapeError as error:  # of a node that isn't described, nothing is known
        return f"{_ROOM}(" not in str(error)
    return True


def _described(operator: str, opset: int) -> Specification | None:
    domain, _, name = operator.rpartition(":")
    return specification(domain, name, opset)


def _plain(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value
