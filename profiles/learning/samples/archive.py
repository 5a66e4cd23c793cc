"""TpuGraphs' files: a graph, its configurations and their measured times, as arrays of one npz.

Its layout collection holds a configuration of each node that has one, its tile collection one of a
whole kernel. Source: Phothilimthana et al., TpuGraphs, arXiv 2308.13490, and its data's README.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from ....catalog.errors import TensologError
from ...machine import available_memory_bytes

Array = np.ndarray[Any, Any]
Collection = Literal["layout", "tile"]

# Every array of a collection: its dimensions by name, and whether it holds integers. A dimension
# of one name has one size; a number is the size itself.
_GRAPH: dict[str, tuple[tuple[str | int, ...], bool]] = {
    "node_feat": (("nodes", "node features"), False),
    "node_opcode": (("nodes",), True),
    "edge_index": (("edges", 2), True),
}
_ARRAYS: dict[Collection, dict[str, tuple[tuple[str | int, ...], bool]]] = {
    "layout": _GRAPH
    | {
        "node_config_ids": (("configurable nodes",), True),
        "node_config_feat": (
            ("configurations", "configurable nodes", "configuration features"),
            False,
        ),
        "config_runtime": (("configurations",), True),
        "node_splits": ((1, "splits"), True),
    },
    "tile": _GRAPH
    | {
        "config_feat": (("configurations", "configuration features"), False),
        "config_runtime": (("configurations",), True),
        "config_runtime_normalizers": (("configurations",), True),
    },
}
_OPTIONAL = frozenset({"node_splits"})
_CHUNK = 1 << 20


class ArchiveError(TensologError):
    """A file is not one of TpuGraphs', or is damaged."""


@dataclass(frozen=True)
class CostGraph:
    """A graph whose configurations were timed, with the arrays of its file by their names.

    `path` is where the file lies in its data set, with slashes. Of n nodes, m edges, c
    configurations: node_feat (n, f) floats, node_opcode (n), edge_index (m, 2) with [u, v] where u
    reads v, config_runtime (c) in ns; a layout's node_config_ids (k), node_config_feat (c, k, f)
    and perhaps node_splits (1, s); a tile's config_feat (c, f) and config_runtime_normalizers (c).
    Raises ArchiveError for arrays that do not fit together.
    """

    path: str
    arrays: Mapping[str, Array]

    def __post_init__(self) -> None:
        try:
            self.path.encode()
        except UnicodeEncodeError as error:
            raise ArchiveError(f"its name {self.path!r} is no UTF-8: rename it") from error
        _check_types(self.collection, self.arrays)
        _check_values(self.arrays, _check_shapes(self.collection, self.arrays))

    @property
    def collection(self) -> Collection:
        """Whether nodes are configured (layout), or the kernel as a whole (tile)."""
        return "tile" if "config_feat" in self.arrays else "layout"

    @cached_property
    def hash(self) -> str:
        """SHA-256, in hexadecimal, of its path and all arrays."""
        digest = hashlib.sha256(self.path.encode())
        for name in sorted(self.arrays):
            array = np.ascontiguousarray(self.arrays[name])
            digest.update(f"|{name} {array.dtype.str} {array.shape}|".encode())
            digest.update(array.data if array.size else b"")
        return digest.hexdigest()


def read_archive(path: Path, name: str | None = None, content: bytes | None = None) -> CostGraph:
    """Read a file of TpuGraphs; `name` is its path in the data set, by default that of the file.

    `content` is what the file holds, where it does not lie in a folder. Nothing in it is executed:
    arrays of Python objects are refused. Raises ArchiveError for what is damaged or of another
    format, OSError for what can't be read.
    """
    name = path.name if name is None else name
    try:
        with zipfile.ZipFile(path if content is None else io.BytesIO(content)) as file:
            arrays = _read_arrays(path, file)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ArchiveError(
            f"{path} is no npz file, or is damaged ({error or 'it ends early'}): get it again"
        ) from error
    try:
        return CostGraph(name, arrays)
    except ArchiveError as error:
        raise ArchiveError(f"{path}: {error}") from error


def write_archive(graph: CostGraph, file: IO[bytes]) -> None:
    """Write a graph as TpuGraphs does: the same arrays give the same bytes."""
    np.savez_compressed(file, allow_pickle=False, **graph.arrays)


