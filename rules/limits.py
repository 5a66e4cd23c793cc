"""Attributes for whose other values an operator does something that no specification describes.

BatchNormalization in training is one: what is proved of `*rest` is proved at the values described.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache

from onnx import defs

from ..catalog.operators import specification
from ..catalog.operators import syntax as spec
from .schemas import EARLIEST_OPSET


@cache
def limited(operator: str, opset_from: int | None, opset_to: int | None) -> frozenset[str]:
    """The attributes of an operator that are described at some values only, in these opsets."""
    domain, _, name = operator.rpartition(":")
    latest = defs.onnx_opset_version()
    found: set[str] = set()
    for opset in range(opset_from or EARLIEST_OPSET, min(opset_to or latest, latest) + 1):
        meaning = specification(domain, name, opset)
        for block in () if meaning is None else meaning.blocks:
            said = {
                part.name
                for require in block.requires
                if require.only
                for part in parts(require.condition)
                if isinstance(part, spec.Name)
            }
            found |= said & {attribute.name for attribute in block.attributes}
    return frozenset(found)


def parts(node: object) -> Iterator[object]:
    """Yield a node of a specification's syntax tree and all nodes inside of it."""
    yield node
    if isinstance(node, tuple):
        for item in node:
            yield from parts(item)
    elif is_dataclass(node):
        for field in fields(node):
            yield from parts(getattr(node, field.name))
