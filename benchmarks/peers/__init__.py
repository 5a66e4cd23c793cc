"""Other optimizers on the same models: who they are, and whether they are installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping

REFERENCE = "onnxruntime"

# name in the table -> the package that it needs; None where ONNX Runtime alone is enough
PEERS: Mapping[str, str | None] = {
    REFERENCE: None,
    "onnxruntime extended": None,
    "onnxruntime basic": None,
    "onnxruntime disabled": None,
    "onnxsim": "onnxsim",
    "onnxslim": "onnxslim",
    "onnxoptimizer": "onnxoptimizer",
    "onnxscript": "onnxscript",
    "olive": "olive",
    "openvino": "openvino",
    "torch.compile": "torch",
    "tensolog": None,
    "tensolog+kernels": None,
}
# Those of them that are tensolog's results, and the target that each is made for.
TARGETS = {"tensolog": "onnxruntime-cpu", "tensolog+kernels": "onnxruntime-cpu+kernels"}


def installed() -> list[str]:
    """Name the peers that can take part here."""
    return [
        name
        for name, package in PEERS.items()
        if package is None or importlib.util.find_spec(package) is not None
    ]


# Architectures in the order in which they are worth their time: first those on which other
# optimizers were seen far ahead of ONNX Runtime or behind it, one of each kind, then the rest.
WORTH = (
    "bert",
    "convnext",
    "dlrm",
    "nasrnn",
    "nasnet",
    "llama",
    "unet",
    "resnext50",
    "gpt2",
    "t5",
    "resnet50",
    "vit",
    "efficientnet",
    "mobilenetv3",
    "inception",
    "squeezenet",
)
