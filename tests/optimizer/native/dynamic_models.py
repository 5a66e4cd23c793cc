"""Models that quantize while they run, as `quantize_dynamic` writes them."""

from dataclasses import dataclass, field

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from .quantized_models import convolved

node = helper.make_node
FLOAT, CONTRIBUTED = TensorProto.FLOAT, "com.microsoft"


@dataclass(frozen=True)
class Dynamic:
    """A product of `x`, quantized by its own range, and of weights `w`, and what follows.

    Weights are of -most - 1 to most, where these are signed; `zero` is the zero point of all.
    """

    op_type: str
    x: tuple
    w: tuple
    y: tuple
    weights: str = "int8"
    zero: int = 0
    is_by_channel: bool = True
    bias: bool = True
    attributes: dict = field(default_factory=dict)
    behind: tuple = ()
    fused: bool = False
    most: int = 127

    @property
    def is_image(self):
        return self.op_type == "ConvInteger"

    @property
    def outputs(self):
        return self.w[0 if self.is_image else -1]

    def constants(self):
        rng = np.random.default_rng(sum(self.w))
        limits = np.iinfo(self.weights)
        low = limits.min if self.weights == "uint8" else -self.most - 1
        w = rng.integers(low, low + 2 * self.most + 2, self.w).astype(self.weights)
        count = self.outputs if self.is_by_channel else 1
        shape = (count, *[1] * (len(self.w) - 2)) if self.is_image else (count,)
        scales = (rng.random(shape) * 0.01 + 0.001).astype(np.float32)
        # the runtime's ConvInteger has one zero point for all filters
        several = self.is_by_channel and not self.is_image
        zeros = np.full(count if several else (), self.zero, self.weights)
        if not self.is_by_channel:
            scales = scales.reshape(())
        along = (self.outputs, *[1] * (len(self.w) - 2)) if self.is_image else (self.outputs,)
        bias = rng.normal(size=along).astype(np.float32)
        return {"w": w, "sw": scales, "zw": zeros, "b": bias}

    def model(self):
        arrays = self.constants()
        nodes = [node("DynamicQuantizeLinear", ["x"], ["q", "sx", "zx"])]
        if self.fused:
            read = ["q", "w", "sx", "sw", "zx", "zw", *["b"] * self.bias]
            nodes.append(node("MatMulIntegerToFloat", read, ["p"], domain=CONTRIBUTED))
        else:
            nodes += [
                node(self.op_type, ["q", "w", "zx", "zw"], ["i"], **self.attributes),
                node("Cast", ["i"], ["f"], to=FLOAT),
                node("Mul", ["sx", "sw"], ["s"]),
                node("Mul", ["f", "s"], ["m" if self.bias else "p"]),
            ]
            if self.bias:
                nodes.append(node("Add", ["m", "b"], ["p"]))
        last = "p"
        for i, op_type in enumerate(self.behind):
            nodes.append(node(op_type, [last], [f"n{i}"]))
            last = f"n{i}"
        nodes[-1].output[:] = ["y"]
        used = {name for node in nodes for name in node.input}
        graph = helper.make_graph(
            nodes,
            "dynamic",
            [helper.make_tensor_value_info("x", FLOAT, self.x)],
            [helper.make_tensor_value_info("y", FLOAT, self.y)],
            [numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items() if n in used],
        )
        imports = [helper.make_opsetid("", 17), helper.make_opsetid(CONTRIBUTED, 1)]
        return helper.make_model(graph, opset_imports=imports[: 1 + self.fused], ir_version=8)

    def feeds(self, rng, rows=3):
        """Numbers of one sign or both, of all sizes; free sizes are `rows`."""
        sizes = [rows if isinstance(size, str) else size for size in self.x]
        numbers = rng.normal(rng.choice([-3, 0, 0, 3]), 1, sizes) * 10.0 ** rng.integers(-3, 4)
        return {"x": numbers.astype(np.float32)}

    def expected(self, x):
        """The result with exact sums, each step behind them rounded, nothing following."""
        arrays = self.constants()
        low, high = np.minimum(x.min(), 0), np.maximum(x.max(), 0)
        step = np.float32((high - low) / np.float32(255)) if high != low else np.float32(1)
        zero = np.float32(np.rint(np.clip(-low / step, 0, 255)))
        q = np.clip(np.rint(x / step) + zero, 0, 255).astype(np.int64) - int(zero)
        w = arrays["w"].astype(np.int64) - self.zero
        sums = convolved(q, w, self.attributes, self.y[2:]) if self.is_image else q @ w
        scaled = sums.astype(np.int32).astype(np.float32) * (step * arrays["sw"])
        return scaled + arrays["b"] if self.bias else scaled
