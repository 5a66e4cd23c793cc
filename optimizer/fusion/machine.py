"""The machine's constants that costs are computed with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

# What a call of NumPy takes of a kernel's, and the bytes of arrays that stay in the nearest caches.
_CALLED = 0.1
_NEAREST = 256 << 10


@dataclass(frozen=True)
class Machine:
    """Rates of one core, and how many cores a kernel may use.

    read, write  bytes/s of memory (a line that is written is read first)
    cache        bytes/s of rows that a Row operator holds; above `write`
    flops        1/s of generated loops, by the weights of operations.py
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
        """Return this machine by rates that are measured once for a processor (rates.py)."""
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
        found = replace(self, dispatch_s=self.dispatch_s * _CALLED)
        if largest > _NEAREST:
            return found
        return replace(found, read=self.cache, write=self.cache / 2, near=1.0, near_write=1.0)

    @property
    def bus(self) -> float:
        """How many times the memory rate of one core all cores reach."""
        return 1.0 if self.cores == 1 else self.shared


@cache
def _measured() -> Machine:
    from .rates import rates

    return replace(Machine(), **rates())  # type: ignore[arg-type]  # none of them is `cores`


@dataclass(frozen=True)
class Limits:
    """What a plan must keep to; what doesn't has infinite cost.

    memory_bytes    inputs and outputs of one operator together
    block_columns   columns of the rows that a Row operator walks
    """

    memory_bytes: float | None = None
    block_columns: int | None = None