def _read_arrays(path: Path, file: zipfile.ZipFile) -> dict[str, Array]:
    members = {info.filename: info for info in file.infolist()}
    array_files = {f"{name}.npy" for arrays in _ARRAYS.values() for name in arrays}
    if unknown := sorted(set(members) - array_files):
        raise ArchiveError(f"{path} holds {unknown[0]!r}, which is no array of TpuGraphs' format")
    if len(members) != len(file.infolist()):
        raise ArchiveError(f"{path} holds an array twice: get it again")
    size, room = sum(info.file_size for info in members.values()), available_memory_bytes() // 2
    if size > room:
        raise ArchiveError(
            f"{path} has {size:,} bytes of arrays, and {room:,} bytes of memory may be used: "
            "read it on a larger machine"
        )
    return {name.removesuffix(".npy"): _read_array(path, file, members[name]) for name in members}


def _read_array(path: Path, file: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    """Read one array, whose header is compared with the bytes there are before any is reserved."""
    broken = f"{path}: {info.filename} is damaged: get it again"
    with file.open(info) as stream:
        content = bytearray()
        while chunk := stream.read(_CHUNK):
            content += chunk
            if len(content) > info.file_size:
                raise ArchiveError(broken)
    header = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(header)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, fortran, dtype = read(header)
    except (ValueError, KeyError) as error:
        raise ArchiveError(broken) from error
    if dtype.hasobject or dtype.kind not in "iuf":
        raise ArchiveError(f"{path}: {info.filename} holds {dtype}, not numbers: get it again")
    start = header.tell()
    count = 1
    for length in shape:
        count *= length
    if min(shape, default=0) < 0 or start + count * dtype.itemsize != len(content):
        raise ArchiveError(broken)
    flat = np.frombuffer(content, dtype, offset=start)
    return flat.reshape(shape, order="F" if fortran else "C")


def _check_types(collection: Collection, arrays: Mapping[str, Array]) -> None:
    expected = _ARRAYS[collection]
    for name in expected:
        if name not in arrays and name not in _OPTIONAL:
            raise ArchiveError(
                f"it has no array {name}: a file of TpuGraphs' {collection} collection has "
                f"{', '.join(expected)}"
            )
    for name, array in arrays.items():
        if name not in expected:
            raise ArchiveError(f"the array {name} does not belong to the {collection} collection")
        _, whole = expected[name]
        if whole and (array.dtype.kind not in "iu" or array.dtype == np.uint64):
            raise ArchiveError(f"{name} holds {array.dtype}, and has to hold integers")
        if not whole and array.dtype != np.float32:
            raise ArchiveError(f"{name} holds {array.dtype}, and has to hold float32")


def _check_shapes(collection: Collection, arrays: Mapping[str, Array]) -> dict[str | int, int]:
    """Return the size of each dimension by its name."""
    sizes: dict[str | int, int] = {1: 1, 2: 2}
    origin: dict[str | int, str] = {}
    for name, array in arrays.items():
        dimensions, _ = _ARRAYS[collection][name]
        if array.ndim != len(dimensions):
            raise ArchiveError(f"{name} has {array.ndim} dimensions, not {len(dimensions)}")
        for dimension, size in zip(dimensions, array.shape, strict=True):
            if sizes.setdefault(dimension, size) != size:
                where = f" as {origin[dimension]} has" if dimension in origin else ""
                label = f" {dimension}" if isinstance(dimension, str) else ""
                raise ArchiveError(
                    f"{name} has shape {array.shape}, and not {sizes[dimension]}{label}{where}"
                )
            origin.setdefault(dimension, name)
    return sizes


def _check_values(arrays: Mapping[str, Array], sizes: Mapping[str | int, int]) -> None:
    nodes = sizes["nodes"]
    for name, most in (
        ("edge_index", nodes - 1),
        ("node_config_ids", nodes - 1),
        ("node_splits", nodes),
        ("node_opcode", 2**31 - 1),
    ):
        array = arrays.get(name)
        if array is not None and array.size and not 0 <= array.min() <= array.max() <= most:
            raise ArchiveError(
                f"{name} has {array.min()} to {array.max()}, and has to lie in 0 to {most}"
            )
    for name in ("node_feat", "node_config_feat", "config_feat"):
        if name in arrays and not np.isfinite(arrays[name]).all():
            raise ArchiveError(f"{name} has numbers that are not finite")
    for name in ("config_runtime", "config_runtime_normalizers"):
        if name in arrays and arrays[name].size and arrays[name].min() <= 0:
            raise ArchiveError(f"{name} has {arrays[name].min()}, and times are above 0")
    ids = arrays.get("node_config_ids")
    if ids is not None and len(np.unique(ids)) != len(ids):
        raise ArchiveError("node_config_ids names a node twice")
