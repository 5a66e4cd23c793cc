"""The machine's constants that costs are computed with: rates of one core, measured once.

They are what NumPy reaches, and are kept on disk. What is timed takes 0.1 s of CPU and 130 MB, once
for a processor. CPU time is read, and the best of several runs counts, so that other work on the
machine changes little; measured on a busy machine, rates may all be too low, which changes plans
less than their proportions would.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from ....profiles.machine import cache_bytes, identity

# Imported within functions: platformdirs, where rates are read or measured.

# Bytes beyond all caches, and of arrays that lie in the second one or the third.
_FAR = 64 << 20
_NEAR = 2 << 20
_CELLS = 1 << 14
# So few rows that libraries don't share them among threads, which spin while they wait for another.
_MATRIX = 96
_CALLS = 20
# What work.py counts an exponential for, and sinh; and what NumPy's exponential of float32 is
# beside a kernel's of float64, measured in pairs.
_EXPONENTIAL, _SINH, _SINGLE = 18, 20, 13.5
# How many times as long NumPy's exponential of float64 takes as that of float32, at most, where it
# has vectors for both.
_BOTH = 3.0
# What generated sums of products along rows reach of a library's product of matrices.
_PRODUCTS = 0.7
# Calls of NumPy that take as long as that of a kernel, and as that of a node between kernels.
_KERNEL, _NODE = 10, 3

Rates = dict[str, float]


def place() -> Path:
    """Return where they are kept: $TENSOLOG_RATES, or a file in the user's cache folder."""
    named = os.environ.get("TENSOLOG_RATES")
    if named:
        return Path(named)
    import platformdirs

    return Path(platformdirs.user_cache_dir("tensolog")) / "rates.json"


def rates() -> Rates:
    """Return this machine's rates by the names of Machine's fields; measured where not kept."""
    fingerprint = identity().fingerprint
    kept_rates: dict[str, Rates] = {}
    with contextlib.suppress(OSError, ValueError):
        kept_rates = json.loads(place().read_text(encoding="utf-8"))
    known_rates = kept_rates.get(fingerprint) if isinstance(kept_rates, dict) else None
    if known_rates is not None and _is_whole(known_rates):
        return known_rates
    new_rates = measured()
    _keep({**(kept_rates if isinstance(kept_rates, dict) else {}), fingerprint: new_rates})
    return new_rates


_NAMES = frozenset(
    (
        *("read", "write", "cache", "flops", "functions", "products", "matmul", "near"),
        *("near_write", "near_bytes", "dispatch_s", "plain_s"),
    )
)


def _is_whole(rates: object) -> bool:
    return (
        isinstance(rates, dict)
        and set(rates) == _NAMES
        and all(isinstance(rate, int | float) and 0 <= rate < 1e15 for rate in rates.values())
        and all(rates[name] > 0 for name in _NAMES - {"near_bytes"})
    )


def _keep(rates_by_machine: dict[str, Rates]) -> None:
    """Write them whole, so that processes may race; what can't be written is measured again."""
    with contextlib.suppress(OSError):
        place().parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=place().parent, suffix=".part", delete=False, encoding="utf-8"
        ) as part:
            json.dump(rates_by_machine, part)
        Path(part.name).replace(place())


