"""What runs store in a catalog, and processes that hold one."""

import subprocess
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper
from tensolog.catalog.onnx.reader import read_model, store_model
from tensolog.catalog.store.constants import LARGE_BYTES

HOLD = """
import sys, time
from tensolog.catalog import Catalog
with Catalog(sys.argv[1], read_only=sys.argv[2] == "read"):
    print("open", flush=True)
    sys.stdin.readline()
"""


class Holder:
    """Another process that has the catalog open until it is told to end."""

    def __init__(self, path, mode):
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(path), mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self):
        assert self.process.stdout.readline() == "open\n"
        return self.process

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


DEVICE = (
    "INSERT INTO device (fingerprint, name, cores, memory_bytes, bandwidth_bytes_per_s, "
    "peak_flops_per_s) SELECT ?, 'n', 1, 1, 1.0, 1.0 "
    "WHERE ? NOT IN (SELECT fingerprint FROM device)"
)
MEASUREMENT = (
    "INSERT INTO measurement (device_id, kernel_hash, runtime, runtime_version, configuration, "
    "threads, median_ns, spread_ns, minimum_ns, samples, measured_at) "
    "SELECT device_id, ?, 'r', '1', 'all', 1, ?, 1.0, 1.0, 5, now()::TIMESTAMP "
    "FROM device WHERE fingerprint = ?"
)


def model_of(number):
    """A model with a subgraph, a shared small constant and a large one of its own."""
    branch = [
        helper.make_graph(
            [helper.make_node(op, ["x"], [name])],
            name,
            [],
            [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)],
        )
        for op, name in (("Relu", "then"), ("Neg", "other"))
    ]
    large = np.full(LARGE_BYTES // 4 + 1, number, np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("If", ["c"], ["b"], then_branch=branch[0], else_branch=branch[1]),
            helper.make_node("Add", ["b", "small"], ["s"]),
            helper.make_node("Add", ["s", "large"], ["y"]),
        ],
        "g",
        [
            helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [large.size]),
            helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [
            numpy_helper.from_array(np.ones(1, np.float32), "small"),
            numpy_helper.from_array(large, "large"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def run(catalog, number, kernels=("shared",), machine="here"):
    """Store what a run does: a model, one made of it, kernels and times, a rule, and a plan."""
    model_id = read_model(catalog, model_of(number), name=f"model {number}")
    derived_id = store_model(catalog, model_of(100 + number), parent_model_id=model_id)
    execute = catalog.connection.execute
    execute(DEVICE, [machine, machine])
    for kernel in kernels:
        execute("INSERT OR IGNORE INTO kernel VALUES (?, '', 'Add', 1, '', '', '')", [kernel])
        execute(MEASUREMENT, [kernel, float(number), machine])
    known = execute("SELECT 1 FROM rule WHERE rule_hash = 'rule'").fetchall()
    if not known:
        execute(
            "INSERT INTO rule (rule_hash, name, family, tag, equal, finite_math, summary, text) "
            "VALUES ('rule', 'R', 'f', 'always', 'exact', false, 's', 't')"
        )
        execute("INSERT INTO rule_source VALUES ('rule', 0, 'here')")
    plan_id = catalog.reserve("plan_sequence", 1)
    execute(
        "INSERT INTO plan SELECT ?, ?, ?, device_id, 't', 1, '{}', ?, now()::TIMESTAMP "
        "FROM device WHERE fingerprint = ?",
        [plan_id, model_id, derived_id, f"chosen {number}", machine],
    )
    execute("INSERT INTO plan_step VALUES (?, 0, 'R', ['n'], 1, 0, 2.0, 1.0, true, '')", [plan_id])
    execute(
        "INSERT INTO plan_candidate VALUES (?, 'c', 1, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 3, 'v')",
        [plan_id],
    )
    execute(
        "INSERT INTO plan_deviation VALUES (?, 'c', 'normal', 'y', 0.0, 0.0, 0.0, 1.0, true)",
        [plan_id],
    )
    return plan_id, model_id, derived_id
