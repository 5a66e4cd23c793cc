"""Models deployed over several devices: what runs, what is chosen, and what is refused."""

import os
import signal
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tensolog.catalog import Catalog
from tensolog.parallel import planning
from tensolog.parallel.choosing import over_devices
from tensolog.parallel.choosing.deploy import deploy
from tensolog.parallel.choosing.device_crews import check_devices, runtime_bytes
from tensolog.parallel.choosing.rewritten import difference
from tensolog.parallel.choosing.serving_race import Contender, Terms, lead, race
from tensolog.parallel.cuts.cut_rules import Admitted
from tensolog.parallel.deployment.settings import Setting, read_limit
from tensolog.parallel.device_rows import load_measured, store_cluster
from tensolog.parallel.devices import ClusterError, parse_cluster
from tensolog.parallel.planning import plan
from tensolog.parallel.workload import read_workload, slots_of
from tensolog.profiles.machine import cores, identity
from tensolog.rules import parse_rules

from tensolog import open_parallel
from tensolog.cli import run

from .models import Builder, cluster, perceptron
from .test_materialized import inputs_of
from .test_materialized import run as run_whole

two_cores = pytest.mark.skipif(
    os.name == "nt" or cores() < 2, reason="two workers need a POSIX system, and a core each"
)


def description(memory_bytes, count=2, kind="cpu"):
    return f"""
        name = "workers"
        [[device]]
        name = "worker"
        kind = "{kind}"
        count = {count}
        memory_bytes = {memory_bytes}
        gflops_per_s = 50
        memory_gb_per_s = 10
        launch_us = 3
        [[link]]
        latency_us = 5000
        gb_per_s = 5
        """


@two_cores
def test_a_model_larger_than_a_worker_s_memory_runs_over_two(tmp_path, capsys):
    model, file, plan = perceptron(4, 1024, 8), tmp_path / "model.onnx", tmp_path / "plan"
    onnx.save(model, file)
    devices = tmp_path / "devices.toml"
    devices.write_text(description(runtime_bytes() + (26 << 20)))
    arguments = ["deploy", str(file), "--devices", str(devices), "--budget", "0", "-o", str(plan)]
    assert run([*arguments, "--catalog", str(tmp_path / "c.duckdb")]) == 0
    printed = capsys.readouterr().out
    assert "1 instance x 2 threads x batch of 4 can't be served: ONNX Runtime can't open" in printed
    assert "no process has the memory for the whole model" in printed
    assert "worker1  stage 1: " in printed and "KiB from worker0" in printed
    assert run(["explain", str(plan), "--timeline", str(tmp_path / "plan.svg")]) == 0
    assert ">from worker0</text>" in (tmp_path / "plan.svg").read_text()
    with open_parallel(plan) as session:
        assert len(session.pids) == 2
        for seed in range(3):
            feeds = inputs_of(model, seed)
            (expected,) = run_whole(model, feeds)
            np.testing.assert_allclose(session.run(feeds)[0], expected, rtol=2e-4, atol=2e-5)


@two_cores
def test_what_is_lost_while_plans_race_is_opened_again(tmp_path, monkeypatch):
    file, killed, timed = tmp_path / "model.onnx", [], over_devices.timed
    onnx.save(perceptron(4, 1024, 8), file)

    def disturbed(runners, *arguments):
        if not killed:
            killed.append(runners[0].pids[0])
            os.kill(killed[0], signal.SIGKILL)
        return timed(runners, *arguments)

    monkeypatch.setattr(over_devices, "timed", disturbed)
    devices = parse_cluster(description(runtime_bytes() + (26 << 20)))
    plan = deploy(file, tmp_path / "plan", devices=devices, budget=0)
    assert plan.partition is not None
    assert any("was opened again: " in why for why in plan.reasons)


