"""Nodes with a number: of `*P = each t < k Slice(X, [t * m], ..)` there are k, and k is a symbol.

Let P_t be what the node of number t gives, for any t below k: a tensor in whose definition t stands
as a symbol. All of them together are one tensor of an axis more, P[t, ..] = P_t[..]. What adds up a
list, or takes the largest or smallest of it, does so along that axis:

    Sum(P_0, .., P_k-1, *Q) = Sum(R, *Q), R[..] = sum over t < k of P[t, ..]

by what Sum is: all P_t have one shape, which has to be shown, and addition is associative and
commutative in the algebras that statements are about. So what is proved is proved of any number of
nodes.
"""

from __future__ import annotations

from dataclasses import replace

from ....catalog.operators.expand import Definition
from ....catalog.terms.index_notation import (
    Apply,
    Read,
    Reduce,
    Select,
    Symbol,
    Term,
    Variable,
    apply,
    elements,
    substitute,
    symbol_names,
)
from ..statement import Obligation
from .composition import Composition


class NumberedNodes:
    """The nodes with a number of one case: `number` is that of any of them, below `count`."""

    def __init__(self, composition: Composition, number: Symbol, count: Term) -> None:
        self.composition = composition
        self.number, self.count = number, count
        self._joined: dict[tuple[str, str], str] = {}
        self._whole: set[str] = set()

    def joined(self, name: str, kind: str) -> tuple[str, list[Obligation]]:
        """Add what a reduction makes of the tensors that a name stands for, one of each number.

        Returns the name of that, and what must hold: that they have one shape.
        """
        if (name, kind) in self._joined:
            return self._joined[name, kind], []
        obligations = self._give_axis(name)
        definition = next(d for d in self.composition.definitions if d.name == _whole(name))
        number, *indices = definition.indices
        value = Reduce(
            kind, (number,), (self.count,), True, Read(definition.name, definition.indices)
        )
        reduced = Definition(
            f"{name}.{kind}", definition.shape[1:], tuple(indices), value, definition.type
        )
        self.composition.define(reduced, self.composition.tensors[name].dtype)
        self._joined[name, kind] = reduced.name
        return reduced.name, obligations

    def _give_axis(self, wanted: str) -> list[Obligation]:
        """Give what depends on the number an axis for it, and one tensor in any case."""
        obligations: list[Obligation] = []
        for position, definition in enumerate(list(self.composition.definitions)):
            depends = self.number.name in symbol_names(definition.value) or any(
                read.tensor in self._whole for read in elements(definition.value)
            )
            if definition.name not in self._whole and (depends or definition.name == wanted):
                self._whole.add(definition.name)
                whole, needs = self._with_axis(definition)
                self.composition.redefine(position, whole)
                obligations += needs
        return obligations

    def _with_axis(self, definition: Definition) -> tuple[Definition, list[Obligation]]:
        index = self.composition.variable(f"number {self.number}")
        first = tuple(substitute(size, {self.number.name: 0}) for size in definition.shape)
        value = self._along(substitute(definition.value, {self.number.name: index}), index)
        needs = [
            Obligation(f"size {axis} of {definition.name} is the same of all numbers", equal)
            for axis, (size, other) in enumerate(zip(definition.shape, first, strict=True))
            if (equal := apply("=", size, other)) is not True
        ]
        shape, indices = (self.count, *first), (index, *definition.indices)
        whole = replace(
            definition, name=_whole(definition.name), shape=shape, indices=indices, value=value
        )
        return whole, needs

    def _along(self, term: Term, index: Variable) -> Term:
        """A value that reads what was given an axis at the index of its own."""
        match term:
            case Apply(function, arguments):
                return Apply(
                    function, tuple(self._along(argument, index) for argument in arguments)
                )
            case Select(condition, then, otherwise):
                parts = (self._along(part, index) for part in (condition, then, otherwise))
                return Select(*parts)
            case Read(tensor, places):
                along = tuple(self._along(place, index) for place in places)
                return (
                    Read(_whole(tensor), (index, *along))
                    if tensor in self._whole
                    else (Read(tensor, along))
                )
            case Reduce(kind, variables, extents, condition, body):
                return Reduce(
                    kind,
                    variables,
                    tuple(self._along(extent, index) for extent in extents),
                    self._along(condition, index),
                    self._along(body, index),
                )
            case _:
                return term


def _whole(name: str) -> str:
    return f"{name}.all"
