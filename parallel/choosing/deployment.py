"""A deployment: a folder with a model, the setting that it is served by, and why.

`plan.json` says how many instances there are, on what they were measured, and what was chosen
against what; `model/` holds the model and all that belongs to it. The folder can be moved.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import onnx

from ...catalog.errors import ModelError, TensologError
from ...catalog.files import put_in_place
from ...catalog.onnx.source import open_source
from ...catalog.tensors import model_tensors
from ...profiles.sessions.deployed import AS_A_WHOLE, MODEL, model_file
from ...profiles.sessions.execution import embedded
from ..serving.instance import Slot
from .batches import BatchAxis
from .settings import Goal, Measured, Setting, measured_from_json

PLAN, MODEL_FOLDER = "plan.json", "model"
FORMAT, VERSION = "tensolog.deployment", 1
# What lies in a folder that may be replaced.
_NAMES = frozenset({PLAN, MODEL_FOLDER})


class DeploymentError(TensologError):
    """A folder is no deployment, or can't be written."""


@dataclass(frozen=True)
class Deployment:
    """How a model is served on this machine, and what was measured to decide that.

    `model` is its file, relative to the folder. A request waits at most `delay_ms` for others to
    join its batch; `queue` requests may wait, further ones are held back; an instance that has not
    answered after `deadline_s` is replaced. `variant` is "original" or "optimized".
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
            "setting": asdict(self.setting),
            "batch": asdict(self.batch),
            "inputs": [_slot_json(slot) for slot in self.inputs],
            "outputs": [_slot_json(slot) for slot in self.outputs],
            "chosen": self.chosen.to_json(),
            "baseline": self.baseline.to_json(),
            "measured": [entry.to_json() for entry in self.measured],
            "reasons": list(self.reasons),
        }
        return values

    def write(self, source: Path, target: Path) -> Path:
        """Write the folder, whole or not at all, with the model that lies at `source`.

        An older deployment there is replaced. Raises DeploymentError, ModelError.
        """
        target = check_target(target)
        made = target.with_name(f".{target.name[:40]}.{secrets.token_hex(4)}.tmp")
        try:
            copy_model(source, made / MODEL_FOLDER)
            text = json.dumps(self.to_json(), indent=2)
            (made / PLAN).write_text(text + "\n", encoding="utf-8")
            put_in_place(made, target)
        except OSError as error:
            raise DeploymentError(f"can't write {target}: {error.strerror or error}") from error
        finally:
            shutil.rmtree(made, ignore_errors=True)
        return target


_PLAIN = ("model", "goal", "delay_ms", "queue", "deadline_s", "complete", "variant", "machine",
          "versions", "measuring_s")  # fmt: skip


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
        values = json.loads(file.read_text(encoding="utf-8"))
        if values["format"] != FORMAT:
            raise DeploymentError(f"{file} is a plan of another kind: {values['format']!r}")
        if values["version"] != VERSION:
            raise DeploymentError(
                f"{file} is of version {values['version']}, and this tensolog reads {VERSION}"
            )
        read = Deployment(
            **{key: values[key] for key in _PLAIN},
            limits=tuple(values["limits"]),
            setting=Setting(**values["setting"]),
            batch=BatchAxis(**values["batch"]),
            inputs=tuple(_slot(entry) for entry in values["inputs"]),
            outputs=tuple(_slot(entry) for entry in values["outputs"]),
            chosen=measured_from_json(values["chosen"]),
            baseline=measured_from_json(values["baseline"]),
            measured=tuple(map(measured_from_json, values["measured"])),
            reasons=tuple(values["reasons"]),
            folder=folder,
        )
    except (OSError, UnicodeDecodeError) as error:
        raise DeploymentError(f"{file} can't be read: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DeploymentError(f"{file} is damaged ({error}): deploy the model again") from error
    _check(read, file)
    return read


def _check(plan: Deployment, file: Path) -> None:
    setting = plan.setting
    counts = (setting.instances, setting.threads, setting.batch, plan.queue)
    times = (plan.delay_ms, plan.deadline_s)
    sound = all(isinstance(count, int) and count >= 1 for count in counts)
    if not sound or not all(isinstance(time, int | float) and time >= 0 for time in times):
        raise DeploymentError(f"{file} is damaged ({setting}): deploy the model again")
    inside = plan.model_path.resolve().is_relative_to(plan.folder.resolve())
    if not inside or not plan.model_path.is_file():
        raise DeploymentError(f"{file} names {plan.model}, which is missing: move the whole folder")


def is_deployment(path: Path) -> bool:
    """Tell whether a path is a deployment's folder, by what lies in it."""
    return path.is_dir() and (path / PLAN).is_file()


def check_target(target: Path) -> Path:
    """Return where a deployment goes; DeploymentError where it would replace anything else."""
    target = target.resolve()
    if not target.parent.is_dir():
        raise DeploymentError(f"can't write {target}: {target.parent} is no folder")
    if target.is_dir():
        names = {entry.name for entry in target.iterdir()}
        if names and not (names <= _NAMES and PLAN in names):
            other = ", ".join(sorted(names - _NAMES)[:3]) or MODEL_FOLDER
            raise DeploymentError(
                f"{target} is a folder, and no deployment ({other}): name another one"
            )
    elif target.exists():
        raise DeploymentError(f"{target} is a file: name a folder")
    return target


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
        del source
    model = onnx.load(str(file), load_external_data=False)
    names = [
        entry.value
        for tensor in model_tensors(model)
        if tensor.data_location == tensor.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    ]
    libraries = [path.as_posix() for path in embedded(model).libraries]
    return list(dict.fromkeys([*names, *libraries]))


def _slot_json(slot: Slot) -> dict[str, Any]:
    return {"name": slot.name, "dtype": slot.dtype, "shape": list(slot.shape)}


def _slot(values: Mapping[str, Any]) -> Slot:
    return Slot(values["name"], values["dtype"], tuple(values["shape"]))
