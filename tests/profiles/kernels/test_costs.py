"""The cost model on a simulated machine: time passes only when a probe says so."""

import random

import pytest
from tensolog.catalog import Catalog
from tensolog.profiles.kernel import Kernel, KernelError, TensorSpec
from tensolog.profiles.kernels import costs as costs_module
from tensolog.profiles.kernels.costs import Cost, CostModel
from tensolog.profiles.kernels.roofline import bound_ns
from tensolog.profiles.kernels.timing import REFERENCE

from tests.profiles.conftest import add_device


def relu(size, constant=False):
    return Kernel("", "Relu", 18, (), (TensorSpec("float32", (size,), constant),))


class Machine:
    """A clock, a log of samples, and a time for each kernel (its size in microseconds)."""

    def __init__(self, noise=0.0, fail=(), prepare_s=0.0, interrupt_after=None):
        self.now = 0.0
        self.log = []
        self.prepared = []
        self._noise = random.Random(0)
        self._scale = noise
        self._fail = fail
        self._prepare_s = prepare_s
        self._remaining = interrupt_after

    def clock(self):
        return self.now

    def prepare(self, kernel):
        self.now += self._prepare_s
        self.prepared.append(kernel)
        if kernel in self._fail:
            raise KernelError(f"{kernel.label()}: not here")
        ns = 1000.0 * kernel.inputs[0].size

        def probe():
            if self._remaining is not None:
                self._remaining -= 1
                if self._remaining < 0:
                    raise KeyboardInterrupt
            self.log.append(kernel)
            taken = ns * (1 + self._scale * self._noise.random())
            self.now += taken * 1e-9
            return taken

        return probe

    def samples(self, kernel):
        return self.log.count(kernel)


def model(catalog, machine, **options):
    options = {"threads": 1, **options}
    return CostModel(catalog, runner=machine, clock=machine.clock, **options)


def rows(catalog, columns="*"):
    return catalog.sql(
        f"SELECT {columns} FROM measurement WHERE kernel_hash <> '{REFERENCE.hash}'"
        " ORDER BY measurement_id"
    ).fetchall()


def test_what_is_not_measured_is_a_bound(catalog):
    costs = model(catalog, Machine())
    kernel = relu(1000)
    assert costs.predict([kernel]) == {
        kernel: Cost(bound_ns(kernel, costs.device, 1), 0.0, "bound")
    }


def test_constants_cost_nothing_and_are_not_measured(catalog):
    costs = model(catalog, Machine())
    assert costs.cost(relu(1000, constant=True)).ns == 0
    assert costs.measure([relu(1000, constant=True)], budget_s=10) == 0


def test_a_second_run_measures_nothing(tmp_path):
    kernels = [relu(size) for size in range(1, 30)]
    path = tmp_path / "catalog.duckdb"
    with Catalog(path) as catalog:
        add_device(catalog)
        first = model(catalog, Machine())
        assert first.measure(kernels + kernels, budget_s=1000) == len(kernels)
        known = first.predict(kernels)
        assert first.measure(kernels, budget_s=1000) == 0
    assert {cost.source for cost in known.values()} == {"measured"}
    assert known[kernels[6]].ns == pytest.approx(7000)
    machine = Machine()
    with Catalog(path) as catalog:
        again = model(catalog, machine)
        assert again.measure(kernels, budget_s=1000) == 0
        assert again.predict(kernels) == known
        assert again.unmeasured(kernels) == []
    assert machine.prepared == []


@pytest.mark.parametrize("other", [{"threads": 2}, {"configuration": "disabled"}])
def test_threads_and_configuration_are_measured_apart(catalog, other):
    model(catalog, Machine()).measure([relu(5)], budget_s=10)
    assert model(catalog, Machine(), **other).cost(relu(5)).source == "bound"


def test_another_version_is_measured_apart(catalog, monkeypatch):
    model(catalog, Machine()).measure([relu(5)], budget_s=10)
    monkeypatch.setattr(costs_module, "runtime_version", lambda: "0.0.0")
    assert model(catalog, Machine()).cost(relu(5)).source == "bound"


