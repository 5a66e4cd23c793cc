"""Models of the catalog as files: streamed, so that weights never fill the memory."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import IO

import onnx

from ..errors import ModelError
from ..files import replace_together, temporary_beside
from ..store.catalog import Catalog
from ..store.constants import LARGE_BYTES, Constant, constant_chunks, move_constants
from ..tensors import CONSTANT_KEY, STORAGE_KEY, entry, initializers_of, unrefer
from .assembly import reference_models
from .side_file import make_inline, move_outside, referring, write_constants
from .source import PROTOBUF_BYTES
from .wire import Payload, put_back

_STREAMED_BYTES = LARGE_BYTES
_OUTSIDE_BYTES = 1 << 10  # what external_data=True moves, as onnx.save does


def write_model(
    catalog: Catalog,
    model_id: int,
    path: str | Path,
    *,
    external_data: bool | None = None,
    outside_bytes: int | None = None,
) -> list[Path]:
    """Write a model as ONNX: the whole file appears, or none of it. Returns what was written.

    External data goes to PATH.data. By default tensors stay inside or outside as they were, but for
    initializers of at least `outside_bytes`, and go outside where the file would be over 2 GB;
    `external_data` says so for all. Raises ModelError where the file can't be written, CatalogError
    for an unknown model or weights that are gone.
    """
    path = Path(path)
    model, by_tensor, outside = _planned(catalog, model_id, external_data, outside_bytes, path)
    try:
        return _write(catalog, model, by_tensor, outside, path)
    except OSError as error:
        raise ModelError(f"can't write {path}: {error.strerror or error}") from error


TensorConstant = tuple[onnx.TensorProto, Constant]


def has_side_file(
    catalog: Catalog,
    model_id: int,
    *,
    external_data: bool | None,
    outside_bytes: int | None,
) -> bool:
    """Tell whether `write_model` would write a second file; ModelError where one can't hold all."""
    _, _, outside = _planned(catalog, model_id, external_data, outside_bytes, Path("the model"))
    return bool(outside)


def _planned(
    catalog: Catalog,
    model_id: int,
    external_data: bool | None,
    outside_bytes: int | None,
    path: Path,
) -> tuple[onnx.ModelProto, list[TensorConstant], set[int]]:
    """Return a model of references, its constants, and which tensors, by id, go outside."""
    (model,) = reference_models(catalog, [model_id])
    by_tensor = referring(catalog, model)
    outside = _outside(model, by_tensor, external_data, outside_bytes)
    inside = sum(constant.size_bytes for tensor, constant in by_tensor if id(tensor) not in outside)
    if inside + model.ByteSize() > PROTOBUF_BYTES:
        if external_data is False:
            raise ModelError(
                f"{path} would be over 2 GB, more than one ONNX file can hold: allow external data"
            )
        outside |= _initializers_above(model, by_tensor, _STREAMED_BYTES)
    return model, by_tensor, outside


def _outside(
    model: onnx.ModelProto,
    by_tensor: list[TensorConstant],
    external_data: bool | None,
    outside_bytes: int | None,
) -> set[int]:
    """Return which tensors, by id, go to the side file."""
    if external_data is False:
        return set()
    if external_data:
        return _initializers_above(model, by_tensor, _OUTSIDE_BYTES - 1)
    outside = {id(tensor) for tensor, _ in by_tensor if entry(tensor, STORAGE_KEY) == "external"}
    if outside_bytes is not None:
        outside |= _initializers_above(model, by_tensor, outside_bytes - 1)
    return outside


def _initializers_above(
    model: onnx.ModelProto, by_tensor: list[TensorConstant], limit: int
) -> set[int]:
    initializers = {id(tensor) for tensor in initializers_of(model.graph)}
    return {
        id(tensor)
        for tensor, constant in by_tensor
        if constant.size_bytes > limit
        and (id(tensor) in initializers or entry(tensor, STORAGE_KEY) == "external")
        and constant.dtype != "string"
        and not (entry(tensor, STORAGE_KEY) or "").startswith("verbatim")
    }


def _write(
    catalog: Catalog,
    model: onnx.ModelProto,
    by_tensor: list[TensorConstant],
    outside: set[int],
    path: Path,
) -> list[Path]:
    side = _side_of(path)
    moves: list[tuple[Path, Path]] = []
    places: dict[str, tuple[Path, int]] = {}
    with ExitStack() as stack:
        if outside:
            file, name = stack.enter_context(temporary_beside(side))
            constants = [constant for tensor, constant in by_tensor if id(tensor) in outside]
            offsets = write_constants(catalog, file, constants)
            file.close()
            moves.append((name, side))
            places.update({key: (side, offset) for key, offset in offsets.items()})
        for tensor, constant in by_tensor:
            if id(tensor) in outside:
                offset = offsets[constant.constant_hash]
                move_outside(tensor, side.name, offset, constant.size_bytes)
            elif constant.size_bytes <= _STREAMED_BYTES or not _streams(tensor):
                make_inline(catalog, tensor, constant)
        file, name = stack.enter_context(temporary_beside(path))
        rows = {constant.constant_hash: constant for _, constant in by_tensor}
        places.update(
            {key: (path, offset) for key, offset in _stream(catalog, model, rows, file).items()}
        )
        file.close()
        moves.append((name, path))
        replace_together(moves)
    written = [target for _, target in moves]
    move_constants(catalog, rows.values(), places, written)
    return written


def _side_of(path: Path) -> Path:
    return path.with_name(path.name + ".data")


def _streams(tensor: onnx.TensorProto) -> bool:
    storage = (entry(tensor, STORAGE_KEY) or "").partition(" ")[0]
    return storage in ("raw", "external")


def _stream(
    catalog: Catalog, model: onnx.ModelProto, rows: dict[str, Constant], file: IO[bytes]
) -> dict[str, int]:
    """Write the model with the data of its references and return where each constant starts."""

    def restore(serialized: bytes) -> tuple[bytes, Payload | None]:
        tensor = onnx.TensorProto()
        tensor.MergeFromString(serialized)
        if not entry(tensor, CONSTANT_KEY):
            return serialized, None
        constant_hash, storage = unrefer(tensor)
        if storage == "external":
            del tensor.external_data[:]
            tensor.ClearField("data_location")
        length = rows[constant_hash].size_bytes
        return tensor.SerializeToString(), Payload(constant_hash, length)

    pieces = put_back(model.SerializeToString(), CONSTANT_KEY.encode(), restore)
    offsets: dict[str, int] = {}
    position = 0
    for piece in pieces:
        if isinstance(piece, Payload):
            offsets[piece.key] = position
            for chunk in constant_chunks(catalog, rows[piece.key]):
                file.write(chunk)
            position += piece.length
        else:
            file.write(piece)
            position += len(piece)
    return offsets
