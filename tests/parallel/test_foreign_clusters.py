"""Descriptions of machines of other planners, where they lie beside the repository."""

from pathlib import Path

import pytest
from tensolog.parallel import plan
from tensolog.parallel.devices import ClusterError, Device
from tensolog.parallel.foreign_clusters import read_flexflow, read_galvatron

from .models import transformer

CLUSTER = Path(__file__).resolve().parents[3] / "shared" / "data" / "cluster"
GPU = Device("gpu", "gpu", 1, 16 << 30, 15e12, 9e11)

MACHINE = """
num_nodes = 2
num_sockets_per_node = 2
num_cpus_per_socket = 10
num_gpus_per_socket = 2   # of each
nic_latency = 0.5
nic_bandwidth = 10
nic_persocket = 0
pci_latency = 1
pci_bandwidth = 12
nvlink_latency = 0.25
nvlink_bandwidth = 20
intra_socket_gpu_fb_mem_to_gpu_fb_mem = nvlink
inter_socket_gpu_fb_mem_to_gpu_fb_mem = nvlink
inter_node_gpu_fb_mem_to_gpu_fb_mem = pci_to_host nic pci_to_dev
"""


@pytest.fixture
def machine(tmp_path):
    def written(text):
        path = tmp_path / "machine.txt"
        path.write_text(text)
        return path

    return written


def test_a_machine_of_flexflow(machine):
    cluster = read_flexflow(machine(MACHINE), GPU)
    assert len(cluster.devices) == 8
    first, second, far = (cluster.devices[n].name for n in (0, 3, 7))
    near = cluster.link(first, second)
    assert (near.latency_s, near.bytes_per_s, near.wire) == (0.25e-3, 20e9, "")
    away = cluster.link(first, far)
    assert (away.latency_s, away.bytes_per_s) == (2.5e-3, 10e9)
    assert away.wire == cluster.link(second, far).wire != cluster.link(far, first).wire
    by_socket = read_flexflow(machine(MACHINE.replace("persocket = 0", "persocket = 1")), GPU)
    assert by_socket.link(first, far).wire != by_socket.link(second, far).wire


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("num_nodes = 2", "", "lacks num_nodes"),
        ("nic_latency = 0.5", "nic_latency = fast", "nic_latency is no number: fast"),
        ("inter_node_gpu", "inter_gpu", "lacks inter_node_gpu"),
    ],
)
def test_what_a_machine_lacks_is_told(machine, old, new, message):
    with pytest.raises(ClusterError, match=message):
        read_flexflow(machine(MACHINE.replace(old, new)), GPU)


@pytest.mark.skipif(not CLUSTER.is_dir(), reason="needs the data of other planners")
def test_shipped_descriptions_are_read_as_they_are():
    flexflow = read_flexflow(CLUSTER / "flexflow_machine_config.txt", GPU)
    assert len(flexflow.devices) == 8
    one_node = read_galvatron(
        CLUSTER / "galvatron_allreduce_bandwidth_1nodes_8gpus_per_node.json", GPU
    )
    assert {link.bytes_per_s for link in one_node.links} == {138.156e9}
    two_nodes = read_galvatron(
        CLUSTER / "galvatron_allreduce_bandwidth_2nodes_8gpus_per_node.json", GPU
    )
    assert len(two_nodes.devices) == 16
    assert two_nodes.link("node0/gpu0", "node1/gpu0").bytes_per_s == pytest.approx(8.13007e9)
    with pytest.raises(ClusterError, match="lacks allreduce_size_2_consec_1"):
        read_galvatron(CLUSTER / "galvatron_p2p_bandwidth_1nodes_8gpus_per_node.json", GPU)


@pytest.mark.skipif(not CLUSTER.is_dir(), reason="needs the data of other planners")
def test_plans_on_flexflows_machine_are_no_worse_than_the_usual_ones():
    devices = read_flexflow(CLUSTER / "flexflow_machine_config.txt", GPU)
    model = transformer(1, tokens=512, width=1024, heads=16, inner=4096, data=False)
    for goal in ("latency", "throughput"):
        chosen_plan = plan(model, devices, goal=goal, prove=False)
        assert chosen_plan.score.goal <= min(chosen_plan.compared.values())
