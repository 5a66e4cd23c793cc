"""Layouts of plans that are to have kernels: convolutions that these may compute go into blocks."""

import numpy as np
import pytest
from onnx import helper
from tensolog.optimizer.graph.convert import to_model
from tensolog.optimizer.layouts.plans import lay_out

from tests.optimizer.egraph.pricing import FOLD_LIMIT, Prices, graph_of

from .networks import has_blocks, operators
from .test_explanations import priced
from .test_plans import assert_equal, build, image, weights

pytestmark = pytest.mark.skipif(not has_blocks(), reason="the runtime has no blocked kernels")
THREE = {(3, 3)}


def normalized(taps=3, stride=1, reorder=5.0, filters=THREE):
    """A convolution between normalizations of groups, laid out without and with kernels in mind."""
    shape, pads = (1, 32, 8, 8), [taps // 2] * 4
    constants = {"scale": np.ones(4, np.float32), "shift": np.zeros(4, np.float32)}
    constants |= {"w": weights(32, 32, taps, taps), "groups": np.array([1, 4, -1])}
    constants |= {"back": np.array(shape), "less": np.array([1, 32, 8 // stride, 8 // stride])}
    nodes = []
    for i, (before, after, back) in enumerate((("x", "m", "back"), ("c", "y", "less"))):
        names = [f"g{i}", "scale", "shift"]
        nodes += [
            helper.make_node("Reshape", [before, "groups"], [f"g{i}"]),
            helper.make_node("InstanceNormalization", names, [f"n{i}"]),
            helper.make_node("Reshape", [f"n{i}", back], [after]),
        ]
    nodes.insert(3, helper.make_node("Conv", ["m", "w"], ["c"], pads=pads, strides=[stride] * 2))
    model = build(nodes, shape, constants)
    prices = Prices(0, priced(blocked=10, plain=100, reorder=reorder))
    plans = lay_out(graph_of(model), prices, filters=filters, sizes={}, fold_limit=FOLD_LIMIT)
    return model, plans


def test_a_convolution_alone_goes_into_blocks_for_a_kernel_only():
    model, (without, further) = normalized()
    assert without is None
    laid = to_model(further.graph)
    assert_equal(model, laid, {"x": image(1, 32, 8, 8)})
    counts = operators(laid)
    assert counts["blocked Conv"] == counts["blocked ReorderOutput"] == 1 and "Conv" not in counts


@pytest.mark.parametrize(
    "different", [{"taps": 1}, {"stride": 2}, {"filters": ()}, {"filters": {(5, 5)}}]
)
def test_what_no_kernel_computes_stays_outside(different):
    _, laid_plans = normalized(**different)
    assert laid_plans == (None, None)


def test_what_is_in_blocks_anyway_is_laid_out_once():
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"], pads=[1] * 4)]
    nodes.append(helper.make_node("Conv", ["a", "w"], ["y"], pads=[1] * 4))
    model = build(nodes, (1, 32, 8, 8), {"w": weights(32, 32, 3, 3)})
    prices = Prices(0, priced(blocked=10, plain=100, reorder=5))
    laid, further = lay_out(graph_of(model), prices, filters=THREE, sizes={}, fold_limit=FOLD_LIMIT)
    assert operators(to_model(laid.graph))["blocked Conv"] == 2 and further is None
