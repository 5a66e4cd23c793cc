"""Models of parts: run stage by stage, or by processes, they compute what the whole model does."""

import json
import os
import random
import shutil
import signal
from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tensolog.parallel.deployment.deployment import DeploymentError, read_deployment
from tensolog.parallel.deployment.settings import Setting
from tensolog.parallel.partitioner import part
from tensolog.parallel.runnable_plan import CALLER, Partition
from tensolog.parallel.search.goals import PlanError
from tensolog.parallel.search.pipelines import staged
from tensolog.parallel.serving import pool as pool_module
from tensolog.parallel.serving.instance import Start
from tensolog.parallel.serving.pool import ClosedError, FeedError
from tensolog.parallel.serving.process import InstanceError, RunError
from tensolog.parallel.serving.worker_group import WorkerGroup, starts_of
from tensolog.parallel.simulation.placement import whole_on
from tensolog.parallel.typed_values import read_as

from tensolog import open_parallel

from .models import Builder, perceptron, problem, random_graph, random_plan, space, transformer
from .plans import deployed, unpinned
from .test_materialized import inputs_of, run

posix = pytest.mark.skipif(os.name == "nt", reason="instances need a POSIX system")


def run_stages(parted, feeds):
    """Run the models of stages one after the other, in their order; outputs put together."""
    partition_, models = parted.partition, parted.models
    known = {number: feeds[partition_.tensors[number].name] for number in partition_.inputs}
    done = {CALLER}
    for number, stage in enumerate(partition_.stages):
        assert set(stage.after) <= done
        inputs = {partition_.tensors[n].name: known[n] for n in stage.reads}
        names = [partition_.tensors[n].name for n in stage.gives]
        results = dict(zip(names, run(models[stage.model], inputs), strict=True))
        for n in stage.gives:
            tensor = partition_.tensors[n]
            assert tensor.owner == stage.device
            assert results[tensor.name].shape == tensor.shape
            known[n] = results[tensor.name]
        done.add(number)
    outputs = {}
    for output in partition_.outputs:
        whole = np.zeros(output.shape, output.dtype)
        covered = np.zeros(output.shape, int)
        for piece in output.pieces:
            array = known[piece.tensor]
            place = tuple(map(slice, piece.begin, np.add(piece.begin, array.shape).tolist()))
            whole[place] = array
            covered[place] += 1
        assert (covered == 1).all()
        outputs[output.name] = whole
    return outputs


def agree(model, outputs):
    for info, expected in zip(model.graph.output, run(model, inputs_of(model)), strict=True):
        np.testing.assert_allclose(outputs[info.name], expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("seed", range(500))
def test_stages_of_random_plans_of_random_graphs(seed):
    source = random.Random(seed)
    model = random_graph(source.randrange, 6)
    space_ = space(model, 1 + source.randrange(4))
    parted = part(space_.problem, random_plan(source.randrange, space_))
    agree(model, run_stages(parted, inputs_of(model)))
    again = read_as(Partition, json.loads(json.dumps(parted.partition.to_json())))
    assert again == parted.partition


def pipeline(model, devices):
    problem_ = problem(model, devices)
    plan = [whole_on(0)] * len(problem_.workload.operators)
    blocks = [(device,) for device in range(devices)]
    return part(problem_, staged(plan, [1.0] * len(plan), blocks), f"pipeline of {devices}")


def test_a_pipeline_has_a_stage_for_each_device():
    parted = pipeline(transformer(2), 3)
    assert [stage.device for stage in parted.partition.stages] == [0, 1, 2]
    agree(transformer(2), run_stages(parted, inputs_of(transformer(2))))


def test_what_another_device_waits_for_is_not_kept_back():
    """x gives a, which both devices go on from: the other one need not wait for this one's half."""
    build = Builder()
    x = build.input(2, 4)
    a = build.node("Relu", x, shape=(2, 4))
    b = build.node("Abs", a, shape=(2, 4))
    c = build.node("Neg", a, shape=(2, 4))
    model = build.model(build.node("Add", b, c, shape=(2, 4)))
    parted = part(problem(model, 2), tuple(map(whole_on, (0, 0, 1, 0))))
    ran = [
        [node.op_type for node in parted.models[s.model].graph.node]
        for s in parted.partition.stages
    ]
    assert ran == [["Relu"], ["Abs"], ["Neg"], ["Add"]]
    agree(model, run_stages(parted, inputs_of(model)))


def test_slices_of_weights_alone_are_in_a_part():
    space_ = space(perceptron(8, 64, 1), 2)
    cut = next(cut for cut in space_.cuts[0] if cut.kind == "parameter")
    config = next(c for c in space_.divisions(0, (0, 1)) if c.cuts == ((cut, 2),))
    parted = part(space_.problem, (config, whole_on(0)))
    sizes = [
        [
            numpy_helper.to_array(entry).size
            for entry in parted.models[stage.model].graph.initializer
        ]
        for stage in parted.partition.stages
    ]
    assert sorted(size for stage in sizes for size in stage if size > 8) == [2048, 2048]
    agree(perceptron(8, 64, 1), run_stages(parted, inputs_of(perceptron(8, 64, 1))))


def test_outputs_that_no_operator_gives():
    """An input, and a constant, are outputs as well."""
    build = Builder()
    x, w = build.input(2, 3), build.weight(2, 3)
    model = build.model(build.node("Relu", x, shape=(2, 3)))
    for name in (x, w):
        model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, (2, 3)))
    parted = part(problem(model, 1), (whole_on(0),))
    feeds = inputs_of(model)
    outputs = run_stages(parted, feeds)
    np.testing.assert_array_equal(outputs[x], feeds[x])
    np.testing.assert_array_equal(outputs[w], numpy_helper.to_array(model.graph.initializer[0]))


