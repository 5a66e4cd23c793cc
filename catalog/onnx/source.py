"""Where models come from: a file, bytes or a message become a small message and spans."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from ..errors import ModelError
from ..store.constants import LARGE_BYTES
from .wire import Buffer, FileBytes, Span, WireError, begins_as_model, take_out

PROTOBUF_BYTES = 2_000_000_000  # the limit of a message is 2 GiB; some parsers stop earlier
SPAN_KEY = "tensolog_span"
_MAGIC = {
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"%PDF": "a PDF document",
    b"PK\x03\x04": "a ZIP archive (a PyTorch checkpoint?): export the model to ONNX first",
    b"\x1f\x8b": "a gzip file: unpack it first",
    b"\x89HDF": "an HDF5 file: convert the model to ONNX first",
    b"TFL3": "a TensorFlow Lite model: convert it to ONNX first",
    b"ORTM": "a model in ONNX Runtime's own format",
    b"version https://git-lfs": "a Git LFS pointer: run `git lfs pull` first",
}


@dataclass
class Source:
    """A model without its large raw_data, and where that lies."""

    model: onnx.ModelProto
    name: str
    path: Path | None
    size_bytes: int
    nonce: str
    spans: list[Span]
    load: Callable[[int], bytes]

    def span(self, mark: str) -> Span:
        """Return where the bytes lie that an entry of key `tensolog_span` stands for."""
        return self.spans[self._index(mark)]

    def data(self, mark: str) -> bytes:
        """Return the bytes that an entry of key `tensolog_span` stands for."""
        return self.load(self._index(mark))

    def _index(self, mark: str) -> int:
        nonce, _, index = mark.partition(":")
        if nonce != self.nonce:  # the file itself may hold such an entry
            raise ModelError(f"{self.name}: external data uses the reserved key {SPAN_KEY}")
        return int(index)


@contextmanager
def open_source(source: str | Path | bytes | onnx.ModelProto) -> Iterator[Source]:
    """Read a model from a path, serialized bytes or a message, which stays as it is.

    Raises ModelError, in one line, for what is missing, damaged or no ONNX model.
    """
    if isinstance(source, onnx.ModelProto):
        yield _of_message(source)
    elif isinstance(source, bytes | bytearray | memoryview):
        yield _parse(bytes(source), "the model", None)
    elif not isinstance(source, str | Path):
        kind = type(source).__name__
        raise ModelError(
            f"a model is the path of a file, its bytes or an onnx.ModelProto, and no {kind}"
        )
    else:
        with _opened(Path(source)) as buffer:
            yield _parse(buffer, str(source), Path(source))


def _of_message(model: onnx.ModelProto) -> Source:
    """Copy a message without the raw_data of its large initializers, which stay where they are."""
    # ByteSize serializes: it would take twice the model's size.
    sizes = [len(item.raw_data) for item in model.graph.initializer]
    large = [size > LARGE_BYTES for size in sizes]
    unknown = any(
        len(UnknownFieldSet(item)) for item in (model, model.graph, *model.graph.initializer)
    )
    if unknown or not any(large):
        if sum(sizes) >= PROTOBUF_BYTES:
            raise ModelError(
                "the model is over 2 GB in memory: save it with external data and give its path"
            )
        return _parse(model.SerializeToString(), "the model", None)
    nonce = secrets.token_hex(8)
    copy = onnx.ModelProto()
    _copy_fields(model, copy, except_field="graph")
    _copy_fields(model.graph, copy.graph, except_field="initializer")
    copy.graph.SetInParent()
    taken: list[onnx.TensorProto] = []
    spans: list[Span] = []
    for index, tensor in enumerate(model.graph.initializer):
        target = copy.graph.initializer.add()
        if not large[index]:
            target.CopyFrom(tensor)
            continue
        _copy_fields(tensor, target, except_field="raw_data")
        target.external_data.add(key=SPAN_KEY, value=f"{nonce}:{len(taken)}")
        taken.append(tensor)
        spans.append(Span(0, sizes[index]))
    name = model.graph.name or "model"
    size = sum(span.length for span in spans) + copy.ByteSize()
    return Source(copy, name, None, size, nonce, spans, lambda index: taken[index].raw_data)


def _copy_fields(source: Message, target: Message, except_field: str) -> None:
    for descriptor, value in source.ListFields():
        if descriptor.name == except_field:
            continue
        if isinstance(value, bool | int | float | str | bytes):
            setattr(target, descriptor.name, value)
            continue
        if isinstance(value, Message):
            getattr(target, descriptor.name).SetInParent()  # also where it is empty
        getattr(target, descriptor.name).MergeFrom(value)


@contextmanager
def _opened(path: Path) -> Iterator[Buffer]:
    try:
        if path.is_dir():
            raise ModelError(f"{path} is a folder, not a model: name the .onnx file in it")
        with path.open("rb", buffering=0) as file:
            if not path.stat().st_size:
                raise ModelError(f"{path} is empty")
            yield FileBytes(file)
    except FileNotFoundError:
        raise ModelError(f"{path} does not exist") from None
    except OSError as error:
        raise ModelError(f"{path} can't be read: {error.strerror or error}") from error


def _parse(buffer: Buffer, name: str, path: Path | None) -> Source:
    nonce = secrets.token_hex(8)
    size = len(buffer)
    if not size:
        raise ModelError(f"{name} is empty")
    try:
        if size > LARGE_BYTES:
            skeleton, spans = take_out(
                buffer, LARGE_BYTES, lambda index: (SPAN_KEY, f"{nonce}:{index}")
            )
        else:
            skeleton, spans = buffer[0:size], []
        model = onnx.ModelProto.FromString(skeleton)
    except (WireError, DecodeError) as error:
        if kind := _other_format(buffer):
            raise ModelError(f"{name} is not an ONNX model but {kind}") from error
        if begins_as_model(buffer):
            raise ModelError(
                f"{name} is truncated or damaged: {size} bytes that are no whole ONNX model"
            ) from error
        raise ModelError(f"{name} is not an ONNX model") from error
    if not model.HasField("graph"):
        kind = _other_format(buffer)
        raise ModelError(
            f"{name} is not an ONNX model but {kind}" if kind else f"{name} has no graph"
        )
    stem = path.stem if path is not None else model.graph.name or "model"
    absolute = path.absolute() if path is not None else None

    def load(index: int) -> bytes:
        span = spans[index]
        return buffer[span.offset : span.offset + span.length]

    return Source(model, stem, absolute, size, nonce, spans, load)


def _other_format(buffer: Buffer) -> str | None:
    head = buffer[0:512]
    for magic, kind in _MAGIC.items():
        if head.startswith(magic) or (magic in (b"TFL3", b"ORTM") and head[4:8] == magic):
            return kind
    try:
        text = head.decode("utf-8", "ignore" if len(head) == 512 else "strict").strip()
    except UnicodeDecodeError:
        return None
    if text and all(letter.isprintable() or letter in "\r\n\t" for letter in text):
        return "JSON text" if text[0] in "{[" else "text"
    return None
