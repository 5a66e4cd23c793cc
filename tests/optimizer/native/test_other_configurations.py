"""Attentions and kernels of loops in configurations: which, what they compute, what is tried."""

from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
from onnx import helper
from tensolog.catalog import Catalog
from tensolog.optimizer.graph.convert import to_model
from tensolog.optimizer.native.attention.attentions import configured
from tensolog.optimizer.native.configurations.attention_configuration import (
    DEFAULTS,
    AttentionConfiguration,
    AttentionSizes,
    constants,
)
from tensolog.optimizer.native.configurations.chosen import Chosen
from tensolog.optimizer.native.configurations.legal import (
    legal_attentions,
    legal_cells,
    legal_columns,
    legal_rows,
)
from tensolog.optimizer.native.configurations.loop_configuration import (
    CellConfiguration,
    CellSizes,
    ColumnConfiguration,
    ColumnSizes,
    RowConfiguration,
    RowSizes,
)
from tensolog.optimizer.native.configurations.processor import REGISTERS, Processor
from tensolog.optimizer.native.configurations.timed import Timed
from tensolog.optimizer.native.configured_kinds import (
    ConfiguredKinds,
    in_configuration,
    other_sizes,
    reconfigured,
)
from tensolog.optimizer.native.embed import embed, place
from tensolog.optimizer.native.fuse_graph import regions
from tensolog.optimizer.native.kernel_trial import KERNEL, OPERATORS
from tensolog.optimizer.native.library import build
from tensolog.optimizer.native.loops.kernel_region import Meanings
from tensolog.optimizer.native.region_kinds import Kind, best_forms
from tensolog.profiles.races.race import Lap

from .build import model, needs_compiler, opened, typed
from .test_configurations import RUNNABLE

LENGTH, QUERIES, KEYS = 100, 29, 45
HERE = Processor("avx512", *REGISTERS["avx512"], 32 << 10, 1 << 20)


def found_in(proto):
    graph = typed(proto)
    meanings = Meanings(graph)
    (region_kernel,) = regions(meanings, graph.nodes)
    return meanings, region_kernel


def normalization(rows=7, length=LENGTH):
    """A sum of two tensors, normalized."""
    nodes = [
        helper.make_node("Add", ["x", "z"], ["a"]),
        helper.make_node("LayerNormalization", ["a", "g", "b"], ["y"], axis=-1),
    ]
    arrays = {"g": np.linspace(0.5, 2, length, dtype="f"), "b": np.ones(length, "f")}
    return model(nodes, {"x": [rows, length], "z": [rows, length]}, {"y": [rows, length]}, arrays)


def column_normalization(rows=37, columns=1500):
    """Columns less their means, over the root of the mean of their squares."""
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["m"], axes=[0]),
        helper.make_node("Sub", ["x", "m"], ["c"]),
        helper.make_node("Mul", ["c", "c"], ["s"]),
        helper.make_node("ReduceMean", ["s"], ["v"], axes=[0]),
        helper.make_node("Sqrt", ["v"], ["r"]),
        helper.make_node("Div", ["c", "r"], ["y"]),
    ]
    return model(nodes, {"x": [rows, columns]}, {"y": [rows, columns]}, opset=17)


def gate(rows=3, length=9000):
    """A value multiplied by the sigmoid of another."""
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["a"]),
        helper.make_node("Mul", ["z", "a"], ["y"]),
    ]
    return model(nodes, {"x": [rows, length], "z": [rows, length]}, {"y": [rows, length]})


def attention(queries=QUERIES, keys=KEYS):
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["s"]),
        helper.make_node("Add", ["s", "m"], ["t"]),
        helper.make_node("Softmax", ["t"], ["w"], axis=-1),
        helper.make_node("MatMul", ["w", "v"], ["y"]),
    ]
    input_shapes = {
        "q": [2, queries, 20],
        "k": [2, 20, keys],
        "v": [2, keys, 33],
        "m": [queries, keys],
    }
    return model(nodes, input_shapes, {"y": [2, queries, 33]})


def lap(ratio, spread=0.002):
    return Lap(1000 * ratio, 10.0, ratio, ratio - spread, ratio + spread, 50)


# --------------------------------------------------------------------------------------- legality


@pytest.mark.parametrize("level", DEFAULTS)
def test_the_default_attention_is_first_and_tiles_fit_registers(level):
    here = Processor(level, *REGISTERS[level], 32 << 10, 512 << 10)
    sizes = AttentionSizes(8, 300, 300, 64, 64)
    first, *others = legal_attentions(sizes, here)
    assert first == DEFAULTS[level] and first not in others and len(set(others)) == len(others)
    for other in others:
        assert 2 * other.tile_rows + 3 <= here.registers
        assert other.block % other.tile_rows == 0 and 0 < other.block < 300 + other.tile_rows
        assert 8 * other.block * 300 <= here.second_cache_bytes or other.block == other.tile_rows
    assert legal_attentions(AttentionSizes(8, 1, 64, 64, 64), here)[0] == DEFAULTS[level]


