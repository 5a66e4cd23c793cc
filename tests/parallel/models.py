"""Models, clusters and random plans that tests of plans over devices share."""

import math

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tensolog.parallel.cuts.operator_cuts import cuts_of
from tensolog.parallel.devices import parse_cluster
from tensolog.parallel.search.config_space import Space
from tensolog.parallel.simulation.tasks import Problem
from tensolog.parallel.simulation.times import Times
from tensolog.parallel.workload import read_workload


def cluster(
    count, *, gib=16, tflops=10.0, gb_per_s=100.0, latency_us=5.0, launch_us=1.0, stage_us=0.0
):
    """Devices that are alike, each linked with each."""
    link = f"[[link]]\nlatency_us = {latency_us}\ngb_per_s = {gb_per_s}\n" if count > 1 else ""
    return parse_cluster(
        f"""
        name = "alike"
        [[device]]
        name = "d"
        count = {count}
        memory_gib = {gib}
        gflops_per_s = {tflops * 1000}
        memory_gb_per_s = 200
        launch_us = {launch_us}
        stage_us = {stage_us}
        {link}
        """
    )


class Builder:
    """A graph of float32 tensors, built node by node; values carry their shapes."""

    def __init__(self, seed=0):
        self.random = np.random.default_rng(seed)
        self.nodes, self.weights, self.inputs, self.shapes = [], [], [], {}

    def input(self, *shape):
        name = f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        self.shapes[name] = shape
        return name

    def weight(self, *shape, data=True):
        name = f"w{len(self.weights)}"
        if data or math.prod(shape) <= 1 << 14:
            array = self.random.standard_normal(shape).astype(np.float32)
            self.weights.append(numpy_helper.from_array(array / math.sqrt(max(shape)), name))
        else:
            tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="absent.bin")
            self.weights.append(tensor)
        self.shapes[name] = shape
        return name

    def ints(self, *values):
        name = f"i{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def node(self, op_type, *inputs, shape, **attributes):
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], name=name, **attributes))
        self.shapes[name] = tuple(shape)
        return name

    def model(self, *outputs):
        infos = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, self.shapes[name])
            for name in outputs
        ]
        graph = helper.make_graph(self.nodes, "graph", self.inputs, infos, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def perceptron(rows=8, width=16, layers=2, data=True):
    """MatMul and Relu, layer by layer."""
    build = Builder()
    x = build.input(rows, width)
    for _ in range(layers):
        w = build.weight(width, width, data=data)
        x = build.node("MatMul", x, w, shape=(rows, width))
        x = build.node("Relu", x, shape=(rows, width))
    return build.model(x)


def transformer(layers=1, batch=1, tokens=8, width=64, heads=4, inner=128, data=True):
    """Blocks of attention and a perceptron, with residual connections."""
    build = Builder()
    head = width // heads
    split = build.ints(batch, tokens, heads, head)
    merge = build.ints(batch, tokens, width)
    full, by_head = (batch, tokens, width), (batch, heads, tokens, head)
    x = build.input(*full)

    def norm(x):
        return build.node("LayerNormalization", x, build.weight(width, data=data), shape=full)

    def dense(x, columns, rows=width):
        w = build.weight(rows, columns, data=data)
        return build.node("MatMul", x, w, shape=(batch, tokens, columns))

    for _ in range(layers):
        n = norm(x)
        turned = []
        for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
            y = build.node("Reshape", dense(n, width), split, shape=(batch, tokens, heads, head))
            shape = by_head if perm[2] == 1 else (batch, heads, head, tokens)
            turned.append(build.node("Transpose", y, shape=shape, perm=perm))
        q, k, v = turned
        scores = build.node("MatMul", q, k, shape=(batch, heads, tokens, tokens))
        weights = build.node("Softmax", scores, shape=(batch, heads, tokens, tokens), axis=-1)
        y = build.node("MatMul", weights, v, shape=by_head)
        y = build.node("Transpose", y, shape=(batch, tokens, heads, head), perm=[0, 2, 1, 3])
        y = build.node("Reshape", y, merge, shape=full)
        x = build.node("Add", x, dense(y, width), shape=full)
        h = dense(norm(x), inner)
        h = build.node("Relu", h, shape=(batch, tokens, inner))
        x = build.node("Add", x, dense(h, width, inner), shape=full)
    return build.model(x)


def problem(model, devices, **times):
    """A model on a cluster of devices that are alike, or on one that is given."""
    cluster_ = cluster(devices) if isinstance(devices, int) else devices
    return Problem(read_workload(model), cluster_, Times(cluster_), **times)


def space(model, devices, **times):
    """All divisions that the specifications suggest, proved or not."""
    problem_ = problem(model, devices, **times)
    return Space(problem_, [cuts_of(operator.kernel) for operator in problem_.workload.operators])


def random_graph(draw, nodes=6):
    """A graph of operators of many kinds; `draw(n)` gives a number below n."""
    build = Builder(draw(1000))
    image = draw(2) == 1
    batch = 2 + draw(3)
    x = build.input(batch, 4, 6 + draw(4), 6) if image else build.input(batch, 6, 8)
    alive = [x]
    for _ in range(nodes):
        x = alive[draw(len(alive))]
        alive.append(random_node(build, draw, x))
    used = {name for node in build.nodes for name in node.input}
    return build.model(*[name for name in alive[1:] if name not in used])


def random_node(build, draw, x):
    """Add an operator that can read a value."""
    shape = build.shapes[x]
    rank = len(shape)
    kinds = ["Relu", "Softmax", "Add", "Mul", "Transpose", "ReduceSum", "ReduceMax", "MatMul"]
    kinds += ["Concat", "Reshape", "LayerNormalization", "Clip"]
    kinds += ["Conv", "Conv", "MaxPool", "Depthwise"] if rank == 4 and min(shape) >= 3 else []
    kinds += ["Gemm"] if rank == 2 else []
    kind = kinds[draw(len(kinds))]
    if kind == "Relu":
        return build.node("Relu", x, shape=shape)
    if kind == "Clip":
        return build.node("Clip", x, shape=shape)
    if kind == "Softmax":
        return build.node("Softmax", x, shape=shape, axis=draw(rank))
    if kind in ("Add", "Mul"):
        other = [x, build.weight(*shape), build.weight(shape[-1])][draw(3)]
        return build.node(kind, x, other, shape=shape)
    if kind == "Transpose":
        perm = [int(axis) for axis in build.random.permutation(rank)]
        return build.node("Transpose", x, shape=[shape[axis] for axis in perm], perm=perm)
    if kind in ("ReduceSum", "ReduceMax"):
        axis = draw(rank)
        new = [1 if i == axis else size for i, size in enumerate(shape)]
        if kind == "ReduceSum":
            return build.node(kind, x, build.ints(axis), shape=new)
        return build.node(kind, x, shape=new, axes=[axis])
    if kind == "MatMul":
        columns = 4 + draw(5)
        return build.node(
            "MatMul", x, build.weight(shape[-1], columns), shape=(*shape[:-1], columns)
        )
    if kind == "Gemm":
        columns, turned = 4 + draw(4), draw(2)
        w = build.weight(*((columns, shape[1]) if turned else (shape[1], columns)))
        bias = [build.weight(columns)] if draw(2) else []
        return build.node("Gemm", x, w, *bias, shape=(shape[0], columns), transB=turned)
    if kind == "Concat":
        axis = draw(rank)
        new = [2 * size if i == axis else size for i, size in enumerate(shape)]
        return build.node("Concat", x, x, shape=new, axis=axis)
    if kind == "Reshape":
        return reshape(build, draw, x)
    if kind == "LayerNormalization":
        return build.node(kind, x, build.weight(shape[-1]), shape=shape)
    if kind == "MaxPool":
        new = (*shape[:2], (shape[2] - 2) // 2 + 1, shape[3] - 1)
        return build.node(kind, x, shape=new, kernel_shape=[2, 2], strides=[2, 1])
    return convolution(build, draw, x, depthwise=kind == "Depthwise")


def reshape(build, draw, x):
    """Merge two axes, or divide one that can be halved."""
    shape = build.shapes[x]
    halves = [axis for axis, size in enumerate(shape) if size % 2 == 0 and len(shape) < 5]
    if halves and draw(2):
        axis = halves[draw(len(halves))]
        new = [*shape[:axis], shape[axis] // 2, 2, *shape[axis + 1 :]]
    elif len(shape) > 1:
        axis = draw(len(shape) - 1)
        new = [*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]]
    else:
        new = list(shape)
    return build.node("Reshape", x, build.ints(*new), shape=new)


def convolution(build, draw, x, *, depthwise):
    """Windows of 1 to 3, strides of 1 or 2, padded or not, with a bias or without."""
    n, c, h, w = build.shapes[x]
    filters = c if depthwise else 2 + draw(5)
    kernel, stride = 1 + draw(3), 1 + draw(2)
    pads = [draw(2) * (kernel > 1) for _ in range(4)]
    high = (h + pads[0] + pads[2] - kernel) // stride + 1
    wide = (w + pads[1] + pads[3] - kernel) // stride + 1
    weight = build.weight(filters, 1 if depthwise else c, kernel, kernel)
    bias = [build.weight(filters)] if draw(2) else []
    return build.node(
        "Conv", x, weight, *bias, shape=(n, filters, high, wide), pads=pads,
        strides=[stride, stride], group=c if depthwise else 1,
    )  # fmt: skip


def random_plan(draw, space_):
    """A division of each operator, drawn from all of them."""
    divisions = []
    for number in range(len(space_.cuts)):
        configs = space_.all_configs(number)
        # Most are divided: one operator in one piece has few of many.
        divided = [config for config in configs if config.cuts]
        pool = divided if divided and draw(8) else configs
        divisions.append(pool[draw(len(pool))])
    return tuple(divisions)


def check_model(model):
    onnx.checker.check_model(model, full_check=True)
