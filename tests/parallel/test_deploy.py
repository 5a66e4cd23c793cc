"""Models deployed for real: their batch axis, the folder, and what is refused."""

import json
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from tensolog.catalog import Catalog
from tensolog.catalog.errors import ModelError
from tensolog.parallel.choosing import whole_model
from tensolog.parallel.choosing.batches import drawn_feeds, find_batch_axis
from tensolog.parallel.choosing.deploy import deploy
from tensolog.parallel.deployment.deployment import DeploymentError, copy_model, read_deployment
from tensolog.parallel.deployment.deployment_rows import store_deployment, why_not
from tensolog.parallel.deployment.settings import LimitError, Measured, Setting
from tensolog.parallel.serving.instance import Instance, Start

import tensolog
from tensolog.cli import run
from tensolog.deployment_text import deployment_text

from .plans import FEATURES, deployed, layer, model
from .test_typed_values import JSON as ANY_VALUE

pytestmark = pytest.mark.skipif(os.name == "nt", reason="instances need a POSIX system")

FLOAT = TensorProto.FLOAT


def node(op_type, *inputs, **attributes):
    return helper.make_node(op_type, list(inputs), ["y"], **attributes)


def entries(shape, *names):
    return [(name, FLOAT, shape) for name in names]


FREE = ("batch", 4)
MODELS = {
    "rows stay apart": (layer(), True, "come out as they do alone"),
    "a softmax over the batch": (
        model([node("Softmax", "x", axis=0)], entries(FREE, "x"), entries(FREE, "y")),
        False,
        "rows of a batch influence each other",
    ),
    "a sum over the batch": (
        model(
            [node("ReduceSum", "x", "axes", keepdims=0)],
            entries(FREE, "x"),
            entries((4,), "y"),
            [("axes", np.array([0]))],
        ),
        False,
        "the first axis of the output 'y' is always 4",
    ),
    "a transposed output": (
        model([node("Transpose", "x")], entries(("a", "b"), "x"), entries(("b", "a"), "y")),
        False,
        "has no row for each of the batch",
    ),
    "a fixed batch": (layer(3), False, "the first axis of 'x' is always 3"),
    "inputs of several sizes": (
        model(
            [node("Concat", "a", "b", axis=0)],
            [("a", FLOAT, ("m", 2)), ("b", FLOAT, ("n", 2))],
            entries(("k", 2), "y"),
        ),
        False,
        "several free first axes: m, n",
    ),
    "a shape for one row": (
        model(
            [node("Reshape", "x", "shape")],
            entries(FREE, "x"),
            entries(("batch", 2, 2), "y"),
            [("shape", np.array([1, 2, 2]))],
        ),
        False,
        "the first axis of the output 'y' is always 1",
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_batch_is_free_where_rows_stay_apart(tmp_path, name):
    proto, is_free, reason = MODELS[name]
    onnx.save(proto, tmp_path / "model.onnx")
    instance = Instance(Start(tmp_path / "model.onnx", 1))
    try:
        instance.ready()
        axis = find_batch_axis(instance, {})
    finally:
        instance.close()
    assert axis.is_free == is_free
    assert reason in axis.reason


def test_requests_are_drawn_at_the_sizes_that_are_asked_for(tmp_path):
    shape = ("batch", "tokens", 4)
    proto = model([node("Add", "a", "b")], entries(shape, "a", "b"), entries(shape, "y"))
    inputs = deployed(proto, tmp_path).inputs
    feeds = drawn_feeds(inputs, {"a": (1, 7, 4)}, 3)
    assert {array.shape for array in feeds.values()} == {(3, 7, 4)}
    for shapes, why in (({"c": (1,)}, "are a, b"), ({"a": (1, 7, 5)}, "the shape")):
        with pytest.raises(ModelError, match=why):
            drawn_feeds(inputs, shapes, 1)


@pytest.fixture(scope="module")
def catalog():
    with Catalog(":memory:") as opened:
        yield opened


@pytest.fixture(scope="module")
def plan(tmp_path_factory, catalog):
    folder = tmp_path_factory.mktemp("deploy")
    onnx.save(layer(), folder / "model.onnx")
    return deploy(folder / "model.onnx", folder / "plan", most_rows=4, budget=2, catalog=catalog)


def test_a_deployment_serves_what_the_model_gives(plan):
    x = np.random.default_rng(0).normal(size=(9, FEATURES)).astype(np.float32)
    whole = onnxruntime.InferenceSession(layer().SerializeToString())
    with tensolog.open_parallel(plan.folder) as opened:
        (y,) = opened.run({"x": x})
    np.testing.assert_allclose(y, whole.run(None, {"x": x})[0], rtol=1e-5, atol=1e-6)


def test_a_deployment_says_what_was_measured_and_why(plan):
    assert plan.batch.is_free and plan.setting.batch <= 4
    assert plan.chosen in plan.measured and plan.baseline in plan.measured
    assert plan.setting.instances * plan.setting.threads <= plan.machine["cores"]
    text = deployment_text(plan)
    assert str(plan.setting) in text and "chosen" in text
    for reason in plan.reasons:
        assert reason in text


def test_the_catalog_says_why_this_setting(plan, catalog):
    rows = catalog.sql(
        "SELECT instances, threads, batch, role, rows_per_s, p99_ms, why_not"
        " FROM deployment JOIN deployment_setting USING (deployment_hash)"
        " WHERE goal = 'throughput' AND batch_is_free AND placement_hash IS NULL"
    ).fetchall()
    rows_by_setting = {Setting(*row[:3]): row[3:] for row in rows}
    assert rows_by_setting.keys() == {entry.setting for entry in plan.measured}
    for entry in plan.measured:
        role, rate, p99_ms, why = rows_by_setting[entry.setting]
        assert (rate, p99_ms) == (entry.rows_per_s, entry.p99_ms)
        assert (role == "chosen") == (entry.setting == plan.setting) == (why == "")
    if plan.setting != plan.baseline.setting:
        assert rows_by_setting[plan.baseline.setting][0] == "baseline"
    reasons = catalog.sql("SELECT reason FROM deployment_reason ORDER BY position").fetchall()
    assert tuple(reason for (reason,) in reasons) == plan.reasons
    assert store_deployment(catalog, plan, plan.folder.with_name("model.onnx"))
    assert catalog.sql("SELECT count(*) FROM deployment").fetchall() == [(1,)]


def rival(rows_per_s, p50_ms):
    return Measured(Setting(1, 1, 2), rows_per_s, p50_ms, p50_ms, p50_ms, 9, 1000)


@pytest.mark.parametrize(
    ("entry", "goal", "limits", "why"),
    [
        (rival(500.0, 2.0), "throughput", (), "0.50 of the chosen's throughput"),
        (rival(990.0, 2.0), "throughput", (), "no more than chosen, and answers later"),
        (rival(1100.0, 0.5), "throughput", (), "not surely better than chosen"),
        (rival(500.0, 2.0), "latency", (), "2.00 times the chosen's time"),
        (rival(2000.0, 9.0), "throughput", ("p50 < 3 ms",), "breaks p50 < 3 ms"),
    ],
)
def test_each_setting_that_was_not_chosen_has_a_reason(tmp_path, entry, goal, limits, why):
    deployment = deployed(layer(), tmp_path, goal=goal, limits=limits)
    assert why_not(deployment, entry).startswith(why)
    assert why_not(deployment, deployment.chosen) == ""


def test_a_deployment_can_be_moved(plan, tmp_path):
    shutil.copytree(plan.folder, tmp_path / "moved")
    moved = read_deployment(tmp_path / "moved")
    assert moved.to_json() == plan.to_json()
    assert moved.model_path == tmp_path / "moved" / "model" / "model.onnx"
    assert read_deployment(tmp_path / "moved" / "plan.json").setting == plan.setting


def test_an_older_deployment_is_replaced_and_nothing_else(plan, tmp_path):
    older = tmp_path / "plan"
    shutil.copytree(plan.folder, older)
    again = plan.write(plan.model_path, older)
    assert read_deployment(again).setting == plan.setting
    (older / "notes.txt").write_text("mine")
    with pytest.raises(DeploymentError, match=r"no deployment \(notes\.txt\)"):
        plan.write(plan.model_path, older)
    assert {entry.name for entry in tmp_path.iterdir()} == {"plan"}


@pytest.mark.parametrize(
    ("name", "text", "file_pattern"),
    [
        ("plan.json", '{"format": "of another program"}', r"plan\.json"),
        ("model/mine.onnx", "", r"model/mine\.onnx"),
        ("model/deeper/notes.txt", "", r"model/deeper/notes\.txt"),
    ],
)
def test_what_deploy_did_not_write_is_never_replaced(plan, tmp_path, name, text, file_pattern):
    older = tmp_path / "plan"
    shutil.copytree(plan.folder, older)
    (older / name).parent.mkdir(exist_ok=True)
    (older / name).write_text(text)
    with pytest.raises(DeploymentError, match=rf"no deployment \({file_pattern}\)"):
        plan.write(plan.model_path, older)
    assert (older / name).read_text() == text


def test_a_damaged_deployment_may_be_replaced(plan, tmp_path):
    older = tmp_path / "plan"
    shutil.copytree(plan.folder, older)
    (older / "plan.json").write_bytes((older / "plan.json").read_bytes()[:150])
    (older / "model" / "model.onnx").write_bytes(b"damaged")
    assert read_deployment(plan.write(plan.model_path, older)).setting == plan.setting


def test_a_model_that_lacks_a_file_leaves_no_deployment(tmp_path):
    big = numpy_helper.from_array(np.ones((FEATURES, FEATURES), np.float32), "w")
    proto = layer()
    proto.graph.initializer[0].CopyFrom(big)
    source = tmp_path / "in"
    source.mkdir()
    onnx.save(proto, source / "m.onnx", save_as_external_data=True, location="m.bin",
              size_threshold=0)  # fmt: skip
    copy_model(source / "m.onnx", tmp_path / "copied")
    assert {p.name for p in (tmp_path / "copied").iterdir()} == {"model.onnx", "m.bin"}
    (source / "m.bin").unlink()
    with pytest.raises(ModelError, match=r"needs m\.bin beside it"):
        deployed_plan = deployed(layer(), tmp_path)
        deployed_plan.write(source / "m.onnx", tmp_path / "other")
    assert not (tmp_path / "other").exists()
    assert not [entry for entry in tmp_path.iterdir() if entry.name.startswith(".")]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda values: values.pop("setting"), "damaged"),
        (lambda values: values.update(version=99), "is of version 99"),
        (lambda values: values.update(format="other"), "of another kind: 'other'"),
        (lambda values: values.update(model="../../x.onnx"), "which is missing"),
        (lambda values: values["setting"].update(instances=0), "damaged"),
        (lambda values: values["setting"].update(threads="2"), "damaged"),
        (lambda values: values.update(deadline_s=None), "damaged"),
        (lambda values: values.update(measured=[{}]), r"measured\[0\]\.rows_per_s is missing"),
        (lambda values: values.update(model=None), "model is None, not text"),
        (lambda values: values.update(model="a\0b"), "damaged"),
        (lambda values: values.update(machine=[]), "machine is no object"),
        (lambda values: values.update(goal="speed"), "goal is 'speed'"),
        (lambda values: values.update(limits=["p99 < 5"]), "can't be read: write"),
        (lambda values: values.update(deadline_s=1e300), "deadline_s is 1e\\+300"),
        (lambda values: values["chosen"].update(p50_ms="1"), r"chosen\.p50_ms is '1'"),
        (lambda values: values["baseline"].update(rows_per_s=0), "rows_per_s is not above 0"),
        (lambda values: values["inputs"][0].update(dtype="float33"), "has the type 'float33'"),
        (lambda values: values.update(surprise=1), "surprise is not known"),
    ],
)
def test_damaged_plans_are_refused(plan, tmp_path, change, why):
    shutil.copytree(plan.folder, tmp_path / "plan")
    file = tmp_path / "plan" / "plan.json"
    values = json.loads(file.read_text())
    change(values)
    file.write_text(json.dumps(values))
    with pytest.raises(DeploymentError, match=why):
        read_deployment(tmp_path / "plan")


