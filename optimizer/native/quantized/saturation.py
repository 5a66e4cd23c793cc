"""Whether ONNX Runtime loses what sums of two products of 8-bit integers have beyond 16 bits.

Its kernels for processors with AVX2 or AVX-512 but without VNNI add such sums up in 16 bits, which
saturates where weights have all their 8 bits; ONNX defines exact sums, as kernels have them.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from ....profiles.sessions.session import open_session

OPSET, IR_VERSION, DEPTH, OUTPUTS = 13, 8, 64, 32
SATURATES = (
    "exact sums, as ONNX defines them; ONNX Runtime saturates sums of two 8-bit products on this "
    "processor, so that results may differ from the original's"
)


@cache
def saturates() -> bool:
    """Ask the runtime at hand for sums of the largest products, and tell whether they are less."""
    weights = np.full((DEPTH, OUTPUTS), 127, np.int8)
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["x", "w"], ["y"])],
        "sums",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [8, DEPTH])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, [8, OUTPUTS])],
        [numpy_helper.from_array(weights, "w")],
    )
    imports = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)
    session = open_session(model.SerializeToString(), threads=1)
    (sums,) = session.run(None, {"x": np.full((8, DEPTH), 255, np.uint8)})
    return not bool((np.asarray(sums) == DEPTH * 255 * 127).all())
