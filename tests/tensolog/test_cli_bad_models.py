"""What is no usable model or option: exit code 2, one line, no traceback, no file."""

import errno
import os

import duckdb
import numpy as np
import onnx
import pytest
import tensolog.optimizer
from onnx import helper, numpy_helper
from tensolog.catalog.errors import TensologError
from tensolog.optimizer.egraph.search_tables import write_tables

from .commandline import leftovers, model_proto


def not_onnx(path):
    path.write_text("hello, I am not a model\n" * 50, encoding="utf-8")


def empty(path):
    path.write_bytes(b"")


def truncated(path):
    content = model_proto().SerializeToString()
    path.write_bytes(content[: len(content) * 2 // 3])


def noise(path):
    path.write_bytes(np.random.default_rng(0).bytes(4096))


def no_graph(path):
    path.write_bytes(onnx.ModelProto(ir_version=8).SerializeToString())


def opset_from_the_future(path):
    onnx.save(model_proto(opset=999), path)


def cyclic(path):
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"]),
        helper.make_node("Add", ["x", "a"], ["b"]),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    model = model_proto(nodes)
    del model.graph.initializer[:]
    path.write_bytes(model.SerializeToString())


def undefined_input(path):
    nodes = [helper.make_node("Relu", ["nowhere"], ["y"])]
    path.write_bytes(model_proto(nodes).SerializeToString())


def unmade_output(path):
    nodes = [helper.make_node("Relu", ["x"], ["z"])]
    path.write_bytes(model_proto(nodes).SerializeToString())


def made_twice(path):
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["y"])]
    path.write_bytes(model_proto(nodes).SerializeToString())


def wrong_type(path):
    model = model_proto([helper.make_node("MatMul", ["x", "w"], ["y"])])
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones((8, 8), np.int64), "w"))
    path.write_bytes(model.SerializeToString())


def wrong_shape(path):
    model = model_proto([helper.make_node("MatMul", ["x", "w"], ["y"])])
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.ones((5, 8), np.float32), "w"))
    path.write_bytes(model.SerializeToString())


