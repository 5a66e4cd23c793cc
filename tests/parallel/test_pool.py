"""Pools of instances: right answers, each once, whatever happens to the processes."""

import asyncio
import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tensolog.catalog.errors import ModelError
from tensolog.parallel.deployment.deployment import BatchAxis, DeploymentError
from tensolog.parallel.deployment.settings import Setting
from tensolog.parallel.serving import pool as pool_module
from tensolog.parallel.serving.instance import Instance, Start
from tensolog.parallel.serving.pool import ClosedError, FeedError, FullError
from tensolog.parallel.serving.process import InstanceError, RunError
from tensolog.parallel.serving.runner_sources import GroupSource

from tensolog import open_parallel

from .plans import FEATURES, deployed, division, expected, layer, model, unpinned

pytestmark = pytest.mark.skipif(os.name == "nt", reason="instances need a POSIX system")
TWO = Setting(2, 1, 4)


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    """Have two instances on machines with one core, too."""
    monkeypatch.setattr(pool_module, "cores", lambda: 2)
    monkeypatch.setattr(pool_module, "claim_processors", unpinned)


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    return deployed(layer(), tmp_path_factory.mktemp("plan"), TWO)


@pytest.fixture(scope="module")
def pool(plan):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool_module, "cores", lambda: 2)
        patch.setattr(pool_module, "claim_processors", unpinned)
        opened = open_parallel(plan)
    with opened:
        yield opened


def rows(count, seed=0):
    return np.random.default_rng(seed).normal(size=(count, FEATURES)).astype(np.float32)


def names(folder):
    """Name what a folder of the system's holds; nothing where there is none."""
    return {entry.name for entry in Path(folder).iterdir()} if Path(folder).is_dir() else set()


def gone(pid):
    """Wait until a process is no more; False if it stays."""
    for _ in range(500):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 30])
def test_requests_of_any_size_are_those_of_the_whole_model(pool, count):
    (y,) = pool.run({"x": rows(count)})
    np.testing.assert_allclose(y, expected(rows(count)), rtol=1e-5, atol=1e-6)


def test_requests_of_many_threads_are_each_answered_with_their_rows(pool):
    answers = {}

    def ask(number):
        answers[number] = pool.run({"x": rows(1 + number % 7, number)}, ["y"])[0]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(40):
        wanted = expected(rows(1 + number % 7, number))
        np.testing.assert_allclose(answers[number], wanted, rtol=1e-5, atol=1e-6)


def test_arrays_need_not_be_contiguous(pool):
    x = np.asfortranarray(rows(4)[::-1])
    np.testing.assert_allclose(pool.run({"x": x})[0], expected(x), rtol=1e-5, atol=1e-6)


def test_tensors_larger_than_the_memory_that_was_shared(pool):
    wide = np.tile(rows(1), (5000, 1))
    np.testing.assert_allclose(pool.run({"x": wide})[0], expected(wide), rtol=1e-5, atol=1e-6)


