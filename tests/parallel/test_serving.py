"""The Open Inference Protocol, by a client in this process."""

import json
import os
import signal
import struct
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("uvicorn")
testclient = pytest.importorskip("starlette.testclient")

from onnx import TensorProto, helper  # noqa: E402
from tensolog.parallel.deployment.settings import Setting  # noqa: E402
from tensolog.parallel.serving import http_server  # noqa: E402
from tensolog.parallel.serving import pool as pool_module  # noqa: E402
from tensolog.parallel.serving.http_server import (  # noqa: E402
    ServingError,
    application,
    listen,
    name_to_serve,
)
from tensolog.parallel.serving.open_inference import (  # noqa: E402
    HEADER,
    ProtocolError,
    read_request,
    write_answer,
)
from tensolog.parallel.serving.processor_claims import ProcessorClaim  # noqa: E402

from tensolog import open_parallel  # noqa: E402

from .plans import FEATURES, deployed, expected, layer, model  # noqa: E402

pytestmark = pytest.mark.skipif(os.name == "nt", reason="instances need a POSIX system")
URL = "/v2/models/small/infer"


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A model of floats, and of strings and truth values beside them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool_module, "cores", lambda: 2)
        patch.setattr(
            pool_module,
            "claim_processors",
            lambda counts: ProcessorClaim(((),) * len(counts), "unknown"),
        )
        plan = deployed(layer(), tmp_path_factory.mktemp("serving"), Setting(1, 1, 4))
        opened = open_parallel(plan)
    with opened, testclient.TestClient(application(opened, "small")) as client:
        yield client


def rows(count):
    return np.random.default_rng(count).normal(size=(count, FEATURES)).astype(np.float32)


def asked(x, **changes):
    values = {"name": "x", "shape": list(x.shape), "datatype": "FP32", "data": x.tolist()}
    return {"inputs": [{**values, **changes}]}


