"""`tensolog deploy` from outside, and `explain` of what it wrote."""

import json
import os

import onnx
import pytest
from tensolog.parallel.timeline import Span, Timeline

from tests.parallel.plans import deployed, layer

from .commandline import leftovers

pytestmark = pytest.mark.skipif(os.name == "nt", reason="instances need a POSIX system")


@pytest.fixture
def model(tmp_path):
    onnx.save(layer(), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_a_model_is_deployed_and_explained(cli, model, tmp_path):
    plan = tmp_path / "plan"
    outcome = cli("deploy", model, "-o", plan, "--budget", 1, "--max-batch", 2, "--json", "-q")
    assert outcome.code == 0, outcome.err
    deployment = json.loads(outcome.out)
    assert deployment == {**json.loads((plan / "plan.json").read_text()), "output": str(plan)}
    text = cli("explain", plan).out
    assert "one instance" in text and "Why" in text
    assert json.loads(cli("explain", plan, "--json").out)["setting"] == deployment["setting"]
    assert leftovers(tmp_path, "model.onnx", "plan", "catalog.duckdb") == []


def test_limits_that_nothing_keeps_are_refused(cli, model, tmp_path):
    limit = "throughput > 1e12 /s"
    outcome = cli("deploy", model, "-o", tmp_path / "plan", "--budget", 1, "--limit", limit)
    line = outcome.refused()
    assert f"no setting of this machine keeps '{limit}'" in line and "rows/s" in line
    assert not (tmp_path / "plan").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--limit", "p99 < 50"], "can't be read: write 'p99 < 50 ms'"),
        (["--goal", "speed"], "'speed' is not one of 'throughput', 'latency'"),
        (["--devices", "none.toml"], "none.toml can't be read"),
        (["--input-shape", "z=1,8"], "the model's inputs are x"),
        (["--input-shape", "x=1,9"], "gives 'x' the shape [1, 9]"),
        (["--input-shape", f"x={10**20},8"], "no memory holds so many numbers"),
        (["--max-batch", "0"], "0 is not in the range x>=1"),
        (["--budget", "nan"], "nan is no number of seconds"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(cli, model, tmp_path, arguments, message):
    outcome = cli("deploy", model, "-o", tmp_path / "plan", *arguments)
    assert message in outcome.refused()
    assert leftovers(tmp_path, "model.onnx", "catalog.duckdb") == []


def test_what_is_no_model_or_no_place_is_refused(cli, model, tmp_path):
    (tmp_path / "text.onnx").write_text("no model")
    refused = cli("deploy", tmp_path / "text.onnx", "-o", tmp_path / "plan").refused()
    assert "is not an ONNX model" in refused
    (tmp_path / "empty").mkdir()
    refused = cli("deploy", tmp_path / "empty", "-o", tmp_path / "plan").refused()
    assert "is a folder without model.onnx" in refused
    assert "no deployment" in cli("deploy", model, "-o", tmp_path).refused()
    assert "has no plan.json" in cli("explain", tmp_path).refused()


def test_a_folder_of_a_deployment_is_explained_without_measuring(cli, tmp_path):
    deployment = deployed(layer(), tmp_path)
    assert "one instance was not beaten" in cli("explain", deployment.folder).out
    assert "is a folder" in cli("explain", deployment.folder, "--node", "product").refused()


def test_the_timeline_of_a_divided_deployment_is_drawn(cli, model, tmp_path):
    span = Span(0, "compute", "product (MatMul)", 0.0, 1e-3, 1e-3)
    divided = deployed(layer(), tmp_path, timeline=Timeline(("worker0",), (span,)))
    drawn = tmp_path / "plan.svg"
    assert cli("explain", divided.folder, "--timeline", drawn).code == 0
    assert "product (MatMul)" in drawn.read_text() and "worker0" in drawn.read_text()
    drawn.unlink()
    whole = deployed(layer(), tmp_path)
    refused = cli("explain", whole.folder, "--timeline", drawn).refused()
    assert "has no timeline: its instances run the whole model" in refused
    assert "is a model" in cli("explain", model, "--timeline", drawn).refused()
    assert not drawn.exists()
