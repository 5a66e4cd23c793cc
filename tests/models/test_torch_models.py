"""PyTorch modules with the weights of the zoo's models compute what these do."""

import numpy as np
import onnx
import pytest

torch = pytest.importorskip("torch", reason="needs the torch extra")

from benchmarks.torch_models import MODULES  # noqa: E402
from benchmarks.torch_models.counterparts import COUNTERPARTS, counterpart  # noqa: E402
from benchmarks.torch_models.weights import give_weights  # noqa: E402
from benchmarks.zoo import ARCHITECTURES, build, random_feeds  # noqa: E402

from .agreement import run  # noqa: E402

# T5's distances are numbered by their logarithm from eight on.
SIZES = {"t5": {"tokens": 128}}


def inputs(model):
    feeds = random_feeds(model)
    return feeds, [torch.from_numpy(np.array(array)) for array in feeds.values()]


def test_every_architecture_has_a_module():
    assert not MODULES.keys() & COUNTERPARTS.keys()
    assert MODULES.keys() | COUNTERPARTS.keys() == ARCHITECTURES.keys()


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", COUNTERPARTS)
def test_a_module_computes_what_its_model_does(name, batch):
    model = build(name, tiny=True, **{"batch": batch, **SIZES.get(name, {})})
    feeds, tensors = inputs(model)
    with torch.inference_mode():
        result = counterpart(name, model, tiny=True)(*tensors).numpy()
    np.testing.assert_allclose(result, run(model, feeds)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", COUNTERPARTS)
def test_torch_compile_takes_a_module_whole(name):
    model = build(name, tiny=True)
    feeds, tensors = inputs(model)
    whole = torch.compile(counterpart(name, model, tiny=True), fullgraph=True, backend="eager")
    with torch.inference_mode():
        result = whole(*tensors).numpy()
    np.testing.assert_allclose(result, run(model, feeds)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("count", [1, 2])
def test_weights_of_another_model_are_refused(count):
    linear = torch.nn.Linear(2, 3)
    arrays = [np.zeros((2, 3), np.float32), np.zeros(3, np.float32)][:count]
    model = onnx.ModelProto()
    model.graph.initializer.extend(map(onnx.numpy_helper.from_array, arrays))
    with pytest.raises(ValueError, match=r"weight is \(3, 2\)|shorter"):
        give_weights(linear, model)
