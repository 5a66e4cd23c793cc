"""Slices gathered at once, against elements gathered one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensolog.optimizer.egraph.search import search
from tensolog.rules import load_rules

from tests.models.agreement import run

from .derived import SETTINGS, Net, fed
from .pricing import Prices, graph_of, modelled

RULES = [rule for rule in load_rules() if rule.name == "ConvertGatherElementsToGather"]


def gathered(shape, count, axis, *, column=None, width=None, seed=0):
    """Elements of x gathered along an axis by a column of indices, expanded over the others."""
    rng = np.random.default_rng(seed)
    index_shape = [count if i == axis % len(shape) else 1 for i in range(len(shape))]
    low = [count if i == axis % len(shape) else size for i, size in enumerate(shape)]
    low[-1] = width or low[-1]
    net = Net(17, x=shape)
    indices = rng.integers(-shape[axis], shape[axis], column or index_shape).tolist()
    return net.model(net.op("GatherElements", "x", net.op("Expand", indices, low), axis=axis))


def slices(model):
    """Search a model and compare the plan with it; its operators."""

    def price_of_elements(kernel):
        return 100.0 if kernel.op_type == "GatherElements" else 1.0

    prices = Prices(0, price_of_elements)
    search_result = search(graph_of(model), RULES, prices, sizes={}, fold_limit=0)
    result = modelled(search_result.plans[0])
    feeds = fed(model)
    np.testing.assert_array_equal(run(result, feeds)[0], run(model, feeds)[0])
    return {node.op_type for node in result.graph.node}


@SETTINGS
@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    count=st.integers(1, 5),
    data=st.data(),
)
def test_slices_are_gathered_at_once(shape, count, data):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    assert "GatherElements" not in slices(gathered(shape, count, axis))


@pytest.mark.parametrize(
    "model",
    [
        gathered([3, 4], 5, 0, column=[5, 4]),  # an index for each element
        gathered([3, 4], 5, 0, width=2),  # not all of the slice
    ],
)
def test_elements_that_are_gathered_one_by_one(model):
    assert "GatherElements" in slices(model)
