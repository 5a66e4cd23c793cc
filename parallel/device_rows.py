"""Clusters in the catalog: rows of `cluster`, `device` and `link`, once for each description."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from ..catalog import Catalog
from .devices import Cluster, ClusterError, Device, Link

# By field of a device, the column that it is in; NULL stands for what the field is by default.
_DEVICE_COLUMNS = {
    **{field.name: field.name for field in fields(Device)},
    "processor": "instruction_set",
    "fingerprint": "machine",
}
_NULLABLE = ("processor", "fingerprint", "address")
_LINK_COLUMNS = [field.name for field in fields(Link)]
_DEVICES = f"""
    SELECT {", ".join(_DEVICE_COLUMNS.values())}
    FROM device WHERE cluster_hash = ? ORDER BY device_id"""
_LINKS = f"SELECT {', '.join(_LINK_COLUMNS)} FROM link WHERE cluster_hash = ? ORDER BY rowid"


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
                "cluster_hash": [cluster.hash] * len(devices),
                **{
                    column: [
                        None if field in _NULLABLE and not value else value
                        for value in (getattr(device, field) for device in devices)
                    ]
                    for field, column in _DEVICE_COLUMNS.items()
                },
            },
        )
        if links:
            catalog.insert(
                "link",
                {
                    "cluster_hash": [cluster.hash] * len(links),
                    **{name: [getattr(link, name) for link in links] for name in _LINK_COLUMNS},
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
        tuple(_device(row) for row in devices),
        tuple(Link(*row) for row in links),
        scheduler,
    )


def _device(row: Sequence[Any]) -> Device:
    values = zip(_DEVICE_COLUMNS, row, strict=True)
    return Device(**{field: value for field, value in values if value is not None})


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
