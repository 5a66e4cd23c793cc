"""Ways to damage a model: bytes of the file, and fields of the message, each by drawn numbers."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

NUMBERS = (-(2**63), -(2**31), -2, -1, 0, 1, 2, 7, 255, 2**16, 2**31 - 1, 2**31, 2**40, 2**63 - 1)
FLOATS = (float("nan"), float("inf"), -float("inf"), -0.0, 1e-45, 3.4e38, -1.0)
TEXTS = (
    "",
    "x",
    "y",
    "a\nb",
    "\x1b[31mred\x1b]0;title\x07",
    "\u202e\u0000é",
    "../../etc/passwd",
    "ai.onnx.ml",
    "n" * 5_000,
    "{}%s%n",
    "'; DROP TABLE model; --",
)


def mutate(data: bytes, draw: random.Random) -> tuple[bytes, str]:
    """Damage a serialized model once to three times; return it, and what was done."""
    done = []
    for _ in range(draw.choice((1, 1, 2, 3))):
        way = draw.choice((*_BYTES, *_FIELDS) if _has_nodes(data) else _BYTES)
        data, damage = way(data or b"\0", draw)
        done.append(damage)
    return data, "; ".join(done)


def _has_nodes(data: bytes) -> bool:
    """Whether the bytes can be read as a model with nodes and tensors, in which fields are set."""
    try:
        model = onnx.ModelProto.FromString(data)
    except DecodeError:
        return False
    kinds = {type(message) for message in _messages(model)}
    return {onnx.NodeProto, onnx.TensorProto} <= kinds


# ------------------------------------------------------------------------------------------ bytes


def _flip(data: bytes, draw: random.Random) -> tuple[bytes, str]:
    damaged = bytearray(data)
    places = [draw.randrange(len(data)) for _ in range(draw.choice((1, 1, 4, 32)))]
    for place in places:
        damaged[place] = draw.randrange(256)
    return bytes(damaged), f"bytes {places[:4]}"


def _cut(data: bytes, draw: random.Random) -> tuple[bytes, str]:
    end = draw.randrange(len(data))
    return data[:end], f"cut at {end}"


def _drop(data: bytes, draw: random.Random) -> tuple[bytes, str]:
    start, length = draw.randrange(len(data)), draw.choice((1, 2, 8, 100))
    return data[:start] + data[start + length :], f"{length} bytes dropped at {start}"


def _insert(data: bytes, draw: random.Random) -> tuple[bytes, str]:
    start, length = draw.randrange(len(data)), draw.choice((1, 2, 8, 100))
    return data[:start] + draw.randbytes(length) + data[start:], f"{length} bytes put at {start}"


def _repeat(data: bytes, draw: random.Random) -> tuple[bytes, str]:
    start, length = draw.randrange(len(data)), draw.choice((4, 40, 400))
    piece = data[start : start + length]
    place = draw.randrange(len(data))
    return data[:place] + piece + data[place:], f"{length} bytes of {start} again at {place}"


# ----------------------------------------------------------------------------------------- fields


def _messages(message: Message) -> Iterator[Message]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if _is_repeated(field) else [value]:
                yield from _messages(inner)


def _is_repeated(field: FieldDescriptor) -> bool:
    return bool(field.is_repeated)


def _set_field(data: bytes, draw: random.Random) -> tuple[bytes, str]:
    """Give any field of any message a value that is at the edge of its type."""
    model = onnx.ModelProto.FromString(data)
    message, field = draw.choice(
        [
            (message, field)
            for message in _messages(model)
            for field in message.DESCRIPTOR.fields
            if field.message_type is None
        ]
    )
    value = _edge(field, draw)
    if _is_repeated(field):
        values = getattr(message, field.name)
        if values and draw.random() < 0.7:
            values[draw.randrange(len(values))] = value
        else:
            values.append(value)
    else:
        setattr(message, field.name, value)
    shown = repr(value)[:30]
    return model.SerializeToString(), f"{message.DESCRIPTOR.name}.{field.name} = {shown}"


def _edge(field: FieldDescriptor, draw: random.Random) -> Any:
    kind = field.cpp_type
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return draw.choice([value.number for value in field.enum_type.values])
    if kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return draw.choice(FLOATS)
    if kind == FieldDescriptor.CPPTYPE_STRING:
        text = draw.choice(TEXTS)
        return text.encode() if field.type == FieldDescriptor.TYPE_BYTES else text
    bits = 32 if kind in (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_UINT32) else 64
    least = 0 if kind in (FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64) else 1
    low, high = -(2 ** (bits - 1)) * least, 2 ** (bits - 1) - 1
    return draw.choice([number for number in NUMBERS if low <= number <= high])


def _clear_field(data: bytes, draw: random.Random) -> tuple[bytes, str]:
    model = onnx.ModelProto.FromString(data)
    message = draw.choice([message for message in _messages(model) if message.ListFields()])
    field, _ = draw.choice(message.ListFields())
    message.ClearField(field.name)
    return model.SerializeToString(), f"{message.DESCRIPTOR.name}.{field.name} cleared"


def _copy_message(data: bytes, draw: random.Random) -> tuple[bytes, str]:
    """Put a message of the model in the place of another one of its type, or beside it."""
    model = onnx.ModelProto.FromString(data)
    source = draw.choice([message for message in _messages(model) if message is not model])
    same = [message for message in _messages(model) if type(message) is type(source)]
    draw.choice(same).CopyFrom(_copied(source))
    return model.SerializeToString(), f"a {source.DESCRIPTOR.name} copied over another"


def _remove_or_reorder(data: bytes, draw: random.Random) -> tuple[bytes, str]:
    """Remove an item of a list, or turn the list round."""
    model = onnx.ModelProto.FromString(data)
    lists = [
        (message, field.name)
        for message in _messages(model)
        for field, value in message.ListFields()
        if _is_repeated(field) and len(value)
    ]
    message, name = draw.choice(lists)
    items = list(getattr(message, name))
    if draw.random() < 0.5:
        items.pop(draw.randrange(len(items)))
    else:
        items.reverse()
    items = [_copied(item) for item in items]
    message.ClearField(name)
    getattr(message, name).extend(items)
    return model.SerializeToString(), f"{message.DESCRIPTOR.name}.{name} shortened or reversed"


def _copied(item: Any) -> Any:
    if not isinstance(item, Message):
        return item
    copy = type(item)()
    copy.CopyFrom(item)
    return copy


def _rename(data: bytes, draw: random.Random) -> tuple[bytes, str]:
    """Let a node read or give another value, or be another operator."""
    model = onnx.ModelProto.FromString(data)
    nodes = [message for message in _messages(model) if isinstance(message, onnx.NodeProto)]
    node = draw.choice(nodes)
    names = [name for node in nodes for name in (*node.input, *node.output)]
    operators = [node.op_type for node in nodes] + ["Loop", "Gather", "Reshape", "Split", "TopK"]
    match draw.choice(("input", "output", "op_type")):
        case "input" if node.input:
            node.input[draw.randrange(len(node.input))] = draw.choice(names)
        case "output" if node.output:
            node.output[draw.randrange(len(node.output))] = draw.choice(names)
        case _:
            node.op_type = draw.choice(operators)
    return model.SerializeToString(), "a name or an operator exchanged"


def _extend_external(data: bytes, draw: random.Random) -> tuple[bytes, str]:
    """Let a tensor's data lie elsewhere."""
    model = onnx.ModelProto.FromString(data)
    tensor = draw.choice(
        [message for message in _messages(model) if isinstance(message, onnx.TensorProto)]
    )
    places = ("weights.bin", "../weights.bin", "none.bin", "in.onnx", ".", "/dev/zero", "")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=draw.choice(places))
    for key in draw.sample(("offset", "length", "checksum"), draw.randrange(3)):
        tensor.external_data.add(key=key, value=str(draw.choice(NUMBERS)))
    return model.SerializeToString(), "data elsewhere"


_Way = Callable[[bytes, random.Random], tuple[bytes, str]]
_BYTES: tuple[_Way, ...] = (_flip, _cut, _drop, _insert, _repeat)
_FIELDS: tuple[_Way, ...] = (
    *(_set_field, _set_field, _set_field, _clear_field, _copy_message, _remove_or_reorder),
    *(_rename, _rename, _extend_external),
)
