"""A deployment: a folder with a model, the setting that it is served by, and why.

`plan.json` says how many instances there are, on what they were measured, and what was chosen
against what; `model/` holds the model and all that belongs to it. The folder can be moved.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import secrets
import shutil
import tempfile
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...catalog.errors import ModelError, TensologError
from ...catalog.files import put_in_place
from ...catalog.onnx.source import open_source
from ...catalog.tensors import model_tensors
from ...profiles.sessions.deployed import AS_A_WHOLE, MODEL, MODEL_FOLDER, model_file
from ...profiles.sessions.execution import embedded
from ..runnable_plan import Partition, RemoteWorkers, Slot
from ..timeline import Timeline
from ..typed_values import read_as
from .settings import Goal, Measured, Setting, measured_from_json, read_limit

if TYPE_CHECKING:
    from ..partitioner import Parted

PLAN = "plan.json"
FORMAT, VERSION = "tensolog.deployment", 1
# Of deployments whose model is divided: others need not know of it. From 3 on with a timeline.
DIVIDED_VERSION = 3
# Of deployments over workers of a cluster.
REMOTE_VERSION = 4
_READ_VERSIONS = (VERSION, 2, DIVIDED_VERSION, REMOTE_VERSION)
# What lies in a folder that may be replaced.
_NAMES = frozenset({PLAN, MODEL_FOLDER})
_HEAD_BYTES = 200  # of plan.json, which says in its first lines what it is


class DeploymentError(TensologError):
    """A folder is no deployment, or can't be written."""


@dataclass(frozen=True)
class BatchAxis:
    """Whether the first axis of all inputs may be of any size, and why not.

    `rows` is its size in one request that was made for measuring: 1 where it is free.
    """

    is_free: bool
    reason: str
    rows: int = 1


@dataclass(frozen=True)
class Deployment:
    """How a model is served on this machine, and what was measured to decide that.

    `model` is its file, relative to the folder. A request waits at most `delay_ms` for others to
    join its batch; `queue` requests may wait, further ones are held back; an instance that has not
    answered after `deadline_s` is replaced. `variant` is "original", "optimized", or
    "rewritten" where the parts of a `partition` are those of a program that rules led to. With a
    `partition` each instance is a group of processes that run parts of the model; these lie beside
    it. `timeline` is what one of them is simulated to do for a request. With `remote` the groups
    are workers of a cluster.
    """

    model: str
    goal: Goal
    limits: tuple[str, ...]
    setting: Setting
    batch: BatchAxis
    delay_ms: float
    queue: int
    deadline_s: float
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    chosen: Measured
    baseline: Measured
    measured: tuple[Measured, ...]
    reasons: tuple[str, ...]
    complete: bool
    variant: str
    machine: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    measuring_s: float = 0.0
    partition: Partition | None = None
    timeline: Timeline | None = None
    remote: RemoteWorkers | None = None
    folder: Path = Path()

    @property
    def model_path(self) -> Path:
        """Return where the model lies."""
        return self.folder / self.model

    @property
    def name(self) -> str:
        """Name the model as its folder is named."""
        return self.folder.resolve().name

    def to_json(self) -> dict[str, Any]:
        """Give plain values, as plan.json holds them."""
        values = {
            "format": FORMAT,
            "version": VERSION,
            **{key: getattr(self, key) for key in _PLAIN},
            "limits": list(self.limits),
            "setting": self.setting.to_json(),
            "batch": asdict(self.batch),
            "inputs": [_slot_json(slot) for slot in self.inputs],
            "outputs": [_slot_json(slot) for slot in self.outputs],
            "chosen": self.chosen.to_json(),
            "baseline": self.baseline.to_json(),
            "measured": [entry.to_json() for entry in self.measured],
            "reasons": list(self.reasons),
        }
        if self.partition is not None:
            values |= {"version": DIVIDED_VERSION, "partition": self.partition.to_json()}
        if self.timeline is not None:
            values["timeline"] = self.timeline.to_json()
        if self.remote is not None:
            values |= {"version": REMOTE_VERSION, "remote": asdict(self.remote)}
        return values

    def write(self, source: Path, target: Path, parted: Parted | None = None) -> Path:
        """Write the folder, whole or not at all, with the model at `source` and its parts.

        An older deployment there is replaced. Raises DeploymentError, ModelError.
        """
        target = check_target(target)
        temporary = target.with_name(f".{target.name[:40]}.{secrets.token_hex(4)}.tmp")
        remove = partial(shutil.rmtree, temporary, ignore_errors=True)
        atexit.register(remove)  # a second interrupt ends the process before the block ends
        try:
            copy_model(source, temporary / MODEL_FOLDER)
            if parted is not None:
                parted.write(temporary / MODEL_FOLDER)
            text = json.dumps(self.to_json(), indent=2)
            (temporary / PLAN).write_text(text + "\n", encoding="utf-8")
            put_in_place(temporary, target)
        except OSError as error:
            raise DeploymentError(f"can't write {target}: {error.strerror or error}") from error
        finally:
            remove()
            atexit.unregister(remove)
        return target


