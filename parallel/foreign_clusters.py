"""Descriptions of devices and links that other planners ship, read as they are.

What such a file doesn't say, how fast a device computes and how much it holds, comes from a device
that is given.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from .devices import Cluster, ClusterError, Device, Link

_MS, _GB = 1e-3, 1e9
_LINE = re.compile(r"(\w+)\s*=\s*(.*)")
# Where FlexFlow's paths name a link in one direction, the description has both in one.
_DIRECTIONS = {"pci_to_host": "pci", "pci_to_dev": "pci"}


def read_flexflow(path: str | Path, device: Device) -> Cluster:
    """Read a machine description of FlexFlow: its GPUs, each like `device`, and their links.

    A path of several links takes their latencies together, at the bandwidth of the slowest; what
    passes a network card takes turns with all that leaves by it. Raises ClusterError.
    """
    facts = _flexflow_facts(path)

    def number(name: str) -> float:
        try:
            return float(facts[name])
        except KeyError:
            raise ClusterError(f"{path} lacks {name}") from None
        except ValueError:
            raise ClusterError(f"{path}: {name} is no number: {facts[name]}") from None

    nodes, sockets, gpus = (
        int(number(name)) for name in ("num_nodes", "num_sockets_per_node", "num_gpus_per_socket")
    )
    per_socket = int(number("nic_persocket")) if "nic_persocket" in facts else 0
    places = list(itertools.product(range(nodes), range(sockets), range(gpus)))
    devices = tuple(
        replace(device, name=f"node{n}/socket{s}/gpu{g}", node=f"node{n}") for n, s, g in places
    )
    links = []
    for (here, source), (there, target) in itertools.permutations(
        list(zip(places, devices, strict=True)), 2
    ):
        reach = "intra_socket" if here[:2] == there[:2] else "inter_socket"
        if here[0] != there[0]:
            reach = "inter_node"
        key = f"{reach}_gpu_fb_mem_to_gpu_fb_mem"
        if key not in facts:
            raise ClusterError(f"{path} lacks {key}")
        steps = [_DIRECTIONS.get(step, step) for step in facts[key].split()]
        card = f"{source.node}/socket{here[1]}" if per_socket else source.node
        links.append(
            Link(
                source.name,
                target.name,
                sum(number(f"{step}_latency") for step in steps) * _MS,
                min(number(f"{step}_bandwidth") for step in steps) * _GB,
                f"card of {card}" if "nic" in steps else "",
            )
        )
    return Cluster(Path(path).stem, devices, tuple(links))


def read_galvatron(path: str | Path, device: Device) -> Cluster:
    """Read Galvatron's measured bandwidths of all-reduce: GPUs like `device` on one node or more.

    Pairs of one node have the bandwidth of two neighbours, pairs of two nodes that of two devices
    far apart, which leave their node by one card. Latencies are not in the file: 0. Raises
    ClusterError.
    """
    match = re.search(r"(\d+)nodes_(\d+)gpus_per_node", Path(path).name)
    if match is None:
        raise ClusterError(f"{path}: its name doesn't say how many nodes and GPUs it is about")
    nodes, gpus = map(int, match.groups())
    facts = _galvatron_facts(path)
    near = _bandwidth(facts, "allreduce_size_2_consec_1", path)
    far = _bandwidth(facts, "allreduce_size_2_consec_0", path) if nodes > 1 else near
    devices = tuple(
        replace(device, name=f"node{n}/gpu{g}", node=f"node{n}")
        for n, g in itertools.product(range(nodes), range(gpus))
    )
    links = tuple(
        Link(a.name, b.name, 0.0, near)
        if a.node == b.node
        else Link(a.name, b.name, 0.0, far, f"card of {a.node}")
        for a, b in itertools.permutations(devices, 2)
    )
    return Cluster(Path(path).stem, devices, links)


def _flexflow_facts(path: str | Path) -> dict[str, str]:
    facts = {}
    for line in _text(path).splitlines():
        if match := _LINE.fullmatch(line.partition("#")[0].strip()):
            facts[match[1]] = match[2].strip()
    return facts


def _galvatron_facts(path: str | Path) -> Mapping[str, object]:
    try:
        facts = json.loads(_text(path))
    except json.JSONDecodeError as error:
        raise ClusterError(f"{path} is not JSON: {error}") from error
    if not isinstance(facts, dict):
        raise ClusterError(f"{path} holds no table of bandwidths")
    return facts


def _bandwidth(facts: Mapping[str, object], name: str, path: str | Path) -> float:
    value = facts.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
        raise ClusterError(f"{path} lacks {name}, a bandwidth in GB/s")
    return value * _GB


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text in UTF-8"
        raise ClusterError(f"{path} can't be read: {reason}") from error
