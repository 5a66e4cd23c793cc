"""Rows into ONNX models, equal to those that were read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import onnx

from ..store.catalog import Catalog
from ..store.constants import constant_bytes, constant_rows
from ..tensors import CONSTANT_KEY, data_type, entry, fill, model_tensors, refer, unrefer
from .assembly import reference_models
from .model_files import write_model
from .side_file import make_inline, refer_to_side_file, referring

__all__ = [
    "build_model",
    "build_models",
    "constant_reference",
    "reference_of",
    "skeleton_model",
    "write_model",
]

INLINE_BYTES = 1 << 16  # `skeleton_model` leaves larger tensors as references


def build_model(
    catalog: Catalog,
    model_id: int,
    *,
    large_constants: Path | None = None,
    external_data: bool = True,
) -> onnx.ModelProto:
    """Return the model, equal to the one that was read.

    External data stays where it is, referred to as in the file, unless `external_data` is false:
    then all data is inside the message.

    With `large_constants`, constants above 64 KiB go to that side file as external data, once, and
    the model refers to them by the file's name. Raises CatalogError for an unknown model_id, or
    where a file that holds weights is gone or has changed.
    """
    if large_constants is not None:
        model = skeleton_model(catalog, model_id)
        refer_to_side_file(catalog, model, Path(large_constants))
        return model
    if not external_data:
        (model,) = reference_models(catalog, [model_id])
        for tensor, constant in referring(catalog, model):
            make_inline(catalog, tensor, constant)
        return model
    return build_models(catalog, [model_id])[0]


def build_models(catalog: Catalog, model_ids: Sequence[int]) -> list[onnx.ModelProto]:
    """Return many models with one query a table, as `build_model` does."""
    models = reference_models(catalog, model_ids)
    _fill(catalog, models, None)
    return models


def skeleton_model(
    catalog: Catalog, model_id: int, *, inline_bytes: int = INLINE_BYTES
) -> onnx.ModelProto:
    """Return the model with references in place of tensors above `inline_bytes`.

    A reference has type and shape but no data: `reference_of` gives the hash for `load_constant`.
    `store_model` takes such models back. Tensors in other files are references at any size.
    """
    models = reference_models(catalog, [model_id])
    _fill(catalog, models, inline_bytes)
    return models[0]


def reference_of(tensor: onnx.TensorProto) -> str | None:
    """Return the hash of the constant that a tensor refers to; None if it holds its own data."""
    return entry(tensor, CONSTANT_KEY)


def constant_reference(catalog: Catalog, constant_hash: str, name: str) -> onnx.TensorProto:
    """Return a tensor of that name that refers to a constant, for models given to `store_model`.

    Raises CatalogError for a hash that is not in the catalog.
    """
    constant = constant_rows(catalog, [constant_hash], data_below=0)[constant_hash]
    kind = data_type(constant.dtype)
    tensor = onnx.TensorProto(name=name, data_type=kind, dims=constant.shape)
    refer(tensor, constant_hash, "typed" if constant.dtype == "string" else "raw")
    return tensor


def _fill(catalog: Catalog, models: Iterable[onnx.ModelProto], inline: int | None) -> None:
    """Put data back into tensors, all of it or where it has at most `inline` bytes."""
    tensors = [item for model in models for item in model_tensors(model) if reference_of(item)]
    hashes = {reference_of(item) or "" for item in tensors}
    below = None if inline is None else inline + 1
    rows = constant_rows(catalog, hashes, data_below=below)
    for tensor in tensors:
        constant = rows[reference_of(tensor) or ""]
        external = entry(tensor, "location") is not None
        if inline is not None and (external or constant.size_bytes > inline):
            continue
        _, storage = unrefer(tensor)
        if storage in ("raw", "typed"):
            fill(tensor, constant.data or constant_bytes(catalog, constant), storage)
