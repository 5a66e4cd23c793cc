"""TpuGraphs' files: what is read comes back equal, what is damaged is refused in one line."""

import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from tensolog.profiles.learning.samples.archive import (
    ArchiveError,
    CostGraph,
    read_archive,
    write_archive,
)
from tensolog.profiles.learning.samples.cost_graphs import (
    export_archives,
    import_archives,
    load_cost_graphs,
    store_cost_graph,
)

from tensolog import Catalog
from tests.campaigns import examples

PUBLISHED = Path(__file__).resolve().parents[5] / "shared/data/tpugraphs/alexnet_layout.npz"


def layout(**changes):
    """A layout of three nodes, the last two configurable, with two configurations."""
    arrays = {
        "node_feat": np.arange(12, dtype=np.float32).reshape(3, 4),
        "node_opcode": np.array([2, 63, 57], np.int32),
        "edge_index": np.array([[1, 0], [2, 1]], np.int32),
        "node_config_ids": np.array([2, 1], np.int32),
        "node_config_feat": np.arange(20, dtype=np.float32).reshape(2, 2, 5) - 1,
        "config_runtime": np.array([70, 90], np.int32),
        "node_splits": np.array([[0, 2, 3]], np.int64),
    }
    return {name: array for name, array in (arrays | changes).items() if array is not None}


def tile(**changes):
    arrays = {
        "node_feat": np.ones((2, 4), np.float32),
        "node_opcode": np.array([2, 63], np.uint8),
        "edge_index": np.array([[1, 0]], np.int64),
        "config_feat": np.eye(3, 24, dtype=np.float32),
        "config_runtime": np.array([5, 2**40, 9]),
        "config_runtime_normalizers": np.array([5, 5, 5]),
    }
    return arrays | changes


def saved(path, arrays):
    np.savez_compressed(path, **arrays)
    return path


def assert_equal(these, those):
    assert set(these) == set(those)
    for name, array in these.items():
        assert (array.dtype, array.shape) == (those[name].dtype, those[name].shape), name
        np.testing.assert_array_equal(array, those[name])


@st.composite
def cost_graphs(draw):
    nodes, edges = draw(st.integers(0, 5)), draw(st.integers(0, 6))
    count, features = draw(st.integers(0, 4)), draw(st.integers(0, 3))
    whole = st.sampled_from([np.int32, np.int64, np.uint8])
    floats = st.floats(-(2.0**99), 2.0**99, width=32, allow_subnormal=False)

    def array(kind, shape, elements):
        return draw(arrays_of.arrays(kind, shape, elements=elements))

    below = st.integers(0, max(nodes - 1, 0))
    arrays = {
        "node_feat": array(np.float32, (nodes, draw(st.integers(0, 3))), floats),
        "node_opcode": array(draw(whole), nodes, st.integers(0, 200)),
        "edge_index": array(draw(whole), (edges if nodes else 0, 2), below),
        "config_runtime": array(draw(whole), count, st.integers(1, 255)),
    }
    if draw(st.booleans()):
        arrays["config_feat"] = array(np.float32, (count, features), floats)
        arrays["config_runtime_normalizers"] = array(np.int64, count, st.integers(1, 2**62))
    else:
        ids = draw(st.lists(below, unique=True, max_size=nodes))
        arrays["node_config_ids"] = np.array(ids, draw(whole))
        arrays["node_config_feat"] = array(np.float32, (count, len(ids), features), floats)
        if draw(st.booleans()):
            splits = draw(st.lists(st.integers(0, nodes), max_size=3))
            arrays["node_splits"] = np.array([splits], np.int64)
    return CostGraph("npz/some/graph.npz", arrays)


@pytest.fixture(scope="module")
def catalog():
    with Catalog(":memory:") as opened:
        yield opened


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graph=cost_graphs())
def test_rows_and_files_lose_nothing(catalog, graph):
    store_cost_graph(catalog, graph)
    (loaded,) = load_cost_graphs(catalog)
    assert_equal(graph.arrays, loaded.arrays)
    assert loaded.hash == graph.hash
    file = io.BytesIO()
    write_archive(loaded, file)
    file.seek(0)
    assert_equal(graph.arrays, np.load(file, allow_pickle=False))


def test_a_folder_comes_out_as_it_went_in(tmp_path):
    source = tmp_path / "npz"
    for name, arrays in (("layout/xla/random/train/a", layout()), ("tile/xla/test/b", tile())):
        (source / name).parent.mkdir(parents=True)
        saved(source / f"{name}.npz", arrays)
    with Catalog(":memory:") as catalog:
        assert import_archives(catalog, source) == {"added": 2, "replaced": 0, "known": 0}
        assert import_archives(catalog, source) == {"added": 0, "replaced": 0, "known": 2}
        changed = layout(config_runtime=np.array([70, 91], np.int32))
        saved(source / "layout/xla/random/train/a.npz", changed)
        assert import_archives(catalog, source) == {"added": 0, "replaced": 1, "known": 1}
        files = export_archives(load_cost_graphs(catalog), tmp_path / "out")
    assert len(files) == 2
    for file in files:
        twin = source / file.relative_to(tmp_path / "out")
        assert_equal(dict(np.load(twin)), dict(np.load(file, allow_pickle=False)))


def test_splits_are_not_needed(tmp_path):
    graph = read_archive(saved(tmp_path / "a.npz", layout(node_splits=None)))
    assert graph.collection == "layout"


