"""A result is one thing to move: opened after that by anybody, refused where a part is missing."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from tensolog.catalog import Catalog, ModelError
from tensolog.catalog.onnx.reader import store_model
from tensolog.optimizer.result import deliverable as module
from tensolog.optimizer.result.deliverable import Deliverable
from tensolog.profiles.sessions.deployed import LIBRARY, MODEL, NOTE
from tensolog.profiles.sessions.execution import Execution, embed

import tensolog

from .build import fused, model, needs_compiler, opened
from .test_c_host import RUNTIME, SHAPE, host

pytestmark = needs_compiler
__all__ = ["host"]
WIDTH = SHAPE[-1]
X = np.random.default_rng(5).normal(size=SHAPE).astype(np.float32)
DATA = f"{MODEL}.data"


def network(activation="Softplus"):
    """A product with a constant matrix, which is mapped, and a region that becomes a kernel."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node(activation, ["p"], ["a"]),
        helper.make_node("Tanh", ["a"], ["t"]),
        helper.make_node("Mul", ["p", "t"], ["y"]),
    ]
    w = np.random.default_rng(1).normal(size=(WIDTH, WIDTH)).astype(np.float32)
    return model(nodes, {"x": SHAPE}, {"y": SHAPE}, {"w": w})


def deliverable(catalog, activation="Softplus", **changes):
    changed, library = fused(network(activation), levels=None)
    execution = Execution(libraries=(Path(LIBRARY),))
    embed(changed, execution)
    libraries = {LIBRARY: library.path.read_bytes()}
    number = store_model(catalog, changed)
    made_by = tensolog.__version__
    settings = {"outside_bytes": 1 << 10, "made_by": made_by, **changes}
    return Deliverable(number, execution, libraries, **settings)


def plain(catalog, **changes):
    """A result without native code."""
    return Deliverable(store_model(catalog, network()), made_by="0", **changes)


@pytest.fixture
def catalog():
    with Catalog(":memory:") as catalog:
        yield catalog


def wanted(activation="Softplus"):
    return opened(network(activation)).run(None, {"x": X})[0]


def assert_computes(session, activation="Softplus"):
    (result,) = session.run(None, {"x": X})
    np.testing.assert_allclose(result, wanted(activation), rtol=1e-4, atol=1e-5)


@pytest.fixture
def moved(catalog, tmp_path):
    """A folder that was written in one place and moved to another."""
    deliverable(catalog).write(catalog, tmp_path / "made")
    (tmp_path / "else where").mkdir()
    return (tmp_path / "made").rename(tmp_path / "else where" / "größe")


def test_a_result_with_native_code_is_a_folder_and_nothing_is_beside_it(catalog, tmp_path):
    written = deliverable(catalog).write(catalog, tmp_path / "fast.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["fast.onnx"]
    assert set(written) == set((tmp_path / "fast.onnx").iterdir())
    assert {path.name for path in written} == {MODEL, DATA, LIBRARY, NOTE}


def test_moved_it_is_opened_by_open_session(moved, monkeypatch):
    assert_computes(tensolog.open_session(moved))
    assert_computes(tensolog.open_session(moved / MODEL))
    monkeypatch.chdir(moved.parent)
    assert_computes(tensolog.open_session(moved.name))


PLAIN = """
import sys
import numpy as np
import onnxruntime
folder = sys.argv[1]
options = onnxruntime.SessionOptions()
options.register_custom_ops_library(f"{folder}/LIBRARY")
session = onnxruntime.InferenceSession(f"{folder}/model.onnx", options)
np.save(sys.argv[3], session.run(None, {"x": np.load(sys.argv[2])})[0])
assert not any(name.startswith("tensolog") for name in sys.modules)
"""


def test_moved_it_is_opened_by_onnx_runtime_alone_with_the_line_of_its_note(moved, tmp_path):
    note = (moved / NOTE).read_text(encoding="utf-8")
    assert f'options.register_custom_ops_library("made/{LIBRARY}")' in note
    np.save(tmp_path / "x.npy", X)
    words = [str(moved), str(tmp_path / "x.npy"), str(tmp_path / "y.npy")]
    code = PLAIN.replace("LIBRARY", LIBRARY)
    subprocess.run([sys.executable, "-c", code, *words], check=True, cwd=tmp_path)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), wanted(), rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(RUNTIME is None, reason="its library isn't beside the Python package")
