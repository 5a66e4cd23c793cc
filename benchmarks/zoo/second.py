"""A second list of architectures, small and large, which nothing was tuned for at its writing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import onnx

from .convolutional import mobilenetv3, resnet50
from .images import deeplab, detr, diffusion, mixer, srresnet, swin
from .sequence import t5
from .sequences import decoder_step, experts, mamba, recurrent, wav2vec2
from .structures import graph_network, recommender, trees
from .transformer import bert, llama, vit

SIZES = ("small", "large")


@dataclass(frozen=True)
class Sized:
    """A builder, the arguments that make its two sizes, and in what it stores numbers."""

    builder: Callable[..., onnx.ModelProto]
    small: Mapping[str, Any]
    large: Mapping[str, Any] = field(default_factory=dict)
    precision: str = "float32"


_RESNET = {"image": 64, "width": 32, "blocks": (1, 1, 1, 1), "classes": 10}
_TEXT = {"depth": 2, "width": 128, "heads": 4, "vocabulary": 1000, "tokens": 32}
_PATCHES = {"image": 32, "patch": 8, "depth": 2, "width": 128, "heads": 4}
_MIXER = {"image": 64, "depth": 2, "width": 128, "tokens": 64, "channels": 256}
_LARGE_TEXT = {"depth": 4, "vocabulary": 5000}
_STEP = {"past": 16, "heard": 40, "width": 128, "heads": 4, "depth": 2, "vocabulary": 1000}

SECOND: Mapping[str, Sized] = {
    "srresnet": Sized(srresnet, {"image": 24, "width": 32, "blocks": 2}),
    "deeplab": Sized(deeplab, {"image": 64, "width": 32, "blocks": (1, 1, 1)}),
    "mixer": Sized(mixer, _MIXER),
    "swin": Sized(swin, {"image": 56, "depth": 2, "width": 48}),
    "detr": Sized(detr, {"image": 64, "width": 128, "depth": 1, "heads": 4, "queries": 20}),
    "diffusion": Sized(diffusion, {"image": 16, "width": 32}, {"image": 64, "width": 128}),
    "mamba": Sized(mamba, {"tokens": 8, "width": 64}, {"tokens": 64, "width": 256}),
    "gru": Sized(partial(recurrent, kind="GRU"), {"steps": 20, "width": 64}),
    "lstm": Sized(partial(recurrent, kind="LSTM"), {"steps": 20, "width": 64}),
    "wav2vec2": Sized(wav2vec2, {"samples": 4000, "channels": 64, "width": 96, "depth": 1}),
    "decoder_step": Sized(decoder_step, _STEP),
    "experts": Sized(experts, {"tokens": 16, "width": 64, "hidden": 128, "depth": 1}),
    "graph_network": Sized(graph_network, {"points": 100, "edges": 400, "width": 16}),
    "recommender": Sized(recommender, {"batch": 8, "rows": 100, "hidden": 64}),
    "trees": Sized(trees, {"count": 10, "depth": 4}),
    "resnet_qdq": Sized(resnet50, _RESNET, {"width": 32, "image": 160}, "int8"),
    "bert_qdq": Sized(bert, _TEXT, _LARGE_TEXT, "int8"),
    "vit_qdq": Sized(vit, _PATCHES, {"depth": 4}, "int8"),
    "mobilenet_qdq": Sized(mobilenetv3, {"image": 64, "classes": 10}, {}, "int8"),
    "bert_dynamic": Sized(bert, _TEXT, _LARGE_TEXT, "int8 while it runs"),
    "resnet_dynamic": Sized(resnet50, _RESNET, {"width": 32, "image": 160}, "int8 while it runs"),
    "decoder_step_dynamic": Sized(decoder_step, _STEP, {}, "int8 while it runs"),
    "resnet_half": Sized(resnet50, _RESNET, {"width": 32, "image": 160}, "float16"),
    "bert_half": Sized(bert, _TEXT, _LARGE_TEXT, "float16"),
    "llama_half": Sized(
        llama, {**_TEXT, "groups": 2, "hidden": 256}, {"depth": 2, "vocabulary": 5000}, "float16"
    ),
    "t5_half": Sized(t5, {**_TEXT, "hidden": 256}, {"depth": 2, "vocabulary": 5000}, "float16"),
    "diffusion_half": Sized(diffusion, {"image": 16, "width": 32}, {}, "float16"),
    "decoder_step_half": Sized(decoder_step, _STEP, {}, "float16"),
    "mixer_half": Sized(mixer, _MIXER, {"depth": 4}, "float16"),
}


def build_second(name: str, size: str = SIZES[0], seed: int = 0) -> onnx.ModelProto:
    """Build a model of the second list, "small" or "large"."""
    sized = SECOND[name]
    model = sized.builder(**getattr(sized, size), seed=seed)
    if sized.precision == "float32":
        return model
    # Imported here: what quantizes takes a second to load, and float32 models don't need it.
    from .precisions import dynamically_quantized, halved, quantized

    ways = {"float16": halved, "int8": quantized, "int8 while it runs": dynamically_quantized}
    return ways[sized.precision](model)
