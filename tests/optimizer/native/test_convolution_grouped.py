"""Convolutions in groups multiplied out: sizes, steps, ends, and what isn't finite in a group."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from tensolog.optimizer.codegen.compiler import FLAGS
from tensolog.optimizer.codegen.unit import LEVELS, native_level
from tensolog.optimizer.graph.convert import load_graph
from tensolog.optimizer.graph.graph import TensorType
from tensolog.optimizer.layouts.filters import dense, outer
from tensolog.optimizer.layouts.layout import Layout
from tensolog.optimizer.layouts.runtime import NCHWC, activations, block_size
from tensolog.optimizer.native.convolution import blocked as convolution
from tensolog.optimizer.native.convolution.blocked import convolutions
from tensolog.optimizer.native.convolution.grouped import Sliding, check_sliding, sliding_text
from tensolog.optimizer.native.loops.kernel_region import Meanings

from tests.campaigns import examples

from .build import blocked_model, needs_compiler, opened, replaced
from .test_convolution import blocked, normal, plain

pytestmark = needs_compiler
RUNNABLE = list(LEVELS)[list(LEVELS).index(native_level()) :]
needs_blocks = pytest.mark.skipif(block_size() is None, reason="no blocked kernels to compare with")
FORM = "groups multiplied out"
# What float32 rounds by, at most so many times the sum of the magnitudes of what is added up.
ROUNDING = 40 * 2.0**-24


class Case:
    """A convolution in groups of whole blocks, or of one channel, and what comes of it."""

    def __init__(self, image, groups, group_channels, taps, steps=(1, 1), pads=(0, 0, 0, 0), *,
                 dilations=(1, 1), block=None, bias=True, summed=False, seed=0, named=None,
                 **attributes):  # fmt: skip
        self.block = block or block_size() or 16
        n, h, w = image
        read, written = group_channels
        self.steps, self.pads, self.dilations, self.groups = steps, pads, dilations, groups
        self.channels, self.width = groups * read, groups * written
        self.image = normal(n, self.channels, h, w, seed=seed)
        self.weights = normal(self.width, read, *taps, seed=seed + 1)
        self.weights /= np.float32(self.weights[0].size ** 0.5)
        self.bias = normal(self.width, seed=seed + 2) * np.float32(bias)
        sides = [
            (size + pads[axis] + pads[axis + 2] - (taps[axis] - 1) * dilations[axis] - 1)
            // steps[axis]
            + 1
            for axis, size in enumerate((h, w))
        ]
        self.shape = (n, self.width, *sides)
        self.summand = normal(*self.shape, seed=seed + 3) if summed else None
        layout = Layout((self.width,), self.block)
        whole = layout.width if group_channels == (1, 1) else self.channels
        if group_channels == (1, 1):
            constants, groups = {"w": outer(self.weights, layout)}, layout.width
        else:
            constants = {"w": dense(self.weights, layout, Layout((read,), self.block))}
        inputs = ["x", "w", "b" if bias else "", "s" if summed else ""]
        if bias:
            constants["b"] = np.pad(self.bias, (0, layout.width - self.width))
        while not inputs[-1]:
            inputs.pop()
        first = named or n
        self.types = {"x": (first, whole, h, w), "y": (first, layout.width, *sides)}
        if summed:
            self.types["s"] = self.types["y"]
        node = helper.make_node("Conv", inputs, ["y"], domain=NCHWC, kernel_shape=taps, pads=pads,
                                strides=steps, dilations=dilations, group=groups,
                                **attributes)  # fmt: skip
        self.proto = blocked_model([node], self.types, constants)

    @property
    def feeds(self):
        arrays = {"x": self.image, "s": self.summand}
        return {k: blocked(v, self.block) for k, v in arrays.items() if v is not None}

    def candidates(self):
        graph = load_graph(self.proto)
        for name, shape in self.types.items():
            graph.types[graph.names.index(name)] = TensorType("float32", shape)
        every = convolutions(Meanings(graph), graph.nodes)
        return graph, [candidate for candidate in every if candidate.kernel.form == FORM]

    def session(self, level=None, threads=1, flags=FLAGS):
        graph, (candidate,) = self.candidates()
        return replaced(graph, candidate, level, threads, flags)

    def expected(self):
        """The result in float64, and the sum of the magnitudes in it."""
        top, left, bottom, right = self.pads
        m, c, high, wide = self.weights.shape
        totals = []
        for sign in (np.asarray, abs):
            image = np.pad(
                sign(self.image.astype(float)), ((0, 0),) * 2 + ((top, bottom), (left, right))
            )
            reach = [(k - 1) * d + 1 for k, d in zip((high, wide), self.dilations, strict=True)]
            windows = np.lib.stride_tricks.sliding_window_view(image, reach, axis=(2, 3))
            windows = windows[
                :, :, :: self.steps[0], :: self.steps[1], :: self.dilations[0], :: self.dilations[1]
            ]
            windows = windows.reshape(image.shape[0], self.groups, c, *windows.shape[2:])
            weights = sign(self.weights.astype(float)).reshape(
                self.groups, m // self.groups, c, high, wide
            )
            total = np.einsum("ngchwij,gmcij->ngmhw", windows, weights, optimize=True)
            total = total.reshape(self.shape) + sign(self.bias.astype(float))[:, None, None]
            totals.append(total if self.summand is None else total + sign(self.summand))
        return totals

    def check(self, level=None, threads=1, flags=FLAGS):
        total, size = self.expected()
        (result,) = self.session(level, threads, flags).run(None, self.feeds)
        plain_result = plain(result, self.width, self.block)
        assert plain_result.shape == total.shape
        assert (abs(plain_result - total) <= ROUNDING * size.max()).all()


@st.composite
def cases(draw):
    """Groups of one channel, or of whole blocks that are made, of any size."""
    block = draw(st.sampled_from([8, 16]))
    group_channels = draw(
        st.sampled_from([(1, 1), (block, block), (2 * block, block), (block, 2 * block)])
    )
    taps = [draw(st.integers(1, 7)) for _ in range(2)]
    taps[1] += taps == [1, 1]
    steps = [draw(st.integers(1, 3)) for _ in range(2)]
    dilations = [draw(st.integers(1, 2)) for _ in range(2)]
    reach = [(k - 1) * d + 1 for k, d in zip(taps, dilations, strict=True)]
    pads = [draw(st.integers(0, k)) for k in (*reach, *reach)]
    h, w = (draw(st.integers(max(1, k - sum(pads[axis::2])), 40)) for axis, k in enumerate(reach))
    groups = draw(st.integers(2, 40 if group_channels == (1, 1) else 3))
    return Case((draw(st.integers(1, 2)), h, w), groups, group_channels, taps, steps, pads,
                dilations=dilations, block=block, bias=draw(st.booleans()),
                summed=draw(st.booleans()), seed=draw(st.integers(0, 99)))  # fmt: skip


def check_any(case, level=None, flags=FLAGS):
    """Check a case in blocks of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convolution, "block_size", lambda: case.block)
        case.check(level, threads=2, flags=flags)


