"""Side files: constants as ONNX external data, written once and shared by several models."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import IO

import onnx

from ..errors import CatalogError
from ..store.catalog import Catalog
from ..store.constants import LARGE_BYTES, Constant, constant_bytes, constant_chunks, constant_rows
from ..tensors import CONSTANT_KEY, entry, fill, initializers_of, model_tensors, unrefer

ALIGNMENT = 4096  # runtimes map external data that starts at a page


def refer_to_side_file(catalog: Catalog, model: onnx.ModelProto, path: Path) -> None:
    """Write the constants that a skeleton refers to into `path`, and refer to them there.

    Constants that earlier calls of this process wrote to `path` are used again. Tensors of
    attributes get their data inline. Raises CatalogError for a file that something else made.
    """
    known = catalog.side_files.setdefault(str(path.absolute()), {})
    if path.exists() and not known:
        raise CatalogError(f"{path} exists already: give the name of a new file for the constants")
    referred = referring(catalog, model)
    initializers = {id(tensor) for tensor in initializers_of(model.graph)}
    missing = {
        constant.constant_hash: constant
        for tensor, constant in referred
        if id(tensor) in initializers and constant.constant_hash not in known
    }
    if missing:
        _append(catalog, path, list(missing.values()), known)
    for tensor, constant in referred:
        if id(tensor) in initializers:
            move_outside(tensor, path.name, known[constant.constant_hash], constant.size_bytes)
        else:
            make_inline(catalog, tensor, constant)


def referring(catalog: Catalog, model: onnx.ModelProto) -> list[tuple[onnx.TensorProto, Constant]]:
    """Return the references of a model and their constants, small ones with their bytes."""
    tensors = [tensor for tensor in model_tensors(model) if entry(tensor, CONSTANT_KEY)]
    hashes = [entry(tensor, CONSTANT_KEY) or "" for tensor in tensors]
    rows = constant_rows(catalog, hashes, data_below=LARGE_BYTES + 1)
    return [(tensor, rows[key]) for tensor, key in zip(tensors, hashes, strict=True)]


def _append(catalog: Catalog, path: Path, constants: list[Constant], known: dict[str, int]) -> None:
    start = path.stat().st_size if path.exists() else 0
    written: dict[str, int] = {}
    try:
        with path.open("ab") as file:
            written = write_constants(catalog, file, constants, start)
    except OSError as error:
        raise CatalogError(f"can't write {path}: {error.strerror or error}") from error
    finally:
        if len(written) < len(constants) and path.exists():
            with path.open("ab") as file:
                file.truncate(start)
    known.update(written)


def write_constants(
    catalog: Catalog, file: IO[bytes], constants: Iterable[Constant], position: int = 0
) -> dict[str, int]:
    """Write constants, each aligned to a page, and return where each one starts."""
    written: dict[str, int] = {}
    for constant in constants:
        if constant.constant_hash in written:
            continue
        padding = -position % ALIGNMENT
        file.write(bytes(padding))
        position += padding
        written[constant.constant_hash] = position
        for chunk in constant_chunks(catalog, constant):
            file.write(chunk)
        position += constant.size_bytes
    return written


def move_outside(tensor: onnx.TensorProto, location: str, offset: int, length: int) -> None:
    """Turn a reference into external data."""
    unrefer(tensor)
    del tensor.external_data[:]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))


def make_inline(catalog: Catalog, tensor: onnx.TensorProto, constant: Constant) -> None:
    """Turn a reference into a tensor that holds its data; what was external becomes raw_data."""
    _, storage = unrefer(tensor)
    if storage == "external":
        del tensor.external_data[:]
        tensor.ClearField("data_location")
        storage = "raw"
    if storage != "verbatim":
        fill(tensor, constant_bytes(catalog, constant), storage)
