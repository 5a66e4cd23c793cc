"""What runs in a worker of the engine: the processes of its devices, and relays to other sites.

`prepare` is called in the worker, through the engine, and returns at once; a thread then waits for
the caller, who sends what models the worker lacks, and says who the other sites are. The site ends
with the caller's connection, with any other site's, or when one of its processes ends: a group is
lost as a whole. Models stay in the worker's folder for the next group.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import select
import shutil
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...catalog.errors import TensologError
from ...profiles.machine import cores, identity
from ..deployment.deployment import link_or_copy
from ..runnable_plan import CALLER, Partition
from ..serving.instance import START_S, Start
from ..serving.part_messages import step_message
from ..serving.process import WorkerProcess
from ..serving.processor_claims import ProcessorClaim, claim_processors
from ..serving.shared_memory import SharedMemory
from ..serving.worker_group import start_workers
from ..typed_values import read_as
from .connections import (
    Address,
    ConnectionLostError,
    Listener,
    MessageError,
    connect,
    exchange_descriptors,
    is_shared,
    machine_key,
    receive_file,
    receive_message,
    send_message,
)
from .relays import Layout, Relay

_JOIN_S = 2.0
# So long a site waits for the caller, and for the other sites.
_CALLER_S, _PEERS_S = 60.0, 30.0
# Models that no group has used for so long are deleted.
_KEPT_S = 3600.0
MODELS = "tensolog-models"


def describe(dask_worker: Any = None) -> dict[str, Any]:
    """Say what machine a worker is on; the argument is how the engine passes the worker."""
    # What a worker may lack: whoever asks is told so, and not that this module can't be loaded.
    import onnxruntime

    here = identity()
    return {
        "machine": machine_key(),
        "cores": cores(),
        "memory_bytes": here.memory_bytes,
        "fingerprint": here.fingerprint,
        "processor": here.instruction_set,
        "onnxruntime": onnxruntime.__version__,
    }


def prepare(site_json: str, dask_worker: Any = None) -> dict[str, Any]:
    """Open a site in a worker; return where it listens, and the digests of models that it lacks.

    `site_json` is JSON, as cluster_group.py writes it.
    """
    host = dask_worker.address.partition("://")[2].rpartition(":")[0].strip("[]")
    site = WorkerSite(json.loads(site_json), host, Path(dask_worker.local_directory) / MODELS)
    site.thread.start()
    return {"address": asdict(site.address), "missing": site.missing}


class WorkerSite:
    """The site of a worker in a group; `options` is what cluster_group.py says of it."""

    def __init__(self, options: dict[str, Any], host: str, folder: Path) -> None:
        self._number: int = options["site"]
        self._token: str = options["token"]
        partition = read_as(Partition, options["partition"])
        self._layout = Layout(partition, options["slots"], tuple(options["sites"]))
        self._devices = self._layout.devices(self._number)
        self._limits: list[int] = options["memory_limit_bytes"]  # by device
        self._threads: list[int] = options["threads"]  # by device
        # Names in the group's folder, and the digests of their contents.
        self._files: dict[str, str] = options["files"]
        self._store = folder
        self._store.mkdir(parents=True, exist_ok=True)
        _delete_old(self._store)
        self._folder = folder / f"group-{options['group']}-{self._number}"
        self.missing = sorted(
            digest for digest in set(self._files.values()) if not self._has(digest)
        )
        self._listener = Listener(host, self._token)
        self.address = self._listener.address
        self._memories: list[SharedMemory] = []
        self._relays: dict[int, Relay] = {}
        self._processes: dict[int, WorkerProcess] = {}
        self._inboxes: dict[int, int] = {}  # by device, of those that can be written from here
        self._reads: dict[int, int] = {}  # the other ends, of the devices here
        self._callers: list[int] = []  # by slot
        self._descriptors: list[int] = []
        self._claim: ProcessorClaim | None = None
        self._ended = threading.Event()
        self._wake = os.pipe()
        self._lock = threading.Lock()
        self.thread = threading.Thread(target=self._live, name="tensolog-site", daemon=True)

    def _has(self, digest: str) -> bool:
        try:
            os.utime(self._store / digest)
        except OSError:
            return False
        return True

    # ---- the life of a site
    def _live(self) -> None:
        caller: socket.socket | None = None
        waiting: dict[int, socket.socket] = {}
        try:
            caller = self._expect(CALLER, waiting, _CALLER_S)
            try:
                self._take_files(caller)
                message = receive_message(caller)
                peers = [read_as(Address, peer) for peer in message["peers"]]
                self._join_peers(caller, peers, waiting)
                details = self._start()
            except (TensologError, OSError, ValueError) as error:
                send_message(caller, {"failed": str(error) or type(error).__name__})
                return
            send_message(caller, {"ready": details})
            for relay in self._relays.values():
                relay.start()
            self._watch()
        except ConnectionLostError:
            pass  # nobody is there any more to be told
        finally:
            self._close()
            for connection in (caller, *waiting.values()):
                if connection is not None:
                    connection.close()

    def _expect(
        self, number: int, waiting: dict[int, socket.socket], limit_s: float
    ) -> socket.socket:
        """Return the connection that a site opens to this one; ConnectionLostError if none does."""
        end = time.monotonic() + limit_s
        while number not in waiting:
            remaining_s = end - time.monotonic()
            if remaining_s <= 0:
                who = "the caller" if number == CALLER else f"worker {number}"
                raise ConnectionLostError(f"{who} did not connect within {limit_s:.0f} s")
            if (connection := self._listener.accept(remaining_s)) is not None:
                waiting[connection[0]] = connection[1]
        return waiting.pop(number)

    def _take_files(self, caller: socket.socket) -> None:
        """Receive the models that are missing, and lay all of the group's into a folder."""
        for digest in self.missing:
            size = int(receive_message(caller)["size"])
            # Named by the group too: another one may receive the same model here meanwhile.
            temporary = self._store / f".{digest}-{self._folder.name}.tmp"
            try:
                receive_file(caller, size, temporary)
                with temporary.open("rb") as file:
                    if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                        raise TensologError("a model came damaged: it changed as it was sent")
                temporary.replace(self._store / digest)
            finally:
                temporary.unlink(missing_ok=True)
        for name, digest in self._files.items():
            place = self._folder / name
            if not place.resolve().is_relative_to(self._folder.resolve()):
                raise TensologError(f"a model names {name}, which is outside of its folder")
            place.parent.mkdir(parents=True, exist_ok=True)
            link_or_copy(self._store / digest, place)

    def _join_peers(
        self, caller: socket.socket, peers: Sequence[Address], waiting: dict[int, socket.socket]
    ) -> None:
        """Connect with all other sites, and have memory for what each owner has."""
        connections = {CALLER: caller}
        for number in range(len(peers)):
            if number < self._number:
                connections[number] = self._expect(number, waiting, _PEERS_S)
            elif number > self._number:
                connections[number] = connect(peers[number], self._token, self._number)
        self._listener.close()
        partition = self._layout.partition
        sites = self._layout.sites
        owned = [owner for owner, site in enumerate(sites) if site == self._number]
        memories = {owner: SharedMemory() for owner in owned}
        for owner, memory in memories.items():
            memory.reserve(partition.slot_bytes[owner + 1] * self._layout.slots)
        pipes = {device: os.pipe() for device in self._devices}
        self._reads = {device: read for device, (read, _) in pipes.items()}
        self._inboxes = {device: write for device, (_, write) in pipes.items()}
        ours = [memories[n].descriptor for n in owned] + [self._inboxes[n] for n in self._devices]
        for number, connection in connections.items():
            if not is_shared(connection):
                continue
            owners = [owner for owner, site in enumerate(sites) if site == number]
            devices = self._layout.devices(number)
            if number == CALLER:
                received = exchange_descriptors(connection, ours, 1 + self._layout.slots)
                memories[CALLER] = SharedMemory(received[0])
                self._callers = received[1:]
                self._descriptors += self._callers
            else:
                received = exchange_descriptors(connection, ours, len(owners) + len(devices))
                memories |= dict(zip(owners, map(SharedMemory, received), strict=False))
                inboxes = received[len(owners) :]
                self._inboxes |= dict(zip(devices, inboxes, strict=True))
        for owner in range(CALLER, len(sites)):
            if owner not in memories:
                memories[owner] = SharedMemory()
                memories[owner].reserve(partition.slot_bytes[owner + 1] * self._layout.slots)
        self._memories = [memories[owner] for owner in range(CALLER, len(sites))]
        for number, connection in connections.items():
            self._relays[number] = Relay(
                self._layout,
                self._number,
                number,
                connection,
                self._memories,
                self._deliver,
                self._lose,
            )
        if not self._callers:
            self._callers = [self._relays[CALLER].inbox] * self._layout.slots

    def _start(self) -> dict[str, Any]:
        """Start the processes and wait until all have opened their models."""
        inboxes = []
        for device, site in enumerate(self._layout.sites):
            if device not in self._inboxes and site in self._relays:
                inboxes.append(self._relays[site].inbox)
            else:
                inboxes.append(self._inboxes.get(device, -1))
        threads = [self._threads[device] for device in self._devices]
        with contextlib.suppress(ValueError):  # of fewer processors they take turns
            self._claim = claim_processors(threads)
        places = ((),) * len(threads) if self._claim is None else self._claim.places
        is_alone = self._claim is not None and self._claim.others == "none"
        starts = {
            device: Start(
                self._folder / "model.onnx",
                self._threads[device],
                place,
                spins=is_alone,
                memory_limit_bytes=self._limits[device],
            )
            for device, place in zip(self._devices, places, strict=True)
        }
        self._processes = start_workers(
            self._layout.partition, starts, self._reads, inboxes, self._callers, self._memories
        )
        details: dict[str, Any] = {"open_s": 0.0, "resident_bytes": 0, "pids": []}
        for process in self._processes.values():
            ready = process.receive(START_S)
            details["open_s"] = max(details["open_s"], ready["open_s"])
            details["resident_bytes"] += ready["resident_bytes"]
            details["pids"].append(process.pid)
        return details

    def _deliver(self, stage: int, slot: int, state: int, sequence: int, reason: str) -> None:
        """Tell the processes here that wait for a stage of another site."""
        message = step_message(stage, slot, state, sequence)
        for device in self._layout.waiting(stage, self._number):
            os.write(self._inboxes[device], message)

    def _lose(self, error: ConnectionLostError) -> None:
        """End where another site is gone, which the others notice, or sent what it can't mean."""
        self._end(str(error) if isinstance(error, MessageError) else "")

    def _watch(self) -> None:
        """Wait until a process or another site ends."""
        poll = select.poll()
        poll.register(self._wake[0], select.POLLIN)
        by_pipe = {process.fileno(): process for process in self._processes.values()}
        for descriptor in by_pipe:
            poll.register(descriptor, select.POLLIN)
        for descriptor, _ in poll.poll():
            if descriptor in by_pipe:
                self._end(by_pipe[descriptor].ending())

    def _end(self, reason: str) -> None:
        """Have the site end; the others are told why, unless they know."""
        with self._lock:
            if self._ended.is_set():
                return
            self._ended.set()
        if reason:
            self._relays[CALLER].tell_lost(reason)
        os.write(self._wake[1], b"e")

    def _close(self) -> None:
        """End the processes, then all that they wrote into."""
        self._ended.set()
        self._listener.close()
        for process in self._processes.values():
            process.kill()
            process.leave()
        if self._claim is not None:
            self._claim.release()
        for relay in self._relays.values():
            relay.end()
        for relay in self._relays.values():
            relay.join(_JOIN_S)
        for memory in self._memories:
            memory.close()
        descriptors = (*self._descriptors, *self._reads.values(), *self._inboxes.values())
        for descriptor in {*descriptors, *self._wake}:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        shutil.rmtree(self._folder, ignore_errors=True)


def _delete_old(store: Path) -> None:
    """Delete models that no group has used for long; links to them in a group's folder stay."""
    oldest = time.time() - _KEPT_S
    for entry in store.iterdir():
        with contextlib.suppress(OSError):
            if entry.is_file() and entry.stat().st_mtime < oldest:
                entry.unlink()
