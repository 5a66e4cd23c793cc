"""Results as they are handed over: one ONNX file, or a folder with all that belongs together.

A folder has the model, its weights, which the runtime maps, and the library of its operators. What
is missing when it is opened is named: a result that was moved in part is the usual reason.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import onnxruntime

from ...catalog.errors import ModelError
from ...catalog.tensors import model_tensors
from ..machine import cores
from .core_sharing import SharingSession, will_cores_be_shared
from .execution import Execution, ExecutionError, embedded
from .session import SPIN_DURATION, STOP_SPINNING

# How the domains of operators begin that come with a result: each library has one of its own.
DOMAIN = "tensolog.kernels."
MODEL = "model.onnx"
MODEL_FOLDER = "model"  # within a deployment
LIBRARY = "kernels.dll" if os.name == "nt" else "kernels.so"
NOTE = "README.txt"
# What a folder of ours may hold: one that holds anything else is never replaced.
NAMES = frozenset({MODEL, f"{MODEL}.data", "kernels.dll", "kernels.so", NOTE})
# About what it takes to wake a thread: who spins so long before it sleeps takes no other session
# longer than that.
_SPIN_US = 10
# How the note begins, by which a folder is known to be a result.
MARK = "A model optimized by tensolog"
AS_A_WHOLE = "a result is moved as a whole: its folder, or the model and what lies beside it"


def model_file(path: Path) -> Path:
    """Return the ONNX file of a result; ModelError where its folder has none."""
    if not path.is_dir():
        return path
    file = path / MODEL
    if not file.is_file():
        inside = path / MODEL_FOLDER
        if (inside / MODEL).is_file():
            raise ModelError(f"{path} is a folder that tensolog deploy wrote: name {inside}")
        raise ModelError(f"{path} is a folder without {MODEL}: {AS_A_WHOLE}")
    return file


def open_deployed(
    path: Path,
    options: onnxruntime.SessionOptions | None = None,
    providers: Sequence[Any] = ("CPUExecutionProvider",),
) -> onnxruntime.InferenceSession:
    """Open a result, or any other model, as its metadata says; see `tensolog.open_session`."""
    file = model_file(path)
    execution = embedded(file)
    options = onnxruntime.SessionOptions() if options is None else options
    folder = file.parent.resolve()
    for library in execution.libraries:
        place = (folder / library).resolve()
        if not place.is_relative_to(folder):
            raise ExecutionError(f"{file} asks for a library outside of its folder: {library}")
        if not place.is_file():
            raise ModelError(f"{file} needs {library} beside it, which is missing: {AS_A_WHOLE}")
    try:
        if not execution.is_default:
            _distinct(execution, folder).apply(options, folder)
        _set_unless_given(options, STOP_SPINNING, "1")
        if will_cores_be_shared(options.intra_op_num_threads or cores()):
            spin_briefly(options)
        if list(providers) != ["CPUExecutionProvider"]:
            return onnxruntime.InferenceSession(str(file), options, providers=list(providers))
        # What this provider refuses it would refuse again, after lines on standard output.
        return SharingSession(str(file), options, providers=list(providers), enable_fallback=0)
    except Exception as error:
        problem = next(_problems(file, execution, folder), "")
        if not problem:
            raise
        raise ModelError(f"{file} can't be opened: {problem}") from error


def spin_briefly(options: onnxruntime.SessionOptions) -> None:
    """Let threads sleep that have waited for others in a run for a moment, unless told otherwise.

    By default they spin, and take the processors from other sessions: of two with two threads each
    on two cores either took 2.4 times as long as alone. With 10 us it is 1.7 times, and 2.2 and 1.3
    where only the second one does it. Alone, though, a session is slower that way: a large one by
    8 %, and one of 0.07 ms by half, whose threads are woken several times in a run.
    """
    _set_unless_given(options, SPIN_DURATION, str(_SPIN_US))


def _set_unless_given(options: onnxruntime.SessionOptions, entry: str, value: str) -> None:
    try:
        options.get_session_config_entry(entry)
    except RuntimeError:  # nobody has set it
        options.add_session_config_entry(entry, value)


# Libraries that this process has opened: for each path the files that were there.
_opened: dict[Path, list[tuple[int, int, int]]] = {}


def _distinct(execution: Execution, folder: Path) -> Execution:
    """Spell the paths of libraries so that one that replaced another is not taken for that.

    The system's loader knows what is loaded by the spelling of its path, and sessions may still
    have open what lay there before.
    """
    spelled = []
    for library in execution.libraries:
        state = (folder / library).stat()
        files = _opened.setdefault(folder / library, [])
        file = (state.st_dev, state.st_ino, state.st_mtime_ns)
        if file not in files:
            files.append(file)
        detours = ["..", folder.name] * files.index(file)
        spelled.append(Path(*detours, library))
    return replace(execution, libraries=tuple(spelled))


def _problems(file: Path, execution: Execution, folder: Path) -> Iterator[str]:
    """Say what is missing, or doesn't belong together, where a model could not be opened."""
    try:
        model = onnx.load(str(file), load_external_data=False)
    except Exception:  # what is wrong with the model itself the runtime says
        return
    yield from _data_problems(model, folder)
    domains = [e.domain for e in model.opset_import if e.domain.startswith(DOMAIN)]
    for library in execution.libraries:
        content = (folder / library).read_bytes()
        if any(domain.encode() not in content for domain in domains):
            yield f"{library} is not the library that it was written with: {AS_A_WHOLE}"
        try:
            ctypes.CDLL(str(folder / library))
        except OSError as error:
            yield (
                f"{library} can't be loaded here ({error}): native code runs on the kind of system "
                "that it was made on; optimize the original here, or make a portable result"
            )


def _data_problems(model: onnx.ModelProto, folder: Path) -> Iterator[str]:
    ends: dict[str, int] = {}
    for tensor in model_tensors(model):
        place = {entry.key: entry.value for entry in tensor.external_data}
        if tensor.data_location == tensor.EXTERNAL and "location" in place:
            end = int(place.get("offset", 0)) + int(place.get("length", 0))
            ends[place["location"]] = max(end, ends.get(place["location"], 0))
    for name, end in ends.items():
        if not (folder / name).is_file():
            yield f"it needs {name} beside it, which is missing: {AS_A_WHOLE}"
        elif (folder / name).stat().st_size < end:
            yield f"{name} is shorter than it says: not all of it is there"
