"""Random ONNX graphs for hypothesis, grown step by step from what rules are about."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from onnx import helper

from .graph_builder import GraphBuilder

# Growth steps: each takes the builder and appends nodes, or does nothing where none fits.


UNARY = ["Relu", "Neg", "Abs", "Tanh", "Sigmoid", "Erf", "Identity", "Softplus", "HardSigmoid"]
UNARY += ["LeakyRelu", "Elu", "Cos", "Softsign", "HardSwish"]


def unary(build):
    op_type = build.draw(st.sampled_from(UNARY))
    build.add(op_type, build.pick())


def binary(build):
    op_type = build.draw(st.sampled_from(["Add", "Sub", "Mul", "Max", "Min", "Div", "Sum", "Mean"]))
    left, right = build.pick(), build.pick()
    if op_type == "Div" or build.draw(st.booleans()):
        shape = build.arrays[left].shape
        kept = build.draw(st.integers(0, len(shape)))
        right = build.weights(*shape[kept:], low=0.5)
        if op_type != "Div" and build.draw(st.booleans()):
            left, right = right, left
    build.add(op_type, left, right)


def neutral(build):
    """Append what changes nothing, or nearly so: the food of elimination rules."""
    value = build.pick()
    shape = build.draw(st.sampled_from([(), (1,), (1, 1)]))
    kind = build.draw(st.integers(0, 6))
    if kind == 0:
        build.add("Mul", value, build.constant(np.ones(shape)))
    elif kind == 1:
        build.add("Add", build.constant(np.zeros(shape)), value)
    elif kind == 2:
        build.add("Div", value, build.constant(np.ones(shape)))
    elif kind == 3:
        build.add("Sub", value, build.constant(np.zeros(shape)))
    elif kind == 4:
        build.chain(value, ("Neg", (), {}), ("Neg", (), {}))
    elif kind == 5:
        build.chain(value, ("Relu", (), {}), ("Relu", (), {}))
    else:
        build.add("Dropout", value)


def scales(build):
    """Append two scales or shifts in a row."""
    first, second = (build.constant(build.random.uniform(0.5, 2.0, ())) for _ in range(2))
    op_types = [build.draw(st.sampled_from(["Mul", "Add", "Div", "Sub"])) for _ in range(2)]
    build.chain(build.pick(), (op_types[0], (first,), {}), (op_types[1], (second,), {}))


def power(build):
    exponent = build.draw(st.sampled_from([2.0, 3.0, 4.0, 0.5, 1.0, -1.0, -2.0, -0.5, 0.0, 1.5]))
    value = build.pick()
    if exponent in (2.0, 3.0, 4.0, 1.0, 0.0):
        build.add("Pow", value, build.constant(np.asarray(exponent)))
    elif absolute := build.add("Abs", value):
        shift = build.constant(np.asarray(0.5))
        build.chain(
            absolute[0],
            ("Add", (shift,), {}),
            ("Pow", (build.constant(np.asarray(exponent)),), {}),
        )


def matmul(build):
    value = build.pick(least_rank=2)
    if value is None:
        return
    inner = build.arrays[value].shape[-1]
    for _ in range(build.draw(st.integers(1, 3))):
        width = build.draw(st.integers(1, 5))
        product = build.add("MatMul", value, build.weights(inner, width))
        if product and build.draw(st.booleans()):
            build.add("Add", product[0], build.weights(width))


def matmul_of_values(build):
    left, right = build.pick(least_rank=2), build.pick(least_rank=2)
    if left is not None:
        if build.arrays[left].shape[-1] != build.arrays[right].shape[-2]:
            rank = build.arrays[right].ndim
            order = [*range(rank - 2), rank - 1, rank - 2]
            turned = build.add("Transpose", right, perm=order)
            right = turned[0] if turned else right
        build.add("MatMul", left, right)


def gemm(build):
    value = build.pick(rank=2)
    if value is None:
        return
    transposed_left, transposed_right = build.draw(st.booleans()), build.draw(st.booleans())
    inner = build.arrays[value].shape[0 if transposed_left else 1]
    width = build.draw(st.integers(1, 4))
    weight = build.weights(width, inner) if transposed_right else build.weights(inner, width)
    bias = [build.weights(width)] if build.draw(st.booleans()) else []
    build.add(
        "Gemm",
        value,
        weight,
        *bias,
        alpha=build.draw(st.sampled_from([1.0, 0.5])),
        beta=build.draw(st.sampled_from([1.0, 2.0])),
        transA=int(transposed_left),
        transB=int(transposed_right),
    )


def convolution(build):
    value = build.pick(rank=4)
    if value is None or 0 in build.arrays[value].shape:
        return
    channels = build.arrays[value].shape[1]
    kernel = build.draw(st.sampled_from([1, 2, 3]))
    groups = build.draw(st.sampled_from([1, channels]))
    options = {
        "kernel_shape": [kernel, kernel],
        "pads": [build.draw(st.integers(0, 1)) for _ in range(4)],
        "strides": [build.draw(st.integers(1, 2))] * 2,
        "group": groups,
    }
    for _ in range(build.draw(st.integers(1, 3))):
        filters = groups * build.draw(st.integers(1, 3))
        weight = build.weights(filters, channels // groups, kernel, kernel)
        bias = [build.weights(filters)] if build.draw(st.booleans()) else []
        result = build.add("Conv", value, weight, *bias, **options)
        if result is None:
            return
        if build.draw(st.booleans()):
            normalize(build, result[0])
        elif build.draw(st.booleans()):
            scale = build.weights(filters, 1, 1, low=0.5)
            build.add(build.draw(st.sampled_from(["Mul", "Add"])), result[0], scale)


def batch_normalization(build):
    value = build.pick(least_rank=2)
    if value is not None:
        normalize(build, value)


def normalize(build, value):
    channels = build.arrays[value].shape[1]
    statistics = [build.weights(channels) for _ in range(3)]
    variance = build.weights(channels, low=0.3)
    build.add("BatchNormalization", value, *statistics, variance, epsilon=1e-3)


def transpose(build):
    value = build.pick(least_rank=1)
    if value is None:
        return
    for _ in range(build.draw(st.integers(1, 2))):
        order = build.draw(st.permutations(range(build.arrays[value].ndim)))
        value = build.add("Transpose", value, perm=list(order))[0]


def reshape(build):
    value = build.pick()
    for _ in range(build.draw(st.integers(1, 2))):
        size = build.arrays[value].size
        shape = build.draw(
            st.sampled_from([(-1,), (1, -1), (-1, 1), (size,), (0, -1), (1, 1, -1, 1)])
        )
        if size and size % 2 == 0 and build.draw(st.booleans()):
            shape = (2, -1)
        added = build.add("Reshape", value, build.constant(np.array(shape, np.int64)))
        if added is None:
            return
        value = added[0]


def squeeze_or_unsqueeze(build):
    value = build.pick()
    axes = build.constant(np.array([build.draw(st.integers(0, build.arrays[value].ndim))]))
    added = build.add("Unsqueeze", value, axes)
    if added and build.draw(st.booleans()):
        build.add("Squeeze", added[0], axes)


def concat_or_split(build):
    value = build.pick(least_rank=1)
    if value is None:
        return
    axis = build.axis(value)
    shape = build.arrays[value].shape
    if build.draw(st.booleans()):
        others = [
            name
            for name, array in build.arrays.items()
            if array.shape == shape and array.dtype == np.float64
        ]
        parts = build.draw(st.lists(st.sampled_from([*others, value]), min_size=1, max_size=3))
        joined = build.add("Concat", *parts, axis=axis)
        if joined and build.draw(st.booleans()):
            take_slice(build, joined[0], axis)
    elif shape[axis] >= 2:
        first = build.draw(st.integers(0, shape[axis]))
        sizes = build.constant(np.array([first, shape[axis] - first]))
        parts = build.add("Split", value, sizes, outputs=2, axis=axis)
        if parts and build.draw(st.booleans()):
            build.add("Concat", *parts, axis=axis)


def slice_of_value(build):
    value = build.pick(least_rank=1)
    if value is not None:
        take_slice(build, value, build.axis(value))


def take_slice(build, value, axis):
    bounds = [build.draw(st.integers(-5, 8)), build.draw(st.integers(-5, 8))]
    step = build.draw(st.sampled_from([1, 1, 1, 2, -1]))
    if step < 0:  # the reference implementation takes bounds beyond the end otherwise than the spec
        bounds = [-1, np.iinfo(np.int64).min]
    bounds = [build.constant(np.array([number])) for number in (*bounds, axis, step)]
    build.add("Slice", value, *bounds)


def reduce(build):
    value = build.pick(least_rank=1)
    if value is None:
        return
    op_type = build.draw(
        st.sampled_from(["ReduceMean", "ReduceMax", "ReduceMin", "ReduceSumSquare"])
    )
    build.add(op_type, value, axes=[build.axis(value)], keepdims=int(build.draw(st.booleans())))


def softmax(build):
    value = build.pick(least_rank=1)
    if value is not None:
        build.add("Softmax", value, axis=build.axis(value))


def layer_normalization(build):
    """Append a layer normalization in single steps."""
    value = build.pick(least_rank=1)
    if value is None or build.arrays[value].size == 0:
        return
    options = {"axes": [-1], "keepdims": 1}
    mean = build.add("ReduceMean", value, **options)
    centered = mean and build.add("Sub", value, mean[0])
    squares = centered and build.add("Pow", centered[0], build.constant(np.asarray(2.0)))
    variance = squares and build.add("ReduceMean", squares[0], **options)
    shifted = variance and build.add("Add", variance[0], build.constant(np.asarray(0.1)))
    root = shifted and build.add("Sqrt", shifted[0])
    if root:
        build.add("Div", centered[0], root[0])


def gelu(build):
    value = build.pick()
    scaled = build.add("Div", value, build.constant(np.asarray(np.sqrt(2))))
    erf = scaled and build.add("Erf", scaled[0])
    shifted = erf and build.add("Add", erf[0], build.constant(np.asarray(1.0)))
    if shifted is None:
        return
    half = build.constant(np.asarray(0.5))
    if build.draw(st.booleans()):
        product = build.add("Mul", value, shifted[0])
        build.chain(product[0], ("Mul", (half,), {}))
    else:
        halved = build.add("Mul", half, shifted[0])
        build.add("Mul", value, halved[0])


def twice(build):
    """Append a node that another one already is: the food of common subexpressions."""
    if build.nodes:
        node = build.draw(st.sampled_from(build.nodes))
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        build.add(node.op_type, *node.input, outputs=len(node.output), **attributes)


def constant_branch(build):
    """Add to a value what depends on constants alone."""
    value = build.pick()
    shape = build.arrays[value].shape
    added = build.add("Add", build.weights(*shape), build.weights(*shape[-1:]))
    if added:
        build.add("Mul", value, added[0])


def clips(build):
    """Append two clips in a row, their bounds given or left out."""
    bounds = [
        [build.constant(np.asarray(build.draw(st.sampled_from([-1.0, -0.5]))))],
        ["", build.constant(np.asarray(build.draw(st.sampled_from([0.3, 0.8]))))],
    ]
    bounds.append([bounds[0][0], bounds[1][1]])
    chosen = [build.draw(st.sampled_from(bounds)) for _ in range(2)]
    build.chain(build.pick(), ("Clip", chosen[0], {}), ("Clip", chosen[1], {}))


def padded(build):
    """Append a pad and what may absorb it."""
    value = build.pick(rank=4)
    if value is None or 0 in build.arrays[value].shape:
        return
    widths = [build.draw(st.integers(0, 1)) for _ in range(4)]
    pads = build.constant(np.array([0, 0, *widths[:2], 0, 0, *widths[2:]]))
    if build.draw(st.booleans()):
        channels = build.arrays[value].shape[1]
        follow = ("Conv", (build.weights(2, channels, 2, 2),), {"kernel_shape": [2, 2]})
    else:
        counted = {"count_include_pad": int(build.draw(st.booleans()))}
        follow = ("AveragePool", (), {"kernel_shape": [2, 2], **counted})
    build.chain(value, ("Pad", (pads,), {}), follow)


def einsum(build):
    value = build.pick(rank=2)
    if value is None:
        return
    rows, columns = build.arrays[value].shape
    equation = build.draw(st.sampled_from(["ij,jk->ik", "ij,ij->i", "ij,kj->ik", "ij,ij->ij"]))
    shape = {"jk": (columns, 3), "ij": (rows, columns), "kj": (3, columns)}[equation[3:5]]
    build.add("Einsum", value, build.weights(*shape), equation=equation)


def log_sum_exp(build):
    value = build.pick(least_rank=1)
    if value is not None and build.arrays[value].size:
        keepdims = int(build.draw(st.booleans()))
        build.add("ReduceLogSumExp", value, axes=[build.axis(value)], keepdims=keepdims)


def sum_of_products(build):
    """Append xA + xB, or (xA)B, with constant A and B."""
    value = build.pick(least_rank=2)
    if value is None:
        return
    inner = build.arrays[value].shape[-1]
    first = build.add("MatMul", value, build.weights(inner, 3))
    if first and build.draw(st.booleans()):
        build.add("MatMul", first[0], build.weights(3, 2))
    elif first:
        second = build.add("MatMul", value, build.weights(inner, 3))
        if second:
            build.add(build.draw(st.sampled_from(["Add", "Sub"])), first[0], second[0])


STEPS = [
    clips,
    padded,
    einsum,
    log_sum_exp,
    sum_of_products,
    unary,
    binary,
    neutral,
    scales,
    power,
    matmul,
    matmul_of_values,
    gemm,
    convolution,
]
STEPS += [batch_normalization, transpose, reshape, squeeze_or_unsqueeze, concat_or_split]
STEPS += [slice_of_value, reduce, softmax, layer_normalization, gelu, twice, constant_branch]


@st.composite
def graphs(draw, *, symbolic=False, least_steps=1, most_steps=10):
    """Draw (model, feeds, exact outputs); with `symbolic`, the inputs' first dimension is open."""
    build = GraphBuilder(draw, symbolic=symbolic)
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=least_steps, max_size=most_steps)):
        step(build)
    if not build.nodes:
        build.add("Identity", "input0")
    model = build.model()
    exact = [build.arrays[value.name] for value in model.graph.output]
    return model, build.feeds, exact