def test_short_rows_are_not_divided():
    assert legal_rows(RowSizes(1, 7, 15)) == (RowConfiguration(),)
    assert {row.streams for row in legal_rows(RowSizes(1, 7, 16))} == {4, 1}
    assert {row.streams for row in legal_rows(RowSizes(1, 7, 64))} == {1, 2, 4}


def test_columns_are_folded_in_pieces_whose_sums_stay_in_the_first_cache():
    default, *others = legal_columns(ColumnSizes(1, 1, 300, 1500), HERE)
    assert default == ColumnConfiguration()
    # of all pieces that hold 1500 columns one makes a difference
    assert {other.block for other in others} == {256, 512, 1024, 2048}
    assert {other.unroll for other in others} == {1, 2, 4, 8}
    narrow = legal_columns(ColumnSizes(1, 1, 3, 100), HERE)
    assert {configuration.block for configuration in narrow} == {1024}
    assert {configuration.unroll for configuration in narrow[1:]} == {1, 2}
    small = legal_columns(ColumnSizes(1, 1, 300, 1500), replace(HERE, first_cache_bytes=8 << 10))
    assert {configuration.block for configuration in small} == {256, 512, 1024}


def test_blocks_of_single_cells_differ_where_several_threads_share_longer_rows():
    assert {cell.block for cell in legal_cells(CellSizes(1, 3, 9000, 2))} == {
        1024,
        2048,
        4096,
        8192,
    }
    assert {cell.block for cell in legal_cells(CellSizes(1, 3, 9000, 1))} == {4096}
    assert legal_cells(CellSizes(1, 3, 15)) == (CellConfiguration(),)
    assert {cell.unroll for cell in legal_cells(CellSizes(1, 3, 32))} == {1, 2}


def test_other_levels_keep_the_default_of_attentions():
    chosen = Chosen(AttentionConfiguration(14, 28), AttentionSizes(1, 9, 9, 9, 9), "avx512")
    numbers = [line.split()[-1] for line in constants(chosen).splitlines() if "define " in line]
    assert numbers == ["14", "6", "6"]
    default = [line.split()[-1] for line in constants().splitlines() if "define " in line]
    assert default == ["12", "6", "6"]


# ---------------------------------------------------------------------------------------- results


@needs_compiler
@pytest.mark.parametrize("level", RUNNABLE[:2])
def test_every_configuration_computes_what_the_runtime_does(level):
    cases = []
    meanings, region_kernel = found_in(normalization())
    sizes = RowSizes(region_kernel.kernel.digest, 7, LENGTH)
    rows = [Chosen(row, sizes) for row in legal_rows(sizes)[1:]]
    reconfigured_kernels = [in_configuration(meanings, region_kernel, row) for row in rows]
    cases.append((normalization(), meanings, [region_kernel, *reconfigured_kernels]))
    meanings, region_kernel = found_in(column_normalization())
    columns = ColumnSizes(region_kernel.kernel.digest, 1, 37, 1500)
    ways = [
        ColumnConfiguration(256, 8),
        ColumnConfiguration(2048, 1, 4),
        ColumnConfiguration(16, 2),
    ]
    reconfigured_kernels = [
        in_configuration(meanings, region_kernel, Chosen(way, columns)) for way in ways
    ]
    cases.append((column_normalization(), meanings, [region_kernel, *reconfigured_kernels]))
    meanings, region_kernel = found_in(gate())
    cells = CellSizes(region_kernel.kernel.digest, 3, 9000, 2)
    ways = [CellConfiguration(1024, 2), CellConfiguration(16384, 4), CellConfiguration(100, 1)]
    reconfigured_kernels = [
        in_configuration(meanings, region_kernel, Chosen(way, cells)) for way in ways
    ]
    cases.append((gate(), meanings, [region_kernel, *reconfigured_kernels]))
    meanings, region_kernel = found_in(attention())
    tile_rows = DEFAULTS[level].tile_rows
    ways = [AttentionConfiguration(6, 12), AttentionConfiguration(tile_rows, tile_rows)]
    ways += [AttentionConfiguration(14, 28)] * (level == "avx512")
    sizes = AttentionSizes(2, QUERIES, KEYS, 20, 33)
    reconfigured_kernels = [configured(region_kernel, Chosen(way, sizes, level)) for way in ways]
    cases.append((attention(), meanings, [region_kernel, *reconfigured_kernels]))
    library = build([candidate.kernel for *_, ones in cases for candidate in ones], levels=(level,))
    for proto, meanings, ones in cases:
        assert len({candidate.kernel.name for candidate in ones}) > 2
        feeds = {
            entry.name: np.random.default_rng(seed)
            .normal(size=[size.dim_value for size in entry.type.tensor_type.shape.dim])
            .astype(np.float32)
            for seed, entry in enumerate(proto.graph.input)
        }
        plain = onnxruntime.InferenceSession(proto.SerializeToString())
        (wanted,) = plain.run(None, feeds)
        results = []
        for candidate in ones:
            graph = meanings.graph.copy()
            assert place(graph, candidate.region.nodes, candidate.kernel)
            session = opened(to_model(embed(graph, library.domain)), library, threads=2)
            (computed,) = session.run(None, feeds)
            np.testing.assert_allclose(computed, wanted, rtol=2e-5, atol=2e-5)
            results.append(computed)
        if not ones[0].region.reduced and not ones[0].kernel.arrange:
            assert all(np.array_equal(result, results[0]) for result in results)


