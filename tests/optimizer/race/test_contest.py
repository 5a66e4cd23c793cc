"""The contest on real sessions: what runs for a plan, told by the runtime."""

from collections import Counter

import numpy as np
import pytest
from tensolog.optimizer.graph.convert import load_graph
from tensolog.optimizer.graph.infer import infer_types
from tensolog.optimizer.phases import Phases
from tensolog.optimizer.race.contest import ORIGINAL, Contest, Plan
from tensolog.optimizer.race.session_options import with_execution
from tensolog.optimizer.setting import Setting
from tensolog.profiles.sessions.execution import Execution

from tests.optimizer.builders import model, value


def product(*after):
    return model(
        [("MatMul", ["x", "w"], ["m"]), ("Add", ["m", "b"], ["s"]), *after],
        [value("x", [4, 8])],
        [value("y", [4, 8])],
        {"w": np.ones((8, 8), np.float32), "b": np.ones(8, np.float32)},
    )


def plan_of(name, built):
    graph = load_graph(built)
    graph.types = infer_types(graph)
    return Plan(name, graph, source=built.SerializeToString())


@pytest.fixture
def contest():
    original = plan_of(ORIGINAL, product(("Relu", ["s"], ["y"])))
    size = len(original.source)
    contest_ = Contest(
        original, Setting(threads=1), Phases(), fixed_sizes={}, size_bytes=size, widened=None
    )
    yield contest_
    contest_.close()


def operators(run):
    return Counter(kernel.op_type for kernel in run.elements())


def test_what_runs_is_what_the_runtime_makes_of_a_plan(contest):
    run = contest.kernels_run(contest.original)
    assert operators(run) == {"FusedGemm": 1}
    assert contest.operators_run(contest.original) == operators(run)
    contest.original.run = run
    assert contest.operators_run(contest.original) == operators(run)
    plain = contest.kernels_run(with_execution(contest.original, Execution("disabled")))
    assert operators(plain) == {"MatMul": 1, "Add": 1, "Relu": 1}


def test_plans_that_become_the_same_run_the_same(contest):
    spelled = product(("Identity", ["s"], ["t"]), ("Relu", ["t"], ["y"]))
    other = plan_of("spelled", spelled)
    assert contest.kernels_run(other) == contest.kernels_run(contest.original)
    different = plan_of("different", product(("Tanh", ["s"], ["y"])))
    assert contest.kernels_run(different) != contest.kernels_run(contest.original)


def test_of_what_does_not_run_nothing_is_known(contest):
    assert contest.kernels_run(Plan("broken", None, source=b"no model")) is None


def test_openings_take_time_only_if_there_is_some(contest):
    other = plan_of("other", product(("Tanh", ["s"], ["y"])))
    assert contest.opening(other, 0.0) is None
    assert contest.opening(other, 10 * contest.entry_s + 0.1).samples >= 1
