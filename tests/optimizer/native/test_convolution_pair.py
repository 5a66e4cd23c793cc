"""Convolutions of points and then of each channel as one kernel: sizes, ends, what isn't finite."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from tensolog.optimizer.codegen.compiler import FLAGS
from tensolog.optimizer.codegen.unit import LEVELS, native_level
from tensolog.optimizer.graph.convert import load_graph
from tensolog.optimizer.graph.graph import TensorType
from tensolog.optimizer.layouts.filters import dense, outer
from tensolog.optimizer.layouts.layout import Layout
from tensolog.optimizer.layouts.runtime import NCHWC, activations, block_size
from tensolog.optimizer.native.configurations import pair_configuration
from tensolog.optimizer.native.configurations.legal import legal_pairs
from tensolog.optimizer.native.configurations.pair_configuration import (
    PairConfiguration,
    PairSizes,
)
from tensolog.optimizer.native.configurations.processor import REGISTERS, Processor
from tensolog.optimizer.native.convolution import blocked as convolution
from tensolog.optimizer.native.convolution.convolution_pair import pairs
from tensolog.optimizer.native.loops.kernel_region import Meanings

from tests.campaigns import examples

from .build import blocked_model, needs_compiler, opened, replaced
from .test_convolution import blocked, normal, plain

pytestmark = needs_compiler
RUNNABLE = list(LEVELS)[list(LEVELS).index(native_level()) :]
needs_blocks = pytest.mark.skipif(block_size() is None, reason="no blocked kernels to compare with")
# What float32 rounds by, at most so many times the sum of the magnitudes of what is added up.
ROUNDING = 40 * 2.0**-24


class Case:
    """A pair in blocks, its image and filters, and what comes of them in float64."""

    def __init__(self, image, width, taps, steps=(1, 1), pads=(0, 0, 0, 0), *, block=None,
                 biases=True, seed=0, ends=({}, {}), **second):  # fmt: skip
        self.block = block or block_size() or 16
        n, c, h, w = image
        self.pads, self.steps = pads, steps
        self.image = normal(*image, seed=seed)
        self.points = normal(width, c, 1, 1, seed=seed + 1) / np.float32(c**0.5)
        self.taps = normal(width, 1, *taps, seed=seed + 2) / np.float32((taps[0] * taps[1]) ** 0.5)
        self.biases = [
            normal(width, seed=seed + 3 + i) * np.float32(bool(biases)) for i in range(2)
        ]
        layouts = Layout((width,), self.block), Layout((c,), self.block)
        y_width, depth = layouts[0].width, layouts[1].width
        constants = {"p": dense(self.points, *layouts), "t": outer(self.taps, layouts[0])}
        if biases:
            for name, bias in zip("bd", self.biases, strict=True):
                constants[name] = np.pad(bias, (0, y_width - width))
        node = helper.make_node
        nodes = [
            node("Conv", ["x", "p", *(["b"] * bool(biases))], ["m"], domain=NCHWC,
                 kernel_shape=[1, 1], **ends[0]),
            node("Conv", ["m", "t", *(["d"] * bool(biases))], ["y"], domain=NCHWC, group=y_width,
                 **{"kernel_shape": taps, "strides": steps, "pads": pads, **ends[1], **second}),
        ]  # fmt: skip
        self.shape = (n, width, *(
            (size + pads[axis] + pads[axis + 2] - taps[axis]) // steps[axis] + 1
            for axis, size in enumerate((h, w))
        ))  # fmt: skip
        self.types = {
            "x": (n, depth, h, w),
            "m": (n, y_width, h, w),
            "y": (n, y_width, *self.shape[2:]),
        }
        self.proto = blocked_model(nodes, self.types, constants)

    @property
    def feeds(self):
        return {"x": blocked(self.image, self.block)}

    def candidates(self, configuration=None):
        graph = load_graph(self.proto)
        for name, shape in self.types.items():
            if name in graph.names:
                graph.types[graph.names.index(name)] = TensorType("float32", shape)
        ways = [] if configuration is None else [configuration]
        return graph, pairs(Meanings(graph), graph.nodes, lambda _: ways)

    def session(self, level=None, threads=1, flags=FLAGS, configuration=None):
        graph, (*_, candidate) = self.candidates(configuration)
        return replaced(graph, candidate, level, threads, flags)

    def expected(self):
        """The result in float64 without activations, and the sum of the magnitudes in it."""
        top, left, bottom, right = self.pads
        totals = []
        for sign in (np.asarray, abs):
            points, taps, image = map(sign, (self.points, self.taps, self.image.astype(float)))
            first, second = map(sign, self.biases)
            middle = np.einsum("nchw,mc->nmhw", image, points[..., 0, 0].astype(float))
            middle = np.pad(
                middle + first[:, None, None], ((0, 0),) * 2 + ((top, bottom), (left, right))
            )
            windows = np.lib.stride_tricks.sliding_window_view(middle, taps.shape[2:], axis=(2, 3))
            windows = windows[:, :, :: self.steps[0], :: self.steps[1]]
            total = np.einsum("nmhwij,mij->nmhw", windows, taps[:, 0].astype(float))
            totals.append(total + second[:, None, None])
        return totals

    def check(self, level=None, threads=1, flags=FLAGS, configuration=None):
        total, size = self.expected()
        (result,) = self.session(level, threads, flags, configuration).run(None, self.feeds)
        plain_result = plain(result, self.shape[1], self.block)
        assert plain_result.shape == total.shape
        error = abs(plain_result - total) / size.max()
        assert error.max() <= ROUNDING, error.max()


@st.composite
def cases(draw):
    """A pair of any size."""
    taps = [draw(st.sampled_from([1, 2, 3, 5, 7])) for _ in range(2)]
    taps[1] += taps == [1, 1]
    steps = [draw(st.integers(1, 3)) for _ in range(2)]
    pads = [draw(st.integers(0, k)) for k in (*taps, *taps)]
    h, w = (draw(st.integers(max(1, k - sum(pads[axis::2])), 30)) for axis, k in enumerate(taps))
    image = (draw(st.integers(1, 2)), draw(st.integers(1, 50)), h, w)
    block = draw(st.sampled_from([8, 16]))
    options = {"block": block, "biases": draw(st.booleans()), "seed": draw(st.integers(0, 99))}
    return Case(image, draw(st.integers(1, 90)), taps, steps, pads, **options)


def check_any(case, level=None, block=32 << 10, flags=FLAGS, run=6, loop_order=0):
    """Check a case in blocks of its own, however few lines are held at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convolution, "block_size", lambda: case.block)
        patch.setattr(pair_configuration, "LEAST_LINES", 2)
        case.check(level, 2, flags, PairConfiguration(block, run, loop_order))


