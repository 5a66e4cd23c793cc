"""Graphs with timed configurations in the catalog: rows of the tables `cost_graph…`, and back."""

from __future__ import annotations

import datetime
import json
import math
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from ....catalog import Catalog
from ....catalog.files import replacing
from ...machine import available_memory_bytes
from .archive import ArchiveError, Array, CostGraph, read_archive, write_archive

Outcome = Literal["added", "replaced", "known"]
FilesDone = Callable[[int, str], None]
"""Called with how many files are done, and the path of the next one."""
_PARTS = ("cost_graph_node", "cost_graph_edge", "cost_graph_configuration")


def archives_of(source: Path) -> list[tuple[Path, str]]:
    """List the npz files of a folder, or the one file, each with its path in the data set.

    Raises ArchiveError where there is none.
    """
    if source.is_file():
        return [(source, source.name)]
    files = sorted(file for file in source.rglob("*.npz") if file.is_file())
    if not files:
        raise ArchiveError(f"{source} holds no npz file: name a folder of TpuGraphs' files, or one")
    return [(file, file.relative_to(source).as_posix()) for file in files]


def import_archives(
    catalog: Catalog, source: Path, progress: FilesDone | None = None
) -> dict[Outcome, int]:
    """Store the graphs of a folder or file, all of them or none; return how many were new.

    A file whose path is known replaces what was stored of it. Raises ArchiveError.
    """
    outcomes: dict[Outcome, int] = {"added": 0, "replaced": 0, "known": 0}
    with catalog.transaction():
        for graph in read_archives(source):
            if progress is not None:
                progress(sum(outcomes.values()), graph.path)
            outcomes[store_cost_graph(catalog, graph)] += 1
    return outcomes


def read_archives(source: Path) -> Iterator[CostGraph]:
    """Yield the graphs of a folder, of a zip file of npz files, or of one npz file.

    Raises ArchiveError where there is none, or one is damaged.
    """
    if source.suffix != ".zip":
        for file, name in archives_of(source):
            yield read_archive(file, name)
        return
    try:
        with zipfile.ZipFile(source) as packed:
            members = [info for info in packed.infolist() if info.filename.endswith(".npz")]
            if not members:
                raise ArchiveError(f"{source} holds no npz file: name one of TpuGraphs' files")
            room = available_memory_bytes() // 2
            for info in sorted(members, key=lambda info: info.filename):
                if info.file_size > room:
                    raise ArchiveError(
                        f"{source}: {info.filename} has {info.file_size:,} bytes, and {room:,} "
                        "bytes of memory may be used: read it on a larger machine"
                    )
                content = packed.read(info)
                yield read_archive(source / info.filename, info.filename, content)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ArchiveError(
            f"{source} is no zip file, or is damaged ({error}): get it again"
        ) from error


def store_cost_graph(catalog: Catalog, graph: CostGraph) -> Outcome:
    """Store a graph in the place of what its path held before."""
    catalog.check_writable()
    older = catalog.connection.execute(
        "SELECT graph_hash FROM cost_graph WHERE path = ?", [graph.path]
    ).fetchall()
    if (graph.hash,) in older:
        return "known"
    with catalog.transaction():
        for (key,) in older:
            for table in (*_PARTS, "cost_graph"):
                catalog.connection.execute(f"DELETE FROM {table} WHERE graph_hash = ?", [key])
        _insert(catalog, graph)
    return "replaced" if older else "added"


def load_cost_graphs(catalog: Catalog) -> Iterator[CostGraph]:
    """Yield the graphs of the catalog in the order of their paths, of each path the newest.

    Catalogs that were merged may hold several of a path.
    """
    rows = catalog.connection.execute(
        "SELECT graph_hash, path, arrays, splits FROM cost_graph QUALIFY row_number() OVER"
        " (PARTITION BY path ORDER BY stored_at DESC, graph_hash) = 1 ORDER BY path"
    ).fetchall()
    for key, path, described, splits in rows:
        yield _load(catalog, key, path, json.loads(described), splits)


def export_archives(
    graphs: Iterable[CostGraph], folder: Path, progress: FilesDone | None = None
) -> list[Path]:
    """Write each graph to its path below a folder, a file whole or not at all; return the files.

    Raises ArchiveError for a path that leads out of the folder, as a stranger's catalog may have.
    """
    written: list[Path] = []
    for graph in graphs:
        parts = PurePosixPath(graph.path).parts
        named = [part for part in parts if part not in ("..", ".", "/")]
        if (
            len(named) != len(parts)
            or not graph.path.endswith(".npz")
            or set(":\\") & set(graph.path)
        ):
            raise ArchiveError(f"the path {graph.path!r} of a graph names no npz file in a folder")
        file = folder.joinpath(*parts)
        if progress is not None:
            progress(len(written), graph.path)
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as opened:
            write_archive(graph, opened)
        written.append(file)
    return written


