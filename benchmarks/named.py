"""ONNX Runtime's fused operators named by a plan, against the same left for its optimizer to find.

    python -m benchmarks.named                       # every operator, one thread
    python -m benchmarks.named FusedConv --threads 1 2 --seconds 10

Ratios, all forms of a row in one interleaved race; below 1, naming the operator is faster. The
first is to the standard operators under full optimization, the second to these without the fusion
that makes the operator. A rule that names it can gain no more than the first says. Last comes what
the runtime runs of its own accord.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tensolog.optimizer.race.session_options import FUSIONS
from tensolog.profiles.races.race import Lap, race
from tensolog.profiles.sessions.execution import DEFAULTS
from tensolog.profiles.sessions.operators_run import operators_run

OPSET, DOMAIN = 20, "com.microsoft"
HEADER = (
    f"{'operator':<33}{'form':<34}{'threads':>8}{'named / found':>22}{'named / apart':>22}  runs"
)
Nodes = list[onnx.NodeProto]
node = helper.make_node


def named(op_type: str, inputs: list[str], **attributes: object) -> Nodes:
    """One operator of the runtime's own, which gives y."""
    return [node(op_type, inputs, ["y"], domain=DOMAIN, **attributes)]


@dataclass(frozen=True)
class Form:
    """The same in standard operators and as one named operator; shapes of inputs and constants."""

    operator: str
    title: str
    inputs: dict[str, tuple[int, ...]]
    constants: dict[str, tuple[int, ...]]
    standard: Nodes
    fused: Nodes

    def model(self, nodes: Nodes) -> onnx.ModelProto:
        """A model of some nodes; a last Neg keeps the fused value from being an output."""
        draw = np.random.default_rng(0)
        floats = [
            numpy_helper.from_array(draw.normal(0, 0.05, shape).astype(np.float32), name)
            for name, shape in self.constants.items()
        ]
        head = [node("Neg", [f"{name}_given"], [name]) for name in self.inputs]
        graph = helper.make_graph(
            [*head, *nodes, node("Neg", ["y"], ["out"])],
            self.operator,
            [
                helper.make_tensor_value_info(f"{name}_given", TensorProto.FLOAT, shape)
                for name, shape in self.inputs.items()
            ],
            [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
            [*floats, *(numpy_helper.from_array(np.float32(v), n) for n, v in NUMBERS.items())],
        )
        sets = [helper.make_opsetid("", OPSET), helper.make_opsetid(DOMAIN, 1)]
        return helper.make_model(graph, opset_imports=sets, ir_version=9)

    def feeds(self) -> dict[str, np.ndarray]:
        """Inputs drawn from a normal distribution."""
        draw = np.random.default_rng(1)
        return {
            f"{name}_given": draw.normal(size=shape).astype(np.float32)
            for name, shape in self.inputs.items()
        }


NUMBERS = {"eighth": 0.125, "one": 1.0, "half": 0.5, "root": 2**0.5}


def forms() -> Iterator[Form]:
    """Yield what rules would name, in sizes of transformers, heads and images."""
    for heads, tokens, width in ((12, 128, 64), (12, 512, 64)):
        shape = (1, heads, tokens, width)
        yield Form(
            "FusedMatMul",
            f"scaled scores of {heads} heads, {tokens} tokens",
            {"q": shape, "k": shape},
            {},
            [
                node("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]),
                node("MatMul", ["q", "t"], ["s"]),
                node("Mul", ["s", "eighth"], ["y"]),
            ],
            named("FusedMatMul", ["q", "k"], transB=1, alpha=0.125),
        )
    for rows, inner, columns in ((1, 512, 512), (128, 512, 256), (128, 768, 3072)):
        yield Form(
            "FusedGemm",
            f"{rows}x{inner} times {inner}x{columns}, Relu",
            {"x": (rows, inner)},
            {"w": (inner, columns), "b": (columns,)},
            [node("Gemm", ["x", "w", "b"], ["g"]), node("Relu", ["g"], ["y"])],
            named("FusedGemm", ["x", "w", "b"], activation="Relu"),
        )
    for channels, size, taps in ((64, 56, 3), (256, 14, 3), (256, 14, 1)):
        image = (1, channels, size, size)
        weights = {"w": (channels, channels, taps, taps), "b": (channels,)}
        pads = [taps // 2] * 4
        conv = node("Conv", ["x", "w", "b"], ["c"], pads=pads)
        yield Form(
            "FusedConv",
            f"{taps}x{taps}, {channels} channels, {size}x{size}, Relu",
            {"x": image},
            weights,
            [conv, node("Relu", ["c"], ["y"])],
            named("FusedConv", ["x", "w", "b"], pads=pads, activation="Relu"),
        )
        yield Form(
            "FusedConv",
            f"{taps}x{taps}, {channels} channels, {size}x{size}, Add, Relu",
            {"x": image, "z": image},
            weights,
            [conv, node("Add", ["c", "z"], ["a"]), node("Relu", ["a"], ["y"])],
            named("FusedConv", ["x", "w", "b", "z"], pads=pads, activation="Relu"),
        )
    for tokens, width in ((128, 3072), (512, 3072)):
        yield Form(
            "BiasGelu",
            f"{tokens} x {width}",
            {"x": (1, tokens, width)},
            {"b": (width,)},
            [
                node("Add", ["x", "b"], ["a"]),
                node("Div", ["a", "root"], ["d"]),
                node("Erf", ["d"], ["e"]),
                node("Add", ["e", "one"], ["o"]),
                node("Mul", ["a", "o"], ["p"]),
                node("Mul", ["p", "half"], ["y"]),
            ],
            named("BiasGelu", ["x", "b"]),
        )
    for tokens, width in ((128, 768), (512, 768)):
        shape = (1, tokens, width)
        epsilon = {"epsilon": 1e-5}
        yield Form(
            "SkipLayerNormalization",
            f"{tokens} x {width}",
            {"x": shape, "z": shape},
            {"g": (width,), "b": (width,)},
            [
                node("Add", ["x", "z"], ["a"]),
                node("LayerNormalization", ["a", "g", "b"], ["y"], axis=-1, **epsilon),
            ],
            named("SkipLayerNormalization", ["x", "z", "g", "b"], **epsilon),
        )
        yield Form(
            "SkipSimplifiedLayerNormalization",
            f"{tokens} x {width}",
            {"x": shape, "z": shape},
            {"g": (width,)},
            [
                node("Add", ["x", "z"], ["a"]),
                node("SimplifiedLayerNormalization", ["a", "g"], ["y"], axis=-1, **epsilon),
            ],
            named("SkipSimplifiedLayerNormalization", ["x", "z", "g"], **epsilon),
        )


def raced(form: Form, threads: int, seconds: float) -> tuple[Lap, Lap]:
    """The named operator against what the runtime finds, and against the operators apart."""
    standard = form.model(form.standard).SerializeToString()
    named = form.model(form.fused).SerializeToString()
    without = DEFAULTS.without(*FUSIONS[form.operator])
    result, parts = (
        race(
            {"named": named, "standard": standard},
            form.feeds(),
            threads=threads,
            budget_s=seconds / 2,
            reference="standard",
            executions={"standard": execution},
        )["named"]
        for execution in (DEFAULTS, without)
    )
    return result, parts


def main(measure: Callable[[Form, int, float], tuple[Lap, Lap]] = raced) -> None:
    """Print a line for each form and number of threads."""
    operators = list(dict.fromkeys(form.operator for form in forms()))
    parser = argparse.ArgumentParser(prog="python -m benchmarks.named", description=__doc__)
    parser.add_argument("operators", nargs="*", choices=[*operators, []], metavar="OPERATOR")
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--seconds", type=float, default=6.0)
    arguments = parser.parse_args()
    print(HEADER)
    for form in forms():
        if arguments.operators and form.operator not in arguments.operators:
            continue
        run = operators_run(form.model(form.standard).SerializeToString(), form.feeds(), threads=1)
        kept = ", ".join(name for name in run if name != "Neg")
        for threads in arguments.threads:
            laps = measure(form, threads, arguments.seconds)
            ratios = (f"{lap.ratio:.2f} ({lap.ratio_low:.2f}-{lap.ratio_high:.2f})" for lap in laps)
            shown = "".join(f"{ratio:>20}" for ratio in ratios)
            print(f"{form.operator:<33}{form.title:<40}{threads:>8}{shown}  {kept}", flush=True)


if __name__ == "__main__":
    main()