@given(
    cases(),
    st.sampled_from(RUNNABLE),
    st.sampled_from([0, 2_500, 32 << 10]),
    st.sampled_from([1, 6, 12]),
    st.sampled_from([0, 1]),
)
@settings(max_examples=examples(4), deadline=None)
def test_pairs_of_all_sizes(case, level, block, run, loop_order):
    check_any(case, level, block, run=run, loop_order=loop_order)


def test_threads_give_the_same_to_the_bit(monkeypatch):
    monkeypatch.setattr(convolution, "block_size", lambda: 16)
    case = Case((3, 32, 20, 21), 100, (3, 3), (2, 1), (1, 1, 1, 1), block=16)
    (alone,) = case.session().run(None, case.feeds)
    several = case.session(threads=4)
    for _ in range(20):
        np.testing.assert_array_equal(several.run(None, case.feeds)[0], alone)


@needs_blocks
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_ends_and_what_is_not_finite(value):
    ends = [{"activation": name} for name in ("HardSwish", "Relu") if name in activations()]
    case = Case((1, 24, 12, 9), 40, (5, 5), (2, 2), (2, 2, 2, 2), ends=(ends[0], ends[-1]))
    case.image[0, 3, 0, 0] = case.image[0, 20, 7, 8] = value
    (wanted,) = opened(case.proto, level="ORT_DISABLE_ALL").run(None, case.feeds)
    (result,) = case.session(threads=2).run(None, case.feeds)
    result, wanted = (plain(array, 40, case.block) for array in (result, wanted))
    np.testing.assert_array_equal(np.isnan(result), np.isnan(wanted))
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)
    assert np.isfinite(wanted).any()


