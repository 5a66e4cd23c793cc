"""`tensolog costs` as a user types it."""

import importlib.util
import json
import zipfile
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
from tensolog.profiles.learning.exported import cost_model
from tensolog.profiles.learning.kernel_costs import shipped_model
from tensolog.profiles.learning.samples.kernel_graphs import FEATURES, PRIOR_FEATURE

from ..optimizer.layouts.networks import has_blocks, network
from ..profiles.learning.samples.test_archive import assert_equal, layout, saved
from ..profiles.learning.test_predictor import described, parameters
from .commandline import leftovers, model_proto


def test_a_data_set_comes_out_as_it_went_in(cli, tmp_path):
    (tmp_path / "npz").mkdir()
    saved(tmp_path / "npz/a.npz", layout())
    outcome = cli("costs", "import", tmp_path / "npz", "--json")
    assert json.loads(outcome.out) == {"added": 1, "replaced": 0, "known": 0}
    assert "1 known" in cli("costs", "import", tmp_path / "npz").out
    assert "wrote 1 file" in cli("costs", "export", tmp_path / "out").out
    assert_equal(layout(), dict(np.load(tmp_path / "out/a.npz", allow_pickle=False)))


def test_a_damaged_file_is_refused_in_one_line(cli, tmp_path):
    saved(tmp_path / "a.npz", layout(node_opcode=np.arange(2)))
    line = cli("costs", "import", tmp_path / "a.npz").refused()
    assert "node_opcode has shape (2,), and not 3 nodes as node_feat has" in line
    assert "a.npz" in line


def test_a_folder_without_files_is_refused(cli, tmp_path):
    assert "holds no npz file" in cli("costs", "import", tmp_path).refused()


def test_nothing_to_export(cli, tmp_path):
    assert "nothing was written" in cli("costs", "export", tmp_path / "out").out
    assert leftovers(tmp_path) == []


def test_kernels_are_collected_and_too_few_to_learn_from(cli, tmp_path):
    onnx.save(model_proto(), tmp_path / "small.onnx")
    arguments = (tmp_path / "small.onnx", "--threads", 1)
    (row,) = json.loads(cli("costs", "collect", *arguments, "--budget", 0, "--json").out)
    assert (row["measured"], row["failed"]) == (0, 0)
    assert row["left"] == 4
    assert "two models at least" in cli("costs", "score", *arguments).refused()


@pytest.mark.skipif(not has_blocks(), reason="the runtime has no blocked layout here")
def test_layouts_of_a_model_are_collected_as_a_graph(cli, tmp_path):
    onnx.save(network(1).model(), tmp_path / "drawn.onnx")
    collect = ("costs", "collect", "--threads", 1, "--layouts", "--budget", 2, "--json")
    (row,) = json.loads(cli(*collect, tmp_path / "drawn.onnx").out)
    query = (
        "SELECT path, count(*) AS n FROM cost_graph JOIN cost_graph_configuration "
        "USING (graph_hash) WHERE collection = 'layout' GROUP BY ALL"
    )
    (stored,) = json.loads(cli("sql", query, "--format", "json").out)
    assert stored == {"path": "layout/onnxruntime/drawn.npz", "n": row["layouts"]}
    assert row["layouts"] > 1


def test_layouts_need_fixed_sizes(cli, tmp_path):
    onnx.save(
        model_proto(inputs=(("x", ("n", 8)),), outputs=(("y", ("n", 8)),)), tmp_path / "free.onnx"
    )
    line = cli("costs", "collect", tmp_path / "free.onnx", "--layouts", "--budget", 0).refused()
    assert "free.onnx: input 'x' has a free size" in line


def test_a_data_set_may_be_one_file(cli, tmp_path):
    saved(tmp_path / "a.npz", layout())
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as packed:
        for name in ("npz/a.npz", "npz/b.npz"):
            packed.write(tmp_path / "a.npz", name)
    assert "2 added" in cli("costs", "import", tmp_path / "all.zip").out
    cli("costs", "export", tmp_path / "out")
    assert_equal(layout(), dict(np.load(tmp_path / "out/npz/b.npz", allow_pickle=False)))
    (tmp_path / "bad.zip").write_bytes(b"PK")
    assert "bad.zip is no zip file" in cli("costs", "import", tmp_path / "bad.zip").refused()
    with zipfile.ZipFile(tmp_path / "half.zip", "w") as packed:
        packed.write(tmp_path / "a.npz", "a.npz")
        packed.writestr("b.npz", b"PK")
    assert "b.npz is no npz file" in cli("costs", "import", tmp_path / "half.zip").refused()


