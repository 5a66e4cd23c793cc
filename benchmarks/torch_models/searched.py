"""A network of NASNet-A cells as a PyTorch module.

Submodules stand in the order in which the zoo's model holds its weights.
"""

# torch types what a module returns too loosely for strict checking.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from .convolutional import unit


class Fit(nn.Sequential):
    """What brings a cell's input to its width."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(nn.ReLU(), unit(inputs, outputs, activation=None))


class Separable(nn.Sequential):
    """Two depthwise-separable convolutions, each after an activation."""

    def __init__(self, width: int, kernel: int, *, stride: int = 1) -> None:
        layers: list[nn.Module] = []
        for step in (stride, 1):
            convolution = nn.Conv2d(
                width, width, kernel, step, kernel // 2, groups=width, bias=False
            )
            layers += [nn.ReLU(), convolution, unit(width, width, activation=None)]
        super().__init__(*layers)


def average(value: Tensor, stride: int = 1) -> Tensor:
    return functional.avg_pool2d(value, 3, stride, 1)


def largest(value: Tensor) -> Tensor:
    return functional.max_pool2d(value, 3, 2, 1)


class NormalCell(nn.Module):
    """Five sums of two branches each, and the cell's first input."""

    def __init__(self, before: int, inputs: int, width: int) -> None:
        super().__init__()
        self.fit_before, self.fit = Fit(before, width), Fit(inputs, width)
        self.first = Separable(width, 3)
        self.second, self.second_beside = Separable(width, 3), Separable(width, 5)
        self.fifth, self.fifth_beside = Separable(width, 5), Separable(width, 3)

    def forward(self, before: Tensor, value: Tensor) -> Tensor:
        before, value = self.fit_before(before), self.fit(value)
        parts = [
            self.first(value) + value,
            self.second(before) + self.second_beside(value),
            average(value) + before,
            average(before) + average(before),
            self.fifth(before) + self.fifth_beside(before),
        ]
        return torch.cat([before, *parts], 1)


class ReductionCell(nn.Module):
    """Five sums of two branches each, at half of the resolution."""

    def __init__(self, before: int, inputs: int, width: int) -> None:
        super().__init__()
        self.fit_before, self.fit = Fit(before, width), Fit(inputs, width)
        self.first = Separable(width, 5, stride=2)
        self.first_beside = Separable(width, 7, stride=2)
        self.second = Separable(width, 7, stride=2)
        self.third = Separable(width, 5, stride=2)
        self.fifth = Separable(width, 3)

    def forward(self, before: Tensor, value: Tensor) -> Tensor:
        before, value = self.fit_before(before), self.fit(value)
        first = self.first(value) + self.first_beside(before)
        second = largest(value) + self.second(before)
        third = average(value, 2) + self.third(before)
        fourth = average(first) + second
        fifth = self.fifth(first) + largest(value)
        return torch.cat([second, third, fourth, fifth], 1)


class NasNet(nn.Module):
    """A network of NASNet-A cells with the default arguments."""

    def __init__(
        self, *, width: int = 44, blocks: Sequence[int] = (4, 4, 4), classes: int = 1000
    ) -> None:
        super().__init__()
        self.stem = unit(3, width, 3, stride=2)
        self.cells = nn.ModuleList()
        before, channels = width, width
        for stage, count in enumerate(blocks):
            wide = width << stage
            if stage:
                self.cells.append(ReductionCell(before, channels, wide))
                before, channels = channels, wide * 4
            for _ in range(count):
                self.cells.append(NormalCell(before, channels, wide))
                before, channels = channels, wide * 6
        self.head = nn.Linear(channels, classes)

    def forward(self, image: Tensor) -> Tensor:
        before = value = largest(self.stem(image))
        for cell in self.cells:
            before, value = value, cell(before, value)
            if isinstance(cell, ReductionCell):  # what came before is twice as large
                before = largest(before)
        return self.head(functional.relu(value).mean((2, 3)))