def changed(attribute=None, *, index=1):
    def change(case):
        node = case.proto.graph.node[index]
        kept = [attribute_ for attribute_ in node.attribute if attribute_.name != attribute.name]
        del node.attribute[:]
        node.attribute.extend([*kept, attribute])

    return change


def read_twice(case):
    case.proto.graph.node.append(helper.make_node("Relu", ["m"], ["z"]))


def give(case):
    case.proto.graph.output.append(
        helper.make_tensor_value_info("m", TensorProto.FLOAT, case.types["m"])
    )


def add(case):
    case.proto.graph.node[1].input.extend(["s"])
    case.proto.graph.input.append(
        helper.make_tensor_value_info("s", TensorProto.FLOAT, case.types["y"])
    )
    case.types["s"] = case.types["y"]


def spoil(case):
    (taps,) = (
        initializer for initializer in case.proto.graph.initializer if initializer.name == "t"
    )
    array = numpy_helper.to_array(taps).copy()
    array.flat[0] = np.inf
    taps.CopyFrom(numpy_helper.from_array(array, "t"))


REFUSED = {
    "read by another": read_twice,
    "given": give,
    "a sum": add,
    "dilations": changed(helper.make_attribute("dilations", [2, 2])),
    "groups": changed(helper.make_attribute("group", 2), index=0),
    "an activation": changed(helper.make_attribute("activation", "Softmax")),
    "filters that aren't finite": spoil,
    "a size that isn't known": lambda case: case.types.update(x=(1, 16, 8, "w")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_pairs_that_no_kernel_computes(name, monkeypatch):
    monkeypatch.setattr(convolution, "block_size", lambda: 16)
    case = Case((1, 16, 8, 8), 32, (3, 3), (1, 1), (1, 1, 1, 1), block=16)
    assert len(case.candidates()[1]) == 1
    REFUSED[name](case)
    assert case.candidates()[1] == []


# --------------------------------------------------------------------------------- configurations

HERE = Processor("avx512", *REGISTERS["avx512"], 32 << 10, 1 << 20)
# 96 channels between, of an image of 56 lines of 56, each between zeros
SIZES = PairSizes(1, 1, 16, 3, 56, 32 * 58, 3, 1)


def test_configurations_of_a_pair_differ_and_stay_in_the_second_cache():
    configurations = legal_pairs(SIZES, HERE)
    assert (
        configurations[0] == PairConfiguration()
        and len(configurations) == len(set(configurations)) > 6
    )
    divisions = [
        (*SIZES.divided(configuration), configuration.loop_order)
        for configuration in configurations
    ]
    assert len(set(divisions)) == len(divisions)
    assert {
        pair.block for pair in legal_pairs(SIZES, replace(HERE, second_cache_bytes=1 << 17))
    } == {
        8 << 10,
        16 << 10,
        32 << 10,
    }
    # an image of few lines is not shared, and the order of one part of it makes no difference
    low = legal_pairs(replace(SIZES, lines=7), HERE)
    assert {configuration.loop_order for configuration in low} == {0}


@needs_blocks
def test_configurations_of_a_pair_compute_the_same():
    case = Case((1, 32, 40, 23), 96, (3, 3), pads=(1, 1, 1, 1), block=block_size())
    graph, (default,) = case.candidates()
    ways = [PairConfiguration(8 << 10, 1), PairConfiguration(128 << 10, 12, 1)]
    candidates = pairs(Meanings(graph), graph.nodes, lambda sizes: ways)
    assert [candidate.kernel.configuration is None for candidate in candidates] == [
        True,
        False,
        False,
    ]
    assert len({candidate.kernel.name for candidate in candidates}) == 3
    assert candidates[0].kernel.name == default.kernel.name
    results = [
        replaced(graph.copy(), candidate, native_level(), 2, FLAGS).run(None, case.feeds)[0]
        for candidate in candidates
    ]
    assert all(np.array_equal(result, results[0]) for result in results)
