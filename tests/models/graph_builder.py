"""A random ONNX graph under construction: every value is computed in float64 as it grows.

Knowing the values keeps graphs meaningful: a node whose result would be undefined, huge, or
ill-conditioned is not added, so that outputs may be compared to a few units in the last place.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from tensolog.profiles.kernels.faults import FATAL_WHEN_EMPTY

from .agreement import run

OPSET = 17
LARGEST = 1e4


class GraphBuilder:
    """A graph that grows node by node, with each value's exact array."""

    def __init__(self, draw, *, symbolic):
        self.draw = draw
        self.random = np.random.default_rng(draw(st.integers(0, 2**31)))
        self.arrays = {}
        self.feeds = {}
        self.constants = {}
        self.nodes = []
        self.inputs = []
        for number in range(draw(st.integers(1, 2))):
            shape = draw(st.sampled_from(SHAPES))
            self._add_input(f"input{number}", shape, symbolic)

    def _add_input(self, name, shape, symbolic):
        array = self.random.standard_normal(shape).astype(np.float32)
        self.feeds[name] = array
        self.arrays[name] = array.astype(np.float64)
        declared = ["n", *shape[1:]] if symbolic and shape else list(shape)
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, declared))

    def constant(self, array):
        """Add an initializer, or reuse an equal one now and then."""
        array = np.asarray(array)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        name = f"constant{len(self.constants)}"
        self.constants[name] = array
        exact = array.astype(np.float64) if array.dtype == np.float32 else array
        self.arrays[name] = exact
        return name

    def weights(self, *shape, low=None):
        """Add a random constant; at least `low` in magnitude where that is given."""
        array = self.random.standard_normal(shape)
        if low is not None:
            array = np.abs(array) + low
        return self.constant(array)

    def add(self, op_type, *inputs, outputs=1, **attributes):
        """Append a node unless its result is unusable; returns the outputs, or None."""
        names = [f"value{len(self.nodes)}_{position}" for position in range(outputs)]
        node = helper.make_node(op_type, inputs, names, **attributes)
        results = evaluate(node, {name: self.arrays[name] for name in inputs if name})
        if results is None or any(is_unusable(result) for result in results):
            return None
        self.nodes.append(node)
        self.arrays.update(zip(names, results, strict=True))
        return names

    def chain(self, value, *steps):
        """Append several nodes in a row: each step is (op_type, other inputs, attributes)."""
        for op_type, others, attributes in steps:
            added = self.add(op_type, value, *others, **attributes)
            if added is None:
                return
            value = added[0]

    def pick(self, rank=None, least_rank=0):
        """Draw a floating-point value that is no constant; None where there is none."""
        candidates = [
            name
            for name, array in self.arrays.items()
            if name not in self.constants
            and array.dtype == np.float64
            and (array.ndim == rank if rank is not None else array.ndim >= least_rank)
        ]
        return self.draw(st.sampled_from(candidates)) if candidates else None

    def axis(self, value):
        """Draw an axis, counted from either end."""
        rank = self.arrays[value].ndim
        return self.draw(st.integers(-rank, rank - 1))

    def model(self):
        """Finish: every value that nothing reads, and now and then another, is an output."""
        read = {name for node in self.nodes for name in node.input}
        computed = [name for node in self.nodes for name in node.output]
        outputs = [name for name in computed if name not in read]
        outputs += [name for name in computed if name in read and self.draw(st.integers(0, 9)) == 0]
        infos = [
            helper.make_tensor_value_info(
                name,
                TensorProto.FLOAT if self.arrays[name].dtype == np.float64 else TensorProto.INT64,
                [None] * self.arrays[name].ndim,
            )
            for name in outputs
        ]
        initializers = [numpy_helper.from_array(a, name) for name, a in self.constants.items()]
        graph = helper.make_graph(self.nodes, "random", self.inputs, infos, initializers)
        imports = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=imports, ir_version=8)


SHAPES = [(), (3,), (1,), (2, 3), (1, 4), (4, 1), (0, 3), (2, 0), (2, 3, 4), (1, 2, 5), (2, 1, 3)]
SHAPES += [(1, 3, 6, 6), (2, 4, 5, 7), (1, 2, 1, 1), (2, 3, 0, 4), (3, 1, 4, 4), (1, 4, 6, 6)]


def evaluate(node, values):
    """Compute one node in float64; None where it is undefined, or ends ONNX Runtime's process."""
    if node.op_type in FATAL_WHEN_EMPTY and not all(value.size for value in values.values()):
        return None
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), None)
        for name, value in values.items()
    ]
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.DOUBLE, None) for name in node.output
    ]
    graph = helper.make_graph([node], "one", inputs, outputs)
    imports = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    try:
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(model).run(None, values)
        if not all(value.size for value in [*values.values(), *results]):
            # Neither implementation is careful with empty tensors; keep to where they agree.
            judged = run(model, values)
            if [item.shape for item in judged] != [item.shape for item in results]:
                return None
    except Exception:  # either refuses in many ways; all mean "not this one"
        return None
    return results


def is_unusable(result):
    if not isinstance(result, np.ndarray) or result.size > 5000:
        return True
    if result.dtype != np.float64:
        return result.dtype != np.int64
    return not np.all(np.isfinite(result)) or float(np.max(np.abs(result), initial=0)) > LARGEST
