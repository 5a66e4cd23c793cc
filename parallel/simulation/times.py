"""How long an operator takes on a device: as measured, where it was, else by the roofline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...catalog import Catalog
from ...profiles.kernel import Kernel
from ...profiles.kernels.roofline import work
from ...profiles.sessions.session import RUNTIME
from ..devices import Cluster, Device

_MEASURED = """
    SELECT kernel_hash, median_ns * 1e-9 FROM measurement JOIN device USING (device_id)
    WHERE fingerprint = ? AND threads = ? AND runtime = ? AND configuration = 'all'
        AND median_ns IS NOT NULL ORDER BY measurement_id"""
_LANES = {"float16": 2.0, "bfloat16": 2.0, "int8": 4.0, "uint8": 4.0, "float64": 0.5}


@dataclass(frozen=True)
class Calibration:
    """What a model took on one device, against the sum of its kernels (calibration.py measures it).

    `factor` is the ratio of the two; `of_average` says, by operator, how many times that ratio the
    one of the piece is that it lies in (empty: pieces were not timed). `contention_s_per_byte` is
    what a byte of weights took longer while all devices ran the model. All of these hold for parts
    of operators as well.

    Stages have copies of the weights that they share, and all together may be more than caches
    hold: `copies` says for some numbers of bytes that a node goes through for each request what a
    byte then takes longer than in the model itself, ascending (empty: nothing).

    Where devices were timed one by one, `by_device` says how many times `factor` the ratio of each
    is (empty: it is the same for all).
    """

    factor: float
    of_average: tuple[float, ...]
    contention_s_per_byte: float
    copies: tuple[tuple[float, float], ...] = ()
    by_device: tuple[float, ...] = ()

    def factor_of(self, device: int) -> float:
        """Return the ratio of a device, by its number."""
        return self.factor * (self.by_device[device] if self.by_device else 1.0)


class Times:
    """Seconds of operators on the devices of a cluster; the same for the same kernel and device."""

    def __init__(
        self,
        cluster: Cluster,
        catalog: Catalog | None = None,
        calibration: Calibration | None = None,
    ) -> None:
        self.cluster = cluster
        self.calibration = calibration
        self._measured: dict[tuple[str, int], dict[str, float]] = {}
        if catalog is not None:
            for device in cluster.devices:
                key = (device.fingerprint, device.cores)
                if device.fingerprint and key not in self._measured:
                    rows = catalog.sql(_MEASURED, [*key, RUNTIME]).fetchall()
                    self._measured[key] = dict(rows)
        self._operator_s: dict[tuple[str, tuple[object, ...]], float] = {}
        self._models = [device.model for device in cluster.devices]

    def operator(self, kernel: Kernel, device: int) -> float:
        """Return the seconds of an operator on a device, by its number."""
        key = (kernel.hash, self._models[device])
        if key not in self._operator_s:
            factor = 1.0 if self.calibration is None else self.calibration.factor_of(device)
            self._operator_s[key] = factor * self._operator(kernel, self.cluster.devices[device])
        return self._operator_s[key]

    def _operator(self, kernel: Kernel, device: Device) -> float:
        if kernel.is_constant:
            return 0.0
        measured = self._measured.get((device.fingerprint, device.cores), {})
        if kernel.hash in measured:
            return measured[kernel.hash]
        done = work(kernel)
        first = next((spec for spec in kernel.inputs if spec is not None), None)
        lanes = 1.0 if first is None else _LANES.get(first.dtype, 1.0)
        seconds = max(
            done.bytes / device.memory_bytes_per_s, done.flops / (device.flops_per_s * lanes)
        )
        return device.launch_s + seconds

    def contended(self, kernel: Kernel, device: int) -> float:
        """Return by how much an operator takes longer while all devices of its node compute.

        Rates of a description are those of devices that are all busy: what comes from them is not
        made longer, unless a calibration says by how much the model was.
        """
        device_ = self.cluster.devices[device]
        if self.calibration is not None:
            return self.calibration.contention_s_per_byte * kernel.constant_bytes
        if not device_.contention_s_per_byte or not self.is_measured(kernel, device):
            return 0.0
        return device_.contention_s_per_byte * kernel.constant_bytes

    @property
    def count_copies(self) -> bool:
        """Tell whether it matters how many copies of weights the stages of a node have."""
        return self.calibration is not None and any(s for _, s in self.calibration.copies)

    def copied(self, node_bytes: float) -> float:
        """Return what a byte of weights takes longer where a node goes through so many of them."""
        if self.calibration is None or not self.calibration.copies:
            return 0.0
        sizes, seconds = zip(*self.calibration.copies, strict=True)
        return float(np.interp(node_bytes, sizes, seconds))

    def is_measured(self, kernel: Kernel, device: int) -> bool:
        """Tell whether the time of an operator was measured."""
        device_ = self.cluster.devices[device]
        return kernel.hash in self._measured.get((device_.fingerprint, device_.cores), {})

    def moved_bytes(self, size_bytes: float, device: int) -> float:
        """Return the seconds in which a device reads and writes so many bytes, as sums do."""
        device_ = self.cluster.devices[device]
        return device_.launch_s + size_bytes / device_.memory_bytes_per_s
