"""How fused kernels' work is divided: which ways are legal, what they give, what is chosen."""

import numpy as np
import pytest
from tensolog.optimizer.fuse.codegen.cell_kernel import CELLS
from tensolog.optimizer.fuse.codegen.row_kernel import ROWS
from tensolog.optimizer.fuse.codegen.tuning import (
    CALLS,
    TURNS,
    WARM,
    WINS,
    Tuning,
)
from tensolog.optimizer.native.configurations.fused_configuration import (
    FusedConfiguration,
    FusedSizes,
)
from tensolog.optimizer.native.configurations.legal import legal_fused
from tensolog.profiles.races.statistics import LOOKS, Ratio

import tensolog
from tests.optimizer.native.build import needs_compiler

# --------------------------------------------------------------------------------------- legality


def test_how_many_threads_take_part_is_chosen_for_all_kernels():
    few = legal_fused(FusedSizes(20_000, 0, 1, 2), CELLS)
    assert few == (CELLS, FusedConfiguration(run=1))
    many = legal_fused(FusedSizes(100_000, 0, 1, 2), CELLS)
    assert many == (CELLS, FusedConfiguration(run=100_001))
    assert legal_fused(FusedSizes(100_000, 0, 1, 1), CELLS) == (CELLS,)
    # so much is never left to one thread, although the others may be busy just now
    assert legal_fused(FusedSizes(1_000_000, 0, 1, 2), CELLS) == (CELLS,)


def test_sums_keep_their_parts_and_blocks():
    sizes = FusedSizes(100_000, 64, 0, 2)
    free = legal_fused(sizes, ROWS)
    assert {configuration.part for configuration in free} == {2048, 4096, 8192, 1 << 15}
    assert {configuration.block for configuration in free} == {256, 512, 1024, 2048, 4096}
    sums = legal_fused(FusedSizes(100_000, 64, 1, 2), ROWS)
    assert {configuration.part for configuration in sums} == {ROWS.part} and {
        configuration.block for configuration in sums
    } == {ROWS.block}


def test_blocks_of_as_many_rows_are_one():
    assert {
        configuration.block for configuration in legal_fused(FusedSizes(100_000, 512, 0, 1), ROWS)
    } == {
        512,
        2048,
        4096,
    }


# ---------------------------------------------------------------------------------------- results


def affine(x, y):
    return np.exp(-x) * y + 2.0


def total(x, y):
    return (x * y).sum()


def softmax(x, y):
    e = np.exp(x * y - (x * y).max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def column_sums(x, y):
    return (x * y + 1.0).sum(axis=0)


@needs_compiler
@pytest.mark.parametrize("function", [affine, total, softmax, column_sums])
@pytest.mark.parametrize("shape", [(1301, 40), (2000, 37)])
def test_all_ways_give_the_same_to_the_bit(function, shape):
    random = np.random.default_rng(0)
    x, y = random.standard_normal(shape), random.standard_normal(shape)
    fused = tensolog.fuse(function, threads=2)
    wanted = fused(x, y)
    np.testing.assert_allclose(wanted, function(x, y), rtol=1e-9)
    (prepared,) = fused._engine.prepared_regions()
    (step,) = [step for step in prepared.compiled.steps if step.kernel is not None]
    values = dict(zip(step.inputs, (x, y), strict=False))
    ways = legal_fused(step.kernel.work_sizes(2), step.kernel.configuration)
    assert len(ways) > 1
    for how in ways:
        (result,) = step.kernel.run(step.function, values, 2, how).values()
        assert np.array_equal(np.asarray(result), np.asarray(wanted)), how


# ---------------------------------------------------------------------------------------- choice


class Kernel:
    """A kernel without work: `seconds` of a call are told to the tuning beside it."""

    configuration = ROWS

    def work_sizes(self, threads):
        return FusedSizes(100_000, 64, 0, threads)

    def run(self, function, values, threads, how):
        return {}


def chosen_by(seconds_of, calls=1000):
    tuning = Tuning(Kernel())
    for _ in range(calls):
        if tuning.chosen is not None:
            break
        how = tuning.next(2)
        tuning.add(how, seconds_of(how))
    return tuning


def test_what_is_faster_beyond_noise_is_kept():
    best = FusedConfiguration(1024, ROWS.part, ROWS.run)
    tuning = chosen_by(lambda how: 50e-6 if how == best else 100e-6)
    assert tuning.chosen == best
    assert tuning.ratio == Ratio(0.5, 0.5, 0.5)
    ways = len(legal_fused(FusedSizes(100_000, 64, 0, 2), ROWS))
    assert tuning.calls == WARM + CALLS * (ways * TURNS + WINS * 2 * min(LOOKS))


def test_the_default_is_kept_where_nothing_is_faster():
    assert chosen_by(lambda how: 100e-6).chosen == ROWS
    assert chosen_by(lambda how: 100e-6).ratio is None


def test_what_was_lucky_once_loses_to_the_default():
    calls = iter(range(1000))

    def seconds(how):
        lucky = how.block == 1024 and next(calls) < TURNS * CALLS
        return 50e-6 if lucky else 100e-6

    assert chosen_by(seconds).chosen == ROWS


def test_what_wins_once_but_not_again_is_not_kept():
    final = iter(range(1000))

    def seconds(how):
        if how.block != 1024:
            return 100e-6
        return 50e-6 if next(final) < CALLS * (TURNS + min(LOOKS)) else 100e-6

    assert chosen_by(seconds).chosen == ROWS


def test_a_call_that_wakes_threads_does_not_count():
    last = []

    def seconds(how):
        woken = not last or last[-1] != how
        last.append(how)
        return (200e-6 if woken else 100e-6) if how.run <= ROWS.run else 110e-6

    assert chosen_by(seconds).chosen.run <= ROWS.run


def test_calls_too_short_to_be_worth_it_are_left_alone():
    tuning = chosen_by(lambda how: 1e-6)
    assert tuning.chosen == ROWS and tuning.calls == WARM


@needs_compiler
def test_a_fused_function_says_what_its_calls_took():
    x = np.random.default_rng(0).standard_normal((400, 100))
    fused = tensolog.fuse(affine, threads=2)
    wanted = fused(x, x)
    for _ in range(2 * TURNS * CALLS + 10):
        assert np.array_equal(fused(x, x), wanted)
    rows = fused.sql(
        "SELECT operator_id, calls, block, median_s FROM kernel_configuration"
    ).fetchall()
    assert not rows or all(calls > 0 and median > 0 for _, calls, _, median in rows)
    (prepared,) = fused._engine.prepared_regions()
    (tuning,) = [step.tuning for step in prepared.compiled.steps if step.kernel is not None]
    assert tuning.calls > WARM
    assert "a generated kernel" in fused.explain()
