"""Random networks of images, and plans of them under prices that owe nothing to a machine."""

import functools
import random

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tensolog.optimizer.graph.convert import to_model
from tensolog.optimizer.layouts.plans import lay_out
from tensolog.optimizer.layouts.runtime import NCHWC
from tensolog.rules import load_rules

from tests.optimizer.egraph.pricing import FOLD_LIMIT, Prices, graph_of

SPATIAL = 6


class Network:
    """Nodes drawn one after the other; `values` maps names to shapes.

    `sized`: images are resized to sizes, of this batch, instead of by factors.
    """

    def __init__(self, seed, batch=1, sized=False):
        self.sized = sized
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.nodes, self.constants = [], {}
        channels = self.random.choice([3, 4, 12, 16, 20, 32])
        self.shape = (batch, channels, SPATIAL, SPATIAL + 1)
        self.values = {"x": self.shape}
        self.used = set()

    def constant(self, *shape):
        name = f"c{len(self.constants)}"
        self.constants[name] = self.numbers.normal(size=shape).astype(np.float32) * 0.3
        return name

    def add(self, op_type, inputs, shape, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], **attributes))
        self.used.update(inputs)
        if shape is not None:
            self.values[name] = shape
        return name

    def draw(self):
        kinds = [self.conv, self.conv, self.conv, self.depthwise, self.grouped, self.activate,
                 self.gate, self.join, self.combine, self.pool, self.scale, self.scale_by_constant,
                 self.last, self.tile, self.resize, self.mean, self.normalize]  # fmt: skip
        self.random.choice(kinds)(self.random.choice(list(self.values)))

    def conv(self, x, group=1, m=None, taps=None):
        n, c, h, w = self.values[x]
        m = m or self.random.choice([4, 6, 16, 20, 32])
        k = taps or self.random.choice([1, 3])
        inputs = [x, self.constant(m, c // group, k, k)]
        if self.random.random() < 0.7:
            inputs.append(self.constant(m))
        stride = self.random.choice([1, 1, 2])
        shape = (n, m, -(-h // stride), -(-w // stride))
        pads = {} if k == 1 else {"pads": [1, 1, 1, 1]}
        return self.add("Conv", inputs, shape, group=group, strides=[stride] * 2, **pads)

    def depthwise(self, x):
        c = self.values[x][1]
        self.conv(x, group=c, m=c, taps=3)

    def grouped(self, x):
        c = self.values[x][1]
        group = self.random.choice([g for g in (2, 4, 8) if c % g == 0] or [1])
        self.conv(x, group=group, m=group * self.random.choice([1, 4, 8]))

    def activate(self, x):
        kinds = [("Relu", {}), ("Sigmoid", {}), ("LeakyRelu", {"alpha": 0.2}), ("HardSwish", {}),
                 ("HardSigmoid", {"alpha": 0.3}), ("Tanh", {}), ("Elu", {})]  # fmt: skip
        name, attributes = self.random.choice(kinds)
        self.add(name, [x], self.values[x], **attributes)

    def gate(self, x):
        factor = self.add("Sigmoid", [x], None)
        self.add("Mul", self.random.sample([x, factor], 2), self.values[x])

    def join(self, x):
        n, _, h, w = self.values[x]
        like = [v for v, s in self.values.items() if (s[0], *s[2:]) == (n, h, w)]
        chosen = [x, *self.random.choices(like, k=self.random.choice([1, 2]))]
        channels = sum(self.values[v][1] for v in chosen)
        self.add("Concat", chosen, (n, channels, h, w), axis=1)

    def combine(self, x):
        like = [v for v, s in self.values.items() if s == self.values[x]]
        op = self.random.choice(["Add", "Add", "Mul", "Sub", "Max", "Sum", "Min"])
        count = self.random.choice([1, 2, 3]) if op in ("Max", "Sum", "Min") else 1
        self.add(op, [x, *self.random.choices(like, k=count)], self.values[x])

    def pool(self, x):
        n, c, h, w = self.values[x]
        op = self.random.choice(["MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"])
        if op.startswith("Global"):
            self.add(op, [x], (n, c, 1, 1))
        else:
            self.add(op, [x], (n, c, h, w), kernel_shape=[3, 3], pads=[1, 1, 1, 1])

    def scale(self, x):
        n, c, _, _ = self.values[x]
        mean = self.add("GlobalAveragePool", [x], (n, c, 1, 1))
        weights = self.add("Conv", [mean, self.constant(c, c, 1, 1)], (n, c, 1, 1))
        self.add("Mul", self.random.sample([x, weights], 2), self.values[x])

    def scale_by_constant(self, x):
        c = self.values[x][1]
        shape = self.random.choice([(c, 1, 1), (1, c, 1, 1), (1,)])
        inputs = self.random.sample([x, self.constant(*shape)], 2)
        self.add(self.random.choice(["Mul", "Add"]), inputs, self.values[x])

    def normalize(self, x):
        c = self.values[x][1]
        operands = [x, *(self.constant(c) for _ in range(4))]
        self.constants[operands[-1]] = np.abs(self.constants[operands[-1]]) + np.float32(0.2)
        normalized = self.add("BatchNormalization", operands, self.values[x], epsilon=1e-3)
        if self.random.random() < 0.5:
            self.add("Relu", [normalized], self.values[x])

    def tile(self, x):
        n, c, h, w = self.values[x]
        m, taps = self.random.choice([6, 16, 20]), self.random.choice([1, 2])
        inputs = [x, self.constant(c, m, taps, taps)]
        if self.random.random() < 0.5:
            inputs.append(self.constant(m))
        self.add("ConvTranspose", inputs, (n, m, taps * h, taps * w), strides=[taps, taps])

    def resize(self, x):
        n, c, h, w = self.values[x]
        mode, transform = self.random.choice(
            [("nearest", "asymmetric"), ("linear", "half_pixel"), ("linear", "align_corners"),
             ("nearest", "half_pixel"), ("cubic", "half_pixel")]
        )  # fmt: skip
        factor = self.random.choice([2, 3, 1.5])
        name = f"c{len(self.constants)}"
        self.constants[name] = np.array([1, 1, factor, 2], np.float32)
        shape = (n, c, int(h * factor), 2 * w)
        inputs = [x, "", name]
        if self.sized:
            self.constants[name] = np.array(shape)
            inputs = [x, "", "", name]
        self.add("Resize", inputs, shape, mode=mode, nearest_mode="floor",
                 coordinate_transformation_mode=transform)  # fmt: skip

    def mean(self, x):
        n, c, _, _ = self.values[x]
        axes = self.random.choice([[2, 3], [-1, -2], [1, 2]])
        shape = (n, 1, 1, self.values[x][3]) if axes == [1, 2] else (n, c, 1, 1)
        self.add("ReduceMean", [x], shape, axes=axes, keepdims=1)

    def last(self, x):
        there = self.add("Transpose", [x], None, perm=[0, 2, 3, 1])
        normal = self.add("Softmax", [there], None, axis=-1)
        self.add("Transpose", [normal], self.values[x], perm=[0, 3, 1, 2])

    def model(self, free_batch=False):
        outputs = [name for name in self.values if name not in self.used and name != "x"]
        shape = ["batch", *self.shape[1:]] if free_batch else self.shape
        graph = helper.make_graph(
            self.nodes,
            "network",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


def network(seed, length=8, **options):
    """Draw a network of so many layers."""
    drawn = Network(seed, **options)
    while len(drawn.nodes) < length:
        drawn.draw()
    return drawn


def in_blocks(kernel):
    """Prices that favour the layout: outside of it all work on images is dear."""
    if kernel.domain == NCHWC:
        return 300 if kernel.op_type.startswith("Reorder") else 10
    dear = ("Conv", "ConvTranspose", "MaxPool", "AveragePool")
    return 1_000 if kernel.op_type in dear else 100


def laid_out(model, price=in_blocks, seed=0, sizes=None):
    """Lay a model out; None where nothing would be in blocks."""
    rules = [rule for rule in load_rules() if rule.tag == "pass"]
    prices = Prices(seed, price)
    laid, _ = lay_out(graph_of(model), prices, rules, sizes=sizes or {}, fold_limit=FOLD_LIMIT)
    return None if laid is None else to_model(laid.graph)


def operators(model):
    """Count the operators of a model, `blocked Conv` apart from `Conv`."""
    counts = {}
    for node in model.graph.node:
        name = f"blocked {node.op_type}" if node.domain == NCHWC else node.op_type
        counts[name] = counts.get(name, 0) + 1
    return counts


@functools.cache
def has_blocks():
    from tensolog.optimizer.layouts.runtime import block_size

    return block_size() is not None
