"""Plans over workers of a cluster: what runs, what is done where a worker is lost, what is refused.

Two worker processes of this machine stand for machines; `separate_machines` has them take each
other for such, so that tensors go through sockets instead of memory that they share.
"""

import asyncio
import hashlib
import itertools
import json
import os
import signal
import socket
import sys
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import onnx
import pytest
from tensolog.catalog import Catalog
from tensolog.parallel import planning
from tensolog.parallel.calibration import pieces_of
from tensolog.parallel.choosing import division_plans
from tensolog.parallel.choosing.deploy import deploy
from tensolog.parallel.choosing.device_crews import runtime_bytes
from tensolog.parallel.cluster import crew, measured_cluster
from tensolog.parallel.cluster import dask_engine as engine_module
from tensolog.parallel.cluster.connections import Listener, connect, new_token, send_message
from tensolog.parallel.cluster.dask_engine import Engine, EngineError, Worker
from tensolog.parallel.cluster.measured_cluster import tournament
from tensolog.parallel.cluster.places import Places
from tensolog.parallel.cluster.worker_site import WorkerSite
from tensolog.parallel.cuts.cut_rules import Admitted
from tensolog.parallel.deployment.deployment import DeploymentError, read_deployment
from tensolog.parallel.deployment.settings import Setting
from tensolog.parallel.device_rows import load_cluster
from tensolog.parallel.devices import (
    Cluster,
    ClusterError,
    Device,
    links_of_each_pair,
    parse_cluster,
    read_cluster,
    to_toml,
)
from tensolog.parallel.partitioner import part
from tensolog.parallel.runnable_plan import CALLER, PlannedWorker, RemoteWorkers
from tensolog.parallel.simulation.placement import whole_on

from tensolog import open_parallel
from tensolog.cli import run
from tests import campaigns

from .models import perceptron, problem
from .plans import deployed
from .test_materialized import inputs_of
from .test_materialized import run as run_whole

distributed = pytest.importorskip("distributed", reason="needs dask[distributed]")
pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(sys.platform != "linux", reason="processes are ended as Linux does"),
]
MODEL = perceptron(4, 32, 3)
APART = "import tensolog.parallel.cluster.connections as c; c.machine_key = lambda: ''"


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster_:
        yield cluster_


@pytest.fixture(scope="module")
def engine(cluster):
    with Engine(cluster.scheduler_address) as engine_:
        yield engine_


@contextmanager
def patched_workers(cluster, code, undo, workers=None):
    """Have workers run Python code, and some other afterwards."""
    with distributed.Client(cluster, set_as_default=False) as client:
        client.run(exec, code, workers=workers)
        try:
            yield
        finally:
            client.run(exec, undo, workers=workers)


@contextmanager
def separate_machines(cluster):
    key = "import tensolog.parallel.cluster.connections as c; c.machine_key = c.kept_key"
    keep = "import tensolog.parallel.cluster.connections as c; c.kept_key = c.machine_key; "
    with patched_workers(cluster, keep + APART, key):
        yield


def plan_of(engine, folder, model=MODEL, needed=(1 << 20, 1 << 20)):
    """A deployment of a model whose operators are on the one and the other worker in turns."""
    problem_ = problem(model, 2)
    devices = tuple(whole_on(n % 2) for n in range(len(problem_.workload.operators)))
    parted = part(problem_, devices, "zigzag")
    parted = replace(parted, partition=replace(parted.partition, memory_bytes=(0, 0)))
    workers = sorted(engine.workers(), key=lambda worker: worker.name)
    planned = tuple(PlannedWorker(worker.name, worker.address) for worker in workers)
    remote = RemoteWorkers(engine.address, (planned,), needed)
    return deployed(model, folder, Setting(1, 1, 4, "zigzag"), parted=parted, remote=remote)


