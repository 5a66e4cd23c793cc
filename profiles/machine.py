"""The machine that measures: one row of the table device, its bandwidth and peak measured once."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .control_groups import memory_left_bytes, processor_quota

if TYPE_CHECKING:
    from ..catalog import Catalog

# Imported within functions: ONNX Runtime, where the machine is measured and not looked up.

# Flags that decide which kernels a runtime picks, narrowest last.
_FLAGS = (
    "sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512vl", "avx512_vnni", "avx_vnni",
    "avx512_bf16", "amx_tile", "amx_int8", "amx_bf16", "asimd", "asimdhp", "asimddp", "i8mm",
    "bf16", "sve", "sve2", "sme",
)  # fmt: skip
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_BUFFER = 256 << 10  # bytes: lies in the second-level cache of every current core
_MATRIX = 384
_SECONDS = 0.15  # for each of the two measurements


@dataclass(frozen=True)
class Machine:
    """A machine: bandwidth in bytes/s and peak in float32 operations/s, both of one core."""

    device_id: int
    name: str
    cores: int
    bandwidth: float
    peak: float


@dataclass(frozen=True)
class Identity:
    """What tells machines apart; `fingerprint` is its hash."""

    name: str
    cores: int
    memory_bytes: int
    instruction_set: str

    @property
    def fingerprint(self) -> str:
        """SHA-256 over name, cores, memory to the GiB and instruction set, 32 hex digits."""
        memory = round(self.memory_bytes / 2**30)
        text = f"{self.name}|{self.cores}|{memory}|{self.instruction_set}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]


@lru_cache(maxsize=1)
def identity() -> Identity:
    """Describe this machine; what the system does not tell is left empty or 0."""
    facts = _cpuinfo()
    model = facts.get("model name") or facts.get("hardware") or _sysctl("machdep.cpu.brand_string")
    name = " ".join((model or platform.processor() or platform.machine() or "unknown").split())
    cpu = [facts[key] for key in ("vendor_id", "cpu family", "model") if key in facts]
    if cpu:
        name = f"{name} ({' '.join(cpu)})"
    instructions = set((facts.get("flags") or facts.get("features") or "").split())
    flags = [flag for flag in _FLAGS if flag in instructions]
    return Identity(name, cores(), memory_bytes(), " ".join([platform.machine(), *flags]))


# What kinds of kernels a runtime picks, the fastest first, and who makes the processors.
_VECTORS = {"avx512f": "avx512", "avx2": "avx2", "sve": "sve", "asimd": "neon"}
_MAKERS = {"AuthenticAMD": "amd", "GenuineIntel": "intel"}


def processor_class() -> str:
    """Name the class of this machine's processor, such as "amd-avx512"; "" where it is unknown.

    What is learned of times on one machine is of use on others of its class.
    """
    here = identity()
    flags = here.instruction_set.split()
    vectors = next((name for flag, name in _VECTORS.items() if flag in flags), "")
    maker = next((name for word, name in _MAKERS.items() if word in here.name), "")
    return f"{maker}-{vectors}" if maker and vectors else ""


def processors() -> tuple[int, ...]:
    """Number the processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def cores() -> int:
    """Return how many cores this process may keep busy: by its affinity, and its container's quota.

    Of a quota of 2.5 it is 2: a third thread would be stopped for half of the time, and with it
    those that wait for it.
    """
    quota = processor_quota()
    allowed = len(processors())
    return allowed if quota is None else max(1, min(allowed, int(quota)))


def most_threads() -> int:
    """Return how many threads may be asked for.

    More than there are processors only take turns; thousands would hold the whole machine up.
    """
    return 8 * (os.cpu_count() or 1)


