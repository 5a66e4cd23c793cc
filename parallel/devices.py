"""Devices and the links between them: what a plan is made for, read from a TOML file.

    name = "two nodes"

    [[device]]
    name = "gpu"                 # 8 on each of 2 nodes: node0/gpu0 to node1/gpu7
    nodes = 2
    count = 8
    kind = "gpu"
    processor = "a100"           # devices of one kind and processor run a kernel equally fast
    memory_gib = 40
    gflops_per_s = 19500         # float32, of the whole device, as are the next
    memory_gb_per_s = 1555

    [[link]]                     # of several that fit a pair of devices, the first one counts
    same_node = true
    latency_us = 2
    gb_per_s = 300

    [[link]]
    latency_us = 10
    gb_per_s = 12.5
    shared = true                # by all that leaves the node: a network card

The same dataclasses hold what was measured: `to_toml` writes them to a file that can be edited.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

from ..catalog.errors import TensologError

_GIB = 2**30
_MOST_DEVICES = 512
_MOST_COUNTED = 2**31
_MOST_BYTES = 2**62  # what the catalog can hold


class ClusterError(TensologError):
    """A description of devices can't be read, or lacks what a plan needs."""


@dataclass(frozen=True)
class Device:
    """Where one operator runs at a time, with all cores of the device.

    `flops_per_s` counts float32 operations of the whole device, `memory_bytes_per_s` what it reads
    and writes. `launch_s` is what starting an operator takes. Devices of equal `kind` and
    `processor` run a kernel equally fast. `fingerprint` names the machine of the catalog whose
    measured kernels hold for the device; empty: none does. `address` is that of the
    worker of a cluster's engine; empty: the device is none.

    `stage_s` is what running a stage takes beside its operators. A stage is all that a device
    computes without hearing from the others, and hands over what it gives at its end. 0: operators
    are started one by one, and each hands over its own. Measured kernels are those of a device
    beside which nothing else runs: while the others of its node compute as well, each byte of their
    weights takes `contention_s_per_byte` longer.
    """

    name: str
    kind: str = "cpu"
    cores: int = 1
    memory_bytes: int = 0
    flops_per_s: float = 0.0
    memory_bytes_per_s: float = 0.0
    processor: str = ""
    node: str = ""
    launch_s: float = 0.0
    fingerprint: str = ""
    stage_s: float = 0.0
    contention_s_per_byte: float = 0.0
    address: str = ""

    @property
    def model(self) -> tuple[Any, ...]:
        """What decides how fast it is and how much it holds: equal for interchangeable devices."""
        return tuple(
            getattr(self, field.name)
            for field in fields(self)
            if field.name not in ("name", "node", "address")
        )


@dataclass(frozen=True)
class Link:
    """How tensors get from one device to another: `latency_s` plus bytes over `bytes_per_s`.

    Transfers over one `wire` take turns; empty: the wire by which all leaves that the source sends.
    """

    source: str
    target: str
    latency_s: float
    bytes_per_s: float
    wire: str = ""

    def seconds(self, size_bytes: float) -> float:
        """Return how long a tensor takes while nothing else is on the wire."""
        return self.latency_s + size_bytes / self.bytes_per_s


