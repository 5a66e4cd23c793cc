"""What the ONNX Runtime at hand does, asked where kernels have to do the same, or leave it alone.

In which order it adds up, what it rounds and what its optimizer leaves as it is depends on the
release and on the processor: nobody else knows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ...profiles.kernel import element_type
from ...profiles.sessions.execution import Execution
from ...profiles.sessions.session import open_session
from ..graph.convert import model_around
from ..graph.graph import Graph

# The operator sets of nodes that are of no graph.
OPSET, IR_VERSION = 13, 8
# Sums of products that are asked for: of so many, for so many outputs.
DEPTH, OUTPUTS = 64, 32
SATURATES = (
    "exact sums, as ONNX defines them; ONNX Runtime saturates sums of two 8-bit products on this "
    "processor, so that results may differ from the original's"
)


def answer(
    nodes: Sequence[onnx.NodeProto],
    feeds: Mapping[str, np.ndarray],
    constants: Mapping[str, np.ndarray],
    result: tuple[str, str],
    graph: Graph | None = None,
) -> np.ndarray:
    """Return what the runtime computes of `feeds` under full optimization; raises what it raises.

    `result` is the name and the element type of what is asked for. The nodes mean what they do in
    `graph`, if one is given.
    """
    name, dtype = result
    proto = helper.make_graph(
        nodes,
        "question",
        [
            helper.make_tensor_value_info(input_name, element_type(array.dtype.name), array.shape)
            for input_name, array in feeds.items()
        ],
        [helper.make_tensor_value_info(name, element_type(dtype), None)],
        [
            numpy_helper.from_array(np.asarray(array), constant_name)
            for constant_name, array in constants.items()
        ],
    )
    if graph is None:
        domains = sorted({node.domain for node in nodes} - {""})
        imports = [helper.make_opsetid("", OPSET), *(helper.make_opsetid(d, 1) for d in domains)]
        model = helper.make_model(proto, opset_imports=imports, ir_version=IR_VERSION)
    else:
        model = model_around(graph, proto)
    session = open_session(model.SerializeToString(), threads=1)
    (answered,) = session.run(
        [name], {input_name: np.ascontiguousarray(array) for input_name, array in feeds.items()}
    )
    return np.asarray(answered)


@cache
def saturates() -> bool:
    """Tell whether the runtime loses what sums of 8-bit products have beyond 16 bits.

    Its kernels for processors with AVX2 or AVX-512 but without VNNI add such sums up in 16 bits,
    which saturates where weights have all their 8 bits; ONNX defines exact sums, as kernels have
    them.
    """
    sums = answer(
        [helper.make_node("MatMulInteger", ["x", "w"], ["y"])],
        {"x": np.full((8, DEPTH), 255, np.uint8)},
        {"w": np.full((DEPTH, OUTPUTS), 127, np.int8)},
        ("y", "int32"),
    )
    return not bool((sums == DEPTH * 255 * 127).all())


def optimized_nodes(
    source: Path | bytes, execution: Execution, threads: int
) -> dict[str, onnx.NodeProto] | None:
    """Return the nodes of a model as the runtime optimizes it, by the names of what they give.

    None where it can't be written.
    """
    with tempfile.TemporaryDirectory(prefix="tensolog-optimized-") as folder:
        path = Path(folder) / "optimized.onnx"
        try:
            open_session(source, threads=threads, execution=execution, optimized_path=path)
            optimized = onnx.load(str(path), load_external_data=False)
        except Exception:  # whatever the runtime raises
            return None
    return {name: node for node in optimized.graph.node for name in node.output}


def left_alone(graph: Graph, optimized: Mapping[str, onnx.NodeProto] | None) -> set[int]:
    """List the nodes of a graph that are in the model as the runtime optimizes it.

    All of them where nobody knows what it makes of it.
    """
    if optimized is None:
        return set(graph.nodes)
    kept = set()
    for number, node in graph.nodes.items():
        same = optimized.get(graph.names[node.outputs[0]])
        if same is not None and (same.op_type, same.domain) == (node.op_type, node.domain):
            kept.add(number)
    return kept
