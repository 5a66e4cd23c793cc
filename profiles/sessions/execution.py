"""How a model is opened, where ONNX Runtime's defaults are not the fastest; it travels with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import onnx
import onnxruntime
from google.protobuf.message import DecodeError

from ...catalog.errors import TensologError

# configuration -> ONNX Runtime's graph optimization level
LEVELS = {
    "disabled": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
# A session config entry that names graph transformers to leave out, `;` between them. It goes
# wherever session options go; the `disabled_optimizers` argument exists in Python alone.
LEFT_OUT = "optimization.disable_specified_optimizers"
# In a model's metadata: the whole execution, and what ONNX Runtime itself reads of it where
# the environment has ORT_LOAD_CONFIG_FROM_MODEL=1 (it takes level and threads, no config entries).
METADATA_KEY, RUNTIME_KEY = "tensolog.execution", "ort_config"


class ExecutionError(TensologError, ValueError):
    """A model says of itself how to open it, and what it says can't be used."""


@dataclass(frozen=True)
class Execution:
    """How a session is opened: optimization level, config entries, libraries of operators, threads.

    `level` is a key of LEVELS. `options` are session config entries, (key, value). `libraries` are
    paths of custom-operator libraries; relative ones are looked for beside the model. `threads` is
    how many compute an operator; 0 leaves that to whoever opens it, and so does ONNX Runtime.
    """

    level: str = "all"
    options: tuple[tuple[str, str], ...] = ()
    libraries: tuple[Path, ...] = ()
    threads: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.threads, int) or self.threads < 0:
            raise ExecutionError(f"{self.threads!r} is no number of threads")
        if self.level not in LEVELS:
            raise ExecutionError(f"unknown level {self.level!r}; known: {', '.join(LEVELS)}")
        object.__setattr__(self, "options", tuple((str(k), str(v)) for k, v in self.options))
        object.__setattr__(self, "libraries", tuple(Path(path) for path in self.libraries))

    @property
    def is_default(self) -> bool:
        """Tell whether the runtime opens a model like this by itself."""
        return self == DEFAULTS

    @property
    def left_out(self) -> tuple[str, ...]:
        """Name the graph transformers that are left out."""
        named = dict(self.options).get(LEFT_OUT, "")
        return tuple(name for name in named.split(";") if name)

    def without(self, *transformers: str) -> Execution:
        """Leave out graph transformers too, by the names that ONNX Runtime knows them by."""
        named = ";".join(dict.fromkeys((*self.left_out, *transformers)))
        rest = tuple(entry for entry in self.options if entry[0] != LEFT_OUT)
        return replace(self, options=(*rest, (LEFT_OUT, named)))

    def threads_of(self, threads: int) -> int:
        """Return how many threads compute an operator, where so many are asked for."""
        return self.threads or threads

    def apply(self, options: Any, folder: Path | None = None) -> None:
        """Set everything on ONNX Runtime's session options; `folder` is where the model lies.

        Threads that the options number already stay as many.
        """
        options.graph_optimization_level = LEVELS[self.level]
        if self.threads and not options.intra_op_num_threads:
            options.intra_op_num_threads = self.threads
        for key, value in self.options:
            options.add_session_config_entry(key, value)
        for path in self.libraries:
            # Absolute: a bare name would be looked for where the system keeps its libraries.
            place = path if folder is None else (folder / path).absolute()
            options.register_custom_ops_library(str(place))

    def describe(self) -> str:
        """Say in a few words what differs from the runtime's defaults; "defaults" if nothing."""
        parts = [] if self.level == "all" else [f"level {self.level}"]
        if self.left_out:
            parts.append(f"without {', '.join(self.left_out)}")
        parts += [f"{key}={value}" for key, value in self.options if key != LEFT_OUT]
        parts += [f"with {path.name}" for path in self.libraries]
        if self.threads:
            parts.append(f"{self.threads} thread{'s' if self.threads > 1 else ''}")
        return ", ".join(parts) or "defaults"

    def to_json(self) -> dict[str, Any]:
        """Give plain values; `of_json` reads them."""
        return {
            "level": self.level,
            "options": dict(self.options),
            "libraries": [path.as_posix() for path in self.libraries],
            "threads": self.threads,
        }

    @staticmethod
    def of_json(values: dict[str, Any]) -> Execution:
        """Read what `to_json` gave; ExecutionError where it did not."""
        try:
            return Execution(
                values["level"],
                tuple(values["options"].items()),
                tuple(map(Path, values["libraries"])),
                values.get("threads", 0),  # what was written before there were such
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ExecutionError(f"no way to open a model: {values!r}") from error


DEFAULTS = Execution()
# Opened so, a model runs as it is written.
AS_WRITTEN = Execution("disabled")


def embed(model: onnx.ModelProto, execution: Execution) -> None:
    """Write into a model's metadata how it is to be opened; nothing for the defaults.

    What it said before is replaced; an `ort_config` that somebody else wrote stays.
    """
    try:
        ours = _metadata(embedded(model))
    except ExecutionError:
        ours = []
    kept = [
        entry
        for entry in model.metadata_props
        if entry.key != METADATA_KEY and (entry.key, entry.value) not in ours
    ]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    taken = {entry.key for entry in kept}
    for key, value in _metadata(execution):
        if key not in taken:
            model.metadata_props.add(key=key, value=value)


def _metadata(execution: Execution) -> list[tuple[str, str]]:
    if execution.is_default:
        return []
    level = {"disabled": 0, "basic": 1, "extended": 2, "all": 99}[execution.level]
    runtime = {"graph_optimization_level": level}
    if execution.threads:
        runtime["intra_op_num_threads"] = execution.threads
    return [
        (METADATA_KEY, json.dumps(execution.to_json())),
        (RUNTIME_KEY, json.dumps({"session_options": runtime})),
    ]


def embedded(source: onnx.ModelProto | Path | str | bytes) -> Execution:
    """Read how a model says it is to be opened; the defaults where it says nothing.

    Of a file only the outermost fields are read, not its graph. Raises OSError, ExecutionError.
    """
    if isinstance(source, onnx.ModelProto):
        entries = list(source.metadata_props)
    else:
        with BytesIO(source) if isinstance(source, bytes) else Path(source).open("rb") as file:
            entries = list(_entries(file))
    for entry in entries:
        if entry.key == METADATA_KEY:
            try:
                return Execution.of_json(json.loads(entry.value))
            except json.JSONDecodeError as error:
                raise ExecutionError(f"{METADATA_KEY} is not JSON: {entry.value!r}") from error
    return DEFAULTS


# ModelProto.metadata_props, and protobuf's wire types
_FIELD = onnx.ModelProto.DESCRIPTOR.fields_by_name["metadata_props"].number
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def _entries(file: BinaryIO) -> Iterator[onnx.StringStringEntryProto]:
    """Walk over a serialized ModelProto's outermost fields, skipping all but the metadata.

    What is no protobuf ends the walk: opening the model says better what is wrong with it.
    """
    while (tag := _varint(file)) is not None:
        kind = tag & 7
        if kind == _VARINT:
            _varint(file)
        elif kind in (_FIXED64, _FIXED32):
            file.seek(8 if kind == _FIXED64 else 4, 1)
        elif kind == _BYTES:
            length = _varint(file)
            if length is None:
                return
            if tag >> 3 != _FIELD:
                file.seek(length, 1)
                continue
            try:
                yield onnx.StringStringEntryProto.FromString(file.read(length))
            except DecodeError:
                return
        else:
            return


def _varint(file: BinaryIO) -> int | None:
    """Read a number in protobuf's encoding; None at the end of the file."""
    value = 0
    for shift in range(0, 64, 7):
        byte = file.read(1)
        if not byte:
            return None
        value |= (byte[0] & 127) << shift
        if byte[0] < 128:
            return value
    return None