def missing_external_data(path):
    onnx.save(
        model_proto(), path, save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    (path.parent / "weights.bin").unlink()


def short_external_data(path):
    onnx.save(
        model_proto(), path, save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    (path.parent / "weights.bin").write_bytes(b"1234")


BAD = [
    not_onnx,
    empty,
    truncated,
    noise,
    no_graph,
    opset_from_the_future,
    cyclic,
    undefined_input,
    unmade_output,
    made_twice,
    wrong_type,
    wrong_shape,
    missing_external_data,
    short_external_data,
]


@pytest.mark.parametrize("spoil", BAD, ids=lambda spoil: spoil.__name__)
def test_optimize_refuses(spoil, cli, tmp_path):
    path = tmp_path / "bad.onnx"
    spoil(path)
    line = cli(
        "optimize", path, "-o", tmp_path / "out.onnx", "--report", tmp_path / "r.html"
    ).refused()
    assert len(line) < 600
    assert leftovers(tmp_path, "bad.onnx", "weights.bin") == []


@pytest.mark.parametrize("command", [["explain"], ["profile"], ["catalog", "import"]])
@pytest.mark.parametrize("spoil", [not_onnx, truncated, missing_external_data])
def test_other_commands_refuse(spoil, command, cli, tmp_path):
    path = tmp_path / "bad.onnx"
    spoil(path)
    cli(*command, path).refused()


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--threads", "0"], "--threads"),
        (["--threads", "100000"], "100000 threads"),
        (["--budget", "-1"], "--budget"),
        (["--budget", "soon"], "--budget"),
        (["--budget", "inf"], "can't be inf"),
        (["--target", "tpu"], "--target"),
        (["--allow", "exact,fast"], "fast"),
        (["--allow", ","], "--allow"),
        (["--input-shape", "1,3"], "1,3"),
        (["--input-shape", "x=1,a"], "x=1,a"),
        (["--input-shape", "x=0,8"], "at least 1"),
        (["--input-shape", "x=1,8", "--input-shape", "x=2,8"], "twice"),
        (["--input-shape", "z=1,8"], "'z'"),
        (["--input-shape", "x=1,9"], "x"),
        (["--input-shape", "x=1,8,1"], "x"),
        (["--catalog", "{tmp}"], "{tmp}"),
        (["--report", "{tmp}/none/report.html"], "none"),
        (["--report", "{tmp}/small.onnx"], "same file"),
        (["--report", "{tmp}/out.onnx"], "same file"),
        (["--keep", "{tmp}/small.onnx"], "same file"),
        (["--keep", "{tmp}/out.onnx"], "same file"),
        (["--report", "{tmp}/r.html", "--keep", "{tmp}/r.html"], "same file"),
        (["--nonsense"], "--nonsense"),
        (["--in-place"], "--in-place"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_options(options, part, cli, small_model, tmp_path):
    filled = [option.replace("{tmp}", str(tmp_path)) for option in options]
    line = cli("optimize", small_model, "-o", tmp_path / "out.onnx", *filled).refused()
    assert part.replace("{tmp}", str(tmp_path)) in line
    assert leftovers(tmp_path, "small.onnx") == []


def test_profile_refuses_more_threads_than_make_sense(cli, small_model):
    assert "100000 threads" in cli("profile", small_model, "--threads", "100000").refused()


def test_what_is_no_file_is_not_replaced(cli, small_model, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for arguments in (["-o", pipe], ["-o", tmp_path / "out.onnx", "--report", pipe]):
        assert "regular file" in cli("optimize", small_model, *arguments).refused()
    assert "regular file" in cli("sql", "SELECT 1", "-o", pipe).refused()
    assert pipe.is_fifo()


def test_missing_and_misplaced_files(cli, small_model, tmp_path):
    before = small_model.read_bytes()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "notes.txt").touch()
    for arguments, part in [
        ([tmp_path / "none.onnx", "-o", tmp_path / "out.onnx"], "none.onnx"),
        ([tmp_path, "-o", tmp_path / "out.onnx"], "directory"),
        ([small_model, "-o", tmp_path / "none" / "out.onnx"], "none"),
        ([small_model, "-o", tmp_path / "folder"], "notes.txt"),
        ([small_model, "-o", small_model], "--in-place"),
        ([small_model, "-o", tmp_path / "folder" / ".." / "small.onnx"], "--in-place"),
        ([small_model], "-o OUT.onnx"),
    ]:
        assert part in cli("optimize", *arguments).refused()
    assert small_model.read_bytes() == before
    assert leftovers(tmp_path, "small.onnx", "folder") == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_can_not_be_written(cli, small_model, tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    assert "permission" in cli("optimize", small_model, "-o", folder / "out.onnx").refused()


def test_plans_are_not_kept_in_a_catalog(cli, small_model, tmp_path, own_catalog):
    """Its tables have the same names."""
    assert cli("catalog").code == 0
    line = cli(
        "optimize", small_model, "-o", tmp_path / "out.onnx", "--keep", own_catalog
    ).refused()
    assert f"{own_catalog} is a catalog" in line
    assert leftovers(tmp_path, "small.onnx") == []
    assert cli("sql", "SELECT plan_id FROM plan").code == 0


def test_a_damaged_catalog(cli, small_model, tmp_path, own_catalog):
    own_catalog.write_bytes(b"damaged")
    line = cli("optimize", small_model, "-o", tmp_path / "out.onnx").refused()
    assert str(own_catalog) in line
    assert own_catalog.read_bytes() == b"damaged"
    assert leftovers(tmp_path, "small.onnx") == []


def test_a_defect_is_one_line_unless_debugging(cli, monkeypatch, small_model, tmp_path):
    def defective(*_, **__):
        raise RuntimeError("the impossible\nhappened")

    monkeypatch.setattr(tensolog.optimizer, "optimize", defective)
    arguments = ["optimize", small_model, "-o", tmp_path / "out.onnx", "--quiet"]
    outcome = cli(*arguments)
    assert outcome.code == 70
    assert outcome.err.count("\n") == 1
    assert "RuntimeError: the impossible happened" in outcome.err
    assert "TENSOLOG_DEBUG=1" in outcome.err
    with pytest.raises(RuntimeError):
        cli("--debug", *arguments)
    monkeypatch.setenv("TENSOLOG_DEBUG", "1")
    with pytest.raises(RuntimeError):
        cli(*arguments)


@pytest.mark.parametrize(
    ("error", "part"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "temporary files"),
        (OSError(errno.ENOSPC, "No space left on device", "/x/k.so"), "/x/k.so"),
        (duckdb.IOException("Could not read enough bytes"), "--catalog PATH"),
        (duckdb.Error("Corrupt database file: computed checksum 1"), "--catalog PATH"),
        (duckdb.TransactionException("Failed to commit: Could not write file"), "--catalog PATH"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_a_disk_that_is_full_or_damaged_is_no_defect(
    error, part, cli, monkeypatch, small_model, tmp_path
):
    def fails(*_, **__):
        raise error

    monkeypatch.setattr(tensolog.optimizer, "optimize", fails)
    assert part in cli("optimize", small_model, "-o", tmp_path / "out.onnx").refused()


def test_a_wrong_query_of_our_own_is_a_defect(cli, monkeypatch, small_model, tmp_path):
    def fails(*_, **__):
        raise duckdb.CatalogException("there is no such table")

    monkeypatch.setattr(tensolog.optimizer, "optimize", fails)
    assert cli("optimize", small_model, "-o", tmp_path / "out.onnx").code == 70


def test_plans_that_can_not_be_kept_leave_no_file(tmp_path):
    path = tmp_path / "plans.duckdb"
    with pytest.raises(TensologError, match="can't keep"):
        write_tables(path, "CREATE TABLE whole(a INTEGER); CREATE TABLE half(", {})
    assert leftovers(tmp_path) == []
    duckdb.connect(str(path)).close()
    with pytest.raises(TensologError, match="can't keep"):
        write_tables(path, "CREATE TABLE half(", {})
    assert leftovers(tmp_path) == ["plans.duckdb"]
