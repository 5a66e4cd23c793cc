"""Content-addressed tensors: equal ones are one row; large ones stay in the files they came in."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import onnx
import onnx.numpy_helper
import pyarrow as pa
from google.protobuf.message import DecodeError

from ..errors import CatalogError, ModelError
from ..tensors import data_bytes, dtype_name, size_bytes, to_array

if TYPE_CHECKING:
    from .catalog import Catalog

LARGE_BYTES = 1 << 16  # constants above stay in their file
# What is raised by rows that name nothing, are missing, or hold bytes that are something else.
_UNSOUND = (
    DecodeError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
_CHUNK_BYTES = 4 << 20
_INSERT_ROWS = 1000  # of at most 64 KiB each: Arrow copies what it inserts


@dataclass(frozen=True)
class Constant:
    """A row of the constant table: the bytes are `data`, or lie in `location`."""

    constant_hash: str
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int
    data: bytes | None
    location: str | None = None
    location_offset: int | None = None

    @classmethod
    def of_bytes(cls, dtype: str, shape: Iterable[int], data: bytes) -> Constant:
        """Make the constant of bytes in memory."""
        dims = tuple(shape)
        return cls(hash_of(dtype, dims, [data]), dtype, dims, len(data), data)

    @classmethod
    def in_file(
        cls, dtype: str, shape: Iterable[int], file: IO[bytes], location: str, offset: int
    ) -> Constant:
        """Make the constant of bytes in an open file; they are read once, for the hash."""
        dims = tuple(shape)
        size = size_bytes(dtype, dims)
        digest = hash_of(dtype, dims, read_chunks(file, offset, size))
        return cls(digest, dtype, dims, size, None, location, offset)


def hash_of(dtype: str, shape: Sequence[int], chunks: Iterable[bytes | memoryview]) -> str:
    """Return the SHA-256, in hexadecimal, of element type, shape and little-endian bytes."""
    digest = hashlib.sha256(f"{dtype}{list(shape)}\n".encode())
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()


def read_chunks(file: IO[bytes], offset: int, size: int) -> Iterator[memoryview]:
    """Yield bytes of a file through one buffer. Raises EOFError when the file is too short."""
    buffer = memoryview(bytearray(min(size, _CHUNK_BYTES)))
    file.seek(offset)
    while size:
        count = file.readinto(buffer[: min(size, len(buffer))])  # type: ignore[attr-defined]
        if not count:
            raise EOFError
        yield buffer[:count]
        size -= count


@contextmanager
def sound_rows(catalog: Catalog, subject: str) -> Iterator[None]:
    """Turn what rows raise that no release of tensolog writes into a CatalogError."""
    try:
        yield
    except _UNSOUND as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise CatalogError(
            f"{subject} of the catalog {catalog.path} is damaged ({reason}): import the model again"
        ) from error


def add_constant(catalog: Catalog, array: npt.NDArray[np.generic] | onnx.TensorProto) -> str:
    """Store a tensor and return its hash; an array of objects is one of strings.

    Raises ModelError for a TensorProto whose data doesn't fit its type and shape.
    """
    if isinstance(array, onnx.TensorProto):
        tensor = array
    else:
        tensor = onnx.numpy_helper.from_array(np.asarray(array))
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        raise ModelError(f"tensor {tensor.name!r} has its data elsewhere: load it first")
    data, _ = data_bytes(tensor)
    constant = Constant.of_bytes(dtype_name(tensor.data_type), tensor.dims, data)
    store_constants(catalog, [constant])
    return constant.constant_hash


def store_constants(catalog: Catalog, constants: Iterable[Constant]) -> None:
    """Store constants that are not there yet; one in a file moves to the place seen last."""
    unique = {item.constant_hash: spooled(catalog, item) for item in constants}
    rows_of = list(unique.values())
    for start in range(0, len(rows_of), _INSERT_ROWS):
        _store_part(catalog, rows_of[start : start + _INSERT_ROWS])


def spooled(catalog: Catalog, constant: Constant) -> Constant:
    """Return the constant, with its bytes moved to the catalog's spool file if they are many."""
    if constant.data is None or constant.size_bytes <= LARGE_BYTES:
        return constant
    offset = spool_constant(catalog, constant.constant_hash, [constant.data])
    location = catalog.spool.location
    return replace(constant, data=None, location=location, location_offset=offset)


def spool_constant(
    catalog: Catalog, constant_hash: str, chunks: Iterable[bytes | memoryview]
) -> int:
    """Write the bytes of a constant to the catalog's spool file, once; return where they start."""
    catalog.check_writable()
    spool = catalog.spool
    if spool.offsets is None:
        rows = catalog.connection.execute(
            "SELECT constant_hash, location_offset FROM constant WHERE location = ?",
            [spool.location],
        ).fetchall()
        there = spool.location is not None and Path(spool.location).exists()
        spool.offsets = dict(rows) if there else {}
    if constant_hash not in spool.offsets:
        spool.offsets[constant_hash] = spool.append(chunks)
    return spool.offsets[constant_hash]


def _store_part(catalog: Catalog, constants: list[Constant]) -> None:
    rows = pa.table(
        {
            "constant_hash": pa.array([item.constant_hash for item in constants], pa.string()),
            "dtype": pa.array([item.dtype for item in constants], pa.string()),
            "shape": pa.array([item.shape for item in constants], pa.list_(pa.int64())),
            "size_bytes": pa.array([item.size_bytes for item in constants], pa.int64()),
            "data": pa.array([item.data for item in constants], pa.large_binary()),
            "location": pa.array([item.location for item in constants], pa.string()),
            "location_offset": pa.array([item.location_offset for item in constants], pa.int64()),
        }
    )
    catalog.check_writable()
    catalog.connection.register("tensolog_rows", rows)
    try:
        # The old place of bytes in a file may be gone; what was read just now is there.
        catalog.connection.execute(
            "INSERT INTO constant SELECT * FROM tensolog_rows ON CONFLICT DO UPDATE SET "
            "data = excluded.data, location = excluded.location, "
            "location_offset = excluded.location_offset WHERE constant.data IS NULL"
        )
    finally:
        catalog.connection.unregister("tensolog_rows")
    for item in constants:
        if item.location is not None:
            catalog.verified[item.constant_hash] = _stamp(catalog, item.location)


