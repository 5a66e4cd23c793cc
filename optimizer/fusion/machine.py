"""The machine's constants that costs are computed with, measured where a profile knows them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...profiles.machine import Device

# What a core reads from memory, of what it copies within its second-level cache.
_MEMORY_READ = 0.1
# What generated loops reach of the float32 peak of a matrix product, in float64: elementwise ones
# by the weights of operations.py, and sums of products along a row.
_LOOP_PEAK = 0.125
_PRODUCT_PEAK = 0.15


@dataclass(frozen=True)
class Machine:
    """Rates of one core, and how many cores a kernel may use.

    read, write  bytes/s of memory (a line that is written is read first)
    cache        bytes/s of rows that a Row operator holds; above `write`
    flops        1/s of generated loops, by the weights of operations.py
    products     1/s of generated sums of products: row times narrow matrix, row by row
    matmul       1/s of a library's matrix product; its other kernels are as fast as loops, on
                 one core
    shared       all cores read and write memory so many times as fast as one
    dispatch_s   seconds of a call
    """

    read: float = 12e9
    write: float = 6e9
    cache: float = 40e9
    flops: float = 16e9
    products: float = 24e9
    matmul: float = 40e9
    cores: int = 1
    shared: float = 1.6
    dispatch_s: float = 2e-6

    @classmethod
    def of(cls, device: Device, cores: int | None = None) -> Machine:
        """Derive the rates from a device's measured bandwidth and float32 peak, per core."""
        read = device.bandwidth * _MEMORY_READ
        return cls(
            read=read,
            write=read / 2,
            cache=device.bandwidth,
            flops=device.peak * _LOOP_PEAK,
            products=device.peak * _PRODUCT_PEAK,
            matmul=device.peak / 2,
            cores=device.cores if cores is None else cores,
        )

    @classmethod
    def here(cls, cores: int) -> Machine:
        """Return this machine as the user's catalog knows it, else with the default rates."""
        found = _measured()
        return cls(cores=cores) if found is None else replace(found, cores=cores)

    @property
    def bus(self) -> float:
        """How many times the memory rate of one core all cores reach."""
        return 1.0 if self.cores == 1 else self.shared


@cache
def _measured() -> Machine | None:
    """Return this machine's row of the user's catalog as rates; None where there is none.

    A catalog that another process writes isn't waited for: default rates plan as well.
    """
    from ...catalog.store import default_path
    from ...profiles.machine import Device, identity

    path = default_path()
    if not path.exists():
        return None
    import duckdb

    try:
        with duckdb.connect(str(path), read_only=True) as connection:
            rows = connection.execute(
                "SELECT device_id, name, cores, bandwidth_bytes_per_s, peak_flops_per_s"
                " FROM device WHERE fingerprint = ? AND bandwidth_bytes_per_s IS NOT NULL"
                " AND peak_flops_per_s IS NOT NULL",
                [identity().fingerprint],
            ).fetchall()
    except duckdb.Error:
        return None
    return Machine.of(Device(*rows[0])) if rows else None


@dataclass(frozen=True)
class Limits:
    """What a plan must keep to; what doesn't has infinite cost.

    memory_bytes    inputs and outputs of one operator together
    block_columns   columns of the rows that a Row operator walks
    """

    memory_bytes: float | None = None
    block_columns: int | None = None
