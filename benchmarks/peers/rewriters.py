"""Peers that turn an ONNX model into another one; what they give runs under ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import onnx

from .olive import optimize_with_olive


def simplify_with_onnxsim(model: onnx.ModelProto) -> onnx.ModelProto:
    import onnxsim

    simplified, _ = onnxsim.simplify(model)
    return simplified


def slim_with_onnxslim(model: onnx.ModelProto) -> onnx.ModelProto:
    import onnxslim

    return onnxslim.slim(model)


def optimize_with_onnxoptimizer(model: onnx.ModelProto) -> onnx.ModelProto:
    """Run the passes that it calls fusion and elimination, which are its defaults."""
    import onnxoptimizer

    return onnxoptimizer.optimize(model, onnxoptimizer.get_fuse_and_elimination_passes())


def optimize_with_onnxscript(model: onnx.ModelProto) -> onnx.ModelProto:
    import onnxscript.optimizer

    optimized: Any = onnxscript.optimizer.optimize(model)
    return optimized


REWRITERS: Mapping[str, Callable[[onnx.ModelProto], onnx.ModelProto]] = {
    "onnxsim": simplify_with_onnxsim,
    "onnxslim": slim_with_onnxslim,
    "onnxoptimizer": optimize_with_onnxoptimizer,
    "onnxscript": optimize_with_onnxscript,
}
# These measure: they take the model's file and the number of threads.
TUNERS: Mapping[str, Callable[[Path, int], onnx.ModelProto]] = {"olive": optimize_with_olive}
