"""Pipelines of layers that others measured: published costs, and all pipelines of small stacks."""

import itertools
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensolog.parallel.devices import Cluster, ClusterError, Device, Link
from tensolog.parallel.search.goals import PlanError
from tensolog.parallel.training import (
    LayerProfile,
    Pipeline,
    Run,
    Stage,
    best_pipeline,
    read_metis,
    step_time,
)

from tests.campaigns import examples

from .test_foreign_clusters import CLUSTER

GIB = float(2**30)
# Milliseconds that Metis published (results/homo_cost_model), 128 samples, two nodes of 4 A100:
# data parallelism, stages, tensor parallelism, samples of a microbatch.
PUBLISHED = {
    (8, 1, 1, 1): 5170.045852661133,
    (8, 1, 1, 2): 5120.061683654785,
    (4, 1, 2, 1): 5599.802732467651,
    (4, 1, 2, 2): 5235.779905319214,
    (4, 1, 2, 4): 5108.219289779663,
    (2, 1, 4, 1): 6529.066205024719,
    (2, 1, 4, 2): 5862.432599067688,
    (2, 1, 4, 4): 5455.013394355774,
    (4, 2, 1, 1): 5806.6301345825195,
    (4, 2, 1, 2): 5833.390808105469,
    (4, 2, 1, 4): 5963.6794090271,
    (2, 2, 2, 1): 6551.4080286026,
    (2, 2, 2, 2): 6076.225304603577,
    (2, 2, 2, 4): 6028.45242023468,
    (1, 2, 4, 1): 7683.549129962921,
    (1, 2, 4, 2): 6726.231300830841,
    (1, 2, 4, 4): 6305.326664447784,
}
needs_profiles = pytest.mark.skipif(
    not CLUSTER.exists(), reason="Metis' profiles do not lie beside the repository"
)


def machines(processors, nodes=1, memory=80.0, near=46.0, far=10.0):
    """Devices on nodes of equal size, bandwidths in GiB/s."""
    width = len(processors) // nodes
    devices = [
        Device(f"gpu{n}", "gpu", 1, int(memory * GIB), 1e13, 1e12, p, f"node{n // width}")
        for n, p in enumerate(processors)
    ]
    links = [
        Link(a.name, b.name, 0.0, (near if a.node == b.node else far) * GIB)
        for a, b in itertools.permutations(devices, 2)
    ]
    return Cluster("machines", tuple(devices), tuple(links))


