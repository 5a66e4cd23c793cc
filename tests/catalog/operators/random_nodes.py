"""Random nodes: shapes (with 0 and 1 among the dimensions) and attributes, by operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st

Array = np.ndarray[Any, np.dtype[Any]]
Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass
class Node:
    """One node with its inputs."""

    op_type: str
    inputs: list[Array | None]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    opset: int = 21
    domain: str = ""


def examples_of_nodes(count: int) -> Callable[[Any], Any]:
    """Settings of a test of random nodes: so many examples, the same in each run."""
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def noted(node: Node) -> Node:
    """Say of a failing example which node it is."""
    shapes = [None if array is None else array.shape for array in node.inputs]
    note(f"{node.op_type} {shapes} {node.attributes}")
    return node


def values(draw: Draw, shape: tuple[int, ...], low: float = -2, high: float = 2) -> Array:
    seed = draw(st.integers(0, 2**16))
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def shape(draw: Draw, low: int = 0, high: int = 4, least: int = 0) -> tuple[int, ...]:
    return tuple(draw(st.lists(st.integers(least, 4), min_size=low, max_size=high)))


def ints(*entries: int) -> Array:
    return np.asarray(entries, np.int64)


def narrowed(draw: Draw, whole: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to `whole`."""
    kept = whole[draw(st.integers(0, len(whole))) :]
    return tuple(1 if draw(st.booleans()) else extent for extent in kept)


_POSITIVE = {"Log": (0.1, 3), "Sqrt": (0, 3), "Reciprocal": (0.2, 2), "Acosh": (1, 3)}
_INSIDE = {"Asin": (-1, 1), "Acos": (-1, 1), "Atanh": (-0.9, 0.9)}
UNARY = (
    "Abs Neg Sign Ceil Floor Round Exp Log Sqrt Reciprocal Erf Sin Cos Tan Asin Acos Atan Sinh "
    "Cosh Tanh Asinh Acosh Atanh Identity Relu Sigmoid HardSwish Softplus Softsign Mish Elu "
    "Celu Selu LeakyRelu ThresholdedRelu HardSigmoid Gelu Shrink"
)
_ALPHA = {"Elu", "Celu", "LeakyRelu", "ThresholdedRelu"}
BINARY = "Add Sub Mul Div Pow PRelu Equal Less Greater GreaterOrEqual LessOrEqual"
VARIADIC = "Sum Max Min Mean"
REDUCTIONS = (
    "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare "
    "ReduceLogSum ReduceLogSumExp"
)


def unary(draw: Draw, op: str) -> Node:
    low, high = {**_POSITIVE, **_INSIDE}.get(op, (-2, 2))
    attributes = {"alpha": draw(st.floats(0.125, 2, width=32))} if op in _ALPHA else {}
    if op == "Gelu":
        attributes = {"approximate": draw(st.sampled_from(["none", "tanh"]))}
    return Node(op, [values(draw, shape(draw), low, high)], attributes)


def binary(draw: Draw, op: str) -> Node:
    whole = shape(draw)
    other = narrowed(draw, whole)
    if op == "PRelu":
        return Node(op, [values(draw, whole), values(draw, other)])
    sides = [values(draw, whole, 0.5), values(draw, other, 0.5)]
    return Node(op, sides if draw(st.booleans()) else sides[::-1])


def variadic(draw: Draw, op: str) -> Node:
    whole = shape(draw)
    count = draw(st.integers(1, 3))
    return Node(
        op, [values(draw, whole), *(values(draw, narrowed(draw, whole)) for _ in range(count))]
    )


def reduction(draw: Draw, op: str) -> Node:
    whole = shape(draw, 1, 4, 1)
    rank = len(whole)
    axes = draw(st.lists(st.integers(0, rank - 1), unique=True, max_size=rank))
    axes = [axis - rank if draw(st.booleans()) else axis for axis in axes]
    attributes = {"keepdims": draw(st.integers(0, 1))}
    operands: list[Array | None] = [values(draw, whole, 0.1), ints(*axes)]
    return Node(op, operands if axes else operands[:1], attributes)


def softmax(draw: Draw, op: str) -> Node:
    whole = shape(draw, 1, 4, 1)
    axis = draw(st.integers(-len(whole), len(whole) - 1))
    return Node(op, [values(draw, whole)], {"axis": axis}, opset=draw(st.sampled_from([11, 13])))


