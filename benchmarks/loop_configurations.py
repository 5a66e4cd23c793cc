"""What configurations of attentions and of kernels over rows are worth beside the constants.

    python -m benchmarks.loop_configurations rows
    python -m benchmarks.loop_configurations attention --shapes 12

Shapes are drawn. Of each, all legal configurations are raced beside the default, interleaved, in
sessions of ONNX Runtime with one thread. Being the best of several flatters a time, so those that
`optimize` would try first, and of these the fastest beyond noise, race the default once more: the
gain is what that race says, and 1 where the default stays. `best of all` is that of the first race.
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
from tensolog.optimizer.graph.infer import infer_types
from tensolog.optimizer.native.attention.kernel import configured
from tensolog.optimizer.native.configurations.attention_configuration import (
    AttentionSizes,
    ChosenAttention,
)
from tensolog.optimizer.native.configurations.legal import legal_attentions, legal_rows
from tensolog.optimizer.native.configurations.processor import processor
from tensolog.optimizer.native.configurations.row_configuration import ChosenRows, RowSizes
from tensolog.optimizer.native.configurations.timed import Timed, beside
from tensolog.optimizer.native.configured_kinds import MOST_OF_ONE, digest_of, in_order_of_trial
from tensolog.optimizer.native.fuse_graph import regions
from tensolog.optimizer.native.grow import RegionKernel
from tensolog.optimizer.native.kernel_trial import KERNEL, measured_forms
from tensolog.optimizer.native.library import build
from tensolog.optimizer.native.loops.kernel_region import Meanings
from tensolog.optimizer.native.loops.lower import Kernel, reconfigured

from .environment import RESULTS
from .rows import rows_file, write_rows

HEADS, DEPTHS = (1, 2, 4, 8, 12, 16), (24, 32, 40, 64, 80, 96, 128)
TOKENS = (1, 4, 7, 16, 25, 32, 49, 50, 64, 77, 100, 128, 196, 197, 256, 300, 384, 512, 768, 1024)
ROWS = (12, 49, 64, 77, 128, 196, 256, 384, 512, 768, 1024, 2048)
LENGTHS = (32, 48, 64, 96, 128, 196, 256, 320, 384, 512, 768, 1000, 1024, 1280, 2048, 3072, 4096)
# Products and sums of an attention, and cells of a kernel over rows, at most.
MOST_PRODUCTS, MOST_CELLS = 100 << 20, 1 << 19


def normalization(random: np.random.Generator, rows: int, length: int) -> onnx.ModelProto:
    """A sum of two tensors, normalized."""
    nodes = [
        helper.make_node("Add", ["x", "z"], ["a"]),
        helper.make_node("LayerNormalization", ["a", "g", "b"], ["y"], axis=-1),
    ]
    held = {"g": random.normal(size=length), "b": random.normal(size=length)}
    return _model(nodes, {"x": [rows, length], "z": [rows, length]}, held)


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
    held = {"e": np.array(1e-5), "g": random.normal(size=length)}
    return _model(nodes, {"x": [rows, length]}, held)


def softmax(random: np.random.Generator, rows: int, length: int) -> onnx.ModelProto:
    """A softmax of what is scaled and masked."""
    nodes = [
        helper.make_node("Mul", ["x", "s"], ["a"]),
        helper.make_node("Add", ["a", "m"], ["b"]),
        helper.make_node("Softmax", ["b"], ["y"], axis=-1),
    ]
    held = {"s": np.array(0.125), "m": random.normal(size=length)}
    return _model(nodes, {"x": [rows, length]}, held)


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
    given = {"q": [1, heads, queries, depth], "k": [1, heads, depth, keys]}
    given |= {"v": [1, heads, keys, depth], "mask": [1, 1, 1, keys]}
    return _model(nodes, given, {"scale": np.array(depth**-0.5)})


def over_rows(random: np.random.Generator) -> onnx.ModelProto:
    """One of the kernels over rows above."""
    draws: Sequence[Callable[[np.random.Generator, int, int], onnx.ModelProto]] = (
        normalization,
        root_mean_square,
        softmax,
        products,
    )
    while True:
        rows, length = int(random.choice(ROWS)), int(random.choice(LENGTHS))
        if rows * length <= MOST_CELLS:
            return draws[random.integers(len(draws))](random, rows, length)


def _model(
    nodes: Sequence[onnx.NodeProto],
    given: Mapping[str, Sequence[int]],
    held: Mapping[str, np.ndarray[Any, Any]],
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "kernel",
        [helper.make_tensor_value_info(name, 1, shape) for name, shape in given.items()],
        [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(a.astype(np.float32), name) for name, a in held.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def configurations(meanings: Meanings, found: RegionKernel) -> tuple[str, list[RegionKernel]]:
    """Return what a kernel computes, for people, and its other configurations, first to try first.

    Those that make no difference are left out.
    """
    extents = [int(size) for size in found.kernel.shapes.extents]
    if found.kernel.arrange:
        heads, (queries, keys, depth, width) = int(np.prod(extents[:-4])), extents[-4:]
        sizes = AttentionSizes(heads, queries, keys, depth, width)
        ways = in_order_of_trial(sizes, legal_attentions(sizes, processor()))
        made = [configured(found, ChosenAttention(w, native_level(), sizes)) for w in ways]
        name = f"{heads} heads, {queries} queries, {keys} keys, {depth} wide"
    else:
        of = RowSizes(digest_of(found), extents[0], extents[1])
        chosen = [ChosenRows(way, of) for way in legal_rows(of)[1:]]
        made = [replace(found, kernel=reconfigured(meanings, found.region, c)) for c in chosen]
        name = f"{found.kernel.label}, {extents[0]} x {extents[1]}"
    distinct = {one.kernel.name: one for one in reversed(made)}
    distinct.pop(found.kernel.name, None)
    return name, list(reversed(distinct.values()))


def race(
    meanings: Meanings, found: RegionKernel, others: Sequence[RegionKernel], budget_s: float
) -> list[Timed] | None:
    """Return the times of configurations over that of the default, in one race."""
    kernels = [one.kernel for one in (found, *others)]
    library = build([kernels[0], *sorted(kernels[1:], key=_chosen)], levels=[native_level()])
    graph = meanings.graph
    laps = measured_forms(
        graph, found.region, kernels, library, graph.types, threads=1, budget_s=budget_s
    )
    if found.kernel.name not in laps:
        return None
    default = laps[found.kernel.name][KERNEL]
    return [beside(laps[one.kernel.name][KERNEL], default) for one in others]


def _chosen(kernel: Kernel) -> Any:
    """Return what a kernel was chosen to be: libraries of equal kernels are compiled once."""
    return None if kernel.configuration is None else kernel.configuration.configuration


def measure(model: onnx.ModelProto, budget_s: float) -> dict[str, Any] | None:
    """Race what one kernel may be; None where nothing may be chosen."""
    graph = load_graph(model)
    graph.types = infer_types(graph)
    meanings = Meanings(graph)
    (found,) = regions(meanings, graph.nodes)
    name, others = configurations(meanings, found)
    times = race(meanings, found, others, budget_s) if others else None
    if times is None:
        return None
    tried = times[:MOST_OF_ONE]
    best = min(range(len(tried)), key=lambda place: tried[place].ratio)
    row: dict[str, Any] = {
        "kernel": name,
        "configurations": len(others) + 1,
        "best": round(min(1.0, *(one.ratio for one in times)), 4),
        "ratios": {
            one.kernel.configuration.configuration.description: round(timed.ratio, 4)  # type: ignore[union-attr]
            for one, timed in zip(others, times, strict=True)
        },
        "gain": 1.0,
        "slower": False,
    }
    if tried[best].is_faster:
        again = race(meanings, found, [others[best]], budget_s)
        if again is not None:
            row["chosen"] = list(row["ratios"])[best]
            row["gain"] = round(1 / again[0].ratio, 4)
            row["low"], row["high"] = (
                round(1 / one, 4) for one in (again[0].ratio_high, again[0].ratio_low)
            )
            row["slower"] = again[0].ratio_low > 1.0
    print({k: v for k, v in row.items() if k != "ratios"}, file=sys.stderr, flush=True)
    return row


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Lay rows out in Markdown, below what they come to."""
    gains = np.array([row["gain"] for row in rows])
    best = np.array([row["best"] for row in rows])
    lines = [
        f"- shapes: {len(rows)}",
        f"- gain, geometric mean: {np.exp(np.log(gains).mean()):.3f}, least {gains.min():.3f}, "
        f"most {gains.max():.3f}",
        f"- gain of the best of all in the first race: {np.exp(-np.log(best).mean()):.3f}",
        f"- shapes slower beyond noise: {sum(row['slower'] for row in rows)}; default kept: "
        f"{sum('chosen' not in row for row in rows)}",
        "",
        "| kernel | configurations | best of all | gain | interval | chosen |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        interval = f"{row['low']:.3f} to {row['high']:.3f}" if "low" in row else ""
        lines.append(
            f"| {row['kernel']} | {row['configurations']} | {1 / row['best']:.3f} "
            f"| {row['gain']:.3f} | {interval} | {row.get('chosen', 'default kept')} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.loop_configurations", description=__doc__
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("family", choices=["rows", "attention"])
    parser.add_argument("--shapes", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget", type=float, default=1.5, help="seconds for a race")
    parser.add_argument("--out", type=rows_file)
    arguments = parser.parse_args()
    random = np.random.default_rng(arguments.seed)
    draw = over_rows if arguments.family == "rows" else attention
    rows: list[dict[str, Any]] = []
    out = arguments.out or RESULTS / native_level() / f"{arguments.family}_configurations.json"
    command = f"python -m benchmarks.loop_configurations {arguments.family}"
    for _ in range(arguments.shapes):
        row = measure(draw(random), arguments.budget)
        if row is not None:
            rows.append(row)
            write_rows(
                out, rows, f"# Configurations: {arguments.family}\n\n`{command}`", table(rows)
            )
    print(table(rows))


if __name__ == "__main__":
    main()
