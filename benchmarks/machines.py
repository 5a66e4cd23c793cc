"""Machines made on this one: network namespaces, with links of a latency and a bandwidth.

Linux shapes links with netem, which not every kernel has; here each namespace has a TUN device, and
a process of this module passes packets from one to the other: it holds each back for the latency,
and lets what a machine sends, and what it receives, through at the bandwidth. Packets are large, so
that the process keeps up. Needs root and /dev/net/tun; addresses are of the namespaces alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import queue
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

_MTU = 32_000
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_CLONE_NEWNET = 0x40000000


def why_not() -> str:
    """Say why no machines can be made here; "" where they can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "network namespaces need root on Linux"
    if not Path("/dev/net/tun").exists():
        return "there is no /dev/net/tun"
    name = f"tl{os.getpid()}-try"
    try:
        process = subprocess.run(["ip", "netns", "add", name], capture_output=True)
    except OSError:
        return "there is no `ip`"
    if process.returncode:
        return "network namespaces can't be made here"
    subprocess.run(["ip", "netns", "delete", name], capture_output=True)
    return ""


@contextlib.contextmanager
def machines(count: int, latency_s: float, bytes_per_s: float) -> Iterator[list[Machine]]:
    """Make machines that are linked with each other; a packet takes `latency_s` one way."""
    machines = [Machine(f"tl{os.getpid()}-{n}", f"10.231.7.{n + 1}") for n in range(count)]
    with contextlib.ExitStack() as cleanup:
        for machine in machines:
            _ip("netns", "add", machine.namespace)
            cleanup.callback(_ip, "netns", "delete", machine.namespace)
            _ip("-n", machine.namespace, "link", "set", "lo", "up")
        names = [machine.namespace for machine in machines]
        settings = [str(latency_s), str(bytes_per_s), *names]
        wire = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.machines", *settings], stdout=subprocess.PIPE
        )
        cleanup.callback(wire.wait)
        cleanup.callback(wire.kill)
        assert wire.stdout is not None
        wire.stdout.readline()
        for machine in machines:
            _ip("-n", machine.namespace, "address", "add", f"{machine.address}/24", "dev", "wire")
            _ip("-n", machine.namespace, "link", "set", "wire", "mtu", str(_MTU), "up")
        yield machines


class Machine:
    """A network namespace; what runs in it sees the others at their addresses."""

    def __init__(self, namespace: str, address: str) -> None:
        self.namespace, self.address = namespace, address

    def command(self, arguments: Sequence[str]) -> list[str]:
        """Return the command that runs another one there."""
        return ["ip", "netns", "exec", self.namespace, *arguments]

    def start(
        self, arguments: Sequence[str], output: Path, processor: int | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a command there, on one processor if it is named; what it prints goes to a file."""
        bound = [] if processor is None else ["taskset", "--cpu-list", str(processor)]
        with output.open("wb") as file:
            return subprocess.Popen([*bound, *self.command(arguments)], stdout=file, stderr=file)


@contextlib.contextmanager
def dask_cluster(
    hub: Machine, others: Sequence[Machine], folder: Path, memory: Sequence[str]
) -> Iterator[str]:
    """Run a scheduler on one machine and a worker of one thread on each other; give the address.

    Machines see nothing of each other, nor of whose processors are whose: each worker is bound to
    one here, workers beyond their number to the same ones in turns.
    """
    processors = sorted(os.sched_getaffinity(0))
    address = f"tcp://{hub.address}:8786"
    scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-dashboard"]
    processes = [hub.start([*scheduler, "--host", hub.address], folder / "scheduler.log")]
    for number, (machine, limit) in enumerate(zip(others, memory, strict=True)):
        worker_options = ["--name", f"w{number}", "--nthreads", "1", "--memory-limit", limit]
        worker_options += [
            "--host",
            machine.address,
            "--local-directory",
            str(folder / f"w{number}"),
        ]
        processor = processors[number % len(processors)]
        processes.append(
            machine.start([*worker, *worker_options], folder / f"w{number}.log", processor)
        )
    try:
        yield address
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGINT)
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
            process.kill()


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


# ---- the process that is the wires


def main() -> None:
    latency_s, bytes_per_s, *namespaces = sys.argv[1:]
    devices = [_device(name) for name in namespaces]
    by_address = {n + 1: device for n, device in enumerate(devices)}
    wires = {device: Wire(device, float(latency_s), float(bytes_per_s)) for device in devices}
    for device in devices:
        threading.Thread(
            target=_pass, args=(device, by_address, wires, float(bytes_per_s)), daemon=True
        ).start()
    print("ready", flush=True)
    signal.pause()


class Wire:
    """What goes to a machine: packets in order, each at its time."""

    def __init__(self, device: int, latency_s: float, bytes_per_s: float) -> None:
        self._device, self._latency_s, self._bytes_per_s = device, latency_s, bytes_per_s
        self._packets: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
        self._free_s = 0.0
        threading.Thread(target=self._deliver, daemon=True).start()

    def put(self, sent_s: float, packet: bytes) -> None:
        """Take a packet whose last byte was sent at a time."""
        self._packets.put((sent_s, packet))

    def _deliver(self) -> None:
        while True:
            sent_s, packet = self._packets.get()
            # Received as fast as the machine can: at its bandwidth, after the one before.
            first_s = sent_s - len(packet) / self._bytes_per_s
            self._free_s = max(self._free_s, first_s) + len(packet) / self._bytes_per_s
            wait_s = self._free_s + self._latency_s - time.monotonic()
            if wait_s > 0:
                time.sleep(wait_s)
            os.write(self._device, packet)


def _pass(
    device: int, by_address: dict[int, int], wires: dict[int, Wire], bytes_per_s: float
) -> None:
    free_s = 0.0
    while True:
        packet = os.read(device, 1 << 16)
        if packet[0] >> 4 != 4 or packet[16:19] != bytes((10, 231, 7)):
            continue
        target = by_address.get(packet[19])
        free_s = max(free_s, time.monotonic()) + len(packet) / bytes_per_s
        if target is not None:
            wires[target].put(free_s, packet)


def _device(namespace: str) -> int:
    """Return a TUN device that was made in a namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        if libc.setns(there, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
        device = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", b"wire", _IFF_TUN | _IFF_NO_PI))
        return device
    finally:
        libc.setns(here, _CLONE_NEWNET)
        os.close(here)
        os.close(there)


if __name__ == "__main__":
    main()
