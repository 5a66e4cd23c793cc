"""What configurations of convolutions by minimal filtering are worth, beside the default ones.

    python -m benchmarks.convolution_tiles --shapes 60 --compile      # what takes long, in advance
    python -m benchmarks.convolution_tiles --shapes 60 --out convolution_tiles.json

Of each shape all legal configurations of each form race beside the default, interleaved, in
sessions of ONNX Runtime with one thread, twice, the second time in sessions that are opened anew
in another order: what one race says of the other is the ceiling of any ranking. Then the best of
each form races the default once more, since being the best of several flatters a time. Top 5 and
top 10 are of the order in which they are tried, which is that of configurations.dl. Shapes that the
file has already are left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from tensolog.optimizer.codegen.unit import native_level
from tensolog.optimizer.graph.convert import load_graph
from tensolog.optimizer.graph.graph import TensorType
from tensolog.optimizer.layouts.runtime import block_size
from tensolog.optimizer.native.configurations.convolution_configuration import ConvolutionSizes
from tensolog.optimizer.native.configurations.legal import legal_convolutions
from tensolog.optimizer.native.configurations.processor import processor
from tensolog.optimizer.native.configurations.timed import among
from tensolog.optimizer.native.convolution.blocked import convolutions, is_laid_out
from tensolog.optimizer.native.library import build
from tensolog.optimizer.native.loops.kernel_region import Meanings
from tensolog.profiles.learning.scores.metrics import ordered_pair_accuracy, top_k_error

from .configuration_races import KEPT, beside_default, gained, gains, races
from .convolutions import Size, model
from .rows import load_rows, rows_file, table, write_rows

CHANNELS, SIDES = (32, 48, 64, 96, 128, 192, 256), (7, 8, 13, 14, 17, 28, 35, 56)
TAPS = ((3, 3), (3, 3), (3, 3), (5, 5), (1, 7), (7, 1), (1, 3))
MOST_OPERATIONS = 500e6


def shapes(count: int, seed: int) -> list[Size]:
    """Draw different shapes."""
    random = np.random.default_rng(seed)
    drawn: dict[Size, None] = {}
    while len(drawn) < count:
        channels, outputs, side = (
            int(random.choice(sizes)) for sizes in (CHANNELS, CHANNELS, SIDES)
        )
        size = Size("", channels, side, outputs, TAPS[random.integers(len(TAPS))])
        if size.operations <= MOST_OPERATIONS:
            drawn[size] = None
    return list(drawn)


def forms(size: Size, budget_s: float) -> list[dict[str, Any]]:
    """Race the configurations of a shape; a row for each form that has several.

    Without a budget, kernels are compiled and nothing is raced.
    """
    here = processor()
    proto = model(size, block_size() or 16)
    graph = load_graph(proto)
    for entry in (*proto.graph.input, *proto.graph.output):
        shape = tuple(dimension.dim_value for dimension in entry.type.tensor_type.shape.dim)
        graph.types[graph.names.index(entry.name)] = TensorType("float32", shape)

    def every(sizes: ConvolutionSizes) -> Sequence[Any]:
        prepared = is_laid_out(sizes.filter_bytes, sizes.tiles)
        return legal_convolutions(sizes, here, prepared)[1:]

    meanings = Meanings(graph)
    kernels = convolutions(meanings, graph.nodes, every)
    library = build([kernel.kernel for kernel in kernels], levels=[native_level()])
    rows = []
    for form in dict.fromkeys(kernel.kernel.form for kernel in kernels) if budget_s else ():
        of_form = [kernel for kernel in kernels if kernel.kernel.form == form]
        if len(of_form) < 2:
            continue
        raced = list(map(beside_default, races(meanings, of_form, library, budget_s=budget_s)))
        first, second = (
            np.array([timed.ratio for timed in form_timings]) for form_timings in raced
        )
        ratios, order = np.sqrt(first * second), np.arange(len(of_form))
        spans = [among(pair) for pair in zip(*raced, strict=True)]
        best = int(np.argmin(ratios))
        chosen = of_form[best].kernel.configuration
        row = {**asdict(size), "form": form, "configurations": len(of_form), "best": ratios[best]}
        row |= {**KEPT, "races": [first.tolist(), second.tolist()]}
        row |= {f"top {k}": top_k_error(ratios, order, k) for k in (5, 10)}
        row["OPA of races"] = ordered_pair_accuracy(first, second)
        if chosen is not None and spans[best].is_faster:
            pair = [of_form[0], of_form[best]]
            again = races(meanings, pair, library, budget_s=budget_s)
            timed = among([beside_default(laps)[1] for laps in again])
            row |= {"configuration": chosen.configuration.description, **gained(timed)}
        rows.append(row)
        print(row, file=sys.stderr, flush=True)
    return rows


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """Say what rows come to."""
    return (
        f"{len(rows)} forms: {gains(rows)}. Top 5 {np.mean([r['top 5'] for r in rows]):.2%}, "
        f"top 10 {np.mean([r['top 10'] for r in rows]):.2%} (means); one race orders "
        f"{np.nanmean([r['OPA of races'] for r in rows]):.2f} of the pairs as the other does."
    )


def laid_out(rows: Sequence[Mapping[str, Any]]) -> str:
    """Lay rows out in Markdown."""
    head = ["channels", "side", "form", "configurations", "best of all", "top 5", "top 10"]
    head += ["gain", "configuration"]
    cells = (
        [
            *(f"{row['channels']} to {row['made']}", row["side"], row["form"]),
            *(row["configurations"], f"{1 / row['best']:.3f}"),
            *(f"{row[f'top {k}']:.1%}" for k in (5, 10)),
            *(f"{row['gain']:.3f}", row.get("configuration", "default kept")),
        ]
        for row in rows
    )
    return table(head, cells)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.convolution_tiles")
    parser.add_argument("--shapes", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget", type=float, default=1.0, help="seconds for a race")
    parser.add_argument("--compile", action="store_true", help="compile, and measure nothing")
    parser.add_argument("--out", type=rows_file)
    arguments = parser.parse_args()
    rows = load_rows(arguments.out) if arguments.out is not None else []
    measured = {(row["channels"], row["side"], row["made"], *row["taps"]) for row in rows}
    for size in shapes(arguments.shapes, arguments.seed):
        if (size.channels, size.side, size.made, *size.taps) in measured:
            continue
        rows += forms(size, 0.0 if arguments.compile else arguments.budget)
        print(size, file=sys.stderr, flush=True)
        if rows and arguments.out is not None:
            head = (
                f"# Configurations of convolutions, {processor().level}\n\n"
                f"`python -m benchmarks.convolution_tiles --shapes {arguments.shapes} "
                f"--seed {arguments.seed} --budget {arguments.budget:g}`, one thread"
            )
            write_rows(arguments.out, rows, head, f"{summary(rows)}\n\n{laid_out(rows)}")
    if rows:
        print(summary(rows))


if __name__ == "__main__":
    main()
