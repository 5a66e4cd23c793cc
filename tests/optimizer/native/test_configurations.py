"""Configurations of kernels: the defaults, which are legal, and that all compute the same."""

from dataclasses import astuple, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from tensolog.optimizer.codegen.unit import LEVELS, native_level
from tensolog.optimizer.graph.convert import to_model
from tensolog.optimizer.layouts.runtime import block_size
from tensolog.optimizer.native.configurations.chosen import Chosen
from tensolog.optimizer.native.configurations.convolution_configuration import (
    ConvolutionConfiguration,
    ConvolutionSizes,
)
from tensolog.optimizer.native.configurations.legal import legal, legal_convolutions
from tensolog.optimizer.native.configurations.processor import REGISTERS, Processor
from tensolog.optimizer.native.configurations.product_configuration import (
    DEFAULTS,
    ProductConfiguration,
    ProductSizes,
    constants,
)
from tensolog.optimizer.native.convolution.blocked import convolutions
from tensolog.optimizer.native.embed import embed, place
from tensolog.optimizer.native.kernel import supply
from tensolog.optimizer.native.library import build
from tensolog.optimizer.native.loops.kernel_region import Meanings
from tensolog.optimizer.native.product.matrix_products import configured, products
from tensolog.optimizer.native.product.panels import PANEL

from tests.campaigns import examples

from .build import model, needs_compiler, opened, typed
from .test_convolution import ROUNDING, Case, plain

