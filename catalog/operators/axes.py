"""Which attributes and inputs of an operator count axes, as its specification says.

A specification counts axes in two ways: `*p:axis` in the shape of an input, and `axes(list, rank)`.
A name that stands nowhere else but in these, or where only its presence or its length is asked for,
may be spelled from either end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..terms.syntax_tree import Call, Expression, ListOf, Name, mentions, replace_names
from . import syntax as s
from .definition import functions, specification
from .functions import ShapeError
from .instantiate import Scope, evaluate

# What may be asked of a list of axes without knowing from which end they are counted.
_INDIFFERENT = ("present", "absent", "length")


@dataclass(frozen=True)
class AxisParameter:
    """An attribute, or the input at `position`, that is an axis or (`is_list`) a list of axes.

    They are axes of a tensor whose rank is `rank`, an expression in the shapes of `tensors`: names
    that stand for all of an input's shape, and the inputs' positions.
    """

    name: str
    position: int | None
    is_list: bool
    rank: Expression
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


def _ranks(block: s.Operator, name: str) -> Iterator[tuple[Expression, bool] | None]:
    """The ranks that a name counts axes of, and whether it is a list; None for any other use."""
    for position, input_ in enumerate(block.inputs):
        for dimension in input_.shape:
            if dimension.length == Name(name):
                yield Call("rank", (Name(_shape_name(position)),)), False
            elif dimension.length is not None:
                yield from _uses(dimension.length, name)
            yield from _uses(dimension.expression, name)
        if input_.default is not None:
            yield from _uses(input_.default, name)
    for expression in s.expressions_behind_inputs(block):
        yield from _uses(expression, name)


def _uses(part: Expression, name: str) -> Iterator[tuple[Expression, bool] | None]:
    """The uses of a name in an expression, as those of `_ranks`."""
    match part:
        case Name(text):
            if text == name:
                yield None
        case Call("axes", (Name(text), rank)) if text == name:
            yield rank, True
            yield from _uses(rank, name)
        case Call("axes", (ListOf((Name(text),)), rank)) if text == name:
            yield rank, False
            yield from _uses(rank, name)
        case Call(function, (Name(text),)) if text == name and function in _INDIFFERENT:
            return
        case Call(function, arguments) if function in functions():
            definition = functions()[function]
            argument_of = dict(zip(definition.parameters, arguments, strict=True))
            if any(mentions(argument, name) for argument in arguments):
                yield from _uses(replace_names(definition.expression, argument_of), name)
        case _:
            for inner in part.parts:
                yield from _uses(inner, name)


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