@dataclass(frozen=True)
class Cluster:
    """Devices, and for each ordered pair of them at most one link.

    Where devices are workers of an engine, `scheduler` is the address at which it is asked.
    """

    name: str
    devices: tuple[Device, ...]
    links: tuple[Link, ...] = ()
    scheduler: str = ""

    def __post_init__(self) -> None:
        """Raise ClusterError unless names are distinct and links join devices that are there."""
        if not self.devices:
            raise ClusterError(f"the cluster {self.name} has no device: add a [[device]] to it")
        names = [device.name for device in self.devices]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ClusterError(f"two devices are named {twice}: give each a name of its own")
        for device in self.devices:
            _check_device(device)
            if bool(device.address) != bool(self.scheduler):
                lacks, has = (
                    ("address", "scheduler") if self.scheduler else ("scheduler", "address")
                )
                raise ClusterError(
                    f"there is no {lacks} with the {has} of {self.scheduler or device.name}: "
                    "describe workers as tensolog devices measure --cluster ADDRESS does"
                )
        known, seen = set(names), set()
        for link in self.links:
            for end in (link.source, link.target):
                if end not in known:
                    raise ClusterError(f"a link names the device {end}, which there is not")
            if (link.source, link.target) in seen:
                raise ClusterError(f"there are two links from {link.source} to {link.target}")
            seen.add((link.source, link.target))
            where = f"the link from {link.source} to {link.target}"
            _check_number(link.latency_s, f"{where}: latency_us", least=0)
            _check_number(link.bytes_per_s, f"{where}: gb_per_s", least=None)

    @cached_property
    def _links(self) -> dict[tuple[str, str], Link]:
        return {(link.source, link.target): link for link in self.links}

    @cached_property
    def _devices(self) -> dict[str, Device]:
        return {device.name: device for device in self.devices}

    def device(self, name: str) -> Device:
        """Return a device by its name. Raises ClusterError for one that is not there."""
        if name not in self._devices:
            names = ", ".join(list(self._devices)[:8])
            raise ClusterError(f"the cluster {self.name} has no device {name}: it has {names}")
        return self._devices[name]

    def link(self, source: str, target: str) -> Link:
        """Return the link between two devices. Raises ClusterError where there is none."""
        link = self._links.get((source, target))
        if link is None:
            raise ClusterError(
                f"no link leads from {source} to {target}: add a [[link]] between them to the "
                f"description of {self.name}"
            )
        return link

    def linked(self, source: str, target: str) -> bool:
        """Tell whether tensors get from one device to another without a third."""
        return source == target or (source, target) in self._links

    @cached_property
    def hash(self) -> str:
        """SHA-256 of all that is said of it, 64 hex digits."""
        return hashlib.sha256(to_toml(self).encode()).hexdigest()

    def part(self, names: Iterable[str]) -> Cluster:
        """Return the cluster of some of the devices."""
        kept = set(names)
        return Cluster(
            self.name,
            tuple(device for device in self.devices if device.name in kept),
            tuple(link for link in self.links if {link.source, link.target} <= kept),
            self.scheduler,
        )


def links_of_each_pair(
    devices: Sequence[Device], latency_s: float, bytes_per_s: float
) -> tuple[Link, ...]:
    """Return a link from each device to each other one, all alike, each on its source's wire."""
    return tuple(
        Link(source.name, target.name, latency_s, bytes_per_s)
        for source, target in itertools.permutations(devices, 2)
    )