# --------------------------------------------------------------------------------- what is tried


def kinds_with_laps(kinds, ratios):
    for kind, ratio in zip(kinds, ratios, strict=True):
        kind.alone = {OPERATORS: lap(2.0), KERNEL: lap(ratio)}
    return kinds


@pytest.mark.parametrize(
    "proto",
    [normalization(), column_normalization(), gate(), attention()],
    ids=["rows", "columns", "cells", "attention"],
)
def test_what_was_faster_takes_part_again_and_what_was_tried_does_not(proto):
    meanings, region_kernel = found_in(proto)
    default = Kind([region_kernel], {0, 2})
    with Catalog(":memory:") as catalog:
        first = ConfiguredKinds(catalog, threads=1)
        kinds = first.others(meanings, [default], meanings.graph.types, budget_s=5.0)
        assert len(kinds) >= 2 and all(kind.sorts == {0, 2} for kind in kinds)
        faster, slower = kinds[:2]
        raced = kinds_with_laps([default, faster, slower], [1.0, 0.8, 1.2])
        first.note(raced)
        assert faster.beside_default.is_faster and not slower.beside_default.is_faster
        assert not slower.is_promising and "no faster" in slower.refusal([faster])
        again = ConfiguredKinds(catalog, threads=1)
        known, *fresh = again.others(meanings, [default], meanings.graph.types, budget_s=5.0)
        assert known.configuration == faster.configuration
        assert slower.name not in {kind.name for kind in fresh}
        assert {kind.name for kind in kinds[2:]} <= {kind.name for kind in fresh}
        (only,) = again.others(meanings, [default], meanings.graph.types, budget_s=0.0)
        assert only.configuration == faster.configuration
        two = ConfiguredKinds(catalog, threads=2)
        assert two.others(meanings, [default], meanings.graph.types, budget_s=0.0) == []


def test_each_kernel_is_tried_once_before_any_is_tried_twice():
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["a"], axes=[-1]),
        helper.make_node("LogSoftmax", ["z"], ["b"], axis=-1),
    ]
    input_shapes, outputs = {"x": [90, 64], "z": [7, 640]}, {"a": [90, 1], "b": [7, 640]}
    graph = typed(model(nodes, input_shapes, outputs, opset=17))
    meanings = Meanings(graph)
    kinds = [Kind([region]) for region in regions(meanings, graph.nodes)]
    with Catalog(":memory:") as catalog:
        configurations = ConfiguredKinds(catalog, threads=1)
        first, second, *_ = configurations.others(meanings, kinds, graph.types, budget_s=2.5)
    assert {first.regions[0].region, second.regions[0].region} == {
        k.regions[0].region for k in kinds
    }


def test_kernels_that_look_results_up_or_scatter_have_no_sizes():
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "s", "p"], ["a"]),
        helper.make_node("Sigmoid", ["a"], ["b"]),
        helper.make_node("QuantizeLinear", ["b", "s", "p"], ["y"]),
    ]
    arrays = {"s": np.array(0.1, "f"), "p": np.array(3, "u1")}
    proto = model(nodes, {"q": [4, 64]}, {"y": [4, 64]}, arrays)
    proto.graph.input[0].type.tensor_type.elem_type = 2
    proto.graph.output[0].type.tensor_type.elem_type = 2
    _, region_kernel = found_in(proto)
    assert region_kernel.kernel.is_exact
    assert other_sizes(region_kernel, [4, 64], 1) is None


def test_the_fastest_configuration_alone_is_kept():
    meanings, region_kernel = found_in(normalization())
    sizes = RowSizes(region_kernel.kernel.digest, 7, LENGTH)
    chosen = Chosen(legal_rows(sizes)[1], sizes)
    other = in_configuration(meanings, region_kernel, chosen)
    default, faster = Kind([region_kernel]), Kind([other], beside_default=Timed(0.9, 0.88, 0.92))
    assert best_forms([faster, default]) == [faster]
    assert best_forms([default, faster]) == [default]


@pytest.mark.parametrize(
    "proto",
    [normalization(), column_normalization(), gate(), attention()],
    ids=["rows", "columns", "cells", "attention"],
)
def test_another_plan_has_the_configuration_of_the_same_kernel(proto):
    meanings, region_kernel = found_in(proto)
    with Catalog(":memory:") as catalog:
        configurations = ConfiguredKinds(catalog, threads=1)
        types = meanings.graph.types
        kind, *_ = configurations.others(meanings, [Kind([region_kernel])], types, budget_s=2.5)
    other, again = found_in(proto)
    (candidate,) = reconfigured(other, [again], [kind])
    assert candidate.kernel.name == kind.name
    different, third = found_in(normalization(9, 52))
    assert reconfigured(different, [third], [kind]) == []