def test_another_device_is_measured_apart(catalog):
    model(catalog, Machine()).measure([relu(5)], budget_s=10)
    catalog.connection.execute("UPDATE measurement SET device_id = device_id + 1")
    assert model(catalog, Machine()).cost(relu(5)).source == "bound"


def test_the_newest_row_stands(catalog):
    model(catalog, Machine()).measure([relu(5)], budget_s=10)
    catalog.connection.execute(
        "INSERT INTO measurement BY NAME SELECT * EXCLUDE (measurement_id) REPLACE"
        " (7.0 AS median_ns) FROM measurement"
    )
    assert model(catalog, Machine()).cost(relu(5)).ns == 7.0


def test_rounds_interleave_in_random_order_with_a_reference(catalog):
    machine = Machine()
    kernels = [relu(size) for size in (1, 2, 3, 4)]
    model(catalog, machine).measure(kernels, budget_s=1000)
    while machine.log[:2] == [REFERENCE, REFERENCE]:  # its own measurement comes first
        del machine.log[:2]
    size = len(kernels) + 1
    rounds = [machine.log[start : start + size] for start in range(0, len(machine.log), size)]
    assert all(taken[0] == REFERENCE for taken in rounds)
    assert all(set(taken[1:]) == set(kernels) for taken in rounds)
    assert len({tuple(taken) for taken in rounds}) > 5


def test_rows_tell_median_spread_and_minimum(catalog):
    model(catalog, Machine(noise=0.2)).measure([relu(10)], budget_s=1000)
    ((median, spread, minimum, samples, failure),) = rows(
        catalog, "median_ns, spread_ns, minimum_ns, samples, failure"
    )
    assert 10000 <= minimum <= median <= 12000
    assert 0 < spread < 2000 and samples >= 3 and failure is None


def test_disturbed_rounds_do_not_count(catalog):
    class Disturbed(Machine):
        def prepare(self, kernel):
            probe = super().prepare(kernel)
            first = kernel == REFERENCE

            def sample():
                if first:
                    self.factor = 5 if self._noise.random() < 0.4 else 1
                return probe() * self.factor

            return sample

    model(catalog, Disturbed()).measure([relu(10)], budget_s=1000)
    ((median, spread),) = rows(catalog, "median_ns, spread_ns")
    assert median == 10000 and spread == 0


def test_a_busy_time_is_waited_for(catalog):
    """For ten rounds the machine is half as fast; the reference tells."""

    class Busy(Machine):
        def prepare(self, kernel):
            probe = super().prepare(kernel)
            return lambda: probe() * (1 + (5 < self.samples(relu(10)) <= 15))

    machine = Busy()
    costs = model(catalog, machine)
    costs.measure([relu(1)], budget_s=1000)
    costs.measure([relu(10)], budget_s=1000)
    assert costs.cost(relu(10)).ns == 10000
    assert machine.samples(relu(10)) > 15


def test_a_machine_that_stays_busy_is_measured_as_it_is(catalog):
    class Busy(Machine):
        factor = 1

        def prepare(self, kernel):
            probe = super().prepare(kernel)
            return lambda: probe() * self.factor

    machine = Busy()
    costs = model(catalog, machine)
    costs.measure([relu(1)], budget_s=1000)
    machine.factor = 2
    costs.measure([relu(10)], budget_s=1000)
    assert costs.cost(relu(10)).ns == 20000
    assert machine.samples(relu(10)) == 2 * costs_module._MOST_SAMPLES


def test_the_budget_ends_it_within_one_kernel(catalog):
    machine = Machine(prepare_s=0.5)
    kernels = [relu(100_000 + size) for size in range(50)]  # 0.1 s each
    assert 0 < model(catalog, machine).measure(kernels, budget_s=10) < len(kernels)
    assert 9 < machine.now <= 10 + 0.5 + 0.2
    before = len(rows(catalog))
    assert model(catalog, Machine()).measure(kernels, budget_s=0) == 0
    assert len(rows(catalog)) == before


def test_the_callers_order_is_kept(catalog):
    machine = Machine(prepare_s=1.0)
    kernels = [relu(1000 + size) for size in (5, 3, 9, 1, 7)] + [relu(size) for size in range(90)]
    model(catalog, machine).measure(kernels, budget_s=9)
    assert [kernel for kernel in machine.prepared if kernel != REFERENCE] == kernels[:7]


