"""Configurations that are tried: what the catalog knows, what is predicted, what is noted."""

from dataclasses import replace

import numpy as np
import pytest
from onnx import helper
from tensolog.catalog import Catalog
from tensolog.optimizer.native.configurations.legal import legal
from tensolog.optimizer.native.configurations.processor import REGISTERS, Processor, processor
from tensolog.optimizer.native.configurations.product_configuration import (
    DEFAULTS,
    ProductSizes,
)
from tensolog.optimizer.native.configurations.product_features import costs, features
from tensolog.optimizer.native.configurations.ranking import (
    Sample,
    learned_scales,
    predicted_ratios,
    promising,
    shipped_samples,
)
from tensolog.optimizer.native.configurations.timed import TimedConfigurations, beside
from tensolog.optimizer.native.configured_kinds import ConfiguredKinds, reconfigured
from tensolog.optimizer.native.fuse_graph import regions
from tensolog.optimizer.native.kernel_trial import KERNEL, OPERATORS
from tensolog.optimizer.native.loops.kernel_region import Meanings
from tensolog.optimizer.native.region_kinds import Kind, step_of
from tensolog.profiles.races.race import Lap

from .build import model, typed

HERE = Processor("avx512", *REGISTERS["avx512"], 32 << 10, 1 << 20)
DEFAULT = DEFAULTS["avx512"]
NINE = replace(DEFAULT, tile_rows=9, even=1)
WIDE = replace(DEFAULT, panel=96)
SIZES = ProductSizes(9, 512, 512)


def lap(median_us, ratio=1.0, spread=0.002):
    return Lap(median_us * 1000, 10.0, ratio, ratio - spread, ratio + spread, 50)


def products(catalog, here=HERE):
    return TimedConfigurations(catalog, here, ProductSizes)


def store(timed, sizes, default, laps):
    """Note what configurations took, all in one race."""
    for configuration, taken in laps.items():
        timed.store(sizes, configuration, taken, beside(taken, default))


@pytest.fixture
def catalog():
    with Catalog(":memory:") as in_memory:
        yield in_memory


@pytest.fixture
def layers():
    """Two equal layers and one of another size, the regions found, and the types of values."""
    arrays = {f"w{i}": np.ones((64, 64), np.float32) for i in range(2)}
    arrays["w2"] = np.ones((64, 96), np.float32)
    nodes = [
        helper.make_node("MatMul", [f"h{i - 1}" if i else "x", f"w{i}"], [f"h{i}"])
        for i in range(3)
    ]
    graph = typed(model(nodes, {"x": [9, 64]}, {"h2": [9, 96]}, arrays))
    meanings = Meanings(graph)
    return meanings, regions(meanings, graph.nodes), graph.types


# ------------------------------------------------------------------------------------- prediction


def test_nothing_is_promised_where_nothing_was_measured():
    assert predicted_ratios(SIZES, [DEFAULT, NINE], [], HERE).tolist() == [1.0, 1.0]


def test_the_default_is_predicted_to_take_as_long_as_itself():
    samples = [Sample(ProductSizes(9, 256, 512), NINE, 0.85)]
    for sizes in (SIZES, ProductSizes(1, 33, 1000), ProductSizes(300, 768, 47)):
        assert predicted_ratios(sizes, [DEFAULT], samples, HERE) == pytest.approx([1.0], abs=1e-12)


@pytest.mark.parametrize("rows", [1, 2, 7, 9, 17, 200])
def test_what_a_product_costs_is_what_its_tiles_add_up_to(rows):
    """By hand: steps of each tile, its sums to memory and back, the panel it reads."""
    sizes = ProductSizes(rows, 1024, 96)
    terms = costs(sizes, DEFAULT, HERE)
    whole, rest = divmod(rows, 8)
    tile = {
        height: max(height * 1.5, (height + 4) / 2, (height * 4 + 8) / 7, 4.0)
        for height in range(1, 9)
    }
    cycles = 2 * 1024 * (whole * tile[8] + (tile[rest] if rest else 0.0))
    assert terms["log cycles of tiles"] == pytest.approx(np.log(cycles))
    assert terms["log sums moved"] == pytest.approx(np.log(2 * 2 * rows * 3))
    assert terms["log bytes of tiles"] == pytest.approx(
        np.log((whole + (rest > 0)) * 96 * 4 * 1024)
    )


def test_features_are_those_that_scales_are_of():
    scales = learned_scales()
    described = features(SIZES, NINE, HERE)
    assert set(scales.features) <= set(described)
    assert set(scales.costs) <= set(described)
    assert set(described) - set(scales.features) <= {"run", "unroll"}  # the same in all samples