@pytest.mark.skipif(not PUBLISHED.exists(), reason="TpuGraphs' file is not here")
def test_the_published_file():
    graph = read_archive(PUBLISHED)
    with Catalog(":memory:") as catalog:
        store_cost_graph(catalog, graph)
        (loaded,) = load_cost_graphs(catalog)
    assert_equal(dict(np.load(PUBLISHED)), loaded.arrays)
    assert loaded.arrays["node_config_feat"].shape == (47_712, 26, 10)


DAMAGED = {
    "has no array edge_index": layout(edge_index=None),
    "node_feat has 1 dimensions": layout(node_feat=np.ones(3, np.float32)),
    "not 3 nodes": layout(node_opcode=np.array([1, 2])),
    "not 2 configurations": layout(config_runtime=np.array([70])),
    "and not 1 configurable nodes as node_config_ids": layout(node_config_ids=np.array([1])),
    r"edge_index has shape \(2, 3\), and not 2": layout(edge_index=np.zeros((2, 3), int)),
    "edge_index has 0 to 3": layout(edge_index=np.array([[3, 0]])),
    "node_config_ids has -1 to 1": layout(node_config_ids=np.array([-1, 1])),
    "names a node twice": layout(node_config_ids=np.array([1, 1])),
    "node_splits has 0 to 4": layout(node_splits=np.array([[0, 4]])),
    "config_runtime has 0": layout(config_runtime=np.array([70, 0])),
    "config_runtime holds float64": layout(config_runtime=np.array([70.0, 80.0])),
    "node_feat holds float64": layout(node_feat=np.ones((3, 4))),
    "node_feat has numbers that are not finite": layout(
        node_feat=np.full((3, 4), np.nan, np.float32)
    ),
    "normalizers has -5": tile(config_runtime_normalizers=np.array([5, -5, 5])),
    "node_config_ids does not belong to the tile": tile(node_config_ids=np.array([1])),
    "'more.npy', which is no array": layout(more=np.ones(2)),
    "node_opcode.npy holds <U1": layout(node_opcode=np.array(["a", "b", "c"])),
}


@pytest.mark.parametrize("reason", DAMAGED)
def test_arrays_that_do_not_fit(tmp_path, reason):
    with pytest.raises(ArchiveError, match=reason) as refusal:
        read_archive(saved(tmp_path / "a.npz", DAMAGED[reason]))
    assert str(tmp_path) in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_objects_are_never_unpickled(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (Path(tmp_path / "exploded").touch, ())

    path = saved(tmp_path / "a.npz", layout(node_feat=np.array([[Bomb()]], dtype=object)))
    with pytest.raises(ArchiveError, match="not numbers"):
        read_archive(path)
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ArchiveError, match="no npz file"):
        read_archive(path)
    assert not (tmp_path / "exploded").exists()


def test_a_name_that_no_table_can_hold_is_refused(tmp_path):
    saved(tmp_path / "a.npz", layout())
    with pytest.raises(ArchiveError, match=r"'\\udcff\.npz' is no UTF-8: rename it"):
        read_archive(tmp_path / "a.npz", "\udcff.npz")


def test_a_header_that_promises_more_than_there_is(tmp_path):
    path = saved(tmp_path / "a.npz", layout())
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    members["node_feat.npy"] = members["node_feat.npy"].replace(b"(3, 4), }  ", b"(3, 4000), }")
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    with pytest.raises(ArchiveError, match=r"node_feat.npy is damaged"):
        read_archive(path)


@pytest.mark.parametrize("seed", range(40))
def test_damaged_bytes_give_one_line_or_an_equal_graph(tmp_path, seed):
    path = saved(tmp_path / "a.npz", layout())
    whole, content = read_archive(path), bytearray(path.read_bytes())
    random = np.random.default_rng(seed)
    if seed % 4 == 0:
        del content[random.integers(len(content)) :]
    else:
        for place in random.integers(len(content), size=3):
            content[place] ^= 1 << random.integers(8)
    path.write_bytes(content)
    try:
        graph = read_archive(path)
    except ArchiveError as error:
        assert "\n" not in str(error)
    else:  # what was hit says nothing of the arrays, as a date
        assert_equal(graph.arrays, whole.arrays)


@pytest.mark.parametrize(
    "name", ["../a.npz", "/a.npz", "a.txt", "b/../../a.npz", "c:a.npz", "a\\b.npz"]
)
def test_no_file_is_written_outside_of_the_folder(tmp_path, name):
    graph = CostGraph(name, layout())
    with pytest.raises(ArchiveError, match="names no npz file"):
        export_archives([graph], tmp_path / "out")
    assert not list(tmp_path.rglob("*.npz"))


def test_rows_that_do_not_fit_together_are_refused():
    with Catalog(":memory:") as catalog:
        store_cost_graph(catalog, CostGraph("a.npz", layout()))
        catalog.connection.execute("DELETE FROM cost_graph_node WHERE position = 1")
        with pytest.raises(ArchiveError, match="do not fit together"):
            list(load_cost_graphs(catalog))


def test_nothing_is_stored_where_one_file_is_damaged(tmp_path):
    saved(tmp_path / "a.npz", layout())
    (tmp_path / "b.npz").write_bytes(b"PK\3\4")
    with Catalog(":memory:") as catalog:
        with pytest.raises(ArchiveError, match=r"b\.npz"):
            import_archives(catalog, tmp_path)
        assert not list(load_cost_graphs(catalog))
