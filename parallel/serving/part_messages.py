"""What workers of a partition tell each other, and their caller: a few bytes through pipes.

So short a message is written and read as a whole, whoever else writes into the same pipe.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

FAILED = 1
_STEP = struct.Struct("<iHHQ")  # stage or CALLER, slot, state, sequence of the request
_DONE = struct.Struct("<iHHHQ")  # stage, slot, state, bytes of the reason, sequence
DONE_BYTES = _DONE.size
_MOST_STEPS = 256
MOST_REASON_BYTES = 400  # POSIX lets pipes break what is longer than 512 bytes


def step_message(stage: int, slot: int, state: int, sequence: int) -> bytes:
    """Say that a stage is done for the request in a slot."""
    return _STEP.pack(stage, slot, state, sequence)


def read_steps(descriptor: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the stage, slot, state and sequence of what has come."""
    yield from _STEP.iter_unpack(os.read(descriptor, _MOST_STEPS * _STEP.size))


def done_message(stage: int, slot: int, state: int, sequence: int, reason: str = "") -> bytes:
    """Say to the caller that a stage which it waits for is done."""
    text = reason.encode()[:MOST_REASON_BYTES]
    return _DONE.pack(stage, slot, state, len(text), sequence) + text


def unpack_done(head: bytes) -> tuple[int, int, int, int, int]:
    """Return a message's stage, slot, state, bytes of the reason that follows, and sequence."""
    stage, slot, state, length, sequence = _DONE.unpack(head)
    return stage, slot, state, length, sequence


def read_done(descriptor: int) -> tuple[int, int, int, int, str]:
    """Return the stage, slot, state, sequence and reason of the next one; EOFError at the end."""
    head = os.read(descriptor, _DONE.size)
    if not head:
        raise EOFError
    stage, slot, state, length, sequence = unpack_done(head)
    text = os.read(descriptor, length) if length else b""
    return stage, slot, state, sequence, text.decode(errors="replace")
