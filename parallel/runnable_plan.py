"""A plan as it runs: stages of devices, and where the tensors between them lie.

partitioner.py makes one of a plan; serving/worker_group.py runs it. Loads nothing heavy: each
worker reads it.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

CALLER = -1  # owns what the model is given


@dataclass(frozen=True)
class Slot:
    """An input or output of a model: name, dtype as numpy names it, and sizes, free ones by name.

    `dtype` is "" for what is no tensor of a type that numpy has.
    """

    name: str
    dtype: str
    shape: tuple[int | str | None, ...]

    def __post_init__(self) -> None:
        """Raise ValueError for a type that no tensor has here."""
        if self.dtype and self.dtype not in _DTYPES.values():
            raise ValueError(f"{self.name!r} has the type {self.dtype!r}")


_DTYPES = {
    "float": "float32", "double": "float64", "float16": "float16", "bool": "bool",
    "string": "object",
    **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip


def dtype_of(type_: str) -> str:
    """Translate the runtime's name of a tensor type to numpy's; "" where numpy has none."""
    inside = type_.removeprefix("tensor(").removesuffix(")")
    return _DTYPES.get(inside, "") if type_.startswith("tensor(") else ""


@dataclass(frozen=True)
class Tensor:
    """What one stage gives, or the caller: its place in the memory of the device that owns it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    owner: int
    offset: int

    @property
    def size_bytes(self) -> int:
        """Bytes of all elements."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Stage:
    """A model that a device runs once the stages `after` are done, and the caller if CALLER is.

    `reads` and `gives` are numbers of tensors, in the order of the model's inputs and outputs;
    `operators` says what is computed.
    """

    device: int
    model: str
    reads: tuple[int, ...]
    gives: tuple[int, ...]
    after: tuple[int, ...]
    operators: str = ""


@dataclass(frozen=True)
class Piece:
    """A part of an output of the model: a tensor, and where in the output it begins."""

    tensor: int
    begin: tuple[int, ...]


@dataclass(frozen=True)
class Output:
    """An output of the model, and the pieces that it lies in."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Partition:
    """A plan's stages, in an order in which they could run, and the tensors between them.

    `inputs` are numbers of the tensors that the caller gives, `outputs` those of the whole model.
    `slot_bytes` is what the tensors of one request take in the caller's memory, then by device.
    `name` says what kind of plan it is; `devices` are those that have something to do, with their
    threads and the memory that each may have of its own (0: all there is).
    """

    name: str
    devices: tuple[str, ...]
    threads: tuple[int, ...]
    memory_bytes: tuple[int, ...]
    stages: tuple[Stage, ...]
    tensors: tuple[Tensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[Output, ...]
    slot_bytes: tuple[int, ...]

    @property
    def slots(self) -> int:
        """Say how many requests may be under way: for each device one that runs and the next."""
        return 2 * len({stage.device for stage in self.stages}) or 1

    def is_like(self, other: Partition) -> bool:
        """Tell whether another is the same on devices of other names."""
        return replace(self, devices=other.devices) == other

    @property
    def reported(self) -> frozenset[int]:
        """Give the stages that a request waits for: those that give outputs of the model."""
        ends = {piece.tensor for output in self.outputs for piece in output.pieces}
        return frozenset(n for n, stage in enumerate(self.stages) if ends & set(stage.gives))

    def place(self, tensor: int, slot: int) -> tuple[str, tuple[int, ...], int]:
        """Return the dtype, shape and offset of a tensor of the request in a slot."""
        entry = self.tensors[tensor]
        begin = slot * self.slot_bytes[entry.owner + 1]
        return np.dtype(entry.dtype).str, entry.shape, begin + entry.offset

    def to_json(self) -> dict[str, Any]:
        """Give plain values, which `read_as` reads."""
        return asdict(self)

    def __post_init__(self) -> None:
        """Raise ValueError where numbers name what is not there."""
        tensors, stages, devices = len(self.tensors), len(self.stages), len(self.devices)
        pieces = [piece.tensor for output in self.outputs for piece in output.pieces]
        for stage in self.stages:
            pieces += [*stage.reads, *stage.gives]
            _check(stage.device, devices, "a device")
            for number in stage.after:
                _check(number, stages, "a stage", least=CALLER)
        for number in (*pieces, *self.inputs):
            _check(number, tensors, "a tensor")
        for tensor in self.tensors:
            _check(tensor.owner, devices, "a device", least=CALLER)
        if not len(self.threads) == len(self.memory_bytes) == devices == len(self.slot_bytes) - 1:
            raise ValueError("devices and what they have differ in number")


@dataclass(frozen=True)
class PlannedWorker:
    """The worker of a cluster that a device stands for: its name, and its address then."""

    name: str
    address: str

    @property
    def host(self) -> str:
        """Return the name or number of its machine in the network."""
        return self.address.partition("://")[2].rpartition(":")[0]


@dataclass(frozen=True)
class RemoteWorkers:
    """The cluster that a partition runs on: the scheduler's address, and workers.

    `workers` are by instance and device of the partition; `needed_bytes` is what the part of each
    device takes at least, on whichever worker.
    """

    scheduler: str
    workers: tuple[tuple[PlannedWorker, ...], ...]
    needed_bytes: tuple[int, ...]


def _check(number: int, count: int, noun: str, least: int = 0) -> None:
    if not least <= number < count:
        raise ValueError(f"the partition names {noun} that there is not: {number}")
