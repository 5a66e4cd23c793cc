import math

import pytest
from tensolog.catalog import Catalog
from tensolog.profiles import machine
from tensolog.profiles.kernel import Kernel, TensorSpec
from tensolog.profiles.kernels.roofline import bound_ns, work
from tensolog.profiles.machine import Machine, identity, load_machine, machine_id


def test_the_machine_is_measured_once(tmp_path, monkeypatch):
    path = tmp_path / "catalog.duckdb"
    with Catalog(path) as catalog:
        first = load_machine(catalog)
        assert first.bandwidth > 1e8 and first.peak > 1e8 and first.cores >= 1
    for name in ("measure_bandwidth", "measure_peak"):
        monkeypatch.setattr(machine, name, lambda: pytest.fail("measured again"))
    with Catalog(path) as catalog:
        assert load_machine(catalog) == first
        assert machine_id(catalog) == first.device_id
        assert catalog.sql("SELECT count(*) FROM device").fetchall() == [(1,)]
    with Catalog(path, read_only=True) as catalog:
        assert load_machine(catalog) == first


def test_a_read_only_catalog_without_the_row(tmp_path, monkeypatch):
    path = tmp_path / "catalog.duckdb"
    Catalog(path).close()
    for name in ("measure_bandwidth", "measure_peak"):
        monkeypatch.setattr(machine, name, lambda: 1e9)
    with Catalog(path, read_only=True) as catalog:
        assert load_machine(catalog).device_id == -1


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_systems_that_tell_nothing(platform, monkeypatch):
    monkeypatch.setattr(machine.sys, "platform", platform)
    monkeypatch.setattr(machine, "_cpuinfo", dict)
    monkeypatch.setattr(machine.Path, "read_text", lambda *_, **__: (_ for _ in ()).throw(OSError))
    monkeypatch.delattr(machine.os, "sysconf", raising=False)
    monkeypatch.delattr(machine.os, "sched_getaffinity", raising=False)
    identity.cache_clear()
    try:
        here = identity()
        assert here.name and here.cores >= 1 and here.memory_bytes == 0
        assert len(here.fingerprint) == 32
        assert machine.available_memory_bytes() == 1 << 30
    finally:
        identity.cache_clear()


def test_the_fingerprint_tells_machines_apart():
    base = machine.Identity("cpu", 4, 8 << 30, "avx2")
    others = [
        machine.Identity("cpu 2", 4, 8 << 30, "avx2"),
        machine.Identity("cpu", 8, 8 << 30, "avx2"),
        machine.Identity("cpu", 4, 16 << 30, "avx2"),
        machine.Identity("cpu", 4, 8 << 30, "avx512f"),
    ]
    assert len({entry.fingerprint for entry in [base, *others]}) == 5
    # A kernel update changes the memory by a few pages; that is the same machine.
    assert machine.Identity("cpu", 4, (8 << 30) - 4096, "avx2").fingerprint == base.fingerprint


HERE = Machine(1, "a machine", 4, bandwidth=1e10, peak=1e11)
X = TensorSpec("float32", (2, 16, 32, 32))