def matmul(draw: Draw, op: str) -> Node:
    m, k, n = (draw(st.integers(1, 4)) for _ in range(3))
    batch = shape(draw, 0, 2, 1)
    left, right = (*batch, m, k), (*narrowed(draw, batch), k, n)
    if draw(st.booleans()):
        left, right = (*narrowed(draw, batch), m, k), (*batch, k, n)
    if draw(st.integers(0, 3)) == 0:
        left = (k,)
    elif draw(st.integers(0, 3)) == 0:
        right = (k,)
    return Node(op, [values(draw, left), values(draw, right)])


def gemm(draw: Draw, op: str) -> Node:
    m, k, n = (draw(st.integers(1, 4)) for _ in range(3))
    flip_a, flip_b = draw(st.integers(0, 1)), draw(st.integers(0, 1))
    a, b = (k, m) if flip_a else (m, k), (n, k) if flip_b else (k, n)
    operands: list[Array | None] = [values(draw, a), values(draw, b)]
    if draw(st.booleans()):
        operands.append(values(draw, narrowed(draw, (m, n))))
    alpha = draw(st.floats(-2, 2, width=32))
    return Node(op, operands, {"transA": flip_a, "transB": flip_b, "alpha": alpha, "beta": 0.5})


def _window(draw: Draw, spatial: int, dilated: bool) -> dict[str, Any]:
    kernel = [draw(st.integers(1, 3)) for _ in range(spatial)]
    attributes: dict[str, Any] = {"kernel_shape": kernel}
    attributes["strides"] = [draw(st.integers(1, 3)) for _ in kernel]
    if dilated:
        attributes["dilations"] = [draw(st.integers(1, 2)) for _ in kernel]
    mode = draw(st.sampled_from(["NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]))
    attributes["auto_pad"] = mode
    if mode.startswith("SAME"):  # the runtime refuses the negative padding of wider strides
        strides = zip(attributes["strides"], kernel, strict=True)
        attributes["strides"] = [min(stride, extent) for stride, extent in strides]
    if mode == "NOTSET":
        attributes["pads"] = [draw(st.integers(0, extent - 1)) for extent in [*kernel, *kernel]]
    return attributes


def _data(draw: Draw, attributes: Mapping[str, Any]) -> tuple[int, ...]:
    dilations = attributes.get("dilations", [1] * len(attributes["kernel_shape"]))
    return tuple(
        (k - 1) * d + 1 + draw(st.integers(0, 4))
        for k, d in zip(attributes["kernel_shape"], dilations, strict=True)
    )


def pool(draw: Draw, op: str) -> Node:
    opset = draw(st.sampled_from([18, 21]))
    dilated = op == "MaxPool" or opset == 21
    attributes = _window(draw, draw(st.integers(1, 3)), dilated)
    if op == "AveragePool":
        attributes["count_include_pad"] = draw(st.integers(0, 1))
    if op != "LpPool":
        attributes["ceil_mode"] = (
            draw(st.integers(0, 1)) if attributes["auto_pad"] == "NOTSET" else 0
        )
    if attributes["auto_pad"].startswith("SAME"):
        attributes.pop("dilations", None)
    data = values(draw, (draw(st.integers(1, 2)), 2, *_data(draw, attributes)))
    return Node(op, [data], attributes, opset=opset)


def conv(draw: Draw, op: str) -> Node:
    attributes = _window(draw, draw(st.integers(1, 3)), True)
    if attributes["auto_pad"].startswith("SAME"):
        attributes.pop("dilations")
    group, per_group, out = (draw(st.integers(1, 2)) for _ in range(3))
    data = values(draw, (draw(st.integers(1, 2)), group * per_group, *_data(draw, attributes)))
    weight = values(draw, (group * out, per_group, *attributes["kernel_shape"]))
    operands: list[Array | None] = [data, weight]
    if draw(st.booleans()):
        operands.append(values(draw, (group * out,)))
    return Node(op, operands, {**attributes, "group": group})


def conv_transpose(draw: Draw, op: str) -> Node:
    spatial = draw(st.integers(1, 2))
    attributes = _window(draw, spatial, True)
    attributes["auto_pad"] = "NOTSET"
    attributes["pads"] = [0] * (2 * spatial)
    for axis, extent in enumerate(attributes["kernel_shape"]):
        attributes["pads"][axis] = draw(st.integers(0, (extent - 1) // 2))
    attributes["output_padding"] = [
        draw(st.integers(0, stride - 1)) for stride in attributes["strides"]
    ]
    group, per_group, out = (draw(st.integers(1, 2)) for _ in range(3))
    data = values(draw, (1, group * per_group, *(draw(st.integers(2, 4)) for _ in range(spatial))))
    weight = values(draw, (group * per_group, out, *attributes["kernel_shape"]))
    return Node(op, [data, weight], {**attributes, "group": group})


def transpose(draw: Draw, op: str) -> Node:
    whole = shape(draw, 1)
    return Node(op, [values(draw, whole)], {"perm": draw(st.permutations(range(len(whole))))})


def slices(draw: Draw, op: str) -> Node:
    whole = shape(draw, 1, 3)
    axes = draw(st.lists(st.integers(0, len(whole) - 1), unique=True, min_size=1))
    steps = [draw(st.sampled_from([-3, -2, -1, 1, 2, 3])) for _ in axes]
    far = st.integers(-6, 6)
    bounds = [(draw(far), draw(far)) for _ in axes]
    if draw(st.booleans()):  # any two bounds mostly have nothing between them
        bounds = [_slice_bounds(draw, whole[a], step) for a, step in zip(axes, steps, strict=True)]
    starts, ends = zip(*bounds, strict=True)
    return Node(op, [values(draw, whole), ints(*starts), ints(*ends), ints(*axes), ints(*steps)])


def _slice_bounds(draw: Draw, extent: int, step: int) -> tuple[int, int]:
    """Bounds of a slice that keeps an element, if there is one."""
    first = draw(st.integers(0, max(extent - 1, 0)))
    if step > 0:
        end = draw(st.integers(first + 1, extent + 2))
    else:  # 0 is the first element; what lies before it can only be counted from the end
        end = draw(st.integers(-extent - 2, first - extent - 1))
    return draw(st.sampled_from([first, first - extent])), end


def pad(draw: Draw, op: str) -> Node:
    mode = draw(st.sampled_from(["constant", "edge", "reflect"]))
    whole = shape(draw, 1, 3, 1)
    most = [extent - 1 if mode == "reflect" else 3 for extent in whole]
    pads = [draw(st.integers(0, extent)) for extent in [*most, *most]]
    return Node(op, [values(draw, whole), ints(*pads), np.asarray(1.5, np.float32)], {"mode": mode})


def gather(draw: Draw, op: str) -> Node:
    whole = shape(draw, 1, 3, 1)
    axis = draw(st.integers(-len(whole), len(whole) - 1))
    extent = whole[axis]
    target = shape(draw, 0, 2) if op == "Gather" else whole
    seed = np.random.default_rng(draw(st.integers(0, 99)))
    picked = seed.integers(-extent, extent, target).astype(np.int64)
    return Node(op, [values(draw, whole), picked], {"axis": axis})


def concat(draw: Draw, op: str) -> Node:
    whole = list(shape(draw, 1, 3))
    axis = draw(st.integers(-len(whole), len(whole) - 1))
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        whole[axis] = draw(st.integers(0, 3))
        parts.append(values(draw, tuple(whole)))
    return Node(op, list(parts), {"axis": axis})


def split(draw: Draw, op: str) -> Node:
    whole = list(shape(draw, 1, 3, 1))
    axis = draw(st.integers(-len(whole), len(whole) - 1))
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    whole[axis] = sum(sizes)
    return Node(op, [values(draw, tuple(whole)), ints(*sizes)], {"axis": axis}, len(sizes))


def reshape(draw: Draw, op: str) -> Node:
    whole = shape(draw, 1, 4, 1)
    target = list(draw(st.permutations(whole)))
    if draw(st.booleans()):
        target[draw(st.integers(0, len(target) - 1))] = -1
    elif len(target) > 1:
        target[:2] = [target[0] * target[1]]
    return Node(op, [values(draw, whole), ints(*target)])


def expand(draw: Draw, op: str) -> Node:
    whole = shape(draw)
    return Node(op, [values(draw, narrowed(draw, whole)), ints(*whole)])


def tile(draw: Draw, op: str) -> Node:
    whole = shape(draw, 1, 3)
    return Node(op, [values(draw, whole), ints(*(draw(st.integers(0, 3)) for _ in whole))])


def normalization(draw: Draw, op: str) -> Node:
    fewest = 2 if op == "LRN" else 1  # all that the runtime takes
    whole = (draw(st.integers(1, 3)), 4, *shape(draw, fewest, 2, 1))
    data = values(draw, whole)
    channel = [values(draw, (4,), 0.5) for _ in range(4)]
    if op == "BatchNormalization":
        return Node(op, [data, *channel], {"epsilon": 0.01})
    if op == "LRN":
        return Node(op, [data], {"size": draw(st.sampled_from([3, 5])), "alpha": 0.1})
    if op == "LpNormalization":
        return Node(op, [data], {"axis": draw(st.integers(-2, 1)), "p": draw(st.integers(1, 2))})
    if op == "LayerNormalization":
        axis = draw(st.integers(1 - len(whole), len(whole) - 1))
        part = whole[axis:]
        return Node(op, [data, values(draw, part), values(draw, part)], {"axis": axis})
    return Node(op, [data, *channel[:2]], {"epsilon": 0.01})


def einsum(draw: Draw, op: str) -> Node:
    labels = {label: draw(st.integers(1, 3)) for label in "ijkb"}
    equation = draw(
        st.sampled_from(["ij,jk->ik", "bij,bjk", "ii->i", "ij->", "i,j->ji", "...ij,...jk->...ik"])
    )
    operands = equation.split("->")[0].split(",")
    inputs = [
        values(draw, tuple(labels[label] for label in text.replace("...", "b")))
        for text in operands
    ]
    return Node(op, list(inputs), {"equation": equation})


def blocks(draw: Draw, op: str) -> Node:
    size, c, h, w = (draw(st.integers(1, 3)) for _ in range(4))
    if op == "DepthToSpace":
        data = values(draw, (2, c * size * size, h, w))
        return Node(op, [data], {"blocksize": size, "mode": draw(st.sampled_from(["DCR", "CRD"]))})
    return Node(op, [values(draw, (2, c, h * size, w * size))], {"blocksize": size})


def axes_of_one(draw: Draw, op: str) -> Node:
    whole = shape(draw, 0, 3)
    axes = draw(st.lists(st.integers(0, len(whole)), unique=True, min_size=1, max_size=1))
    if op == "Unsqueeze":
        return Node(op, [values(draw, whole), ints(*axes)])
    return Node(op, [values(draw, (*whole[: axes[0]], 1, *whole[axes[0] :])), ints(*axes)])


def miscellany(draw: Draw, op: str) -> Node:
    whole = shape(draw, 2, 4)
    data = values(draw, whole)
    if op == "Flatten":
        return Node(op, [data], {"axis": draw(st.integers(-len(whole), len(whole)))})
    if op == "Trilu":
        return Node(
            op,
            [data, ints(draw(st.integers(-3, 3))).reshape(())],
            {"upper": draw(st.integers(0, 1))},
        )
    if op == "CumSum":
        attributes = {"exclusive": draw(st.integers(0, 1)), "reverse": draw(st.integers(0, 1))}
        axis = ints(draw(st.integers(-len(whole), len(whole) - 1))).reshape(())
        return Node(op, [values(draw, shape(draw, len(whole), len(whole), 1)), axis], attributes)
    if op == "Where":
        return Node(op, [values(draw, whole) > 0, data, values(draw, narrowed(draw, whole))])
    if op == "Clip":
        low, high = (np.asarray(draw(st.floats(-2, 2, width=32)), np.float32) for _ in range(2))
        return Node(op, [data, low if draw(st.booleans()) else None, high])
    if op == "Mod":
        numbers = np.random.default_rng(draw(st.integers(0, 99)))
        mode = draw(st.integers(0, 1))
        return Node(
            op, [numbers.integers(-9, 9, whole), numbers.integers(1, 5, whole)], {"fmod": mode}
        )
    if op == "Cast":
        return Node(op, [data * 100], {"to": draw(st.sampled_from([1, 6, 7, 9, 10, 11]))})
    return Node(op, [values(draw, (1, 2, *shape(draw, 1, 3, 1)))])


def quantized(draw: Draw, shape: tuple[int, ...], dtype: str) -> Array:
    """Integers over the whole range of a type, both ends among them."""
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    integers = rng.integers(limits.min, int(limits.max) + 1, shape)
    integers.reshape(-1)[:2] = [limits.min, limits.max][: integers.size]
    return integers.astype(dtype)


def scale(draw: Draw, shape: tuple[int, ...]) -> Array:
    """Powers of two, by which reals are divided exactly: halves are ties, and stay so."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    return np.asarray(np.exp2(rng.integers(-3, 4, shape)), np.float32)


def quantize(draw: Draw, op: str) -> Node:
    """Per tensor, per axis, by blocks; with a zero point or without; halves and what saturates."""
    whole = shape(draw, 1, 4, 1)
    opset = draw(st.sampled_from([10, 13, 19, 21]))
    dtype = draw(st.sampled_from(["int8", "uint8", *(["int16", "uint16"] if opset >= 21 else [])]))
    axis = draw(st.integers(-len(whole), len(whole) - 1))
    ways = ["tensor", *(["axis"] if opset >= 13 else []), *(["block"] if opset >= 21 else [])]
    way = draw(st.sampled_from(ways))
    attributes: dict[str, Any] = {} if way == "tensor" else {"axis": axis}
    sizes: tuple[int, ...] = () if way == "tensor" else (whole[axis],)
    if way == "block":
        block = draw(st.integers(1, whole[axis]))
        blocks = list(whole)
        blocks[axis] = -(-whole[axis] // block)
        sizes = tuple(blocks)
        if sizes != (1,):  # ONNX Runtime takes one scale for the tensor's, and refuses blocks
            attributes["block_size"] = block
    steps = scale(draw, sizes)
    zero = quantized(draw, sizes, dtype) if draw(st.booleans()) else None
    if op == "DequantizeLinear":
        return Node(op, [quantized(draw, whole, dtype), steps, zero], attributes, opset=opset)
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    data = rng.integers(-1200, 1200, whole) * np.float32(0.0625)
    operands: list[Array | None] = [data.astype(np.float32), steps, zero]
    if zero is None and opset >= 21:
        attributes["output_dtype"] = draw(st.sampled_from([2, 3, 4, 5]))
    return Node(op, operands if zero is not None else operands[:2], attributes, opset=opset)


def integer_product(draw: Draw, op: str) -> Node:
    m, k, n = (draw(st.integers(1, 4)) for _ in range(3))
    batch = shape(draw, 0, 2, 1)
    kinds = [draw(st.sampled_from(["int8", "uint8"])), "int8"]
    left, right = quantized(draw, (*batch, m, k), "uint8"), quantized(draw, (k, n), kinds[0])
    zeros = [quantized(draw, (), "uint8"), quantized(draw, (), kinds[0])]
    if op == "MatMulInteger":
        return Node(op, [left, right, *zeros])
    steps = [scale(draw, ()), scale(draw, (n,) if draw(st.booleans()) else ()), scale(draw, ())]
    if steps[1].ndim:
        zeros[1] = quantized(draw, (n,), kinds[0])
    out = quantized(draw, (), "uint8")
    return Node(op, [left, steps[0], zeros[0], right, steps[1], zeros[1], steps[2], out])


def quantized_convolution(draw: Draw, op: str) -> Node:
    attributes = _window(draw, draw(st.integers(1, 2)), True)
    if attributes["auto_pad"].startswith("SAME"):
        attributes.pop("dilations")
    group, per_group, out = (draw(st.integers(1, 2)) for _ in range(3))
    data = quantized(draw, (1, group * per_group, *_data(draw, attributes)), "uint8")
    weight = quantized(draw, (group * out, per_group, *attributes["kernel_shape"]), "uint8")
    attributes["group"] = group
    zeros = [quantized(draw, (), "uint8"), quantized(draw, (), "uint8")]
    if op == "ConvInteger":
        return Node(op, [data, weight, *zeros], attributes)
    steps = [scale(draw, ()), scale(draw, ()), scale(draw, ())]
    bias = np.random.default_rng(0).integers(-99, 99, group * out).astype(np.int32)
    operands = [data, steps[0], zeros[0], weight, steps[1], zeros[1], steps[2]]
    return Node(op, [*operands, quantized(draw, (), "uint8"), bias], attributes)


def dynamic(draw: Draw, op: str) -> Node:
    low, high = draw(st.sampled_from([(-2.0, 2.0), (0.5, 2.0), (0.0, 0.0)]))
    return Node(op, [values(draw, shape(draw, 1, 3, 1), low, high)], outputs=3)


def extremes(draw: Draw, op: str) -> Node:
    """Few different numbers, so that many are equal."""
    whole = shape(draw, 1, 4, 1)
    axis = draw(st.integers(-len(whole), len(whole) - 1))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    kind = draw(st.sampled_from([np.float32, np.int32, np.int64]))
    data = rng.integers(-2, 3, whole).astype(kind)
    if op == "TopK":
        count = draw(st.integers(0, whole[axis]))
        attributes = {"axis": axis, "largest": draw(st.integers(0, 1))}
        return Node(op, [data, ints(count)], attributes, 2)
    attributes = {"axis": axis, "keepdims": draw(st.integers(0, 1))}
    opset = draw(st.sampled_from([11, 13]))
    if opset >= 12:
        attributes["select_last_index"] = draw(st.integers(0, 1))
    return Node(op, [data], attributes, opset=opset)


def scatter(draw: Draw, op: str) -> Node:
    """Indices that repeat, and that are counted from the end."""
    whole = shape(draw, 1, 3, 1)
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    if op == "ScatterElements":
        axis = draw(st.integers(-len(whole), len(whole) - 1))
        sizes = tuple(draw(st.integers(1, extent)) for extent in whole)
        picked = rng.integers(-whole[axis], whole[axis], sizes)
        attributes: dict[str, Any] = {"axis": axis}
        updates = sizes
    else:
        depth = draw(st.integers(1, len(whole)))
        lead = shape(draw, 0, 2, 1)
        columns = [rng.integers(-whole[axis], whole[axis], lead) for axis in range(depth)]
        picked, attributes = np.stack(columns, -1), {}
        updates = (*lead, *whole[depth:])
    opset = draw(st.sampled_from([13, 18]))
    if opset >= 16:
        kinds = ["none", "add", "mul", "max", "min"]
        attributes["reduction"] = draw(st.sampled_from(kinds))
    operands: list[Array | None] = [
        values(draw, whole),
        picked.astype(np.int64),
        values(draw, updates),
    ]
    return Node(op, operands, attributes, opset=opset)


def resize(draw: Draw, op: str) -> Node:
    """Factors that are powers of two, so that no coordinate is rounded."""
    whole = (draw(st.integers(1, 2)), 2, *(draw(st.sampled_from([2, 4])) for _ in range(2)))
    factors = [1.0, 1.0, *(draw(st.sampled_from([0.5, 1.0, 2.0, 4.0])) for _ in range(2))]
    attributes: dict[str, Any] = {"mode": draw(st.sampled_from(["nearest", "linear", "cubic"]))}
    modes = ["half_pixel", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric"]
    modes += ["tf_half_pixel_for_nn"]  # which the runtime knows in all operator sets
    attributes["coordinate_transformation_mode"] = draw(st.sampled_from(modes))
    if attributes["mode"] == "nearest":
        how = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
        attributes["nearest_mode"] = draw(st.sampled_from(how))
    operands: list[Array | None] = [values(draw, whole), None]
    return Node(op, [*operands, np.asarray(factors, np.float32)], attributes)


def attention(draw: Draw, op: str) -> Node:
    """Heads of their own axis or beside each other, keys shared among them, a past."""
    batch, shared, times, rows, columns = (draw(st.integers(1, 3)) for _ in range(5))
    size, width, heads = draw(st.integers(1, 3)), draw(st.integers(1, 3)), shared * times
    attributes: dict[str, Any] = {"is_causal": draw(st.integers(0, 1))}
    if draw(st.booleans()):
        attributes["scale"] = draw(st.floats(0.125, 2, width=32))
    if draw(st.booleans()):
        attributes["softcap"] = draw(st.floats(0.5, 4, width=32))
    shapes = [(batch, heads, rows, size), (batch, shared, columns, size)]
    shapes.append((batch, shared, columns, width))
    if draw(st.booleans()):
        attributes |= {"q_num_heads": heads, "kv_num_heads": shared}
        shapes = [(b, n, h * e) for b, h, n, e in shapes]
    operands: list[Array | None] = [values(draw, shape) for shape in shapes]
    opset = draw(st.sampled_from([23, 24, 25]))
    unlike_onnx = rows == 1 and columns > 1 and attributes["is_causal"] == 1
    if unlike_onnx or not draw(st.booleans()):
        return Node(op, operands, attributes, opset=opset)
    before = draw(st.integers(1, 3))
    past = [values(draw, (batch, shared, before, e)) for e in (size, width)]
    return Node(op, [*operands, None, *past], attributes, 4, opset=opset)


def recurrence(draw: Draw, op: str) -> Node:
    """One step, in each direction, with and without biases, states and peepholes."""
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    batch, entries, hidden = (draw(st.integers(1, 3)) for _ in range(3))
    direction = draw(st.sampled_from(["forward", "reverse", "bidirectional"]))
    ways = 2 if direction == "bidirectional" else 1
    attributes: dict[str, Any] = {"direction": direction, "hidden_size": hidden}
    if op == "GRU":
        attributes["linear_before_reset"] = draw(st.integers(0, 1))
    if op == "RNN":
        attributes["activations"] = [draw(st.sampled_from(["Tanh", "Relu", "Sigmoid"]))] * ways
    state = (ways, batch, hidden)
    shapes = [(ways, 2 * gates * hidden), None, state]
    if op == "LSTM":
        shapes += [state, (ways, 3 * hidden)]
    operands: list[Array | None] = [values(draw, (1, batch, entries))]
    operands.append(values(draw, (ways, gates * hidden, entries)))
    operands.append(values(draw, (ways, gates * hidden, hidden)))
    for shape in shapes:
        there = draw(st.booleans())
        operand = np.ones(batch, np.int32) if shape is None else values(draw, shape)
        operands.append(operand if there else None)
    opset = draw(st.sampled_from([11, 14, 22]))
    return Node(op, operands, attributes, 3 if op == "LSTM" else 2, opset=opset)


STRATEGIES: dict[str, Callable[[Draw, str], Node]] = {
    **dict.fromkeys(UNARY.split(), unary),
    **dict.fromkeys(BINARY.split(), binary),
    **dict.fromkeys(VARIADIC.split(), variadic),
    **dict.fromkeys(REDUCTIONS.split(), reduction),
    **dict.fromkeys(["Softmax", "LogSoftmax", "Hardmax"], softmax),
    **dict.fromkeys(["MaxPool", "AveragePool", "LpPool"], pool),
    **dict.fromkeys(["Gather", "GatherElements"], gather),
    **dict.fromkeys(["DepthToSpace", "SpaceToDepth"], blocks),
    **dict.fromkeys(["Squeeze", "Unsqueeze"], axes_of_one),
    **dict.fromkeys(
        [
            "BatchNormalization",
            "InstanceNormalization",
            "LayerNormalization",
            "LRN",
            "LpNormalization",
        ],
        normalization,
    ),
    **dict.fromkeys(["Flatten", "Trilu", "CumSum", "Where", "Clip", "Mod", "Cast"], miscellany),
    **dict.fromkeys(["GlobalAveragePool", "GlobalMaxPool"], miscellany),
    **dict.fromkeys(["QuantizeLinear", "DequantizeLinear"], quantize),
    **dict.fromkeys(["MatMulInteger", "QLinearMatMul"], integer_product),
    **dict.fromkeys(["ConvInteger", "QLinearConv"], quantized_convolution),
    **dict.fromkeys(["ArgMax", "ArgMin", "TopK"], extremes),
    **dict.fromkeys(["ScatterElements", "ScatterND"], scatter),
    **dict.fromkeys(["RNN", "GRU", "LSTM"], recurrence),
    "Attention": attention,
    "DynamicQuantizeLinear": dynamic,
    "Resize": resize,
    "MatMul": matmul,
    "Gemm": gemm,
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "Transpose": transpose,
    "Slice": slices,
    "Pad": pad,
    "Concat": concat,
    "Split": split,
    "Reshape": reshape,
    "Expand": expand,
    "Tile": tile,
    "Einsum": einsum,
}
