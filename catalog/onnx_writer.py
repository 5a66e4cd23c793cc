"""The former name of `tensolog.catalog.onnx.writer`, which documented code imports."""

import warnings

from .onnx.writer import build_model, skeleton_model, write_model

__all__ = ["build_model", "skeleton_model", "write_model"]

warnings.warn(
    f"{__name__} is tensolog.catalog.onnx now: import from there", DeprecationWarning, stacklevel=2
)