def looked_up():
    """Rows of a table of 16 MiB times a matrix of 16 MiB: of both together one MiB is left."""
    build = Builder()
    build.inputs.append(helper.make_tensor_value_info("ids", TensorProto.INT64, (4,)))
    rows = build.node("Gather", build.weight(512, 8192), "ids", shape=(4, 8192))
    return build.model(build.node("MatMul", rows, build.weight(8192, 512), shape=(4, 512)))


@two_cores
def test_a_model_that_fits_only_as_rules_rewrite_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(planning, "admit", lambda wanted, catalog: Admitted({}))  # proofs take long
    model, file, target = looked_up(), tmp_path / "model.onnx", tmp_path / "plan"
    onnx.save(model, file)
    devices = tmp_path / "devices.toml"
    devices.write_text(description(runtime_bytes() + (12 << 20)))
    arguments = ["deploy", str(file), "--devices", str(devices), "--budget", "0"]
    assert run([*arguments, "-o", str(target), "--catalog", str(tmp_path / "c.duckdb")]) == 0
    printed = capsys.readouterr().out
    assert "of the rewritten model" in printed
    # Two rules lead there: the product of the table, or of its rows, is multiplied beforehand.
    rules = ("FoldMatMulIntoGather", "PushMatMulThroughGather")
    assert any(f"{rule} rewrote n0, n1\n" in printed for rule in rules)
    with open_parallel(target) as session:
        feeds = {"ids": np.array([3, 1, 4, 511])}
        (expected,) = run_whole(model, feeds)
        np.testing.assert_allclose(session.run(feeds)[0], expected, rtol=2e-4, atol=2e-5)


WRONG = """
# EliminateNegation forgets a sign.
rule EliminateNegation
  tags    always
  source  [nobody]
  match
    Y = Neg(X)
  rewrite
    Y = X
  equal   exact
"""


@pytest.mark.parametrize("rules", [WRONG, WRONG.replace("Neg(X)", "Neg(Neg(X))")])
def test_a_program_that_computes_something_else_is_not_served(tmp_path, rules):
    build, file = Builder(), tmp_path / "model.onnx"
    x = build.input(4, 8)
    for _ in range(3 if rules is WRONG else 2):
        x = build.node("Neg", x, shape=(4, 8))
    model = build.model(build.node("Relu", x, shape=(4, 8)))
    onnx.save(model, file)
    workload = read_workload(model)
    chosen_plan = plan(workload, cluster(2), rewrite=parse_rules(rules, "wrong.rules"), prove=False)
    assert chosen_plan.rewriting.steps
    inputs, _ = slots_of(workload)
    refusal = difference(file, chosen_plan, inputs, tmp_path, limit_s=60.0)
    assert ("is off by" in refusal) == (rules is WRONG)
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


@pytest.mark.skipif(os.name == "nt", reason="instances need a POSIX system")
def test_memory_that_does_not_do_is_refused_with_the_number_of_devices(tmp_path, capsys):
    file, devices = tmp_path / "model.onnx", tmp_path / "devices.toml"
    onnx.save(perceptron(4, 1024, 8), file)
    devices.write_text(description(runtime_bytes() + (9 << 20)))
    arguments = ["deploy", str(file), "--devices", str(devices), "-o", str(tmp_path / "plan")]
    assert run([*arguments, "--catalog", str(tmp_path / "c.duckdb")]) == 2
    assert "devices like worker0 would do" in capsys.readouterr().err
    assert not (tmp_path / "plan").exists()


