"""A group of workers on a cluster, seen from the caller: it runs as one on this machine does.

The caller is a site of the group (relays.py); so are the workers (worker_site.py). Once they are
open nothing passes the engine's scheduler any more, and a group outlives it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from ...catalog.errors import ModelError
from ..deployment.deployment import files_beside
from ..runnable_plan import CALLER, Partition, RemoteWorkers
from ..serving.instance import START_S
from ..serving.part_messages import done_message
from ..serving.process import InstanceError
from ..serving.runner_sources import GroupSource
from ..serving.shared_memory import SharedMemory
from ..serving.worker_group import Group
from ..typed_values import read_as
from .connections import (
    Address,
    ConnectionLostError,
    connect,
    exchange_descriptors,
    is_shared,
    new_token,
    receive_message,
    send_file,
    send_message,
    shut,
)
from .dask_engine import Engine, EngineError
from .places import LOOK_S, WAIT_S, Place, Places
from .relays import Layout, Relay
from .worker_site import prepare

_JOIN_S = 2.0


class UnreachableError(EngineError, InstanceError):
    """A worker can't be made part of a group; another one may be."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"the worker at {address} can't be used: {reason}")
        self.address = address


@dataclass(frozen=True)
class StageFiles:
    """The models of a partition's stages and what they need beside them, in a folder."""

    partition: Partition
    folder: Path

    @cached_property
    def names(self) -> list[list[str]]:
        """Return the names of what each device needs."""
        files_of_devices: list[dict[str, None]] = [{} for _ in self.partition.devices]
        for stage in self.partition.stages:
            beside = files_beside(self.folder / stage.model)
            files_of_devices[stage.device] |= dict.fromkeys([stage.model, *beside])
        return [list(names) for names in files_of_devices]

    @cached_property
    def digests(self) -> dict[str, str]:
        """Return the SHA-256 of each file by its name, 64 hex digits."""
        digests = {}
        for name in dict.fromkeys(name for names in self.names for name in names):
            with (self.folder / name).open("rb") as file:
                digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
        return digests

    def size_bytes(self, device: int) -> int:
        """Return the bytes of all that a device needs, weights above all."""
        return sum((self.folder / name).stat().st_size for name in self.names[device])


