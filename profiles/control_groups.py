"""What a container leaves of a machine: the limits of its control groups, versions 1 and 2.

A process sees all processors and all memory of the machine, however little its container may use.
Limits hold for a group and for all that are within it, so the tightest one on the way up counts.
Source: the Linux kernel's documentation, admin-guide/cgroup-v1 and admin-guide/cgroup-v2.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

PROCESS = Path("/proc/self")
# Version 1 says so where there is no limit: the largest number of whole pages.
_NO_LIMIT_BYTES = 1 << 62


def processor_quota(process: Path = PROCESS) -> float | None:
    """Return how many processors' time the container may use, perhaps a fraction; None for all."""
    quotas = []
    for group in _groups("cpu", process):
        if group.is_unified:
            quota, _, period = _text(group.folder / "cpu.max").partition(" ")
        else:
            quota = _text(group.folder / "cpu.cfs_quota_us")
            period = _text(group.folder / "cpu.cfs_period_us")
        with contextlib.suppress(ValueError, ZeroDivisionError):  # "max", "-1", or no such file
            if int(quota) > 0:
                quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def memory_limit_bytes(process: Path = PROCESS) -> int | None:
    """Return how much memory the container may use; None where it may use all."""
    return min((limit for limit, _ in _memory(process)), default=None)


def memory_left_bytes(process: Path = PROCESS) -> int | None:
    """Return how much memory the container may use beyond what it uses; None for no limit.

    What caches files counts as unused: the kernel takes it back first.
    """
    return min((max(0, limit - used) for limit, used in _memory(process)), default=None)


def _memory(process: Path) -> Iterator[tuple[int, int]]:
    """Give limit and use in bytes of each group that has a limit."""
    for group in _groups("memory", process):
        names = ("memory.max", "memory.current", "inactive_file")
        if not group.is_unified:
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        with contextlib.suppress(ValueError):
            limit = int(_text(group.folder / names[0]))
            if limit >= _NO_LIMIT_BYTES:
                continue
            used = int(_text(group.folder / names[1]) or 0)
            for line in _text(group.folder / "memory.stat").splitlines():
                key, _, value = line.partition(" ")
                if key == names[2]:
                    used -= int(value)
            yield limit, max(0, used)


@dataclass(frozen=True)
class _Group:
    folder: Path
    is_unified: bool


def _groups(controller: str, process: Path) -> Iterator[_Group]:
    """Give the groups that limit this process by a controller, the innermost first."""
    for line in _text(process / "cgroup").splitlines():
        parts = line.split(":", 2)
        if len(parts) != 3:
            continue
        _, controllers, path = parts
        is_unified = not controllers
        if not is_unified and controller not in controllers.split(","):
            continue
        for root, mounted in _mounts("" if is_unified else controller, process):
            # In a container the path is often that outside of it, and the mount is the group.
            inside = path[len(root) :] if root != "/" and path.startswith(root) else path
            folder = mounted / inside.strip("/")
            if ".." in PurePosixPath(inside).parts or not folder.is_dir():
                folder = mounted
            for place in (folder, *folder.parents):
                yield _Group(place, is_unified)
                if place == mounted:
                    break


def _mounts(controller: str, process: Path) -> Iterator[tuple[str, Path]]:
    """Give root and place of the mounts of a controller of version 1, or, for "", of version 2."""
    for line in _text(process / "mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        unified = not controller and kind[0] == "cgroup2"
        legacy = bool(controller) and kind[0] == "cgroup" and controller in kind[2].split(",")
        if unified or legacy:
            yield fields[3], Path(fields[4].replace("\\040", " "))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