def measured() -> Rates:
    """Measure the rates: bytes/s, operations/s, how many times as fast caches are, and calls."""
    far, near = np.ones(_FAR // 8), np.ones(_NEAR // 8)
    read = _FAR / _least_s(far.max, 3)
    both_s = _least_s(lambda: np.multiply(far, 2.0), 3)  # into memory that is new, as results are
    write = _FAR / max(both_s - _FAR / read, both_s / 4)
    cache_s = _least_s(near.max, 9)
    cache = _NEAR / cache_s
    # into memory that an array before left behind, as results of this size are
    both_s = _least_s(lambda: np.multiply(near, 2.0), 19)
    near_write = _NEAR / max(both_s - cache_s, both_s / 4)
    flops, functions = _computing()
    square = np.ones((_MATRIX, _MATRIX))
    matmul = 2 * _MATRIX**3 / _least_s(lambda: square @ square, 99)
    array = np.ones(1)
    call = _least_s(lambda: [np.add(array, array) for _ in range(_CALLS)], 99) / _CALLS
    return {
        "read": read,
        "write": write,
        "cache": 2 * max(cache, read),  # the first cache is nearer
        "flops": flops,
        "functions": functions,
        "products": _PRODUCTS * matmul,
        "matmul": matmul,
        "near": max(cache / read, 1.0),
        "near_write": max(near_write / write, 1.0),
        "near_bytes": max(cache_bytes().values(), default=0) / 2,
        "dispatch_s": _KERNEL * call,
        "plain_s": _NODE * call,
    }


def _computing() -> tuple[float, float]:
    """Return what vectors compute, and what NumPy's functions do that need vectors.

    The former by an exponential: of float64 where NumPy has vectors for that, which it has for
    AVX-512 alone, and otherwise of float32, which it has for AVX2 too.
    """
    cells = np.linspace(0.0, 1.0, _CELLS)
    results = np.empty_like(cells)
    few = cells.astype(np.float32)
    few_results = np.empty_like(few)
    double_s = _least_s(lambda: np.exp(cells, out=results), 19)
    single_s = _least_s(lambda: np.exp(few, out=few_results), 19)
    both = double_s < _BOTH * single_s
    flops = _CELLS * (_EXPONENTIAL / double_s if both else _SINGLE / single_s)
    functions = _SINH * _CELLS / _least_s(lambda: np.sinh(cells, out=results), 9)
    return flops, min(functions, flops)


def _least_s(call: Callable[[], object], times: int) -> float:
    """Return the least CPU seconds of a call, in this thread: others may be busy meanwhile."""
    call()
    times_ns = []
    for _ in range(times):
        begin = time.thread_time_ns()
        call()
        times_ns.append(time.thread_time_ns() - begin)
    return max(min(times_ns), 1) / 1e9


# What a call of NumPy takes of a kernel's, and the bytes of arrays that stay in the nearest caches.
_CALLED = 0.1
_NEAREST = 256 << 10


@dataclass(frozen=True)
class Machine:
    """Rates of one core, and how many cores a kernel may use.

    read, write  bytes/s of memory (a line that is written is read first)
    cache        bytes/s of rows that a Row operator holds; above `write`
    flops        1/s of generated loops, by the weights of work.py
    functions    1/s of NumPy's own functions that need vectors, by those weights (ONE_BY_ONE there)
    products     1/s of generated sums of products: row times narrow matrix, row by row
    matmul       1/s of a library's matrix product; its other kernels are as fast as loops, on
                 one core
    near         arrays in the caches are read so many times as fast
    near_write   and written so many times
    near_bytes   what a program's arrays have together, that they lie in the caches
    shared       all cores read and write memory so many times as fast as one
    dispatch_s   seconds of a call of a kernel, and in the search of any
    plain_s      seconds of NumPy's, of a node in a plan
    """

    read: float = 12e9
    write: float = 6e9
    cache: float = 40e9
    flops: float = 16e9
    functions: float = 16e9
    products: float = 24e9
    matmul: float = 40e9
    near: float = 1.0
    near_write: float = 1.0
    near_bytes: float = 0.0
    cores: int = 1
    shared: float = 1.6
    dispatch_s: float = 2e-6
    plain_s: float = 0.6e-6

    @classmethod
    def here(cls, cores: int) -> Machine:
        """Return this machine by rates that are measured once for a processor."""
        return replace(_measured(), cores=cores)

    def over(self, size: float) -> Machine:
        """Return the machine for a program whose arrays have so many bytes together."""
        if size > self.near_bytes:
            return self
        return replace(self, read=self.read * self.near, write=self.write * self.near_write)

    def by_operator(self, largest: float) -> Machine:
        """Return the machine for NumPy, operator by operator, over arrays of up to so many bytes.

        It is called sooner than a kernel, and small arrays are still in the nearest caches when
        the next operator reads them.
        """
        called = replace(self, dispatch_s=self.dispatch_s * _CALLED)
        if largest > _NEAREST:
            return called
        return replace(called, read=self.cache, write=self.cache / 2, near=1.0, near_write=1.0)

    @property
    def bus(self) -> float:
        """How many times the memory rate of one core all cores reach."""
        return 1.0 if self.cores == 1 else self.shared


@cache
def _measured() -> Machine:

    return replace(Machine(), **rates())  # type: ignore[arg-type]  # none of them is `cores`
