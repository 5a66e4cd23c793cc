"""Fused kernels in ONNX models: alone, beside the operators that they replace, and in whole models.

    python -m benchmarks.kernels                     # everything, 1 and 2 threads
    python -m benchmarks.kernels --only alone        # the kernels, a few seconds each
    python -m benchmarks.kernels --only fused        # whole models, all regions fused
    python -m benchmarks.kernels gpt2 llama --threads 1 --budget 120

Ratios below 1 are faster. Alone: a kernel against ONNX Runtime's full optimization of the same
nodes, interleaved. Fused: models with every region fused, whatever it gains, without products, with
products each multiplied out, with seven for eight, and on matrix tiles (where the processor has
none, each is multiplied out), raced against the original. Models: the race of `tensolog optimize
--target onnxruntime-cpu+kernels`, the original, the best plan without kernels and the best one with
them, all in one race.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tensolog.optimizer.graph.convert import load_graph, to_model
from tensolog.optimizer.graph.infer import infer_types
from tensolog.optimizer.native.fuse_graph import fused_graph, regions
from tensolog.optimizer.native.kernel import supply
from tensolog.optimizer.native.kernel_trial import KERNEL, OPERATORS, measured_forms
from tensolog.optimizer.native.library import build as build_library
from tensolog.optimizer.native.loops.kernel_region import Meanings
from tensolog.optimizer.native.product.matrix_products import RANKS, formed
from tensolog.optimizer.native.product.product_text import EACH, SEVEN, TILES
from tensolog.profiles.races.race import race
from tensolog.profiles.sessions.execution import Execution

import tensolog

from .zoo import build, layers, random_feeds
from .zoo.network import Network

Nodes = list[onnx.NodeProto]
node = helper.make_node


def mish_cnn() -> onnx.ModelProto:
    """Build eight convolutions with Mish between, spelled out as exporters do."""
    net = Network("mish", opset=17, seed=0)
    value = net.input("image", (1, 3, 112, 112), TensorProto.FLOAT)
    channels = 3
    for width in (32, 32, 64, 64, 64, 64, 64, 64):
        value = layers.convolution(net, value, (channels, width), 3)
        value = net.op("Mul", value, net.op("Tanh", net.op("Softplus", value)))
        channels = width
    net.output(value, "features", (1, channels, 112, 112))
    return net.model()


# Ways to fuse all regions of a model.
WAYS: dict[str, str | None] = {
    "no products": None,
    "products": EACH,
    "seven": SEVEN,
    "tiles": TILES,
}
MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "llama": lambda: build("llama", tokens=512, depth=4),
    "gpt2": lambda: build("gpt2", tokens=512, depth=6),
    "mish_cnn": mish_cnn,
    "convnext": lambda: build("convnext"),
    "vit": lambda: build("vit"),
    "bert": lambda: build("bert", tokens=128),
    "t5": lambda: build("t5", tokens=128),
}


def alone() -> Iterator[tuple[str, onnx.ModelProto]]:
    """Yield small models, each of which is one region."""
    rows, wide = [1, 512, 768], [1, 512, 3072]
    weights = {"g": _normal(768), "b": _normal(768)}
    residual = [node("Add", ["x", "r"], ["s"])]
    yield "Mish", _model([node("Mish", ["x"], ["y"])], {"x": wide})
    yield "Softplus", _model([node("Softplus", ["x"], ["y"])], {"x": wide})
    yield "Gelu, erf", _model([node("Gelu", ["x"], ["y"])], {"x": wide})
    yield "Gelu, tanh", _model([node("Gelu", ["x"], ["y"], approximate="tanh")], {"x": wide})
    silu = [node("Sigmoid", ["x"], ["s"]), node("Mul", ["x", "s"], ["t"])]
    yield "SiLU", _model([*silu[:1], node("Mul", ["x", "s"], ["y"])], {"x": wide})
    yield "SwiGLU", _model([*silu, node("Mul", ["t", "z"], ["y"])], {"x": wide, "z": wide})
    both = [node("Add", ["x", "b"], ["t"]), node("Add", ["t", "z"], ["u"])]
    relu = [*both, node("Relu", ["u"], ["y"])]
    yield "bias, residual, Relu", _model(relu, {"x": rows, "z": rows}, {"b": weights["b"]})
    scores = [1, 12, 512, 512]
    masked = [
        node("Mul", ["x", "scale"], ["s"]),
        node("Add", ["s", "m"], ["t"]),
        node("Softmax", ["t"], ["y"], axis=-1),
    ]
    mask = {"x": scores, "m": [1, 1, 512, 512]}
    yield "Softmax, scale, mask", _model(masked, mask, {"scale": np.float32(0.125)})
    normal = node("LayerNormalization", ["x", "g", "b"], ["y"], axis=-1)
    yield "LayerNormalization", _model([normal], {"x": rows}, weights)
    after = node("LayerNormalization", ["s", "g", "b"], ["y"], axis=-1)
    yield "sum, LayerNormalization", _model([*residual, after], {"x": rows, "r": rows}, weights)
    rms = [
        node("Pow", ["x", "two"], ["q"]),
        node("ReduceMean", ["q", "last"], ["m"]),
        node("Add", ["m", "e"], ["n"]),
        node("Sqrt", ["n"], ["root"]),
        node("Reciprocal", ["root"], ["i"]),
        node("Mul", ["x", "i"], ["d"]),
        node("Mul", ["d", "g"], ["y"]),
    ]
    constants = {"two": np.float32(2), "e": np.float32(1e-6), "last": np.array([-1])}
    yield "RMSNorm by Reciprocal", _model(rms, {"x": rows}, {**constants, "g": weights["g"]})
    yield "rotary embedding", _rotary(16, 64, 512)
    for name, causal in (("attention", False), ("causal attention", True)):
        yield name, _attention(12, 512, 64, causal)

    for tokens, (depth, columns) in ((128, (768, 3072)), (512, (3072, 768))):
        weights = {"w": _normal(depth, columns) / np.float32(depth**0.5), "b": _normal(columns)}
        behind = [node("MatMul", ["x", "w"], ["p"]), node("Add", ["p", "b"], ["q"])]
        shapes_by_input = {"x": [1, tokens, depth]}
        name = f"product {tokens} x {depth} x {columns}"
        yield (
            f"{name}, Gelu",
            _model([*behind, node("Gelu", ["q"], ["y"])], shapes_by_input, weights),
        )
        shapes_by_input["r"] = [1, tokens, columns]
        yield (
            f"{name}, sum",
            _model([*behind, node("Add", ["q", "r"], ["y"])], shapes_by_input, weights),
        )


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def _model(nodes: Nodes, inputs: dict[str, list[int]], constants: object = ()) -> onnx.ModelProto:
    arrays: dict[str, np.ndarray] = dict(constants)  # type: ignore[call-overload]
    input_infos = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    initializers = [
        numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()
    ]
    graph = helper.make_graph(nodes, "graph", input_infos, [output], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def _rotary(heads: int, width: int, tokens: int) -> onnx.ModelProto:
    nodes = [
        node("Reshape", ["x", "shape"], ["h"]),
        node("Transpose", ["h"], ["t"], perm=[0, 2, 1, 3]),
        node("Slice", ["t", "zero", "half", "last"], ["left"]),
        node("Slice", ["t", "half", "end", "last"], ["right"]),
        node("Neg", ["right"], ["negative"]),
        node("Concat", ["negative", "left"], ["turned"], axis=-1),
        node("Mul", ["t", "cos"], ["c"]),
        node("Mul", ["turned", "sin"], ["d"]),
        node("Add", ["c", "d"], ["y"]),
    ]
    numbers = {"zero": 0, "half": width // 2, "end": 2**62, "last": -1}
    constants = {name: np.array([number]) for name, number in numbers.items()}
    constants["shape"] = np.array([0, 0, heads, width])
    table = [tokens, width]
    inputs = {"x": [1, tokens, heads * width], "cos": table, "sin": table}
    return _model(nodes, inputs, constants)


def _attention(heads: int, tokens: int, width: int, causal: bool) -> onnx.ModelProto:
    shape = [1, heads, tokens, width]
    nodes = [
        node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "t"], ["p"]),
        node("Mul", ["p", "scale"], ["s"]),
    ]
    if causal:
        nodes.append(node("Add", ["s", "mask"], ["m"]))
    nodes += [
        node("Softmax", ["m" if causal else "s"], ["w"], axis=-1),
        node("MatMul", ["w", "v"], ["y"]),
    ]
    low = np.full((1, 1, tokens, tokens), np.finfo(np.float32).min, np.float32)
    constants: dict[str, np.ndarray] = {"scale": np.array(width**-0.5, np.float32)}
    if causal:
        constants["mask"] = np.triu(low, 1)
    return _model(nodes, {"q": shape, "k": shape, "v": shape}, constants)


def kernels(threads: int) -> None:
    print(f"\nkernels alone, {threads} thread(s): microseconds, and the ratio with its interval")
    for name, model in alone():
        graph = load_graph(model)
        graph.types = infer_types(graph)
        meanings = Meanings(graph)
        (plain,) = regions(meanings, graph.nodes)
        forms = [
            region_kernel.kernel for region_kernel in (plain, *formed(meanings, [plain], RANKS))
        ]
        supply(graph, forms)
        library = build_library(forms)
        laps = measured_forms(
            graph, plain.region, forms, library, graph.types, threads=threads, budget_s=3
        )
        for kernel in forms:
            lap, operators_us = (
                laps[kernel.name][KERNEL],
                laps[kernel.name][OPERATORS].median_ns / 1e3,
            )
            form = f"  {kernel.form}" if len(forms) > 1 else ""
            print(
                f"  {name:32s}{operators_us:10.0f} ->{lap.median_ns / 1e3:8.0f}   {lap.ratio:.2f}"
                f"  [{lap.ratio_low:.2f}, {lap.ratio_high:.2f}]{form}",
                flush=True,
            )


def fused(names: list[str], threads: int, budget: float) -> None:
    print(f"\nall regions fused, {threads} thread(s): milliseconds of the original; ratios")
    print(f"  {'model':12s}{'original':>10s}{''.join(f'{way:>13s}' for way in WAYS)}  interval")
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            entries, executions = {}, {}
            original = MODELS[name]()
            feeds = random_feeds(original)
            for way in ("original", *WAYS):
                path = entries[way] = Path(folder) / f"{way}.onnx"
                if way == "original":
                    onnx.save(original, path)
                    continue
                graph = load_graph(original)
                graph.types = infer_types(graph)
                form = WAYS[way]
                changed = fused_graph(graph, multiplies=form is not None, form=form or EACH)
                assert changed is not None, name
                onnx.save(to_model(changed[0]), path)
                executions[way] = Execution(libraries=(changed[1].path,))
            del original
            laps = race(
                entries,
                feeds,
                threads=threads,
                budget_s=budget,
                reference="original",
                executions=executions,
                memory_budget=sys.maxsize,
            )
        best = min((laps[way] for way in WAYS), key=lambda lap: lap.ratio)
        ratios = "".join(f"{laps[way].ratio:13.3f}" for way in WAYS)
        print(
            f"  {name:12s}{laps['original'].median_ns / 1e6:10.2f}{ratios}"
            f"  [{best.ratio_low:.3f}, {best.ratio_high:.3f}]",
            flush=True,
        )


def models(names: list[str], threads: int, budget: float) -> None:
    print(f"\nmodels, {threads} thread(s): milliseconds of the original; ratios of the best plans")
    print(f"  {'model':12s}{'original':>10s}{'rules':>8s}{'kernels':>9s}  interval      chosen")
    for name in names:
        result = tensolog.optimize(
            MODELS[name](),
            target="onnxruntime-cpu+kernels",
            threads=threads,
            budget=budget,
            catalog=":memory:",
        )
        raced = [
            measurement for measurement in result.measurements if measurement.ratio is not None
        ]
        (original,) = (measurement for measurement in raced if measurement.candidate == "original")
        fused = [measurement for measurement in raced if "kernels" in measurement.candidate]
        plain = [measurement for measurement in raced if measurement not in fused]
        rules = min(measurement.ratio or 1.0 for measurement in plain)
        best = min(fused, key=lambda measurement: measurement.ratio or 1.0, default=None)
        text = "   none" if best is None else f"{best.ratio:9.3f}"
        span = "" if best is None else f"[{best.ratio_low:.3f}, {best.ratio_high:.3f}]"
        time_ms = (original.median_ns or 0.0) / 1e6
        print(
            f"  {name:12s}{time_ms:10.2f}{rules:8.3f}{text}  {span:14s}{result.chosen}", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kernels",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("models", nargs="*", choices=[[], *MODELS], help="default: all")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--budget", type=float, default=60.0, help="seconds a model")
    parser.add_argument("--only", choices=["alone", "fused", "models"], help="one part")
    arguments = parser.parse_args()
    for threads in arguments.threads:
        if arguments.only in (None, "alone") and not arguments.models:
            kernels(threads)
        if arguments.only in (None, "fused"):
            fused(arguments.models or list(MODELS), threads, arguments.budget / 3)
        if arguments.only in (None, "models"):
            models(arguments.models or list(MODELS), threads, arguments.budget)


if __name__ == "__main__":
    main()
