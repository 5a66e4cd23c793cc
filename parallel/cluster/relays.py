"""What passes between two sites of a group: that a stage is done, and the tensors that it gave.

A site is a process with memory and pipes as those of serving/worker_group.py: the caller, or a
worker of the engine. Where two sites are on different machines each has memory for what the other
owns, in which tensors lie at the same place, and a relay fills it: to those who run stages the
other site is one more pipe. Each message is `part_messages.done_message`, and the bytes of the
tensors that the other site reads follow it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from ..runnable_plan import CALLER, Partition
from ..serving.part_messages import (
    DONE_BYTES,
    FAILED,
    MOST_REASON_BYTES,
    done_message,
    read_done,
    read_steps,
    unpack_done,
)
from ..serving.shared_memory import SharedMemory
from .connections import ConnectionLostError, MessageError, receive_into, send, shut

# The state of a message that a stage is done, and that a site has ended, with the reason.
DONE, LOST = 0, 2


@dataclass(frozen=True)
class Layout:
    """A partition over sites: `sites` are numbers of each device's site, from 0 on."""

    partition: Partition
    slots: int
    sites: tuple[int, ...]

    def devices(self, site: int) -> list[int]:
        """Return the devices of a site that have something to do; the caller has none."""
        used = {stage.device for stage in self.partition.stages}
        return [n for n, other_site in enumerate(self.sites) if other_site == site and n in used]

    def sent(self, stage: int, site: int) -> tuple[int, ...]:
        """Return the tensors that a stage, or the caller, gives and a site reads."""
        partition = self.partition
        gives = partition.inputs if stage == CALLER else partition.stages[stage].gives
        if site == CALLER:
            wanted = {piece.tensor for output in partition.outputs for piece in output.pieces}
        else:
            stages = (stage for stage in partition.stages if self.sites[stage.device] == site)
            wanted = {number for stage in stages for number in stage.reads}
        return tuple(number for number in gives if number in wanted)

    def check(self, site: int, stage: int, slot: int, state: int, length: int) -> None:
        """Raise MessageError unless a site may send a message with this stage, slot and so on."""
        if site == CALLER or state == LOST:
            is_there = stage == CALLER
        else:
            stages = self.partition.stages
            is_there = 0 <= stage < len(stages) and self.sites[stages[stage].device] == site
        if (
            not is_there
            or slot >= self.slots
            or state not in (DONE, FAILED, LOST)
            or length > MOST_REASON_BYTES
        ):
            raise MessageError(
                f"a message of stage {stage}, slot {slot}, state {state}, {length} bytes is none "
                "that this group has: tensolog there may be another one than here"
            )

    def waiting(self, stage: int, site: int) -> list[int]:
        """Return the devices of a site that wait for a stage, or for the caller."""
        stages = self.partition.stages
        return [
            n for n in self.devices(site) if any(s.device == n and stage in s.after for s in stages)
        ]

    def reserve(self, memories: Sequence[SharedMemory]) -> None:
        """Make room for the tensors of all slots."""
        for memory, size in zip(memories, self.partition.slot_bytes, strict=True):
            memory.reserve(size * self.slots)

    def bytes_of(self, memories: Sequence[SharedMemory], tensor: int, slot: int) -> memoryview:
        """Return the bytes of a tensor of a slot, where it lies."""
        place = self.partition.place(tensor, slot)
        memory = memories[self.partition.tensors[tensor].owner + 1]
        array: Any = memory.read({"": place})[""].reshape(-1).view(np.uint8)
        return memoryview(array)


@dataclass
class Relay:
    """Passes on to site `there` what is written into `inbox`, and delivers what comes from it.

    `deliver(stage, slot, state, sequence, reason)` tells who waits here; `lost(error)` is called
    where nothing can be passed any more, whatever the reason: a MessageError where the other site
    sent something that it can't have meant.
    """

    layout: Layout
    here: int
    there: int
    connection: socket.socket
    memories: Sequence[SharedMemory]
    deliver: Callable[[int, int, int, int, str], None]
    lost: Callable[[ConnectionLostError], None]
    inbox: int = field(init=False)

    def __post_init__(self) -> None:
        """Make the pipe; nothing is passed yet."""
        self._read, self.inbox = os.pipe()
        self._sent = cache(lambda stage: self.layout.sent(stage, self.there))
        self._received = cache(lambda stage: self.layout.sent(stage, self.here))
        self._bytes = cache(lambda n, slot: self.layout.bytes_of(self.memories, n, slot))
        self._sending = threading.Lock()
        self._threads = [
            threading.Thread(target=target, name=f"tensolog-relay{self.there}", daemon=True)
            for target in (self._send, self._receive)
        ]

    def start(self) -> None:
        """Begin to pass messages."""
        for thread in self._threads:
            thread.start()

    def tell_lost(self, reason: str) -> None:
        """Say why this site ends, if the other one can still be told."""
        with contextlib.suppress(OSError), self._sending:
            send(self.connection, [done_message(CALLER, 0, LOST, 0, reason)])

    def end(self) -> None:
        """Pass nothing more; who wrote into the pipe must be gone, or go."""
        with contextlib.suppress(OSError):
            os.close(self.inbox)
        shut(self.connection)

    def join(self, limit_s: float) -> None:
        """Wait until the threads have ended, after `end`, and let go of the connection."""
        for thread in self._threads:
            if thread.ident is not None and thread is not threading.current_thread():
                thread.join(limit_s)
        if not self._threads[0].is_alive() and self._threads[0].ident is None:
            with contextlib.suppress(OSError):  # what was never started has the other end still
                os.close(self._read)
        self.connection.close()

    def _send(self) -> None:
        try:
            while True:
                if self.there == CALLER:
                    self._pass(*read_done(self._read))
                    continue
                steps = list(read_steps(self._read))
                if not steps:
                    return
                for stage, slot, state, sequence in steps:
                    self._pass(stage, slot, state, sequence, "")
        except EOFError:
            return
        except Exception as error:  # requests would wait for ever for a relay that ends in silence
            self.lost(_loss(error))
        finally:
            os.close(self._read)

    def _pass(self, stage: int, slot: int, state: int, sequence: int, reason: str) -> None:
        pieces: list[bytes | memoryview] = [done_message(stage, slot, state, sequence, reason)]
        if state != FAILED:
            pieces += [self._bytes(number, slot) for number in self._sent(stage)]
        with self._sending:
            send(self.connection, pieces)

    def _receive(self) -> None:
        head = bytearray(DONE_BYTES)
        try:
            while True:
                receive_into(self.connection, memoryview(head))
                stage, slot, state, length, sequence = unpack_done(bytes(head))
                self.layout.check(self.there, stage, slot, state, length)
                text = bytearray(length)
                receive_into(self.connection, memoryview(text))
                reason = text.decode(errors="replace")
                if state == LOST:
                    self.lost(ConnectionLostError(reason))
                    return
                if state != FAILED:
                    for number in self._received(stage):
                        receive_into(self.connection, self._bytes(number, slot))
                self.deliver(stage, slot, state, sequence, reason)
        except Exception as error:  # as above
            if isinstance(error, MessageError):
                self.tell_lost(str(error))
            self.lost(_loss(error))


def _loss(error: Exception) -> ConnectionLostError:
    """Say why nothing is passed any more."""
    if isinstance(error, ConnectionLostError):
        return error
    if isinstance(error, OSError):
        return ConnectionLostError(error.strerror or str(error))
    return MessageError(f"what it sent can't be passed on: {error!r}")
