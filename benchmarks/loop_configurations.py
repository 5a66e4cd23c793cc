"""What configurations of generated kernels are worth beside the constants.

    python -m benchmarks.loop_configurations rows        # or columns, cells
    python -m benchmarks.loop_configurations pairs --shapes 12 --threads 2
    python -m benchmarks.loop_configurations attention --shapes 12

Shapes are drawn. Of each, the legal configurations are raced beside the default, interleaved, in
sessions of ONNX Runtime. Being the best of several flatters a time, so those that `optimize` would
try first, and of these the fastest beyond noise, race the default once more: the gain is what that
race says, and 1 where the default stays. `best of all` is that of the first race.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from tensolog.optimizer.codegen.unit import native_level
from tensolog.optimizer.graph.convert import load_graph
from tensolog.optimizer.graph.graph import TensorType
from tensolog.optimizer.graph.infer import infer_types
from tensolog.optimizer.layouts.filters import dense, outer
from tensolog.optimizer.layouts.layout import Layout
from tensolog.optimizer.layouts.runtime import NCHWC, block_size
from tensolog.optimizer.native.configurations.legal import legal_pairs
from tensolog.optimizer.native.configurations.processor import processor
from tensolog.optimizer.native.configurations.timed import Timed, among
from tensolog.optimizer.native.configured_kinds import (
    MOST_OF_ONE,
    in_configuration,
    other_sizes,
    other_ways,
)
from tensolog.optimizer.native.convolution.convolution_pair import pairs
from tensolog.optimizer.native.fuse_graph import regions
from tensolog.optimizer.native.kernel import Kernel, RegionKernel
from tensolog.optimizer.native.library import build
from tensolog.optimizer.native.loops.kernel_region import Meanings

from .configuration_races import KEPT, beside_default, gained, gains, interval, races
from .environment import RESULTS
from .rows import rows_file, table, write_rows

HEADS, DEPTHS = (1, 2, 4, 8, 12, 16), (24, 32, 40, 64, 80, 96, 128)
TOKENS = (1, 4, 7, 16, 25, 32, 49, 50, 64, 77, 100, 128, 196, 197, 256, 300, 384, 512, 768, 1024)
ROWS = (12, 49, 64, 77, 128, 196, 256, 384, 512, 768, 1024, 2048)
LENGTHS = (32, 48, 64, 96, 128, 196, 256, 320, 384, 512, 768, 1000, 1024, 1280, 2048, 3072, 4096)
# Products and sums of an attention, and cells of a kernel over rows, at most.
MOST_PRODUCTS, MOST_CELLS = 100 << 20, 1 << 19
# Pairs of convolutions as networks of few operations have them.
CHANNELS, EXPANSIONS, SIDES = (16, 24, 32, 40, 64, 80, 96), (3, 4, 6), (14, 20, 28, 40, 56, 80)
FILTERS, MOST_OPERATIONS = ((3, 1), (3, 1), (3, 2), (5, 1), (5, 2)), 150e6
# Configurations of a shape that are raced, those first that are first worth a trial.
MOST_RACED = 12


def normalization(random: np.random.Generator, rows: int, length: int) -> onnx.ModelProto:
    """A sum of two tensors, normalized."""
    nodes = [
        helper.make_node("Add", ["x", "z"], ["a"]),
        helper.make_node("LayerNormalization", ["a", "g", "b"], ["y"], axis=-1),
    ]
    constants = {"g": random.normal(size=length), "b": random.normal(size=length)}
    return _model(nodes, {"x": [rows, length], "z": [rows, length]}, constants)


def root_mean_square(random: np.random.Generator, rows: int, length: int) -> onnx.ModelProto:
    """A tensor over the root of the mean of its squares."""
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["s"]),
        helper.make_node("ReduceMean", ["s"], ["m"], axes=[-1]),
        helper.make_node("Add", ["m", "e"], ["n"]),
        helper.make_node("Sqrt", ["n"], ["r"]),
        helper.make_node("Div", ["x", "r"], ["d"]),
        helper.make_node("Mul", ["d", "g"], ["y"]),
    ]
    constants = {"e": np.array(1e-5), "g": random.normal(size=length)}
    return _model(nodes, {"x": [rows, length]}, constants)


def softmax(random: np.random.Generator, rows: int, length: int) -> onnx.ModelProto:
    """A softmax of what is scaled and masked."""
    nodes = [
        helper.make_node("Mul", ["x", "s"], ["a"]),
        helper.make_node("Add", ["a", "m"], ["b"]),
        helper.make_node("Softmax", ["b"], ["y"], axis=-1),
    ]
    constants = {"s": np.array(0.125), "m": random.normal(size=length)}
    return _model(nodes, {"x": [rows, length]}, constants)


def products(random: np.random.Generator, rows: int, length: int) -> onnx.ModelProto:
    """Sums of products of two tensors."""
    nodes = [
        helper.make_node("Mul", ["x", "z"], ["p"]),
        helper.make_node("ReduceMean", ["p"], ["y"], axes=[-1]),
    ]
    return _model(nodes, {"x": [rows, length], "z": [rows, length]}, {})


def attention(random: np.random.Generator) -> onnx.ModelProto:
    """An attention with a mask for all queries: as many as keys mostly, or a few of many keys."""
    while True:
        heads, depth = int(random.choice(HEADS)), int(random.choice(DEPTHS))
        keys = int(random.choice(TOKENS[3:]))
        queries = keys if random.random() < 0.7 else int(random.choice(TOKENS))
        if heads * queries * keys * 2 * depth <= MOST_PRODUCTS:
            break
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["s"]),
        helper.make_node("Mul", ["s", "scale"], ["t"]),
        helper.make_node("Add", ["t", "mask"], ["u"]),
        helper.make_node("Softmax", ["u"], ["w"], axis=-1),
        helper.make_node("MatMul", ["w", "v"], ["y"]),
    ]
    shapes_by_input = {"q": [1, heads, queries, depth], "k": [1, heads, depth, keys]}
    shapes_by_input |= {"v": [1, heads, keys, depth], "mask": [1, 1, 1, keys]}
    return _model(nodes, shapes_by_input, {"scale": np.array(depth**-0.5)})


Draw = Callable[[np.random.Generator, int, int], onnx.ModelProto]


def of_size(random: np.random.Generator, draws: Sequence[Draw]) -> onnx.ModelProto:
    """Draw one of several kernels, and its sizes."""
    while True:
        rows, length = int(random.choice(ROWS)), int(random.choice(LENGTHS))
        if rows * length <= MOST_CELLS:
            return draws[random.integers(len(draws))](random, rows, length)


def over_rows(random: np.random.Generator) -> onnx.ModelProto:
    """One of the kernels over rows above."""
    return of_size(random, (normalization, root_mean_square, softmax, products))


def column_mean(random: np.random.Generator, rows: int, length: int) -> onnx.ModelProto:
    """The mean of what is scaled and cut at 0, over rows."""
    nodes = [
        helper.make_node("Mul", ["x", "g"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("ReduceMean", ["b"], ["y"], axes=[0]),
    ]
    return _model(nodes, {"x": [rows, length]}, {"g": random.normal(size=length)})


def column_softmax(random: np.random.Generator, rows: int, length: int) -> onnx.ModelProto:
    """A softmax over rows of what is scaled."""
    nodes = [
        helper.make_node("Mul", ["x", "s"], ["a"]),
        helper.make_node("Softmax", ["a"], ["y"], axis=0),
    ]
    return _model(nodes, {"x": [rows, length]}, {"s": np.array(0.125)})


def column_normalization(random: np.random.Generator, rows: int, length: int) -> onnx.ModelProto:
    """Columns less their means, over the root of the mean of their squares."""
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["m"], axes=[0]),
        helper.make_node("Sub", ["x", "m"], ["c"]),
        helper.make_node("Mul", ["c", "c"], ["s"]),
        helper.make_node("ReduceMean", ["s"], ["v"], axes=[0]),
        helper.make_node("Add", ["v", "e"], ["n"]),
        helper.make_node("Sqrt", ["n"], ["r"]),
        helper.make_node("Div", ["c", "r"], ["d"]),
        helper.make_node("Mul", ["d", "g"], ["y"]),
    ]
    constants = {"e": np.array(1e-5), "g": random.normal(size=length)}
    return _model(nodes, {"x": [rows, length]}, constants)


def over_columns(random: np.random.Generator) -> onnx.ModelProto:
    """One of these."""
    return of_size(random, (column_mean, column_softmax, column_normalization))


def gate(random: np.random.Generator, rows: int, length: int) -> onnx.ModelProto:
    """What is multiplied by the sigmoid of something else."""
    del random
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["a"]),
        helper.make_node("Mul", ["x", "a"], ["b"]),
        helper.make_node("Mul", ["b", "z"], ["y"]),
    ]
    return _model(nodes, {"x": [rows, length], "z": [rows, length]}, {})


def scaled_sum(random: np.random.Generator, rows: int, length: int) -> onnx.ModelProto:
    """A sum with a bias, scaled, and cut at both ends."""
    nodes = [
        helper.make_node("Mul", ["x", "g"], ["a"]),
        helper.make_node("Add", ["a", "b"], ["c"]),
        helper.make_node("Add", ["c", "z"], ["d"]),
        helper.make_node("Clip", ["d", "l", "h"], ["y"]),
    ]
    constants = {"g": random.normal(size=length), "b": random.normal(size=length)}
    constants |= {"l": np.array(0.0), "h": np.array(6.0)}
    return _model(nodes, {"x": [rows, length], "z": [rows, length]}, constants)


def gelu(random: np.random.Generator, rows: int, length: int) -> onnx.ModelProto:
    """A Gelu as exporters write it out."""
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"]),
        helper.make_node("Mul", ["a", "r"], ["c"]),
        helper.make_node("Erf", ["c"], ["d"]),
        helper.make_node("Add", ["d", "o"], ["e"]),
        helper.make_node("Mul", ["a", "e"], ["f"]),
        helper.make_node("Mul", ["f", "h"], ["y"]),
    ]
    constants = {"b": random.normal(size=length), "r": np.array(0.5**0.5)}
    constants |= {"o": np.array(1.0), "h": np.array(0.5)}
    return _model(nodes, {"x": [rows, length]}, constants)


def single_cells(random: np.random.Generator) -> onnx.ModelProto:
    """One of these."""
    return of_size(random, (gate, scaled_sum, gelu))


def pair(random: np.random.Generator) -> onnx.ModelProto:
    """A convolution of points and one of each channel, in blocks, both cut at both ends."""
    block = block_size() or 16
    while True:
        depth, side = int(random.choice(CHANNELS)), int(random.choice(SIDES))
        width, (taps, step) = depth * int(random.choice(EXPANSIONS)), FILTERS[random.integers(5)]
        if depth % block == width % block == 0 and side**2 * depth * width < MOST_OPERATIONS / 2:
            break
    points = random.normal(size=(width, depth, 1, 1)) / depth**0.5
    filters = random.normal(size=(width, 1, taps, taps)) / taps
    layouts = Layout((width,), block), Layout((depth,), block)
    constants = {
        "p": dense(points.astype(np.float32), *layouts),
        "t": outer(filters.astype(np.float32), layouts[0]),
        "b": random.normal(size=width),
        "d": random.normal(size=width),
    }
    ends = {"activation": "Clip", "activation_params": [0.0, 6.0]}
    nodes = [
        helper.make_node("Conv", ["x", "p", "b"], ["m"], domain=NCHWC, kernel_shape=[1, 1], **ends),
        helper.make_node(
            *("Conv", ["m", "t", "d"], ["y"]),
            domain=NCHWC,
            group=width,
            kernel_shape=[taps, taps],
            strides=[step, step],
            pads=[taps // 2] * 4,
            **ends,
        ),
    ]
    result_side = (side - 1) // step + 1
    inner = {"m": [1, width, side, side], "y": [1, width, result_side, result_side]}
    return _model(nodes, {"x": [1, depth, side, side]}, constants, inner)


def _model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int]],
    constants: Mapping[str, np.ndarray[Any, Any]],
    known: Mapping[str, Sequence[int]] | None = None,
) -> onnx.ModelProto:
    """Return a model; `known` are shapes that ONNX doesn't infer."""
    known = known or {}
    graph = helper.make_graph(
        nodes,
        "kernel",
        [helper.make_tensor_value_info(name, 1, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", 1, known.get("y"))],
        [numpy_helper.from_array(a.astype(np.float32), name) for name, a in constants.items()],
        value_info=[
            helper.make_tensor_value_info(name, 1, shape)
            for name, shape in known.items()
            if name != "y"
        ],
    )
    opsets = [helper.make_opsetid("", 17)] + [helper.make_opsetid(NCHWC, 1)] * bool(known)
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def kernels(model: onnx.ModelProto, threads: int) -> tuple[Meanings, str, list[RegionKernel]]:
    """Return what a kernel computes, for people, and it in its configurations, the default first.

    Those behind it come as they are first worth a trial; those that make no difference are left
    out.
    """
    graph = load_graph(model)
    graph.types = infer_types(graph)
    for entry in (*model.graph.input, *model.graph.value_info, *model.graph.output):
        shape = tuple(dimension.dim_value for dimension in entry.type.tensor_type.shape.dim)
        if shape:
            graph.types[graph.names.index(entry.name)] = TensorType("float32", shape)
    meanings = Meanings(graph)
    if any(node.domain == NCHWC for node in model.graph.node):
        kernels = pairs(
            meanings,
            graph.nodes,
            lambda sizes: legal_pairs(replace(sizes, threads=threads), processor())[1:],
        )
        x_shape, width, y_shape = (meanings.shape(graph.names.index(name)) for name in "xmy")
        name = f"{x_shape[1]} to {width[1]} channels, {x_shape[2]} to {y_shape[2]} lines"
        return meanings, f"{kernels[0].kernel.form}, {name}", kernels
    (default,) = regions(meanings, graph.nodes)
    extents = [int(size) for size in default.kernel.shapes.extents]
    sizes = other_sizes(default, extents, threads)
    ways = [] if sizes is None else other_ways(sizes, processor())
    kernels = [default, *(in_configuration(meanings, default, way) for way in ways)]
    distinct = {region_kernel.kernel.name: region_kernel for region_kernel in reversed(kernels)}
    ordered = sorted(distinct.values(), key=kernels.index)
    ordered.sort(key=lambda region_kernel: region_kernel.kernel.name != default.kernel.name)
    label = "attention" if default.kernel.arrange else default.kernel.label
    return meanings, f"{label}, {' x '.join(map(str, extents))}", ordered


def race(
    meanings: Meanings,
    kernels: Sequence[RegionKernel],
    threads: int,
    budget_s: float,
) -> list[Timed]:
    """Return the times of configurations over that of the default, the first, in two races.

    There are none where one of them doesn't run.
    """
    default, *others = (region_kernel.kernel for region_kernel in kernels)
    library = build([default, *sorted(others, key=_chosen)], levels=[native_level()])
    raced = races(meanings, kernels, library, threads=threads, budget_s=budget_s)
    return [among(timed) for timed in zip(*map(beside_default, raced), strict=True)][1:]


def _chosen(kernel: Kernel) -> Any:
    """Return what a kernel was chosen to be: libraries of equal kernels are compiled once."""
    return None if kernel.configuration is None else kernel.configuration.configuration


def measure(model: onnx.ModelProto, threads: int, budget_s: float) -> dict[str, Any] | None:
    """Race what one kernel may be; None where nothing may be chosen."""
    meanings, name, (default, *others) = kernels(model, threads)
    others = others[:MOST_RACED]
    times = race(meanings, [default, *others], threads, budget_s) if others else []
    if not times:
        return None
    tried = times[:MOST_OF_ONE]
    best = min(
        range(len(tried)), key=lambda number: (not tried[number].is_faster, tried[number].ratio)
    )
    row: dict[str, Any] = {
        "kernel": name,
        "configurations": len(others) + 1,
        "best": round(min(1.0, *(time.ratio for time in times)), 4),
        "ratios": {
            other.kernel.configuration.configuration.description: round(timed.ratio, 4)  # type: ignore[union-attr]
            for other, timed in zip(others, times, strict=True)
        },
        **KEPT,
    }
    if tried[best].is_faster:
        again = race(meanings, [default, others[best]], threads, budget_s)
        if again:
            row |= {"chosen": list(row["ratios"])[best], **gained(again[0])}
    print({k: v for k, v in row.items() if k != "ratios"}, file=sys.stderr, flush=True)
    return row


def laid_out(rows: Sequence[Mapping[str, Any]]) -> str:
    """Lay rows out in Markdown, below what they come to."""
    best = np.array([row["best"] for row in rows])
    head = ("kernel", "configurations", "best of all", "gain", "interval", "chosen")
    cells = (
        [
            *(row["kernel"], row["configurations"], f"{1 / row['best']:.3f}"),
            *(f"{row['gain']:.3f}", interval(row), row.get("chosen", "")),
        ]
        for row in rows
    )
    best_text = f"best of all in the first race {np.exp(-np.log(best).mean()):.3f}"
    return f"{len(rows)} shapes: {gains(rows)}; {best_text}.\n\n{table(head, cells)}"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.loop_configurations", description=__doc__
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("family", choices=list(DRAWS))
    parser.add_argument("--shapes", type=int, default=24)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget", type=float, default=1.5, help="seconds for a race")
    parser.add_argument("--out", type=rows_file)
    arguments = parser.parse_args()
    random = np.random.default_rng(arguments.seed)
    rows: list[dict[str, Any]] = []
    out = arguments.out or RESULTS / native_level() / f"{arguments.family}_configurations.json"
    command = f"python -m benchmarks.loop_configurations {arguments.family} "
    command += f"--shapes {arguments.shapes} --budget {arguments.budget:g}"
    command += f" --threads {arguments.threads}" * (arguments.threads > 1)
    for _ in range(arguments.shapes):
        row = measure(DRAWS[arguments.family](random), arguments.threads, arguments.budget)
        if row is not None:
            rows.append(row)
            write_rows(
                out, rows, f"# Configurations: {arguments.family}\n\n`{command}`", laid_out(rows)
            )
    print(laid_out(rows))


DRAWS: Mapping[str, Callable[[np.random.Generator], onnx.ModelProto]] = {
    "rows": over_rows,
    "columns": over_columns,
    "cells": single_cells,
    "pairs": pair,
    "attention": attention,
}

if __name__ == "__main__":
    main()
