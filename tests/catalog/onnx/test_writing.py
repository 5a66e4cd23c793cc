"""Models as files: inline, beside their weights, in place, and never half."""

import errno
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from tensolog.catalog import Catalog, CatalogError, ModelError
from tensolog.catalog.onnx import model_files as onnx_files
from tensolog.catalog.onnx import side_file
from tensolog.catalog.onnx.reader import read_model, store_model
from tensolog.catalog.onnx.writer import (
    build_model,
    constant_reference,
    reference_of,
    skeleton_model,
    write_model,
)
from tensolog.catalog.store.constants import add_constant, load_constant
from tensolog.catalog.tensors import model_tensors

SIZE = 160  # 160 x 160 float32 are 100 KiB: above the threshold for staying in the file


def chain(count: int = 3, *, attribute: bool = False) -> onnx.ModelProto:
    """A chain of MatMuls with random weights, the last one from a Constant node if asked."""
    rng = np.random.default_rng(count)
    weights = [rng.standard_normal((SIZE, SIZE), np.float32) for _ in range(count)]
    nodes = [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(count)]
    tensors = [numpy_helper.from_array(weights[i], f"w{i}") for i in range(count)]
    if attribute:
        nodes.insert(0, helper.make_node("Constant", [], [tensors[-1].name], value=tensors.pop()))
    tensors.append(numpy_helper.from_array(np.array([-1, SIZE]), "shape"))
    nodes.append(helper.make_node("Reshape", [f"x{count}", "shape"], ["y"]))
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, ["n", SIZE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", SIZE])],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def save(model: onnx.ModelProto, path: Path, *, outside: bool = False) -> onnx.ModelProto:
    """Save a copy, with weights in `weights.bin` if asked, and return what lies in the file."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    onnx.save(
        copy,
        path,
        save_as_external_data=outside,
        location="weights.bin",
        size_threshold=1024,
    )
    return onnx.load(path, load_external_data=False)


def load(path: Path) -> onnx.ModelProto:
    """Load a model with its external data; onnx marks what it loaded as being inside."""
    model = onnx.load(path)
    for tensor in model_tensors(model):
        tensor.ClearField("data_location")
    return model


def run(model: Path | bytes) -> np.ndarray:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(None, {"x0": np.ones((2, SIZE), np.float32)})[0]


@pytest.fixture
def catalog():
    with Catalog(":memory:") as catalog:
        yield catalog


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("external_data", [None, False, True])
def test_a_written_model_is_the_one_that_was_read(outside, external_data, catalog, tmp_path):
    model = chain(attribute=True)
    source = save(model, tmp_path / "in.onnx", outside=outside)
    model_id = read_model(catalog, tmp_path / "in.onnx")
    assert build_model(catalog, model_id) == source
    (tmp_path / "out").mkdir()
    path = tmp_path / "out" / "out.onnx"
    write_model(catalog, model_id, path, external_data=external_data)
    assert load(path) == model
    assert np.array_equal(run(path), run(tmp_path / "in.onnx"))
    writes_outside = outside if external_data is None else external_data
    assert {file.name for file in path.parent.iterdir()} == (
        {"out.onnx", "out.onnx.data"} if writes_outside else {"out.onnx"}
    )


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("larger", [False, True])
def test_weights_from_some_size_on_go_outside(larger, outside, catalog, tmp_path):
    model = chain()
    save(model, tmp_path / "in.onnx", outside=outside)
    model_id = read_model(catalog, tmp_path / "in.onnx")
    (tmp_path / "out").mkdir()
    path = tmp_path / "out" / "out.onnx"
    limit = 4 * SIZE * SIZE + larger
    files = write_model(catalog, model_id, path, outside_bytes=limit)
    assert load(path) == model
    assert np.array_equal(run(path), run(tmp_path / "in.onnx"))
    assert set(files) == set(path.parent.iterdir())
    assert len(files) == 2 - (larger and not outside)


@pytest.mark.parametrize("outside", [False, True])
def test_a_model_can_be_built_with_all_data_inside(outside, catalog, tmp_path):
    save(chain(attribute=True), tmp_path / "in.onnx", outside=outside)
    built = build_model(catalog, read_model(catalog, tmp_path / "in.onnx"), external_data=False)
    assert built == chain(attribute=True)


def test_weights_of_subgraphs_go_outside(catalog, tmp_path):
    branch = chain(1).graph
    del branch.input[:]
    other = onnx.GraphProto()
    other.CopyFrom(branch)
    graph = helper.make_graph(
        [helper.make_node("If", ["c"], ["z"], then_branch=branch, else_branch=other)],
        "outer",
        [helper.make_tensor_value_info("c", TensorProto.BOOL, []), chain(1).graph.input[0]],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", SIZE])],
    )
    model = helper.make_model(graph, opset_imports=chain(1).opset_import, ir_version=8)
    model_id = read_model(catalog, model)
    assert build_model(catalog, model_id) == model
    path = tmp_path / "out.onnx"
    write_model(catalog, model_id, path, external_data=True)
    assert path.stat().st_size < 4000
    assert load(path) == model
    session = onnxruntime.InferenceSession(path)
    feeds = {"c": np.array(True), "x0": np.ones((2, SIZE), np.float32)}
    onnx.save(chain(1), tmp_path / "branch.onnx")
    assert np.array_equal(session.run(None, feeds)[0], run(tmp_path / "branch.onnx"))
    small = build_model(catalog, model_id, large_constants=tmp_path / "side.bin")
    (tmp_path / "small.onnx").write_bytes(small.SerializeToString())
    assert load(tmp_path / "small.onnx") == model


def test_a_model_that_is_written_inline_is_the_same_file(catalog, tmp_path):
    save(chain(), tmp_path / "in.onnx")
    write_model(catalog, read_model(catalog, tmp_path / "in.onnx"), tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx").read_bytes() == (tmp_path / "in.onnx").read_bytes()


def test_large_weights_stay_in_their_file(catalog, tmp_path):
    save(chain(2), tmp_path / "in.onnx")
    read_model(catalog, tmp_path / "in.onnx")
    rows = catalog.sql(
        "SELECT location, data IS NULL, size_bytes FROM constant ORDER BY size_bytes"
    ).fetchall()
    weight = (str(tmp_path / "in.onnx"), True, SIZE * SIZE * 4)
    assert rows == [(None, False, 16), weight, weight]


@pytest.mark.parametrize("outside", [False, True])
def test_weights_load_from_their_file(outside, catalog, tmp_path):
    model = chain(2)
    save(model, tmp_path / "in.onnx", outside=outside)
    skeleton = skeleton_model(catalog, read_model(catalog, tmp_path / "in.onnx"))
    for tensor, original in zip(skeleton.graph.initializer, model.graph.initializer, strict=True):
        if (key := reference_of(tensor)) is None:
            assert tensor == original
            continue
        loaded = load_constant(catalog, key)
        assert not loaded.flags.writeable
        assert np.array_equal(loaded, numpy_helper.to_array(original))


def test_models_in_memory_keep_their_weights_beside_the_catalog(tmp_path):
    path = tmp_path / "c.duckdb"
    beside = tmp_path / "c.duckdb.constants"
    with Catalog(path) as catalog:
        model_id = read_model(catalog, chain(2))
        size = beside.stat().st_size
        assert size >= 2 * SIZE * SIZE * 4
        read_model(catalog, chain(2).SerializeToString())
        assert beside.stat().st_size == size
    with Catalog(path) as catalog:
        read_model(catalog, chain(2))
        assert beside.stat().st_size == size
        add_constant(catalog, np.zeros(1 << 16, np.int32))
        assert beside.stat().st_size > size
        assert build_model(catalog, model_id) == chain(2)
        rows = catalog.sql("SELECT DISTINCT location FROM constant ORDER BY ALL").fetchall()
        assert rows == [(str(beside),), (None,)]
    beside.unlink()
    with Catalog(path) as catalog:
        with pytest.raises(CatalogError, match=r"c.duckdb.constants, .* can't be read"):
            build_model(catalog, model_id)
        read_model(catalog, chain(2))
        assert build_model(catalog, model_id) == chain(2)


def test_a_catalog_in_memory_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Catalog(":memory:") as catalog:
        assert build_model(catalog, read_model(catalog, chain(2))) == chain(2)
        assert len(list(tmp_path.iterdir())) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_skeleton_can_be_changed_and_stored(catalog, tmp_path):
    save(chain(3), tmp_path / "in.onnx")
    model_id = read_model(catalog, tmp_path / "in.onnx")
    skeleton = skeleton_model(catalog, model_id)
    assert skeleton.ByteSize() < 2000
    del skeleton.graph.node[1], skeleton.graph.initializer[1]
    skeleton.graph.node[1].input[0] = "x1"
    new = numpy_helper.from_array(np.zeros(70_000, np.float32), "unused")
    skeleton.graph.initializer.append(new)
    changed = store_model(catalog, skeleton, name="shorter", parent_model_id=model_id)
    rows = catalog.sql(
        "SELECT name, origin, parent_model_id FROM model WHERE model_id = ?", [changed]
    ).fetchall()
    assert rows == [("shorter", "optimized", model_id)]
    built = build_model(catalog, changed)
    assert [node.op_type for node in built.graph.node] == ["MatMul", "MatMul", "Reshape"]
    assert built.graph.initializer[0] == chain(3).graph.initializer[0]
    assert built.graph.initializer[-1] == new
    write_model(catalog, changed, tmp_path / "out.onnx")
    assert load(tmp_path / "out.onnx") == built


# ------------------------------------------------------------------- a side file for many models


def test_candidates_share_one_side_file(catalog, tmp_path):
    save(chain(3, attribute=True), tmp_path / "in.onnx")
    model_id = read_model(catalog, tmp_path / "in.onnx")
    side = tmp_path / "candidates.bin"
    first = build_model(catalog, model_id, large_constants=side)
    size = side.stat().st_size
    skeleton = skeleton_model(catalog, model_id)
    skeleton.graph.initializer.append(
        numpy_helper.from_array(np.arange(20_000, dtype=np.float32), "more")
    )
    second = build_model(catalog, store_model(catalog, skeleton), large_constants=side)
    assert size < side.stat().st_size < size + 100_000
    assert [t.external_data for t in second.graph.initializer[:2]] == [
        t.external_data for t in first.graph.initializer[:2]
    ]
    expected = run(tmp_path / "in.onnx")
    for name, model in (("first", first), ("second", second)):
        (tmp_path / name).write_bytes(model.SerializeToString())
        assert np.array_equal(run(tmp_path / name), expected)
        for tensor in model.graph.initializer:
            offsets = [int(item.value) for item in tensor.external_data if item.key == "offset"]
            assert all(offset % 4096 == 0 for offset in offsets)


def test_a_side_file_of_someone_else_is_left_alone(catalog, tmp_path):
    (tmp_path / "side").write_bytes(b"mine")
    with pytest.raises(CatalogError, match="exists already"):
        build_model(catalog, read_model(catalog, chain()), large_constants=tmp_path / "side")
    assert (tmp_path / "side").read_bytes() == b"mine"


def test_an_interrupt_while_a_side_file_grows_leaves_it_as_it_was(catalog, tmp_path, monkeypatch):
    side = tmp_path / "side"
    first = build_model(catalog, read_model(catalog, chain(2)), large_constants=side)
    before = side.read_bytes()
    other = read_model(catalog, chain(3))
    with monkeypatch.context() as patch:
        patch.setattr(side_file, "constant_chunks", interrupted(side_file.constant_chunks))
        with pytest.raises(KeyboardInterrupt):
            build_model(catalog, other, large_constants=side)
    assert side.read_bytes() == before
    assert build_model(catalog, read_model(catalog, chain(2)), large_constants=side) == first


def interrupted(function, after=1):
    """Run a generator function, but raise KeyboardInterrupt in a later call."""
    calls = iter(range(1000))

    def run_or_stop(*arguments):
        if next(calls) == after:
            raise KeyboardInterrupt
        return function(*arguments)

    return run_or_stop


# ------------------------------------------------------------------------------ all or nothing


@pytest.mark.parametrize("external_data", [False, True])
def test_an_interrupt_leaves_no_file(external_data, catalog, tmp_path, monkeypatch):
    model_id = read_model(catalog, chain())
    for module in (side_file, onnx_files):
        monkeypatch.setattr(module, "constant_chunks", interrupted(module.constant_chunks))
    with pytest.raises(KeyboardInterrupt):
        write_model(catalog, model_id, tmp_path / "out.onnx", external_data=external_data)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_between_both_files_keeps_the_old_model(catalog, tmp_path, monkeypatch):
    path = tmp_path / "out.onnx"
    write_model(catalog, read_model(catalog, chain(2)), path, external_data=True)
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    other = read_model(catalog, chain(3))
    replace = Path.replace

    def fail(self, target):
        if Path(target) == path:
            raise OSError(errno.ENOSPC, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(ModelError, match=r"can't write .*out.onnx: No space left"):
        write_model(catalog, other, path, external_data=True)
    monkeypatch.undo()
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before
    assert load(path) == chain(2)


def test_a_folder_that_is_not_there(catalog, tmp_path):
    with pytest.raises(ModelError, match=r"can't write .*: No such file"):
        write_model(catalog, read_model(catalog, chain()), tmp_path / "none" / "out.onnx")


@pytest.mark.parametrize("external_data", [None, True])
@pytest.mark.parametrize("outside", [False, True])
def test_a_model_can_be_written_over_itself(outside, external_data, catalog, tmp_path):
    model = chain()
    save(model, tmp_path / "m.onnx", outside=outside)
    model_id = read_model(catalog, tmp_path / "m.onnx")
    for _ in range(2):
        write_model(catalog, model_id, tmp_path / "m.onnx", external_data=external_data)
        assert load(tmp_path / "m.onnx") == model
    skeleton = skeleton_model(catalog, model_id)
    for tensor in skeleton.graph.initializer:
        if key := reference_of(tensor):
            catalog.verified.clear()
            load_constant(catalog, key)


def test_models_over_two_gigabytes_go_outside_by_themselves(catalog, tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_files, "PROTOBUF_BYTES", 200_000)
    model_id = read_model(catalog, chain(3))
    write_model(catalog, model_id, tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx.data").exists()
    assert load(tmp_path / "out.onnx") == chain(3)
    with pytest.raises(ModelError, match="over 2 GB"):
        write_model(catalog, model_id, tmp_path / "two.onnx", external_data=False)
    assert not (tmp_path / "two.onnx").exists()


def test_a_catalog_that_is_read_can_be_exported(tmp_path):
    save(chain(), tmp_path / "in.onnx")
    with Catalog(tmp_path / "c.duckdb") as catalog:
        model_id = read_model(catalog, tmp_path / "in.onnx")
    with Catalog(tmp_path / "c.duckdb", read_only=True) as catalog:
        write_model(catalog, model_id, tmp_path / "out.onnx")
        with pytest.raises(CatalogError, match="reading only"):
            read_model(catalog, tmp_path / "in.onnx")
    assert load(tmp_path / "out.onnx") == chain()


# --------------------------------------------------------------- weights that are gone or changed


@pytest.fixture
def weight(catalog, tmp_path):
    save(chain(1), tmp_path / "in.onnx")
    skeleton = skeleton_model(catalog, read_model(catalog, tmp_path / "in.onnx"))
    return reference_of(skeleton.graph.initializer[0])


def test_weights_whose_file_is_gone(weight, catalog, tmp_path):
    (tmp_path / "in.onnx").unlink()
    with pytest.raises(CatalogError, match=r"in.onnx, which holds weights .* can't be read"):
        load_constant(catalog, weight)


def test_weights_whose_file_is_cut(weight, catalog, tmp_path):
    data = (tmp_path / "in.onnx").read_bytes()
    (tmp_path / "in.onnx").write_bytes(data[:1000])
    with pytest.raises(CatalogError, match=r"in.onnx, .* has changed since it was imported"):
        load_constant(catalog, weight)


def test_weights_that_were_changed(weight, catalog, tmp_path):
    data = bytearray((tmp_path / "in.onnx").read_bytes())
    data[5000] ^= 1
    (tmp_path / "in.onnx").write_bytes(data)
    with pytest.raises(CatalogError, match=r"in.onnx, .* has changed since it was imported"):
        load_constant(catalog, weight)
    with pytest.raises(CatalogError, match="has changed"):
        write_model(catalog, 1, tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists()


def test_weights_are_found_again_where_the_model_was_read_last(weight, catalog, tmp_path):
    (tmp_path / "in.onnx").rename(tmp_path / "moved.onnx")
    read_model(catalog, tmp_path / "moved.onnx")
    assert load_constant(catalog, weight).shape == (SIZE, SIZE)
    assert build_model(catalog, 1) == chain(1)


def test_constants_are_added_by_hand(catalog):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    key = add_constant(catalog, array)
    assert add_constant(catalog, numpy_helper.from_array(array)) == key
    assert add_constant(catalog, array.reshape(3, 2)) != key
    assert add_constant(catalog, array.astype(np.int32)) != key
    assert np.array_equal(load_constant(catalog, key), array)
    assert load_constant(catalog, add_constant(catalog, np.array(["a", "é"], object))).tolist() == [
        "a",
        "é",
    ]


@pytest.mark.parametrize("values", [np.arange(9, dtype=np.int16), np.array(["a"], object)])
def test_references_to_constants_are_made_by_hand(values, catalog):
    key = add_constant(catalog, values)
    model = chain(1)
    model.graph.initializer.append(constant_reference(catalog, key, "more"))
    built = build_model(catalog, store_model(catalog, model))
    assert numpy_helper.to_array(built.graph.initializer[-1]).tolist() == values.tolist()
    assert not built.graph.initializer[-1].external_data


def test_a_constant_that_is_not_there(catalog):
    with pytest.raises(CatalogError, match="has no constant 00"):
        load_constant(catalog, "00")