def test_what_gained_for_a_product_gains_for_one_alike():
    samples = [
        Sample(ProductSizes(9, size, 512), configuration, ratio)
        for size in (256, 768)
        for configuration, ratio in ((DEFAULT, 1.0), (NINE, 0.85), (WIDE, 1.1))
    ]
    default, nine, wide = predicted_ratios(SIZES, [DEFAULT, NINE, WIDE], samples, HERE)
    assert 0.82 < nine < 0.9 < 0.95 < default < 1.03 < wide < 1.13
    far = predicted_ratios(ProductSizes(512, 32, 2048), [NINE], samples, HERE)
    assert abs(far[0] - 1.0) < abs(nine - 1.0)


def test_the_most_promising_comes_first_and_what_is_known_not_again():
    configurations = legal(SIZES, HERE)
    samples = [Sample(SIZES, NINE, 0.8), Sample(SIZES, WIDE, 1.3), Sample(SIZES, DEFAULT, 1.0)]
    chosen = promising(SIZES, configurations, samples, HERE, 3, {})
    assert 0 < len(chosen) <= 3
    # nine rows were faster, and a wide panel slower: a narrow one may be faster still
    assert chosen[0].tile_rows == 9 and chosen[0].panel <= DEFAULT.panel
    assert DEFAULT not in chosen
    again = promising(SIZES, configurations, samples, HERE, 3, dict.fromkeys(chosen, 1.0))
    assert not set(again) & {*chosen, DEFAULT}
    assert promising(SIZES, configurations[:1], samples, HERE, 3, {}) == []


def test_what_is_not_predicted_to_gain_is_not_tried():
    configurations = legal(SIZES, HERE)
    slow = [Sample(SIZES, configuration, 1.02) for configuration in configurations[1:]]
    assert promising(SIZES, configurations, slow, HERE, 3, {}) == []
    assert len(promising(SIZES, configurations, [], HERE, 3, {})) == 3


@pytest.mark.parametrize("level", DEFAULTS)
def test_what_comes_with_tensolog_is_of_legal_configurations(level):
    here = {
        "avx512": HERE,
        "avx2": Processor("avx2", *REGISTERS["avx2"], 32 << 10, 1 << 20),
        "plain": Processor("plain", *REGISTERS["plain"], 32 << 10, 1 << 20),
    }[level]
    for sample in shipped_samples(here)[::50]:
        assert sample.configuration in legal(sample.sizes, here)
        assert 0.2 < sample.ratio < 20


def test_samples_of_processors_alike_come_alone_and_else_those_of_the_level():
    alike = [shipped_samples(replace(HERE, first_cache_bytes=size << 10)) for size in (32, 48, 64)]
    assert all(alike) and alike[0] != alike[1]
    assert set(alike[2]) == {*alike[0], *alike[1]}
    assert shipped_samples(Processor("plain", *REGISTERS["plain"], 32 << 10, 1 << 20)) == ()


# --------------------------------------------------------------------------------------- catalog


def test_what_was_timed_is_known_to_the_next_run(catalog):
    timed = products(catalog)
    store(timed, SIZES, lap(10), {NINE: lap(9, 0.9), WIDE: lap(12, 1.2)})
    again = products(catalog)
    assert again.best(SIZES) == NINE
    assert set(again.timed(SIZES)) == {NINE, WIDE}
    assert again.timed(SIZES)[NINE].ratio == pytest.approx(0.9)
    assert catalog.sql("SELECT level, registers FROM processor").fetchall() == [("avx512", 32)]
    row = "SELECT tile_rows, even, sizes, threads, round(ratio, 3) FROM kernel_configuration"
    assert catalog.sql(f"{row} ORDER BY ratio LIMIT 1").fetchall() == [
        (9, 1, [9, 512, 512], 1, 0.9)
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"sizes": replace(SIZES, rows=10)},
        {"sizes": replace(SIZES, threads=2)},
        {"here": replace(HERE, level="avx2")},
    ],
)
def test_what_was_timed_elsewhere_is_not_taken(catalog, change):
    store(products(catalog), SIZES, lap(10), {NINE: lap(9, 0.9)})
    again = products(catalog, change.get("here", HERE))
    assert again.best(change.get("sizes", SIZES)) is None


def test_a_gain_within_noise_is_none(catalog):
    timed = products(catalog)
    store(timed, SIZES, lap(10), {NINE: lap(9.9, 0.99, spread=0.02)})
    assert timed.best(SIZES) is None


def test_of_several_times_the_last_counts(catalog):
    timed = products(catalog)
    store(timed, SIZES, lap(10), {NINE: lap(9, 0.9)})
    store(timed, SIZES, lap(10), {NINE: lap(11, 1.1)})
    assert timed.best(SIZES) is None
    assert products(catalog).best(SIZES) is None


