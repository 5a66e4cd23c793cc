"""What follows a convolution in blocks element by element is done by its kernel."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from tensolog.optimizer.codegen.unit import native_level
from tensolog.optimizer.graph.convert import load_graph, to_model
from tensolog.optimizer.graph.graph import TensorType
from tensolog.optimizer.native.convolution import blocked as convolution
from tensolog.optimizer.native.convolution.blocked import convolutions
from tensolog.optimizer.native.convolution.convolution_pair import pairs
from tensolog.optimizer.native.embed import embed, place
from tensolog.optimizer.native.kernel import supply
from tensolog.optimizer.native.library import build
from tensolog.optimizer.native.loops.kernel_region import Meanings

from tests.optimizer.layouts.networks import has_blocks

from . import test_convolution, test_convolution_pair
from .build import needs_compiler, opened
from .test_convolution import normal

pytestmark = [
    needs_compiler,
    pytest.mark.skipif(not has_blocks(), reason="the runtime has no blocked kernels"),
]
node = helper.make_node
SILU = [node("Sigmoid", ["y"], ["1"]), node("Mul", ["y", "1"], ["z"])]
ENDS = {
    "SiLU": SILU,
    "Mish": [node("Mish", ["y"], ["z"])],
    "a gate of the runtime's": [node("QuickGelu", ["y"], ["z"], domain="com.microsoft", alpha=1.5)],
    "SiLU and a sum": [*SILU[:1], node("Mul", ["1", "y"], ["2"]), node("Add", ["r", "2"], ["z"])],
    "two others": [
        node("Mul", ["y", "r"], ["1"]), node("Sub", ["q", "1"], ["2"]),
        node("Max", ["2", "r"], ["z"]),
    ],
}  # fmt: skip


def with_end(proto, types, nodes, outputs=("z",)):
    """A model of a convolution with nodes behind it, which read `r` and `q` of its shape."""
    graph = proto.graph
    graph.node.extend(nodes)
    del graph.output[:]
    for name in outputs:
        graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, types["y"]))
    read = {name for node in nodes for name in node.input}
    for name in sorted(read & {"r", "q"}):
        graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, types["y"]))
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    loaded = load_graph(proto)
    for number, name in enumerate(loaded.names):
        if number not in loaded.constants:
            loaded.types[number] = TensorType("float32", types.get(name, types["y"]))
    return loaded


def check(case, find, nodes, count):
    """Compare the kernel of a convolution and what follows with the runtime's operators."""
    graph = with_end(case.proto, case.types, nodes)
    candidate = find(Meanings(graph), graph.nodes)[-1]
    assert len(candidate.region.nodes) == count
    library = build([candidate.kernel], levels=(native_level(),))
    supply(graph, [candidate.kernel])
    assert place(graph, candidate.region.nodes, candidate.kernel)
    changed = to_model(embed(graph, library.domain))
    assert len(changed.graph.node) == 1
    feeds = dict(case.feeds)
    feeds["x"].flat[5] = np.nan
    for entry in case.proto.graph.input:
        feeds.setdefault(entry.name, normal(*case.types["y"], seed=len(feeds)))
    (wanted,) = opened(case.proto, level="ORT_DISABLE_ALL").run(None, feeds)
    (result,) = opened(changed, library, threads=2).run(None, feeds)
    assert np.isfinite(wanted).mean() > 0.5
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("name", ENDS)
def test_a_convolution_ends_in_it(name, monkeypatch):
    monkeypatch.setattr(convolution, "TILES", {(3, 3): ((2, 2),)})
    case = test_convolution.Case((1, 32, 13, 9), 32, (3, 3), (1, 1, 1, 1))
    check(case, convolutions, ENDS[name], 1 + len(ENDS[name]))


def test_a_pair_ends_in_it():
    case = test_convolution_pair.Case((1, 32, 13, 9), 48, (3, 3), (2, 1), (1, 1, 1, 1))
    check(case, pairs, ENDS["two others"], 5)


def test_what_lies_within_a_pair_is_done_by_it():
    case = test_convolution_pair.Case((1, 32, 13, 9), 48, (3, 3), (1, 1), (1, 1, 1, 1))
    first, second = list(case.proto.graph.node)
    second.input[0] = "g"
    del case.proto.graph.node[:]
    case.proto.graph.node.extend(
        [first, node("Sigmoid", ["m"], ["s"]), node("Mul", ["m", "s"], ["g"]), second]
    )
    case.types |= dict.fromkeys("sg", case.types["m"])
    check(case, pairs, [node("Tanh", ["y"], ["z"])], 5)


OPEN = {
    "a value that is given": (SILU, ("z", "1"), 1),
    "a value that is read elsewhere": ([*SILU, node("Softmax", ["1"], ["u"])], ("z", "u"), 1),
    "another shape": ([node("ReduceMean", ["y"], ["z"], axes=[1])], ("z",), 1),
    "a softmax behind": ([*SILU[:1], node("Softmax", ["1"], ["z"])], ("z",), 2),
    "too many tensors": (
        [node("Sum", ["y", "r", "q"], ["1"]), node("Add", ["1", "p"], ["z"])], ("z",), 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPEN)
def test_nodes_that_end_an_epilogue(name):
    nodes, outputs, count = OPEN[name]
    case = test_convolution.Case((1, 32, 13, 9), 32, (3, 3), (1, 1, 1, 1))
    graph = with_end(case.proto, case.types, nodes, outputs)
    if name == "another shape":
        value = graph.names.index("z")
        graph.types[value] = TensorType("float32", (1, 1, *case.types["y"][2:]))
    candidates = convolutions(Meanings(graph), graph.nodes)
    assert {len(candidate.region.nodes) for candidate in candidates} == {count}
