"""Spellings that exporters and people write, each of which ends in the runtime's one kernel."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from tensolog.profiles.sessions.operators_run import operators_run

from .agreement import disagreement
from .rewriting import rewritten, shipped_rules

SHAPE = [2, 8, 32]
ROOT = (2 / np.pi) ** 0.5


class Net:
    """Nodes over one input; numbers become constants."""

    def __init__(self):
        self.nodes, self.constants = [], []

    def op(self, op_type, *inputs, **attributes):
        names = [input_ if isinstance(input_, str) else self._constant(input_) for input_ in inputs]
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, names, [name], **attributes))
        return name

    def _constant(self, array):
        name = f"c{len(self.constants)}"
        kind = np.int64 if isinstance(array, list) else np.float32
        self.constants.append(numpy_helper.from_array(np.asarray(array, kind), name))
        return name

    def model(self, output, opset):
        graph = helper.make_graph(
            self.nodes,
            "spelling",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, SHAPE)],
            self.constants,
        )
        opsets = [helper.make_opsetid("", opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def halved(net, factor, where):
    """x factor / 2, the half multiplied first, last, or into the factor."""
    if where == "first":
        return net.op("Mul", net.op("Mul", "x", 0.5), factor)
    if where == "last":
        return net.op("Mul", net.op("Mul", "x", factor), 0.5)
    return net.op("Mul", "x", net.op("Mul", factor, 0.5))


def gelu_by_tanh(cube, where, opset):
    net = Net()
    if cube == "factored":
        square = net.op("Mul", net.op("Mul", "x", "x"), 0.044715)
        inner = net.op("Mul", net.op("Mul", "x", ROOT), net.op("Add", square, 1.0))
    elif cube == "factored by parts":
        square = net.op("Mul", net.op("Mul", "x", 0.044715), "x")
        inner = net.op("Mul", net.op("Mul", "x", ROOT), net.op("Add", square, 1.0))
    else:
        if cube == "power":
            third = net.op("Pow", "x", 3.0)
        else:
            third = net.op("Mul", "x", net.op("Mul", "x", "x"))
        inner = net.op("Mul", net.op("Add", "x", net.op("Mul", third, 0.044715)), ROOT)
    return net.model(halved(net, net.op("Add", net.op("Tanh", inner), 1.0), where), opset)


def gelu_by_erf(root, where, opset):
    net = Net()
    inner = net.op("Div", "x", 2**0.5) if root == "Div" else net.op("Mul", "x", 0.5**0.5)
    return net.model(halved(net, net.op("Add", net.op("Erf", inner), 1.0), where), opset)


def silu_by_tanh(opset):
    net = Net()
    factor = net.op("Add", net.op("Tanh", net.op("Mul", "x", 0.5)), 1.0)
    return net.model(halved(net, factor, "factor"), opset)


def root_mean_square(square, norm, opset):
    net = Net()
    squares = net.op("Mul", "x", "x") if square == "Mul" else net.op("Pow", "x", 2.0)
    if opset >= 18:
        mean = net.op("ReduceMean", squares, [-1], keepdims=1)
    else:
        mean = net.op("ReduceMean", squares, axes=[-1], keepdims=1)
    moved = net.op("Add", mean, 1e-5)
    if norm == "power":
        value = net.op("Mul", "x", net.op("Pow", moved, -0.5))
    elif norm == "reciprocal":
        value = net.op("Mul", "x", net.op("Reciprocal", net.op("Sqrt", moved)))
    elif norm == "inverse":
        value = net.op("Mul", "x", net.op("Div", 1.0, net.op("Sqrt", moved)))
    else:
        value = net.op("Div", "x", net.op("Sqrt", moved))
    return net.model(net.op("Mul", value, np.linspace(0.5, 1.5, SHAPE[-1])), opset)


SPELLINGS = {
    **{f"tanh {cube} {where} {opset}": (gelu_by_tanh(cube, where, opset), {"FastGelu", "Gelu"})
       for cube in ("power", "product") for where in ("first", "last", "factor")
       for opset in (13, 17, 21)},
    **{f"tanh {cube} {opset}": (gelu_by_tanh(cube, "first", opset), {"FastGelu"})
       for cube in ("factored", "factored by parts") for opset in (13, 21)},
    **{f"erf {root} {where} {opset}": (gelu_by_erf(root, where, opset), {"Gelu"})
       for root in ("Div", "Mul") for where in ("first", "last", "factor") for opset in (13, 21)},
    "silu tanh": (silu_by_tanh(17), {"QuickGelu"}),
    **{f"rms {square} {norm} {opset}":
       (root_mean_square(square, norm, opset), {"SimplifiedLayerNormalization"})
       for square in ("Mul", "Pow") for norm in ("power", "reciprocal", "inverse", "quotient")
       for opset in (13, 17, 18)},
}  # fmt: skip


@pytest.mark.parametrize("name", SPELLINGS)
def test_one_kernel_is_left(name):
    model, wanted = SPELLINGS[name]
    onnx.checker.check_model(model, full_check=True)
    # Nobody asks what rules cost here: one that only leads to the runtime's own fusion is left out.
    families = {"contributed", "activation"}
    rules = [
        rule
        for rule in shipped_rules()
        if (rule.family in families and rule.name != "ConvertGeluToHalvedLast")
        or rule.name in ("ConvertReciprocalToDiv", "ConvertDivToMul")
    ]
    result, _ = rewritten(model, rules)
    feeds = {"x": np.random.default_rng(5).normal(0, 2, SHAPE).astype(np.float32)}
    assert disagreement(model, result, feeds) is None
    run = operators_run(result.SerializeToString(), feeds, threads=1)
    assert set(run) <= wanted, f"{dict(run)} under ONNX Runtime {onnxruntime.__version__}"


@pytest.mark.parametrize("name", list(SPELLINGS)[::7])
def test_standard_operators_stay_standard(name):
    model, _ = SPELLINGS[name]
    result, _ = rewritten(model, shipped_rules(), target="onnx")
    assert {node.domain for node in result.graph.node} <= {"", "ai.onnx"}
