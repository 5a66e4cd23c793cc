"""What a probe makes of the times of runs: simulated runs, which cost what the test says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tensolog.profiles.kernel import Kernel, TensorSpec
from tensolog.profiles.kernels import timing
from tensolog.profiles.kernels.timing import SessionRunner

BEGINNING_NS = 60_000.0  # of each run: waking threads, code out of the cache
EMPTY_NS = 2_000.0


class Run:
    def __init__(self, ns, feeds=None):
        self.ns, self.feeds = ns, feeds or {}

    def time(self, runs=1):
        return self.ns


class Simulated(SessionRunner):
    """Each copy of a kernel takes `kernel_ns`; `copies` lists the copies of each model built."""

    def __init__(self, kernel_ns, threads=2, constant_bytes=1 << 30):
        super().__init__(threads, "disabled", constant_bytes)
        self.kernel_ns, self.copies = kernel_ns, []

    def overhead_ns(self):
        return EMPTY_NS

    def _bound(self, kernel, copies):
        if kernel.op_type == "Abs":  # the sweep
            return Run(0.0)
        self.copies.append(copies)
        return Run(BEGINNING_NS + copies * self.kernel_ns)


def product(rows, inner, columns):
    data = TensorSpec("float32", (rows, inner))
    return Kernel("", "MatMul", 13, (), (data, TensorSpec("float32", (inner, columns), True)))


def lookup(rows):
    indices = TensorSpec("int64", (40,))
    return Kernel("", "Gather", 13, (), (TensorSpec("float32", (rows, 64), True), indices))


@pytest.mark.parametrize("kernel_ns", [500.0, 20_000.0, 150_000.0, 600_000.0])
def test_what_a_run_costs_by_itself_is_not_charged_to_a_short_kernel(kernel_ns):
    runner = Simulated(kernel_ns)
    assert runner.prepare(product(8, 64, 64))() == pytest.approx(kernel_ns)
    assert runner.copies[0] == 1 < runner.copies[1] <= timing._MOST_COPIES


@pytest.mark.parametrize(("kernel_ns", "threads"), [(5e6, 1), (50e6, 2)])
def test_a_long_kernel_is_timed_once_less_an_empty_run(kernel_ns, threads):
    runner = Simulated(kernel_ns, threads)
    assert runner.prepare(product(8, 64, 64))() == kernel_ns + BEGINNING_NS - EMPTY_NS
    assert runner.copies == [1]


def test_waking_threads_is_charged_to_two_kernels_of_milliseconds():
    runner = Simulated(5e6)
    assert runner.prepare(product(8, 64, 64))() == 5e6 + (BEGINNING_NS - EMPTY_NS) / 2
    assert runner.copies == [1, 2]


@pytest.mark.parametrize(("constant_bytes", "before"), [(16 << 20, 2), (64 << 20, 1)])
def test_constants_of_a_model_that_fits_are_taken_back_into_the_cache(constant_bytes, before):
    asked = []

    class Asked(Run):
        def time(self, runs=1):
            asked.append(runs)
            return self.ns

    runner = Simulated(5_000.0, constant_bytes=constant_bytes)
    runner._bound = lambda kernel, copies: Asked(5_000.0)
    probe = runner.prepare(product(8, 64, 64))
    asked.clear()
    probe()
    samples = [1] * (2 * timing._RUNS)  # a sweep before each run
    assert asked == 2 * [before, *samples]


def test_a_view_of_much_data_is_timed_in_copies_of_one_element():
    runner = Simulated(500.0)
    shape = TensorSpec("int64", (1,), True, (4 << 20,))
    view = Kernel("", "Reshape", 13, (), (TensorSpec("float32", (4, 1 << 20)), shape))
    assert runner.prepare(view)() == pytest.approx(500.0)
    assert runner.copies == [1, 1 + math.ceil(timing._COPIES_NS / (BEGINNING_NS + 500.0))]
    assert timing.most_bytes(view) == 0


def test_no_kernel_is_free():
    assert Simulated(0.0).prepare(product(8, 64, 64))() == timing._LEAST_NS


@pytest.mark.parametrize(
    ("kernel", "most"),
    [
        (product(1, 64, (8 << 20) // 256), 4),  # constants of 8 MiB
        (product((4 << 20) // 256, 64, 8), 2),  # data of 4 MiB
        (product(1, 1, (80 << 20) // 4), 1),
        (lookup((16 << 20) // 256), 4),  # a table of 16 MiB
    ],
    ids=["constants", "data", "more than there is room for", "tables"],
)
def test_copies_hold_so_much_memory_at_most(kernel, most):
    runner = Simulated(1_000.0)
    runner.prepare(kernel)
    assert runner.copies == ([1, most] if most > 1 else [1])


def test_each_run_looks_up_other_rows():
    runner = Simulated(5_000.0)
    indices = np.zeros(40, np.int64)
    seen = []

    class Lookup(Run):
        def time(self, runs=1):
            seen.append(tuple(indices))
            return self.ns

    runner._bound = lambda kernel, copies: Lookup(5_000.0, {"x1_0": indices})
    probe = runner.prepare(lookup(500))
    seen.clear()
    probe()
    assert len(set(seen)) >= 2 * timing._RUNS  # of the copies, and of one
