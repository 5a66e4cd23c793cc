"""Sessions that share the cores of a process: who is told, and whose time slices are short."""

import gc
import os
import sys
import threading

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from tensolog.profiles.sessions import core_sharing
from tensolog.profiles.sessions.core_sharing import (
    Demand,
    SharingSession,
    are_cores_shared,
    ask_for_short_slices,
    short_slices,
)

from tensolog import open_session

X = np.eye(8, dtype=np.float32)


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """Be in a process without other sessions, with two cores."""
    monkeypatch.setattr(core_sharing, "_threads", {})
    monkeypatch.setattr(core_sharing, "_listeners", {})
    monkeypatch.setattr(core_sharing, "_is_shared", False)
    monkeypatch.setattr(core_sharing, "cores", lambda: 2)


@pytest.fixture
def model(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "x"], ["y"])],
        "square",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 8])],
    )
    path = tmp_path / "square.onnx"
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=opset), path)
    return path


def opened(model, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return open_session(model, options=options)


def slice_of_this_thread():
    slice_ns = core_sharing._slice_ns()
    if slice_ns is None or not slice_ns:
        pytest.skip("time slices can't be chosen on this system")
    return slice_ns


def in_a_thread(function):
    """What a function gives in a thread of its own, so that this one stays as it is."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(function()))
    thread.start()
    thread.join()
    return answers[0]


def test_who_has_asked_is_told_as_sessions_come_and_go():
    answers = []
    first = Demand(2, answers.append)
    assert answers == [False] and not are_cores_shared()
    second = Demand(1)
    assert answers == [False, True] and are_cores_shared()
    second.leave()
    second.leave()
    assert answers == [False, True, False]
    third = Demand(1)
    del third
    gc.collect()
    assert answers[-2:] == [True, False]
    first.leave()
    assert not core_sharing._threads and not core_sharing._listeners


def test_sessions_count_as_long_as_they_are_there(model):
    sessions = [opened(model, threads) for threads in (1, 0)]  # 0: all cores
    assert all(isinstance(session, SharingSession) for session in sessions)
    assert sorted(core_sharing._threads.values()) == [1, 2]
    del sessions
    gc.collect()
    assert not core_sharing._threads


def test_cores_are_not_counted_in_each_run(model, monkeypatch):
    """To count them reads files: longer than many a model takes."""
    counted = []
    monkeypatch.setattr(core_sharing, "cores", lambda: counted.append(2) or 2)
    session = opened(model, 2)
    at_opening = len(counted)
    for _ in range(3):
        session.run(None, {"x": X})
    assert len(counted) == at_opening


def test_threads_that_wait_for_each_other_have_short_slices(model):
    usual = slice_of_this_thread()
    with short_slices(False):
        assert in_a_thread(slice_of_this_thread) == usual
    with short_slices(True):
        assert in_a_thread(slice_of_this_thread) == core_sharing._SLICE_NS
    assert slice_of_this_thread() == usual


def test_who_runs_a_session_beside_others_has_them_too(model):
    usual = slice_of_this_thread()

    def ran(*sessions):
        for session in sessions:
            session.run(None, {"x": X})
        return slice_of_this_thread()

    first, second = opened(model, 1), opened(model, 2)
    assert in_a_thread(lambda: ran(first, second)) == core_sharing._SLICE_NS
    assert in_a_thread(lambda: ran(first)) == usual
    first = None
    gc.collect()
    assert in_a_thread(lambda: ran(second)) == usual


@pytest.mark.skipif(sys.platform != "linux", reason="niceness of threads is Linux'")
def test_slices_leave_how_nice_a_thread_is():
    slice_of_this_thread()

    def niceness():
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 7)
        ask_for_short_slices()
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    assert in_a_thread(niceness) == 7


def test_a_system_without_slices_is_left_alone(monkeypatch):
    usual = slice_of_this_thread()
    monkeypatch.setattr(core_sharing.platform, "machine", lambda: "s390x")
    with short_slices(True):
        pass
    in_a_thread(ask_for_short_slices)
    monkeypatch.undo()
    assert slice_of_this_thread() == usual


def test_all_ways_to_run_a_session(model):
    sessions = [opened(model, 2), opened(model, 2)]
    value = onnxruntime.OrtValue.ortvalue_from_numpy(X)
    (y,) = in_a_thread(lambda: sessions[0].run_with_ort_values(["y"], {"x": value}))
    assert np.array_equal(y.numpy(), X)
    binding = sessions[1].io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y")
    in_a_thread(lambda: sessions[1].run_with_iobinding(binding))
    assert np.array_equal(binding.copy_outputs_to_cpu()[0], X)


def test_a_session_that_can_t_be_opened_is_tried_once(model, monkeypatch, capsys):
    tries = []

    def refuse(*arguments):
        tries.append(arguments)
        raise RuntimeError("no thread can be started")

    monkeypatch.setattr(onnxruntime.InferenceSession, "_create_inference_session", refuse)
    with pytest.raises(RuntimeError, match="no thread can be started"):
        open_session(model)
    assert len(tries) == 1 and not capsys.readouterr().out