class ClusterGroup(Group):
    """Workers of a cluster for the devices of a partition; `places` are by device."""

    def __init__(
        self, engine: Engine, files: StageFiles, places: Sequence[Place], slots: int
    ) -> None:
        """Have the workers open sites, send them models, and tell them of each other.

        Raises UnreachableError where a worker does not answer or can't be connected to.
        """
        super().__init__(files.partition, slots)
        self._addresses = list(dict.fromkeys(place.worker.address for place in places))
        sites = tuple(self._addresses.index(place.worker.address) for place in places)
        self._layout = Layout(files.partition, slots, sites)
        self._memories = [SharedMemory() for _ in files.partition.slot_bytes]
        self._layout.reserve(self._memories)
        self._connections: list[socket.socket] = []
        self._relays: list[Relay] = []
        self._hung_up, self._hang_up = os.pipe()
        # To be closed: this pipe's, and those by which workers of this machine are told.
        self._descriptors = [self._hung_up, self._hang_up]
        self._reason = ""
        self._losing = threading.Lock()
        self._pids: list[int] = []
        try:
            self._open(engine, files, places)
        except BaseException:
            self.close()
            raise

    def _open(self, engine: Engine, files: StageFiles, places: Sequence[Place]) -> None:
        token, group = new_token(), secrets.token_hex(6)
        site_options = {}
        for number, address in enumerate(self._addresses):
            needed = {
                name: files.digests[name]
                for device in self._layout.devices(number)
                for name in files.names[device]
            }
            site_options[address] = [
                json.dumps(
                    {
                        "site": number,
                        "group": group,
                        "token": token,
                        "partition": self.partition.to_json(),
                        "slots": self._layout.slots,
                        "sites": list(self._layout.sites),
                        "threads": [place.threads for place in places],
                        "memory_limit_bytes": [place.memory_limit_bytes for place in places],
                        "files": needed,
                    }
                )
            ]
        answers = engine.run_each(prepare, site_options)
        for address, answer in answers.items():
            if isinstance(answer, BaseException):
                raise UnreachableError(address, str(answer) or type(answer).__name__)
        peers = [read_as(Address, answers[address]["address"]) for address in self._addresses]
        for address, peer in zip(self._addresses, peers, strict=True):
            with _reaching(address):
                self._connections.append(connect(peer, token, CALLER))
        paths = {digest: name for name, digest in files.digests.items()}
        for address, connection in zip(self._addresses, self._connections, strict=True):
            with _reaching(address):
                for digest in answers[address]["missing"]:
                    path = files.folder / paths[digest]
                    send_message(connection, {"size": path.stat().st_size})
                    send_file(connection, path)
        for address, connection in zip(self._addresses, self._connections, strict=True):
            with _reaching(address):
                send_message(connection, {"peers": [asdict(peer) for peer in peers]})

    @property
    def pids(self) -> list[int]:
        """Number the processes, each on its worker's machine."""
        return list(self._pids)

    def ready(self) -> None:
        """Wait until all stages are open; ModelError where the runtime refuses one."""
        for number, connection in enumerate(self._connections):
            with _reaching(self._addresses[number]):
                self._share(number, connection)
        for address, connection in zip(self._addresses, self._connections, strict=True):
            with _reaching(address):
                message = receive_message(connection, START_S)
            if "failed" in message:
                raise ModelError(f"the worker at {address}: {message['failed']}")
            details = message["ready"]
            self.open_s = max(self.open_s, details["open_s"])
            self.resident_bytes += details["resident_bytes"]
            self._pids += details["pids"]
        for relay in self._relays:
            relay.start()

    def _share(self, number: int, connection: socket.socket) -> None:
        """Share memory with a worker of this machine; have a relay to another one."""
        relay = Relay(
            self._layout,
            CALLER,
            number,
            connection,
            self._memories,
            self._deliver,
            partial(self._lose, number),
        )
        self._relays.append(relay)
        devices = self._layout.devices(number)
        waiting = self._layout.waiting(CALLER, number)
        if not is_shared(connection):
            if waiting:
                self._first.append(relay.inbox)
            return
        owners = [owner for owner, site in enumerate(self._layout.sites) if site == number]
        ours = [self._memories[0].descriptor, *(write for _, write in self._callers)]
        received = exchange_descriptors(connection, ours, len(owners) + len(devices))
        for owner, descriptor in zip(owners, received, strict=False):
            self._memories[owner + 1].close()
            self._memories[owner + 1] = SharedMemory(descriptor)
        inboxes = dict(zip(devices, received[len(owners) :], strict=True))
        self._descriptors += inboxes.values()
        self._first += [inboxes[device] for device in waiting]

    def _deliver(self, stage: int, slot: int, state: int, sequence: int, reason: str) -> None:
        os.write(self._callers[slot][1], done_message(stage, slot, state, sequence, reason))

    def _lose(self, number: int, error: ConnectionLostError) -> None:
        """Note that a worker is gone; lanes that wait are woken."""
        with self._losing:
            self.is_lost = True
            if not self._reason:
                self._reason = f"the worker at {self._addresses[number]} was lost: {error}"
                os.write(self._hang_up, b"l")

    def kill(self) -> None:
        """End the group at once: the workers notice, and end their processes."""
        with self._lock:
            self.is_lost = True
            for connection in self._connections:
                shut(connection)

    def close(self) -> None:
        """End the group; no lane may be used any more."""
        self.is_lost = True
        for relay in self._relays:
            relay.end()
        for relay in self._relays:
            relay.join(_JOIN_S)
        for connection in self._connections:
            connection.close()
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._relays, self._connections, self._descriptors = [], [], []
        self._let_go()

    def channels(self, slot: int) -> tuple[int, list[int]]:
        """Return the descriptor of what is done in a slot, and the one that tells of a loss."""
        return self._callers[slot][0], [self._hung_up]

    def lost(self, descriptors: Collection[int]) -> str:
        """End the group of which a worker was lost; say how."""
        self.kill()
        return self._reason or "the workers were ended"


@contextlib.contextmanager
def _reaching(address: str) -> Iterator[None]:
    """Say which worker it was that a connection was lost to."""
    try:
        yield
    except (ConnectionLostError, OSError) as error:
        raise UnreachableError(address, str(error)) from error


class ClusterSources:
    """Where the groups of a plan on a cluster come from, one source for each instance."""

    def __init__(
        self,
        remote: RemoteWorkers,
        partition: Partition,
        folder: Path,
        memory_limit_bytes: int = 0,
    ) -> None:
        """Connect to the scheduler. `memory_limit_bytes` holds for each part, if it is not 0."""
        if memory_limit_bytes:
            limits = (memory_limit_bytes,) * len(partition.devices)
            partition = replace(partition, memory_bytes=limits)
        self._files = StageFiles(partition, folder)
        self._slots = partition.slots
        self._places = Places(partition, remote.workers, remote.needed_bytes)
        self._engine = Engine(remote.scheduler)
        self._opened: set[int] = set()

    def sources(self) -> list[GroupSource]:
        """Return a source for each instance."""
        return [GroupSource(partial(self._group, n)) for n in range(len(self._places.planned))]

    def close(self) -> None:
        """Leave the cluster."""
        self._engine.close()

    def _group(self, instance: int) -> ClusterGroup:
        """Open a group; where a worker is missing another stands in, or it is waited for."""
        end = time.monotonic() + (WAIT_S if instance in self._opened else 0.0)
        silent: dict[str, str] = {}
        while True:
            alive = [worker for worker in self._engine.workers() if worker.address not in silent]
            try:
                places = self._places.assign(instance, alive)
            except EngineError as error:
                if time.monotonic() >= end:
                    raise EngineError("; ".join([str(error), *silent.values()])) from error
                time.sleep(LOOK_S)
                continue
            try:
                group = ClusterGroup(self._engine, self._files, places, self._slots)
            except UnreachableError as error:
                silent[error.address] = str(error)
                continue
            self._opened.add(instance)
            return group