_PLAIN = ("model", "goal", "delay_ms", "queue", "deadline_s", "complete", "variant", "machine",
          "versions", "measuring_s")  # fmt: skip
# For more seconds, or ms, the system does not wait at a time.
_LONGEST_WAIT = 1e6


def read_deployment(path: str | Path) -> Deployment:
    """Read a deployment's folder, or its plan.json; DeploymentError, in one line, for another."""
    folder = Path(path)
    if folder.name == PLAN and folder.is_file():
        folder = folder.parent
    file = folder / PLAN
    if not file.is_file():
        state = "has no" if folder.is_dir() else "is no folder with a"
        raise DeploymentError(f"{folder} {state} {PLAN}: make it with tensolog deploy MODEL -o DIR")
    try:
        values = read_as(dict[str, Any], json.loads(file.read_text(encoding="utf-8")))
        kind, version = values.pop("format", None), values.pop("version", None)
        if kind != FORMAT:
            raise DeploymentError(
                f"{file} is a plan of another kind: {kind!r}; name a folder that deploy wrote"
            )
        if version not in _READ_VERSIONS:
            raise DeploymentError(
                f"{file} is of version {version!r}, and this tensolog reads {REMOTE_VERSION}: "
                "deploy the model again"
            )
        read = replace(_plan_of(values), folder=folder)
        inside = read.model_path.resolve().is_relative_to(folder.resolve())
    except OSError as error:
        raise DeploymentError(f"{file} can't be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise DeploymentError(f"{file} is damaged ({error}): deploy the model again") from error
    if not inside or not read.model_path.is_file():
        raise DeploymentError(
            f"{file} names {read.model!r}, which is missing: move the whole folder"
        )
    for stage in read.partition.stages if read.partition is not None else ():
        model = read.model_path.parent / stage.model
        if model.name != stage.model or not model.is_file():
            raise DeploymentError(
                f"{file} names {stage.model!r}, which is missing: move the whole folder"
            )
    return read


def _plan_of(values: dict[str, Any]) -> Deployment:
    """Read what `to_json` gave; ValueError for a value that no deployment has."""
    for name in ("chosen", "baseline"):
        values[name] = measured_from_json(values.get(name), name)
    values["measured"] = [
        measured_from_json(entry, f"measured[{number}]")
        for number, entry in enumerate(read_as(tuple[Any, ...], values.get("measured"), "measured"))
    ]
    plan = read_as(Deployment, values)
    timed = (plan.chosen, plan.baseline, *plan.measured)
    for setting in (plan.setting, *(entry.setting for entry in timed)):
        if min(setting.instances, setting.threads, setting.batch) < 1:
            raise ValueError(f"{setting} is no setting")
    if min(entry.rows_per_s for entry in timed) <= 0:
        raise ValueError("rows_per_s is not above 0")
    if plan.queue < 1:
        raise ValueError(f"queue is {plan.queue}")
    for name, time in (("delay_ms", plan.delay_ms), ("deadline_s", plan.deadline_s)):
        if not 0 <= time <= _LONGEST_WAIT:
            raise ValueError(f"{name} is {time:g}")
    for text in plan.limits:
        read_limit(text)
    if plan.partition is not None:
        partition = plan.partition
        names = [partition.tensors[number].name for number in partition.inputs]
        named = (set(names), {output.name for output in partition.outputs})
        if named != ({slot.name for slot in plan.inputs}, {slot.name for slot in plan.outputs}):
            raise ValueError("its partition is of another model")
    if plan.remote is not None:
        count = 0 if plan.partition is None else len(plan.partition.devices)
        if len(plan.remote.workers) != plan.setting.instances or any(
            len(values) != count for values in (*plan.remote.workers, plan.remote.needed_bytes)
        ):
            raise ValueError("its remote workers are not one for each device and instance")
    return plan


def check_target(target: Path) -> Path:
    """Return where a deployment goes; DeploymentError where it would replace anything else."""
    target = target.resolve()
    if not target.parent.is_dir():
        raise DeploymentError(f"can't write {target}: {target.parent} is no folder")
    if target.is_dir():
        if other := _not_ours(target):
            raise DeploymentError(
                f"{target} is a folder, and no deployment ({other}): name another one"
            )
    elif target.exists():
        raise DeploymentError(f"{target} is a file: name a folder")
    try:  # before anything is measured: what permissions say is not all that counts
        Path(tempfile.mkdtemp(prefix=".tensolog-", dir=target.parent)).rmdir()
    except OSError as error:
        raise DeploymentError(f"can't write {target}: {error.strerror or error}") from error
    return target


def _not_ours(folder: Path) -> str:
    """Name what a folder holds that deploy did not write; "" where it may be replaced."""
    names = {entry.name for entry in folder.iterdir()}
    if not names:
        return ""
    if names - _NAMES or PLAN not in names:
        return ", ".join(sorted(names - _NAMES)[:3]) or MODEL_FOLDER
    try:
        with (folder / PLAN).open("rb") as file:
            is_marked = json.dumps(FORMAT).encode() in file.read(_HEAD_BYTES)
    except OSError:
        is_marked = False
    if not is_marked:
        return PLAN
    inside = folder / MODEL_FOLDER
    files = {path.relative_to(inside).as_posix() for path in inside.rglob("*") if path.is_file()}
    if others := files - {MODEL}:
        with contextlib.suppress(TensologError, OSError):  # what a damaged model needs nobody knows
            others -= set(files_beside(inside / MODEL))
    return ", ".join(f"{MODEL_FOLDER}/{name}" for name in sorted(others)[:3])


def copy_model(source: Path, folder: Path) -> None:
    """Copy a model, or a result's folder, with all files that it names; ModelError where one lacks.

    The model becomes model.onnx; weights and libraries keep their names, which it knows them by.
    """
    file = model_file(source)
    folder.mkdir(parents=True)
    for name in files_beside(file):
        place = file.parent / name
        if not place.is_file():
            raise ModelError(f"{file} needs {name} beside it, which is missing: {AS_A_WHOLE}")
        target = folder / name
        if not target.resolve().is_relative_to(folder.resolve()) or name == MODEL:
            raise ModelError(f"{file} names {name}, which does not lie beside it under that name")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(place, target)
    shutil.copyfile(file, folder / MODEL)


def files_beside(file: Path) -> list[str]:
    """Name what a model needs beside it: weights, and libraries of operators."""
    with open_source(file) as source:  # says in a line what is no model
        model = source.model  # without large weights
    names = [
        entry.value
        for tensor in model_tensors(model)
        if tensor.data_location == tensor.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    ]
    libraries = [path.as_posix() for path in embedded(model).libraries]
    return list(dict.fromkeys([*names, *libraries]))


def link_files_beside(file: Path, folder: Path) -> None:
    """Put what a model needs beside it into a folder too: by links where the file system has them.

    Models of its parts, written there, name weights as it does.
    """
    folder.mkdir()
    for name in files_beside(file):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        link_or_copy(file.parent / name, target)


def link_or_copy(source: Path, target: Path) -> None:
    """Give a file a second name, or copy it where the file system, or another one, has no links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _slot_json(slot: Slot) -> dict[str, Any]:
    return {"name": slot.name, "dtype": slot.dtype, "shape": list(slot.shape)}
