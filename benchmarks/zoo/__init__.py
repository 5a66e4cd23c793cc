"""Sixteen architectures with random weights, built from nothing but onnx and numpy.

A second list, of what they leave out, in two sizes, is in second.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx

from .convolutional import inception, mobilenetv3, resnet50, squeezenet
from .feeds import DISTRIBUTIONS, random_feeds
from .modern import convnext, efficientnet, nasnet, resnext50, unet
from .second import SECOND, SIZES, build_second
from .sequence import dlrm, nasrnn, t5
from .transformer import bert, gpt2, llama, vit

__all__ = ["ARCHITECTURES", "DISTRIBUTIONS", "SECOND", "Architecture", "build", "random_feeds"]


@dataclass(frozen=True)
class Architecture:
    """A builder, and the arguments that make its tiny version."""

    builder: Callable[..., onnx.ModelProto]
    tiny: Mapping[str, Any]
    dynamic: Mapping[str, Any] = field(default_factory=lambda: {"batch": "batch"})


_TOKENS = {"batch": "batch", "tokens": "tokens"}
_BLOCKS = {"depth": 2, "width": 32, "heads": 4, "vocabulary": 64, "tokens": 8}

ARCHITECTURES: Mapping[str, Architecture] = {
    "resnet50": Architecture(
        resnet50, {"image": 32, "width": 8, "blocks": (1, 1, 1, 1), "classes": 10}
    ),
    "squeezenet": Architecture(squeezenet, {"image": 64, "width": 8, "classes": 10}),
    "mobilenetv3": Architecture(
        mobilenetv3, {"image": 32, "divide": 4, "rows": (0, 1, 2, 3, 4, 6, 10), "classes": 10}
    ),
    "inception": Architecture(
        inception, {"image": 75, "divide": 8, "blocks": (1, 1, 1), "classes": 10}
    ),
    "bert": Architecture(bert, _BLOCKS, _TOKENS),
    "gpt2": Architecture(gpt2, _BLOCKS, _TOKENS),
    "llama": Architecture(llama, {**_BLOCKS, "groups": 2, "hidden": 88}, _TOKENS),
    "vit": Architecture(
        vit, {"image": 32, "patch": 8, "depth": 2, "width": 32, "heads": 4, "classes": 10}
    ),
    "resnext50": Architecture(
        resnext50, {"image": 32, "width": 16, "groups": 4, "blocks": (1, 1, 1, 1), "classes": 10}
    ),
    "efficientnet": Architecture(
        efficientnet, {"image": 32, "divide": 4, "rows": (0, 1, 2, 4), "classes": 10}
    ),
    "convnext": Architecture(
        convnext, {"image": 32, "width": 8, "blocks": (1, 1, 2, 1), "classes": 10}
    ),
    "unet": Architecture(unet, {"image": 32, "width": 8, "depth": 2}),
    "nasnet": Architecture(nasnet, {"image": 32, "width": 8, "blocks": (1, 1), "classes": 10}),
    "t5": Architecture(t5, {**_BLOCKS, "hidden": 64}, _TOKENS),
    "nasrnn": Architecture(nasrnn, {"steps": 3, "width": 16}),
    "dlrm": Architecture(
        dlrm,
        {"batch": 3, "tables": 4, "rows": 20, "width": 8, "bottom": (16,), "top": (16,)},
    ),
}


def build(
    name: str, *, tiny: bool = False, dynamic: bool = False, **arguments: Any
) -> onnx.ModelProto:
    """Build an architecture by name; further arguments are its builder's (opset, seed, sizes).

    Of the second list, `tiny` is the small one, and no size is free.
    """
    if name in SECOND and not dynamic:
        return build_second(name, SIZES[0] if tiny else SIZES[1], **arguments)
    architecture = ARCHITECTURES[name]
    chosen: dict[str, Any] = dict(architecture.tiny) if tiny else {}
    if dynamic:
        chosen |= architecture.dynamic
    return architecture.builder(**(chosen | arguments))