def wait_for(engine, count):
    """Wait until so many workers are there: the engine starts one again that has ended."""
    for _ in range(300):
        if len(engine.workers()) == count:
            return
        signal.sigtimedwait([], 0.1)
    raise AssertionError("a worker did not come back")


REQUESTS = [inputs_of(MODEL, seed) for seed in range(5)]
EXPECTED = [run_whole(MODEL, feeds)[0] for feeds in REQUESTS]


def answered(session, disturb=lambda: None, count=60):
    """Ask for different things at once; each answer is that of its request."""
    futures = [session.submit(REQUESTS[n % len(REQUESTS)]) for n in range(count)]
    disturb()
    for number, future in enumerate(futures):
        (output,) = future.result(60).values()
        np.testing.assert_allclose(output, EXPECTED[number % len(EXPECTED)], rtol=2e-4, atol=2e-5)


def test_whatever_happens_to_workers_each_request_is_answered(cluster, engine, tmp_path):
    with open_parallel(plan_of(engine, tmp_path), deadline_s=1.5) as session:
        first = session.pids[0]
        answered(session)
        assert session.restarts == 0
        answered(session, lambda: os.kill(first, signal.SIGKILL))
        assert session.restarts == 1 and first not in session.pids
        hangs = session.pids[0]
        answered(session, lambda: os.kill(hangs, signal.SIGSTOP), count=20)
        assert session.restarts == 2
        gone = next(iter(cluster.workers.values())).process.pid
        answered(session, lambda: os.kill(gone, signal.SIGKILL))
        assert session.restarts == 3

        async def ask():
            return await asyncio.gather(*(session.run_async(feeds) for feeds in REQUESTS))

        for outputs, expected in zip(asyncio.run(ask()), EXPECTED, strict=True):
            np.testing.assert_allclose(outputs[0], expected, rtol=2e-4, atol=2e-5)
    wait_for(engine, 2)


def test_tensors_go_through_sockets_between_machines(cluster, engine, tmp_path):
    with separate_machines(cluster), open_parallel(plan_of(engine, tmp_path)) as session:
        answered(session)
        answered(session, lambda: os.kill(session.pids[1], signal.SIGKILL))
        assert session.restarts == 1


def one_piece(problem, feeds, folder):
    """The first piece of a model alone: the others are timed as it is."""
    pieces = pieces_of(problem, feeds, folder)
    partition = pieces.parted.partition
    parted = replace(pieces.parted, partition=replace(partition, stages=partition.stages[:1]))
    return replace(pieces, parted=parted, piece_feeds=pieces.piece_feeds[:1])


@pytest.fixture
def quick_plans(monkeypatch):
    """Without proofs of cuts, rewrites, and times of most pieces, which take long."""
    monkeypatch.setattr(planning, "admit", lambda wanted, catalog: Admitted({}))
    monkeypatch.setattr(division_plans, "why_as_it_is", lambda workload: "that takes long")
    monkeypatch.setattr(crew, "pieces_of", one_piece)