def memory_bytes() -> int:
    """Return the machine's memory in bytes, 0 where the system does not tell."""
    with contextlib.suppress(AttributeError, ValueError, OSError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 0


def available_memory_bytes() -> int:
    """Return the memory that can be used without swapping; half of all where it is not told.

    A container may have less than the machine.
    """
    allowed = memory_left_bytes()
    here = _free_bytes()
    return here if allowed is None else min(here, allowed)


def _free_bytes() -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return memory_bytes() // 2 or 1 << 30


@cache
def cache_bytes() -> dict[int, int]:
    """Return the bytes of the first processor's caches for data, by their level.

    Levels that the system does not tell are left out.
    """
    sizes: dict[int, int] = {}
    units = {"K": 10, "M": 20, "G": 30}
    with contextlib.suppress(OSError, ValueError):
        for folder in _CACHES.glob("index*"):
            level, kind, size = (
                (folder / name).read_text(encoding="ascii").strip()
                for name in ("level", "type", "size")
            )
            if kind != "Instruction":
                sizes[int(level)] = int(size.rstrip("KMG")) << units.get(size[-1:], 0)
    return sizes


def machine_id(catalog: Catalog) -> int:
    """Return this machine's device_id; inserts and measures the row on first use (under 1 s)."""
    return load_machine(catalog).device_id


def load_machine(catalog: Catalog) -> Machine:
    """Return this machine's row, measured now if the catalog has none.

    A read-only catalog without the row gives a Machine with device_id -1, not stored.
    """
    row = _stored(catalog)
    if row is not None:
        return row
    bandwidth, peak = measure_bandwidth(), measure_peak()
    here = identity()
    if catalog.read_only:
        return Machine(-1, here.name, here.cores, bandwidth, peak)
    catalog.connection.execute(
        "INSERT INTO device (fingerprint, name, cores, memory_bytes, instruction_set,"
        " bandwidth_bytes_per_s, peak_flops_per_s, measured_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            here.fingerprint,
            here.name,
            here.cores,
            here.memory_bytes,
            here.instruction_set,
            bandwidth,
            peak,
            datetime.datetime.now(datetime.UTC).replace(tzinfo=None),
        ],
    )
    row = _stored(catalog)
    assert row is not None
    return row


@cache
def measure_bandwidth() -> float:
    """Return the bytes/s that one core reads and writes when it copies 256 KiB: its best of many.

    Measured once in a process, whatever number of catalogs it opens.
    Out of cache the machine is slower, so that bytes / bandwidth stays a lower bound.
    """
    source = np.ones(_BUFFER, dtype=np.uint8)
    target = np.empty_like(source)
    best, end = float("inf"), time.perf_counter() + _SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter_ns()
        for _ in range(20):
            np.copyto(target, source)
        best = min(best, (time.perf_counter_ns() - start) / 20)
    return 2 * _BUFFER / (best * 1e-9)


@cache
def measure_peak() -> float:
    """Return the float32 operations/s of a MatMul in ONNX Runtime on one thread, best of many.

    Measured once in a process.
    """
    from .kernel import Kernel, TensorSpec
    from .kernels.kernel_model import build_model
    from .sessions.session import BoundRun, open_session

    square = (_MATRIX, _MATRIX)
    operands = (TensorSpec("float32", square), TensorSpec("float32", square, constant=True))
    model, feeds = build_model(Kernel("", "MatMul", 13, (), operands))
    run = BoundRun(open_session(model, threads=1), feeds)
    best, end = float("inf"), time.perf_counter() + _SECONDS
    while time.perf_counter() < end:
        best = min(best, run.time())
    return 2.0 * _MATRIX**3 / (best * 1e-9)


def _stored(catalog: Catalog) -> Machine | None:
    rows = catalog.connection.execute(
        "SELECT device_id, name, cores, bandwidth_bytes_per_s, peak_flops_per_s FROM device"
        " WHERE fingerprint = ? AND bandwidth_bytes_per_s IS NOT NULL"
        " AND peak_flops_per_s IS NOT NULL",
        [identity().fingerprint],
    ).fetchall()
    return Machine(*rows[0]) if rows else None


def _cpuinfo() -> dict[str, str]:
    """Read the first processor of /proc/cpuinfo, keys in lower case; empty elsewhere."""
    facts: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in (
            Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        ):
            key, colon, value = line.partition(":")
            if colon:
                facts.setdefault(key.strip().lower(), value.strip())
    return facts


def _sysctl(name: str) -> str:
    if sys.platform != "darwin":
        return ""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command: list[Any] = ["/usr/sbin/sysctl", "-n", name]
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=5
        ).stdout.strip()
    return ""
