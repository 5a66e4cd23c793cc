"""Which attributes and inputs of an operator count axes, as its specification says.

A specification counts axes in two ways: `*p:axis` in the shape of an input, and `axes(list, rank)`.
A name that stands nowhere else but in these, or where only its presence or its length is asked for,
may be spelled from either end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any

from . import syntax as s
from .definition import functions, specification
from .functions import ShapeError
from .instantiate import Scope, evaluate

# What may be asked of a list of axes without knowing from which end they are counted.
_INDIFFERENT = ("present", "absent", "length")
_NOWHERE = s.Place("", 0, 0)


@dataclass(frozen=True)
class AxisParameter:
    """An attribute, or the input at `position`, that is an axis or (`is_list`) a list of axes.

    They are axes of a tensor whose rank is `rank`, an expression in the shapes of `tensors`: names
    that stand for all of an input's shape, and the inputs' positions.
    """

    name: str
    position: int | None
    is_list: bool
    rank: s.Expression
    tensors: tuple[tuple[str, int], ...]

    def rank_of(self, ranks: Sequence[int | None], count: int) -> int | None:
        """The rank that `count` axes belong to, from the ranks of the inputs; None if unknown."""
        names: dict[str, Any] = {self.name: [0] * count}
        for name, position in self.tensors:
            rank = ranks[position] if position < len(ranks) else None
            if rank is not None:
                names[name] = [0] * rank
        try:
            rank_value = evaluate(self.rank, Scope(names, functions()))
        except ShapeError:
            return None
        return rank_value if isinstance(rank_value, int) else None


def counted(axis: int, rank: int) -> int:
    """Return an axis counted from the front; one that no tensor of the rank has stays as it is."""
    return axis + rank if -rank <= axis < 0 else axis


@cache
def axis_parameters(domain: str, op_type: str, opset: int) -> tuple[AxisParameter, ...]:
    """Return the attributes and inputs that count axes in every text of an operator."""
    described = specification(domain, op_type, opset)
    if described is None or not described.blocks:
        return ()
    first, *others = (tuple(_parameters(block)) for block in described.blocks)
    return tuple(parameter for parameter in first if all(parameter in other for other in others))


def _parameters(block: s.Operator) -> Iterator[AxisParameter]:
    places = {input_.name: i for i, input_ in enumerate(block.inputs) if input_.kind != "tensor"}
    names = [attribute.name for attribute in block.attributes if attribute.type in ("int", "ints")]
    for name in (*names, *places):
        ranks = list(dict.fromkeys(_ranks(block, name)))
        if len(ranks) == 1 and ranks[0] is not None:
            rank, is_list = ranks[0]
            yield AxisParameter(name, places.get(name), is_list, rank, _whole_shapes(block))


def _ranks(block: s.Operator, name: str) -> Iterator[tuple[s.Expression, bool] | None]:
    """The ranks that a name counts axes of, and whether it is a list; None for any other use."""
    for position, input_ in enumerate(block.inputs):
        for dimension in input_.shape:
            if isinstance(dimension.length, s.Name) and dimension.length.name == name:
                whole = s.Name(_shape_name(position), input_.place)
                yield _replaced(s.Call("rank", (whole,), input_.place), {}), False
            elif dimension.length is not None:
                yield from _uses(dimension.length, name)
            yield from _uses(dimension.expression, name)
        yield from _uses(input_.default, name)
    parts = (block.outputs, block.attributes, block.lets, block.requires, block.locals)
    yield from _uses((*parts, block.values), name)


def _uses(part: object, name: str) -> Iterator[tuple[s.Expression, bool] | None]:
    """The uses of a name in a part of a text, as those of `_ranks`."""
    match part:
        case s.Name(used_name):
            if used_name == name:
                yield None
        case s.Call("axes", (s.Name(used_name), rank)) if used_name == name:
            yield _replaced(rank, {}), True
            yield from _uses(rank, name)
        case s.Call("axes", (s.ListOf((s.Name(used_name),)), rank)) if used_name == name:
            yield _replaced(rank, {}), False
            yield from _uses(rank, name)
        case s.Call(function, (s.Name(used_name),)) if (
            used_name == name and function in _INDIFFERENT
        ):
            return
        case s.Call(function, arguments) if function in functions():
            definition = functions()[function]
            given = dict(zip(definition.parameters, arguments, strict=True))
            if any(_mentions(argument, name) for argument in arguments):
                yield from _uses(_replaced(definition.expression, given), name)
        case tuple():
            for item in part:
                yield from _uses(item, name)
        case _ if is_dataclass(part):
            for field in fields(part):
                yield from _uses(getattr(part, field.name), name)


def _mentions(part: object, name: str) -> bool:
    if isinstance(part, s.Name):
        return part.name == name
    if isinstance(part, tuple):
        return any(_mentions(item, name) for item in part)
    return is_dataclass(part) and any(
        _mentions(getattr(part, field.name), name) for field in fields(part)
    )


def _replaced(part: Any, given: Mapping[str, s.Expression]) -> Any:
    """An expression without its places, names replaced by what a call gives for them."""
    if isinstance(part, s.Place):
        return _NOWHERE
    if isinstance(part, s.Name):
        return given.get(part.name, part)
    if isinstance(part, tuple):
        return tuple(_replaced(item, given) for item in part)
    if is_dataclass(part) and not isinstance(part, type):
        replaced = {
            field.name: _replaced(getattr(part, field.name), given) for field in fields(part)
        }
        return type(part)(**replaced)
    return part


def _shape_name(position: int) -> str:
    return f"shape of input {position}"


def _whole_shapes(block: s.Operator) -> tuple[tuple[str, int], ...]:
    """Names that stand for all of an input's shape, and the position of that input."""
    shapes = []
    for position, input_ in enumerate(block.inputs):
        shapes.append((_shape_name(position), position))
        if (
            len(input_.shape) == 1
            and input_.shape[0].kind == "star"
            and input_.shape[0].length is None
        ):
            shapes.append((input_.shape[0].name or "", position))
    return tuple(shapes)