@pytest.mark.usefixtures("quick_plans")
def test_a_cluster_is_measured_and_deployed_on(cluster, tmp_path, capsys, monkeypatch):
    # Links are measured as those of processes are.
    monkeypatch.setattr(measured_cluster, "measure_link", lambda start: (1e-4, 1e9))
    address, described = cluster.scheduler_address, tmp_path / "cluster.toml"
    rows = ["--catalog", str(tmp_path / "c.duckdb")]
    asked = ["devices", "measure", "--cluster", address, "-o", str(described), *rows]
    assert run(asked) == 0
    read_back = read_cluster(described)
    assert read_back.scheduler == address
    assert len(read_back.devices) == len(read_back.links) == 2
    for device in read_back.devices:
        assert device.address.startswith("tcp://") and device.cores == 1
        assert min(device.flops_per_s, device.memory_bytes_per_s, device.memory_bytes) > 1e6
    with Catalog(rows[1]) as catalog:
        assert load_cluster(catalog, read_back.name) == read_back
    # Of so little memory that the model is divided.
    model, file, plan = perceptron(4, 1024, 8), tmp_path / "model.onnx", tmp_path / "plan"
    onnx.save(model, file)
    small = tuple(replace(d, memory_bytes=runtime_bytes() + (26 << 20)) for d in read_back.devices)
    described.write_text(to_toml(replace(read_back, devices=small)))
    asked = ["deploy", str(file), "--devices", str(described), "--budget", "0", *rows]
    assert run([*asked, "-o", str(plan)]) == 0
    text = capsys.readouterr().out
    assert "no process has the memory for the whole model" in text
    assert "by rates alone" not in text
    assert f"workers of the cluster at {address}:" in text
    with open_parallel(plan) as session:
        feeds = inputs_of(model, 1)
        np.testing.assert_allclose(
            session.run(feeds)[0], run_whole(model, feeds)[0], rtol=2e-4, atol=2e-5
        )
    other = tuple(replace(d, name=f"{d.name}x", address="tcp://127.0.0.1:1") for d in small)
    described.write_text(to_toml(replace(read_back, devices=other, links=())))
    assert run([*asked, "-o", str(tmp_path / "other")]) == 2
    assert "is not there: start it again" in capsys.readouterr().err


def described(engine, memory_bytes):
    """The workers of a cluster as devices, without having measured them."""
    devices = tuple(
        Device(
            worker.name,
            memory_bytes=memory_bytes,
            flops_per_s=5e10,
            memory_bytes_per_s=1e10,
            stage_s=2e-5,
            address=worker.address,
        )
        for worker in sorted(engine.workers(), key=lambda worker: worker.name)
    )
    return Cluster("c", devices, links_of_each_pair(devices, 1e-4, 1e9), engine.address)


