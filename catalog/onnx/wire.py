"""Large tensors taken out of, and put back into, serialized models without parsing the bytes.

A serialized protobuf message is a list of (tag, length, bytes). Walking the tags of an ONNX file
touches only the small messages, so the weights never come into memory. Source: the
encoding chapter of the Protocol Buffers documentation, and onnx.proto for the field numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from os import SEEK_END
from typing import IO, Protocol, overload


class Buffer(Protocol):
    """Bytes in memory or in a file."""

    def __len__(self) -> int: ...

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> bytes: ...

    def __getitem__(self, index: int | slice) -> int | bytes: ...


class FileBytes:
    """The bytes of an open file, read block by block.

    A memory map would do the same, but Linux maps up to 2 MiB of page cache for each byte touched.
    """

    _BLOCK_BYTES = 1 << 16

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._length = file.seek(0, SEEK_END)
        self._start = 0
        self._block = b""

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> bytes: ...

    def __getitem__(self, index: int | slice) -> int | bytes:
        if isinstance(index, slice):
            start, stop, _ = index.indices(self._length)
            return self._read(start, max(stop - start, 0))
        offset = index - self._start
        if not 0 <= offset < len(self._block):
            if not 0 <= index < self._length:
                raise IndexError(index)
            self._start, offset = index, 0
            self._block = self._read(index, min(self._BLOCK_BYTES, self._length - index))
        return self._block[offset]

    def _read(self, start: int, count: int) -> bytes:
        self._file.seek(start)
        data = self._file.read(count)
        if len(data) < count:
            raise OSError("the file became shorter while it was read")
        return data


# Message kind -> field number -> message kind of the field, along the ways that lead to tensors.
_CHILDREN: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "training": {1: "graph", 2: "graph"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
# Wire types of the fields of ModelProto: 0 varint, 2 length-delimited.
_MODEL_FIELDS = {1: 0, 2: 2, 3: 2, 4: 2, 5: 0, 6: 2, 7: 2, 8: 2, 14: 2, 20: 2, 25: 2, 26: 2}
_RAW_DATA, _EXTERNAL_DATA = 9, 13
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


class WireError(ValueError):
    """The bytes are not a serialized message; `offset` is where that shows."""

    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(f"{reason} at byte {offset}")
        self.reason = reason
        self.offset = offset


@dataclass(frozen=True)
class Span:
    """Bytes that lie elsewhere: from `offset`, `length` of them."""

    offset: int
    length: int


def read_varint(buffer: Buffer, position: int, end: int) -> tuple[int, int]:
    """Return the number at `position` and where it ends."""
    value = shift = 0
    while position < end:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise WireError("number too long", position)
    raise WireError("ends within a number", end)


def write_varint(value: int) -> bytes:
    """Return the encoding of a number >= 0."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def delimited(field: int, length: int) -> bytes:
    """Return tag and length of a length-delimited field; its bytes follow."""
    return write_varint(field << 3 | _LENGTH) + write_varint(length)


def fields(buffer: Buffer, start: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield (field, wire type, start of the tag, start of the value, end) of each field."""
    position = start
    while position < end:
        tag_start = position
        tag, position = read_varint(buffer, position, end)
        field, kind = tag >> 3, tag & 7
        value_start = position
        if kind == _LENGTH:
            length, value_start = read_varint(buffer, position, end)
            position = value_start + length
        elif kind == _VARINT:
            _, position = read_varint(buffer, position, end)
        elif kind == _FIXED64:
            position += 8
        elif kind == _FIXED32:
            position += 4
        else:
            raise WireError(f"unknown wire type {kind}", tag_start)
        if not field:
            raise WireError("field number 0", tag_start)
        if position > end:
            raise WireError("ends within a field", end)
        yield field, kind, tag_start, value_start, position


def take_out(
    buffer: Buffer, threshold: int, mark: Callable[[int], tuple[str, str]]
) -> tuple[bytes, list[Span]]:
    """Return the model without raw_data of more than `threshold` bytes, and where those lie.

    In place of the i-th one its tensor gets the external_data entry `mark(i)` = (key, value).
    Raises WireError.
    """
    spans: list[Span] = []

    def copy(kind: str, start: int, end: int) -> bytearray:
        out = bytearray()
        children = _CHILDREN[kind]
        verbatim = start  # what lies between here and the next change is copied as it is
        for field, wire, tag_start, value_start, value_end in fields(buffer, start, end):
            length = value_end - value_start
            if wire != _LENGTH or length <= threshold:
                continue
            if field in children:
                body = copy(children[field], value_start, value_end)
                head = delimited(field, len(body))
            elif kind == "tensor" and field == _RAW_DATA:
                body = bytearray(_entry(*mark(len(spans))))
                head = delimited(_EXTERNAL_DATA, len(body))
                spans.append(Span(value_start, length))
            else:
                continue
            out += buffer[verbatim:tag_start]
            out += head
            out += body
            verbatim = value_end
        out += buffer[verbatim:end]
        return out

    return bytes(copy("model", 0, len(buffer))), spans


def _entry(key: str, value: str) -> bytes:
    out = b""
    for field, text in ((1, key.encode()), (2, value.encode())):
        out += delimited(field, len(text)) + text
    return out


@dataclass(frozen=True)
class Payload:
    """A place in the output for the raw_data that `key` names, `length` bytes."""

    key: str
    length: int


def put_back(
    buffer: bytes, marker: bytes, restore: Callable[[bytes], tuple[bytes, Payload | None]]
) -> list[bytes | Payload]:
    """Return a serialized model as pieces, with every tensor that contains `marker` restored.

    `restore` takes such a TensorProto, serialized, and returns it without raw_data, and the
    raw_data that it should have. Concatenating the pieces, payloads filled in, gives the model.
    """

    def copy(kind: str, start: int, end: int) -> tuple[list[bytes | Payload], int]:
        if kind == "tensor":
            return tensor(start, end)
        out: list[bytes | Payload] = []
        size = 0
        children = _CHILDREN[kind]
        verbatim = start
        for field, wire, tag_start, value_start, value_end in fields(buffer, start, end):
            if wire != _LENGTH or field not in children:
                continue
            if buffer.find(marker, value_start, value_end) < 0:
                continue
            body, length = copy(children[field], value_start, value_end)
            head = delimited(field, length)
            out += [buffer[verbatim:tag_start], head, *body]
            size += tag_start - verbatim + len(head) + length
            verbatim = value_end
        out.append(buffer[verbatim:end])
        return out, size + end - verbatim

    def tensor(start: int, end: int) -> tuple[list[bytes | Payload], int]:
        rest, payload = restore(buffer[start:end])
        if payload is None:
            return [rest], len(rest)
        head = delimited(_RAW_DATA, payload.length)
        return [rest, head, payload], len(rest) + len(head) + payload.length

    return copy("model", 0, len(buffer))[0]


def begins_as_model(buffer: Buffer) -> bool:
    """Whether the first field could be one of ModelProto: tells a cut file from another format."""
    try:
        tag, _ = read_varint(buffer, 0, min(len(buffer), 10))
    except WireError:
        return False
    return _MODEL_FIELDS.get(tag >> 3) == tag & 7
