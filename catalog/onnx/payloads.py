"""The bytes of a model's tensors: found wherever they lie, checked, and made constants."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

import onnx

from ..errors import ModelError
from ..store.catalog import Catalog
from ..store.constants import LARGE_BYTES, Constant, constant_bytes, constant_rows, spooled
from ..tensors import (
    CONSTANT_KEY,
    RESERVED,
    STORAGE_KEY,
    data_bytes,
    dtype_name,
    entry,
    is_external,
    model_tensors,
    refer,
    size_bytes,
)
from .source import SPAN_KEY, Source


@dataclass
class TensorPayload:
    """A tensor of a model, the constant that it is, and where its bytes stood."""

    tensor: onnx.TensorProto
    constant: Constant
    storage: str  # raw, typed, verbatim, external, or reference: it is one already
    new: bool = True

    def refer(self) -> None:
        """Turn the tensor into a reference to its constant."""
        if self.storage == "reference":
            return
        kept = [item for item in self.tensor.external_data if item.key != SPAN_KEY]
        if len(kept) < len(self.tensor.external_data):
            del self.tensor.external_data[:]
            self.tensor.external_data.extend(kept)
        refer(self.tensor, self.constant.constant_hash, self.storage)


def find_payloads(catalog: Catalog, source: Source, *, references: bool) -> list[TensorPayload]:
    """Return the payload of each tensor, in the order of `model_tensors`.

    `references`: whether tensors may refer to constants of the catalog. Raises ModelError for data
    that is missing, does not fit its shape, or lies outside the model's folder.
    """
    payloads: list[TensorPayload] = []
    referring: list[onnx.TensorProto] = []
    for tensor in model_tensors(source.model):
        if any(size < 0 for size in tensor.dims):
            raise ModelError(f"tensor {tensor.name!r} has a negative size: {list(tensor.dims)}")
        if not tensor.external_data and not is_external(tensor):
            payloads.append(_inline(catalog, tensor))
            continue
        if any(
            isinstance(text, bytes)
            for pair in tensor.external_data
            for text in (pair.key, pair.value)
        ):
            raise ModelError(f"external data of tensor {tensor.name!r} is described by no UTF-8")
        reserved = {item.key for item in tensor.external_data if item.key.startswith(RESERVED)}
        if SPAN_KEY in reserved:
            payloads.append(_in_span(catalog, source, tensor))
        elif references and CONSTANT_KEY in reserved:
            referring.append(tensor)
            placeholder = Constant("", "", (), 0, None)
            payloads.append(TensorPayload(tensor, placeholder, "reference", new=False))
        elif reserved:
            raise ModelError(
                f"tensor {tensor.name!r} has external data of the reserved key {min(reserved)}"
            )
        elif is_external(tensor):
            payloads.append(_in_other_file(source, tensor))
        else:
            payloads.append(_inline(catalog, tensor))
    if referring:
        rows = constant_rows(
            catalog, (entry(tensor, CONSTANT_KEY) or "" for tensor in referring), data_below=0
        )
        for item in payloads:
            if item.storage == "reference":
                item.constant = _referred(item.tensor, rows)
    return payloads


def _inline(catalog: Catalog, tensor: onnx.TensorProto) -> TensorPayload:
    data, storage = data_bytes(tensor)
    constant = Constant.of_bytes(dtype_name(tensor.data_type), tensor.dims, data)
    return TensorPayload(tensor, spooled(catalog, constant), storage)


def _in_span(catalog: Catalog, source: Source, tensor: onnx.TensorProto) -> TensorPayload:
    marks = [item.value for item in tensor.external_data if item.key == SPAN_KEY]
    if len(marks) > 1:
        raise ModelError(f"tensor {tensor.name!r} has raw_data twice")
    span = source.span(marks[0])
    dtype = dtype_name(tensor.data_type)
    if dtype in ("string", "undefined"):
        raise ModelError(f"tensor {tensor.name!r} of element type {dtype} has raw_data")
    expected = size_bytes(dtype, tensor.dims)
    if span.length != expected:
        raise ModelError(
            f"tensor {tensor.name!r} of shape {list(tensor.dims)} ({dtype}) needs {expected} "
            f"bytes and has {span.length}"
        )
    if source.path is not None:
        try:
            with source.path.open("rb", buffering=0) as file:
                constant = Constant.in_file(dtype, tensor.dims, file, str(source.path), span.offset)
        except EOFError:
            raise ModelError(f"{source.path} became shorter while it was read") from None
    else:
        constant = spooled(catalog, Constant.of_bytes(dtype, tensor.dims, source.data(marks[0])))
    return TensorPayload(tensor, constant, "raw")


def _referred(tensor: onnx.TensorProto, rows: dict[str, Constant]) -> Constant:
    constant = rows[entry(tensor, CONSTANT_KEY) or ""]
    dtype = dtype_name(tensor.data_type)
    if (dtype, tuple(tensor.dims)) != (constant.dtype, constant.shape):
        raise ModelError(
            f"tensor {tensor.name!r} is {dtype}{list(tensor.dims)} but refers to a constant "
            f"{constant.dtype}{list(constant.shape)}"
        )
    if entry(tensor, STORAGE_KEY) is None:
        tensor.external_data.add(key=STORAGE_KEY, value="raw")
    return constant


def _in_other_file(source: Source, tensor: onnx.TensorProto) -> TensorPayload:
    name = tensor.name
    dtype = dtype_name(tensor.data_type)
    if dtype in ("string", "undefined"):
        raise ModelError(f"tensor {name!r} of element type {dtype} has external data")
    if source.path is None:
        raise ModelError(
            f"tensor {name!r} has external data: give the path of the model, not its bytes"
        )
    expected = size_bytes(dtype, tensor.dims)
    path = _external_path(source.path, tensor)
    offset = _number(tensor, "offset", 0)
    length = _number(tensor, "length", expected)
    if length != expected:
        raise ModelError(
            f"tensor {name!r} of shape {list(tensor.dims)} ({dtype}) needs {expected} bytes, "
            f"its external data has {length}"
        )
    try:
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):
            raise ModelError(f"{path}, external data of tensor {name!r}, is not a file")
        if state.st_size < offset + length:
            raise ModelError(
                f"{path} is too short: tensor {name!r} needs bytes {offset} to {offset + length} "
                f"and it has {state.st_size}"
            )
        with path.open("rb", buffering=0) as file:
            if length > LARGE_BYTES:
                constant = Constant.in_file(dtype, tensor.dims, file, str(path), offset)
            else:
                file.seek(offset)
                constant = Constant.of_bytes(dtype, tensor.dims, file.read(length))
    except FileNotFoundError:
        raise ModelError(
            f"{path} does not exist: it holds the data of tensor {name!r}; put it beside the model"
        ) from None
    except EOFError:
        raise ModelError(f"{path} became shorter while it was read") from None
    except OSError as error:
        raise ModelError(
            f"{path}, external data of tensor {name!r}, can't be read: {error.strerror or error}"
        ) from error
    return TensorPayload(tensor, constant, "external")


def _external_path(model: Path, tensor: onnx.TensorProto) -> Path:
    location = entry(tensor, "location")
    if not location:
        raise ModelError(f"external data of tensor {tensor.name!r} names no file (location)")
    # A location of Windows must not escape on other systems, and the other way round.
    absolute = PurePosixPath(location).is_absolute() or PureWindowsPath(location).drive
    climbs = ".." in PurePosixPath(location).parts or ".." in PureWindowsPath(location).parts
    if absolute or climbs or location.startswith("\\") or "\0" in location:
        raise ModelError(
            f"external data of tensor {tensor.name!r} lies outside the model's folder: {location!r}"
        )
    path = model.parent / location
    # Links may lead from folder to folder below the model's, or, as in caches of downloads, from
    # beside a link to the model to beside the model itself.
    folders = (Path(os.path.realpath(model.parent)), Path(os.path.realpath(model)).parent)
    target = Path(os.path.realpath(path))  # links in a ring end somewhere, too
    if not any(target.is_relative_to(folder) for folder in folders):
        raise ModelError(
            f"external data of tensor {tensor.name!r} lies outside the model's folder: {location!r}"
            f" is a symbolic link to {target}; put a copy of the file there if that is meant"
        )
    return path


def _number(tensor: onnx.TensorProto, key: str, default: int) -> int:
    text = entry(tensor, key)
    if text is None:
        return default
    if not text.isdecimal():
        raise ModelError(f"external data of tensor {tensor.name!r} has {key} {text!r}")
    return int(text)


def with_small_data(
    catalog: Catalog, model: onnx.ModelProto, payloads: list[TensorPayload]
) -> onnx.ModelProto:
    """Return the model with small tensors inline: shape inference reads shapes and axes in them.

    It is the model itself where nothing is missing, and a copy otherwise.
    """
    absent = [
        index
        for index, item in enumerate(payloads)
        if is_external(item.tensor) and item.constant.size_bytes <= LARGE_BYTES
    ]
    if not absent:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    tensors = list(model_tensors(copy))
    for index in absent:
        constant = payloads[index].constant
        tensor = tensors[index]
        data = constant.data if constant.data is not None else constant_bytes(catalog, constant)
        tensor.ClearField("data_location")
        del tensor.external_data[:]
        if tensor.data_type != onnx.TensorProto.STRING:
            tensor.raw_data = data
    return copy
