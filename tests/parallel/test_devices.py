"""Descriptions of devices: what is read is what was meant, and what isn't understood is told."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensolog.catalog import Catalog
from tensolog.parallel.device_rows import load_cluster, store_cluster
from tensolog.parallel.devices import (
    Cluster,
    ClusterError,
    Device,
    Link,
    parse_cluster,
    read_cluster,
    to_toml,
)

RATES = "memory_gib = 2\ngflops_per_s = 100\nmemory_gb_per_s = 10\n"
ONE = f'[[device]]\nname = "a"\n{RATES}'
TWO = ONE + f'[[device]]\nname = "b"\n{RATES}'
LINK = "[[link]]\nlatency_us = 5\ngb_per_s = 2\n"


def test_devices_of_nodes_and_their_links():
    cluster = parse_cluster(
        f"""
        name = "two nodes"
        [[device]]
        name = "gpu"
        nodes = 2
        count = 2
        kind = "gpu"
        processor = "a100"
        {RATES}
        [[link]]
        same_node = true
        latency_us = 2
        gb_per_s = 300
        [[link]]
        latency_us = 10
        gb_per_s = 12.5
        shared = true
        """
    )
    names = ["node0/gpu0", "node0/gpu1", "node1/gpu0", "node1/gpu1"]
    assert [device.name for device in cluster.devices] == names
    assert {device.memory_bytes for device in cluster.devices} == {2 << 30}
    assert len({device.model for device in cluster.devices}) == 1
    near, far = cluster.link(names[0], names[1]), cluster.link(names[0], names[2])
    assert (near.latency_s, near.bytes_per_s, near.wire) == (2e-6, 3e11, "")
    assert far.seconds(12.5e9) == pytest.approx(1 + 10e-6)
    assert far.wire and far.wire == cluster.link(names[1], names[3]).wire
    assert far.wire != cluster.link(names[2], names[0]).wire
    assert len(cluster.links) == 12


def test_the_first_link_that_fits_counts():
    first = '[[link]]\nbetween = ["a", "*"]\nlatency_us = 1\ngb_per_s = 1\n'
    cluster = parse_cluster(TWO + f'[[device]]\nname = "c"\n{RATES}' + first + LINK)
    assert cluster.link("b", "a").latency_s == pytest.approx(1e-6)
    assert cluster.link("b", "c").latency_s == pytest.approx(5e-6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no device: add a"),
        ("[[device]", "is not TOML"),
        ("[device]\nname = 'a'", r"write \[\[device\]\]"),
        ("[[device]]\n" + RATES, "has no name"),
        (ONE + ONE, "two devices are named a"),
        (ONE.replace("gflops_per_s = 100", ""), "the device a lacks gflops_per_s"),
        (ONE.replace("= 100", "= 0"), "the device a: gflops_per_s is 0: .* above 0"),
        (ONE.replace("= 100", "= -1"), "gflops_per_s is -1"),
        (ONE.replace("= 100", "= nan"), "gflops_per_s is nan"),
        (ONE.replace("= 100", "= true"), "gflops_per_s is no number"),
        (ONE + "flops_per_s = 1\n", "both flops_per_s and gflops_per_s"),
        (ONE + "cores = 0\n", "cores is no whole number of at least 1"),
        (ONE + "colour = 1\n", "says colour, which is none of"),
        (ONE + "count = 100000\n", "more than 512 devices"),
        (ONE + "kind = 1\n", "kind is no text"),
        (ONE + LINK.replace("5", "-5"), "latency_us is -5"),
        (TWO + LINK.replace("= 2", "= 0"), "gb_per_s is 0"),
        (ONE + LINK + 'between = ["x", "a"]\n', "no device is named x"),
        (ONE + LINK + 'between = ["a"]\n', "is no pair of names"),
        (ONE + LINK + 'source = "a"\ntarget = "z"\n', "names the device z"),
        (ONE + LINK + "shared = 1\n", "neither true nor false"),
        (f"cores = {'9' * 5000}", "is not TOML: Exceeds the limit"),
        (f"name = {'[' * 5000}", "is not TOML: maximum recursion"),
        (ONE + f"cores = {'9' * 30}\n", "cores is no whole number"),
        (ONE.replace("= 100", f"= {'9' * 400}"), "gflops_per_s is inf"),
        (ONE.replace("memory_gib = ", "memory_gib = 9e15"), "bytes of memory: too many"),
    ],
)
def test_what_is_not_understood_is_told(text, message):
    with pytest.raises(ClusterError, match=message) as error:
        parse_cluster(text, "devices.toml")
    assert str(error.value).count("\n") == 0


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ClusterError, match=r"none\.toml can't be read: No such file"):
        read_cluster(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(ClusterError, match="no text in UTF-8"):
        read_cluster(tmp_path / "bytes.toml")


def test_a_pair_without_link_is_told():
    with pytest.raises(ClusterError, match=r"no link leads from a to b: add a \[\[link\]\]"):
        parse_cluster(TWO).link("a", "b")


RATE = st.floats(1e-9, 1e18)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)


@st.composite
def clusters(draw):
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    scheduler = draw(st.sampled_from(["", "tcp://10.0.0.1:8786"]))
    devices = tuple(
        Device(
            name,
            kind=draw(NAMES),
            cores=draw(st.integers(1, 99)),
            memory_bytes=draw(st.integers(1, 2**50)),
            flops_per_s=draw(RATE),
            memory_bytes_per_s=draw(RATE),
            processor=draw(st.sampled_from(["", "avx2"])),
            node=draw(st.sampled_from(["", "n"])),
            launch_s=draw(RATE),
            fingerprint=draw(st.sampled_from(["", "f"])),
            stage_s=draw(st.sampled_from([0.0, 1e-5])),
            contention_s_per_byte=draw(st.sampled_from([0.0, 1e-11])),
            address=scheduler and draw(NAMES),
        )
        for name in names
    )
    pairs = [(a, b) for a in names for b in names if a != b]
    linked = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    links = tuple(
        Link(*pair, draw(RATE), draw(RATE), draw(st.text("w", max_size=1))) for pair in linked
    )
    return Cluster(draw(NAMES), devices, links, scheduler)


@given(clusters())
def test_what_is_written_is_read(cluster):
    assert parse_cluster(to_toml(cluster)) == cluster


def test_the_catalog_keeps_clusters():
    stages = f"{ONE}stage_us = 12\ncontention_ps_per_byte = 15\n{TWO.removeprefix(ONE)}"
    cluster = parse_cluster(stages + LINK, "pair.toml")
    assert cluster.devices[0].stage_s == pytest.approx(12e-6)
    assert cluster.devices[0].contention_s_per_byte == pytest.approx(15e-12)
    other = dataclasses.replace(cluster, name="other")
    with Catalog(":memory:") as catalog:
        for _ in range(2):
            assert store_cluster(catalog, cluster) == cluster.hash
        store_cluster(catalog, other)
        assert load_cluster(catalog, "pair") == cluster
        assert load_cluster(catalog, other.hash[:12]) == other
        assert catalog.sql("SELECT count(*) FROM device").fetchall() == [(4,)]
        assert catalog.sql("SELECT count(*) FROM link").fetchall() == [(4,)]
        with pytest.raises(ClusterError, match="has no cluster third"):
            load_cluster(catalog, "third")