def test_intervals_of_two_laps_add_up():
    both = beside(lap(9, 0.45, spread=0.0045), lap(10, 0.5, spread=0.005))
    assert both.ratio == pytest.approx(0.9)
    assert both.ratio_high - both.ratio == pytest.approx(0.9 * 0.01 * 2**0.5)


# ----------------------------------------------------------------------------------------- kinds


def test_what_is_known_takes_part_whatever_the_time(catalog, layers):
    meanings, region_kernels, types = layers
    configured = ConfiguredKinds(catalog, threads=1)
    assert configured.kinds(meanings, region_kernels, types, 7, budget_s=0.0) == []
    sizes = ProductSizes(9, 64, 64)
    configuration = legal(sizes, processor())[-1]
    store(configured.timed[ProductSizes], sizes, lap(10), {configuration: lap(9, 0.9)})
    (kind,) = configured.kinds(meanings, region_kernels, types, 7, budget_s=0.0)
    assert kind.configuration == configuration
    assert kind.sorts == {7}
    assert [len(candidate.region.nodes) for candidate in kind.regions] == [1, 1]


def test_what_is_not_legal_is_not_taken_from_a_catalog(catalog, layers):
    meanings, region_kernels, types = layers
    configured = ConfiguredKinds(catalog, threads=1)
    odd = replace(DEFAULTS[processor().level], tile_rows=1000)
    store(configured.timed[ProductSizes], ProductSizes(9, 64, 64), lap(10), {odd: lap(9, 0.9)})
    catalog.connection.execute("UPDATE kernel_configuration SET sizes = [9, 64]")
    assert ConfiguredKinds(catalog, threads=1).timed[ProductSizes].by_sizes == {}
    assert configured.kinds(meanings, region_kernels, types, 7, budget_s=0.0) == []


def test_as_many_are_tried_as_there_is_time_to_compile(catalog, layers):
    meanings, region_kernels, types = layers
    configured = ConfiguredKinds(catalog, threads=1)
    few = configured.kinds(meanings, region_kernels, types, 7, budget_s=2.0)
    many = configured.kinds(meanings, region_kernels, types, 7, budget_s=60.0)
    assert 0 < len(few) < len(many) <= 8
    # the two equal layers compute most
    assert len(few[0].regions) == 2
    assert all(kind.configuration is not None for kind in many)


def test_what_was_measured_is_noted_once_and_told(catalog, layers):
    meanings, region_kernels, types = layers
    configured = ConfiguredKinds(catalog, threads=1)
    default = Kind([region_kernels[0]], alone={OPERATORS: lap(20), KERNEL: lap(10, 0.5)})
    kind = configured.kinds(meanings, region_kernels, types, 7, budget_s=60.0)[0]
    kind.alone = {OPERATORS: lap(20), KERNEL: lap(9, 0.45)}
    default.regions = [
        candidate
        for candidate in region_kernels
        if candidate.region.nodes == kind.regions[0].region.nodes
    ]
    for _ in range(2):
        configured.note([default, kind])
    assert catalog.sql("SELECT count(*) FROM kernel_configuration").fetchall() == [(1,)]
    assert kind.beside_default == beside(kind.alone[KERNEL], default.alone[KERNEL])
    reason = step_of(kind, kind.regions[0], ("node",)).reason
    assert kind.configuration.description in reason
    assert "(0.90 of the default's time)" in reason


def test_a_race_of_few_rounds_is_not_noted(catalog, layers):
    meanings, region_kernels, types = layers
    configured = ConfiguredKinds(catalog, threads=1)
    kind = configured.kinds(meanings, region_kernels, types, 7, budget_s=60.0)[0]
    kind.alone = {OPERATORS: lap(20), KERNEL: replace(lap(9, 0.45), samples=4)}
    same = [
        candidate
        for candidate in region_kernels
        if candidate.region.nodes == kind.regions[0].region.nodes
    ]
    default = Kind(same, alone={OPERATORS: lap(20), KERNEL: lap(10, 0.5)})
    configured.note([default, kind])
    assert catalog.sql("SELECT count(*) FROM kernel_configuration").fetchall() == [(0,)]


def test_another_graph_gets_the_same_configurations(catalog, layers):
    meanings, region_kernels, types = layers
    configured = ConfiguredKinds(catalog, threads=1)
    kinds = configured.kinds(meanings, region_kernels, types, 7, budget_s=60.0)
    names = {
        candidate.kernel.name for candidate in reconfigured(meanings, region_kernels, kinds[:1])
    }
    assert kinds[0].name in names
    assert reconfigured(meanings, region_kernels, [Kind([region_kernels[0]])]) == []