@given(st.data())
def test_a_plan_with_any_value_anywhere_is_read_and_told_or_refused(plan, data):
    values = place = json.loads((plan.folder / "plan.json").read_text())
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else [0]))
        if not (isinstance(place[key], dict | list) and place[key] and data.draw(st.booleans())):
            break
        place = place[key]
    place[key] = data.draw(ANY_VALUE)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "model").mkdir()
        (Path(folder) / "model" / "model.onnx").touch()
        (Path(folder) / "plan.json").write_text(json.dumps(values))
        try:
            read = read_deployment(folder)
        except DeploymentError as error:
            assert "\n" not in str(error)
        else:
            deployment_text(read)


@pytest.mark.parametrize("text", ["[1]", "[" * 100_000, "1" * 5000, '{"format":', ""])
def test_what_is_no_deployment_is_refused(tmp_path, text):
    (tmp_path / "plan.json").write_text(text)
    for path, why in ((tmp_path, "damaged"), (tmp_path / "none", "is no folder with a plan.json")):
        with pytest.raises(DeploymentError, match=why):
            read_deployment(path)


@pytest.mark.parametrize(
    ("options", "kind", "why"),
    [
        ({"goal": "speed"}, LimitError, "known: throughput, latency"),
        ({"limits": ["p99 < 5"]}, LimitError, "can't be read"),
        ({"cores": 10_000}, LimitError, "cores can't be used"),
        ({"most_rows": 0}, LimitError, "at least 1 row"),
        ({"cores": 1, "devices": "auto"}, LimitError, "leave cores away"),
        ({"output": "/proc/plan"}, DeploymentError, "can't write /proc/plan: No such file"),
    ],
)
def test_options_are_refused_before_anything_is_measured(tmp_path, monkeypatch, options, kind, why):
    monkeypatch.setattr(whole_model, "Crews", None)
    onnx.save(layer(), tmp_path / "model.onnx")
    with pytest.raises(kind, match=why):
        deploy(tmp_path / "model.onnx", **{"output": tmp_path / "plan", **options})
    assert not (tmp_path / "plan").exists()


