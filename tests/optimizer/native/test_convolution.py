"""Convolutions in blocks by minimal filtering: any sizes, what they end in, what isn't finite."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from tensolog.optimizer.codegen.compiler import FLAGS
from tensolog.optimizer.codegen.unit import LEVELS, native_level
from tensolog.optimizer.graph.convert import load_graph, to_model
from tensolog.optimizer.graph.graph import TensorType
from tensolog.optimizer.layouts.filters import dense
from tensolog.optimizer.layouts.layout import Layout
from tensolog.optimizer.layouts.runtime import NCHWC, activations, block_size
from tensolog.optimizer.native.configurations.convolution_configuration import (
    ConvolutionConfiguration,
)
from tensolog.optimizer.native.convolution import blocked as convolution
from tensolog.optimizer.native.convolution import winograd
from tensolog.optimizer.native.embed import embed, place
from tensolog.optimizer.native.kernel import supply
from tensolog.optimizer.native.library import build
from tensolog.optimizer.native.loops.kernel_region import Meanings

from tests.campaigns import examples

from .build import blocked_model, needs_compiler, opened

pytestmark = needs_compiler
RUNNABLE = list(LEVELS)[list(LEVELS).index(native_level()) :]
needs_blocks = pytest.mark.skipif(block_size() is None, reason="no blocked kernels to compare with")
# What float32 rounds by, at most so many times the sum of the magnitudes of what is added up.
ROUNDING = 40 * 2.0**-24


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def blocked(image, block):
    """[n, c, h, w] in blocks of channels; numbers that nothing may depend on fill them up."""
    n, c, h, w = image.shape
    blocks = -(-c // block)
    whole = np.full((n, blocks * block, h, w), 7.0, np.float32)
    whole[:, :c] = image
    parts = whole.reshape(n, blocks, block, h, w).transpose(0, 1, 3, 4, 2)
    return np.ascontiguousarray(parts).reshape(whole.shape)


def plain(result, channels, block):
    """Take channels out of blocks."""
    n, whole, h, w = result.shape
    parts = result.reshape(n, whole // block, h, w, block).transpose(0, 1, 4, 2, 3)
    return parts.reshape(n, whole, h, w)[:, :channels]


class Case:
    """A convolution in blocks, what it is given, and what comes of it in float64."""

    def __init__(
        self,
        image,
        width,
        taps,
        pads=(0, 0, 0, 0),
        *,
        block=None,
        bias=True,
        summed=False,
        seed=0,
        weights=None,
        named=(),
        sides=(),
        group=1,
        **attributes,
    ):
        self.block = block or block_size() or 16
        n, c, h, w = image
        if weights is None:
            weights = normal(width, c // group, *taps, seed=seed)
            weights /= np.float32(weights[0].size ** 0.5)
        self.shape = (
            n,
            width,
            h + pads[0] + pads[2] - taps[0] + 1,
            w + pads[1] + pads[3] - taps[1] + 1,
        )
        self.image, self.weights = normal(*image, seed=seed + 1), weights
        self.pads, self.group = pads, group
        self.bias = normal(width, seed=seed + 2) if bias else np.zeros(width, np.float32)
        self.summand = normal(*self.shape, seed=seed + 3) if summed else None
        layouts = Layout((width,), self.block), Layout((c // group,), self.block)
        y_width, x_width = layouts[0].width, layouts[1].width * group
        constants = {"w": dense(weights, *layouts)}
        inputs = ["x", "w", "", ""]
        if bias:
            inputs[2] = "b"
            constants["b"] = np.pad(self.bias, (0, y_width - width))
        self.types = {"x": (n, x_width, h, w), "y": (n, y_width, *self.shape[2:])}
        if summed:
            inputs[3], self.types["s"] = "s", self.types["y"]
        if named:
            self.types = {
                name: (*named, *shape[len(named) :]) for name, shape in self.types.items()
            }
        if sides:
            self.types = {name: (*shape[:2], *sides) for name, shape in self.types.items()}
        while not inputs[-1]:
            inputs.pop()
        attributes = {"kernel_shape": taps, "pads": pads, **attributes}
        if group != 1:
            attributes["group"] = group
        node = helper.make_node("Conv", inputs, ["y"], domain=NCHWC, **attributes)
        self.proto = blocked_model([node], self.types, constants)

    @property
    def feeds(self):
        feeds = {"x": blocked(self.image, self.block)}
        if self.summand is not None:
            feeds["s"] = blocked(self.summand, self.block)
        return feeds

    def graph(self):
        graph = load_graph(self.proto)
        for name, shape in self.types.items():
            graph.types[graph.names.index(name)] = TensorType("float32", shape)
        return graph

    def candidates(self):
        """The graph, and the kernels that can take the convolution's place."""
        graph = self.graph()
        return graph, convolution.convolutions(Meanings(graph), graph.nodes)

    def forms(self, level=None, flags=FLAGS):
        """Run every form; yield what each of them is and gives."""
        graph, candidates = self.candidates()
        assert candidates, "no kernel was found"
        library = build(
            [candidate.kernel for candidate in candidates],
            levels=(level or native_level(),),
            flags=flags,
        )
        for candidate in candidates:
            changed = graph.copy()
            supply(changed, [candidate.kernel])
            assert place(changed, candidate.region.nodes, candidate.kernel)
            yield candidate.kernel.form, to_model(embed(changed, library.domain)), library

    def runs(self, level=None, threads=1, flags=FLAGS):
        for form, proto, library in self.forms(level, flags):
            (result,) = opened(proto, library, threads=threads).run(None, self.feeds)
            yield form, result

    def expected(self):
        """The result in float64, before an activation, and the sum of the magnitudes in it."""
        top, left, bottom, right = self.pads
        around = ((0, 0), (0, 0), (top, bottom), (left, right))
        image, weights = (
            np.pad(self.image, around).astype(np.float64),
            self.weights.astype(np.float64),
        )
        group_width = image.shape[1] // self.group
        whole_weights = np.zeros((len(weights), image.shape[1], *weights.shape[2:]))
        for m in range(len(weights)):
            group = m // (len(weights) // self.group)
            whole_weights[m, group * group_width : (group + 1) * group_width] = weights[m]
        weights = whole_weights
        windows = np.lib.stride_tricks.sliding_window_view(image, weights.shape[2:], axis=(2, 3))
        total = np.einsum("nchwij,mcij->nmhw", windows, weights, optimize=True)
        # of neighbours of a tile, whose rounding comes in, the same is expected
        size = np.einsum("nchwij,mcij->nmhw", abs(windows), abs(weights), optimize=True).max()
        total += self.bias[:, None, None]
        return total if self.summand is None else total + self.summand, size + 1

    def check(self, level=None, threads=1, flags=FLAGS):
        total, size = self.expected()
        for form, result in self.runs(level, threads, flags):
            plain_result = plain(result, self.shape[1], self.block)
            error = abs(plain_result - total).max()
            assert error <= ROUNDING * size, (form, error, size)
            assert np.isfinite(result).all(), form