def _insert(catalog: Catalog, graph: CostGraph) -> None:
    arrays = graph.arrays
    nodes, edges = len(arrays["node_opcode"]), len(arrays["edge_index"])
    described = {name: [array.dtype.str, array.shape] for name, array in arrays.items()}
    splits = arrays.get("node_splits")
    catalog.insert(
        "cost_graph",
        {
            "graph_hash": [graph.hash],
            "path": [graph.path],
            "collection": [graph.collection],
            "arrays": [json.dumps(described)],
            "splits": [None if splits is None else splits.ravel().tolist()],
            "stored_at": [datetime.datetime.now(datetime.UTC).replace(tzinfo=None)],
        },
    )
    places = np.full(nodes, -1, np.int64)
    ids = arrays.get("node_config_ids", np.empty(0, np.int64))
    places[ids] = np.arange(len(ids))
    catalog.insert(
        "cost_graph_node",
        {
            "graph_hash": [graph.hash] * nodes,
            "position": pa.array(np.arange(nodes, dtype=np.int32)),
            "opcode": pa.array(arrays["node_opcode"].astype(np.int32)),
            "features": _lists(arrays["node_feat"]),
            "configurable": pa.array(places.astype(np.int32), mask=places < 0),
        },
    )
    catalog.insert(
        "cost_graph_edge",
        {
            "graph_hash": [graph.hash] * edges,
            "position": pa.array(np.arange(edges, dtype=np.int32)),
            "consumer": pa.array(arrays["edge_index"][:, 0].astype(np.int32)),
            "producer": pa.array(arrays["edge_index"][:, 1].astype(np.int32)),
        },
    )
    features = arrays["config_feat" if graph.collection == "tile" else "node_config_feat"]
    count = len(features)
    normalizers = arrays.get("config_runtime_normalizers")
    catalog.insert(
        "cost_graph_configuration",
        {
            "graph_hash": [graph.hash] * count,
            "position": pa.array(np.arange(count, dtype=np.int32)),
            "features": _lists(features.reshape(count, math.prod(features.shape[1:]))),
            "runtime_ns": pa.array(arrays["config_runtime"].astype(np.int64)),
            "normalizer_ns": pa.nulls(count, pa.int64())
            if normalizers is None
            else pa.array(normalizers.astype(np.int64)),
        },
    )


def _lists(rows: Array) -> pa.ListArray:
    """Return the rows of a matrix as an Arrow array of lists."""
    offsets = np.arange(0, rows.size + 1, max(rows.shape[1], 1), dtype=np.int32)
    if not rows.shape[1]:
        offsets = np.zeros(len(rows) + 1, dtype=np.int32)
    flat = pa.array(np.ascontiguousarray(rows, np.float32).ravel())
    return pa.ListArray.from_arrays(pa.array(offsets), flat)


def _load(
    catalog: Catalog, key: str, path: str, described: dict[str, Any], splits: list[int] | None
) -> CostGraph:
    columns = {
        table: catalog.sql(
            f"SELECT * EXCLUDE (graph_hash) FROM {table} WHERE graph_hash = ? ORDER BY position",
            [key],
        ).to_arrow_table()
        for table in _PARTS
    }
    node, edge, configuration = (columns[table] for table in _PARTS)
    places = node["configurable"].to_pylist()
    configurable = {place: number for number, place in enumerate(places) if place is not None}
    values: dict[str, Array] = {
        "node_feat": _flat(node["features"]),
        "node_opcode": node["opcode"].to_numpy(),
        "edge_index": np.stack([edge["consumer"].to_numpy(), edge["producer"].to_numpy()], 1),
        "node_config_ids": np.array([configurable[place] for place in sorted(configurable)]),
        "node_config_feat": _flat(configuration["features"]),
        "config_feat": _flat(configuration["features"]),
        "config_runtime": configuration["runtime_ns"].to_numpy(),
        "node_splits": np.array(splits or []),
    }
    if "config_runtime_normalizers" in described:
        values["config_runtime_normalizers"] = configuration["normalizer_ns"].to_numpy()
    try:
        arrays = {
            name: values[name].astype(dtype).reshape(shape)
            for name, (dtype, shape) in described.items()
        }
        return CostGraph(path, arrays)
    except (ArchiveError, ValueError, TypeError, KeyError) as error:
        raise ArchiveError(
            f"the rows of the graph {path} in {catalog.path} do not fit together ({error}): "
            "import its file again"
        ) from error


def _flat(lists: pa.ChunkedArray) -> Array:
    """Return the numbers of all lists one after the other."""
    return np.concatenate(
        [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in lists.chunks]
        or [np.empty(0, np.float32)]
    )
