"""Results opened as they were measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnxruntime

from .profiles.execution import ExecutionError, embedded


def open_session(
    path: str | Path,
    *,
    options: Any = None,
    providers: Sequence[Any] = ("CPUExecutionProvider",),
) -> Any:
    """Open a model as its metadata says, and any other model as ONNX Runtime does by itself.

    `options` are onnxruntime.SessionOptions of your own, threads for instance; what the model asks
    for is set on them, nothing where it asks for nothing. Returns an onnxruntime.InferenceSession.
    Raises ExecutionError for metadata that can't be used, OSError for a file that can't be read,
    and what ONNX Runtime raises. A model may name libraries of operators: code that runs in this
    process, so they must lie in the model's own folder, and a model from a stranger is to be
    trusted like a program.
    """
    path = Path(path)
    execution = embedded(path)
    options = onnxruntime.SessionOptions() if options is None else options
    folder = path.parent.resolve()
    for library in execution.libraries:
        if not (folder / library).resolve().is_relative_to(folder):
            raise ExecutionError(f"{path} asks for a library outside of its folder: {library}")
    if not execution.is_default:
        execution.apply(options, folder)
    return onnxruntime.InferenceSession(str(path), options, providers=list(providers))