# ------------------------------------------------------------------------------------- matrices


@pytest.mark.parametrize(
    ("outputs", "taps"), [(2, 3), (3, 3), (4, 3), (6, 3), (2, 5), (2, 7), (4, 7)]
)
def test_filters_exactly(outputs, taps):
    filtering = winograd.filtering(outputs, taps)
    numbers = [Fraction(k * k - 7 * k + 3, k + 1) for k in range(filtering.products + taps)]
    image, weights = numbers[: filtering.products], numbers[filtering.products :]
    products = [
        sum(a * b for a, b in zip(row, image, strict=True))
        * sum(a * b for a, b in zip(filter_, weights, strict=True))
        for row, filter_ in zip(filtering.image, filtering.filters, strict=True)
    ]
    for i, row in enumerate(filtering.back):
        wanted = sum(weights[j] * image[i + j] for j in range(taps))
        assert sum(a * b for a, b in zip(row, products, strict=True)) == wanted


def test_a_wrong_number_is_no_filter():
    filtering = winograd.filtering(2, 3)
    rows = [list(row) for row in filtering.image]
    rows[1][2] += Fraction(1, 1 << 30)
    with pytest.raises(ValueError, match="something else"):
        winograd.prove(
            winograd.Filtering(2, 3, filtering.back, filtering.filters, tuple(map(tuple, rows)))
        )


def test_no_more_points_than_were_tried():
    with pytest.raises(ValueError, match="no 12 points"):
        winograd.filtering(7, 7)


# --------------------------------------------------------------------------------------- results


@st.composite
def cases(draw):
    """A convolution of any size that kernels are for."""
    taps = draw(st.sampled_from(sorted(convolution.TILES)))
    pads = [draw(st.integers(0, k)) for k in (*taps, *taps)]
    n, c, m = draw(st.integers(1, 2)), draw(st.integers(1, 50)), draw(st.integers(1, 90))
    h, w = (draw(st.integers(max(1, k - sum(pads[axis::2])), 15)) for axis, k in enumerate(taps))
    return Case(
        (n, c, h, w), m, taps, pads, bias=draw(st.booleans()), summed=draw(st.booleans()),
        block=draw(st.sampled_from([8, 16])), seed=draw(st.integers(0, 99)),
    )  # fmt: skip


