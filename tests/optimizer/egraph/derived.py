"""Models in the spellings of exporters, and what the search derives from them, compared."""

import numpy as np
import onnx
from hypothesis import settings
from onnx import TensorProto, helper, numpy_helper
from tensolog.optimizer.egraph.search import search
from tensolog.optimizer.setting import Setting

from tests.campaigns import examples
from tests.models.agreement import disagreement

from .pricing import FOLD_LIMIT, Prices, graph_of, modelled

RNG = np.random.default_rng(11)
SETTINGS = settings(max_examples=examples(40), deadline=None)


class Net:
    """Nodes one after the other; arrays and lists become constants."""

    def __init__(self, opset=17, **inputs):
        self.nodes, self.constants, self.inputs, self.opset = [], {}, inputs, opset

    def op(self, op_type, *inputs, **attributes):
        (name,) = self.ops(op_type, 1, *inputs, **attributes)
        return name

    def ops(self, op_type, count, *inputs, **attributes):
        names = [input_ if isinstance(input_, str) else self.constant(input_) for input_ in inputs]
        outputs = [f"v{len(self.nodes)}_{i}" for i in range(count)]
        self.nodes.append(helper.make_node(op_type, names, outputs, **attributes))
        return outputs

    def constant(self, array):
        name = f"c{len(self.constants)}"
        kind = np.int64 if isinstance(array, list) else np.float32
        self.constants[name] = np.asarray(array, kind)
        return name

    def model(self, *outputs):
        graph = helper.make_graph(
            self.nodes,
            "spelling",
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
             for name, shape in self.inputs.items()],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )  # fmt: skip
        opsets = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


def plan_of(model, price, sizes=None, *, contributed=False, rules=(), whole=False):
    """Search a model and compare the plan with it, on whole numbers if asked; the plan.

    Those of the rules that passes ask for are given to them.
    """
    graph, setting = graph_of(model), Setting(target="onnxruntime-cpu")
    chosen = [r for tag in ("always", "explore") for r in setting.select(rules, graph, tag)]
    search_result = search(
        graph,
        chosen,
        Prices(0, price),
        sizes=sizes or {},
        fold_limit=FOLD_LIMIT,
        of_passes=setting.select(rules, graph, "pass"),
        contributed=contributed,
    )
    result = modelled(search_result.plans[0])
    difference = disagreement(model, result, fed(model, sizes, whole=whole))
    assert difference is None, difference
    return result


def fed(model, sizes=None, *, whole=False):
    """Random inputs of a model; small whole numbers add up without rounding, in any order."""
    feeds = {}
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        shape = [dim.dim_value or (sizes or {})[dim.dim_param] for dim in dims]
        drawn = RNG.integers(-3, 4, shape) if whole else RNG.normal(size=shape)
        feeds[value.name] = drawn.astype(np.float32)
    return feeds
