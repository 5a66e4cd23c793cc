"""Later convolutional architectures as PyTorch modules.

Submodules stand in the order in which the zoo's models hold their weights.
"""

# torch types what a module returns too loosely for strict checking.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..zoo.modern import EFFICIENTNET_ROWS
from .convolutional import unit


class ResNeXtBlock(nn.Module):
    """A bottleneck whose middle convolution has groups."""

    def __init__(self, inputs: int, width: int, groups: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            unit(inputs, width),
            unit(width, width, 3, stride=stride, groups=groups),
            unit(width, width * 2, activation=None),
        )
        self.shortcut = (
            unit(inputs, width * 2, stride=stride, activation=None)
            if stride != 1 or inputs != width * 2
            else nn.Identity()
        )

    def forward(self, value: Tensor) -> Tensor:
        return functional.relu(self.body(value) + self.shortcut(value))


class ResNeXt(nn.Module):
    """ResNeXt-50 32x4d with the default arguments."""

    def __init__(
        self,
        *,
        width: int = 128,
        groups: int = 32,
        blocks: Sequence[int] = (3, 4, 6, 3),
        classes: int = 1000,
    ) -> None:
        super().__init__()
        channels = width // 2
        layers = [unit(3, channels, 7, stride=2), nn.MaxPool2d(3, stride=2, padding=1)]
        for stage, count in enumerate(blocks):
            wide = width << stage
            for block in range(count):
                stride = 2 if stage and not block else 1
                layers.append(ResNeXtBlock(channels, wide, groups, stride))
                channels = wide * 2
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(channels, classes)

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.layers(image))


class SqueezeExcitation(nn.Module):
    """A gate for each channel, computed of the channels' means."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(channels, squeezed, 1)
        self.excite = nn.Conv2d(squeezed, channels, 1)

    def forward(self, value: Tensor) -> Tensor:
        gate = functional.silu(self.squeeze(functional.adaptive_avg_pool2d(value, 1)))
        return torch.sigmoid(self.excite(gate)) * value


class MBConv(nn.Module):
    """EfficientNet's block: expand, depthwise, squeeze and excite, project."""

    def __init__(self, inputs: int, outputs: int, kernel: int, expansion: int, stride: int) -> None:
        super().__init__()
        wide = inputs * expansion
        layers = [unit(inputs, wide, activation=nn.SiLU)] if expansion != 1 else []
        self.body = nn.Sequential(
            *layers,
            unit(wide, wide, kernel, stride=stride, groups=wide, activation=nn.SiLU),
            SqueezeExcitation(wide, max(inputs // 4, 1)),
            unit(wide, outputs, activation=None),
        )
        self.residual = stride == 1 and inputs == outputs

    def forward(self, value: Tensor) -> Tensor:
        result = self.body(value)
        return result + value if self.residual else result


class EfficientNet(nn.Module):
    """EfficientNet-B0 with the default arguments."""

    def __init__(
        self, *, divide: int = 1, rows: Sequence[int] = range(7), classes: int = 1000
    ) -> None:
        super().__init__()
        channels = 32 // divide
        layers: list[nn.Module] = [unit(3, channels, 3, stride=2, activation=nn.SiLU)]
        for row in rows:
            kernel, expansion, outputs, repetitions, first = EFFICIENTNET_ROWS[row]
            for block in range(repetitions):
                stride = 1 if block else first
                layers.append(MBConv(channels, outputs // divide, kernel, expansion, stride))
                channels = outputs // divide
        wide = 1280 // divide
        layers += [unit(channels, wide, activation=nn.SiLU), nn.AdaptiveAvgPool2d(1)]
        self.layers = nn.Sequential(*layers, nn.Flatten())
        self.head = nn.Linear(wide, classes)

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.layers(image))


class LayerNorm2d(nn.LayerNorm):
    """Normalization of [n, c, h, w] over the channels."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Scale(nn.Module):
    """A factor for each channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))

    def forward(self, value: Tensor) -> Tensor:
        return self.weight * value


class ConvNeXtBlock(nn.Module):
    """A depthwise convolution, and a perceptron over channels that lie last."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.perceptron = nn.Sequential(
            nn.LayerNorm(channels, eps=1e-6),
            nn.Linear(channels, channels * 4),
            nn.GELU(),
            nn.Linear(channels * 4, channels),
            Scale(channels),
        )

    def forward(self, value: Tensor) -> Tensor:
        inner = self.perceptron(self.depthwise(value).permute(0, 2, 3, 1))
        return value + inner.permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    """ConvNeXt-tiny with the default arguments."""

    def __init__(
        self, *, width: int = 96, blocks: Sequence[int] = (3, 3, 9, 3), classes: int = 1000
    ) -> None:
        super().__init__()
        layers = [nn.Conv2d(3, width, 4, stride=4), LayerNorm2d(width, eps=1e-6)]
        channels = width
        for stage, count in enumerate(blocks):
            if stage:
                layers.append(LayerNorm2d(channels, eps=1e-6))
                layers.append(nn.Conv2d(channels, channels * 2, 2, stride=2))
                channels *= 2
            layers += [ConvNeXtBlock(channels) for _ in range(count)]
        self.layers = nn.Sequential(*layers)
        self.head = nn.Sequential(nn.LayerNorm(channels, eps=1e-6), nn.Linear(channels, classes))

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.layers(image).mean((2, 3)))


def double_convolution(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(unit(inputs, outputs, 3), unit(outputs, outputs, 3))


class Up(nn.Module):
    """U-Net's step to a finer level: upsample, put what was skipped in front, convolve."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.upsample = nn.ConvTranspose2d(inputs, outputs, 2, stride=2)
        self.body = double_convolution(outputs * 2, outputs)

    def forward(self, value: Tensor, skipped: Tensor) -> Tensor:
        return self.body(torch.cat([skipped, self.upsample(value)], 1))


class UNet(nn.Module):
    """A U-Net, padded and batch-normalized."""

    def __init__(self, *, width: int = 32, depth: int = 4, classes: int = 2) -> None:
        super().__init__()
        widths = [3, *(width << level for level in range(depth + 1))]
        self.down = nn.ModuleList(
            double_convolution(inputs, outputs) for inputs, outputs in itertools.pairwise(widths)
        )
        self.up = nn.ModuleList(
            Up(width << (level + 1), width << level) for level in reversed(range(depth))
        )
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, image: Tensor) -> Tensor:
        first, *others = self.down
        levels = [first(image)]
        for down in others:
            levels.append(down(functional.max_pool2d(levels[-1], 2)))
        value = levels.pop()
        for up in self.up:
            value = up(value, levels.pop())
        return self.head(value)
