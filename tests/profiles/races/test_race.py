"""Races on simulated models, and one on real ones."""

import itertools

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tensolog.profiles.races import race as race_module
from tensolog.profiles.races.race import (
    Lap,
    RaceError,
    _SessionLoader,
    model_size,
    race,
    verdict,
)
from tensolog.profiles.sessions.session import (
    AS_WRITTEN,
    OWN_TIME,
    SPIN_DURATION,
    Execution,
    open_session,
)

from tests.profiles.track import Track


def simulate(times, budget_s=5.0, **options):
    track = Track(times, **{key: options.pop(key) for key in ("noise", "load_s") if key in options})
    laps = race(
        dict.fromkeys(times, b"x" * 100),
        {},
        threads=1,
        budget_s=budget_s,
        reference="original",
        loader=track.load,
        clock=track.clock,
        **options,
    )
    return laps, track


TIMES = {"original": 10e6, "same": 10e6, "threefold": 30e6, "better": 9e6}


@pytest.mark.parametrize("memory_budget", [None, 0])
def test_identical_models_are_noise_and_others_are_told_apart(memory_budget):
    laps, _ = simulate(TIMES, memory_budget=memory_budget)
    assert laps["same"].ratio_low <= 1.0 <= laps["same"].ratio_high
    assert laps["same"].verdict == "noise"
    assert 2.7 < laps["threefold"].ratio_low < 3 < laps["threefold"].ratio_high < 3.3
    assert laps["threefold"].verdict == "slower"
    assert laps["better"].verdict == "faster"
    assert laps["original"] == Lap(
        laps["original"].median_ns,
        laps["original"].spread_ns,
        1.0,
        1.0,
        1.0,
        laps["original"].samples,
    )
    assert laps["threefold"].median_ns == pytest.approx(30e6, rel=0.05)
    assert laps["threefold"].spread_ns == pytest.approx(0.05 * 30e6, rel=0.5)


def test_false_alarms_are_rare():
    """Twenty identical models against their own copy: at most a few of them beyond noise."""
    times = {"original": 10e6} | {f"copy {number}": 10e6 for number in range(20)}
    laps, _ = simulate(times, budget_s=20)
    assert sum(lap.verdict != "noise" for lap in laps.values()) <= 3


def test_every_round_has_every_model_in_random_order():
    _, track = simulate(TIMES)
    order = [name for name, _ in track.log][2 * len(TIMES) :]
    rounds = [tuple(order[start : start + 4]) for start in range(0, len(order), 4)]
    assert all(set(names) == set(TIMES) for names in rounds)
    assert len(set(rounds)) > 10


def test_short_models_run_several_times_a_lap():
    _, track = simulate({"original": 1e5, "b": 2e7}, budget_s=1)
    assert max(runs for name, runs in track.log if name == "original") > 20
    assert max(runs for name, runs in track.log if name == "b") == 1


def test_the_budget_is_kept():
    for budget_s in (0.0, 1.0, 5.0):
        laps, track = simulate(TIMES, budget_s=budget_s)
        one_round = sum(TIMES.values()) * 1e-9
        assert track.now <= budget_s + 5 * one_round
        assert laps["same"].samples >= 1


@pytest.mark.parametrize("memory_budget", [None, 0])
def test_a_single_round_is_noise(memory_budget):
    laps, _ = simulate(TIMES, budget_s=0.0, memory_budget=memory_budget)
    assert laps["threefold"].verdict == "noise"
    assert laps["original"].ratio_low == laps["original"].ratio_high == 1.0


def test_a_few_turns_of_large_models_can_be_enough():
    laps, track = simulate(TIMES, budget_s=30, memory_budget=0, load_s=3.0, noise=0.02)
    assert track.log.count(("same", 1)) < 4 * 30  # at most three turns
    assert laps["threefold"].verdict == "slower" and laps["same"].verdict == "noise"


@pytest.mark.parametrize(("run_ns", "least"), [(2e7, 5), (5e8, 3)])
def test_a_turn_of_long_runs_has_fewer_laps(run_ns, least):
    times = {"original": run_ns, "same": run_ns}
    laps, track = simulate(times, budget_s=20 * run_ns * 1e-9, memory_budget=0)
    turns = len(track.loaded) / len(times)
    assert laps["same"].samples == least * turns


def test_models_that_do_not_fit_take_turns():
    _, together = simulate(TIMES, memory_budget=2 * 4 * 100)
    assert together.most_alive == 4
    laps, turns = simulate(TIMES, memory_budget=2 * 4 * 100 - 1, load_s=0.1)
    assert turns.most_alive == 1
    assert laps["threefold"].verdict == "slower"


