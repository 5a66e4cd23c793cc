"""Results opened as they were measured."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnxruntime

from .profiles.sessions.deployed import open_deployed


def open_session(
    path: str | os.PathLike[str],
    *,
    options: onnxruntime.SessionOptions | None = None,
    providers: Sequence[str | tuple[str, Mapping[str, object]]] = ("CPUExecutionProvider",),
) -> onnxruntime.InferenceSession:
    """Open a model as its metadata says, and any other model as ONNX Runtime does by itself.

    `path` is what `tensolog optimize -o` or `Optimization.save` was given: a file, or a folder with
    all that belongs to the result. `options` are onnxruntime.SessionOptions of your own, threads
    for instance; what the model asks for is set on them. Threads rest between two runs. Where
    other sessions of the process want its processors, too, they wait for each other busily for
    10 us at most. Entries session.force_spinning_stop and session.intra_op.spin_duration_us of
    `options` stay as they are, and so does a number of threads. Raises
    ModelError where a part of the result is missing or belongs to another one, ExecutionError for
    metadata that can't be used, OSError for a file that can't be read, and what ONNX Runtime
    raises. A model may name libraries of operators: code that runs in this process, so they
    must lie in the model's own folder, and a model from a stranger is to be trusted like a program.
    """
    return open_deployed(Path(path), options, providers)
