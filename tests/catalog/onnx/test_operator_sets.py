"""Operator sets imported more than once: the last import counts, as in ONNX Runtime."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from tensolog.catalog.errors import ModelError
from tensolog.catalog.onnx import build_model, read_model
from tensolog.optimizer.graph.convert import load_graph
from tensolog.optimizer.graph.infer import infer_types
from tensolog.optimizer.graph.widen import widen

# A sum over all axes, as operator sets up to 12 and as those from 13 on spell it.
SPELLINGS = {
    12: "y = ReduceSum<axes = [0, 1], keepdims = 0>(x)",
    13: "axes = Constant<value_ints = [0, 1]>() y = ReduceSum<keepdims = 0>(x, axes)",
}
IMPORTS = [
    [("", 13), ("", 13)],
    [("", 12), ("", 13)],
    [("", 13), ("", 12)],
    [("ai.onnx", 12), ("", 13)],
    [("", 12), ("ai.onnx", 13)],
    [("", 13), ("ai.onnx", 12)],
    [("", 13), ("com.microsoft", 1), ("com.microsoft", 1)],
]


def model(imports, spelling):
    built = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 13]> '
        f"g (float[2, 3] x) => (float y) {{ {SPELLINGS[spelling]} }}"
    )
    del built.opset_import[:]
    built.opset_import.extend(helper.make_operatorsetid(*entry) for entry in imports)
    return built


def runs(built):
    try:
        session = onnxruntime.InferenceSession(
            built.SerializeToString(), providers=["CPUExecutionProvider"]
        )
    except Exception:
        return False
    return session.run(None, {"x": np.ones((2, 3), np.float32)})[0] == 6


@pytest.mark.parametrize("imports", IMPORTS, ids=str)
def test_what_the_runtime_opens_is_read_and_typed_and_nothing_else(catalog, imports):
    opened = {spelling: runs(model(imports, spelling)) for spelling in SPELLINGS}
    assert sum(opened.values()) == 1
    for spelling, is_opened in opened.items():
        built = model(imports, spelling)
        if not is_opened:
            with pytest.raises(ModelError):
                read_model(catalog, built)
            continue
        assert build_model(catalog, read_model(catalog, built)) == built
        graph = load_graph(built)
        assert graph.opset() == spelling
        assert infer_types(graph)[graph.graph_outputs[0]].shape == ()
        wide = widen(built, lambda tensor: tensor)
        assert {entry.version for entry in wide.opset_import if not entry.domain} <= {spelling}
