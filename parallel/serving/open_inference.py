"""Requests and answers of the Open Inference Protocol, version 2: JSON, and tensors as binary data.

Source: KServe's Open Inference Protocol, REST, and its extension for binary tensor data.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...catalog.errors import TensologError
from ..runnable_plan import Slot
from .instance import Array

HEADER = "Inference-Header-Content-Length"

_NAMES = {
    "bool": "BOOL", "float16": "FP16", "float32": "FP32", "float64": "FP64", "object": "BYTES",
    **{f"int{bits}": f"INT{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"UINT{bits}" for bits in (8, 16, 32, 64)},
}  # fmt: skip
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}
# What JSON may say for numbers of a kind of type.
_ACCEPTED = {"b": "b", "i": "iu", "u": "iu", "f": "iuf"}


class ProtocolError(TensologError, ValueError):
    """A request is not one of the protocol, or can't be answered in its form."""


@dataclass(frozen=True)
class InferenceRequest:
    """Feeds, the outputs that are asked for (all of them if None), and how they go back.

    `binary` names the outputs that go back as binary data.
    """

    feeds: dict[str, Array]
    names: list[str] | None
    binary: frozenset[str]
    everything_binary: bool
    request_id: str | None


def metadata(slots: Sequence[Slot]) -> list[dict[str, Any]]:
    """Describe inputs or outputs; a free size is -1."""
    return [
        {
            "name": slot.name,
            "datatype": _NAMES.get(slot.dtype, "BYTES"),
            "shape": [size if isinstance(size, int) else -1 for size in slot.shape],
        }
        for slot in slots
    ]


def read_request(body: bytes, header_length: str | None) -> InferenceRequest:
    """Read a request; `header_length` is what the header HEADER says, if it is there.

    Raises ProtocolError, in a line that says what is wrong with it.
    """
    values, binary = _divided(body, header_length)
    if not isinstance(values, dict) or not isinstance(values.get("inputs"), list):
        raise ProtocolError("a request is an object with a list of inputs")
    feeds: dict[str, Array] = {}
    place = 0
    for entry in values["inputs"]:
        name, dtype, shape = _described(entry)
        if name in feeds:
            raise ProtocolError(f"the input {name!r} is given twice")
        size = _parameters(entry).get("binary_data_size")
        if size is None:
            if "data" not in entry:
                raise ProtocolError(f"the input {name!r} has no data")
            feeds[name] = _of_json(name, dtype, shape, entry["data"])
            continue
        if type(size) is not int or size < 0 or place + size > len(binary):
            raise ProtocolError(f"the input {name!r} has binary data of {size} bytes: not there")
        feeds[name] = _of_bytes(name, dtype, shape, binary[place : place + size])
        place += size
    if place < len(binary):
        raise ProtocolError(f"{len(binary) - place} bytes of binary data belong to no input")
    outputs = values.get("outputs")
    if outputs is not None and not (
        isinstance(outputs, list)
        and all(isinstance(entry, dict) and isinstance(entry.get("name"), str) for entry in outputs)
    ):
        raise ProtocolError("outputs is a list of objects with a name")
    asked = outputs or []
    request_id = values.get("id")
    if request_id is not None and not (isinstance(request_id, str) and _is_text(request_id)):
        raise ProtocolError("the id of a request is a string")
    return InferenceRequest(
        feeds,
        [entry["name"] for entry in asked] or None,
        frozenset(e["name"] for e in asked if _parameters(e).get("binary_data") is True),
        _parameters(values).get("binary_data_output") is True,
        request_id,
    )


def write_answer(
    request: InferenceRequest, model: str, names: Sequence[str], outputs: Sequence[Array]
) -> tuple[bytes, int | None]:
    """Write outputs as the request asks for them; also the length of the JSON before binary data.

    Raises ProtocolError for numbers that JSON does not know.
    """
    entries, blocks = [], []
    for name, array in zip(names, outputs, strict=True):
        entry: dict[str, Any] = {
            "name": name,
            "datatype": _NAMES["object" if array.dtype.kind in "OSU" else array.dtype.name],
            "shape": list(array.shape),
        }
        if request.everything_binary or name in request.binary:
            block = _bytes_of(array)
            entry["parameters"] = {"binary_data_size": len(block)}
            blocks.append(block)
        else:
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise ProtocolError(
                    f"the output {name!r} has NaN or infinities, which JSON does not know: ask for "
                    'it as binary data, by "parameters": {"binary_data": true}'
                )
            entry["data"] = array.ravel().tolist()
        entries.append(entry)
    answer: dict[str, Any] = {"model_name": model, "model_version": "1", "outputs": entries}
    if request.request_id is not None:
        answer["id"] = request.request_id
    text = json.dumps(answer, ensure_ascii=False, default=_text).encode()
    return b"".join([text, *blocks]), len(text) if blocks else None


