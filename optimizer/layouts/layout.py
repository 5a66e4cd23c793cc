"""The blocked layout of an image: where its channels lie.

ONNX Runtime's kernels for CPUs read channels in blocks as wide as a vector register ("NCHWc", Liu
et al., Optimizing CNN model inference on CPUs, USENIX ATC 2019). A value of c channels becomes a
tensor of as many channels as whole blocks hold, its bytes in the order (n, block, h, w, channel of
the block); what the last block has too many holds finite numbers that nothing depends on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..match.arrays import Ints


@dataclass(frozen=True)
class Layout:
    """Channels in blocks of `block`; each of the `parts` begins with a block of its own.

    Values that were joined along their channels have a part for each of them that ends within a
    block.
    """

    parts: tuple[int, ...]
    block: int

    @classmethod
    def of(cls, parts: Sequence[int], block: int) -> Layout:
        """The layout of parts side by side; one that ends with a block goes on in the next."""
        merged: list[int] = []
        for part in parts:
            if merged and merged[-1] % block == 0:
                merged[-1] += part
            else:
                merged.append(part)
        return cls(tuple(merged), block)

    @property
    def channels(self) -> int:
        """The channels of the value."""
        return sum(self.parts)

    @property
    def name(self) -> str:
        """How it is called where it is told of."""
        parts = f"{' + '.join(map(str, self.parts))} channels"
        return f"{parts} in blocks of {self.block}"

    @property
    def is_plain(self) -> bool:
        """Whether the channels follow one another without gaps."""
        return len(self.parts) == 1

    @property
    def is_full(self) -> bool:
        """Whether there is nothing beside the value's channels."""
        return self.width == self.channels

    @cached_property
    def width(self) -> int:
        """The channels of the tensor: those of the value, and what fills up the blocks."""
        return sum(-(-part // self.block) * self.block for part in self.parts)

    @cached_property
    def places(self) -> Ints:
        """Channel of the value -> channel of the tensor."""
        channels: list[Ints] = []
        start = 0
        for part in self.parts:
            channels.append(np.arange(start, start + part))
            start += -(-part // self.block) * self.block
        return np.concatenate(channels)

    def cut(self, sizes: Sequence[int]) -> list[Layout] | None:
        """The layouts of so many channels each, one after the other; None unless blocks stay whole.

        `sizes` add up to the channels of the value.
        """
        layouts: list[Layout] = []
        parts = list(self.parts)
        within = 0  # channels taken of the first part that is left
        for size in sizes:
            parts_of_width: list[int] = []
            while size > 0:
                taken = min(size, parts[0] - within)
                if within % self.block or (taken < parts[0] - within and taken % self.block):
                    return None
                parts_of_width.append(taken)
                size -= taken
                within += taken
                if within == parts[0]:
                    parts.pop(0)
                    within = 0
            layouts.append(Layout.of(parts_of_width, self.block))
        return layouts
