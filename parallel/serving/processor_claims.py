"""Processors that pools have: each is given to one pool, as long as there are enough of them.

Two pools that pin their instances to the same processors halve each other while others idle. So a
pool claims what it is pinned to. A claim is a name that the kernel keeps for as long as the process
has it, a socket in Linux' abstract namespace: nothing is left of it however the process ends, and
pools of other programs are seen as well, unless they are in another network namespace, as
containers are. Where all processors have a pool, each is claimed once more, those of the fewest
first; who shares some is bound to their memory nodes alone, so that the system finds what is idle.
"""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ...profiles.machine import processors
from .pinning import has_quota, here_each, on_nodes

PREFIX = "tensolog-processor"
# Pools of one processor that are told apart; further ones claim nothing.
_MOST_CLAIMS = 8
# How often processors are chosen anew because another process was faster.
_TRIES = 20

Places = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class ProcessorClaim:
    """The processors of each instance of a pool, until `release`.

    `others` says whether further pools have some of them: who waits there should not do so busily.
    """

    places: Places
    others: Literal["none", "some", "unknown"]
    names: tuple[socket.socket, ...] = ()

    def release(self) -> None:
        """Give the processors back."""
        for name in self.names:
            name.close()


def claim_processors(counts: Sequence[int]) -> ProcessorClaim:
    """Claim as many processors for each instance as `counts` says.

    Raises ValueError where this process may not use as many. Nothing is claimed where instances
    can't be pinned, or where a container's quota bounds them and not its mask (`here_each`).
    """
    if sys.platform != "linux" or has_quota():
        return ProcessorClaim(here_each(counts), "unknown")
    for _ in range(_TRIES):
        taken = {number: _taken(number) for number in processors()}
        places = here_each(counts, {number: len(levels) for number, levels in taken.items()})
        names = _claimed(places, taken)
        if names is not None:
            break
    else:
        names = ()
    if any(taken[number] for place in places for number in place):
        # On a processor that two pools are bound to one would wait for the other, with others idle.
        return ProcessorClaim(on_nodes(places), "some", names)
    return ProcessorClaim(places, "none", names)


def _taken(number: int) -> frozenset[int]:
    """Return which claims of a processor there are."""
    levels = set()
    for level in range(_MOST_CLAIMS):
        with (
            contextlib.suppress(OSError),  # nobody has that name
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe,
        ):
            probe.connect(_name(number, level))
            levels.add(level)
    return frozenset(levels)


def _claimed(
    places: Places, taken: Mapping[int, frozenset[int]]
) -> tuple[socket.socket, ...] | None:
    """Claim all processors of places; None where one was claimed meanwhile."""
    names: list[socket.socket] = []
    try:
        for number in (number for place in places for number in place):
            level = next((n for n in range(_MOST_CLAIMS) if n not in taken[number]), None)
            if level is not None:
                names.append(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
                names[-1].bind(_name(number, level))
    except OSError:
        for name in names:
            name.close()
        return None
    return tuple(names)


def _name(number: int, level: int) -> str:
    return f"\0{PREFIX}-{number}-{level}"