def check_any(case, level=None, in_pieces=False, flags=FLAGS):
    """Check a case in blocks of its own, its filters transformed in advance or in pieces."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convolution, "block_size", lambda: case.block)
        patch.setattr(convolution, "CACHED_BYTES", 0 if in_pieces else 1 << 40)
        patch.setattr(convolution, "LAID_OUT_TILES", 1 << 40)
        case.check(level, threads=2, flags=flags)


@given(cases(), st.sampled_from(RUNNABLE), st.booleans())
@settings(max_examples=examples(5), deadline=None)
def test_sizes_of_all_kinds(case, level, in_pieces):
    check_any(case, level, in_pieces)


@pytest.mark.parametrize(
    ("level", "block"), [*((level, 16) for level in RUNNABLE), (native_level(), 8)]
)
def test_several_places_and_pieces(level, block, monkeypatch):
    monkeypatch.setattr(convolution, "block_size", lambda: block)
    monkeypatch.setattr(convolution, "DEFAULT", ConvolutionConfiguration(block=0))
    monkeypatch.setattr(convolution, "LEAST_TOGETHER", 5)
    monkeypatch.setattr(convolution, "LAID_OUT_BYTES", 0)
    Case((2, 72, 13, 18), 88, (3, 3), (1, 1, 1, 1), block=block).check(level, threads=2)


def test_threads_give_the_same_to_the_bit(monkeypatch):
    monkeypatch.setattr(convolution, "block_size", lambda: 16)
    monkeypatch.setattr(convolution, "DEFAULT", ConvolutionConfiguration(block=0))
    monkeypatch.setattr(convolution, "LEAST_TOGETHER", 10)
    monkeypatch.setattr(convolution, "TILES", {(3, 3): ((4, 4),)})
    case = Case((2, 32, 20, 21), 96, (3, 3), (1, 1, 1, 1), block=16)
    ((_, proto, library),) = case.forms()
    (alone,) = opened(proto, library).run(None, case.feeds)
    several = opened(proto, library, threads=4)
    for _ in range(20):
        np.testing.assert_array_equal(several.run(None, case.feeds)[0], alone)


@pytest.mark.parametrize("in_pieces", [False, True])
@pytest.mark.parametrize(("groups", "width"), [(2, 96), (4, 64)])
def test_groups_that_blocks_fill(groups, width, in_pieces, monkeypatch):
    monkeypatch.setattr(convolution, "block_size", lambda: 16)
    monkeypatch.setattr(convolution, "CACHED_BYTES", 0 if in_pieces else 1 << 40)
    monkeypatch.setattr(convolution, "TILES", {(3, 3): ((2, 2),)})
    case = Case((1, 32 * groups, 7, 6), width, (3, 3), (1, 1, 1, 1), block=16, group=groups)
    case.check(threads=2)


def test_batches_of_any_size(monkeypatch):
    case = Case((3, 32, 6, 7), 48, (1, 3), (0, 1, 0, 1), named=("batch",))
    monkeypatch.setattr(convolution, "block_size", lambda: case.block)
    case.check(threads=2)


ENDS = {
    "Relu": (),
    "LeakyRelu": (0.1,),
    "Clip": (-0.25, 0.75),
    "HardSigmoid": (0.3, 0.4),
    "HardSwish": (),
    "Sigmoid": (),
    "Tanh": (),
}


@needs_blocks
@pytest.mark.parametrize("name", ENDS)
def test_ends_as_the_runtime_does(name, monkeypatch):
    monkeypatch.setattr(convolution, "TILES", {(3, 3): ((4, 4),)})
    if name not in activations():
        pytest.skip("this release has no such activation")
    end = {"activation": name}
    if ENDS[name]:
        end["activation_params"] = ENDS[name]
    case = Case((1, 16, 9, 8), 32, (3, 3), (1, 1, 1, 1), summed=True, **end)
    feeds = case.feeds
    feeds["s"].flat[:3] = np.nan, np.inf, -np.inf
    feeds["s"].flat[32:64] *= 30
    (wanted,) = opened(case.proto, level="ORT_DISABLE_ALL").run(None, feeds)
    for form, proto, library in case.forms():
        (result,) = opened(proto, library).run(None, feeds)
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5, err_msg=form)


@needs_blocks
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize(("taps", "group"), [((3, 3), 1), ((1, 7), 1), ((3, 3), 2)])
def test_what_is_not_finite_spoils_no_neighbour(value, taps, group):
    weights = normal(64, 64 // group, *taps) / 16
    weights[0, 0] = 0
    pads = [k // 2 for k in taps] * 2
    case = Case((1, 64, 14, 15), 64, taps, pads, weights=weights, group=group)
    case.image[0, 0, 0, 0] = case.image[0, 63, 7, 5] = value
    (wanted,) = opened(case.proto, level="ORT_DISABLE_ALL").run(None, case.feeds)
    assert np.isfinite(wanted).any() and (abs(wanted) > 1e6).any() | ~np.isfinite(wanted).all()
    for form, result in case.runs():
        np.testing.assert_array_equal(np.isnan(result), np.isnan(wanted), form)
        np.testing.assert_array_equal(np.isinf(result), np.isinf(wanted), form)


@needs_blocks
@pytest.mark.parametrize("auto", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_pads_by_name(auto):
    case = Case((1, 16, 6, 7), 16, (3, 3), (0,) * 4 if auto == "VALID" else (1,) * 4)
    (node,) = case.proto.graph.node
    kept = [attribute for attribute in node.attribute if attribute.name != "pads"]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute("auto_pad", auto)])
    (wanted,) = opened(case.proto, level="ORT_DISABLE_ALL").run(None, case.feeds)
    for form, result in case.runs():
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5, err_msg=form)


# -------------------------------------------------------------------------------------- refusals


def small(**attributes):
    return Case((1, 16, 8, 8), 16, (3, 3), (1, 1, 1, 1), block=16, **attributes)


def with_attribute(*attribute):
    def change(case):
        (node,) = case.proto.graph.node
        node.attribute.append(helper.make_attribute(*attribute))

    return change


def compute_filters(case):
    graph = case.proto.graph
    (weights,) = (initializer for initializer in graph.initializer if initializer.name == "w")
    weights.name = "v"
    graph.node.insert(0, helper.make_node("Identity", ["v"], ["w"]))
    case.types["w"] = tuple(weights.dims)


def spoil_filters(case):
    (weights,) = (
        initializer for initializer in case.proto.graph.initializer if initializer.name == "w"
    )
    array = numpy_helper.to_array(weights).copy()
    array[0, 0, 0, 0] = np.inf
    weights.CopyFrom(numpy_helper.from_array(array, "w"))


def foreign(case):
    case.proto.graph.node[0].domain = "com.example"


def unknown_width(case):
    case.types["x"] = (*case.types["x"][:3], "w")


REFUSED = {
    "strides": with_attribute("strides", [2, 1]),
    "dilations": with_attribute("dilations", [1, 2]),
    "groups of other sizes": with_attribute("group", 2),
    "activation": with_attribute("activation", "Softmax"),
    "computed filters": compute_filters,
    "filters that aren't finite": spoil_filters,
    "another operator": foreign,
    "a size that isn't known": unknown_width,
}


@pytest.mark.parametrize("name", REFUSED)
def test_convolutions_that_no_kernel_computes(name, monkeypatch):
    monkeypatch.setattr(convolution, "block_size", lambda: 16)
    case = small()
    assert len(case.candidates()[1]) == 2
    REFUSED[name](case)
    assert case.candidates()[1] == []


def test_filters_of_another_size_are_refused(monkeypatch):
    monkeypatch.setattr(convolution, "block_size", lambda: 16)
    assert Case((1, 16, 8, 8), 16, (4, 3), (1, 1, 2, 1), block=16).candidates()[1] == []


def test_no_blocks_at_all(monkeypatch):
    monkeypatch.setattr(convolution, "block_size", lambda: None)
    assert small().candidates()[1] == []


def test_forms_are_alternatives_and_the_smallest_comes_first(monkeypatch):
    monkeypatch.setattr(convolution, "block_size", lambda: 16)
    _, candidates = small().candidates()
    assert [candidate.kernel.form for candidate in candidates] == [
        "minimal filtering 2x2 of 3x3",
        "minimal filtering 4x4 of 3x3",
    ]
    assert len({candidate.kernel.name for candidate in candidates}) == 2
    assert candidates[0].region == candidates[1].region


def test_filters_are_laid_out_once_for_each_form(monkeypatch):
    monkeypatch.setattr(convolution, "block_size", lambda: 16)
    graph, candidates = small().candidates()
    supply(graph, [candidate.kernel for candidate in candidates])
    before = dict(graph.constants)
    supply(graph, [candidate.kernel for candidate in candidates])
    assert graph.constants == before
    laid = [graph.constants[candidate.kernel.packed[0][0]] for candidate in candidates]
    assert [array.type.shape for array in laid] == [(1, 16, 16, 32), (1, 36, 16, 32)]
    assert all(not array.array()[..., 16:].any() for array in laid)