@pytest.mark.parametrize("count", [3, 4] if campaigns.ALL else [3])
@pytest.mark.usefixtures("quick_plans")
def test_a_model_larger_than_a_worker_runs_over_several_one_of_which_is_lost(count, tmp_path):
    """It is lost while plans race, and again while requests wait."""
    model, file = perceptron(4, 512, 3 * count), tmp_path / "model.onnx"
    onnx.save(model, file)
    few = distributed.LocalCluster(
        n_workers=count, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with few, Engine(few.scheduler_address) as engine:
        # Less than the model; twice the part in each, since products pack their weights.
        devices = described(engine, runtime_bytes() + (15 << 19))
        lost = []

        def pids():
            addresses = [worker.address for worker in engine.workers()]
            return list(engine.run(os.getpid, [], addresses).values())

        def tell(phase, done, total, detail):
            if phase == "measuring" and detail.startswith("1 instance") and not lost:
                lost.append(pids()[0])
                os.kill(lost[0], signal.SIGKILL)

        plan = deploy(file, tmp_path / "plan", devices=devices, budget=0, progress=tell)
        assert lost and any("was opened again: the worker at" in why for why in plan.reasons)
        assert len(plan.partition.devices) == count
        requests = [inputs_of(model, seed) for seed in range(3)]
        answers = [run_whole(model, feeds)[0] for feeds in requests]
        with open_parallel(plan) as session:
            assert len(session.pids) == count
            pid = pids()[-1]
            futures = [session.submit(requests[n % 3]) for n in range(60)]
            os.kill(pid, signal.SIGKILL)
            for number, future in enumerate(futures):
                (output,) = future.result(120).values()
                np.testing.assert_allclose(output, answers[number % 3], rtol=2e-4, atol=2e-5)
            assert session.restarts == 1


def test_two_groups_of_one_worker_may_receive_the_same_model_at_once(tmp_path):
    partition = part(problem(perceptron(4, 16, 1), 2), (whole_on(0), whole_on(1))).partition
    content, token = os.urandom(1 << 12), new_token()
    description = {
        "site": 0,
        "token": token,
        "partition": json.loads(json.dumps(partition.to_json())),
        "slots": 1,
        "sites": [0, 0],
        "threads": [1, 1],
        "memory_limit_bytes": [0, 0],
        "files": {"model.onnx": hashlib.sha256(content).hexdigest()},
    }
    sites = [WorkerSite({**description, "group": group}, "127.0.0.1", tmp_path) for group in "ab"]
    for site in sites:
        site.thread.start()
    callers = [connect(site.address, token, CALLER) for site in sites]
    try:
        for caller in callers:
            send_message(caller, {"size": len(content)})
            caller.sendall(content[:1000])
        for group, caller in zip("ab", callers, strict=True):
            caller.sendall(content[1000:])
            model = tmp_path / f"group-{group}-0" / "model.onnx"
            for _ in range(100):
                if model.exists():
                    break
                signal.sigtimedwait([], 0.05)
            assert model.read_bytes() == content
    finally:
        for caller in callers:
            caller.close()
        for site in sites:
            site.thread.join()


# ---- what is refused


def test_an_address_at_which_nobody_answers_is_one_line(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(engine_module, "_CONNECT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
    output = tmp_path / "c.toml"
    rows = ["--catalog", str(tmp_path / "c.duckdb")]
    assert run(["devices", "measure", "--cluster", address, "-o", str(output), *rows]) == 2
    error = capsys.readouterr().err
    assert f"no Dask scheduler answers at {address}" in error and "Traceback" not in error
    assert not output.exists()


@pytest.mark.parametrize("address", ["nonsense", "http://127.0.0.1:1", "tcp://127.0.0.1"])
def test_what_is_no_address_is_refused(address, monkeypatch):
    monkeypatch.setattr(engine_module, "_CONNECT_S", 0.3)
    with pytest.raises(EngineError, match="no Dask scheduler answers at"):
        Engine(address)


def test_an_engine_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(EngineError, match=r"pip install 'tensolog\[cluster\]'"):
        Engine("tcp://127.0.0.1:1")


VERSIONS = "import importlib.metadata as m; m.version = lambda name: "
UNDO = "import importlib, importlib.metadata as m; importlib.reload(m)"


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (f"{VERSIONS}'0.0.1'", "has tensolog 0.0.1, and .* is here: install one version"),
        (
            "import importlib.metadata as m; m.version = lambda name, m=m, kept=m.version: "
            "kept(name) if name == 'tensolog' else m.distribution('no ' + name)",
            r"has no onnxruntime: pip install 'tensolog\[cluster\]' there",
        ),
        (
            "import sys; sys.kept = sys.modules.pop('onnxruntime', None); "
            "sys.modules['onnxruntime'] = None",
            "can't run models: .*onnxruntime",
        ),
    ],
)
def test_a_worker_that_can_t_run_models_is_named(cluster, code, why):
    undo = f"{UNDO}; import sys; sys.modules.pop('onnxruntime', None)"
    address_ = next(iter(cluster.workers.values())).worker_address
    with (
        patched_workers(cluster, code, undo, [address_]),
        Engine(cluster.scheduler_address) as engine,
    ):
        with pytest.raises(EngineError, match=why) as raised:
            engine.workers()
        assert address_ in str(raised.value)


def test_a_worker_that_does_not_answer_is_left_out(cluster, engine, tmp_path, monkeypatch):
    """Its stages run on the other one."""
    plan = plan_of(engine, tmp_path)
    monkeypatch.setattr(engine_module, "_ANSWER_S", 1.0)
    stopped = next(iter(cluster.workers.values())).process.pid
    os.kill(stopped, signal.SIGSTOP)
    try:
        with open_parallel(plan) as session:
            answered(session, count=5)
            assert len(session.pids) == 2
    finally:
        os.kill(stopped, signal.SIGCONT)


def test_a_worker_that_nobody_can_stand_in_for_is_named(engine, tmp_path):
    plan = plan_of(engine, tmp_path, needed=(1 << 20, 1 << 50))
    (first, second), *_ = plan.remote.workers
    gone = replace(second, name="gone", address="tcp://127.0.0.1:1")
    lost = replace(plan, remote=replace(plan.remote, workers=((first, gone),)))
    with pytest.raises(EngineError, match=r"the worker gone \(.*\) is not there, and no other has"):
        open_parallel(lost)


def test_a_plan_with_workers_of_another_partition_is_damaged(engine, tmp_path):
    plan = plan_of(engine, tmp_path)
    file = plan.folder / "plan.json"
    file.write_text(file.read_text().replace('"needed_bytes": [', '"needed_bytes": [7, '))
    with pytest.raises(DeploymentError, match="remote workers are not one for each device"):
        read_deployment(plan.folder)


def test_who_does_not_know_the_token_is_not_let_in():
    listener = Listener("127.0.0.1", new_token())
    try:
        address = listener.address
        for machine in ("", address.machine):
            connect(replace(address, machine=machine), new_token(), 0)
            assert listener.accept(5) is None
    finally:
        listener.close()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('name = "c"\nscheduler = "tcp://h:1"\n{device}', "there is no address with the scheduler"),
        ('name = "c"\n{device}address = "tcp://h:2"\n', "there is no scheduler with the address"),
        ('name = "c"\n{device}address = "tcp://h:2"\ncount = 2\n', "has an address"),
    ],
)
def test_descriptions_that_name_half_of_a_cluster_are_refused(text, why):
    device = '[[device]]\nname = "d"\nmemory_gib = 1\ngflops_per_s = 1\nmemory_gb_per_s = 1\n'
    with pytest.raises(ClusterError, match=why):
        parse_cluster(text.format(device=device))