def test_large_kernels_are_not_alive_together(catalog, monkeypatch):
    monkeypatch.setattr(costs_module, "_BATCH_BYTES", 1200)  # of a dozen copies each
    kernels = [relu(20), relu(20000), relu(1), relu(2), relu(3), relu(30)]
    batches = costs_module._batches(kernels)
    assert [[kernel.inputs[0].size for kernel in batch] for batch in batches] == [
        [20],
        [20000],
        [1, 2, 3],
        [30],
    ]


@pytest.mark.parametrize("interrupt_after", [0, 1, 30, 120, 200])
def test_an_interrupt_keeps_what_was_measured(catalog, interrupt_after):
    machine = Machine(interrupt_after=interrupt_after)
    kernels = [relu(size) for size in range(1, 25)]
    costs = model(catalog, machine)
    with pytest.raises(KeyboardInterrupt):
        costs.measure(kernels, budget_s=1000)
    kept = {kernel.hash for kernel in kernels if machine.samples(kernel) >= 3}
    assert {row[0] for row in rows(catalog, "kernel_hash")} == kept
    for kernel in kernels:
        assert (costs.cost(kernel).source == "measured") == (kernel.hash in kept)
    rest = Machine()
    assert model(catalog, rest).measure(kernels, budget_s=1000) == len(kernels) - len(kept)


def test_a_failure_is_recorded_and_not_tried_again(catalog):
    bad = relu(2)
    costs = model(catalog, Machine(fail=[bad]))
    assert costs.measure([relu(1), bad, relu(3)], budget_s=100) == 3
    assert costs.cost(bad).source == "bound" and "not here" in costs.failure(bad)
    ((median, samples, failure),) = catalog.sql(
        f"SELECT median_ns, samples, failure FROM measurement WHERE kernel_hash = '{bad.hash}'"
    ).fetchall()
    assert (median, samples) == (None, 0) and "not here" in failure
    machine = Machine()
    again = model(catalog, machine)
    assert again.measure([bad], budget_s=100) == 0 and machine.prepared == []
    assert again.failure(bad) == costs.failure(bad)


def test_progress_counts_every_row(catalog):
    bad, reports = relu(2), []
    kernels = [relu(1), bad, relu(3)]
    model(catalog, Machine(fail=[bad])).measure(
        kernels, budget_s=100, progress=lambda *row: reports.append(row)
    )
    assert reports[0] == (0, 3, "")
    assert [done for done, _, _ in reports] == [0, 1, 2, 3]
    assert {label for _, _, label in reports[1:]} == {kernel.label() for kernel in kernels}


def test_measuring_can_be_switched_off(catalog):
    machine = Machine()
    assert model(catalog, machine, measure=False).measure([relu(1)], budget_s=10) == 0
    assert machine.prepared == []


def test_a_read_only_catalog_is_read_and_left_alone(tmp_path):
    path = tmp_path / "catalog.duckdb"
    with Catalog(path) as catalog:
        add_device(catalog)
        model(catalog, Machine()).measure([relu(1)], budget_s=10)
    with Catalog(path, read_only=True) as catalog:
        costs = model(catalog, Machine())
        assert costs.cost(relu(1)).source == "measured"
        assert costs.measure([relu(2)], budget_s=10) == 1
        assert costs.cost(relu(2)).source == "measured"
        assert len(rows(catalog)) == 1


def test_unknown_configurations_are_refused(catalog):
    with pytest.raises(ValueError, match="known: disabled"):
        CostModel(catalog, threads=1, configuration="fastest")


def test_real_kernels_are_measured(catalog):
    custom = Kernel("my.domain", "Secret", 1, (), (TensorSpec("float32", (4,)),))
    kernels = [relu(1000), custom]
    costs = CostModel(catalog, threads=1)
    assert costs.measure(kernels, budget_s=60) == 2
    assert costs.cost(kernels[0]).source == "measured"
    assert "Secret" in costs.failure(custom)


def test_two_threads_time_copies(catalog):
    costs = CostModel(catalog, threads=2, configuration="disabled")
    assert costs.measure([relu(1000), REFERENCE], budget_s=60) == 2
