"""Convolutions that rules make for kernels: dilated ones as ordinary ones on four images, say."""

from __future__ import annotations

import pytest
from onnx import helper
from tensolog.optimizer.egraph.search import search
from tensolog.optimizer.graph.convert import to_model
from tensolog.optimizer.layouts.plans import lay_out_jointly
from tensolog.optimizer.layouts.runtime import NCHWC, block_size
from tensolog.optimizer.match.rewrite import clean
from tensolog.optimizer.native.convolution.blocked import TILES
from tensolog.optimizer.native.kernel_plans import _best
from tensolog.optimizer.race.contest import Plan
from tensolog.optimizer.setting import Setting

from tests.optimizer.egraph.pricing import FOLD_LIMIT, Prices, graph_of, shipped_rules

from .networks import has_blocks
from .test_plans import assert_equal, build, image

pytestmark = pytest.mark.skipif(not has_blocks(), reason="the runtime has no blocked kernels")


def chain(dilation, length=2):
    """Convolutions of equal dilation, with an activation behind each."""
    width, value, nodes, constants = 2 * block_size(), "x", [], {}
    for i in range(length):
        convolved, value_next = f"c{i}", "y" if i == length - 1 else f"r{i}"
        nodes.append(
            helper.make_node(
                "Conv", [value, f"w{i}"], [convolved],
                pads=[dilation] * 4, dilations=[dilation] * 2,
            )
        )  # fmt: skip
        nodes.append(helper.make_node("Relu", [convolved], [value_next]))
        constants[f"w{i}"] = image(width, width, 3, 3, seed=i) * 0.1
        value = value_next
    return build(nodes, (1, width, 8, 12), constants), (1, width, 8, 12)


def price(kernel):
    """The runtime's convolutions cost the same with and without dilation, all else little."""
    return 1000 if kernel.op_type == "Conv" else 20


def laid_out(model, filters):
    graph = graph_of(model)
    chosen = [
        rule
        for tag in ("always", "explore")
        for rule in Setting().select(shipped_rules(), graph, tag)
    ]
    search_result = search(graph, chosen, Prices(0, price), sizes={}, fold_limit=FOLD_LIMIT)
    return lay_out_jointly(search_result, chosen, (), filters)


def dilations(graph):
    return [
        tuple(graph.attributes(number).get("dilations", (1, 1)))
        for number, node in graph.nodes.items()
        if node.operator in ("Conv", f"{NCHWC}:Conv")
    ]


@pytest.mark.parametrize("dilation", [2, 4])
def test_a_plan_for_kernels_has_convolutions_without_dilation(dilation):
    model, shape = chain(dilation)
    for_runtime, further = laid_out(model, TILES)
    assert further is not None
    assert "ConvertDilatedConvToBatch" in {step.rule for step in further.steps}
    assert for_runtime is None or set(dilations(for_runtime.graph)) == {(dilation, dilation)}
    assert set(dilations(further.graph)) == {(1, 1)}
    assert_equal(model, to_model(further.graph), {"x": image(*shape, seed=9)})


def test_neighbours_exchange_what_takes_images_apart():
    """Two convolutions are entered and left once, not twice each."""
    _, further = laid_out(chain(2, 3)[0], TILES)
    clean(further.graph, FOLD_LIMIT)
    operators = [node.op_type for node in further.graph.nodes.values()]
    assert operators.count("Transpose") == 2


@pytest.mark.parametrize(("dilation", "filters"), [(1, TILES), (3, TILES), (2, ())])
def test_without_kernels_or_a_convolution_made_for_them_there_is_none(dilation, filters):
    assert laid_out(chain(dilation)[0], filters)[1] is None


def test_of_plans_in_blocks_kernels_go_into_the_one_without_dilation():
    model, _ = chain(2)
    for_runtime, further = laid_out(model, TILES)
    plans = [Plan("own", (for_runtime or further).graph), Plan("for kernels", further.graph)]
    if for_runtime is not None:
        assert _best(plans).name == "for kernels"
        assert _best(plans[::-1]).name == "for kernels"