def _divided(body: bytes, header_length: str | None) -> tuple[Any, memoryview]:
    """Divide a body into its JSON and the binary data after it."""
    length = len(body)
    if header_length is not None:
        if not re.fullmatch("[0-9]{1,15}", header_length) or int(header_length) > len(body):
            raise ProtocolError(f"{HEADER} is {header_length!r}, and the body {len(body)} bytes")
        length = int(header_length)
    try:
        return json.loads(body[:length]), memoryview(body)[length:]
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"the request is not JSON: {error}") from error


def _described(entry: Any) -> tuple[str, str, tuple[int, ...]]:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise ProtocolError("an input is an object with a name")
    name, dtype, shape = entry["name"], entry.get("datatype"), entry.get("shape")
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        known = ", ".join(_DTYPES)
        raise ProtocolError(f"the input {name!r} has the datatype {dtype!r}; known: {known}")
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise ProtocolError(f"the input {name!r} has no shape: a list of sizes, such as [1, 3]")
    return name, _DTYPES[dtype], tuple(shape)


def _parameters(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    parameters = entry.get("parameters", {})
    if not isinstance(parameters, dict):
        raise ProtocolError("parameters is an object")
    return parameters


def _of_json(name: str, dtype: str, shape: tuple[int, ...], data: Any) -> Array:
    """Take numbers, flat or nested, none of which may change by that."""
    count = math.prod(shape)
    try:
        read = np.asarray(data, dtype=object if dtype == "object" else None)
    except (ValueError, OverflowError) as error:
        raise ProtocolError(f"the data of the input {name!r} are no tensor: {error}") from error
    if read.size != count:
        raise ProtocolError(
            f"the input {name!r} has {read.size} values: its shape {list(shape)} asks for {count}"
        )
    if dtype == "object":
        if not all(isinstance(item, str) and _is_text(item) for item in read.ravel()):
            raise ProtocolError(f"the data of the input {name!r} are no strings, as BYTES are")
        return _shaped(name, read, shape)
    wanted = np.dtype(dtype)
    if count and read.dtype.kind not in _ACCEPTED[wanted.kind]:
        raise ProtocolError(f"the data of the input {name!r} are no {_NAMES[dtype]}")
    if wanted.kind in "iu" and count:
        limits = np.iinfo(wanted)
        if int(read.min()) < limits.min or int(read.max()) > limits.max:
            raise ProtocolError(f"the data of the input {name!r} are beyond {_NAMES[dtype]}")
    with np.errstate(over="ignore"):
        return _shaped(name, read.astype(wanted), shape)


def _of_bytes(name: str, dtype: str, shape: tuple[int, ...], data: memoryview) -> Array:
    count = math.prod(shape)
    if dtype == "object":
        return _shaped(name, _strings(name, data, count), shape)
    wanted = np.dtype(dtype).newbyteorder("<")
    if len(data) != wanted.itemsize * count:
        raise ProtocolError(
            f"the input {name!r} has {len(data)} bytes: {list(shape)} of {_NAMES[dtype]} are "
            f"{wanted.itemsize * count}"
        )
    return _shaped(name, np.frombuffer(data, wanted).astype(np.dtype(dtype), copy=False), shape)


def _shaped(name: str, array: Array, shape: tuple[int, ...]) -> Array:
    """Give as many numbers as a shape asks for that shape, if any array can have it."""
    try:
        return array.reshape(shape)
    except (ValueError, OverflowError) as error:  # too many axes, or sizes beside a 0
        raise ProtocolError(f"the input {name!r} can't have {list(shape)}: {error}") from error


def _strings(name: str, data: memoryview, count: int) -> Array:
    """Read strings, each after its length in four bytes."""
    items: list[str] = []
    place = 0
    try:
        while place < len(data):
            (length,) = struct.unpack_from("<I", data, place)
            place += 4
            if place + length > len(data):
                raise ProtocolError(f"the strings of the input {name!r} end too early")
            items.append(bytes(data[place : place + length]).decode())
            place += length
    except (struct.error, UnicodeDecodeError) as error:
        raise ProtocolError(f"the strings of the input {name!r} can't be read: {error}") from error
    if len(items) != count:
        raise ProtocolError(f"the input {name!r} has {len(items)} strings, and not {count}")
    return np.array(items, dtype=object)


def _bytes_of(array: Array) -> bytes:
    if array.dtype.kind in "OSU":
        words = [str(_text(item)).encode() for item in array.ravel()]
        return b"".join(struct.pack("<I", len(word)) + word for word in words)
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def _is_text(text: str) -> bool:
    """Tell whether a string has a form in UTF-8: JSON can spell halves of a letter."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text(item: Any) -> str:
    return item.decode(errors="replace") if isinstance(item, bytes) else str(item)