def test_a_deployment_is_no_model(plan):
    with pytest.raises(ModelError, match=r"tensolog deploy wrote: name .*/model$"):
        deploy(plan.folder, plan.folder)


def test_a_model_whose_outputs_are_no_tensors_is_not_deployed(tmp_path):
    sequence = helper.make_tensor_sequence_value_info("y", FLOAT, None)
    graph = helper.make_graph(
        [node("SequenceConstruct", "x")],
        "small",
        [helper.make_tensor_value_info("x", FLOAT, FREE)],
        [sequence],
    )
    proto = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(proto, tmp_path / "model.onnx")
    with pytest.raises(ModelError, match="the output 'y' is no tensor"):
        deploy(tmp_path / "model.onnx", tmp_path / "plan")
    assert not (tmp_path / "plan").exists()


def test_the_cores_of_a_described_machine(tmp_path, capsys):
    file, model = tmp_path / "machine.toml", tmp_path / "model.onnx"
    onnx.save(layer(), model)
    rates = "memory_gib = 1\ngflops_per_s = 1\nmemory_gb_per_s = 1\n"
    file.write_text(f'[[device]]\nname = "host"\ncores = 9999\n{rates}')
    arguments = ["deploy", str(model), "--devices", str(file), "-o", str(tmp_path / "plan")]
    assert run(arguments) == 2
    assert "9999 cores can't be used" in capsys.readouterr().err