def test_graphs_of_one_architecture_are_too_few_to_score(cli, tmp_path):
    pytest.importorskip("sklearn", reason="learning needs scikit-learn")
    saved(tmp_path / "a.npz", layout())
    cli("costs", "import", tmp_path / "a.npz")
    assert "1 architecture with timed" in cli("costs", "score").refused()


@pytest.fixture
def costs(tmp_path):
    """A model of costs of kernels that nothing was learned by."""
    drawn = parameters(0, 0, len(FEATURES), 2)
    metadata = described(np.array([], int), prior_feature=PRIOR_FEATURE, threads=1)
    onnx.save(cost_model([drawn], metadata), tmp_path / "costs.onnx")
    return tmp_path / "costs.onnx"


def test_what_is_predicted_is_told_beside_what_was_measured(cli, tmp_path, costs):
    model = tmp_path / "small.onnx"
    onnx.save(model_proto(), model)
    plot = tmp_path / "plot.svg"
    shown = ("costs", "show", model, "--costs", costs, "-o", plot)
    assert "no kernel of these models was measured" in cli(*shown).refused()
    assert not plot.exists()
    cli("costs", "collect", model, "--threads", 1, "--budget", 20)
    explanation = json.loads(cli("explain", model, "--costs", costs, "--json").out)
    assert len(explanation["kernels"]) == 4
    for row in explanation["kernels"]:
        assert row["least_ns"] * 1.5 == pytest.approx(row["predicted_ns"])
        assert row["most_ns"] == pytest.approx(1.5 * row["predicted_ns"])
        assert row["measured_ns"] > 0 and row["nearest"] == []
    trees = json.loads(cli("explain", model, "--costs", trees_file(tmp_path), "--json").out)
    assert len(trees["kernels"]) == 4
    assert {row["nearest"][0]["label"].split()[0] for row in trees["kernels"] if row["nearest"]}
    text = cli("explain", model, "--costs", costs).out
    assert "none of its operators" in text and "left out" in text
    cli(*shown)
    svg = ElementTree.parse(plot).getroot()
    assert len(svg.findall("{http://www.w3.org/2000/svg}circle")) == 4
    exported = tmp_path / "graphs"
    assert "wrote 4 files" in cli("costs", "export", exported).out
    assert len(list(exported.rglob("small_*.npz"))) == 4


def trees_file(folder):
    """The trees that ship for one class of processors, as a file."""
    (folder / "trees.onnx").write_bytes(shipped_model("amd-avx512"))
    return folder / "trees.onnx"


def test_trees_are_trained_and_need_two_models(cli, tmp_path):
    pytest.importorskip("sklearn", reason="learning needs scikit-learn")
    output = tmp_path / "costs.onnx"
    assert "of two models at least" in cli("costs", "train", "-q", "-o", output).refused()
    assert not output.exists()


WITHOUT_TORCH = importlib.util.find_spec("torch") is None


@pytest.mark.skipif(not WITHOUT_TORCH, reason="torch is here")
def test_training_says_what_it_needs(cli, tmp_path):
    saved(tmp_path / "a.npz", layout())
    cli("costs", "import", tmp_path / "a.npz")
    train = ("costs", "train", "--kind", "network")
    line = cli(*train, "-o", tmp_path / "costs.onnx", "-q").refused()
    assert "needs torch: pip install" in line
    assert not (tmp_path / "costs.onnx").exists()


@pytest.mark.skipif(WITHOUT_TORCH, reason="training needs torch")
def test_what_is_trained_is_written_whole_or_not_at_all(cli, tmp_path):
    output = tmp_path / "costs.onnx"
    train = ("costs", "train", "--kind", "network", "-q", "--steps", 3, "-o", output)
    assert "there are no graphs with timed configurations" in cli(*train).refused()
    for name in "ab":
        saved(tmp_path / f"{name}.npz", layout())
        cli("costs", "import", tmp_path / f"{name}.npz")
    assert "there is no folder" in cli(*train[:-1], tmp_path / "no/costs.onnx").refused()
    assert not output.exists()
    done = json.loads(cli(*train, "--json").out)
    assert (done["graphs"], done["bytes"]) == (2, output.stat().st_size)
    model = tmp_path / "small.onnx"
    onnx.save(model_proto(), model)
    line = cli("explain", model, "--costs", output).refused()
    assert "train one on such graphs" in line


def test_a_model_of_something_else_tells_no_costs(cli, tmp_path):
    model = tmp_path / "small.onnx"
    onnx.save(model_proto(), model)
    line = cli("explain", model, "--costs", model).refused()
    assert "small.onnx is no model of costs" in line
    assert "leave those away" in cli("explain", model, "--costs", model, "--rule", "X").refused()