def read_cluster(path: str | Path) -> Cluster:
    """Read a description of devices from a TOML file.

    Raises ClusterError, in one line with what to do, where the file is missing or says something
    that is not understood.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text in UTF-8"
        raise ClusterError(f"{path} can't be read: {reason}") from error
    return parse_cluster(text, str(path))


def parse_cluster(text: str, where: str = "the cluster") -> Cluster:
    """Read a description of devices from TOML text; `where` begins the errors that it raises."""
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # TOMLDecodeError, or numbers of too many digits
        raise ClusterError(f"{where} is not TOML: {error}") from error
    try:
        return _cluster(data, Path(where).stem)
    except ClusterError as error:
        raise ClusterError(f"{where}: {error}") from error


def to_toml(cluster: Cluster) -> str:
    """Write a cluster as text that `parse_cluster` reads, each device and link on its own."""
    lines = [f"name = {_quoted(cluster.name)}"]
    if cluster.scheduler:
        lines.append(f"scheduler = {_quoted(cluster.scheduler)}")
    for device in cluster.devices:
        lines += ["", "[[device]]", f"name = {_quoted(device.name)}"]
        lines += [f"kind = {_quoted(device.kind)}", f"cores = {device.cores}"]
        for key, text in (("processor", device.processor), ("fingerprint", device.fingerprint)):
            if text:
                lines.append(f"{key} = {_quoted(text)}")
        lines.append(f"memory_bytes = {device.memory_bytes}")
        for key in ("flops_per_s", "memory_bytes_per_s", "launch_s"):
            lines.append(f"{key} = {float(getattr(device, key))!r}")
        for key in ("stage_s", "contention_s_per_byte"):
            if getattr(device, key):
                lines.append(f"{key} = {float(getattr(device, key))!r}")
        for key, text in (("node", device.node), ("address", device.address)):
            if text:
                lines.append(f"{key} = {_quoted(text)}")
    for link in cluster.links:
        lines += ["", "[[link]]", f"source = {_quoted(link.source)}"]
        lines += [f"target = {_quoted(link.target)}", f"latency_s = {float(link.latency_s)!r}"]
        lines.append(f"bytes_per_s = {float(link.bytes_per_s)!r}")
        if link.wire:
            lines.append(f"wire = {_quoted(link.wire)}")
    return "\n".join(lines) + "\n"


# ------------------------------------------------------------------------------------ what is read


@dataclass(frozen=True)
class _Quantity:
    """The usual key of a number in a file, and the factor from there to the SI unit of the field.

    `otherwise` is what it is where it is left out; None: it has to be there, and above 0.
    """

    key: str
    factor: float
    otherwise: float | None = None


# By the field of Device or Link, whose name is the key of the quantity in SI units.
_DEVICE_QUANTITIES = {
    "memory_bytes": _Quantity("memory_gib", _GIB),
    "flops_per_s": _Quantity("gflops_per_s", 1e9),
    "memory_bytes_per_s": _Quantity("memory_gb_per_s", 1e9),
    "launch_s": _Quantity("launch_us", 1e-6, 0.0),
    "stage_s": _Quantity("stage_us", 1e-6, 0.0),
    "contention_s_per_byte": _Quantity("contention_ps_per_byte", 1e-12, 0.0),
}
_LINK_QUANTITIES = {
    "latency_s": _Quantity("latency_us", 1e-6),
    "bytes_per_s": _Quantity("gb_per_s", 1e9),
}
# Texts of a device, and what they are where they are left out.
_DEVICE_TEXTS = {"kind": "cpu", "processor": "", "node": "", "fingerprint": "", "address": ""}
_DEVICE_KEYS = frozenset(
    {
        *("nodes", "count"),
        *(field.name for field in fields(Device)),
        *(quantity.key for quantity in _DEVICE_QUANTITIES.values()),
    }
)
_LINK_KEYS = frozenset(
    {
        *("between", "same_node", "shared"),
        *(field.name for field in fields(Link)),
        *(quantity.key for quantity in _LINK_QUANTITIES.values()),
    }
)


def _cluster(data: Mapping[str, Any], stem: str) -> Cluster:
    _check_keys(data, frozenset({"name", "scheduler", "device", "link"}), "the file")
    devices = [
        device
        for number, entry in enumerate(_tables(data, "device"))
        for device in _devices(entry, f"[[device]] {number + 1}")
    ]
    if len(devices) > _MOST_DEVICES:
        raise ClusterError(f"{len(devices)} devices are more than the {_MOST_DEVICES} planned for")
    links: dict[tuple[str, str], Link] = {}
    for number, entry in enumerate(_tables(data, "link")):
        for link in _links(entry, devices, f"[[link]] {number + 1}"):
            links.setdefault((link.source, link.target), link)
    name, scheduler = (
        _text(data, key, otherwise, "the file")
        for key, otherwise in (("name", stem), ("scheduler", ""))
    )
    return Cluster(name, tuple(devices), tuple(links.values()), scheduler)


def _tables(data: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    entries = data.get(key, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ClusterError(f"{key} is no list of tables: write [[{key}]]")
    return entries


def _devices(entry: Mapping[str, Any], where: str) -> Iterable[Device]:
    _check_keys(entry, _DEVICE_KEYS, where)
    if "name" not in entry:
        raise ClusterError(f"{where} has no name")
    name = _text(entry, "name", "", where)
    where = f"the device {name}"
    values: dict[str, Any] = {
        key: _text(entry, key, otherwise, where) for key, otherwise in _DEVICE_TEXTS.items()
    }
    values["cores"] = _whole(entry, "cores", 1, where)
    for key, quantity in _DEVICE_QUANTITIES.items():
        values[key] = _number(entry, key, quantity, where)
    values["memory_bytes"] = round(values["memory_bytes"])
    device = Device(name, **values)
    nodes = _whole(entry, "nodes", 1, where) if "nodes" in entry else 0
    count = _whole(entry, "count", 1, where) if "count" in entry else 0
    if device.address and (nodes or count):
        raise ClusterError(f"{where} has an address: a worker stands for one device, so drop count")
    if (nodes or 1) * (count or 1) > _MOST_DEVICES:
        raise ClusterError(f"{where}: more than {_MOST_DEVICES} devices are not planned for")
    for node, number in itertools.product(range(nodes or 1), range(count or 1)):
        place = f"node{node}" if nodes else device.node
        full = f"{place}/" * bool(nodes) + name + str(number) * bool(count)
        yield replace(device, name=full, node=place)


def _links(entry: Mapping[str, Any], devices: list[Device], where: str) -> Iterable[Link]:
    _check_keys(entry, _LINK_KEYS, where)
    latency, bandwidth = (
        _number(entry, key, quantity, where) for key, quantity in _LINK_QUANTITIES.items()
    )
    shared, same = (_flag(entry, key, where) for key in ("shared", "same_node"))
    if "source" in entry or "target" in entry:
        ends = _text(entry, "source", "", where), _text(entry, "target", "", where)
        wire = _text(entry, "wire", "", where)
        yield Link(*ends, latency, bandwidth, wire)
        return
    patterns = entry.get("between", ["*", "*"])
    if (
        not isinstance(patterns, list)
        or len(patterns) != 2
        or not all(isinstance(pattern, str) for pattern in patterns)
    ):
        raise ClusterError(f'{where}: between is no pair of names, as ["gpu*", "cpu*"]')
    first, second = (
        [fnmatchcase(device.name, pattern) for device in devices] for pattern in patterns
    )
    for pattern, fits in zip(patterns, (first, second), strict=True):
        if not any(fits):
            raise ClusterError(f"{where}: no device is named {pattern}")
    for i, j in itertools.permutations(range(len(devices)), 2):
        source, target = devices[i], devices[j]
        if same is not None and (source.node == target.node) != same:
            continue
        if (first[i] and second[j]) or (second[i] and first[j]):
            wire = f"{source.node or source.name}, {where}" if shared else ""
            yield Link(source.name, target.name, latency, bandwidth, wire)


def _check_keys(entry: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    for key in entry:
        if key not in known:
            raise ClusterError(f"{where} says {key}, which is none of {', '.join(sorted(known))}")


def _text(entry: Mapping[str, Any], key: str, otherwise: str, where: str) -> str:
    value = entry.get(key, otherwise)
    if not isinstance(value, str) or (key == "name" and not value):
        raise ClusterError(f"{where}: {key} is no text in quotation marks")
    return value


def _flag(entry: Mapping[str, Any], key: str, where: str) -> bool | None:
    value = entry.get(key)
    if value is not None and not isinstance(value, bool):
        raise ClusterError(f"{where}: {key} is neither true nor false")
    return value


def _whole(entry: Mapping[str, Any], key: str, least: int, where: str) -> int:
    value = entry.get(key, least)
    if type(value) is not int or not least <= value < _MOST_COUNTED:
        raise ClusterError(f"{where}: {key} is no whole number of at least {least}")
    return value


def _number(entry: Mapping[str, Any], field: str, quantity: _Quantity, where: str) -> float:
    """Read a quantity under its field's key or its usual one, in SI units."""
    keys = ((field, 1.0), (quantity.key, quantity.factor))
    present_keys = [(key, factor) for key, factor in keys if key in entry]
    if len(present_keys) == 2:
        raise ClusterError(f"{where} says both {field} and {quantity.key}: keep one of them")
    if not present_keys:
        if quantity.otherwise is None:
            raise ClusterError(f"{where} lacks {quantity.key}")
        return quantity.otherwise
    ((key, factor),) = present_keys
    value = entry[key]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ClusterError(f"{where}: {key} is no number")
    try:
        value = float(value)
    except OverflowError:  # a whole number that no float has
        value = math.inf
    _check_number(value, f"{where}: {key}", least=0)
    return value * factor


def _check_number(value: float, subject: str, least: float | None) -> None:
    if not math.isfinite(value) or value < 0 or (least is None and value == 0):
        bound = "from" if least == 0 else "above"
        raise ClusterError(f"{subject} is {value:g}: a finite number {bound} 0 is needed")


def _check_device(device: Device) -> None:
    where = f"the device {device.name}"
    for field, quantity in _DEVICE_QUANTITIES.items():
        least = None if quantity.otherwise is None else 0
        _check_number(getattr(device, field), f"{where}: {quantity.key}", least)
    if device.memory_bytes > _MOST_BYTES:
        raise ClusterError(f"{where} has {device.memory_bytes:g} bytes of memory: too many")


def _quoted(text: str) -> str:
    """Spell a TOML string."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c >= " " and c != "\x7f" else f"\\u{ord(c):04x}" for c in plain) + '"'
