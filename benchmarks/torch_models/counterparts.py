"""Modules that compute what models of the zoo do, with the weights of these.

They are written as users of PyTorch write them. A library could make them of the models instead:
onnx2torch (1.5.15) does, but `torch.compile` refuses its Reshape, which T5 and DLRM have,
and normalization and attention stay the nodes that they are spelled out in.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from torch import nn

from ..zoo import ARCHITECTURES
from .modern import ConvNeXt, EfficientNet, ResNeXt, UNet
from .searched import NasNet
from .sequence import DLRM, NasRnn, T5Encoder
from .weights import give_weights

COUNTERPARTS: Mapping[str, type[nn.Module]] = {
    "resnext50": ResNeXt,
    "efficientnet": EfficientNet,
    "convnext": ConvNeXt,
    "unet": UNet,
    "nasnet": NasNet,
    "t5": T5Encoder,
    "nasrnn": NasRnn,
    "dlrm": DLRM,
}
# What a module takes from its inputs.
_GIVEN = frozenset({"batch", "image", "steps", "tokens"})


def counterpart(name: str, model: onnx.ModelProto, *, tiny: bool = False) -> nn.Module:
    """Build the module of a model of the zoo, in evaluation mode; inputs come in the same order."""
    sizes = dict(ARCHITECTURES[name].tiny) if tiny else {}
    built = COUNTERPARTS[name](**{key: size for key, size in sizes.items() if key not in _GIVEN})
    give_weights(built, model)
    return built.eval()
