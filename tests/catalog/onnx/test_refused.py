"""Models that are refused: one clear line each, each test breaking one thing, files left alone."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper, parser
from tensolog.catalog import Catalog, CatalogError, ModelError
from tensolog.catalog.onnx.reader import read_model, store_model
from tensolog.catalog.onnx.writer import build_model, skeleton_model

from tests.campaigns import examples


@pytest.fixture
def refuses(catalog, tmp_path):
    """Check that a model, as a message and as a file, is refused for a reason."""

    def check(model: onnx.ModelProto, reason: str) -> None:
        path = tmp_path / "model.onnx"
        path.write_bytes(model.SerializeToString())
        before = path.read_bytes(), catalog.sql("FROM model").fetchall()
        for source in (model, str(path), path.read_bytes()):
            with pytest.raises(ModelError, match=reason) as caught:
                read_model(catalog, source)
            assert "\n" not in str(caught.value)
        assert (path.read_bytes(), catalog.sql("FROM model").fetchall()) == before

    return check


def graph(text: str, opset: int = 17) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}')


FILES = {
    "empty": (b"", "is empty"),
    "image": (b"\x89PNG\r\n\x1a\n" + bytes(100), "PNG image"),
    "text": (b"hello, this is a text\nof two lines", "is not an ONNX model but text"),
    "json": (json.dumps({"ir_version": 8}).encode(), "JSON"),
    "archive": (b"PK\x03\x04" + bytes(100), "ZIP archive"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
    "tflite": (b"\x1c\0\0\0TFL3" + bytes(50), "TensorFlow Lite"),
    "noise": (bytes(range(255, 0, -1)), "not an ONNX model"),
    "zeros": (bytes(1000), "not an ONNX model"),
}


@pytest.mark.parametrize("kind", FILES)
def test_files_that_are_no_models(kind, catalog, tmp_path):
    data, reason = FILES[kind]
    path = tmp_path / "file.onnx"
    path.write_bytes(data)
    with pytest.raises(ModelError, match=reason) as caught:
        read_model(catalog, path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == data


def test_a_missing_file(catalog, tmp_path):
    with pytest.raises(ModelError, match="does not exist"):
        read_model(catalog, tmp_path / "none.onnx")


def test_a_folder(catalog, tmp_path):
    with pytest.raises(ModelError, match="is a folder"):
        read_model(catalog, tmp_path)


@pytest.mark.parametrize("size", [200, 100_000])
@pytest.mark.parametrize("left", [0.2, 0.5, 0.99])
def test_truncated_models(size, left, catalog, tmp_path):
    weights = numpy_helper.from_array(np.zeros(size, np.float32), "w")
    model = helper.make_model(helper.make_graph([], "g", [], [], [weights]))
    data = model.SerializeToString()
    path = tmp_path / "cut.onnx"
    path.write_bytes(data[: int(len(data) * left)])
    with pytest.raises(ModelError, match="truncated or damaged"):
        read_model(catalog, path)


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_damaged_models_are_read_or_refused(data, catalog):
    model = graph("g (float[2] x) => (float[2] y) { h = Relu(x) y = Clip(h) }")
    damaged = bytearray(model.SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        model_id = read_model(catalog, bytes(damaged))
    except ModelError as error:
        assert "\n" not in str(error)
    else:
        assert build_model(catalog, model_id) == onnx.ModelProto.FromString(bytes(damaged))


def test_no_graph(refuses):
    refuses(onnx.ModelProto(ir_version=8), "has no graph")


def test_no_operator_set(refuses, relu):
    del relu.opset_import[:]
    refuses(relu, "imports no operator set")


def test_an_operator_set_of_the_future(refuses, relu):
    relu.opset_import[0].version = 999
    refuses(relu, r"needs operator set ai.onnx version 999.*knows up to \d+: upgrade onnx")


def test_an_operator_set_that_never_was(refuses, relu):
    relu.opset_import[0].version = 0
    refuses(relu, "version 0 does not exist")


def test_an_operator_newer_than_the_last_import_of_its_operator_set(refuses):
    model = graph("g (float[2] x) => (float[2] y) { y = Mish(x) }")
    model.opset_import[0].version = 18
    model.opset_import.add(domain="ai.onnx", version=16)
    refuses(model, "Mish node 0 needs operator set 18 or newer, the model imports 16")


def test_an_ir_version_of_the_future(refuses, relu):
    relu.ir_version = 999
    refuses(relu, "IR version 999.*upgrade onnx")


def test_an_operator_newer_than_the_operator_set(refuses):
    refuses(
        graph("g (float[2] x) => (float[2] y) { y = Mish(x) }"),
        "Mish node 0 needs operator set 18 or newer, the model imports 17",
    )


def test_an_operator_that_is_gone(refuses):
    model = graph("g (float[1,1,2,2] x, float[4] s) => (float[1,1,4,4] y) { y = Upsample(x, s) }")
    refuses(model, "Upsample")


def test_a_cycle(refuses):
    model = graph("g (float[2] x) => (float[2] y) { a = Add(x, b) b = Relu(a) y = Relu(b) }")
    refuses(model, "has a cycle: Relu node 1 -> Add node 0 -> Relu node 1|has a cycle: Add node 0")


def test_a_cycle_through_a_subgraph(refuses):
    model = graph(
        "g (bool c, float[2] x) => (float[2] y) { a = If (c) <"
        "then_branch = t () => (float[2] p) { p = Neg(y) },"
        "else_branch = e () => (float[2] q) { q = Neg(x) }> y = Relu(a) }"
    )
    refuses(model, "reads 'y'|cycle")


def test_a_cycle_among_nodes_out_of_order(refuses):
    model = graph("g (float[2] x) => (float[2] y) { y = Relu(a) a = Neg(x) b = Abs(b) }")
    refuses(model, "not in order: Relu node 0 reads 'a' before Neg node 1 computes it")


def test_an_input_that_nothing_defines(refuses):
    refuses(
        graph("g (float[2] x) => (float[2] y) { y = Add(x, z) }"),
        "Add node 0 of graph 'g' reads 'z', which nothing defines",
    )


def test_an_output_that_nothing_computes(refuses):
    refuses(graph("g (float[2] x) => (float[2] y) { z = Relu(x) }"), "output 'y' .* not computed")


def test_a_value_computed_twice(refuses):
    model = graph("g (float[2] x) => (float[2] y) { y = Relu(x) y = Neg(x) }")
    refuses(model, "'y' is defined twice in graph 'g'")


def test_an_input_declared_twice(refuses):
    model = graph("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    model.graph.input.append(model.graph.input[0])
    refuses(model, "'x' is defined twice")


def test_a_function_that_reads_what_it_does_not_have(refuses, relu):
    function = relu.functions.add(name="f", domain="my", input=["x"], output=["y"])
    function.node.add(op_type="Relu", input=["z"], output=["y"])
    function.opset_import.add(version=17)
    refuses(relu, "Relu node 0 of function 'f' reads 'z'")


def test_a_node_without_operator(refuses, relu):
    relu.graph.node[0].ClearField("op_type")
    refuses(relu, "has no op_type")


def test_an_attribute_that_the_operator_does_not_have(refuses):
    model = graph("g (float[2] x) => (float[2] y) { y = Relu<alpha = 1>(x) }")
    refuses(model, "Relu node 0: Unrecognized attribute: alpha")


def referring(model: onnx.ModelProto) -> onnx.ModelProto:
    alpha = onnx.AttributeProto(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="a")
    model.graph.node[0].op_type = "LeakyRelu"
    model.graph.node[0].attribute.append(alpha)
    return model


def test_an_attribute_that_refers_to_one_of_no_function(refuses, relu):
    refuses(referring(relu), "attribute 'alpha' of LeakyRelu node .* refers to 'a'")


def test_an_attribute_of_a_subgraph_that_refers_to_one_of_no_function(refuses, relu):
    inner = referring(relu).graph
    inner.name = "inner"
    del inner.input[:]
    inner.node[0].input[0] = "outer"
    model = graph("g (bool c, float[2] outer) => (float[2] out) { out = Relu(outer) }")
    node = helper.make_node("If", ["c"], ["out"], then_branch=inner, else_branch=inner)
    del model.graph.node[:]
    model.graph.node.append(node)
    refuses(model, "refers to 'a', .* stands in graph 'inner'")


def test_too_few_inputs(refuses):
    refuses(graph("g (float[2] x) => (float[2] y) { y = Add(x) }"), "Add")


def test_operands_of_different_types(refuses):
    model = graph("g (float[2] x, int64[2] z) => (float[2] y) { y = Add(x, z) }")
    refuses(model, r"not well typed: \(op_type:Add\).*int64")


def test_an_operand_type_that_the_operator_does_not_take(refuses):
    refuses(graph("g (string[2] x) => (string[2] y) { y = Relu(x) }"), "not well typed.*Relu")


def test_an_output_of_another_type(refuses):
    refuses(graph("g (float[2] x) => (int64[2] y) { y = Relu(x) }"), "not well typed.*elem type")


def test_shapes_that_cannot_be_multiplied(refuses):
    model = graph("g (float[2,3] x, float[2,3] w) => (float[2,3] y) { y = MatMul(x, w) }")
    refuses(model, "not well typed.*MatMul.*Incompatible dimensions")


def test_a_tensor_with_too_little_data(refuses, relu):
    relu.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[3], raw_data=bytes(8))
    refuses(relu, r"tensor 'w' of shape \[3\] \(float32\) needs 12 bytes and has 8")


def test_a_large_tensor_with_too_little_data(refuses, relu):
    relu.graph.initializer.add(name="w", data_type=1, dims=[300000], raw_data=bytes(1 << 20))
    refuses(relu, "tensor 'w' .* needs 1200000 bytes and has 1048576")


def test_a_tensor_of_negative_size(refuses, relu):
    relu.graph.initializer.add(name="w", data_type=1, dims=[-1, -1], raw_data=bytes(4))
    refuses(relu, r"tensor 'w' has a negative size: \[-1, -1\]")


def test_a_tensor_without_type(refuses, relu):
    relu.graph.initializer.add(name="w", dims=[0])
    refuses(relu, "tensor 'w' has element type undefined")


def test_a_tensor_of_an_unknown_type(refuses, relu):
    relu.graph.initializer.add(name="w", data_type=77, dims=[0])
    refuses(relu, "element type 77 is unknown: upgrade")


# ------------------------------------------------------------------------------- what is accepted


def test_operators_that_onnx_never_had_are_opaque(catalog):
    model = graph("g (float[2] x) => (y) { y = Mystery<alpha = 3>(x) }")
    model.graph.node[0].domain = "com.example"
    model.opset_import.add(domain="com.example", version=3)
    assert build_model(catalog, read_model(catalog, model)) == model
    model.graph.node[0].ClearField("domain")
    assert build_model(catalog, read_model(catalog, model)) == model


def test_a_declared_shape_that_inference_contradicts_is_a_hint(catalog):
    model = graph("g (float[2,3] x) => (float[7,8] y) { y = Relu(x) }")
    assert build_model(catalog, read_model(catalog, model)) == model


def test_a_graph_without_a_name_is_read(catalog, relu):
    relu.graph.ClearField("name")
    assert build_model(catalog, read_model(catalog, relu)) == relu


def test_layer_normalization_of_runtimes_is_read(catalog):
    model = graph("g (float[2,3] x, float[3] s) => (y) { y = LayerNormalization(x, s) }", opset=11)
    assert build_model(catalog, read_model(catalog, model)) == model


# --------------------------------------------------------------------------------- external data


def external(tmp_path: Path, **entries: str) -> Path:
    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3])
    weights.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "w.bin", "offset": "4", "length": "12", **entries}.items():
        weights.external_data.add(key=key, value=value)
    (tmp_path / "w.bin").write_bytes(bytes(16))
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(helper.make_graph([], "g", [], [], [weights])), path)
    return path


def test_external_data_is_read(catalog, tmp_path):
    path = external(tmp_path, checksum="0" * 40)
    model = onnx.load(path, load_external_data=False)
    assert build_model(catalog, read_model(catalog, path)) == model


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ({"location": "none.bin"}, "none.bin does not exist: .* tensor 'w'"),
        ({"location": "../w.bin"}, "lies outside the model's folder"),
        ({"location": "/etc/hostname"}, "lies outside the model's folder"),
        ({"location": "sub/../../w.bin"}, "lies outside the model's folder"),
        ({"location": "C:\\w.bin"}, "lies outside the model's folder"),
        ({"location": ""}, "names no file"),
        ({"location": "."}, "is not a file"),
        ({"offset": "5"}, "too short: tensor 'w' needs bytes 5 to 17 and it has 16"),
        ({"offset": "-4"}, "offset '-4'"),
        ({"offset": "9" * 30}, "too short"),
        ({"length": "8"}, "needs 12 bytes, its external data has 8"),
        ({"tensolog_constant": "0"}, "reserved key tensolog_constant"),
        ({"tensolog_span": "0:0"}, "reserved key tensolog_span"),
    ],
)
def test_external_data_that_is_wrong(entries, reason, catalog, tmp_path):
    with pytest.raises(ModelError, match=reason) as caught:
        read_model(catalog, external(tmp_path, **entries))
    assert "\n" not in str(caught.value)


def linked(tmp_path, target: Path) -> Path:
    """A model in a folder of its own, whose weights are a symbolic link to `target`."""
    folder = tmp_path / "model"
    folder.mkdir()
    model = external(folder)
    target.parent.mkdir(exist_ok=True)
    target.write_bytes((folder / "w.bin").read_bytes())
    (folder / "w.bin").unlink()
    (folder / "w.bin").symlink_to(target)
    return model


def test_external_data_behind_a_link_out_of_the_folder(catalog, tmp_path):
    secret = tmp_path / "elsewhere" / "secret"
    model = linked(tmp_path, secret)
    before = catalog.sql("FROM constant").fetchall()
    with pytest.raises(ModelError, match=r"is a symbolic link to .*secret"):
        read_model(catalog, model)
    assert catalog.sql("FROM constant").fetchall() == before


def test_external_data_in_a_linked_folder_outside(catalog, tmp_path):
    model = linked(tmp_path, tmp_path / "elsewhere" / "w.bin")
    (model.parent / "w.bin").unlink()
    (model.parent / "sub").symlink_to(tmp_path / "elsewhere")
    stored = onnx.load(model, load_external_data=False)
    stored.graph.initializer[0].external_data[0].value = "sub/w.bin"
    model.write_bytes(stored.SerializeToString())
    with pytest.raises(ModelError, match="outside the model's folder"):
        read_model(catalog, model)


def test_external_data_behind_a_link_within_the_folder(catalog, tmp_path):
    model = linked(tmp_path, tmp_path / "model" / "weights" / "w.bin")
    assert build_model(catalog, read_model(catalog, model)).graph.initializer


def test_a_model_and_its_data_linked_to_one_folder_as_in_caches_of_downloads(catalog, tmp_path):
    blob = tmp_path / "blobs" / "1"
    model = linked(tmp_path, tmp_path / "blobs" / "2")
    blob.write_bytes(model.read_bytes())
    model.unlink()
    model.symlink_to(blob)
    assert build_model(catalog, read_model(catalog, model)).graph.initializer


def test_external_data_behind_links_in_a_ring(catalog, tmp_path):
    model = linked(tmp_path, tmp_path / "model" / "v.bin")
    (model.parent / "v.bin").unlink()
    (model.parent / "v.bin").symlink_to(model.parent / "w.bin")
    with pytest.raises(ModelError, match=r"w\.bin"):
        read_model(catalog, model)


@pytest.mark.parametrize("field", [b"location", b"w.bin"])
def test_external_data_that_is_described_by_no_text(field, catalog, tmp_path):
    model = external(tmp_path)
    model.write_bytes(model.read_bytes().replace(field, b"\xff" + field[1:]))
    with pytest.raises(ModelError, match="described by no UTF-8"):
        read_model(catalog, model)


def test_external_data_of_a_model_without_a_path(catalog, tmp_path):
    model = onnx.load(external(tmp_path), load_external_data=False)
    with pytest.raises(ModelError, match="give the path of the model"):
        read_model(catalog, model)


# ------------------------------------------------------------------------------------ references


def test_a_reference_to_a_constant_of_another_shape(catalog):
    weights = numpy_helper.from_array(np.zeros(4, np.float32), "w")
    model = helper.make_model(helper.make_graph([], "g", [], [], [weights]))
    skeleton = skeleton_model(catalog, read_model(catalog, model), inline_bytes=0)
    skeleton.graph.initializer[0].dims[0] = 5
    with pytest.raises(ModelError, match=r"float32\[5\] but refers to a constant float32\[4\]"):
        store_model(catalog, skeleton)


def test_a_reference_to_an_unknown_constant(catalog):
    weights = numpy_helper.from_array(np.zeros(4, np.float32), "w")
    model = helper.make_model(helper.make_graph([], "g", [], [], [weights]))
    skeleton = skeleton_model(catalog, read_model(catalog, model), inline_bytes=0)
    with Catalog(":memory:") as other, pytest.raises(CatalogError, match="has no constant"):
        store_model(other, skeleton)


def test_a_model_that_is_not_there(catalog):
    with pytest.raises(CatalogError, match="has no model 12345"):
        build_model(catalog, 12345)