RUNNABLE = list(LEVELS)[list(LEVELS).index(native_level()) :]
ZEN_4 = Processor("avx512", *REGISTERS["avx512"], 32 << 10, 1 << 20)
ZEN_3 = Processor("avx2", *REGISTERS["avx2"], 32 << 10, 512 << 10)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def product(rows, depth, columns):
    """A product with a constant matrix, a bias and an activation: found, and its constants."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["q"]),
        helper.make_node("Relu", ["q"], ["y"]),
    ]
    arrays = {"w": normal(depth, columns, seed=1), "b": normal(columns, seed=2)}
    graph = typed(model(nodes, {"x": [rows, depth]}, {"y": [rows, columns]}, arrays))
    meanings = Meanings(graph)
    (region_kernel,) = products(meanings, graph.nodes)
    return meanings, region_kernel, arrays


# ------------------------------------------------------------------------------------- defaults


def test_defaults_are_the_constants_that_kernels_always_had():
    assert PANEL == DEFAULTS["avx512"].panel == DEFAULTS["avx2"].panel == DEFAULTS["plain"].panel
    assert constants().split("#if defined(LEVEL_AVX512)\n")[1] == (
        "#define PRODUCT_ROWS 8\n#define PRODUCT_VECTORS 3\n#define PRODUCT_DEPTH 512\n"
        "#define PRODUCT_PART 0\n#define PRODUCT_EVEN 0\n#define PRODUCT_FEW 0\n"
        "#define PRODUCT_UNROLL 1\n#define PRODUCT_DISTANCE 0\n#define PRODUCT_FETCH_NEXT 1\n"
        "#elif defined(LEVEL_AVX2)\n"
        "#define PRODUCT_ROWS 6\n#define PRODUCT_VECTORS 2\n#define PRODUCT_DEPTH 256\n"
        "#define PRODUCT_PART 65536\n#define PRODUCT_EVEN 1\n#define PRODUCT_FEW 1\n"
        "#define PRODUCT_UNROLL 1\n#define PRODUCT_DISTANCE 0\n#define PRODUCT_FETCH_NEXT 1\n"
        "#else\n"
        "#define PRODUCT_ROWS 4\n#define PRODUCT_VECTORS 3\n#define PRODUCT_DEPTH 512\n"
        "#define PRODUCT_PART 0\n#define PRODUCT_EVEN 0\n#define PRODUCT_FEW 0\n"
        "#define PRODUCT_UNROLL 1\n#define PRODUCT_DISTANCE 0\n#define PRODUCT_FETCH_NEXT 1\n"
        "#endif"
    )


def test_a_product_of_the_default_is_generated_as_if_there_were_no_configurations():
    _, region_kernel, _ = product(9, 64, 70)
    kernel = region_kernel.kernel
    assert kernel.configuration is None
    assert (kernel.arrange, kernel.columns) == ("arrange_product", ())
    assert "PRODUCT_PANEL;" in kernel.text
    assert "product_block(" in kernel.text


def test_a_chosen_configuration_has_names_of_its_own():
    meanings, region_kernel, _ = product(9, 64, 70)
    chosen = Chosen(replace(DEFAULTS["avx512"], depth=256), ProductSizes(9, 64, 70), "avx512")
    candidate = configured(meanings, region_kernel, chosen)
    assert candidate.kernel.name != region_kernel.kernel.name
    assert "PRODUCT_PANEL;" not in candidate.kernel.text
    assert "product_block(" not in candidate.kernel.text
    assert candidate.kernel.arrange == "arrange_product_by"


def test_other_levels_keep_their_defaults_but_for_panels():
    configuration = replace(DEFAULTS["avx512"], tile_rows=14, tile_vectors=2, panel=64)
    chosen = Chosen(configuration, ProductSizes(9, 64, 70), "avx512")
    first, second = constants(chosen).split("#elif defined(LEVEL_AVX2)")
    assert "PRODUCT_PANEL" in first
    assert " 64\n" in first.split("#define PRODUCT_ROWS")[0]
    assert "PRODUCT_ROWS_avx512" in second
    assert [line.split()[-1] for line in second.splitlines() if "PRODUCT_ROWS" in line] == [
        "6",
        "4",
    ]
    assert "PRODUCT_FEW" in second  # a row of 64 columns twice is more than 16 registers
    assert [line.split()[-1] for line in second.splitlines() if "PRODUCT_FEW" in line] == ["0", "0"]


# -------------------------------------------------------------------------------------- results


@needs_compiler
@given(
    st.data(),
    st.sampled_from(RUNNABLE),
    st.integers(1, 40),
    st.integers(16, 700),
    st.integers(32, 230),
)
@settings(max_examples=examples(2), deadline=None)
def test_random_legal_configurations_compute_the_same(data, level, rows, depth, columns):
    here = Processor(level, *REGISTERS[level], 32 << 10, data.draw(st.sampled_from([1, 2])) << 19)
    sizes = ProductSizes(rows, depth, columns, threads=2)
    configurations = legal(sizes, here)
    drawn = data.draw(st.lists(st.sampled_from(configurations), min_size=1, max_size=3))
    meanings, region_kernel, arrays = product(rows, depth, columns)
    ones = [
        configured(meanings, region_kernel, Chosen(configuration, sizes, level))
        for configuration in drawn
    ]
    library = build([candidate.kernel for candidate in ones], levels=(level,))
    supply(meanings.graph, [candidate.kernel for candidate in ones])
    x = normal(rows, depth, seed=3)
    wanted = np.maximum(x.astype(np.float64) @ arrays["w"] + arrays["b"], 0.0)
    for candidate in ones:
        graph = meanings.graph.copy()
        assert place(graph, candidate.region.nodes, candidate.kernel)
        session = opened(to_model(embed(graph, library.domain)), library, threads=2)
        (result,) = session.run(None, {"x": x})
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-4 * depth**0.5)


# --------------------------------------------------------------------------------------- legality


def tiles(configurations):
    return {
        (configuration.tile_rows, configuration.tile_vectors) for configuration in configurations
    }


def test_the_default_is_legal_and_first_whatever_the_processor():
    tiny = Processor("avx512", *REGISTERS["avx512"], 1 << 10, 1 << 12)
    for here in (ZEN_4, ZEN_3, tiny):
        assert legal(ProductSizes(128, 768, 768), here)[0] == DEFAULTS[here.level]
    assert {
        configuration.panel * configuration.depth
        for configuration in legal(ProductSizes(128, 768, 768), tiny)
    } == {48 * 512}


def test_sums_stay_in_registers():
    wanted = tiles(legal(ProductSizes(128, 768, 768), ZEN_4))
    assert wanted == {(8, 3), (9, 3), (13, 2)}
    fewer = tiles(legal(ProductSizes(128, 768, 768), replace(ZEN_4, registers=30)))
    assert (9, 3) not in fewer


def test_rows_are_shared_evenly_by_as_few_tiles_as_can_be():
    assert {(9, 2), (9, 3)} <= tiles(legal(ProductSizes(17, 768, 768), ZEN_4))
    assert {(10, 2), (10, 3)}.isdisjoint(tiles(legal(ProductSizes(17, 768, 768), ZEN_4)))
    # rows that the default's tiles share evenly by themselves
    evens = {
        configuration.even
        for configuration in legal(ProductSizes(16, 64, 768), ZEN_4)
        if (configuration.tile_rows, configuration.tile_vectors) == (8, 3)
    }
    assert evens == {0}
    evens = {
        configuration.even
        for configuration in legal(ProductSizes(17, 64, 768), ZEN_4)
        if (configuration.tile_rows, configuration.tile_vectors) == (8, 3)
    }
    assert evens == {0, 1}


def test_a_piece_of_a_panel_and_a_block_fit_the_second_cache():
    sizes = ProductSizes(1024, 2048, 768)
    for here in (ZEN_4, ZEN_3):
        for configuration in legal(sizes, here)[1:]:
            assert (
                4 * (configuration.panel * configuration.depth + configuration.block)
                <= here.second_cache_bytes
            )
            assert 8 * configuration.panel * configuration.depth <= here.second_cache_bytes
    smaller = legal(sizes, replace(ZEN_4, second_cache_bytes=1 << 19))
    assert max(configuration.block for configuration in legal(sizes, ZEN_4)) == 192 << 10
    assert max(configuration.block for configuration in smaller[1:]) == 96 << 10
    # beside a block of 384 KiB, a piece of a panel of 64 is no deeper
    assert max(configuration.depth for configuration in smaller if configuration.panel == 64) == 512


@pytest.mark.parametrize(
    ("field", "with_it", "without"),
    [
        ("few", ProductSizes(2, 768, 768), ProductSizes(3, 768, 768)),
        ("run", ProductSizes(64, 768, 768, threads=2), ProductSizes(64, 768, 768, threads=1)),
        ("block", ProductSizes(129, 768, 768), ProductSizes(128, 768, 768)),
        ("depth", ProductSizes(8, 257, 768), ProductSizes(8, 256, 768)),
        ("panel", ProductSizes(8, 64, 96), ProductSizes(8, 64, 47)),
    ],
)
def test_what_makes_no_difference_is_not_chosen(field, with_it, without):
    def values(sizes):
        return {getattr(configuration, field) for configuration in legal(sizes, ZEN_4)}

    assert values(without) < values(with_it)


def test_configurations_differ():
    for here in (ZEN_4, ZEN_3):
        configurations = legal(ProductSizes(100, 700, 300), here)
        assert len(configurations) == len(set(configurations)) > 50
        assert all(
            isinstance(configuration, ProductConfiguration) and configuration.description
            for configuration in configurations
        )


# ---------------------------------------------------------------------------------- convolutions


IMAGE = ConvolutionSizes(1, 64, 64, 64, 56, 56, 3, 3, 4, 4)


def test_a_convolution_has_the_default_first_and_no_two_that_are_the_same():
    configurations = legal_convolutions(IMAGE, ZEN_4, prepared=True)
    assert configurations[0] == ConvolutionConfiguration()
    assert len(configurations) == len(set(configurations)) > 4
    divisions = [
        (IMAGE.together(configuration.block, configuration.run), *astuple(configuration)[1:])
        for configuration in configurations
    ]
    assert len(divisions) == len(set(divisions))


def test_tiles_of_a_convolution_fit_the_second_cache():
    blocks = {convolution.block for convolution in legal_convolutions(IMAGE, ZEN_4, prepared=True)}
    fewer = {convolution.block for convolution in legal_convolutions(IMAGE, ZEN_3, prepared=True)}
    assert max(blocks) == 192 << 10
    assert max(fewer) == 128 << 10


def test_filters_that_take_too_much_are_transformed_as_it_runs():
    large = replace(IMAGE, depth=2048, group_depth=2048, width=2048)
    assert {
        convolution.prepared for convolution in legal_convolutions(large, ZEN_4, prepared=False)
    } == {None}
    assert {
        convolution.prepared for convolution in legal_convolutions(IMAGE, ZEN_4, prepared=True)
    } == {None, 0}


def test_what_else_is_chosen_of_a_convolution_differs_from_the_default_by_itself():
    two = replace(IMAGE, threads=2, height=14, across=14)
    default, *others = legal_convolutions(two, ZEN_4, prepared=True)
    rest = {(other.fetch_next, other.run, other.loop_order) for other in others}
    assert rest | {(1, 1, 0)} == {(1, 1, 0), (0, 1, 0), (1, 2, 0), (1, 1, 1)}
    assert all(
        (other.block, other.prepared) == (default.block, None)
        for other in others
        if (other.fetch_next, other.run, other.loop_order) != (1, 1, 0)
    )
    # filters that are transformed as it runs are not fetched, and one thread shares with nobody
    alone = legal_convolutions(replace(two, threads=1), ZEN_4, prepared=False)
    assert {configuration.run for configuration in alone} == {1}
    assert {configuration.fetch_next for configuration in alone} == {1}


@needs_compiler
@pytest.mark.skipif(block_size() is None, reason="no blocked kernels to compare with")
def test_configurations_of_a_convolution_compute_the_same():
    case = Case((1, 32, 15, 14), 48, (3, 3), (1, 1, 1, 1), summed=True)
    graph = case.graph()
    chosen = (
        ConvolutionConfiguration(0, 0),
        ConvolutionConfiguration(8 << 10, 1),
        ConvolutionConfiguration(run=2, loop_order=1, fetch_next=0),
    )
    candidates = convolutions(Meanings(graph), graph.nodes, lambda _: chosen)
    configurations = [candidate.kernel.configuration for candidate in candidates]
    # of the few tiles of 4x4 every block holds all, so that one of them is the default itself
    assert [configuration is None for configuration in configurations] == [
        True,
        *[False] * 3,
        True,
        *[False] * 2,
    ]
    assert len({candidate.kernel.name for candidate in candidates}) == len(candidates)
    library = build([candidate.kernel for candidate in candidates], levels=(native_level(),))
    total, size = case.expected()
    for candidate in candidates:
        changed = graph.copy()
        supply(changed, [candidate.kernel])
        assert place(changed, candidate.region.nodes, candidate.kernel)
        session = opened(to_model(embed(changed, library.domain)), library, threads=2)
        (result,) = session.run(None, case.feeds)
        assert abs(plain(result, case.shape[1], case.block) - total).max() <= ROUNDING * size
