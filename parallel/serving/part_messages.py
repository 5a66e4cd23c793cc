"""What workers of a partition tell each other, and their caller: a few bytes through pipes.

So short a message is written and read as a whole, whoever else writes into the same pipe.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

FAILED = 1
_STEP = struct.Struct("<iHHQ")  # stage or CALLER, slot, state, sequence of the request
_DONE = struct.Struct("<HHQ")  # state, bytes of the reason, sequence
_MOST_STEPS = 256
_MOST_REASON_BYTES = 400  # POSIX lets pipes break what is longer than 512 bytes


def step_message(stage: int, slot: int, state: int, sequence: int) -> bytes:
    """Say that a stage is done for the request in a slot."""
    return _STEP.pack(stage, slot, state, sequence)


def read_steps(descriptor: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the stage, slot, state and sequence of what has come."""
    yield from _STEP.iter_unpack(os.read(descriptor, _MOST_STEPS * _STEP.size))


def done_message(state: int, sequence: int, reason: str) -> bytes:
    """Say to the caller that a stage which it waits for is done."""
    text = reason.encode()[:_MOST_REASON_BYTES]
    return _DONE.pack(state, len(text), sequence) + text


def read_done(descriptor: int) -> tuple[int, int, str]:
    """Return the state, sequence and reason of the next of them."""
    state, length, sequence = _DONE.unpack(os.read(descriptor, _DONE.size))
    text = os.read(descriptor, length) if length else b""
    return state, sequence, text.decode(errors="replace")
