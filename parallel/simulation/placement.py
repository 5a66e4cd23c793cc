"""Where the parts of operators are: what each part reads and gives, as boxes of tensors.

A box is a range of each axis. Every value lies in cells, boxes that do not overlap, each on one or
several devices. Parts of a sum give partial results, which are added up cell by cell, so that the
sum is divided among the devices like the work before it (reduce and scatter).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ...profiles.kernel import Kernel
from ..cuts.operator_cuts import Cut, part_of

Box = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Config:
    """How one operator is divided: cuts with their numbers of parts, and a device for each part.

    Parts are counted with the last cut running fastest; each is computed by `replicas` devices,
    which stand side by side in `devices` (numbers of the cluster's devices).
    """

    cuts: tuple[tuple[Cut, int], ...]
    devices: tuple[int, ...]

    def __hash__(self) -> int:
        """Hash it once: searches look divisions up all the time."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.cuts, self.devices))

    @cached_property
    def parts(self) -> int:
        """Number of different parts."""
        return math.prod(degree for _, degree in self.cuts)

    @cached_property
    def replicas(self) -> int:
        """On how many devices each part is computed."""
        return len(self.devices) // self.parts

    def holders(self, part: int) -> tuple[int, ...]:
        """Return the devices that compute a part."""
        return self.devices[part * self.replicas : (part + 1) * self.replicas]

    def moved(self, devices: tuple[int, ...]) -> Config:
        """Return the same division on other devices."""
        return Config(self.cuts, devices)

    @cached_property
    def reduction(self) -> int | None:
        """The place among the cuts of the one whose parts are added up."""
        for place, (cut, _) in enumerate(self.cuts):
            if cut.combine != "concat":
                return place
        return None


def whole_on(device: int) -> Config:
    """Return the undivided operator on one device."""
    return Config((), (device,))


@dataclass(frozen=True)
class Part:
    """One part: its kernel, the box of each input it reads (None: absent), and of its outputs."""

    kernel: Kernel
    reads: tuple[Box | None, ...]
    gives: tuple[Box, ...]


@dataclass(frozen=True)
class Cell:
    """A box of an output: the parts that give it, or are added up to it, and who holds it."""

    box: Box
    parts: tuple[int, ...]
    holders: tuple[int, ...]


def full_box(shape: tuple[int, ...]) -> Box:
    """Return all of a tensor."""
    return tuple((0, size) for size in shape)


def elements(box: Box) -> int:
    """Return the number of elements of a box."""
    return math.prod(high - low for low, high in box)


def meet(left: Box, right: Box) -> Box | None:
    """Return what two boxes share; None for nothing."""
    shared = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(left, right, strict=True))
    return None if any(low >= high for low, high in shared) else shared


Shapes = tuple[tuple[int, ...], ...]


def parts_of(kernel: Kernel, cuts: tuple[tuple[Cut, int], ...], shapes: Shapes) -> Iterator[Part]:
    """Yield the parts of an operator; `shapes` are those of its outputs."""
    for ranges in itertools.product(*(cut.ranges(degree) for cut, degree in cuts)):
        part = kernel
        reads = [None if spec is None else list(full_box(spec.shape)) for spec in kernel.inputs]
        gives = [list(full_box(shape)) for shape in shapes]
        for (cut, _), (first, last) in zip(cuts, ranges, strict=True):
            for position, slicing in enumerate(cut.slices):
                box = reads[position]
                if box is not None and slicing is not None:
                    low, high = slicing.bounds(first, last)
                    box[slicing.axis] = (max(low, 0), min(high, box[slicing.axis][1]))
                if position in cut.once and first > 0:
                    reads[position] = None
            for box, axis in zip(gives, cut.axes, strict=False):
                box[axis] = (first, last)
            part = part_of(part, cut, first, last)
        yield Part(
            part,
            tuple(None if box is None else tuple(box) for box in reads),
            tuple(tuple(box) for box in gives),
        )


def cells_of(parts: tuple[Part, ...], config: Config, output: int) -> tuple[Cell, ...]:
    """Return the cells of an output, in the order of the parts that give them."""
    place = config.reduction
    if place is None:
        return tuple(
            Cell(part.gives[output], (number,), config.holders(number))
            for number, part in enumerate(parts)
        )
    degree = config.cuts[place][1]
    after = math.prod(d for _, d in config.cuts[place + 1 :])
    cells = []
    for before, last in itertools.product(range(config.parts // (degree * after)), range(after)):
        group = tuple((before * degree + position) * after + last for position in range(degree))
        box = parts[group[0]].gives[output]
        for piece, number in zip(divided(box, degree), group, strict=False):
            cells.append(Cell(piece, group, config.holders(number)))
    return tuple(cells)


def divided(box: Box, parts: int) -> tuple[Box, ...]:
    """Divide a box along its longest axis among so many, or leave it whole if it is too small."""
    if not box:
        return (box,)
    axis = max(range(len(box)), key=lambda axis_: (box[axis_][1] - box[axis_][0], -axis_))
    low, high = box[axis]
    if high - low < parts:
        return (box,)
    ends = [low + (high - low) * part // parts for part in range(parts + 1)]
    return tuple((*box[:axis], pair, *box[axis + 1 :]) for pair in itertools.pairwise(ends))