@given(cases(), st.sampled_from(RUNNABLE))
@settings(max_examples=examples(8), deadline=None)
def test_groups_of_all_sizes(case, level):
    check_any(case, level)


def test_threads_give_the_same_to_the_bit_and_batches_are_free(monkeypatch):
    monkeypatch.setattr(convolution, "block_size", lambda: 16)
    case = Case((3, 20, 21), 40, (1, 1), (3, 5), (2, 1), (1, 2, 1, 2), block=16, named="batch")
    (alone,) = case.session().run(None, case.feeds)
    several = case.session(threads=4)
    for _ in range(20):
        np.testing.assert_array_equal(several.run(None, case.feeds)[0], alone)
    (first,) = several.run(None, {"x": case.feeds["x"][:1]})
    np.testing.assert_array_equal(first, alone[:1])


@needs_blocks
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize("end", ["Relu", "HardSwish", "Clip"])
def test_ends_and_what_is_not_finite(value, end):
    if end not in activations():
        pytest.skip("this runtime has no such end")
    attributes = {"activation": end} | ({"activation_params": [-0.3, 0.4]} if end == "Clip" else {})
    for groups, group_channels in ((40, (1, 1)), (3, (block_size(), block_size()))):
        case = Case((1, 12, 9), groups, group_channels, (5, 5), (2, 2), (2, 2, 2, 2), **attributes)
        case.image[0, 3, 0, 0] = case.image[0, 20, 7, 8] = value
        (wanted,) = opened(case.proto, level="ORT_DISABLE_ALL").run(None, case.feeds)
        (result,) = case.session(threads=2).run(None, case.feeds)
        result, wanted = (plain(array, case.width, case.block) for array in (result, wanted))
        np.testing.assert_array_equal(np.isnan(result), np.isnan(wanted))
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)
        assert np.isfinite(wanted).any()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"group_channels": (8, 4)}, "straddle"),
        ({"group_channels": (3, 3)}, "straddle"),
        ({"taps": (9, 1)}, "another size"),
        ({"taps": (1, 1)}, "another size"),
    ],
)
def test_groups_that_no_kernel_computes(options, reason):
    whole = {"group_channels": (4, 4), "taps": (3, 3), **options}
    plan = Sliding(
        16,
        whole["group_channels"],
        48,
        48,
        (9, 9),
        (9, 9),
        whole["taps"],
        (1, 1),
        (1, 1),
        (1, 1),
        False,
    )
    with pytest.raises(convolution.LoweringError, match=reason):
        check_sliding(plan)


def test_sizes_that_are_not_known_are_refused(monkeypatch):
    monkeypatch.setattr(convolution, "block_size", lambda: 16)
    case = Case((1, 8, 8), 32, (1, 1), (3, 3), (1, 1), (1, 1, 1, 1), block=16)
    assert len(case.candidates()[1]) == 1
    case.types["x"] = case.types["y"] = (1, 32, "h", 8)
    assert case.candidates()[1] == []


def test_what_lies_beside_the_image_is_not_multiplied():
    plan = Sliding(8, (1, 1), 8, 8, (7, 7), (7, 7), (3, 3), (1, 1), (1, 1), (1, 1), False)
    text = sliding_text(plan, -1, -1, (-np.inf, np.inf), ())
    narrow = text[text.index("#else") : text.index("#endif")]
    assert narrow.count("FMA_VEC_32") == 7 * 3 - 2
