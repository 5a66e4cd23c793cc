"""`optimize` takes PyTorch modules: what comes out computes what the module does."""

import importlib.util
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from tensolog.catalog.errors import ModelError
from tensolog.optimizer.graph import torch_modules
from tensolog.optimizer.setting import OptionError

import tensolog

from .agreement import run


def test_nothing_imports_torch_by_itself():
    code = "import sys, tensolog.optimizer.driver; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_what_is_no_module_is_none():
    for model in ("model.onnx", b"", 3, None, object()):
        assert not torch_modules.is_module(model)


def test_example_inputs_are_for_modules():
    with pytest.raises(OptionError, match="input_shapes"):
        tensolog.optimize("model.onnx", np.zeros(2), catalog=":memory:")


@pytest.mark.parametrize(
    ("home", "advice"), [("sklearn.base", "skl2onnx"), ("keras.src.models.model", "model.export")]
)
def test_models_of_other_frameworks_are_told_the_way(home, advice):
    base = type("Base", (), {"__module__": home})
    model_class = type("Own", (base,), {"__module__": "their.code"})
    with pytest.raises(OptionError, match=f"Own is no ONNX model yet: .*{advice}"):
        tensolog.optimize(model_class(), catalog=":memory:")


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="needs the torch extra")


@pytest.fixture
def nn(torch):
    return torch.nn


@pytest.fixture
def block(torch, nn):
    """Layers that act otherwise in training, and inputs by place and by keyword."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.norm = nn.Linear(8, 8), nn.BatchNorm1d(8)
            self.dropout = nn.Dropout(0.5)

        def forward(self, x, other=None, *, scale=1.0, mask=None):
            y = self.dropout(self.norm(self.linear(x)))
            y = y if other is None else y + other
            return (y if mask is None else y * mask) * scale, y.sum()

    torch.manual_seed(0)
    block_ = Block()
    block_.norm.running_mean.normal_()
    block_.norm.eval()  # frozen, while the rest is trained
    return block_


FORMS = {
    "a tensor": lambda x, y: (x, (x,), {}),
    "a tuple": lambda x, y: ((x, y), (x, y), {}),
    "a list": lambda x, y: ([x], (x,), {}),
    "keywords": lambda x, y: ({"x": x, "mask": y}, (x,), {"mask": y}),
    "both": lambda x, y: ((x, {"mask": y, "scale": 3.0}), (x,), {"mask": y, "scale": 3.0}),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_result_computes_what_the_module_does(form, torch, block):
    x, y = torch.randn(4, 8), torch.randn(4, 8)
    example_inputs, positional, named = FORMS[form](x, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = tensolog.optimize(block, example_inputs, budget=0.2, catalog=":memory:")
    assert [block.training, block.norm.training, block.dropout.training] == [True, False, True]
    session = result.session()
    tensors = [*positional, *(part for part in named.values() if part is not True)]
    arrays = [part.numpy() for part in tensors if isinstance(part, torch.Tensor)]
    names = [entry.name for entry in session.get_inputs()]
    results = session.run(None, dict(zip(names, arrays, strict=True)))
    with torch.inference_mode():
        expected = block.eval()(*positional, **named)
    for first, other in zip(results, expected, strict=True):
        np.testing.assert_allclose(first, other.numpy(), rtol=1e-4, atol=1e-5)


def test_exported_programs_are_taken(torch, block):
    x = torch.randn(4, 8)
    program = torch.export.export(block.eval(), (x,))
    assert torch_modules.is_module(program)
    model = torch_modules.export_module(program, x)
    assert [entry.name for entry in model.graph.input] == ["x"]


def test_what_the_newer_exporter_refuses_goes_to_the_older_one(torch, block, monkeypatch):
    real = torch.onnx.export
    asked = []

    def export(*args, dynamo, **options):
        asked.append(dynamo)
        if dynamo:
            raise RuntimeError("refused")
        return real(*args, dynamo=dynamo, **options)

    monkeypatch.setattr(torch.onnx, "export", export)
    x, mask = torch.randn(4, 8), torch.randn(4, 8)
    model = torch_modules.export_module(block, (x, {"mask": mask, "scale": 3.0}))
    assert asked == [True, False]
    assert [block.training, block.norm.training] == [True, False]
    results = run(model, {"x": x.numpy(), "mask": mask.numpy()})
    with torch.inference_mode():
        expected = block.eval()(x, mask=mask, scale=3.0)
    np.testing.assert_allclose(results[0], expected[0].numpy(), rtol=1e-4, atol=1e-5)


def test_a_trace_that_depends_on_values_is_refused(torch, nn):
    class Branch(nn.Module):
        def forward(self, x):
            return x * 2 if x.sum() > 0 else x - 1

    with pytest.raises(ModelError, match=r"Branch: .*for these inputs alone.*torch\.onnx\.export"):
        torch_modules.export_module(Branch(), torch.ones(2))


def test_inputs_that_do_not_fit_are_named_as_the_reason(torch, block):
    with pytest.raises(OptionError, match=r"can't be called with these example inputs.*2x9"):
        torch_modules.export_module(block, torch.zeros(2, 9))
    assert [block.training, block.norm.training] == [True, False]


@pytest.mark.parametrize("operands", [None, ()])
def test_inputs_are_needed(operands, block):
    with pytest.raises(OptionError, match="example"):
        torch_modules.export_module(block, operands)


def test_what_is_missing_is_named_by_its_extra(monkeypatch, torch, block):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "onnxscript" else real(name)
    )
    with pytest.raises(OptionError, match=r"onnxscript.*pip install 'tensolog\[torch\]'"):
        torch_modules.export_module(block, torch.zeros(2, 8))


def test_the_guide_shows_what_works(torch, monkeypatch, tmp_path):
    monkeypatch.setenv("TENSOLOG_CATALOG", str(tmp_path / "catalog.duckdb"))
    text = Path(__file__).parents[2].joinpath("docs", "guide.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```py\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    scope = {}
    exec(compile(code.replace("budget=5", "budget=0.2"), "guide.md", "exec"), scope)
    with torch.inference_mode():
        expected = scope["module"](scope["x"]).numpy()
    np.testing.assert_allclose(scope["y"], expected, rtol=1e-4, atol=1e-5)
