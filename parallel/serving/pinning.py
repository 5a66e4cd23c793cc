"""Which processors each instance of a model runs on.

An instance stays within one memory node where it fits there, and instances are spread over all
nodes: both sockets of a machine are used, and no instance reads its weights from the other one.
Within a node whole cores are given first, then the second threads of cores. What pools of this
machine have already is taken last (processor_claims.py).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...profiles.machine import cores, processors

SYSTEM = Path("/sys/devices/system/cpu")


@dataclass(frozen=True)
class Processor:
    """A hardware thread: its number, its memory node or socket, and which thread of its core."""

    number: int
    node: int
    sibling: int = 0


def topology(numbers: Sequence[int], system: Path = SYSTEM) -> tuple[Processor, ...]:
    """Describe processors; where the system does not tell, all are cores of one node."""
    described = []
    for number in numbers:
        folder = system / f"cpu{number}"
        node = _number(folder / "topology" / "physical_package_id")
        with contextlib.suppress(OSError, ValueError):
            node = min(int(entry.name[4:]) for entry in folder.glob("node[0-9]*"))
        siblings = _listed(folder / "topology" / "thread_siblings_list") or [number]
        place = siblings.index(number) if number in siblings else 0
        described.append(Processor(number, max(0, node), place))
    return tuple(described)


def assign_each(
    counts: Sequence[int],
    available: Sequence[Processor],
    claims: Mapping[int, int] | None = None,
) -> tuple[tuple[int, ...], ...]:
    """Give each instance as many processors as `counts` says; ValueError where there are few.

    `claims` says how many others have a processor, by its number: those of the fewest come first.
    """
    if sum(counts) > len(available):
        raise ValueError(f"{_asked(counts)} on {len(available)} processors")
    others = claims or {}

    def load(processor: Processor) -> int:
        return others.get(processor.number, 0)

    nodes: dict[int, list[Processor]] = {}
    for processor in sorted(
        available, key=lambda candidate: (load(candidate), candidate.sibling, candidate.number)
    ):
        nodes.setdefault(processor.node, []).append(processor)
    assigned = []
    for threads in counts:
        # The node with the fewest claims, and of equal ones the emptiest; where none has room
        # enough, what is free anywhere.
        roomy = [rest for rest in nodes.values() if len(rest) >= threads]
        if roomy:
            free = min(roomy, key=lambda rest: (sum(map(load, rest[:threads])), -len(rest)))
            taken, free[:] = free[:threads], free[threads:]
        else:
            taken = []
            for rest in sorted(nodes.values(), key=len, reverse=True):
                wanted = threads - len(taken)
                taken += rest[:wanted]
                rest[:] = rest[wanted:]
        assigned.append(tuple(sorted(processor.number for processor in taken)))
    return tuple(assigned)


def here(instances: int, threads: int) -> tuple[tuple[int, ...], ...]:
    """Assign the processors that this process may use, no more of them than its container's quota.

    Raises ValueError where there are too few.
    """
    return here_each([threads] * instances)


def here_each(
    counts: Sequence[int], claims: Mapping[int, int] | None = None
) -> tuple[tuple[int, ...], ...]:
    """Assign the processors that this process may use, as many to each instance as it asks for.

    Of a container that is bound by a quota, and not by a mask, each instance gets all processors of
    a node: containers beside it, which are not seen, may have any of them as well.
    """
    if sum(counts) > cores():
        raise ValueError(f"{_asked(counts)}, and {cores()} cores may be used")
    available = topology(processors())
    places = assign_each(counts, available, claims)
    return on_nodes(places) if has_quota() else places


def on_nodes(places: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """Let each instance have all processors of the nodes that it has some of."""
    nodes = {processor.number: processor.node for processor in topology(processors())}
    return tuple(
        tuple(sorted(n for n in nodes if nodes[n] in {nodes[processor] for processor in place}))
        for place in places
    )


def bind(pid: int, processors: tuple[int, ...]) -> None:
    """Bind all threads of a process; those that are gone, or may not be bound, are left alone."""
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                os.sched_setaffinity(int(thread.name), processors)


def has_quota() -> bool:
    """Tell whether fewer cores may be kept busy than there are processors to run on."""
    return cores() < len(processors())


def _asked(counts: Sequence[int]) -> str:
    equal = len(set(counts)) == 1
    asked = f"{len(counts)} x {counts[0]}" if equal else " + ".join(map(str, counts))
    return f"{asked} threads"


def _number(path: Path) -> int:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


def _listed(path: Path) -> list[int]:
    """Read a list of the kernel's, such as 0-3,8."""
    numbers: list[int] = []
    try:
        for part in path.read_text(encoding="ascii").strip().split(","):
            first, _, last = part.partition("-")
            numbers += range(int(first), int(last or first) + 1)
    except (OSError, ValueError):
        return []
    return numbers
