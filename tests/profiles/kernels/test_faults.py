"""What would end the process is known beforehand: ONNX Runtime itself, apart, is the oracle."""

import subprocess
import sys

import numpy as np
import pytest
from tensolog.profiles.kernel import Kernel, KernelError, TensorSpec
from tensolog.profiles.kernels.faults import fatal_input
from tensolog.profiles.kernels.kernel_model import build_model

# The smallest graph found on which the runtime dies: one node, 0 elements.
RUN = """
import sys
import numpy as np
from onnx import TensorProto, helper
from tensolog.profiles.sessions.session import AS_WRITTEN, open_session
node = helper.make_node("Einsum", ["a", "b"], ["y"], equation="ij,kj->ik")
size = int(sys.argv[1])
values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, size]) for name in "ab"]
output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 2])
graph = helper.make_graph([node], "g", values, [output])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
session = open_session(model.SerializeToString(), threads=1, execution=AS_WRITTEN)
session.run(None, {name: np.zeros((2, size), np.float32) for name in "ab"})
"""
LEAST = np.iinfo(np.int32).min


def ints(*values, dtype=np.int32):
    return np.array(values, dtype)


def died(size):
    done = subprocess.run([sys.executable, "-c", RUN, str(size)], capture_output=True, check=False)
    return done.returncode not in (0, 1)


def test_the_runtime_survives_what_is_let_through():
    assert not died(1)
    assert not fatal_input("Einsum", [np.zeros((2, 1)), np.zeros((2, 1))])


def test_an_empty_operand_of_einsum_is_named():
    if not died(0):
        pytest.skip("this ONNX Runtime survives it")
    assert "empty" in fatal_input("Einsum", [np.zeros((2, 0)), np.zeros((2, 0))])


@pytest.mark.parametrize("op_type", ["Div", "Mod"])
def test_integer_division_is_refused_at_its_edges_alone(op_type):
    assert "zero" in fatal_input(op_type, [ints(5), ints(2, 0)])
    assert "-1" in fatal_input(op_type, [ints(LEAST), ints(-1)])
    assert "-1" in fatal_input(op_type, [None, ints(-1)])
    assert not fatal_input(op_type, [ints(LEAST + 1), ints(-1)])
    assert not fatal_input(op_type, [ints(LEAST), ints(1)])
    assert not fatal_input(op_type, [np.float32([1]), np.float32([0])])
    assert not fatal_input(op_type, [ints(5), ints(0, dtype=np.uint8) + np.uint8(3)])


def test_other_operators_take_empty_tensors():
    assert not fatal_input("Add", [np.zeros((0, 3)), np.zeros((0, 3))])


@pytest.mark.parametrize(
    "kernel",
    [
        Kernel(
            "",
            "Einsum",
            17,
            (("equation", "ij,kj->ik"),),
            (TensorSpec("float32", (2, 0)), TensorSpec("float32", (3, 0))),
        ),
        Kernel(
            "",
            "Div",
            17,
            (),
            (TensorSpec("int64", (2,)), TensorSpec("int64", (1,), True, (0,))),
        ),
    ],
    ids=["Einsum", "Div"],
)
def test_such_a_kernel_is_not_measured(kernel):
    with pytest.raises(KernelError, match="can end the process"):
        build_model(kernel)
