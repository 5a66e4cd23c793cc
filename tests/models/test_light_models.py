"""The light models that ship with onnx, rewritten, give their recorded outputs' equals."""

from pathlib import Path

import onnx
import pytest

from benchmarks.zoo import random_feeds

from .agreement import run
from .rewriting import FOLD_LIMIT, rewritten, shipped_rules

pytestmark = pytest.mark.whole

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
MODELS = sorted(path.stem for path in LIGHT.glob("*.onnx"))


@pytest.mark.parametrize("name", MODELS)
def test_rewritten_light_model_agrees(name):
    model = onnx.load(LIGHT / f"{name}.onnx")
    result, _ = rewritten(model, shipped_rules())
    most = model.ByteSize() + FOLD_LIMIT * len(model.graph.node)
    assert result.ByteSize() <= most, "folding blew the model up"
    feeds = random_feeds(model)
    # Their weights are equal constants, so float64 tells no more than float32: compare directly.
    for before, after in zip(run(model, feeds), run(result, feeds), strict=True):
        scale = abs(before).max()
        assert abs(before - after).max() <= 1e-4 * scale
