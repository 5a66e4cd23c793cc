"""Taking raw_data out of serialized models and putting it back, against protobuf itself."""

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.catalog.onnx.wire import (
    Payload,
    WireError,
    begins_as_model,
    fields,
    put_back,
    read_varint,
    take_out,
    write_varint,
)

from tests.campaigns import examples

KEY = "here"


def tensor(size: int, name: str = "t") -> onnx.TensorProto:
    return onnx.TensorProto(name=name, data_type=2, dims=[size], raw_data=bytes(range(256))[:size])


@st.composite
def tensors(draw):
    proto = tensor(draw(st.integers(0, 60)), draw(st.text(max_size=3)))
    if draw(st.booleans()):
        proto.data_location = draw(st.sampled_from([0, 1]))
    if draw(st.booleans()):
        proto.doc_string = "d" * draw(st.integers(0, 40))
    return proto


@st.composite
def graphs(draw, depth=2):
    graph = onnx.GraphProto(name="g")
    graph.initializer.extend(draw(st.lists(tensors(), max_size=3)))
    for sparse in draw(st.lists(tensors(), max_size=1)):
        graph.sparse_initializer.add(values=sparse, indices=sparse)
    for _ in range(draw(st.integers(0, 2))):
        node = graph.node.add(op_type="Op", doc_string="n" * draw(st.integers(0, 30)))
        node.attribute.add(name="t", t=draw(tensors()))
        node.attribute.add(name="ts", tensors=draw(st.lists(tensors(), max_size=2)))
        if depth:
            node.attribute.add(name="g", g=draw(graphs(depth - 1)))
            node.attribute.add(name="gs", graphs=draw(st.lists(graphs(depth - 1), max_size=1)))
    return graph


@st.composite
def models(draw):
    model = onnx.ModelProto(ir_version=10, graph=draw(graphs()))
    for graph in draw(st.lists(graphs(0), max_size=1)):
        model.functions.add(name="f", node=graph.node)
        model.training_info.add(algorithm=graph)
    return model


@settings(max_examples=examples(50), deadline=None)
@given(models(), st.integers(0, 70))
def test_what_is_taken_out_can_be_put_back(model, threshold):
    data = model.SerializeToString(deterministic=True)
    skeleton, spans = take_out(data, threshold, lambda index: (KEY, str(index)))
    taken = onnx.ModelProto.FromString(skeleton)
    assert skeleton.count(KEY.encode()) == len(spans)
    assert all(span.length > threshold for span in spans)
    assert b"".join(data[s.offset : s.offset + s.length] for s in spans) == b"".join(
        raw for raw in raw_data(model.SerializeToString(deterministic=True)) if len(raw) > threshold
    )

    def restore(serialized):
        proto = onnx.TensorProto.FromString(serialized)
        span = spans[int(proto.external_data[-1].value)]
        del proto.external_data[-1]
        return proto.SerializeToString(), Payload(str(span.offset), span.length)

    pieces = put_back(taken.SerializeToString(), KEY.encode(), restore)
    whole = b"".join(
        data[int(p.key) : int(p.key) + p.length] if isinstance(p, Payload) else p for p in pieces
    )
    assert onnx.ModelProto.FromString(whole) == model


def raw_data(data):
    """All raw_data in the order of the bytes."""
    _, spans = take_out(data, -1, lambda index: (KEY, str(index)))
    return [data[span.offset : span.offset + span.length] for span in spans]


@settings(max_examples=examples(50), deadline=None)
@given(models())
def test_a_model_without_large_tensors_stays_as_it_is(model):
    data = model.SerializeToString()
    assert take_out(data, 1 << 20, lambda index: (KEY, "")) == (data, [])


@settings(max_examples=examples(50), deadline=None)
@given(models(), st.data())
def test_cut_models_are_errors_or_shorter_models(model, data):
    whole = model.SerializeToString()
    cut = data.draw(st.integers(0, len(whole)))
    try:
        skeleton, _ = take_out(whole[:cut], -1, lambda index: (KEY, ""))
    except WireError as error:
        assert 0 <= error.offset <= cut
    else:
        onnx.ModelProto.FromString(skeleton)


@given(st.binary(max_size=60))
def test_any_bytes_are_an_error_or_fields_up_to_their_end(data):
    try:
        all_fields = list(fields(data, 0, len(data)))
    except WireError:
        return
    assert [item[2] for item in all_fields[1:]] == [item[4] for item in all_fields[:-1]]
    assert not all_fields or (all_fields[0][2], all_fields[-1][4]) == (0, len(data))


@given(st.integers(0, 2**63 - 1))
def test_numbers_round_trip(value):
    encoded = write_varint(value)
    assert read_varint(encoded, 0, len(encoded)) == (value, len(encoded))
    with pytest.raises(WireError, match="ends within a number"):
        read_varint(encoded, 0, len(encoded) - 1)


def test_numbers_over_64_bits_are_refused():
    with pytest.raises(WireError, match="too long"):
        read_varint(b"\xff" * 11, 0, 11)


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"\x0b", "wire type 3"), (b"\x02\x00", "field number 0"), (b"\x3a\x05ab", "ends within")],
)
def test_what_is_no_message_is_refused(data, reason):
    with pytest.raises(WireError, match=reason):
        list(fields(data, 0, len(data)))


def test_the_first_field_tells_models_from_other_files():
    assert begins_as_model(onnx.ModelProto(ir_version=3).SerializeToString())
    assert not begins_as_model(b"\x89PNG\r\n")
    assert not begins_as_model(b"{}")
    assert not begins_as_model(b"")