@two_cores
def test_processes_of_this_machine_are_weighed_against_instances(tmp_path):
    """What the catalog knows of them is not measured again."""
    here = parse_cluster(description(2 << 30))
    mark = identity().fingerprint
    devices = tuple(replace(device, fingerprint=mark) for device in here.devices)
    file = tmp_path / "model.onnx"
    onnx.save(perceptron(4, 64, 2), file)
    with Catalog(":memory:") as catalog:
        assert load_measured(catalog, mark, 2) is None
        store_cluster(catalog, replace(here, devices=devices))
        known = load_measured(catalog, mark, 2)
        assert known.devices == devices
        assert load_measured(catalog, mark, 3) is None
        assert load_measured(catalog, "another machine", 2) is None
        if cores() == 2:
            plan = deploy(file, tmp_path / "plan", devices="auto", budget=1, catalog=catalog)
            assert catalog.sql("SELECT count(*) FROM cluster").fetchall() == [(1,)]
            reasons = [reason for reason in plan.reasons if "over 2 processes" in reason]
            assert reasons or plan.partition is not None
            assert catalog.sql("SELECT count(*) FROM deployment").fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (description(1 << 30, count=400), "400 cores in all, and this process may use"),
        (description(1 << 30, kind="gpu"), "worker0 is no processor of this machine"),
    ],
)
def test_devices_that_are_not_here_are_refused(text, message):
    with pytest.raises(ClusterError, match=message):
        check_devices(parse_cluster(text))


@pytest.mark.skipif(os.name == "nt", reason="instances need a POSIX system")
def test_devices_too_small_for_the_runtime_are_refused(tmp_path):
    file = tmp_path / "model.onnx"
    onnx.save(perceptron(), file)
    with pytest.raises(ClusterError, match="worker0 has 1 MB, and the runtime alone takes"):
        deploy(file, tmp_path / "plan", devices=parse_cluster(description(1_000_000)))


# ---- the race


def contender(plan, values):
    """A way to serve that gave these milliseconds, round by round."""
    contender_ = Contender(Setting(1, 1, 1, plan), lambda seconds, least_runs: [])
    contender_.rounds = [[[value * 1e6] * 3] for value in values]
    return contender_


def test_a_lead_is_sure_where_rounds_agree():
    slow, fast = contender("", [10.0, 11.0, 10.5, 10.0]), contender("p", [9.0, 9.8, 9.6, 9.1])
    lead_ = lead(fast, slow, "latency")
    assert lead_.is_above_one and lead_.low < lead_.value < lead_.high
    assert lead_.value == pytest.approx(1.107, rel=0.01)
    assert not lead(slow, fast, "latency").is_above_one
    assert lead(slow, fast, "throughput").value == pytest.approx(1 / lead_.value)


def test_a_lead_is_not_sure_where_rounds_differ():
    first, second = (
        contender("", [10.0, 20.0, 10.0, 20.0]),
        contender("p", [15.0, 10.0, 18.0, 12.0]),
    )
    assert (
        not lead(first, second, "latency").is_above_one
        and not lead(second, first, "latency").is_above_one
    )
    assert not lead(contender("", [10.0]), contender("p", [1.0]), "latency").is_above_one


def test_a_round_that_something_else_disturbed_counts_for_little():
    slow, fast = [10.0, 10.3, 10.1, 10.2, 10.0, 10.2], [9.5, 9.7, 9.6, 9.8, 30.0, 9.6]
    assert lead(contender("p", fast), contender("", slow), "latency").is_above_one
    assert not lead(contender("", slow), contender("p", fast), "latency").is_above_one


def test_a_race_ends_once_nobody_is_better_by_more_than_is_asked():
    """Three alike and one that is not: it drops out, and the others need no more rounds."""
    first, other, third, slow = (contender(name, ()) for name in ("", "p", "q", "slow"))
    for racer, ms in ((first, 10.0), (other, 10.1), (third, 10.2), (slow, 15.0)):
        racer.time = lambda seconds, least_runs, ms=ms: [[ms * 1e6] * least_runs]
    terms = Terms(good_enough=0.03)
    racing, complete = race((slow, other, third, first), "latency", budget_s=60, terms=terms)
    assert racing[0] is first and slow not in racing and complete
    assert len(first.rounds) == 3
    limits = [read_limit("throughput > 80 /s")]  # one run in 10 ms, or in 15
    assert race((slow, first), "throughput", limits, budget_s=60, terms=terms).racing == [first]
