"""Settings chosen on simulated machines, against all settings there are."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.parallel.choosing.choose import choose
from tensolog.parallel.choosing.serving_race import Contender, Terms, race
from tensolog.parallel.deployment.settings import (
    LimitError,
    Setting,
    batch_ladder,
    best,
    grid,
    read_limit,
    summarize,
)

from tests.campaigns import examples

BATCHES = batch_ladder(True, 1, 32)


class Machine:
    """Time by a law: a fixed part, a part for each row that threads share, and what is contended.

    `cached` rows fit into a core's cache; each further one takes longer.
    """

    def __init__(self, fixed, row, serial, contention, cached=1000, noise=0.0, seed=0):
        self.fixed, self.row, self.serial = fixed, row, serial
        self.contention, self.cached = contention, cached
        self.noise, self.seed, self.random = noise, seed, random.Random(seed)
        self.seconds = 0.0

    def batch_ms(self, setting):
        rows = setting.batch + max(0, setting.batch - self.cached) * 0.5
        work = self.fixed + rows * self.row
        shared = work * (self.serial + (1 - self.serial) / setting.threads)
        wake = 0.01 * (setting.threads > 1)
        busy = setting.instances * setting.threads - 1
        return shared * (1 + self.contention * busy) + wake

    def time(self, setting, seconds, least_runs=3):
        once = self.batch_ms(setting) * 1e6
        runs = max(least_runs, round(seconds * 1e9 / once))
        self.seconds += runs * once * 1e-9
        disturbed = 1 + self.noise * self.random.random()
        return [[once * disturbed] * min(runs, 50) for _ in range(setting.instances)]

    def memory_bytes(self, setting):
        return setting.instances * 1000

    def exact(self, setting):
        times = [[self.batch_ms(setting) * 1e6]] * setting.instances
        return summarize(setting, [times], self.memory_bytes(setting))


machines = st.builds(
    Machine,
    st.floats(0.01, 3),
    st.floats(0.01, 3),
    st.floats(0, 0.9),
    st.floats(0, 0.5),
    st.sampled_from([2, 4, 8, 1000]),
)


@settings(max_examples=examples(150), deadline=None)
@given(machines, st.sampled_from([1, 2, 4]), st.sampled_from(["throughput", "latency"]))
def test_it_is_near_the_best_of_all_settings(machine, cores, goal):
    choice = choose(machine, cores, BATCHES, goal)
    everything = [machine.exact(setting) for setting in grid(cores, BATCHES)]
    wanted = best(everything, goal)
    got = machine.exact(choice.chosen.setting)
    if goal == "throughput":
        assert got.rows_per_s >= 0.95 * max(entry.rows_per_s for entry in everything)
    else:
        assert got.p50_ms <= 1.05 * wanted.p50_ms
    assert got.setting.instances * got.setting.threads <= cores
    baseline = machine.exact(choice.baseline.setting)
    assert got.rows_per_s >= 0.95 * baseline.rows_per_s or goal == "latency"


@settings(max_examples=examples(40), deadline=None)
@given(machines, st.integers(1, 8))
def test_limits_are_kept_where_a_setting_keeps_them(machine, factor):
    fastest = min(machine.exact(setting).p99_ms for setting in grid(2, BATCHES))
    limit = read_limit(f"p99 < {fastest * factor * 1.001:.6f} ms")
    choice = choose(machine, 2, BATCHES, "throughput", [limit])
    assert limit.holds(machine.exact(choice.chosen.setting))
    kept = [entry for s in grid(2, BATCHES) if limit.holds(entry := machine.exact(s))]
    most = max(entry.rows_per_s for entry in kept)
    assert machine.exact(choice.chosen.setting).rows_per_s >= 0.95 * most


def test_limits_that_nothing_keeps_are_refused_with_what_is_nearest():
    with pytest.raises(LimitError, match=r"no setting of this machine keeps 'p99 < 1 ms'.*nearest"):
        choose(Machine(5, 1, 0.5, 0), 2, BATCHES, "throughput", [read_limit("p99 < 1 ms")])


def test_few_settings_are_measured_in_little_time():
    """A quarter of what all settings take, each timed in six rounds of a quarter of a second."""
    machine = Machine(0.5, 0.3, 0.3, 0.1)
    choose(machine, 2, BATCHES, "throughput")
    every = Machine(0.5, 0.3, 0.3, 0.1)
    for setting in grid(2, BATCHES):
        for _ in range(6):
            every.time(setting, 0.25)
    assert machine.seconds < every.seconds / 4


def test_noise_alone_is_no_reason_to_leave_one_instance():
    """Where nothing pays, what is chosen is no slower than one instance."""
    for seed in range(10):
        machine = Machine(1.0, 0.0001, 0.0, 1.0, noise=0.05, seed=seed)
        choice = choose(machine, 2, (1,), "throughput")
        exact, alone = (machine.exact(s) for s in (choice.chosen.setting, choice.baseline.setting))
        assert exact.rows_per_s >= 0.95 * alone.rows_per_s


class Uneven(Machine):
    """A machine on which each number of threads and rows takes more or less, by no law.

    Some windows are disturbed by another program, by up to twice their time.
    """

    def __init__(self, seed):
        super().__init__(0.3, 2.0, 0.6, 0.1, noise=0.1, seed=seed)
        self.factors = {}

    def batch_ms(self, setting):
        key = setting.threads, setting.batch
        factor = self.factors.setdefault(key, random.Random(f"{key}{self.seed}").uniform(0.8, 1.3))
        return super().batch_ms(setting) * factor

    def time(self, setting, seconds, least_runs=3):
        disturbed = 1 + self.random.random() * (self.random.random() < 0.15)
        return [[t * disturbed for t in times] for times in super().time(setting, seconds)]


def test_batches_that_follow_no_law_are_found_while_other_programs_run():
    shares = []
    for seed in range(30):
        machine = Uneven(seed)
        chosen = choose(machine, 2, batch_ladder(True, 1, 8), "throughput").chosen.setting
        most = max(machine.exact(s).rows_per_s for s in grid(2, batch_ladder(True, 1, 8)))
        shares.append(machine.exact(chosen).rows_per_s / most)
    assert sum(share >= 0.95 for share in shares) >= 27 and min(shares) > 0.85


def test_the_budget_ends_the_race_and_it_is_said():
    machine = Machine(0.5, 0.3, 0.3, 0.1)
    now = iter(range(1000))
    choice = choose(machine, 2, BATCHES, "throughput", budget_s=5, clock=lambda: next(now))
    assert not choice.complete
    assert "the budget ended the measuring" in choice.reasons[-1]


def test_a_fixed_batch_has_no_others():
    choice = choose(Machine(0.5, 0.3, 0.3, 0.1), 2, (7,), "throughput")
    assert {entry.setting.batch for entry in choice.measured} == {7}


def test_a_race_leaves_half_of_those_behind_with_each_round():
    """Ten that hardly differ: none is surely behind, and still few rounds are needed for most."""
    draw = random.Random(0)

    def timed(factor):
        return lambda seconds, runs: [[1e6 * factor * (1 + 0.1 * draw.random())] * 3]

    contenders = [Contender(Setting(1, 1, 2**n), timed(2**n * (1 + 0.01 * n))) for n in range(10)]
    terms = Terms(0.01, 1, most_rounds=8, good_enough=0.001, halves_from=2)
    racing, complete = race(contenders, "throughput", budget_s=1e9, terms=terms)
    assert complete and len(racing) <= 3
    assert racing[0].setting.batch <= 4  # within a few percent of the best
    rounds = sorted(len(contender.rounds) for contender in contenders)
    # All of ten twice, then the leader and five, the leader and three, and three to the last round.
    assert rounds[:4] == [2] * 4 and sum(rounds) <= 10 * 2 + 6 + 4 + 3 * (8 - 4)


def test_choosing_takes_a_quarter_of_measuring_all_settings():
    """Of six rounds of a quarter of a second each, on machines that follow no law."""
    shares = []
    for seed in range(10):
        machine, every = Uneven(seed), Uneven(seed)
        ladder = batch_ladder(True, 1, 8)
        choose(machine, 2, ladder, "throughput")
        for setting in grid(2, ladder):
            for _ in range(6):
                every.time(setting, 0.25)
        shares.append(machine.seconds / every.seconds)
    assert sorted(shares)[5] < 0.25
