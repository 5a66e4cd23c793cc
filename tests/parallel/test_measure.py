"""This machine measured: rates that can be, and rows of them."""

import json
import os

import pytest
from tensolog.catalog import Catalog
from tensolog.parallel import measure as measure_module
from tensolog.parallel.device_rows import load_cluster
from tensolog.parallel.devices import ClusterError, read_cluster
from tensolog.parallel.measure import measure_machine

from tensolog.cli import run

pytestmark = pytest.mark.skipif(os.name == "nt", reason="instances need a POSIX system")


def test_this_machine_becomes_rows_and_a_file(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(measure_module, "_SECONDS", 0.02)
    path, file = tmp_path / "c.duckdb", tmp_path / "here.toml"
    arguments = ["devices", "measure", "-q", "--json", "--catalog", str(path), "-o", str(file)]
    assert run(arguments) == 0
    printed = json.loads(capsys.readouterr().out)
    cluster = read_cluster(file)
    assert cluster.hash == printed["cluster_hash"]
    for device in cluster.devices:
        assert device.cores == 1 and device.memory_bytes > 0
        assert device.flops_per_s > 1e8 and device.memory_bytes_per_s > 1e7
        assert 0 <= device.launch_s < 0.01 and 0 <= device.stage_s < 1
        assert 0 <= device.contention_s_per_byte < 1e-6
    count = len(cluster.devices)
    assert len(cluster.links) == count * (count - 1)
    for link in cluster.links:
        assert 0 < link.latency_s < 1 and link.bytes_per_s > 1e6
    with Catalog(path, read_only=True) as catalog:
        assert load_cluster(catalog, "this machine").devices == cluster.devices


@pytest.mark.parametrize(("processes", "threads"), [(9, None), (None, 9), (2, 4)])
def test_no_more_cores_than_there_are(monkeypatch, processes, threads):
    monkeypatch.setattr(measure_module, "usable_cores", lambda: 4)
    with pytest.raises(ClusterError, match="more than the 4 cores"):
        measure_machine(processes, threads)
