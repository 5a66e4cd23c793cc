"""Constants: their values by kind, and facts that hold nothing else."""

from __future__ import annotations

from collections.abc import Mapping

from ..language.structures import BRANCH, NIL, Structures, builds, encode
from ..language.syntax import Atom, Expression, Functor, Number, String
from .type_inference import FLOAT, NUMBER, SYMBOL, UNSIGNED

Constant = int | float | str


def literal_value(node: Number | String, kind: str) -> Constant:
    """Give the Python value of a constant of a kind."""
    if isinstance(node, String):
        return node.value
    return float(node.value) if kind == FLOAT else int(node.value)


def fact_row(
    head: Atom, columns: Mapping[str, tuple[str, ...]], structures: Structures
) -> tuple[Constant, ...] | None:
    """Read a fact of constants; None where it has to be computed, or is wrong."""
    kinds = columns.get(head.name)
    if kinds is None or len(kinds) != len(head.arguments):
        return None
    row: list[Constant] = []
    for argument, kind in zip(head.arguments, kinds, strict=True):
        value = _constant(argument, kind, structures)
        if value is None:
            return None
        row.append(value)
    return tuple(row)


def _constant(node: Expression, kind: str, structures: Structures) -> Constant | None:
    """Read a constant of a kind, a structure as its JSON; None where it is none."""
    if isinstance(node, String) and kind == SYMBOL:
        return node.value
    if isinstance(node, Number) and _fits(node, kind):
        return literal_value(node, kind)
    if kind in structures and isinstance(node, Functor) and builds(node):
        try:
            return encode(_contents(node, kind, structures), kind, structures)
        except ValueError:
            return None
    return None


def _contents(node: Expression, kind: str, structures: Structures) -> object:
    """Give the value of a constant; raises ValueError where it is none of the kind."""
    structure = structures.get(kind)
    if structure is None or not isinstance(node, Functor) or not builds(node):
        value = _constant(node, kind, structures)
        if value is None:
            raise ValueError("no constant")
        return value
    if node.name == NIL:
        return None
    name = node.name[1:] if node.name[0] == BRANCH else ""
    kinds = structure.branches.get(name, ())
    if len(kinds) != len(node.arguments):
        raise ValueError("another number of fields")
    parts = zip(node.arguments, kinds, strict=True)
    values = tuple(_contents(argument, field, structures) for argument, field in parts)
    return (name, *values) if name else values


def _fits(node: Number, kind: str) -> bool:
    if node.kind is not None:
        return node.kind == kind
    if kind == NUMBER:
        return -(1 << 63) <= node.value < 1 << 63
    if kind == UNSIGNED:
        return 0 <= node.value < 1 << 64
    return kind == FLOAT
