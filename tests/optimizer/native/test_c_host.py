"""A library of operators in a host written in C, which knows nothing of this project."""

import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from tensolog.optimizer.codegen import find_compiler

from .build import fused, model, needs_compiler, opened

RUNTIME = next(Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.*"), None)
pytestmark = [
    needs_compiler,
    pytest.mark.skipif(RUNTIME is None, reason="its library isn't beside the Python package"),
]
SHAPE = [3, 50, 64]


@pytest.fixture
def host(tmp_path):
    compiler, program = find_compiler(), tmp_path / "host"
    source = Path(__file__).with_name("host.c")
    command = [*compiler.command, "-std=gnu11", "-O1", str(source), "-o", str(program), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return program


@pytest.fixture
def case(tmp_path):
    nodes = [
        helper.make_node("Softplus", ["x"], ["p"]),
        helper.make_node("Tanh", ["p"], ["t"]),
        helper.make_node("Mul", ["x", "t"], ["m"]),
        helper.make_node("LayerNormalization", ["m", "scale"], ["y"], axis=-1),
    ]
    plain = model(nodes, {"x": SHAPE}, {"y": SHAPE}, {"scale": np.ones(64, np.float32)})
    changed, library = fused(plain, levels=None)
    onnx.save(changed, tmp_path / "model.onnx")
    x = np.random.default_rng(5).normal(size=SHAPE).astype(np.float32)
    x.tofile(tmp_path / "x")
    return plain, library, x


def run(host, library, folder):
    words = [RUNTIME, library, folder / "model.onnx", folder / "x", folder / "y", *SHAPE]
    return subprocess.run([host, *map(str, words)], capture_output=True, text=True)


def test_a_host_in_c_computes_what_the_original_does(host, case, tmp_path):
    plain, library, x = case
    done = run(host, library.path, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == onnxruntime.__version__
    (wanted,) = opened(plain).run(None, {"x": x})
    got = np.fromfile(tmp_path / "y", np.float32).reshape(SHAPE)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_without_its_library_the_model_is_refused_in_a_line(host, case, tmp_path):
    done = run(host, tmp_path / "absent.so", tmp_path)
    assert done.returncode == 1
    assert "absent.so" in done.stderr
    assert not (tmp_path / "y").exists()
