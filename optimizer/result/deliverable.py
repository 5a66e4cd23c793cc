"""Results as files: whatever is written is one thing to move, a file or a folder.

A result that needs more than one file, weights that are mapped or a library of operators, is a
folder, whole or not at all. So is every result of a name that doesn't end in .onnx.
"""

from __future__ import annotations

import os
import platform
import secrets
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...catalog import Catalog
from ...catalog.errors import ModelError
from ...catalog.files import put_in_place
from ...catalog.onnx.model_files import has_side_file
from ...catalog.onnx.writer import write_model
from ...profiles.sessions.deployed import MARK, MODEL, NAMES, NOTE
from ...profiles.sessions.execution import DEFAULTS, LEVELS, Execution

SUFFIX = ".onnx"


@dataclass(frozen=True)
class Deliverable:
    """A model of a catalog, and what else a result is made of.

    `outside_bytes` says how large weights are that go to a file of their own, None that all stay
    where they were; `is_portable` asks for one plain file. `source` is the file that the model was
    read from, `weights_files` are those that its large weights lie in: no result may replace them.
    """

    model_id: int
    execution: Execution = DEFAULTS
    libraries: Mapping[str, bytes] | None = None
    outside_bytes: int | None = None
    is_portable: bool = False
    source: Path | None = None
    weights_files: Collection[Path] = ()
    made_by: str = ""

    def write(self, catalog: Catalog, path: str | Path) -> list[Path]:
        """Write a file, or a folder; returns the files.

        Raises ModelError where it can't be written, or what is there is none of tensolog's.
        """
        place = Path(path)
        if self.source is not None and place.is_file() and place.samefile(self.source):
            return self._write_over_source(catalog, place.resolve())
        target = check_place(path)
        external = False if self.is_portable else None
        try:
            needs_folder = bool(self.libraries) or has_side_file(
                catalog, self.model_id, external_data=external, outside_bytes=self.outside_bytes
            )
        except ModelError:  # more than one file can hold
            needs_folder, external = True, None
        self._spare_source(target)
        try:
            if needs_folder or is_folder_name(path):
                return self._write_folder(catalog, target, external)
            return self._write_file(catalog, target, external)
        except OSError as error:
            raise ModelError(f"can't write {target}: {error.strerror or error}") from error

    def _write_over_source(self, catalog: Catalog, target: Path) -> list[Path]:
        """Replace the model that was read, in the form that it has."""
        if self.libraries:
            raise ModelError(
                f"{target} is the model that was read, and a result with native code is a folder: "
                "write to another name, or make a portable result"
            )
        return write_model(catalog, self.model_id, target)

    def _spare_source(self, target: Path) -> None:
        read = [path.resolve() for path in self.weights_files]
        read += [] if self.source is None else [self.source.resolve()]
        place = target.resolve()
        if any(path == place or path.is_relative_to(place) for path in read):
            raise ModelError(f"{target} holds the model that was read: write to another name")

    def _write_file(self, catalog: Catalog, target: Path, external: bool | None) -> list[Path]:
        if not target.is_dir():
            return write_model(catalog, self.model_id, target, external_data=external)
        temporary = _temporary(target)
        try:
            write_model(catalog, self.model_id, temporary, external_data=external)
            put_in_place(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
        return [target]

    def _write_folder(self, catalog: Catalog, target: Path, external: bool | None) -> list[Path]:
        temporary = _temporary(target)
        temporary.mkdir()
        try:
            outside = None if self.is_portable else self.outside_bytes
            written = write_model(
                catalog,
                self.model_id,
                temporary / MODEL,
                external_data=external,
                outside_bytes=outside,
            )
            for name, data in (self.libraries or {}).items():
                written.append(temporary / name)
                written[-1].write_bytes(data)
            written.append(temporary / NOTE)
            written[-1].write_text(self._note(written, target.name), encoding="utf-8")
            put_in_place(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return [target / file.name for file in written]

    def _note(self, files: Collection[Path], name: str) -> str:
        """Say what the folder holds, and how it is opened; it marks the folder as one of ours."""
        descriptions = {
            MODEL: "the model",
            f"{MODEL}.data": "its weights, mapped when it is opened",
        }
        native = f"its operators, native code for {platform.system()} on {platform.machine()}"
        rows = [
            f"  {file.name:16} {descriptions.get(file.name, native)}"
            for file in files
            if file.name != NOTE
        ]
        python, c = [], []
        for library in self.libraries or {}:
            python.append(f'options.register_custom_ops_library("{name}/{library}")')
            c.append(f'RegisterCustomOpsLibrary_V2(options, "{name}/{library}")')
        if self.execution.level != DEFAULTS.level:
            level = LEVELS[self.execution.level].name
            python.append(f"options.graph_optimization_level = GraphOptimizationLevel.{level}")
            c.append(f"SetSessionGraphOptimizationLevel(options, {level})")
        if self.execution.threads:
            python.append(f"options.intra_op_num_threads = {self.execution.threads}")
            c.append(f"SetIntraOpNumThreads(options, {self.execution.threads})")
        for key, value in self.execution.options:
            python.append(f'options.add_session_config_entry("{key}", "{value}")')
            c.append(f'AddSessionConfigEntry(options, "{key}", "{value}")')
        open_in_python = f'session = onnxruntime.InferenceSession("{name}/{MODEL}"'
        if python:
            python.insert(0, "options = onnxruntime.SessionOptions()")
            open_in_python += ", options"
        c.append(f'CreateSession(environment, "{name}/{MODEL}", options, &session)')
        parts = [
            [f"{MARK} {self.made_by}: keep these files together, move the folder as a whole."],
            rows,
            ["Python:", f'  session = tensolog.open_session("{name}")'],
            [
                "Python, by ONNX Runtime alone:",
                *(f"  {x}" for x in (*python, f"{open_in_python})")),
            ],
            ["C, by ONNX Runtime alone:", *(f"  {line}" for line in c)],
        ]
        return "\n\n".join("\n".join(lines) for lines in parts) + "\n"


def is_folder_name(path: str | Path) -> bool:
    """Tell whether a name asks for a folder, whatever the result needs."""
    text = os.fspath(path)
    return text.endswith(("/", os.sep)) or not text.lower().endswith(SUFFIX)


def check_place(path: str | Path) -> Path:
    """Return where a result goes, links followed; ModelError where it would replace another thing.

    What may be replaced is an older file, by a name that ends in .onnx, an empty folder, and a
    folder that is a result itself.
    """
    target = Path(path)
    if target.is_symlink():
        target = Path(os.path.realpath(target))
    if not target.parent.is_dir():
        raise ModelError(f"can't write {target}: {target.parent} is no folder")
    if target.is_dir():
        names = {entry.name for entry in target.iterdir()}
        if names and not _is_ours(target, names):
            other = ", ".join(sorted(names - NAMES)[:3]) or "a model that somebody put there"
            raise ModelError(
                f"{target} is a folder, and no result of tensolog ({other}): name another one, or "
                f"a file in it"
            )
    elif target.exists() and (is_folder_name(path) or not target.is_file()):
        raise ModelError(f"{target} is there and no folder: name another one, or a file NAME.onnx")
    return target


def _is_ours(folder: Path, names: Collection[str]) -> bool:
    if not NAMES.issuperset(names) or NOTE not in names:
        return False
    with (folder / NOTE).open("rb") as file:
        return file.read(len(MARK)) == MARK.encode()


def _temporary(target: Path) -> Path:
    return target.with_name(f".{target.name[:40]}.{secrets.token_hex(4)}.tmp")
