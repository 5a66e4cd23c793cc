"""The former name of `tensolog.catalog.onnx.reader`, which documented code imports."""

import warnings

from .onnx.reader import read_model, store_model

__all__ = ["read_model", "store_model"]

warnings.warn(
    f"{__name__} is tensolog.catalog.onnx now: import from there", DeprecationWarning, stacklevel=2
)
