"""What a step of a loop computes, in each place of its state: cells, steps being the first loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....catalog.terms.index_notation import Term
from ...codegen.expressions import LoweringError
from ..loops.affine import Affine, Extent, Map, Ranges
from ..loops.cells import Cells
from ..loops.kernel_region import Meanings, Region
from .steps import Moving

TIME = 0


class StepCells(Cells):
    """The cells of a step; `states` are the values that it reads of the step before."""

    def __init__(
        self,
        meanings: Meanings,
        region: Region,
        axes: Sequence[int],
        extents: Sequence[Extent],
        moving: Mapping[int, Moving],
        states: Mapping[int, tuple[int, int]],
    ) -> None:
        """`axes` are those of the state that are loops; `extents` have the steps in front."""
        self.moving, self.states = moving, states
        super().__init__(
            meanings,
            region,
            (-1, *axes),
            Ranges(tuple(extents)),
            sequential=frozenset({TIME}),
        )

    def _value(self, value: int, place: Map) -> Term:
        moving = self.moving.get(value)
        if moving is not None:
            step_index = Affine(((TIME, moving.step),), moving.first)
            behind = moving.axis + moving.keeps
            return self._value(moving.source, (*place[: moving.axis], step_index, *place[behind:]))
        if value in self.states:
            if place != self.natural(value):
                raise LoweringError("a state that is read elsewhere than where it is made")
            return self._load(value, place)
        return super()._value(value, place)