def test_moved_it_is_opened_from_c_with_the_line_of_its_note(moved, host, tmp_path):
    note = (moved / NOTE).read_text(encoding="utf-8")
    assert f'RegisterCustomOpsLibrary_V2(options, "made/{LIBRARY}")' in note
    X.tofile(tmp_path / "x")
    words = [RUNTIME, moved / LIBRARY, moved / MODEL, tmp_path / "x", tmp_path / "y", *SHAPE]
    done = subprocess.run([host, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    result = np.fromfile(tmp_path / "y", np.float32).reshape(SHAPE)
    np.testing.assert_allclose(result, wanted(), rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(sys.platform != "linux", reason="what is mapped is told there")
def test_its_weights_are_mapped(moved):
    session = tensolog.open_session(moved)
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    assert str(moved / DATA) in maps
    del session


@pytest.mark.parametrize("part", [MODEL, DATA, LIBRARY])
def test_what_is_missing_is_named(part, moved):
    (moved / part).unlink()
    with pytest.raises(ModelError, match="moved as a whole") as raised:
        tensolog.open_session(moved)
    assert part in str(raised.value)


def test_a_model_without_its_folder_says_what_it_needs(moved, tmp_path):
    alone = (moved / MODEL).rename(tmp_path / "alone.onnx")
    with pytest.raises(ModelError, match=LIBRARY):
        tensolog.open_session(alone)


def test_weights_that_were_moved_in_part_are_named(moved):
    with (moved / DATA).open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(ModelError, match=f"{DATA} is shorter"):
        tensolog.open_session(moved)


def test_the_library_of_another_result_is_told(moved, catalog, tmp_path):
    deliverable(catalog, "Softsign").write(catalog, tmp_path / "other")
    (tmp_path / "other" / LIBRARY).replace(moved / LIBRARY)
    with pytest.raises(ModelError, match="not the library that it was written with"):
        tensolog.open_session(moved)


def test_a_library_for_another_system_is_told(moved):
    domain = onnx.load(moved / MODEL, load_external_data=False).opset_import[-1].domain
    (moved / LIBRARY).write_bytes(b"MZ" + domain.encode())
    with pytest.raises(ModelError, match="kind of system"):
        tensolog.open_session(moved)


@pytest.mark.skipif(sys.platform == "win32", reason="what is open can't be replaced there")
def test_what_took_its_place_is_opened_while_it_is_still_open(catalog, tmp_path):
    deliverable(catalog).write(catalog, tmp_path / "fast")
    older = tensolog.open_session(tmp_path / "fast")
    deliverable(catalog, "Softsign").write(catalog, tmp_path / "fast")
    assert_computes(tensolog.open_session(tmp_path / "fast"), "Softsign")
    assert_computes(older)
    deliverable(catalog).write(catalog, tmp_path / "fast")
    assert_computes(tensolog.open_session(tmp_path / "fast"))


# --------------------------------------------------------------------------------- file or folder


@pytest.mark.parametrize(
    ("name", "changes", "is_folder"),
    [
        ("fast.onnx", {}, False),
        ("fast", {}, True),
        ("fast.onnx/", {}, True),
        ("fast.onnx", {"outside_bytes": 1 << 10}, True),
        ("fast.onnx", {"outside_bytes": 1 << 10, "is_portable": True}, False),
        ("fast", {"outside_bytes": 1 << 10, "is_portable": True}, True),
    ],
)
def test_one_file_where_that_is_enough(name, changes, is_folder, catalog, tmp_path):
    plain(catalog, **changes).write(catalog, f"{tmp_path}/{name}")
    (written,) = tmp_path.iterdir()
    assert written.is_dir() == is_folder
    session = tensolog.open_session(written)
    assert_computes(session)
    if not is_folder or changes.get("is_portable"):
        file = written / MODEL if is_folder else written
        onnxruntime.InferenceSession(file.read_bytes(), providers=["CPUExecutionProvider"])


def content(folder):
    """All that is in a folder, however deep, hidden files too."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def with_(path, text="mine"):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")


FOREIGN = {
    "a folder of notes": ("fast", ["fast/notes.txt"]),
    "a model that somebody keeps in a folder": ("fast", ["fast/model.onnx"]),
    "the same of a name for a file": ("fast.onnx", ["fast.onnx/model.onnx"]),
    "a file": ("fast", ["fast"]),
    "a README of somebody": ("fast", ["fast/README.txt", "fast/model.onnx"]),
}


@pytest.mark.parametrize(("name", "there"), FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("make", [deliverable, plain])
def test_nothing_but_results_is_replaced(make, name, there, catalog, tmp_path):
    for file in there:
        with_(tmp_path / file)
    before = content(tmp_path)
    with pytest.raises(ModelError, match="name another one"):
        make(catalog).write(catalog, tmp_path / name)
    assert content(tmp_path) == before


def test_a_result_to_which_something_was_added_is_not_replaced(catalog, tmp_path):
    deliverable(catalog).write(catalog, tmp_path / "fast")
    with_(tmp_path / "fast" / "labels.json")
    before = content(tmp_path)
    with pytest.raises(ModelError, match=r"labels\.json"):
        deliverable(catalog).write(catalog, tmp_path / "fast")
    assert content(tmp_path) == before


def test_older_results_are_replaced_whatever_their_form(catalog, tmp_path):
    path = tmp_path / "fast.onnx"
    path.write_text("an older file", encoding="utf-8")
    for make in (deliverable, deliverable, plain, plain, deliverable):
        make(catalog).write(catalog, path)
        assert path.is_dir() == (make is deliverable)
        assert_computes(tensolog.open_session(path))
    assert [entry.name for entry in tmp_path.iterdir()] == ["fast.onnx"]
    (tmp_path / "empty").mkdir()
    plain(catalog).write(catalog, tmp_path / "empty")
    assert_computes(tensolog.open_session(tmp_path / "empty"))


@pytest.mark.parametrize("older", [None, "folder", "file"])
def test_where_writing_fails_all_is_as_it_was(older, catalog, tmp_path, monkeypatch):
    path = tmp_path / "fast.onnx"
    if older is not None:
        (deliverable if older == "folder" else plain)(catalog).write(catalog, path)
    before = content(tmp_path)

    def fails(new, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "put_in_place", fails)
    with pytest.raises(ModelError, match="No space left"):
        deliverable(catalog).write(catalog, path)
    assert content(tmp_path) == before


def test_a_link_stays_a_link(catalog, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "fast")
    deliverable(catalog).write(catalog, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert_computes(tensolog.open_session(tmp_path / "real" / "fast"))


@pytest.mark.parametrize("where", ["fast/model.onnx", "fast.onnx"])
def test_the_model_that_was_read_is_not_replaced_by_a_folder(where, catalog, tmp_path):
    with_(tmp_path / where, "the model")
    if where == "fast/model.onnx":
        with_(tmp_path / "fast" / NOTE, "A model optimized by tensolog")
    before = content(tmp_path)
    deliverable_ = deliverable(catalog, source=tmp_path / where)
    with pytest.raises(ModelError, match=r"the model that was read.*write to another name"):
        deliverable_.write(catalog, tmp_path / Path(where).parts[0])
    assert content(tmp_path) == before
