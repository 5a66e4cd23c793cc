"""Models of quantized products as QDQ nodes spell them, and what integers alone give for them."""

from dataclasses import dataclass, field

import numpy as np
from onnx import TensorProto, helper, numpy_helper

TYPES = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8}
node = helper.make_node


@dataclass(frozen=True)
class Case:
    """A product of `x` and `w`, both of integers, and how it is spelled and rounded."""

    op_type: str
    x: tuple
    w: tuple
    y: tuple
    x_dtype: str = "uint8"
    weights: str = "int8"
    y_dtype: str = "uint8"
    zeros: tuple = (128, 0, 128)
    is_by_channel: bool = True
    bias: bool = True
    scale: float = 0.0
    attributes: dict = field(default_factory=dict)
    added: str = ""
    function: bool = False
    least: int = -128
    most: int = 127

    @property
    def axis(self):
        return 0 if self.op_type == "Conv" or self.attributes.get("transB") else len(self.w) - 1

    @property
    def outputs(self):
        return self.w[self.axis]

    def constants(self):
        rng = np.random.default_rng(sum(self.w))
        limits = np.iinfo(self.weights)
        low, high = max(limits.min, self.least), min(limits.max, self.most)
        w = rng.integers(low, high + 1, self.w).astype(self.weights)
        shape = (self.outputs,) if self.is_by_channel else ()
        scales = (rng.random(shape) * 0.01 + 0.001).astype(np.float32)
        zero_x, zero_w, zero_y = self.zeros
        depth = w.size // self.outputs
        scale = self.scale or 0.002 * 70 * np.sqrt(depth) * 0.02 * 70 / 40
        arrays = {
            "w": w,
            "sx": np.float32(0.02),
            "zx": np.array(zero_x, self.x_dtype),
            "sw": scales,
            "zw": np.full(shape, zero_w, self.weights),
            "sy": np.float32(scale),
            "zy": np.array(zero_y, self.y_dtype),
            "k": np.array(zero_y // 2 + 40, self.y_dtype),
            "st": np.float32(0.01),
            "so": np.float32(scale * 0.7),
            "zo": np.array(zero_y // 2, self.y_dtype),
            "sr": np.float32(scale * 1.3),
            "zr": np.array(zero_y // 3, self.y_dtype),
        }
        if self.bias:
            arrays["b"] = rng.integers(-20_000, 20_000, self.outputs).astype(np.int32)
            arrays["sb"] = np.asarray(arrays["sx"] * scales)
            arrays["zb"] = np.zeros(shape, np.int32)
        return arrays

    def model(self):
        arrays = self.constants()
        nodes = [
            node("DequantizeLinear", ["x", "sx", "zx"], ["X"]),
            node("DequantizeLinear", ["w", "sw", "zw"], ["W"], axis=self.axis),
        ]
        if self.bias:
            nodes.append(node("DequantizeLinear", ["b", "sb", "zb"], ["B"], axis=0))
        read = ["X", "W", "B"] if self.bias else ["X", "W"]
        nodes.append(node(self.op_type, read, ["P"], **self.attributes))
        nodes.append(node("QuantizeLinear", ["P", "sy", "zy"], ["p" if self.added else "y"]))
        inputs = [helper.make_tensor_value_info("x", TYPES[self.x_dtype], self.x)]
        if self.added:
            inputs.append(helper.make_tensor_value_info("o", TYPES[self.y_dtype], self.y))
            nodes += [
                node("DequantizeLinear", ["p", "sy", "zy"], ["Y"]),
                node("DequantizeLinear", ["o", "so", "zo"], ["O"]),
                node("Add", ["Y", "O"] if self.added == "first" else ["O", "Y"], ["R"]),
                node("QuantizeLinear", ["R", "sr", "zr"], ["y"]),
            ]
        if self.function:
            nodes[-1].output[:] = ["r"]
            scale, zero = ("sr", "zr") if self.added else ("sy", "zy")
            nodes += [
                node("DequantizeLinear", ["r", scale, zero], ["F"]),
                node("DequantizeLinear", ["k", "so", "zo"], ["K"]),
                node("Mul", ["F", "K"], ["G"]),
                node("QuantizeLinear", ["G", "sr", "zr"], ["g"]),
                node("DequantizeLinear", ["g", "sr", "zr"], ["H"]),
                node("Erf", ["H"], ["I"]),
                node("QuantizeLinear", ["I", "st", "zo"], ["y"]),
            ]
        used = {name for node in nodes for name in node.input}
        graph = helper.make_graph(
            nodes,
            "quantized",
            inputs,
            [helper.make_tensor_value_info("y", TYPES[self.y_dtype], self.y)],
            [numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items() if n in used],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8)

    def feeds(self, rng, rows=3):
        """Integers of all sizes, the extremes often among them; free sizes are `rows`."""

        def drawn(shape, dtype):
            limits = np.iinfo(dtype)
            sizes = [rows if isinstance(size, str) else size for size in shape]
            wide = rng.integers(limits.min - 60, limits.max + 61, sizes)
            return np.clip(wide, limits.min, limits.max).astype(dtype)

        feeds = {"x": drawn(self.x, self.x_dtype)}
        if self.added:
            feeds["o"] = drawn(self.y, self.y_dtype)
        return feeds

    def expected(self, x):
        """The result, not added to anything: exact sums, and the formula for what they become."""
        arrays = self.constants()
        sums = self._sums(x.astype(np.int64) - self.zeros[0], arrays["w"].astype(np.int64))
        channels = (1, -1, *[1] * (sums.ndim - 2)) if self.op_type == "Conv" else (-1,)
        if self.bias:
            sums = sums + arrays["b"].reshape(channels)
        by = (arrays["sx"] * arrays["sw"] / arrays["sy"]).astype(np.float32)
        by = np.broadcast_to(by, (self.outputs,)).reshape(channels)
        limits = np.iinfo(self.y_dtype)
        scaled = sums.astype(np.int32).astype(np.float32) * by
        return np.clip(np.rint(scaled) + self.zeros[2], limits.min, limits.max).astype(self.y_dtype)

    def _sums(self, x, w):
        w = w - self.zeros[1]
        if self.op_type != "Conv":
            return x @ (w.T if self.attributes.get("transB") else w)
        return convolved(x, w, self.attributes, self.y[2:])


def convolved(x, w, attributes, result):
    """The sums of a convolution of integers, tap by tap, for a result of so many places."""
    pads = attributes.get("pads", [0] * 2 * len(result))
    steps, dilations = (
        attributes.get(name, [1] * len(result)) for name in ("strides", "dilations")
    )
    before, after = pads[: len(result)], pads[len(result) :]
    x = np.pad(x, [(0, 0), (0, 0), *zip(before, after, strict=True)])
    sums = 0
    for tap in np.ndindex(*w.shape[2:]):
        places = tuple(
            slice(t * d, t * d + (size - 1) * s + 1, s)
            for t, d, s, size in zip(tap, dilations, steps, result, strict=True)
        )
        read = x[(slice(None), slice(None), *places)]
        filters = w[(slice(None), slice(None), *tap)]
        groups = attributes.get("group", 1)
        read = read.reshape(len(read), groups, -1, *read.shape[2:])
        filters = filters.reshape(groups, -1, filters.shape[1])
        products = np.einsum("ngc...,gmc->ngm...", read, filters)
        sums = sums + products.reshape(len(read), -1, *read.shape[3:])
    return sums