def test_progress_goes_from_nothing_to_all():
    reports = []
    simulate(TIMES, progress=lambda part, label: reports.append((part, label)))
    parts = [part for part, _ in reports]
    assert parts == sorted(parts) and 0 <= parts[0] < 0.2 and parts[-1] > 0.9
    assert set(TIMES) <= {label for _, label in reports}


@pytest.mark.parametrize(
    ("lap", "judged"),
    [
        (Lap(1, 0, 0.90, 0.85, 0.95, 20), "faster"),
        (Lap(1, 0, 0.90, 0.85, 1.01, 20), "noise"),
        (Lap(1, 0, 0.995, 0.99, 0.999, 20), "noise"),
        (Lap(1, 0, 1.10, 1.05, 1.15, 20), "slower"),
        (Lap(1, 0, 1.10, 0.99, 1.15, 20), "noise"),
    ],
)
def test_verdicts_by_the_interval_of_a_ratio(lap, judged):
    assert verdict(lap) == lap.verdict == judged


def products(count, size=128, op_type="MatMul", domain=""):
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.standard_normal((size, size)).astype(np.float32) / 12, f"w{n}")
        for n in range(count)
    ]
    names = ["x", *(f"v{number}" for number in range(1, count)), "y"]
    nodes = [
        helper.make_node(op_type, [names[number], f"w{number}"], [names[number + 1]], domain=domain)
        for number in range(count)
    ]
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size])] for name in "xy"]
    graph = helper.make_graph(nodes, "chain", *ends, weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my.domain", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


FEEDS = {"x": np.ones((64, 128), dtype=np.float32)}


@pytest.mark.parametrize("memory_budget", [None, 0])
def test_real_models(tmp_path, memory_budget):
    path = tmp_path / "slow.onnx"
    onnx.save(products(12), path)
    ticks = itertools.count(0.0, 0.01)  # so that the rounds don't depend on the machine's load
    laps = race(
        {"original": products(3).SerializeToString(), "slow": path},
        FEEDS,
        threads=1,
        budget_s=1.0,
        reference="original",
        executions={"slow": AS_WRITTEN},
        memory_budget=memory_budget,
        clock=lambda: next(ticks),
    )
    for lap in laps.values():
        assert lap.samples >= 20 and lap.median_ns > 0
        assert 0 < lap.ratio_low <= lap.ratio <= lap.ratio_high
    assert laps["original"].ratio == 1.0
    assert laps["slow"].median_ns > laps["original"].median_ns  # four times the products


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (b"not a model", "load the candidate model"),
        (products(1, domain="my.domain", op_type="Mystery").SerializeToString(), "my.domain"),
        (products(1, size=96).SerializeToString(), "run the candidate model"),
    ],
)
def test_models_that_fail_are_named(model, reason):
    with pytest.raises(RaceError, match=reason) as caught:
        race(
            {"original": products(1).SerializeToString(), "candidate": model},
            FEEDS,
            threads=1,
            budget_s=0.1,
            reference="original",
        )
    assert "\n" not in str(caught.value)


def test_missing_files_and_feeds_are_named(tmp_path):
    with pytest.raises(RaceError, match="load the a model"):
        race({"a": tmp_path / "none.onnx"}, FEEDS, threads=1, budget_s=0.1, reference="a")
    with pytest.raises(RaceError, match="no data for input 'x'"):
        race({"a": products(1).SerializeToString()}, {}, threads=1, budget_s=0.1, reference="a")


def test_wrong_arguments():
    with pytest.raises(ValueError, match="reference"):
        race({"a": b""}, {}, threads=1, budget_s=1, reference="b")


def test_strings_and_sequences_are_raced_unbound():
    nodes = [
        helper.make_node("SequenceConstruct", ["x", "x"], ["sequence"]),
        helper.make_node("Identity", ["s"], ["t"]),
    ]
    graph = helper.make_graph(
        nodes,
        "odd",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]),
            helper.make_tensor_value_info("s", TensorProto.STRING, [2]),
        ],
        [
            helper.make_tensor_sequence_value_info("sequence", TensorProto.FLOAT, [2]),
            helper.make_tensor_value_info("t", TensorProto.STRING, [2]),
        ],
    )
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    feeds = {"x": np.ones(2, dtype=np.float32), "s": np.array(["a", "b"], dtype=object)}
    assert race({"a": model}, feeds, threads=1, budget_s=0.1, reference="a")["a"].median_ns > 0


