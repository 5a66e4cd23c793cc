"""Architectures of the zoo as PyTorch modules.

Eight are exported to ONNX by either exporter; the others have the weights of the zoo's own models
(counterparts.py).
"""

# torch types what a module returns, and its buffers, too loosely for strict checking.
# mypy: disable-error-code="no-any-return, index, arg-type, union-attr"

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import onnx
import torch
from tensolog.optimizer.graph.torch_modules import quiet
from torch import Tensor, nn

from ..zoo import ARCHITECTURES
from .convolutional import Inception, MobileNetV3, ResNet, SqueezeNet
from .transformer import Bert, Gpt2, Llama, RMSNorm, ViT

__all__ = ["EXPORTERS", "MODULES", "export", "module"]

Exporter = Literal["torchscript", "dynamo"]
EXPORTERS: tuple[Exporter, ...] = ("torchscript", "dynamo")
OPSETS: Mapping[Exporter, int] = {"torchscript": 17, "dynamo": 18}

MODULES: Mapping[str, type[nn.Module]] = {
    "resnet50": ResNet,
    "squeezenet": SqueezeNet,
    "mobilenetv3": MobileNetV3,
    "inception": Inception,
    "bert": Bert,
    "gpt2": Gpt2,
    "llama": Llama,
    "vit": ViT,
}
_IMAGES = {"resnet50": 224, "squeezenet": 224, "mobilenetv3": 224, "inception": 299, "vit": 224}


def module(name: str, *, tiny: bool = False, seed: int = 0) -> nn.Module:
    """Build the module with random weights, in evaluation mode."""
    arguments = dict(ARCHITECTURES[name].tiny) if tiny else {}
    if name in _IMAGES and name != "vit":
        arguments.pop("image", None)  # convolutions take any size
    torch.manual_seed(seed)
    built = MODULES[name](**arguments)
    initialize(built)
    return built.eval()


def initialize(model: nn.Module) -> None:
    """Draw weights that keep activations near unit scale and statistics that are not trivial."""
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        elif isinstance(layer, nn.Linear):
            nn.init.xavier_normal_(layer.weight)
        elif isinstance(layer, nn.Embedding):
            nn.init.normal_(layer.weight, std=0.4)
        elif isinstance(layer, nn.BatchNorm2d):
            nn.init.normal_(layer.running_mean, std=0.2)
            nn.init.uniform_(layer.running_var, 0.6, 1.6)
        if isinstance(layer, (nn.BatchNorm2d, nn.LayerNorm, RMSNorm)):
            nn.init.uniform_(layer.weight, 0.8, 1.2)
        if isinstance(getattr(layer, "bias", None), Tensor):
            nn.init.normal_(layer.bias, std=0.05)
    for layer in model.modules():
        if gain := getattr(layer, "residual_gain", None):
            with torch.no_grad():
                layer.body[-1][1].weight.mul_(gain)


def example(name: str, *, tiny: bool = False, batch: int = 1) -> tuple[Tensor, ...]:
    """Return example inputs of the architecture."""
    sizes: dict[str, Any] = dict(ARCHITECTURES[name].tiny) if tiny else {}
    if name in _IMAGES:
        side = sizes.get("image", _IMAGES[name])
        return (torch.randn(batch, 3, side, side),)
    shape = (batch, sizes.get("tokens", 128))
    ids = torch.randint(0, sizes.get("vocabulary", 8192), shape)
    return (ids, torch.ones_like(ids), torch.zeros_like(ids)) if name == "bert" else (ids,)


def export(
    name: str,
    *,
    exporter: Exporter,
    tiny: bool = False,
    dynamic: bool = False,
    opset: int | None = None,
    seed: int = 0,
) -> onnx.ModelProto:
    """Export the architecture, batch open where `dynamic` (and tokens, in language models)."""
    inputs = example(name, tiny=tiny, batch=2 if dynamic else 1)
    names = _input_names(name)
    axes = {0: "batch"} if name in _IMAGES else {0: "batch", 1: "tokens"}
    options: dict[str, Any] = {
        "input_names": names,
        "output_names": ["logits"] if name != "bert" else ["last_hidden_state", "pooler_output"],
        "opset_version": opset or OPSETS[exporter],
        "dynamo": exporter == "dynamo",
    }
    if dynamic and exporter == "dynamo":
        sizes = {axis: torch.export.Dim(axis_name) for axis, axis_name in axes.items()}
        options["dynamic_shapes"] = tuple(sizes for _ in names)
    elif dynamic:
        options["dynamic_axes"] = dict.fromkeys(names, axes) | {
            key: {0: "batch"} for key in options["output_names"]
        }
    with tempfile.TemporaryDirectory() as folder, quiet():
        path = Path(folder) / "model.onnx"
        torch.onnx.export(module(name, tiny=tiny, seed=seed), inputs, path, **options)
        return onnx.load(path)


def _input_names(name: str) -> list[str]:
    if name in _IMAGES:
        return ["image"]
    return ["input_ids", *(["attention_mask", "token_type_ids"] if name == "bert" else [])]