def conv(group=1, dtype="float32"):
    weight = TensorSpec(dtype, (24, 16 // group, 3, 5), constant=True)
    attributes = {"group": group, "strides": [2, 1], "pads": [1, 2, 1, 2]}
    return Kernel("", "Conv", 18, attributes, (TensorSpec(dtype, X.shape), weight))


def multiplications(group):
    """Count those of a convolution one output element at a time."""
    count = 0
    for _ in range(2 * 24 * 16 * 32):  # n, output channels, height, width
        count += (16 // group) * 3 * 5
    return count


@pytest.mark.parametrize("group", [1, 4])
def test_convolutions_are_counted(group):
    done = work(conv(group))
    assert done.flops == 2 * multiplications(group)
    assert done.bytes == 4 * (2 * 16 * 32 * 32 + 24 * 16 // group * 15 + 2 * 24 * 16 * 32)


def test_matrix_products_are_counted():
    left, right = TensorSpec("float32", (5, 7, 8)), TensorSpec("float32", (8, 3), constant=True)
    assert work(Kernel("", "MatMul", 18, (), (left, right))).flops == 2 * 5 * 7 * 8 * 3
    left, right = TensorSpec("float32", (8, 7)), TensorSpec("float32", (3, 8), constant=True)
    gemm = Kernel("", "Gemm", 18, {"transA": 1, "transB": 1}, (left, right))
    assert work(gemm).flops == 2 * 7 * 8 * 3
    weight = TensorSpec("float32", (16, 3, 2, 2), constant=True)
    transposed = Kernel("", "ConvTranspose", 18, (), (X, weight))
    assert work(transposed).flops == 2 * math.prod(X.shape) * 3 * 2 * 2


def test_the_runtimes_own_operators_do_at_least_what_the_standard_ones_do():
    for domain, name in (("com.microsoft", "FusedConv"), ("com.microsoft.nchwc", "Conv")):
        plain = conv()
        runtime_kernel = Kernel(
            domain, name, 1, (*plain.attributes, ("activation", "Relu")), plain.inputs
        )
        assert work(runtime_kernel) == work(plain)
    left, right = TensorSpec("float32", (5, 8, 7)), TensorSpec("float32", (5, 3, 8))
    fused = Kernel("com.microsoft", "FusedMatMul", 1, {"transA": 1, "transB": 1}, (left, right))
    assert work(fused).flops == 2 * 5 * 7 * 8 * 3
    batches = Kernel("com.microsoft", "FusedMatMul", 1, {"transBatchA": 1}, (left, right))
    assert work(batches).flops == 0
    table = TensorSpec("float32", (30000, 768), constant=True)
    embed = Kernel("com.microsoft", "EmbedLayerNormalization", 1, (), (ints(1, 2), None, table))
    assert work(embed).bytes < table.size_bytes


def ints(*values):
    return TensorSpec("int64", (len(values),), True, values)


@pytest.mark.parametrize(
    ("kernel", "moved"),
    [
        (Kernel("", "Relu", 18, (), (X,)), 2 * X.size_bytes),
        (Kernel("", "Reshape", 18, (), (X, ints(-1))), 0),
        (Kernel("", "Relu", 18, (), (TensorSpec("float32", (9,), True),)), 0),
        (Kernel("", "Shape", 18, (), (X,)), 4 * 8),
        (Kernel("", "Slice", 18, (), (X, ints(0), ints(1), ints(0))), X.size_bytes + 24),
        (
            Kernel(
                "",
                "Gather",
                18,
                (),
                (TensorSpec("float32", (1000, 8), True), TensorSpec("int64", (5,))),
            ),
            2 * 5 * 8 * 4 + 5 * 8,
        ),
        (Kernel("my", "Op", 1, (), (X,)), X.size_bytes),
        (Kernel("", "If", 18, (), (TensorSpec("bool", ()),)), 0),
    ],
)
def test_bytes_that_must_move(kernel, moved):
    assert work(kernel).bytes == moved
    assert bound_ns(kernel, HERE) == pytest.approx(moved / 1e10 * 1e9)


def test_the_bound_is_the_larger_of_both_and_falls_with_threads():
    done = work(conv())
    assert bound_ns(conv(), HERE) == pytest.approx(max(done.bytes / 10, done.flops / 125))
    assert bound_ns(conv(), HERE, 2) == pytest.approx(bound_ns(conv(), HERE) / 2)
    assert bound_ns(conv(), HERE, 64) == pytest.approx(bound_ns(conv(), HERE) / 4)  # 4 cores
    assert bound_ns(conv(dtype="float16"), HERE) == pytest.approx(bound_ns(conv(), HERE) / 2)