def test_strings_are_refused():
    node = helper.make_node("Identity", ["x"], ["y"])
    slots = [helper.make_tensor_value_info(name, TensorProto.STRING, (2,)) for name in "xy"]
    graph = helper.make_graph([node], "strings", slots[:1], slots[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    with pytest.raises(PlanError, match="is of type string, which can't be passed"):
        part(problem(model, 1), (whole_on(0),))


# ---- by processes


def group_of(parted, folder, slots=2, **limits):
    """Start processes for a partition, pinned nowhere."""
    parted.write(folder)
    start = Start(folder / "model.onnx", 1, **limits)
    places = [()] * len(parted.partition.devices)
    return WorkerGroup(parted.partition, starts_of(parted.partition, start, places), slots)


@posix
@pytest.mark.parametrize("seed", range(3))
def test_processes_compute_what_the_whole_model_does(tmp_path, seed):
    source = random.Random(seed)
    model = random_graph(source.randrange, 8)
    space_ = space(model, 2 + seed % 2)
    group = group_of(part(space_.problem, random_plan(source.randrange, space_)), tmp_path)
    try:
        group.ready()
        lanes = group.lanes()
        for number in range(4):
            feeds = inputs_of(model, number)
            outputs = lanes[number % 2].run({k: [v] for k, v in feeds.items()}, 20)
            expected = run(model, feeds)
            for info, array in zip(model.graph.output, expected, strict=True):
                np.testing.assert_allclose(outputs[info.name], array, rtol=2e-4, atol=2e-5)
    finally:
        group.close()


@posix
def test_a_partition_larger_than_the_arguments_of_a_command(tmp_path):
    """Those have room for 128 KiB on Linux."""
    parted = pipeline(perceptron(4, 16, 1), 2)
    first, *others = parted.partition.stages
    long = replace(first, operators="MatMul " * 40_000)
    parted = replace(parted, partition=replace(parted.partition, stages=(long, *others)))
    group = group_of(parted, tmp_path)
    try:
        group.ready()
        feeds = inputs_of(perceptron(4, 16, 1))
        (output,) = group.lane(0).run({k: [v] for k, v in feeds.items()}, 20).values()
        np.testing.assert_allclose(
            output, run(perceptron(4, 16, 1), feeds)[0], rtol=2e-4, atol=2e-5
        )
    finally:
        group.close()


@pytest.fixture(autouse=True)
def cores_enough(monkeypatch):
    """Have two workers on machines with one core, too."""
    monkeypatch.setattr(pool_module, "claim_processors", unpinned)


def guarded():
    """x / y, then rows of it: the first stage may end its process, the second may refuse."""
    slots = {"x": (4,), "y": (4,), "rows": (2,), "z": (2,)}
    infos = [helper.make_tensor_value_info(n, TensorProto.INT64, s) for n, s in slots.items()]
    nodes = [
        helper.make_node("Div", ["x", "y"], ["q"], name="divide"),
        helper.make_node("Gather", ["q", "rows"], ["z"], name="pick"),
    ]
    graph = helper.make_graph(nodes, "guarded", infos[:3], infos[3:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def request(number, y=2, rows=(3, 0)):
    x = np.arange(4) + number
    return {"x": x, "y": np.full(4, y), "rows": np.array(rows)}


def answer(number):
    return (np.arange(4) + number)[[3, 0]] // 2


POISON = {"x": np.full(4, np.iinfo(np.int64).min), "y": np.full(4, -1), "rows": np.zeros(2, int)}


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    parted = pipeline(guarded(), 2)
    folder = tmp_path_factory.mktemp("plan")
    return deployed(guarded(), folder, Setting(1, 1, 4), queue=16, parted=parted)


def ask_all(session, count, then=lambda number: None):
    """Submit requests, waiting for room; how often each was answered, and with what."""
    answered, futures = [0] * count, []

    def counting(number):
        def count_one(_):
            answered[number] += 1

        return count_one

    for number in range(count):
        future = session.submit(request(number))
        future.add_done_callback(counting(number))
        futures.append(future)
        then(number)
    for number, future in enumerate(futures):
        np.testing.assert_array_equal(future.result(60)["z"], answer(number))
    assert answered == [1] * count


@posix
def test_a_pipeline_answers_and_refuses(plan):
    with open_parallel(plan) as session:
        assert len(session.pids) == 2 and session.is_alive
        ask_all(session, 300)
        # A stage that refuses fails its request, and no other one.
        with pytest.raises(RunError, match="pick"):
            session.run(request(1, rows=(9, 0)))
        np.testing.assert_array_equal(session.run(request(7))[0], answer(7))
        with pytest.raises(FeedError, match=r"has the shape \[3\]"):
            session.run({**request(0), "x": np.arange(3)})
        assert session.restarts == 0
    with pytest.raises(ClosedError):
        session.run(request(0))


@posix
def test_a_worker_killed_in_the_midst_of_a_pipeline(plan):
    """Every request is answered, none twice, and right; the workers are replaced."""
    with open_parallel(plan) as session:
        first = session.pids

        def kill(number):
            if number == 100:
                os.kill(first[1], signal.SIGKILL)

        ask_all(session, 200, kill)
        assert session.restarts == 1 and not set(session.pids) & set(first)


@posix
def test_a_worker_that_hangs_is_replaced(plan):
    with open_parallel(plan, deadline_s=1.0) as session:
        os.kill(session.pids[0], signal.SIGSTOP)
        np.testing.assert_array_equal(session.run(request(3))[0], answer(3))
        assert session.restarts == 1


@posix
def test_what_ends_workers_ends_with_an_error_and_takes_no_other_along(plan):
    with open_parallel(plan) as session:
        fatal = session.submit(POISON)
        ask_all(session, 30)
        with pytest.raises(InstanceError, match="by signal"):
            fatal.result(60)


@posix
def test_stages_that_are_missing_are_told(plan, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(plan.folder, broken)
    (broken / "model" / "stage1.onnx").unlink()
    with pytest.raises(DeploymentError, match=r"stage1\.onnx', which is missing"):
        read_deployment(broken)


@posix
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda saved: saved["stages"][0].update(device=7), "names a device that there is not: 7"),
        (
            lambda saved: saved["stages"][1].update(reads=[99]),
            "names a tensor that there is not: 99",
        ),
        (lambda saved: saved["stages"][1].update(after=[5]), "names a stage that there is not: 5"),
        (lambda saved: saved.update(threads=[1]), "differ in number"),
        (lambda saved: saved["outputs"][0].update(name="q"), "its partition is of another model"),
        (lambda saved: saved.pop("tensors"), "partition.tensors is missing"),
    ],
)
def test_damaged_partitions_are_refused(plan, tmp_path, change, message):
    broken = tmp_path / "broken"
    shutil.copytree(plan.folder, broken)
    values = json.loads((broken / "plan.json").read_text())
    change(values["partition"])
    (broken / "plan.json").write_text(json.dumps(values))
    with pytest.raises(DeploymentError, match="is damaged") as error:
        read_deployment(broken)
    assert message in str(error.value)
