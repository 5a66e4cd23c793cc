"""Clusters in the catalog: rows of `cluster`, `device` and `link`, once for each description."""

from __future__ import annotations

import datetime
import hashlib

from ..catalog import Catalog
from .devices import Cluster, ClusterError, Device, Link

_DEVICES = """
    SELECT name, kind, cores, memory_bytes, flops_per_s, memory_bytes_per_s,
        coalesce(instruction_set, ''), node, launch_s, coalesce(machine, ''),
        coalesce(stage_s, 0), coalesce(contention_s_per_byte, 0), coalesce(address, '')
    FROM device WHERE cluster_hash = ? ORDER BY device_id"""
_LINKS = """
    SELECT source, target, latency_s, bytes_per_s, wire
    FROM link WHERE cluster_hash = ? ORDER BY rowid"""


def store_cluster(catalog: Catalog, cluster: Cluster) -> str:
    """Store a cluster with its devices and links, unless it is there; return its hash."""
    known = "SELECT 1 FROM cluster WHERE cluster_hash = ?"
    if catalog.connection.execute(known, [cluster.hash]).fetchall():
        return cluster.hash
    catalog.check_writable()
    devices, links = cluster.devices, cluster.links
    with catalog.transaction():
        catalog.insert(
            "cluster",
            {
                "cluster_hash": [cluster.hash],
                "name": [cluster.name],
                "devices": [len(devices)],
                "scheduler": [cluster.scheduler or None],
                "stored_at": [datetime.datetime.now(datetime.UTC).replace(tzinfo=None)],
            },
        )
        catalog.insert(
            "device",
            {
                "fingerprint": [_fingerprint(cluster, device) for device in devices],
                "name": [device.name for device in devices],
                "cores": [device.cores for device in devices],
                "memory_bytes": [device.memory_bytes for device in devices],
                "instruction_set": [device.processor or None for device in devices],
                "cluster_hash": [cluster.hash] * len(devices),
                "kind": [device.kind for device in devices],
                "node": [device.node for device in devices],
                "flops_per_s": [device.flops_per_s for device in devices],
                "memory_bytes_per_s": [device.memory_bytes_per_s for device in devices],
                "launch_s": [device.launch_s for device in devices],
                "machine": [device.fingerprint or None for device in devices],
                "stage_s": [device.stage_s for device in devices],
                "contention_s_per_byte": [device.contention_s_per_byte for device in devices],
                "address": [device.address or None for device in devices],
            },
        )
        if links:
            catalog.insert(
                "link",
                {
                    "cluster_hash": [cluster.hash] * len(links),
                    "source": [link.source for link in links],
                    "target": [link.target for link in links],
                    "latency_s": [link.latency_s for link in links],
                    "bytes_per_s": [link.bytes_per_s for link in links],
                    "wire": [link.wire for link in links],
                },
            )
    return cluster.hash


def load_cluster(catalog: Catalog, name: str) -> Cluster:
    """Return the newest cluster of a name, or the one whose hash begins so.

    Raises ClusterError where the catalog has none.
    """
    rows = catalog.connection.execute(
        "SELECT cluster_hash, name, coalesce(scheduler, '') FROM cluster"
        " WHERE name = $1 OR starts_with(cluster_hash, $1)"
        " ORDER BY name = $1 DESC, stored_at DESC LIMIT 1",
        [name],
    ).fetchall()
    if not rows:
        raise ClusterError(
            f"the catalog {catalog.path} has no cluster {name}: "
            'tensolog sql "SELECT name FROM cluster" lists them'
        )
    ((key, cluster_name, scheduler),) = rows
    devices = catalog.connection.execute(_DEVICES, [key]).fetchall()
    links = catalog.connection.execute(_LINKS, [key]).fetchall()
    return Cluster(
        cluster_name,
        tuple(Device(*row) for row in devices),
        tuple(Link(*row) for row in links),
        scheduler,
    )


def load_measured(catalog: Catalog, fingerprint: str, cores: int) -> Cluster | None:
    """Return the newest cluster of a machine's processes that was measured for so many cores."""
    rows = catalog.connection.execute(
        "SELECT cluster_hash FROM device JOIN cluster USING (cluster_hash)"
        " WHERE kind = 'cpu' AND scheduler IS NULL GROUP BY cluster_hash, stored_at"
        " HAVING bool_and(machine = ?) AND sum(cores) = ? AND count(*) > 1"
        " ORDER BY stored_at DESC LIMIT 1",
        [fingerprint, cores],
    ).fetchall()
    return load_cluster(catalog, rows[0][0]) if rows else None


def _fingerprint(cluster: Cluster, device: Device) -> str:
    return hashlib.sha256(f"{cluster.hash}|{device.name}".encode()).hexdigest()[:32]