def uniform(data, count, tensor, samples, layers=10, batch=128):
    """Megatron's pipeline: stages of about equal length, first and last ones by a layer longer."""
    share, more = divmod(layers - 2, count)
    lengths = [share + (0 < n <= more) + (n == 0) + (n == count - 1) for n in range(count)]
    ends = list(itertools.accumulate(lengths))
    width = data * tensor
    stages = [
        Stage(end - length, end, tuple(range(n * width, (n + 1) * width)), tensor)
        for n, (length, end) in enumerate(zip(lengths, ends, strict=True))
    ]
    return Pipeline(batch // samples // data, tuple(stages))


@needs_profiles
@pytest.mark.parametrize("plan", PUBLISHED, ids=str)
def test_published_costs_come_out(plan):
    cluster = machines(["A100"] * 8, nodes=2)
    taken = step_time(read_metis(CLUSTER), cluster, 128, uniform(*plan))
    assert taken.seconds * 1e3 == pytest.approx(PUBLISHED[plan], rel=1e-9)


@needs_profiles
def test_a_pipeline_takes_at_most_what_the_best_published_one_does():
    cluster = machines(["A100"] * 8, nodes=2)
    pipeline_ = best_pipeline(read_metis(CLUSTER), cluster, 128)
    assert pipeline_.exact
    assert pipeline_.time.seconds * 1e3 <= min(PUBLISHED.values()) * (1 + 1e-9)


def stack(layer_times, processors=("new", "old"), most=2, memory=1.0, activation=0.0):
    """A profile in which an older processor takes twice, and two devices 0.7 of the time of one."""
    runs = {}
    for factor, processor in enumerate(processors, 1):
        for tensor, samples in itertools.product((1, 2), range(1, most + 1)):
            share = factor * (0.7 if tensor == 2 else 1.0)
            times = tuple(share * (0.2 + samples * time) for time in layer_times)
            sizes = (memory * GIB / tensor * samples,) * len(times)
            runs[processor, tensor, samples] = Run(times, sizes, 0.1 * share)
    sizes = tuple(GIB * time for time in layer_times)
    return LayerProfile(sizes, runs, 0.5, 0.01, activation)


def every_pipeline(profile, cluster, batch):
    """All pipelines with stages on neighbours, in both orders of two processors."""
    numbers = range(len(cluster.devices))
    orders = {
        tuple(sorted(numbers, key=lambda n: cluster.devices[n].processor, reverse=reverse))
        for reverse in (False, True)
    }
    for order, count in itertools.product(orders, range(1, batch + 1)):
        if batch % count == 0:
            for stages in every_stages(profile, order, 0, batch // count):
                yield Pipeline(count, stages)


def every_stages(profile, free, first, samples):
    if first == profile.layers:
        yield ()
        return
    for end, tensor in itertools.product(range(first + 1, profile.layers + 1), (1, 2)):
        for groups in range(1, min(samples, len(free) // tensor) + 1):
            used = groups * tensor
            stage = Stage(first, end, free[:used], tensor)
            for others in every_stages(profile, free[used:], end, samples):
                yield (stage, *others)


@settings(max_examples=examples(60), deadline=None)
@given(
    times=st.lists(st.sampled_from([0.1, 1.0, 3.0]), min_size=1, max_size=3),
    processors=st.lists(st.sampled_from(["new", "old"]), min_size=2, max_size=4),
    batch=st.sampled_from([2, 3, 4]),
    memory=st.sampled_from([3.0, 80.0]),
    activation=st.sampled_from([0.0, GIB]),
)
def test_no_pipeline_takes_less_than_the_one_found(times, processors, batch, memory, activation):
    profile = stack(times, activation=activation)
    processors = sorted(processors)
    cluster = machines(processors, memory=memory)
    known = []
    for pipeline in every_pipeline(profile, cluster, batch):
        try:
            taken = step_time(profile, cluster, batch, pipeline)
        except ClusterError:  # not measured
            continue
        if max(taken.memory_bytes) <= memory * GIB:
            known.append(taken.seconds)
    if not known:
        with pytest.raises(PlanError, match="no pipeline of the layers fits"):
            best_pipeline(profile, cluster, batch)
        return
    pipeline_ = best_pipeline(profile, cluster, batch)
    assert pipeline_.exact
    assert pipeline_.time.seconds == pytest.approx(min(known), rel=1e-12)


def test_samples_are_divided_so_that_an_older_device_gets_fewer():
    """Of three samples the new one computes two, in the time of the older one's single one."""
    profile = stack([1.0], most=4)
    cluster = machines(["new", "old"])
    stage = Stage(0, 1, (0, 1))
    taken = step_time(profile, cluster, 3, Pipeline(1, (stage,)))
    assert taken.stages_s == (pytest.approx(max(0.2 + 2.0, 2 * (0.2 + 1.0))),)


@pytest.mark.parametrize(
    ("pipeline", "reason"),
    [
        (Pipeline(3, (Stage(0, 2, (0,)),)), "3 microbatches don't divide a batch of 4"),
        (Pipeline(2, (Stage(0, 1, (0,)),)), "don't hold the 2 layers"),
        (Pipeline(2, (Stage(0, 1, (0,)), Stage(1, 2, (0,)))), "share a device"),
        (Pipeline(2, (Stage(0, 2, (7,)),)), "name one that there is not"),
        (Pipeline(4, (Stage(0, 2, (0, 1, 2), 3),)), "were not measured"),
    ],
)
def test_what_is_no_pipeline_is_refused(pipeline, reason):
    with pytest.raises(ClusterError, match=reason):
        step_time(stack([1.0, 2.0]), machines(["new"] * 3), 4, pipeline)


def test_a_profile_of_other_processors_is_refused():
    with pytest.raises(ClusterError, match="measured on new, old, and no device"):
        best_pipeline(stack([1.0]), machines(["other"]), 2)


FACTS = {
    "model": {"parameters": {"parameters_per_layer_bytes": [4, 8]}},
    "execution_time": {
        "layer_compute_total_ms": [1, 2],
        "forward_backward_time_ms": 4,
        "optimizer_time_ms": 5,
        "batch_generator_time_ms": 0.5,
    },
    "execution_memory": {"layer_memory_total_mb": [1, 2]},
}


def write_profile(folder, facts=FACTS, name="DeviceType.A100_tp2_bs4.json"):
    (folder / name).write_text(json.dumps(facts))
    return folder


def test_a_profile_is_read(tmp_path):
    profile = read_metis(write_profile(tmp_path), activation_bytes=3.0)
    run = Run((0.001, 0.002), (2.0**20, 2.0**21), pytest.approx(0.001))
    assert profile == LayerProfile((4, 8), {("A100", 2, 4): run}, 0.02, 0.0005, 3.0)


def changed(path, value):
    facts = json.loads(json.dumps(FACTS))
    inner = facts
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return facts


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ([], "lacks execution_time.layer_compute_total_ms"),
        (changed(["execution_time", "layer_compute_total_ms"], 3), "is no list of numbers"),
        (changed(["execution_time", "layer_compute_total_ms"], [1, "x"]), "of at least 0: 'x'"),
        (changed(["execution_time", "optimizer_time_ms"], -1), "of at least 0: -1"),
        (changed(["execution_memory", "layer_memory_total_mb"], [1]), "2 times and 1 sizes"),
    ],
)
def test_a_damaged_profile_is_refused(tmp_path, facts, reason):
    with pytest.raises(ClusterError, match=reason):
        read_metis(write_profile(tmp_path, facts))


def test_a_file_that_is_no_json_is_named(tmp_path):
    (write_profile(tmp_path) / "DeviceType.A100_tp1_bs1.json").write_text("{")
    with pytest.raises(ClusterError, match=r"tp1_bs1.json is not JSON"):
        read_metis(tmp_path)


@pytest.mark.parametrize("name", [".", "nowhere"])
def test_a_folder_without_profiles_is_refused(tmp_path, name):
    with pytest.raises(ClusterError, match=r"holds no file like|can't be read"):
        read_metis(tmp_path / name)


def test_what_was_not_measured_as_a_whole_is_run_in_powers_of_two():
    profile = stack([1.0], most=2)
    assert profile.slices("new", 1, 3) == (profile.runs["new", 1, 1], profile.runs["new", 1, 2])
    lacking = replace(profile, runs={("new", 1, 2): profile.runs["new", 1, 2]})
    assert lacking.slices("new", 1, 3) is None
