"""Time that is over: what is cut, what bounds a run of the original, and what is said of it."""

import re
import sys
import time

import numpy as np
import pytest
from onnx import TensorProto, helper
from tensolog.catalog import Catalog
from tensolog.optimizer import ORIGINAL
from tensolog.optimizer.codegen import compiler
from tensolog.optimizer.codegen.compiler import Compiler
from tensolog.optimizer.deadline import OutOfTimeError, checkpoint, cut_at, remaining_s
from tensolog.optimizer.egraph.egraph import EGraph
from tensolog.optimizer.egraph.saturation.saturate import OUT_OF_TIME, saturate
from tensolog.optimizer.phases import Phases
from tensolog.optimizer.planner import Planner
from tensolog.optimizer.race import verify
from tensolog.optimizer.race.contest import Contest
from tensolog.optimizer.setting import GRACE_S

import tensolog
from tests.endless import endless_model
from tests.optimizer.egraph.pricing import graph_of, shipped_rules

from .builders import model, value

PAST, FUTURE = 0.0, 1e12


def test_a_block_is_cut_at_the_first_checkpoint_after_its_time():
    checkpoint()
    with pytest.raises(OutOfTimeError), cut_at(PAST):
        assert remaining_s() == 0
        checkpoint()
    checkpoint()
    assert remaining_s() == float("inf")


def test_an_inner_block_has_no_more_time_than_the_outer_one():
    with pytest.raises(OutOfTimeError), cut_at(PAST), cut_at(FUTURE):
        checkpoint()
    with cut_at(FUTURE):
        with pytest.raises(OutOfTimeError), cut_at(PAST):
            checkpoint()
        checkpoint()


def test_a_report_of_progress_is_a_checkpoint():
    reports = []
    phases = Phases(lambda *report: reports.append(report))
    with pytest.raises(OutOfTimeError), cut_at(PAST), phases("searching"):
        pass
    assert reports == [("searching", 0, 0, "")]


def test_what_takes_any_error_for_a_refusal_does_not_take_this_one():
    with pytest.raises(OutOfTimeError), cut_at(PAST):
        try:
            checkpoint()
        except Exception:
            pytest.fail("it is no Exception")


def small(power=0.5):
    return model(
        [("Abs", ["x"], ["a"]), ("Pow", ["a", "half"], ["p"]), ("Identity", ["p"], ["y"])],
        [value("x", [4, 16])],
        [value("y", [4, 16])],
        {"half": np.array(power, np.float32)},
    )


def test_an_e_graph_without_time_ends_after_a_round_and_says_so(monkeypatch):
    monkeypatch.setattr("tensolog.optimizer.egraph.saturation.saturate.remaining_s", lambda: 0.0)
    growth = saturate(EGraph(graph_of(small()), {}, 1024), shipped_rules())
    assert growth.ended == OUT_OF_TIME and len(growth.sizes) == 1


def forever(*_, **__):
    while True:
        checkpoint()
        time.sleep(0.001)


@pytest.mark.parametrize("part", ["simplify", "apply_gains", "search_egraph"])
def test_a_part_that_never_ends_is_cut_and_the_result_says_so(part, monkeypatch):
    monkeypatch.setattr(Planner, part, forever)
    monkeypatch.setattr("tensolog.optimizer.setting.GRACE_S", 0.5)
    with Catalog(":memory:") as catalog:
        result = tensolog.optimize(small(), budget=0.3, threads=1, catalog=catalog, portable=True)
        assert "There was no time for all of this: " in result.verdict
        assert len(result.model.graph.node) <= 3


def test_a_compiler_that_takes_too_long_is_out_of_time_and_refuses_nothing():
    slow = Compiler((sys.executable, "-c", "import time; time.sleep(60)"), "slow 1.0")
    with pytest.raises(OutOfTimeError), cut_at(time.monotonic() + 0.2):
        compiler._run(slow, slow.command)


@pytest.fixture
def impatient(monkeypatch):
    """No run of the original may take long."""
    monkeypatch.setattr(verify, "LEAST_RUN_S", 0.3)
    monkeypatch.setattr(verify, "RUN_SHARE", 0.0)


@pytest.mark.parametrize("kind", ["Loop", "While"])
def test_an_original_that_never_ends_is_an_error_that_says_what_to_do(kind, impatient):
    message = r"the original had not ended after 0 s .*--budget.*--input-shape"
    with pytest.raises(verify.EndlessError, match=message):
        tensolog.optimize(endless_model(kind), budget=1, catalog=":memory:")


def halving():
    """A model that halves its input until all of it is small: never, where some of it is NaN."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["value", "half"], ["next"]),
            helper.make_node("ReduceMax", ["next"], ["largest"], keepdims=0),
            helper.make_node("Less", ["largest", "one"], ["small"]),
            helper.make_node("Not", ["small"], ["still"]),
        ],
        "body",
        [
            info("turn", TensorProto.INT64, []),
            info("go_on", TensorProto.BOOL, []),
            info("value", TensorProto.FLOAT, [16]),
        ],
        [info("still", TensorProto.BOOL, []), info("next", TensorProto.FLOAT, [16])],
    )
    return model(
        [helper.make_node("Loop", ["", "true", "x"], ["y"], body=body)],
        [value("x", [16])],
        [value("y", [16])],
        {"true": np.array(True), "half": np.float32(0.5), "one": np.float32(1.0)},
    )


def test_an_original_that_ends_on_numbers_alone_is_compared_on_these(impatient):
    result = tensolog.optimize(halving(), budget=0.2, catalog=":memory:", portable=True)
    assert result.chosen == ORIGINAL


def test_an_original_that_leaves_no_time_for_a_race_is_kept(monkeypatch):
    store = verify.Verifier._store

    def slow(*arguments):
        cost = store(*arguments)
        return verify.SessionCost(cost.size_bytes, cost.opening_bytes, cost.opening_s, 7.0)

    monkeypatch.setattr(verify.Verifier, "_store", slow)
    result = tensolog.optimize(small(), budget=5, catalog=":memory:")
    assert result.chosen == ORIGINAL
    assert "a run of it takes 7.0 s" in result.verdict and "a larger budget" in result.verdict
    assert not any(candidate.verdict == "beaten" for candidate in result.candidates)


def test_a_budget_that_was_passed_is_accounted_for(monkeypatch):
    create = Contest.__init__

    def slow(contest, original, setting, phases, **options):
        with phases("racing"):
            time.sleep(1.6)
        create(contest, original, setting, phases, **options)

    monkeypatch.setattr(Contest, "__init__", slow)
    result = tensolog.optimize(small(), budget=0.1, catalog=":memory:", portable=True)
    assert "the budget being 0 s" in result.verdict
    assert re.search(r"racing [2-9]\d* s", result.verdict)
    assert GRACE_S > 1
