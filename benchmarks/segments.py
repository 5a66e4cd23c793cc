"""Graph segment training: what historical embeddings and their dropout are worth, and its memory.

    python -m benchmarks.segments FILE.npz            # a layout of TpuGraphs: accuracy by variant
    python -m benchmarks.segments --memory 100000     # peak memory for a graph of so many nodes

Accuracy is that of configurations that were not trained on, of the one graph in the file: it has
one architecture, so that this says nothing of others. Every variant takes equally many steps, and
is trained with several seeds; where fewer segments have gradients, a step computes less. The graphs
of the memory claim are synthetic. What was measured before is kept: a variant of a file is trained
once.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from tensolog.profiles.learning.samples.archive import CostGraph, read_archive
from tensolog.profiles.learning.samples.examples import example_of, segments_of
from tensolog.profiles.learning.scores.metrics import kendall_tau, ordered_pair_accuracy
from tensolog.profiles.learning.training.ensemble import subset
from tensolog.profiles.learning.training.training_options import Training

from .child import run_step
from .environment import RESULTS
from .rows import load_rows, rows_file, write_rows

CONFIGURATIONS, TESTED = 2000, 1000
# Pruned to what is an edge from a configurable node, and in segments small enough to be several.
HOPS, SEGMENT = 1, 20
# What each variant trains: nodes of a segment, how many segments have gradients in a step, and the
# probability that a stale embedding counts.
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "full training": {"segment_nodes": 10**9},
    "segments, all with gradients": {"segment_nodes": SEGMENT},
    "half of them, historical embeddings": {"segment_nodes": SEGMENT, "fresh": 2, "kept": 1.0},
    "one, historical embeddings, dropout": {"segment_nodes": SEGMENT, "fresh": 1, "kept": 0.5},
    "one, historical embeddings": {"segment_nodes": SEGMENT, "fresh": 1, "kept": 1.0},
    "one alone": {"segment_nodes": SEGMENT, "fresh": 1, "kept": 0.0},
}


def accuracy(file: Path, variant: str, seed: int, steps: int) -> dict[str, Any]:
    """Train one variant on some configurations of a graph; return how it ranks others."""
    import torch
    from tensolog.profiles.learning.training.network import Shape, predict
    from tensolog.profiles.learning.training.segments import fresh_sums
    from tensolog.profiles.learning.training.training_loop import fit

    example = example_of(read_archive(file), hops=HOPS)
    order = np.random.default_rng(0).permutation(len(example.logs))
    known, unseen = subset(example, order[:CONFIGURATIONS]), subset(example, order[-TESTED:])
    shape = Shape(
        np.unique(example.opcodes), example.features.shape[1], example.configurations.shape[2]
    )
    training = dataclasses.replace(Training(steps=steps, configurations=16), **VARIANTS[variant])
    parameters = fit([known], shape, training, seed=seed)
    segments = segments_of(unseen, training.segment_nodes)
    logs = []
    for part in np.array_split(np.arange(TESTED), TESTED // 50):
        sums = fresh_sums(parameters, unseen, segments, part, shape.codes)
        prior = torch.as_tensor(unseen.prior[None, part])
        logs.append(predict(parameters, sums, torch.tensor([unseen.nodes]), prior)[0].numpy())
    predicted = np.concatenate(logs)
    return {
        "file": file.name,
        "variant": variant,
        "seed": seed,
        "steps": steps,
        "segments": len(segments),
        "opa": ordered_pair_accuracy(np.exp(unseen.logs), predicted),
        "tau": kendall_tau(np.exp(unseen.logs), predicted),
    }


def synthetic(nodes: int, *, configurations: int = 16) -> CostGraph:
    """Return a graph of the layout collection's widths, a tenth of whose nodes is configured."""
    random = np.random.default_rng(0)
    ids = np.arange(0, nodes, 10, dtype=np.int32)
    settings = random.integers(-1, 6, (configurations, len(ids), 18)).astype(np.float32)
    near = np.maximum(np.arange(1, nodes) - random.integers(1, 50, nodes - 1), 0)
    return CostGraph(
        f"layout/synthetic_{nodes}.npz",
        {
            "node_feat": random.integers(0, 100, (nodes, 140)).astype(np.float32),
            "node_opcode": random.integers(0, 100, nodes).astype(np.int32),
            "edge_index": np.stack([np.arange(1, nodes), near], 1).astype(np.int32),
            "node_config_ids": ids,
            "node_config_feat": settings,
            "config_runtime": (1e6 * (2 + settings[:, :, 0].mean(axis=1))).astype(np.int32),
        },
    )


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Lay rows out in Markdown: means over seeds, and the peak memory by nodes."""
    lines = ["| steps | training | segments | seeds | OPA | tau |", "|---|---|---|---|---|---|"]
    trained = [row for row in rows if "variant" in row]
    for steps, variant in product(sorted({row["steps"] for row in trained}), VARIANTS):
        mine = [row for row in trained if (row["steps"], row["variant"]) == (steps, variant)]
        if mine:
            scores = [[row[metric] for row in mine] for metric in ("opa", "tau")]
            cells = [
                f"{np.mean(values):.3f} ({min(values):.3f} to {max(values):.3f})"
                for values in scores
            ]
            head = f"| {steps:,} | {variant} | {mine[0]['segments']} | {len(mine)}"
            lines.append(f"{head} | {' | '.join(cells)} |")
    memory = [row for row in rows if "peak_bytes" in row]
    if memory:
        lines += ["", "| nodes | training | peak memory | before it |", "|---|---|---|---|"]
        for row in sorted(memory, key=lambda row: (row["training"], row["nodes"])):
            peak, before = (f"{row[name] / 1e6:,.0f} MB" for name in ("peak_bytes", "start_bytes"))
            lines.append(f"| {row['nodes']:,} | {row['training']} | {peak} | {before} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.segments", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--memory", type=int, metavar="NODES", nargs="+", default=[])
    parser.add_argument("--full", action="store_true", help="memory of full training instead")
    parser.add_argument("--variant", choices=VARIANTS, help="one of them")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--out", type=rows_file, default=RESULTS / "segments.json")
    arguments = parser.parse_args()
    rows = load_rows(arguments.out)

    def keep(row: dict[str, Any]) -> None:
        rows.append(row)
        head = "# Graph segment training\n\n`python -m benchmarks.segments`"
        write_rows(arguments.out, rows, head, table(rows))
        print(row, flush=True)

    for nodes in arguments.memory:
        training = "full" if arguments.full else "segments of 1,000 nodes"
        if not any((row.get("nodes"), row.get("training")) == (nodes, training) for row in rows):
            step = run_step("segments", nodes=nodes, full=arguments.full)
            keep({"nodes": nodes, "training": training} | step)
    if arguments.file is None:
        return
    for seed in range(arguments.seeds):
        for variant in [arguments.variant] if arguments.variant else VARIANTS:
            key = (arguments.file.name, variant, seed, arguments.steps)
            names = ("file", "variant", "seed", "steps")
            if not any(tuple(row.get(name) for name in names) == key for row in rows):
                keep(accuracy(arguments.file, variant, seed, arguments.steps))


if __name__ == "__main__":
    main()
