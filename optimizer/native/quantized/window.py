"""Windows of images of integers, whose channels come last in kernels: sizes, steps, padding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...codegen.expressions import LoweringError
from ..convolution.blocked import pads_of
from ..embed import channels_last
from ..loops.affine import Extent
from ..loops.kernel_region import Meanings
from .packing import PANEL, padded

# How many products and sums take as long as one of a convolution of each channel by itself.
APART_WORK = 8
# How an image is laid out that has its channels last, where `Meanings.packed` has it.
LAST = "channels last"


@dataclass(frozen=True)
class Window:
    """Sizes of an image, a filter and a result, as quantized.h has them.

    Channels and outputs are divided into `groups`; `is_apart` says that each channel is an output
    by itself, `is_narrow` that a vector of outputs holds those of several groups.
    """

    image: tuple[int, int, int]
    taps: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    steps: tuple[int, int] = (1, 1)
    before: tuple[int, int] = (0, 0)
    result: tuple[int, int] = (0, 1)
    is_padded: bool = False
    groups: int = 1
    is_apart: bool = False
    is_narrow: bool = False

    @property
    def is_whole(self) -> bool:
        """Tell whether the places of a line of a filter lie side by side."""
        return self.groups == 1 and (self.dilations[1] == 1 or self.taps[1] == 1)

    @property
    def depth(self) -> int:
        """Give the numbers that are added up for an output."""
        return self.segments * self.length

    @property
    def copies(self) -> bool:
        """Tell whether lines are copied, as they are multiplied with what lies around them."""
        fills_up = not self.is_apart and not self.is_narrow and self.length % 4 != 0
        return self.is_padded or fills_up

    @property
    def reach(self) -> tuple[int, int]:
        """Give the lines and places that a filter reaches over, dilated."""
        (high, wide), (down, right) = self.taps, self.dilations
        return (high - 1) * down + 1, (wide - 1) * right + 1

    @property
    def segments(self) -> int:
        """Give the pieces of the depth that lie side by side."""
        return self.taps[0] * (1 if self.is_whole else self.taps[1])

    @property
    def length(self) -> int:
        """Give the numbers of such a piece."""
        return self.image[2] // self.groups * (self.taps[1] if self.is_whole else 1)

    def panels(self, outputs: int) -> int:
        """Give the panels of outputs, of which each group begins one, or those side by side."""
        if self.is_apart or self.is_narrow:
            return padded(outputs) // PANEL
        return self.groups * (padded(outputs // self.groups) // PANEL)

    def initializer(self, outputs: int, copies: bool, flip: int) -> str:
        """Return what quantized.h is told, but for the padding.

        `flip` is what unsigned numbers are made of an image with.
        """
        sizes = (*self.image, *self.taps, *self.dilations, *self.steps, *self.before)
        return ", ".join(map(str, (*sizes, *self.result, outputs, self.groups, int(copies), flip)))

    def arranged(self, outputs: int, depth: int, copies: bool) -> tuple[int, ...]:
        """Return what arrange_quantized has to know."""
        (lines, places), (down, right), (tall, wide) = self.result, self.steps, self.reach
        width = (places - 1) * right + wide if copies else self.image[1]
        # what isn't added up along channels takes longer
        work = depth * (APART_WORK if self.is_apart else 1)
        panels = self.panels(outputs)
        arguments = (lines, places, outputs, panels, work, width * self.image[2], down, tall)
        return (*arguments, self.segments + 3 * self.is_apart)


def window_of(
    image: tuple[Extent, ...],
    taps: Sequence[Extent],
    result: tuple[Extent, ...],
    attributes: Mapping[str, object],
) -> Window:
    """Return the window that a convolution or a pool slides over an image of one axis, or of two.

    `image` and `result` have their channels behind the batch, whose size may be free.
    """
    if len(image) not in (3, 4) or not all(isinstance(size, int) for size in (*image[1:], *taps)):
        raise LoweringError("images of more axes, or of sizes that aren't known")
    if any(isinstance(size, str) for size in result[1:]) or 0 in (*image, *result):
        raise LoweringError("results of sizes that aren't known, or of none")
    lists: dict[str, Sequence[int]] = {
        name: value for name, value in attributes.items() if isinstance(value, list | tuple)
    }
    none = (1,) * (len(image) - 2)
    (high, wide), (tall, long), sizes = (
        _lifted(sizes_of) for sizes_of in (image[2:], result[2:], taps)
    )
    steps, dilations = (_lifted(lists.get(name) or none) for name in ("strides", "dilations"))
    padding = dict(attributes)
    if lists.get("pads") and len(image) == 3:
        padding["pads"] = (0, lists["pads"][0], 0, lists["pads"][1])
    before = pads_of(padding, (1, 1, high, wide), (1, 1, tall, long), sizes, steps, dilations)
    ends = [
        (count - 1) * step + (tap - 1) * dilation + 1 - first
        for count, step, tap, dilation, first in zip(
            (tall, long), steps, sizes, dilations, before, strict=True
        )
    ]
    is_padded = any(before) or ends[0] > high or ends[1] > wide
    return Window(
        (high, wide, int(image[1])), sizes, dilations, steps, before, (tall, long), is_padded
    )


def turned(meanings: Meanings, value: int) -> int:
    """Return the value that an image is with its channels last; the same one for all that ask."""
    key = (value, LAST)
    if key not in meanings.packed:
        graph = meanings.graph
        meanings.shape(value)
        last = graph.new_value(f"{graph.names[value]}.last", channels_last(graph.types[value]))
        meanings.packed[key] = last
    return meanings.packed[key]


def _lifted(sizes: Sequence[Extent]) -> tuple[int, int]:
    """Give an image of one axis two, of which the first has one line."""
    first, last = (1, *map(int, sizes))[-2:]
    return first, last
