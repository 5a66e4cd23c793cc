"""The divisions of an operator among devices that a search chooses from."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence, Set
from functools import cached_property, lru_cache

from ...profiles.kernel import Kernel
from ..cuts.operator_cuts import Cut, Kind, is_window
from ..simulation.placement import Config, whole_on
from ..simulation.tasks import Plan, Problem
from ..workload import Operator

# Up to so many devices every set of them is tried, and every number of parts; beyond that blocks of
# neighbours, with a part for each device, and of two cuts one in 8 or in so many more than 8.
_ALL_SETS = 4
_INNER = 8
_MOST_CUTS = 2  # of one operator


Use = tuple[Kernel, Cut]
"""A cut of an operator."""


class Space:
    """Divisions of each operator of a problem; `cuts` are those that may be used, by operator.

    `unproved` names those of some cuts that are not proved: they leave the space as soon as a plan
    has them. Without it all count as proved.
    """

    def __init__(
        self,
        problem: Problem,
        cuts: Sequence[Sequence[Cut]],
        unproved: Callable[[Set[Use]], Set[Use]] | None = None,
    ) -> None:
        self.problem = problem
        self.cuts = tuple(map(tuple, cuts))
        self.unproved = unproved
        self._proved: set[Use] = set()

    def holds(self, plan: Plan) -> bool:
        """Tell whether all cuts of a plan are proved; those that are not leave the space."""
        if self.unproved is None:
            return True
        operators = self.problem.workload.operators
        used = {
            (operators[n].kernel, cut) for n, config in enumerate(plan) for cut, _ in config.cuts
        }
        refused = self.unproved(used - self._proved)
        self._proved |= used - refused
        if refused:
            self.cuts = tuple(
                tuple(cut for cut in cuts_of if (operator.kernel, cut) not in refused)
                for operator, cuts_of in zip(operators, self.cuts, strict=True)
            )
        return not refused

    def divisions(self, number: int, devices: tuple[int, ...]) -> list[Config]:
        """Return the ways to divide an operator among all of some devices, replicas included."""
        operator = self.problem.workload.operators[number]
        every = len(self.problem.cluster.devices) <= _ALL_SETS
        divisions = _divisions(operator, self.cuts[number], len(devices), every)
        return [Config(cuts, devices) for cuts in divisions]

    def block_configs(self, block: tuple[int, ...]) -> list[list[Config]]:
        """Return by operator its divisions among all of a block, and that on its first device."""
        first = whole_on(block[0])
        return [[first, *self.divisions(number, block)] for number in range(len(self.cuts))]

    def all_configs(self, number: int) -> list[Config]:
        """Return the divisions of an operator among any of the devices."""
        configs: list[Config] = []
        for block in self.blocks:
            configs += self.divisions(number, block)
        return configs

    @cached_property
    def blocks(self) -> tuple[tuple[int, ...], ...]:
        """Sets of devices that parts of an operator may be on."""
        count = len(self.problem.cluster.devices)
        if count <= _ALL_SETS:
            sizes = range(1, count + 1)
            sets = [c for size in sizes for c in itertools.combinations(range(count), size)]
        else:
            sets = [
                tuple(range(first, first + size))
                for size in powers(count)
                for first in range(0, count - size + 1, size)
            ]
        return tuple(set_ for set_ in sets if self.problem.all_linked(set_))

    def data_parallel(self, devices: tuple[int, ...]) -> tuple[Config, ...]:
        """Return the plan that divides the first axis of each operator, and nothing else.

        What has no such axis, or is not proved to divide, is computed on every device.
        """
        return tuple(self.by_kind(number, devices, ("sample",)) for number in range(len(self.cuts)))

    def by_kind(self, number: int, devices: tuple[int, ...], kinds: Sequence[Kind]) -> Config:
        """Return the division by the first of the kinds that there is, else one whole for each."""
        for kind in kinds:
            for cut in self.cuts[number]:
                if cut.kind == kind and cut.most_parts >= len(devices):
                    return Config(((cut, len(devices)),), devices)
        return Config((), devices)


def powers(count: int) -> list[int]:
    """Return the powers of two up to a number, and the number."""
    widths = [1]
    while widths[-1] * 2 <= count:
        widths.append(widths[-1] * 2)
    return widths if widths[-1] == count else [*widths, count]


@lru_cache(maxsize=65536)
def _divisions(
    operator: Operator, cuts: tuple[Cut, ...], devices: int, every: bool
) -> tuple[tuple[tuple[Cut, int], ...], ...]:
    divisions: list[tuple[tuple[Cut, int], ...]] = [()]
    for count in range(1, _MOST_CUTS + 1):
        for chosen in itertools.combinations(cuts, count):
            if _fit(operator, chosen):
                for degrees in _degrees(devices, count):
                    if not every and not _is_usual(degrees, devices):
                        continue
                    pairs = tuple(zip(chosen, degrees, strict=True))
                    if all(cut.most_parts >= degree for cut, degree in pairs):
                        divisions.append(pairs)
    return tuple(divisions)


def _degrees(devices: int, count: int) -> Iterator[tuple[int, ...]]:
    """Yield numbers of parts, each above 1, whose product divides the number of devices."""
    if count == 0:
        yield ()
        return
    for degree in range(2, devices + 1):
        if devices % degree == 0:
            for others in _degrees(devices // degree, count - 1):
                yield (degree, *others)


def _is_usual(degrees: tuple[int, ...], devices: int) -> bool:
    if len(degrees) == 1 or devices <= _INNER:
        return math.prod(degrees) == devices
    return math.prod(degrees) == devices and _INNER in degrees


def _fit(operator: Operator, cuts: Sequence[Cut]) -> bool:
    """Whether cuts can be made together: on axes of their own, at most one into windows, last."""
    if sum(cut.combine != "concat" for cut in cuts) > 1:
        return False
    inputs = operator.kernel.inputs
    for place, cut in enumerate(cuts):
        windowed = any(
            spec is not None and slice_ is not None and is_window(spec, slice_, cut)
            for spec, slice_ in zip(inputs, cut.slices, strict=True)
        )
        if windowed and place < len(cuts) - 1:
            return False
    for left, right in itertools.combinations(cuts, 2):
        if set(left.axes) & set(right.axes) and left.axes[:1] == right.axes[:1]:
            return False
        for slice_, other in zip(left.slices, right.slices, strict=True):
            if slice_ is not None and other is not None and slice_.axis == other.axis:
                return False
    return True