def test_health_and_metadata(client):
    assert client.get("/v2/health/live").json() == {"live": True}
    assert client.get("/v2/health/ready").json() == {"ready": True}
    assert client.get("/v2/models/small/ready").json() == {"name": "small", "ready": True}
    assert "binary_tensor_data" in client.get("/v2").json()["extensions"]
    reply = client.get("/v2/models/small/versions/1").json()
    assert reply == client.get("/v2/models/small").json()
    assert reply["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, FEATURES]}]
    assert [entry["name"] for entry in reply["outputs"]] == ["y"]


@pytest.mark.parametrize("flat", [True, False])
def test_tensors_as_json(client, flat):
    x = rows(3)
    data = x.ravel().tolist() if flat else x.tolist()
    answer = client.post(URL, json={**asked(x, data=data), "id": "7"})
    assert answer.status_code == 200
    reply = answer.json()
    assert (reply["id"], reply["model_name"], reply["model_version"]) == ("7", "small", "1")
    (y,) = reply["outputs"]
    assert (y["name"], y["datatype"], y["shape"]) == ("y", "FP32", [3, FEATURES])
    array = np.array(y["data"], np.float32).reshape(y["shape"])
    np.testing.assert_allclose(array, expected(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "wanted",
    [
        {"parameters": {"binary_data_output": True}},
        {"outputs": [{"name": "y", "parameters": {"binary_data": True}}]},
    ],
)
def test_tensors_as_binary_data(client, wanted):
    x = rows(5)
    values = asked(x, parameters={"binary_data_size": x.nbytes})
    del values["inputs"][0]["data"]
    text = json.dumps({**values, **wanted}).encode()
    answer = client.post(URL, content=text + x.tobytes(), headers={HEADER: str(len(text))})
    assert answer.status_code == 200, answer.text
    length = int(answer.headers[HEADER])
    (entry,) = json.loads(answer.content[:length])["outputs"]
    assert entry["parameters"]["binary_data_size"] == len(answer.content) - length
    y = np.frombuffer(answer.content[length:], np.float32).reshape(entry["shape"])
    np.testing.assert_allclose(y, expected(x), rtol=1e-5, atol=1e-6)


def refusals():
    x = rows(1)
    yield "no JSON", b"{", "is not JSON"
    yield "no inputs", {}, "with a list of inputs"
    yield "another input", asked(x, name="z"), "no input 'z'"
    yield "no input", {"inputs": []}, "no data for the input 'x'"
    yield "twice", {"inputs": asked(x)["inputs"] * 2}, "is given twice"
    yield "another datatype", asked(x, datatype="FP99"), "has the datatype 'FP99'"
    yield "the wrong datatype", asked(x, datatype="FP64"), "is float64: the model takes float32"
    yield "no shape", asked(x, shape=None), "has no shape"
    yield "too few values", asked(x, data=[1.0]), "has 1 values"
    yield "ragged", asked(x, data=[[1.0], [1.0, 2.0]]), "are no tensor"
    yield "words", asked(x, data=["a"] * FEATURES), "are no FP32"
    yield "another output", {**asked(x), "outputs": [{"name": "z"}]}, "no output 'z'"
    yield "NaN", asked(x * np.nan), "has NaN or infinities, which JSON does not know"
    binary = asked(x, parameters={"binary_data_size": 4})
    yield "no binary data", binary, "has binary data of 4 bytes: not there"


@pytest.mark.parametrize(("body", "why"), [pytest.param(*r[1:], id=r[0]) for r in refusals()])
def test_what_is_no_request_is_refused_in_a_line(client, body, why):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = client.post(URL, content=content)
    assert answer.status_code == 400
    assert why in answer.json()["error"]


def test_other_models_and_ways_are_not_there(client):
    assert client.get("/v2/models/other").status_code == 404
    assert client.post("/v2/models/small/versions/2/infer", json={}).status_code == 404
    assert client.get(URL).status_code == 405
    for path in ("/", "/v2/models/small/infer/more"):
        answer = client.get(path)
        assert answer.status_code == 404 and path in answer.json()["error"]


@pytest.mark.parametrize(
    ("datatype", "data", "why"),
    [
        ("INT8", [1.5], "are no INT8"),
        ("INT8", [128], "beyond INT8"),
        ("UINT64", [-1], "beyond UINT64"),
        ("INT64", [1 << 64], "are no INT64"),
        ("INT32", [True], "are no INT32"),
        ("BOOL", [1], "are no BOOL"),
        ("BYTES", [1], "are no strings"),
    ],
)
def test_no_number_is_changed_to_fit(datatype, data, why):
    entry = {"name": "x", "shape": [1], "datatype": datatype, "data": data}
    with pytest.raises(ProtocolError, match=why):
        read_request(json.dumps({"inputs": [entry]}).encode(), None)


NUMBERS = {"INT8": np.int8, "UINT64": np.uint64, "FP64": np.float64, "BOOL": np.bool_}


@given(st.sampled_from(sorted(NUMBERS)), st.lists(st.integers(0, 127), max_size=6))
def test_both_forms_of_a_tensor_are_read_alike(datatype, numbers):
    array = np.array(numbers).astype(NUMBERS[datatype])
    entry = {"name": "x", "shape": [len(numbers)], "datatype": datatype}
    text = json.dumps({"inputs": [{**entry, "data": array.tolist()}]}).encode()
    size = {"parameters": {"binary_data_size": array.nbytes}}
    head = json.dumps({"inputs": [{**entry, **size}]}).encode()
    for read in (
        read_request(text, None),
        read_request(head + array.tobytes(), str(len(head))),
    ):
        assert read.feeds["x"].dtype == array.dtype
        np.testing.assert_array_equal(read.feeds["x"], array)


def values():
    """JSON of any kind, much of it what a request may have somewhere else."""
    edges = [-1, 0, 1, 2**31, 2**63, 10**30, 1e308, "", "x", "BYTES", "FP32", "\ud800", [0, 10**30]]
    leaves = st.sampled_from([None, True, *edges, [1] * 70, [1] * 70 + [0]]) | st.integers()
    return st.recursive(
        leaves | st.floats() | st.text(max_size=3),
        lambda some: st.lists(some, max_size=3) | st.dictionaries(st.text(max_size=3), some),
        max_leaves=6,
    )


@given(st.data())
def test_a_request_with_any_value_anywhere_is_read_or_refused(data):
    entry = {"name": "x", "shape": [0], "datatype": "BYTES", "data": []}
    request = {"inputs": [entry], "id": "1", "parameters": {}, "outputs": [{"name": "y"}]}
    for _ in range(data.draw(st.integers(1, 2))):
        place = data.draw(st.sampled_from([request, entry]))
        key = data.draw(st.sampled_from([*place, "parameters"]))
        place[key] = data.draw(values())
    try:
        read = read_request(json.dumps(request).encode(), None)
    except ProtocolError as error:
        assert "\n" not in str(error)
    else:
        write_answer(read, "small", [], [])


@pytest.mark.parametrize("length", ["9" * 5000, "-1", "²", "1e3", " 2", ""])
def test_a_length_that_is_no_number_is_refused(length):
    with pytest.raises(ProtocolError, match=HEADER):
        read_request(b"{}", length)


def test_whatever_breaks_is_an_answer_in_a_line(client, monkeypatch, caplog):
    def broken(body, length):
        raise MemoryError("no\nroom")

    monkeypatch.setattr(http_server, "read_request", broken)
    answer = client.post(URL, json={})
    assert (answer.status_code, answer.json()) == (500, {"error": "MemoryError: no room"})
    assert caplog.messages == ["a request could not be answered: MemoryError: no room"]


@pytest.mark.parametrize("name", ["", "a/b", "a\x1b[31m"])
def test_a_name_that_no_address_can_have_is_refused(tmp_path, name):
    plan = deployed(layer(), tmp_path)
    with pytest.raises(ServingError, match="can't be part of an address"):
        name_to_serve(plan, name)


@given(st.binary(max_size=60), st.none() | st.text(max_size=3))
def test_any_body_is_read_or_refused(body, length):
    with pytest.raises(ProtocolError):
        read_request(body, length)


def test_strings_come_back_as_they_went(tmp_path):
    entries = [(name, TensorProto.STRING, ("batch",)) for name in "xy"]
    proto = model([helper.make_node("Identity", ["x"], ["y"])], entries[:1], entries[1:])
    words = ["a", "", "ä\n"]
    packed = b"".join(struct.pack("<I", len(w.encode())) + w.encode() for w in words)
    with open_parallel(deployed(proto, tmp_path, Setting(1, 1, 4))) as opened:
        client = testclient.TestClient(application(opened))
        entry = {"name": "x", "shape": [3], "datatype": "BYTES"}
        url = "/v2/models/plan/infer"
        reply = client.post(url, json={"inputs": [{**entry, "data": words}]}).json()
        assert reply["outputs"][0]["data"] == words
        size = {"parameters": {"binary_data_size": len(packed)}}
        options = {"parameters": {"binary_data_output": True}}
        head = json.dumps({"inputs": [{**entry, **size}], **options}).encode()
        answer = client.post(url, content=head + packed, headers={HEADER: str(len(head))})
        assert answer.content[int(answer.headers[HEADER]) :] == packed
    assert client.post(url, json={"inputs": [{**entry, "data": words}]}).status_code == 503
    assert client.get("/v2/health/ready").status_code == 503


def test_a_port_that_is_taken_is_told():
    place = listen("127.0.0.1", 0)
    with place, pytest.raises(ServingError, match="can't serve at 127"):
        listen("127.0.0.1", place.getsockname()[1])


def serve_by(server, monkeypatch):
    """Let `serve` have a server of this class, and a session that computes nothing."""
    monkeypatch.setattr(
        http_server,
        "ParallelSession",
        lambda plan: nullcontext(SimpleNamespace(plan=plan, setting=plan.setting)),
    )
    monkeypatch.setattr(http_server.uvicorn, "Server", server)


def test_who_waits_for_answers_at_the_end_is_told(monkeypatch, tmp_path):
    answered = threading.Event()

    class Server:
        """A server that is asked for something that takes long."""

        def __init__(self, config):
            self.started = True

        def run(self, places):
            answered.wait(30)

    def interrupted(setting):
        raise KeyboardInterrupt

    plan = deployed(layer(), tmp_path, Setting(1, 1, 4))
    serve_by(Server, monkeypatch)
    monkeypatch.setattr(http_server, "_SOON_S", 0.01)
    with listen("127.0.0.1", 0) as place, pytest.raises(KeyboardInterrupt):
        http_server.serve(plan, place, started=interrupted, waiting=answered.set)
    assert answered.is_set()


def test_what_waits_is_answered_where_an_interrupt_comes_as_nothing_happens(tmp_path, monkeypatch):
    """Python 3.11 takes a thread for ended whose `join` was interrupted."""
    answered = []

    class Server:
        started, should_exit = True, False

        def __init__(self, config):
            pass

        def run(self, sockets):
            time.sleep(0.1)  # serve waits for the end by now
            os.kill(os.getpid(), signal.SIGINT)
            while not self.should_exit:
                time.sleep(0.01)
            time.sleep(0.1)
            answered.append(sockets)

    plan = deployed(layer(), tmp_path, Setting(1, 1, 4))
    serve_by(Server, monkeypatch)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with listen("127.0.0.1", 0) as place, pytest.raises(KeyboardInterrupt):
            http_server.serve(plan, place)
    finally:
        signal.signal(signal.SIGINT, before)
    assert answered


@pytest.mark.parametrize("host", ["", "a" * 300, "a\0b"])
def test_what_is_no_host_is_told(host):
    with pytest.raises(ServingError, match="name others with --host and --port"):
        listen(host, 0)


def test_the_command_serves_until_it_is_interrupted(tmp_path):
    plan = deployed(layer(), tmp_path, Setting(1, 10_000, 4))  # more than fits here
    command = [sys.executable, "-m", "tensolog", "serve", plan.folder, "--port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as server:
        try:
            address = server.stdout.readline().split()[-1]
            with urllib.request.urlopen(address, timeout=30) as answer:
                assert json.load(answer)["name"] == "plan"
        finally:
            server.send_signal(signal.SIGINT)
        _, printed = server.communicate(timeout=60)
    assert server.returncode == 130
    assert printed.splitlines()[-1] == "interrupted; the server has stopped"
    assert "note: the plan was made for 1 instance x 10000 threads" in printed