def constant_rows(
    catalog: Catalog, hashes: Iterable[str], *, data_below: int | None = None
) -> dict[str, Constant]:
    """Return rows by hash, without data where it has `data_below` bytes or more.

    Raises CatalogError for a hash that is not in the catalog.
    """
    ordered_hashes = sorted(set(hashes))
    limit = "data"
    if data_below is not None:
        limit = f"CASE WHEN size_bytes < {int(data_below)} THEN data END"
    with sound_rows(catalog, "a constant"):
        return _constant_rows(catalog, ordered_hashes, limit)


def _constant_rows(catalog: Catalog, hashes: list[str], limit: str) -> dict[str, Constant]:
    constants = {
        row[0]: Constant(row[0], row[1], tuple(row[2]), *row[3:])
        for row in catalog.connection.execute(
            f"SELECT constant_hash, dtype, shape, size_bytes, {limit}, location, location_offset "
            "FROM constant WHERE constant_hash IN (SELECT unnest(?::VARCHAR[]))",
            [hashes],
        ).fetchall()
    }
    for missing in (item for item in hashes if item not in constants):
        raise CatalogError(f"the catalog {catalog.path} has no constant {missing}")
    return constants


def load_constant(catalog: Catalog, constant_hash: str) -> npt.NDArray[np.generic]:
    """Return a constant as a read-only array, memory-mapped where it lies in a file.

    bfloat16, float8 and the 4-bit types are those of ml_dtypes; strings are objects. Raises
    CatalogError when the hash is unknown, or the file it lies in is gone or has changed.
    """
    constant = constant_rows(catalog, [constant_hash])[constant_hash]
    with sound_rows(catalog, f"constant {constant_hash}"):
        if constant.location is None:
            return to_array(constant.dtype, constant.shape, constant.data or b"")
        verify_location(catalog, constant)
        mapped = np.memmap(
            constant.location,
            np.uint8,
            mode="r",
            offset=constant.location_offset or 0,
            shape=(constant.size_bytes,),
        )
        return to_array(constant.dtype, constant.shape, mapped)


def constant_chunks(catalog: Catalog, constant: Constant) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a constant in parts. Raises CatalogError as `load_constant` does."""
    if constant.location is not None:
        verify_location(catalog, constant)
        with Path(constant.location).open("rb", buffering=0) as file:
            yield from read_chunks(file, constant.location_offset or 0, constant.size_bytes)
    else:
        row = constant
        if constant.data is None:
            row = constant_rows(catalog, [constant.constant_hash])[constant.constant_hash]
        yield row.data or b""


def constant_bytes(catalog: Catalog, constant: Constant) -> bytes:
    """Return the bytes of a constant. Raises CatalogError as `load_constant` does."""
    return b"".join(bytes(chunk) for chunk in constant_chunks(catalog, constant))


def verify_location(catalog: Catalog, constant: Constant) -> None:
    """Check size and hash of a constant in a file, once a process as long as the file stays."""
    assert constant.location is not None
    stamp = _stamp(catalog, constant.location)
    if stamp is not None and catalog.verified.get(constant.constant_hash) == stamp:
        return
    name = constant.location
    if stamp is not None and not Path(name).is_file():  # a pipe would be waited for
        raise CatalogError(f"{name}, which should hold weights of the model, is no regular file")
    try:
        with sound_rows(catalog, "a constant"), Path(name).open("rb", buffering=0) as file:
            actual = hash_of(
                constant.dtype,
                constant.shape,
                read_chunks(file, constant.location_offset or 0, constant.size_bytes),
            )
    except OSError as error:
        raise CatalogError(
            f"{name}, which holds weights of the model, can't be read "
            f"({error.strerror or error}): put it back, or import the model again"
        ) from error
    except EOFError:
        actual = ""
    if actual != constant.constant_hash:
        raise CatalogError(
            f"{name}, which holds weights of the model, has changed since it was imported: "
            "import the model again"
        )
    catalog.verified[constant.constant_hash] = stamp


def move_constants(
    catalog: Catalog,
    constants: Iterable[Constant],
    places: Mapping[str, tuple[Path, int]],
    replaced: Iterable[Path],
) -> None:
    """Follow constants whose file was just replaced to where they lie now: file and offset."""
    gone = {str(path.absolute()) for path in replaced}
    moved = [
        (item.constant_hash, str(path.absolute()), offset)
        for item in constants
        if item.location in gone
        for path, offset in [places[item.constant_hash]]
    ]
    if catalog.read_only:
        return
    with catalog.transaction():
        for constant_hash, location, offset in moved:
            catalog.connection.execute(
                "UPDATE constant SET location = ?, location_offset = ? WHERE constant_hash = ?",
                [location, offset, constant_hash],
            )
            catalog.verified[constant_hash] = _stamp(catalog, location)


def _stamp(catalog: Catalog, location: str) -> tuple[str, int, int, int] | None:
    """Return what changes when a file does; the spool file only grows."""
    try:
        state = os.stat(location)  # noqa: PTH116 - a name, not a Path, for speed
    except OSError:
        return None
    if location == catalog.spool.location:
        return location, state.st_ino, 0, 0
    return location, state.st_ino, state.st_size, state.st_mtime_ns
