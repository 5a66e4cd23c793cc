"""Convolutions in groups that share blocks: kernels that keep apart what isn't finite."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tensolog.optimizer.codegen.unit import native_level
from tensolog.optimizer.graph.convert import to_model
from tensolog.optimizer.layouts.runtime import NCHWC, block_size
from tensolog.optimizer.native.convolution import blocked as convolution
from tensolog.optimizer.native.convolution.filters import Merged
from tensolog.optimizer.native.convolution.shared_blocks import narrow_convolutions
from tensolog.optimizer.native.embed import embed, place
from tensolog.optimizer.native.kernel import supply
from tensolog.optimizer.native.library import build
from tensolog.optimizer.native.loops.kernel_region import Meanings

from .build import needs_compiler, opened, typed
from .test_convolution import blocked, normal, plain

pytestmark = [
    needs_compiler,
    pytest.mark.skipif(block_size() is None, reason="the runtime has no blocked kernels"),
]
CHANNELS, BATCH, HEIGHT, WIDTH = 64, 2, 9, 10


def narrow(
    groups,
    taps=(3, 3),
    *,
    end="Relu",
    channels=CHANNELS,
    bias=True,
    between=(),
    result_sizes=None,
    **overrides,
):
    """A grouped convolution with a way out of blocks before, and one into them behind."""
    width = -(-channels // block_size()) * block_size()
    weights = normal(channels, channels // groups, *taps, seed=5) / np.float32(3)
    constants = {"w": weights, "b": normal(channels, seed=6)}
    attributes = {"group": groups, "pads": [k // 2 for k in taps] * 2, **overrides}
    nodes = [
        helper.make_node("ReorderOutput", ["x"], ["1"], domain=NCHWC, channels=channels),
        helper.make_node("Conv", ["1", "w", *(["b"] * bias)], ["2"], **attributes),
        *between,
    ]
    last = nodes[-1].output[0]
    if end:
        nodes.append(helper.make_node(end, [last], ["3"]))
        last = "3"
    nodes.append(helper.make_node("ReorderInput", [last], ["y"], domain=NCHWC))
    shape = [BATCH, width, HEIGHT, WIDTH]
    result = [BATCH, width, *(result_sizes or shape[2:])]
    outside = helper.make_tensor_value_info(
        "1", TensorProto.FLOAT, [BATCH, channels, HEIGHT, WIDTH]
    )
    graph = helper.make_graph(
        nodes,
        "narrow",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, result)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
        value_info=[outside],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(NCHWC, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def graph_and_forms(proto):
    graph = typed(proto)
    return graph, narrow_convolutions(Meanings(graph), graph.nodes)


def check(proto, image):
    """Compare every form with the runtime's own operators, numbers that aren't finite included."""
    inputs = {"x": blocked(image, block_size())}
    (wanted,) = opened(proto, level="ORT_DISABLE_ALL").run(None, inputs)
    graph, forms = graph_and_forms(proto)
    assert forms
    library = build([form.kernel for form in forms], levels=(native_level(),))
    for form in forms:
        copy = graph.copy()
        supply(copy, [form.kernel])
        assert place(copy, form.region.nodes, form.kernel)
        changed = to_model(embed(copy, library.domain))
        assert len(changed.graph.node) == 1
        (result,) = opened(changed, library, threads=2).run(None, inputs)
        np.testing.assert_array_equal(np.isnan(result), np.isnan(wanted), form.kernel.form)
        np.testing.assert_array_equal(np.isinf(result), np.isinf(wanted), form.kernel.form)
        finite = np.isfinite(wanted)
        assert finite.any()
        scale = abs(wanted[finite & (abs(wanted) < 1e6)]).max()
        close = np.isclose(result[finite], wanted[finite], rtol=1e-4, atol=2e-5 * scale)
        assert close.all(), form.kernel.form
    return wanted


@pytest.mark.parametrize(
    ("groups", "in_pieces"), [(8, False), (16, True), (32, False), (64, False)]
)
def test_infinities_stay_in_their_group(groups, in_pieces, monkeypatch):
    if CHANNELS // groups % block_size() == 0:
        pytest.skip("these groups fill blocks here")
    monkeypatch.setattr(convolution, "CACHED_BYTES", 0 if in_pieces else 1 << 40)
    monkeypatch.setattr(convolution, "LAID_OUT_BYTES", 0 if in_pieces else 1 << 40)
    image = normal(BATCH, CHANNELS, HEIGHT, WIDTH)
    image[0, 5, 4, 4], image[1, 40, 0, 9], image[1, 63, 8, 0] = np.inf, np.nan, -3e38
    wanted = check(narrow(groups), image)
    spoilt = ~np.isfinite(plain(wanted, CHANNELS, block_size())[0]).all(axis=(1, 2))
    spoilt_group = 5 // (CHANNELS // groups)
    assert set(np.flatnonzero(spoilt) // (CHANNELS // groups)) == {spoilt_group}


@pytest.mark.parametrize(
    "options",
    [
        {"end": "HardSwish"},
        {"end": "", "taps": (1, 3), "bias": False},
        {"result_sizes": (5, 5), "strides": [2, 2]},
        {"taps": (5, 3), "result_sizes": (3, 4), "strides": [3, 2], "dilations": [1, 2]},
    ],
)
def test_ends_and_filters(options, monkeypatch):
    monkeypatch.setitem(convolution.TILES, (3, 3), ((2, 2),))
    check(narrow(16, **options), normal(BATCH, CHANNELS, HEIGHT, WIDTH))


@pytest.mark.parametrize(("channels", "groups"), [(52, 13), (12, 3), (12, 12)])
@pytest.mark.parametrize("value", [0.5, np.inf])
def test_a_block_that_is_not_filled(channels, groups, value, monkeypatch):
    """What is beside the channels stays a number, so that nothing is spoilt behind."""
    monkeypatch.setitem(convolution.TILES, (3, 3), ((2, 2),))
    image = normal(BATCH, channels, HEIGHT, WIDTH)
    image[0, -1, 4, 4] = value
    width, count = channels // groups, block_size()
    wanted = check(narrow(groups, channels=channels), image)
    spoilt = ~np.isfinite(plain(wanted, channels, count)[0]).all(axis=(1, 2))
    assert set(np.flatnonzero(spoilt) // width) <= {groups - 1}


def test_filters_are_0_on_the_channels_of_other_groups():
    weights = normal(32, 4, 1, 1)
    (laid,) = Merged(8, 4, 16).lay(weights).reshape(2, 16, 16, -1)[None]
    for m in range(32):
        column = laid[m // 16, :, m % 16, 0]
        group = slice(m % 16 // 4 * 4, m % 16 // 4 * 4 + 4)
        np.testing.assert_array_equal(column[group], weights[m, :, 0, 0])
        assert np.count_nonzero(column) == 4


REFUSED = {
    "a step": {"strides": [2, 2]},
    "dilations": {"dilations": [2, 2]},
    "groups that fill blocks": {"groups": 2},
    "no groups": {"groups": 1},
    "another end": {"end": "Softplus"},
    "filters of another size": {"taps": (9, 9)},
    "another operator behind": {
        "between": [helper.make_node("Add", ["2", "1"], ["4"])], "end": "",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_shared_blocks_that_no_kernel_computes(name):
    assert graph_and_forms(narrow(**{"groups": 16, **REFUSED[name]}))[1] == []
