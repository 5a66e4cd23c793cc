"""Ten small models, which hold between them what a file can hold: each kind of tensor storage,
subgraphs, functions, sequences, free sizes, quantization, convolutions, attention."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

RNG_SEED = 0


def _weights(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(RNG_SEED).normal(size=shape).astype(dtype)


def _parsed(text: str, weights: dict[str, np.ndarray], opset: int = 17) -> onnx.ModelProto:
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}')
    model.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in weights.items()
    )
    return model


def perceptron() -> onnx.ModelProto:
    return _parsed(
        "g (float[n, 16] x) => (float[n, 8] y) {"
        "a = MatMul(x, w) b = Add(a, c) i = Identity(b) r = Relu(i) s = MatMul(r, v)"
        "y = Softmax(s)}",
        {"w": _weights(16, 32), "c": _weights(32), "v": _weights(32, 8)},
    )


def convolutional() -> onnx.ModelProto:
    return _parsed(
        "g (float[1, 3, 16, 16] x) => (float[1, 5] y) {"
        "a = Conv<pads = [1, 1, 1, 1]>(x, w)"
        "b = BatchNormalization(a, scale, bias, mean, var) r = Relu(b)"
        "p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(r)"
        "m = GlobalAveragePool(p) f = Flatten(m) y = Gemm(f, v, c)}",
        {
            "w": _weights(8, 3, 3, 3),
            **{name: np.abs(_weights(8)) for name in ("scale", "bias", "mean", "var")},
            "v": _weights(8, 5),
            "c": _weights(5),
        },
    )


def attention() -> onnx.ModelProto:
    return _parsed(
        "g (float[1, 6, 16] x, float[1, 1, 6, 6] mask) => (float[1, 2, 6, 8] y) {"
        "q0 = MatMul(x, wq) k0 = MatMul(x, wk) v0 = MatMul(x, wv)"
        "q1 = Reshape(q0, heads) k1 = Reshape(k0, heads) v1 = Reshape(v0, heads)"
        "q = Transpose<perm = [0, 2, 1, 3]>(q1) k = Transpose<perm = [0, 2, 3, 1]>(k1)"
        "v = Transpose<perm = [0, 2, 1, 3]>(v1) s = MatMul(q, k) d = Div(s, root)"
        "m = Add(d, mask) p = Softmax<axis = -1>(m) y = MatMul(p, v)}",
        {
            **{name: _weights(16, 16) for name in ("wq", "wk", "wv")},
            "heads": np.array([1, 6, 2, 8]),
            "root": np.array(8**0.5, np.float32),
        },
    )


def quantized() -> onnx.ModelProto:
    return _parsed(
        "g (float[2, 8] x) => (float[2, 4] y) {"
        "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z)"
        "w = DequantizeLinear<axis = 1>(wq, ws) m = MatMul(d, w)"
        "q2 = QuantizeLinear(m, s, z) y = DequantizeLinear(q2, s, z)}",
        {
            "s": np.array(0.1, np.float32),
            "z": np.array(3, np.uint8),
            "wq": np.arange(-16, 16, dtype=np.int8).reshape(8, 4),
            "ws": np.abs(_weights(4)) + 0.1,
        },
    )


def branches() -> onnx.ModelProto:
    return _parsed(
        "g (bool c, float[4] x) => (float[4] y) {"
        "a = If (c) <then_branch = t () => (float[4] p) { h = Neg(x) p = Add(h, w) },"
        "else_branch = e () => (float[4] q) { q = Mul(x, w) }> y = Relu(a)}",
        {"w": _weights(4)},
    )


def loop() -> onnx.ModelProto:
    return _parsed(
        "g (float[4] x) => (float[4] y, float[k, 4] all) {"
        "y, all = Loop (count, go, x) <body = b (int64 i, bool c, float[4] s) =>"
        "(bool d, float[4] t, float[4] u) { d = Identity(c) t = Mul(s, w) u = Neg(t) }>}",
        {"count": np.array(3), "go": np.array(True), "w": _weights(4)},
    )


def functions() -> onnx.ModelProto:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "mine" : 1]>'
        "g (float[2, 4] x) => (float[2, 4] y) { a = mine.scaled<by = 2.0>(x) y = mine.scaled(a) }"
        '<opset_import: ["" : 17], domain: "mine"> scaled <by: float = 3.0> (x) => (y) {'
        "f = Constant<value_float: float = @by>() m = Mul(x, f) y = LeakyRelu(m) }"
    )
    return model


def strings_and_sequences() -> onnx.ModelProto:
    return _parsed(
        "g (string[3] names, float[6, 2] x) => (bool[3] same, float[6, 2] y) {"
        "same = Equal(names, known) parts = SplitToSequence<axis = 0>(x, two)"
        "y = ConcatFromSequence<axis = 0>(parts)}",
        {"known": np.array(["a", "b", "ü"], object), "two": np.array(2)},
        opset=19,
    )


def typed_tensors() -> onnx.ModelProto:
    """Initializers in typed fields, sparse ones, float16, an input with a default."""
    model = _parsed(
        "g (float[3, 4] x, float[4] bias) => (float[3, 4] y, float16[2] h) {"
        "a = Add(x, bias) b = Mul(a, dense) c = MatMul(b, thin) y = Cast<to = 1>(c) h = Neg(half)}",
        {},
    )
    model.graph.initializer.append(
        helper.make_tensor("bias", TensorProto.FLOAT, [4], [1.0, 2.0, 3.0, 4.0])
    )
    model.graph.initializer.append(
        helper.make_tensor("dense", TensorProto.FLOAT, [3, 4], list(map(float, range(12))))
    )
    model.graph.initializer.append(
        helper.make_tensor("half", TensorProto.FLOAT16, [2], np.array([1, 2], np.float16))
    )
    model.graph.sparse_initializer.append(
        helper.make_sparse_tensor(
            helper.make_tensor("thin", TensorProto.FLOAT, [2], [1.0, 2.0]),
            helper.make_tensor("places", TensorProto.INT64, [2], [0, 5]),
            [4, 4],
        )
    )
    return model


def large_weights() -> onnx.ModelProto:
    """Weights that stay where they lie in the file while it is read."""
    return _parsed(
        "g (float[2, 200] x) => (float[2, 200] y) { a = MatMul(x, w) y = Relu(a) }",
        {"w": _weights(200, 200)},
    )


MODELS: Sequence[Callable[[], onnx.ModelProto]] = (
    perceptron,
    convolutional,
    attention,
    quantized,
    branches,
    loop,
    functions,
    strings_and_sequences,
    typed_tensors,
    large_weights,
)


def write_external(model: onnx.ModelProto, path: Path) -> None:
    """Write a model with all weights in a file beside it, `weights.bin`."""
    onnx.save(
        model,
        path,
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
        convert_attribute=False,
    )