def test_asyncio(pool):
    async def ask():
        return await asyncio.gather(*(pool.run_async({"x": rows(2, n)}) for n in range(100)))

    for number, (y,) in enumerate(asyncio.run(ask())):
        np.testing.assert_allclose(y, expected(rows(2, number)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("feeds", "names", "message"),
    [
        ({}, None, "no data for the input 'x'"),
        ({"x": rows(1), "z": rows(1)}, None, "no input 'z'"),
        ({"x": rows(1).astype(np.float64)}, None, "is float64: the model takes float32"),
        ({"x": rows(1)[0]}, None, "has the shape [8]"),
        ({"x": rows(1)[:, :7]}, None, "has the shape [1, 7]"),
        ({"x": rows(1)}, ["z"], "no output 'z'"),
    ],
)
def test_what_does_not_fit_is_refused(pool, feeds, names, message):
    with pytest.raises(FeedError) as error:
        pool.run(feeds, names)
    assert message in str(error.value)


def test_a_worker_killed_during_a_thousand_requests(plan):
    """Every request is answered, none twice, and right; the worker is replaced."""
    answered = [0] * 1000
    with open_parallel(plan) as opened:
        first = list(opened.pids)
        futures = []

        def count(number):
            def add(_):
                answered[number] += 1

            return add

        for number in range(1000):
            future = opened.submit({"x": rows(1, number)})
            future.add_done_callback(count(number))
            futures.append(future)
            if number in (300, 600):
                os.kill(opened.pids[number % 2], signal.SIGKILL)
        for number, future in enumerate(futures):
            (y,) = future.result(60).values()
            np.testing.assert_allclose(y, expected(rows(1, number)), rtol=1e-5, atol=1e-6)
        assert opened.restarts >= 1
        opened.run({"x": rows(1)})
        assert set(opened.pids) != set(first)
    assert answered == [1] * 1000


def test_workers_that_hang_are_ended_and_replaced(plan):
    with open_parallel(plan, deadline_s=1.0) as opened:
        stopped = list(opened.pids)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        futures = [opened.submit({"x": rows(1, number)}) for number in range(20)]
        for number, future in enumerate(futures):
            (y,) = future.result(60).values()
            np.testing.assert_allclose(y, expected(rows(1, number)), rtol=1e-5, atol=1e-6)
        assert opened.restarts >= 1
    assert all(gone(pid) for pid in stopped)


def test_a_request_that_ends_its_process_fails_alone(tmp_path):
    with open_parallel(deployed(division(), tmp_path, TWO, delay_ms=20.0)) as opened:
        ones = np.array([1])
        fatal = opened.submit({"a": ones * np.iinfo(np.int64).min, "b": -ones})
        others = [opened.submit({"a": ones * number, "b": ones}) for number in range(12)]
        assert [int(future.result(60)["y"][0]) for future in others] == list(range(12))
        with pytest.raises(InstanceError, match="the process of an instance ended by signal 8"):
            fatal.result(60)


def test_an_error_of_the_runtime_is_that_of_its_request(tmp_path):
    nodes = [helper.make_node("Gather", ["table", "x"], ["y"])]
    table = np.arange(5, dtype=np.float32)
    inputs = [("x", TensorProto.INT64, ("batch",))]
    proto = model(nodes, inputs, [("y", TensorProto.FLOAT, ("batch",))], [("table", table)])
    with open_parallel(deployed(proto, tmp_path, TWO, delay_ms=50.0)) as opened:
        good, bad = (opened.submit({"x": np.array([index])}) for index in (3, 9))
        assert good.result(60)["y"] == [3]
        with pytest.raises(RunError, match="9"):
            bad.result(60)
        assert opened.restarts == 0


def test_strings(tmp_path):
    entries = [(name, TensorProto.STRING, ("batch",)) for name in "xy"]
    proto = model([helper.make_node("Identity", ["x"], ["y"])], entries[:1], entries[1:])
    with open_parallel(deployed(proto, tmp_path, Setting(1, 1, 2))) as opened:
        words = np.array(["a", "bcd", "ä"])
        assert list(opened.run({"x": words})[0]) == list(words)


def test_rows_that_influence_each_other_are_never_joined(tmp_path):
    nodes = [helper.make_node("Softmax", ["x"], ["y"], axis=0)]
    entries = [(name, TensorProto.FLOAT, ("batch", 2)) for name in "xy"]
    proto = model(nodes, entries[:1], entries[1:])
    fixed = BatchAxis(False, "rows of a batch influence each other")
    with open_parallel(deployed(proto, tmp_path, Setting(1, 1, 1), batch=fixed)) as opened:
        futures = [opened.submit({"x": np.zeros((3, 2), np.float32)}) for _ in range(8)]
        for future in futures:
            np.testing.assert_allclose(future.result(60)["y"], 1 / 3, rtol=1e-6)


def test_requests_are_held_back_where_too_many_wait(tmp_path):
    small = deployed(layer(), tmp_path, Setting(1, 1, 1), queue=2, delay_ms=0.0)
    with open_parallel(small) as opened:
        (pid,) = opened.pids
        os.kill(pid, signal.SIGSTOP)
        running = opened.submit({"x": rows(1)})
        while len(opened._queue):
            time.sleep(0.001)
        waiting = [opened.submit({"x": rows(1)}) for _ in range(2)]
        with pytest.raises(FullError):
            opened.submit({"x": rows(1)}, timeout_s=0.05)

        async def ask():
            with pytest.raises(FullError):
                await opened.run_async({"x": rows(1)}, wait=False)
            asked = asyncio.create_task(opened.run_async({"x": rows(1)}))
            await asyncio.sleep(0.05)
            assert not asked.done()
            os.kill(pid, signal.SIGCONT)
            return await asked

        assert len(asyncio.run(ask())) == 1
        assert all(future.result(60) for future in [running, *waiting])


def test_closing_answers_what_waits_and_leaves_no_process(plan):
    opened = open_parallel(plan)
    pids = opened.pids
    futures = [opened.submit({"x": rows(3, number)}) for number in range(30)]
    opened.close()
    assert all(future.result(0)["y"].shape == (3, FEATURES) for future in futures)
    assert all(gone(pid) for pid in pids)
    with pytest.raises(ClosedError):
        opened.run({"x": rows(1)})


def test_a_session_nobody_has_any_more_ends_its_processes(plan):
    opened = open_parallel(plan)
    pids = opened.pids
    opened.run({"x": rows(1)})
    del opened
    gc.collect()
    assert all(gone(pid) for pid in pids)


def test_nothing_is_left_of_a_program_that_is_killed(plan):
    """Neither processes, stopped ones included, nor shared memory with a name."""
    before = names("/dev/shm")
    code = (
        "import json, sys, numpy as np, tensolog\n"
        "opened = tensolog.open_parallel(sys.argv[1])\n"
        "opened.run({'x': np.ones((2, 8), np.float32)})\n"
        "print(json.dumps(opened.pids), flush=True)\n"
        "sys.stdin.read()\n"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-W", "ignore", "-c", code, plan.folder]
    with subprocess.Popen(command, **pipes) as program:
        pids = json.loads(program.stdout.readline())
        if sys.platform == "linux":
            os.kill(pids[0], signal.SIGSTOP)
        program.kill()
    assert pids and all(gone(pid) for pid in pids)
    assert names("/dev/shm") <= before


def test_no_descriptor_is_leaked_by_replaced_workers(plan):
    with open_parallel(plan) as opened:
        opened.run({"x": rows(1)})
        count = len(names("/proc/self/fd"))
        for _ in range(3):
            with contextlib.suppress(IndexError, ProcessLookupError):
                os.kill(opened.pids[0], signal.SIGKILL)
            for number in range(8):
                opened.run({"x": rows(9, number)})
        assert len(names("/proc/self/fd")) <= count


def test_a_plan_for_more_cores_than_there_are_is_shrunk(plan, monkeypatch):
    monkeypatch.setattr(pool_module, "cores", lambda: 1)
    with pytest.warns(UserWarning, match="1 cores may be used here"):
        opened = open_parallel(plan)
    with opened:
        assert opened.setting == Setting(1, 1, 4) and len(opened.pids) == 1


def test_a_model_that_the_plan_was_not_made_for_is_refused(tmp_path):
    deployment = deployed(layer(), tmp_path, Setting(1, 1, 4))
    onnx.save(division(), deployment.model_path)
    with pytest.raises(DeploymentError, match="gives a, b, and the plan says x: deploy it again"):
        open_parallel(deployment)


def test_an_interrupt_while_a_worker_starts_is_not_its_own(plan, capfd):
    instance = Instance(Start(plan.model_path, 1))
    os.kill(instance.pids[0], signal.SIGINT)
    instance.ready()
    instance.close()
    assert capfd.readouterr().err == ""


def test_a_model_that_cannot_be_opened_leaves_no_process(tmp_path):
    deployment = deployed(layer(), tmp_path, TWO)
    deployment.model_path.write_bytes(b"\x08\x08")
    with pytest.raises(ModelError):
        open_parallel(deployment)
    deployment.model_path.unlink()
    with pytest.raises(DeploymentError, match=r"model\.onnx', which is missing"):
        open_parallel(deployment.folder)


def test_who_waited_for_a_group_that_can_t_be_started_does_not_try_again():
    count, waiting, all_wait, tries = 4, [], threading.Event(), []

    class Counted(contextlib.AbstractContextManager):
        """A lock that says when all drivers wait for it, or have it."""

        lock = threading.Lock()

        def __enter__(self):
            waiting.append(threading.current_thread())
            if len(waiting) == count:
                all_wait.set()
            self.lock.acquire()

        def __exit__(self, *raised):
            self.lock.release()

    def fail():
        tries.append(all_wait.wait(60))
        raise ModelError("the worker is not there")

    source, reported = GroupSource(fail), []
    source._lock = Counted()

    def drive(number):
        with pytest.raises(ModelError, match="not there"):
            source.open(number)
        reported.append(number)

    drivers = [threading.Thread(target=drive, args=(number,)) for number in range(count)]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join()
    assert sorted(reported) == list(range(count)) and tries == [True]
    # Whoever asks later finds out anew.
    drive(count)
    assert len(tries) == 2
