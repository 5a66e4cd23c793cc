"""Limits of containers, on simulated trees of control groups of both versions."""

import pytest
from tensolog.profiles import machine
from tensolog.profiles.control_groups import (
    memory_left_bytes,
    memory_limit_bytes,
    processor_quota,
)


@pytest.fixture
def container(tmp_path):
    """Make the files that a process in a group sees; give the folder of its facts."""

    def make(files, *, group="/a/b", root="/", kind="cgroup2", controllers="", options="rw"):
        mount = tmp_path / "cgroup"
        for name, text in files.items():
            (mount / name).parent.mkdir(parents=True, exist_ok=True)
            (mount / name).write_text(text)
        process = tmp_path / "self"
        process.mkdir()
        (process / "cgroup").write_text(f"1:name=systemd:/x\n0:{controllers}:{group}\n")
        mounts = f"36 25 0:31 {root} {mount} rw,nosuid - {kind} cgroup {options}\n"
        (process / "mountinfo").write_text("22 1 8:1 / / rw - ext4 /dev/sda rw\n" + mounts)
        return process

    return make


def test_no_groups_no_limits(tmp_path):
    assert processor_quota(tmp_path) is None
    assert memory_limit_bytes(tmp_path) is None
    assert memory_left_bytes(tmp_path) is None


@pytest.mark.parametrize(
    ("inner", "outer", "quota"),
    [
        ("150000 100000", "max 100000", 1.5),
        ("max 100000", "max 100000", None),
        ("400000 100000", "50000 50000", 1.0),
        ("max 100000", "200000 100000", 2.0),
        ("nonsense", "200000 100000", 2.0),
    ],
)
def test_quotas_of_version_2_hold_for_all_within(container, inner, outer, quota):
    process = container({"a/b/cpu.max": inner, "a/cpu.max": outer})
    assert processor_quota(process) == quota


@pytest.mark.parametrize(("quota", "wanted"), [("250000", 2.5), ("-1", None), ("0", None)])
def test_quotas_of_version_1(container, quota, wanted):
    files = {"a/b/cpu.cfs_quota_us": quota, "a/b/cpu.cfs_period_us": "100000"}
    process = container(files, kind="cgroup", controllers="cpu,cpuacct", options="rw,cpu,cpuacct")
    assert processor_quota(process) == wanted


def test_a_group_that_is_mounted_as_the_root_of_a_container(container):
    process = container({"cpu.max": "100000 100000"}, group="/docker/abc", root="/docker/abc")
    assert processor_quota(process) == 1.0


def test_a_group_whose_path_is_that_outside_of_the_container(container):
    assert processor_quota(container({"cpu.max": "300000 100000"}, group="/outside")) == 3.0


def test_memory_of_version_2(container):
    stat = "anon 100\ninactive_file 300\n"
    files = {"a/b/memory.max": "1000", "a/b/memory.current": "700", "a/b/memory.stat": stat}
    process = container({**files, "a/memory.max": "max"})
    assert memory_limit_bytes(process) == 1000
    assert memory_left_bytes(process) == 600


@pytest.mark.parametrize(("limit", "wanted"), [("4096", 4096), ("9223372036854771712", None)])
def test_memory_of_version_1(container, limit, wanted):
    files = {"a/b/memory.limit_in_bytes": limit, "a/b/memory.usage_in_bytes": "5000"}
    process = container(files, kind="cgroup", controllers="memory", options="rw,memory")
    assert memory_limit_bytes(process) == wanted
    assert memory_left_bytes(process) == (None if wanted is None else 0)


@pytest.mark.parametrize(("quota", "wanted"), [(None, 4), (2.9, 2), (0.5, 1), (4.0, 4), (64.0, 4)])
def test_cores_are_those_of_the_mask_and_of_the_quota(monkeypatch, quota, wanted):
    monkeypatch.setattr(machine, "processors", lambda: (0, 1, 6, 7))
    monkeypatch.setattr(machine, "processor_quota", lambda: quota)
    assert machine.cores() == wanted


def test_free_memory_is_that_of_the_container(monkeypatch):
    monkeypatch.setattr(machine, "memory_left_bytes", lambda: 12345)
    assert machine.available_memory_bytes() == 12345
