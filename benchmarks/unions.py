"""Several results of the same cells: fused functions and ONNX models, with and without unions.

    python -m benchmarks.unions                        # 2 threads
    python -m benchmarks.unions --threads 1 --rounds 40

Each case is a NumPy function and the same as a model in float32. Of the function, operators joined
(`cost`) beside the cheapest plan of operators with one result each (`single`); of the model, all
regions fused and joined beside the same not joined, and beside ONNX Runtime's own operators. Ratios
of medians, in turns in one process; below 1, joined is faster.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from tensolog.optimizer.codegen.unit import native_level
from tensolog.optimizer.graph.convert import load_graph, to_model
from tensolog.optimizer.graph.infer import infer_types
from tensolog.optimizer.native.fuse_graph import fused_graph
from tensolog.optimizer.native.library import Library

import tensolog

from .fusion.race import race
from .rows import table_head, table_row

SHAPES = ((4000, 500), (200, 50), (100_000, 20))
ROW = "row"
node = helper.make_node
Run = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """A function of arrays, and the nodes that compute the same of inputs called x and y."""

    name: str
    function: Callable[..., tuple[np.ndarray, ...]]
    inputs: tuple[str, ...]
    nodes: Sequence[onnx.NodeProto]
    outputs: tuple[str, ...]


def statistics(x: np.ndarray) -> tuple[np.ndarray, ...]:
    """Sums, extremes, and the lengths of rows."""
    return x.sum(1), x.max(1), (x * x).sum(1), np.abs(x).sum(1)


def entropy(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    """A softmax, its entropy, and how far it is from a target."""
    raised = np.exp(x - x.max(1, keepdims=True))
    p = raised / raised.sum(1, keepdims=True)
    return p, (p * np.log(p + 1e-9)).sum(1), p - y


def distances(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    """Three functions of a difference."""
    d = x - y
    return np.abs(d), d * d, np.sign(d)


CASES = (
    Case(
        "statistics of rows",
        statistics,
        ("x",),
        [
            node("ReduceSum", ["x", ROW], ["sum"], keepdims=0),
            node("ReduceMax", ["x", ROW], ["max"], keepdims=0),
            node("Mul", ["x", "x"], ["square"]),
            node("ReduceSum", ["square", ROW], ["squares"], keepdims=0),
            node("Abs", ["x"], ["absolute"]),
            node("ReduceSum", ["absolute", ROW], ["lengths"], keepdims=0),
        ],
        ("sum", "max", "squares", "lengths"),
    ),
    Case(
        "softmax, entropy, gradient",
        entropy,
        ("x", "y"),
        [
            node("Softmax", ["x"], ["p"], axis=1),
            node("Add", ["p", "epsilon"], ["more"]),
            node("Log", ["more"], ["log"]),
            node("Mul", ["p", "log"], ["each"]),
            node("ReduceSum", ["each", ROW], ["entropy"], keepdims=0),
            node("Sub", ["p", "y"], ["gradient"]),
        ],
        ("p", "entropy", "gradient"),
    ),
    Case(
        "functions of a difference",
        distances,
        ("x", "y"),
        [
            node("Sub", ["x", "y"], ["d"]),
            node("Abs", ["d"], ["absolute"]),
            node("Mul", ["d", "d"], ["square"]),
            node("Sign", ["d"], ["sign"]),
        ],
        ("absolute", "square", "sign"),
    ),
)


def model(case: Case, shape: tuple[int, int]) -> onnx.ModelProto:
    """The model of a case; results of rows alone have one axis."""
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in case.inputs]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in case.outputs]
    constants = [
        numpy_helper.from_array(np.array([1]), ROW),
        numpy_helper.from_array(np.float32(1e-9), "epsilon"),
    ]
    graph = helper.make_graph(list(case.nodes), "case", inputs, outputs, constants)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return onnx.shape_inference.infer_shapes(proto)


def fused(proto: onnx.ModelProto, joins: bool) -> tuple[onnx.ModelProto, Library]:
    """The model with all regions fused."""
    graph = load_graph(proto)
    graph.types = infer_types(graph)
    whole = fused_graph(graph, joins=joins, levels=(native_level(),))
    assert whole is not None, "nothing was fused"
    return to_model(whole[0]), whole[1]


def session(
    proto: onnx.ModelProto, threads: int, library: Library | None = None
) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    if library is not None:
        options.register_custom_ops_library(str(library.path))
    return onnxruntime.InferenceSession(proto.SerializeToString(), options)


def runs(case: Case, shape: tuple[int, int], threads: int) -> tuple[dict[str, Run], dict[str, Run]]:
    """The contenders of a case, by name: of the function, and of the model."""
    rng = np.random.default_rng(0)
    arrays = [rng.random(shape) for _ in case.inputs]
    functions: dict[str, Run] = {}
    for heuristic in ("single", "cost"):
        function: Any = tensolog.fuse(heuristic=heuristic, threads=threads)(case.function)
        for _ in range(6):  # as configurations are chosen by its own calls
            results = function(*arrays)
        for result, expected in zip(results, case.function(*arrays), strict=True):
            np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-12)
        functions[heuristic] = lambda function=function: function(*arrays)
    proto = model(case, shape)
    feeds = {
        name: array.astype(np.float32) for name, array in zip(case.inputs, arrays, strict=True)
    }
    sessions = {"runtime": session(proto, threads)}
    for name, joins in (("parts", False), ("joined", True)):
        changed, library = fused(proto, joins)
        sessions[name] = session(changed, threads, library)
    expected = sessions["runtime"].run(None, feeds)
    for opened in sessions.values():
        for result, exact in zip(opened.run(None, feeds), expected, strict=True):
            np.testing.assert_allclose(result, exact, rtol=1e-4, atol=1e-5)
    models = {
        name: (lambda opened=opened: opened.run(None, feeds)) for name, opened in sessions.items()
    }
    return functions, models


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.unions", description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=25)
    arguments = parser.parse_args()
    print(
        *table_head(["case", "shape", "function", "model", "model, beside ONNX Runtime"]), sep="\n"
    )
    for case in CASES:
        for shape in SHAPES:
            functions, models = runs(case, shape, arguments.threads)
            function, taken = (
                {name: np.median(seconds) for name, seconds in race(each, arguments.rounds).items()}
                for each in (functions, models)
            )
            ratios = (
                function["cost"] / function["single"],
                taken["joined"] / taken["parts"],
                taken["joined"] / taken["runtime"],
            )
            shown = (f"{ratio:.2f}" for ratio in ratios)
            print(table_row([case.name, f"{shape[0]}x{shape[1]}", *shown]), flush=True)


if __name__ == "__main__":
    main()
