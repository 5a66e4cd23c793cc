"""Weights pass by the memory: reading and writing costs far less than the model's size."""

import subprocess
import sys

import pytest

MEASURE = """
import sys
from pathlib import Path
import numpy as np
import onnx
from onnx import TensorProto, helper
from tensolog.catalog import Catalog
from tensolog.catalog.onnx.reader import read_model, store_model
from tensolog.catalog.onnx.writer import build_model, skeleton_model, write_model

folder, count, size, outside = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
shape = [size // 4096, 1024]


def memory(field):
    for line in open("/proc/self/status"):
        if line.startswith(field):
            return int(line.split()[1]) * 1024


def restart_peak():
    # getrusage would count what the parent process used before exec.
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


def make(path):
    # Written piece by piece, for the peak must not be that of making the model.
    nodes = [helper.make_node("Add", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(count)]
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "g", [value("x0")], [value(f"x{count}")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    weight = np.zeros(size // 4, np.float32)
    with open(path, "wb") as file, open(folder / "weights.bin", "wb") as side:
        if outside == "outside":
            for i in range(count):
                tensor = model.graph.initializer.add(name=f"w{i}", data_type=1, dims=shape)
                tensor.data_location = TensorProto.EXTERNAL
                for key, text in (("location", "weights.bin"), ("offset", i * size)):
                    tensor.external_data.add(key=key, value=str(text))
                weight[:] = i
                side.write(weight.tobytes())
        file.write(model.SerializeToString())
        if outside == "inline":  # graphs in pieces are merged
            for i in range(count):
                weight[:] = i
                part = onnx.ModelProto()
                part.graph.initializer.add(
                    name=f"w{i}", data_type=1, dims=shape, raw_data=weight.tobytes()
                )
                file.write(part.SerializeToString())


make(folder / "in.onnx")
with Catalog(folder / "catalog.duckdb") as catalog:
    small = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
    )
    write_model(catalog, read_model(catalog, small), folder / "small.onnx")
    before = restart_peak()
    model_id = read_model(catalog, folder / "in.onnx")
    reading = memory("VmHWM") - before
    changed = store_model(catalog, skeleton_model(catalog, model_id), parent_model_id=model_id)
    candidate = build_model(catalog, changed, large_constants=folder / "side.bin")
    assert candidate.ByteSize() < 1 << 20
    write_model(catalog, changed, folder / "out.onnx")
    print(reading, memory("VmHWM") - before)
stored = (folder / "catalog.duckdb").stat().st_size
assert stored < 16 << 20, stored
"""


def growth(folder, count, size, place):
    result = subprocess.run(
        [sys.executable, "-c", MEASURE, str(folder), str(count), str(size), place],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    reading, all_of_it = map(int, result.stdout.split())
    written = sum(file.stat().st_size for file in folder.glob("out.onnx*"))
    assert written >= count * size
    return reading, all_of_it


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("place", ["inline", "outside"])
def test_forty_megabytes_pass_by_the_memory(place, tmp_path):
    reading, all_of_it = growth(tmp_path, 10, 4 << 20, place)
    assert reading < 20 << 20
    assert all_of_it < 30 << 20


IN_MEMORY = """
import sys
from pathlib import Path
import numpy as np
import onnx
from tensolog.catalog import Catalog
from tensolog.catalog.onnx.reader import read_model
from tensolog.catalog.onnx.writer import write_model

def memory(field):
    for line in open("/proc/self/status"):
        if line.startswith(field):
            return int(line.split()[1]) * 1024

model = onnx.ModelProto(ir_version=8)
model.opset_import.add(version=17)
for i in range(10):
    model.graph.initializer.add(
        name=f"w{i}", data_type=1, dims=[1 << 20], raw_data=np.full(1 << 20, i, "f4").tobytes()
    )
with Catalog(sys.argv[1]) as catalog:
    Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS")
    write_model(catalog, read_model(catalog, model), sys.argv[2])
    print(memory("VmHWM") - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_model_in_memory_is_not_copied(tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", IN_MEMORY, str(tmp_path / "c.duckdb"), str(tmp_path / "out.onnx")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "out.onnx").stat().st_size > 40 << 20
    assert int(result.stdout) < 30 << 20


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("place", "count"), [("inline", 96), ("outside", 96), ("outside", 160)])
def test_gigabytes_pass_by_the_memory(place, count, tmp_path, record_property):
    """1.5 GB in the file and outside, and 2.5 GB, more than one ONNX file can hold."""
    reading, all_of_it = growth(tmp_path, count, 16 << 20, place)
    record_property(
        "summary",
        f"model of {count * 16} MiB ({place}): peak memory grew by {reading >> 20} MiB to read, "
        f"{all_of_it >> 20} MiB to read, store, build and write",
    )
    assert reading < 60 << 20
    assert all_of_it < 80 << 20
