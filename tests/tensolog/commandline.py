"""The command line from outside, and a model to give it."""

import os
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto, helper, numpy_helper

# A command that tells of every phase, not of one each few seconds.
TALKATIVE = (
    "import sys\nfrom tensolog import cli, progress\n"
    "progress.PLAIN_INTERVAL_S = 0.0\ncli.main(sys.argv[1:])"
)


@dataclass
class Outcome:
    code: int
    out: str
    err: str

    def refused(self):
        """One clear line, exit code 2, nothing on standard output; give the line."""
        assert self.code == 2, self.err
        assert self.out == ""
        lines = self.err.splitlines()
        assert "Traceback" not in self.err
        errors = [line for line in lines if line.startswith("error: ")]
        assert len(errors) == 1 and errors[0] == lines[-1], self.err
        return errors[0]


def process(*arguments, **options):
    """Run `python -m tensolog` for real."""
    return subprocess.run(
        [sys.executable, "-m", "tensolog", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **options.pop("env", {})},
        **options,
    )


def model_proto(nodes=None, *, opset=17, inputs=(("x", (1, 8)),), outputs=(("y", (1, 8)),)):
    """A small model: x @ w + b, an Identity, Relu."""
    weight = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
    bias = np.arange(8, dtype=np.float32)
    graph = helper.make_graph(
        nodes
        or [
            helper.make_node("MatMul", ["x", "w"], ["product"], name="product"),
            helper.make_node("Add", ["product", "b"], ["sum"], name="sum"),
            helper.make_node("Identity", ["sum"], ["same"], name="same"),
            helper.make_node("Relu", ["same"], ["y"], name="relu"),
        ],
        "small",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(bias, "b")],
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", opset)])


def leftovers(folder, *expected):
    """Names in `folder` beside the expected ones."""
    return sorted({path.name for path in folder.iterdir()} - set(expected))
