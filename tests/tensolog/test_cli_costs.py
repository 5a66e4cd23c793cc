"""`tensolog costs` as a user types it."""

import json

import numpy as np
import onnx

from ..profiles.learning.test_archive import assert_equal, layout, saved
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
