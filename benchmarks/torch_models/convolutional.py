"""Convolutional architectures as PyTorch modules."""

# torch types what a module returns, and its buffers, too loosely for strict checking.
# mypy: disable-error-code="no-any-return, index, arg-type, union-attr"

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..zoo.convolutional import MOBILENET_ROWS


def unit(
    inputs: int,
    outputs: int,
    kernel: int | tuple[int, int] = 1,
    *,
    stride: int = 1,
    padding: int | tuple[int, int] | None = None,
    groups: int = 1,
    activation: type[nn.Module] | None = nn.ReLU,
) -> nn.Sequential:
    """Convolution without bias, batch normalization, activation."""
    sizes = (kernel, kernel) if isinstance(kernel, int) else kernel
    if padding is None:
        padding = (sizes[0] // 2, sizes[1] // 2)
    convolution = nn.Conv2d(inputs, outputs, sizes, stride, padding, groups=groups, bias=False)
    return nn.Sequential(
        convolution, nn.BatchNorm2d(outputs), *([activation()] if activation else [])
    )


class Bottleneck(nn.Module):
    """ResNet's bottleneck block; its last normalization has a small gain (see `initialize`)."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * 4
        self.body = nn.Sequential(
            unit(inputs, width),
            unit(width, width, 3, stride=stride),
            unit(width, outputs, activation=None),
        )
        self.residual_gain = 0.3
        self.shortcut = (
            unit(inputs, outputs, stride=stride, activation=None)
            if stride != 1 or inputs != outputs
            else nn.Identity()
        )
        self.relu = nn.ReLU()

    def forward(self, value: Tensor) -> Tensor:
        return self.relu(self.body(value) + self.shortcut(value))


class ResNet(nn.Module):
    """ResNet-50 with the default arguments."""

    def __init__(
        self, *, width: int = 64, blocks: Sequence[int] = (3, 4, 6, 3), classes: int = 1000
    ) -> None:
        super().__init__()
        self.stem = nn.Sequential(unit(3, width, 7, stride=2), nn.MaxPool2d(3, stride=2, padding=1))
        layers: list[nn.Module] = []
        channels = width
        for stage, count in enumerate(blocks):
            for block in range(count):
                stride = 2 if stage and not block else 1
                layers.append(Bottleneck(channels, width << stage, stride))
                channels = (width << stage) * 4
        self.layers = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(channels, classes)

    def forward(self, value: Tensor) -> Tensor:
        value = self.pool(self.layers(self.stem(value)))
        return self.head(torch.flatten(value, 1))


class Fire(nn.Module):
    """SqueezeNet's fire module."""

    def __init__(self, inputs: int, squeezed: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeezed, 1)
        self.expand1 = nn.Conv2d(squeezed, squeezed * 4, 1)
        self.expand3 = nn.Conv2d(squeezed, squeezed * 4, 3, padding=1)

    def forward(self, value: Tensor) -> Tensor:
        value = torch.relu(self.squeeze(value))
        return torch.cat([torch.relu(self.expand1(value)), torch.relu(self.expand3(value))], 1)


class SqueezeNet(nn.Module):
    """SqueezeNet 1.1."""

    def __init__(self, *, width: int = 64, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(3, width, 3, stride=2), nn.ReLU()]
        channels = width
        for index, squeezed in enumerate((16, 16, 32, 32, 48, 48, 64, 64)):
            if index in (0, 2, 4):
                layers.append(nn.MaxPool2d(3, stride=2))
            layers.append(Fire(channels, squeezed * width // 64))
            channels = squeezed * width // 64 * 8
        head = [nn.Dropout(), nn.Conv2d(channels, classes, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1)]
        self.layers = nn.Sequential(*layers, *head)

    def forward(self, value: Tensor) -> Tensor:
        return torch.flatten(self.layers(value), 1)


class SqueezeAndExcite(nn.Module):
    """A gate for each channel, from the channel means."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        squeezed = max(channels // 4, 1)
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, squeezed, 1),
            nn.ReLU(),
            nn.Conv2d(squeezed, channels, 1),
            nn.Hardsigmoid(),
        )

    def forward(self, value: Tensor) -> Tensor:
        return self.gate(value) * value


class InvertedResidual(nn.Module):
    """MobileNetV3's block: expand, depthwise, gate, project."""

    def __init__(self, channels: int, row: int, divide: int) -> None:
        super().__init__()
        kernel, expanded, outputs, squeeze, activation, stride = MOBILENET_ROWS[row]
        kind = nn.ReLU if activation == "relu" else nn.Hardswish
        wide, outputs = expanded // divide, outputs // divide
        layers: list[nn.Module] = []
        if wide != channels:
            layers.append(unit(channels, wide, activation=kind))
        layers.append(unit(wide, wide, kernel, stride=stride, groups=wide, activation=kind))
        if squeeze:
            layers.append(SqueezeAndExcite(wide))
        layers.append(unit(wide, outputs, activation=None))
        self.body = nn.Sequential(*layers)
        self.residual = stride == 1 and channels == outputs
        self.outputs = outputs

    def forward(self, value: Tensor) -> Tensor:
        result = self.body(value)
        return result + value if self.residual else result


class MobileNetV3(nn.Module):
    """MobileNetV3-Large with the default arguments."""

    def __init__(
        self, *, divide: int = 1, rows: Sequence[int] = range(15), classes: int = 1000
    ) -> None:
        super().__init__()
        channels = 16 // divide
        layers: list[nn.Module] = [unit(3, channels, 3, stride=2, activation=nn.Hardswish)]
        for row in rows:
            block = InvertedResidual(channels, row, divide)
            channels = block.outputs
            layers.append(block)
        layers.append(unit(channels, 960 // divide, activation=nn.Hardswish))
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Sequential(
            nn.Linear(960 // divide, 1280 // divide),
            nn.Hardswish(),
            nn.Dropout(),
            nn.Linear(1280 // divide, classes),
        )

    def forward(self, value: Tensor) -> Tensor:
        return self.head(self.layers(value))


class Mixed(nn.Module):
    """Inception's four parallel branches, one with its kernel factored."""

    def __init__(self, inputs: int, width: int, kernel: int) -> None:
        super().__init__()
        narrow = (width * 2 // 3 + 15) // 16 * 16  # whole blocks of channels, as real widths are
        self.single = unit(inputs, width)
        self.factored = nn.Sequential(
            unit(inputs, narrow),
            unit(narrow, narrow, (1, kernel)),
            unit(narrow, width, (kernel, 1)),
        )
        self.doubled = nn.Sequential(
            unit(inputs, narrow), unit(narrow, width, 3), unit(width, width, 3)
        )
        self.pooled = nn.Sequential(nn.AvgPool2d(3, stride=1, padding=1), unit(inputs, width))

    def forward(self, value: Tensor) -> Tensor:
        branches = (self.single, self.factored, self.doubled, self.pooled)
        return torch.cat([branch(value) for branch in branches], 1)


class Reduction(nn.Module):
    """Inception's strided step between stages."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.strided = unit(inputs, width, 3, stride=2, padding=0)
        self.doubled = nn.Sequential(
            unit(inputs, width // 2), unit(width // 2, width, 3, stride=2, padding=0)
        )
        self.pooled = nn.MaxPool2d(3, stride=2)

    def forward(self, value: Tensor) -> Tensor:
        return torch.cat([self.strided(value), self.doubled(value), self.pooled(value)], 1)


class Inception(nn.Module):
    """An Inception-v3-like network."""

    def __init__(
        self, *, divide: int = 1, blocks: Sequence[int] = (3, 4, 2), classes: int = 1000
    ) -> None:
        super().__init__()
        stem, wide = 32 // divide, 192 // divide
        layers: list[nn.Module] = [
            unit(3, stem, 3, stride=2),
            unit(stem, stem * 2, 3),
            nn.MaxPool2d(3, stride=2),
            unit(stem * 2, wide, 3),
            nn.MaxPool2d(3, stride=2),
        ]
        channels = wide
        for stage, count in enumerate(blocks):
            if stage:
                layers.append(Reduction(channels, wide))
                channels += 2 * wide
            width = wide // (3 - stage)
            for _ in range(count):
                layers.append(Mixed(channels, width, (3, 7, 3)[stage]))
                channels = width * 4
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(channels, classes)

    def forward(self, value: Tensor) -> Tensor:
        return self.head(self.layers(value))