# ---- who stands in for whom


def workers(**memory):
    """Workers on the hosts that the first letters of their names say."""
    return [
        Worker(name, f"tcp://{name[0]}:{number}", 2, size)
        for number, (name, size) in enumerate(memory.items())
    ]


def places(planned, needed):
    problem_ = problem(perceptron(4, 16, 1), 2)
    partition = part(problem_, (whole_on(0), whole_on(1))).partition
    limits = replace(partition, memory_bytes=(100, 100))
    return Places(limits, [[PlannedWorker(w.name, w.address) for w in planned]], needed)


def test_a_lost_worker_s_part_goes_to_who_has_memory_and_is_near():
    a1, b1, b2, c1 = workers(a1=100, b1=100, b2=50, c1=90)
    group_places = places([a1, b1], [40, 45])
    taken = [place.worker for place in group_places.assign(0, [a1, b1, b2, c1])]
    assert taken == [a1, b1]
    # The same machine before a larger one, and its memory is the limit.
    second = group_places.assign(0, [a1, b2, c1])
    assert [place.worker for place in second] == [a1, b2]
    assert [place.memory_limit_bytes for place in second] == [100, 50]
    assert [place.worker for place in group_places.assign(0, [a1, c1])] == [a1, c1]
    # What stands for itself takes its memory first: 100 - 40 are left there.
    assert [place.worker for place in group_places.assign(0, [a1])] == [a1, a1]
    back = replace(b1, address="tcp://b:99")
    assert group_places.assign(0, [a1, back, b2, c1])[1].worker == back
    with pytest.raises(EngineError, match=r"no other has the 0 MB .*free: a1 0 MB"):
        places([a1, b1], [60, 45]).assign(0, [a1])
    with pytest.raises(EngineError, match="no worker at all"):
        group_places.assign(0, [])


@pytest.mark.parametrize("count", range(2, 12))
def test_each_pair_meets_once_in_rounds_without_waiting(count):
    rounds = list(tournament(count))
    met = list(itertools.chain(*rounds))
    assert sorted(met) == list(itertools.combinations(range(count), 2))
    for pairs in rounds:
        both = list(itertools.chain(*pairs))
        assert len(set(both)) == len(both)
