"""How well a model of costs foretells kernels of architectures that it was trained without.

    python -m benchmarks.learned [KERNELS.zip MODEL.onnx]      # by default those of benchmarks/data

Beside it, on the same split: the roofline bound, boosted trees and a perceptron over features of
the operators, which are trained on what the model was trained on. All learn from all configurations
of a kernel. An architecture's kernels are ranked (tau, OPA) under one thread and all optimizations,
but for those that others share with it; "configurations" is the OPA of the configurations of each
kernel, "top 1" the slowdown of the one predicted best. The model runs without torch; the others
need scikit-learn.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from tensolog.profiles.learning.archive import Array
from tensolog.profiles.learning.baselines import regressions
from tensolog.profiles.learning.cost_graphs import read_archives
from tensolog.profiles.learning.ensemble import without
from tensolog.profiles.learning.examples import Example, scaled
from tensolog.profiles.learning.kernel_graphs import FEATURES
from tensolog.profiles.learning.metrics import (
    kendall_tau,
    mean_error,
    ordered_pair_accuracy,
    top_k_error,
)
from tensolog.profiles.learning.predictor import CostPredictor

from .environment import RESULTS
from .rows import rows_file, write_rows

DATA = Path(__file__).resolve().parent / "data"
_CONSTANT = FEATURES.index("constant")


def row_of(example: Example) -> Array:
    """Return what trees and the perceptron see: operator, its features, the configuration."""
    nowhere = scaled(np.array([-1.0]))[0]
    (operator,) = np.flatnonzero(example.features[:, _CONSTANT] == nowhere)
    fixed = np.r_[float(example.opcodes[operator]), example.features[operator, :_CONSTANT]]
    configurations = example.configurations[:, 0]
    rows: Array = np.c_[np.tile(fixed, (len(configurations), 1)), configurations]
    return rows


def score(graphs: Path, model: Path) -> list[dict[str, Any]]:
    """Return the scores of each model on each architecture that `model` was trained without."""
    predictor = CostPredictor(model)
    known_paths = {entry["label"] for entry in predictor.metadata["known"]}
    unseen: dict[str, list[Example]] = defaultdict(list)
    known: list[Example] = []
    for graph in read_archives(graphs):
        example = predictor.example(graph)
        if example.path in known_paths:
            known.append(example)
        else:
            unseen[example.architecture].append(example)
    # What other architectures share with one was learned from.
    tested = {name: without(every, known) for name, every in sorted(unseen.items())}
    together = [example for examples in tested.values() for example in examples]
    table, others = (
        np.concatenate([row_of(example) for example in examples]) for examples in (known, together)
    )
    logs = np.concatenate([example.logs for example in known])
    made = [predictor.predict(example) for example in together]
    predictions = {"roofline": np.concatenate([np.exp(one.prior) for one in together])}
    for name, regression in regressions().items():
        predictions[name] = np.exp(regression(table, logs, others))
    predictions["graph network"] = np.concatenate([one.times_ns for one in made])
    times = np.exp(np.concatenate([example.logs for example in together]))
    within = np.concatenate([one.least_ns for one in made]) <= times
    within &= times <= np.concatenate([one.most_ns for one in made])
    rows, start = [], 0
    for architecture, examples in tested.items():
        part = slice(start, start + sum(len(example.logs) for example in examples))
        start = part.stop
        for name, predicted in predictions.items():
            scored = _scored(examples, times[part], predicted[part])
            covered = float(within[part].mean()) if name == "graph network" else None
            head = {"architecture": architecture, "model": name, "kernels": len(examples)}
            rows.append(head | scored | {"covered": covered})
    return rows


def _scored(examples: Sequence[Example], times: Array, predicted: Array) -> dict[str, float]:
    ends = np.cumsum([0, *(len(example.logs) for example in examples)])
    each = [slice(start, end) for start, end in pairwise(ends)]
    default = ends[:-1]  # the first configuration: one thread, all optimizations
    ranked = [part for part in each if times[part].min() < times[part].max()]
    return {
        "error": mean_error(times[default], predicted[default]),
        "tau": kendall_tau(times[default], predicted[default]),
        "opa": ordered_pair_accuracy(times[default], predicted[default]),
        "configurations": float(
            np.mean([ordered_pair_accuracy(times[part], predicted[part]) for part in ranked])
        ),
        "top_1": float(np.mean([top_k_error(times[part], predicted[part], 1) for part in each])),
    }


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Lay rows out in Markdown."""
    names = ("error", "tau", "opa", "configurations", "top_1", "covered")
    head = ["left out", "kernels", "model", "error", "tau", "OPA", "configurations", "top 1"]
    lines = [f"| {' | '.join([*head, 'covered'])} |", "|" + "---|" * (len(head) + 1)]
    for row in rows:
        cells = [row["architecture"], str(row["kernels"]), row["model"]]
        cells += ["" if row[name] is None else f"{row[name]:.3f}" for name in names]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learned", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("graphs", type=Path, nargs="?", default=DATA / "kernels.zip")
    parser.add_argument("model", type=Path, nargs="?", default=DATA / "kernels.onnx")
    parser.add_argument("--out", type=rows_file, default=RESULTS / "learned.json")
    arguments = parser.parse_args()
    rows = score(arguments.graphs, arguments.model)
    write_rows(
        arguments.out,
        rows,
        "# Learned costs of kernels\n\n`python -m benchmarks.learned`",
        table(rows),
    )
    print(table(rows))


if __name__ == "__main__":
    main()
