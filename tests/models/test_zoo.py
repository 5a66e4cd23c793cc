"""The zoo's models are what users bring: valid, seeded, and numerically well-behaved."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from benchmarks.zoo import ARCHITECTURES, SECOND, build, random_feeds

from .agreement import disagreement, run

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "build_model.py"
SIZES = {"batch": 2, "tokens": 6}


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("opset", [13, 17, 18, 21])
def test_activations_keep_their_scale(name, opset):
    model = build(name, tiny=True, opset=opset)
    onnx.checker.check_model(model, full_check=True)
    for output in run(model, random_feeds(model)):
        assert 1e-3 < output.std() < 1e3


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_equal_seeds_make_equal_models(name):
    first, second = (build(name, tiny=True, seed=7) for _ in range(2))
    assert first == second
    assert first != build(name, tiny=True, seed=8)


@pytest.mark.parametrize("name", SECOND)
def test_the_second_list_runs_and_keeps_its_scale(name):
    model = build(name, tiny=True)
    onnx.checker.check_model(model)
    kinds = {tensor.data_type for tensor in model.graph.initializer}
    assert (onnx.TensorProto.INT8 in kinds) == name.endswith("_qdq")
    assert (onnx.TensorProto.FLOAT16 in kinds) == name.endswith("_half")
    for output in run(model, random_feeds(model)):
        assert 1e-3 < output.astype(np.float32).std() < 1e3


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_dynamic_model_takes_several_sizes(name):
    model = build(name, tiny=True, dynamic=True)
    for batch in (1, 3):
        feeds = random_feeds(model, dimensions={"batch": batch, "tokens": 4 + batch})
        assert all(len(output) == batch for output in run(model, feeds))


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_runtime_optimization_stays_within_the_tolerance(name):
    model = build(name, tiny=True)
    for distribution in ("normal", "sparse", "zeros"):
        feeds = random_feeds(model, distribution=distribution)
        assert disagreement(model, model, feeds, level="all") is None


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_small_mistake_exceeds_the_tolerance(name):
    model = build(name, tiny=True)
    wrong = onnx.ModelProto.FromString(model.SerializeToString())
    weight = next(tensor for tensor in wrong.graph.initializer if len(tensor.dims) >= 2)
    array = onnx.numpy_helper.to_array(weight) * np.float32(1.001)
    weight.CopyFrom(onnx.numpy_helper.from_array(array, weight.name))
    assert "off by" in disagreement(model, wrong, random_feeds(model))


def test_example_writes_a_model(tmp_path):
    path = tmp_path / "resnet50.onnx"
    command = [sys.executable, EXAMPLE, "resnet50", path, "--tiny"]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    assert onnx.load(path) == build("resnet50", tiny=True)


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (["nonesuch", "out.onnx"], "--list prints the names"),
        (["resnet50"], "give NAME and OUT"),
        (["resnet50", "absent/out.onnx"], "create it first"),
    ],
)
def test_example_says_what_to_do(tmp_path, arguments, advice):
    result = subprocess.run(
        [sys.executable, EXAMPLE, *arguments], capture_output=True, text=True, cwd=tmp_path
    )
    assert result.returncode == 2
    assert advice in result.stderr
    assert "Traceback" not in result.stderr


def test_example_lists_the_architectures():
    listed = subprocess.run(
        [sys.executable, EXAMPLE, "--list"], check=True, capture_output=True, text=True
    ).stdout
    assert [line.split()[0] for line in listed.splitlines()] == list(ARCHITECTURES)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs the torch extra")
@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
@pytest.mark.parametrize("name", ["mobilenetv3", "llama"])
def test_export_computes_what_torch_computes(name, exporter):
    import torch

    from benchmarks.torch_models import export, module

    model = export(name, exporter=exporter, tiny=True, dynamic=True)
    feeds = random_feeds(model, dimensions={"batch": 3, "tokens": 7})
    with torch.no_grad():
        expected = module(name, tiny=True)(*map(torch.from_numpy, feeds.values()))
    np.testing.assert_allclose(run(model, feeds)[0], expected.numpy(), rtol=1e-4, atol=1e-4)
