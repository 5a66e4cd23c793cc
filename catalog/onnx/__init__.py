"""ONNX models as rows of the catalog, without loss, and rows as ONNX models.

In: a file, bytes or a message (`source.py`), checked (`validation.py`) and stored (`reader.py`).
Out: equal models, small messages with large tensors beside them (`writer.py`, `model_files.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_imports import lazily

if TYPE_CHECKING:
    from .reader import read_model, store_model
    from .writer import build_model, skeleton_model, write_model

__all__ = ["build_model", "read_model", "skeleton_model", "store_model", "write_model"]

# They load onnx, which functions that are fused don't need.
__getattr__, __dir__ = lazily(
    __name__,
    {
        "build_model": ".writer",
        "read_model": ".reader",
        "skeleton_model": ".writer",
        "store_model": ".reader",
        "write_model": ".writer",
    },
)