def test_size_of_a_model_counts_its_external_data(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(products(2), path, save_as_external_data=True, location="weights", size_threshold=0)
    assert model_size(path) >= 2 * 128 * 128 * 4
    assert model_size(path) == path.stat().st_size + (tmp_path / "weights").stat().st_size
    assert model_size(b"1234") == 4
    assert model_size(tmp_path / "none") == 0


class Timed:
    """Opened sessions, and what is timed when; the clock stands still but for sleeping."""

    def __init__(self, monkeypatch):
        self.log, self.now, self.rests, self.threads = [], 0.0, {}, {}
        self.spinning_until, self.ns = 0.0, 1e5
        monkeypatch.setattr(race_module, "open_session", self.open)
        monkeypatch.setattr(race_module, "BoundRun", self.bound)
        monkeypatch.setattr(race_module.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(race_module.time, "sleep", self.sleep)

    def sleep(self, seconds):
        self.now += seconds

    def open(self, source, *, threads, execution, spins):
        self.rests[source], self.threads[source] = not spins, threads
        return Session(source)

    def bound(self, session, feeds, *, own_time):
        return Bound(self, session.name, own_time)


class Session:
    def __init__(self, name):
        self.name = name

    def get_inputs(self):
        return []


class Bound:
    def __init__(self, timed, name, own_time):
        self.timed, self.name, self.own_time = timed, name, own_time

    def time(self, runs=1):
        self.timed.log.append((self.name, runs, self.timed.now))
        return self.timed.ns


def loader(threads, executions=None, spinning="original"):
    models = {"original": "original", "plan": "plan"}
    return _SessionLoader(models, {}, threads, executions or {}, spinning=spinning)


def test_the_reference_spins_as_by_default_and_others_are_timed_when_it_has_come_to_rest(
    monkeypatch,
):
    timed = Timed(monkeypatch)
    load = loader(2)
    original, plan = load("original"), load("plan")
    assert timed.rests == {"original": False, "plan": True}
    original.time(3)
    plan.time(3)
    plan.time(3)
    original.time(3)
    assert [(name, runs) for name, runs, _ in timed.log] == [
        ("original", 3), ("plan", 3), ("plan", 3), ("original", 1), ("original", 3)
    ]  # fmt: skip
    times = [now for _, _, now in timed.log]
    assert times[0] == 0 and times[1] >= 4e-3 and len(set(times[1:])) == 1


def test_what_waits_for_the_reference_to_rest_runs_once_before_it_is_timed(monkeypatch):
    timed = Timed(monkeypatch)
    load = loader(2)
    original, plan = load("original"), load("plan")
    for model in (plan, original, plan, plan):
        model.time(3)
    assert [(name, runs) for name, runs, _ in timed.log] == [
        ("plan", 3), ("original", 3), ("plan", 1), ("plan", 3), ("plan", 3)
    ]  # fmt: skip


def test_the_reference_spins_no_longer_than_others_wait():
    """How many milliseconds the default is depends on the processor."""
    session = open_session(products(1).SerializeToString(), threads=2, spins=True)
    spinning_us = session.get_session_options().get_session_config_entry(SPIN_DURATION)
    assert float(spinning_us) * 1e-6 < race_module._SPINNING_S


def test_threads_of_a_long_model_are_woken_while_it_is_timed(monkeypatch):
    timed = Timed(monkeypatch)
    timed.ns = 1e8
    load = loader(2)
    original, plan = load("original"), load("plan")
    for model in (original, plan, original):
        model.time()
    assert [name for name, _, _ in timed.log] == ["original", "plan", "original"]


@pytest.mark.parametrize(("threads", "spinning"), [(1, "original"), (2, None)])
def test_nobody_waits_where_nothing_spins(threads, spinning, monkeypatch):
    timed = Timed(monkeypatch)
    load = loader(threads, spinning=spinning)
    original, plan = load("original"), load("plan")
    assert timed.rests == {"original": True, "plan": True}
    for model in (original, plan):
        model.time()
    assert timed.now == 0


@pytest.mark.parametrize(("threads", "own_time"), [(1, True), (2, False)])
def test_all_are_timed_by_one_clock(threads, own_time, monkeypatch):
    """That of a thread stands still while others have the processor."""
    timed = Timed(monkeypatch)
    load = loader(threads, {"plan": Execution(threads=1)}, spinning=None)
    assert load("original").own_time == load("plan").own_time == (own_time and OWN_TIME)
    assert timed.threads == {"original": threads, "plan": 1}


def test_a_race_with_a_reference_that_spins():
    source = products(1).SerializeToString()
    models, options = {"original": source, "same": source}, {"reference": "original", "spins": True}
    assert race(models, FEEDS, threads=2, budget_s=0.3, **options)["same"].samples >= 1
