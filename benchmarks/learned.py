"""How well a model of costs foretells kernels of architectures that it was trained without.

    python -m benchmarks.learned [KERNELS.zip MODEL.onnx]      # by default those of benchmarks/data
    python -m benchmarks.learned --every                       # each architecture left out in turn

Beside it, on the same split: the roofline bound, boosted trees, a perceptron over features of the
operators, and the trees that correct the bound, which optimize may use; all are trained on what the
model was trained on. With --every all but the model, whose training takes an hour then, and means
over the architectures. All learn from all configurations of a kernel.
An architecture's kernels are ranked (tau, OPA) under one thread and all optimizations,
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
from tensolog.profiles.learning.predictor import CostPredictor
from tensolog.profiles.learning.samples.archive import Array
from tensolog.profiles.learning.samples.cost_graphs import read_archives
from tensolog.profiles.learning.samples.examples import Example, example_of, scaled
from tensolog.profiles.learning.samples.kernel_graphs import FEATURES, PRIOR_FEATURE
from tensolog.profiles.learning.samples.kernel_rows import KernelRows, kernel_rows
from tensolog.profiles.learning.scores.baselines import regressions
from tensolog.profiles.learning.scores.metrics import (
    kendall_tau,
    mean_error,
    ordered_pair_accuracy,
    top_k_error,
)
from tensolog.profiles.learning.training.ensemble import without
from tensolog.profiles.learning.training.kernel_trees import fit_trees, operators_of
from tensolog.profiles.learning.training.kernel_trees import table as tree_table

from .environment import RESULTS
from .rows import rows_file, table_head, table_row, write_rows

CORRECTED = "trees over the bound"
SCORES = ("error", "tau", "opa", "configurations", "top_1")
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
    rows_of: dict[str, KernelRows] = {}
    for graph in read_archives(graphs):
        example = predictor.example(graph)
        if (described := kernel_rows(graph)) is not None:
            rows_of[example.path] = described
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
    all_predictions = [predictor.predict(example) for example in together]
    predictions = {"roofline": np.concatenate([np.exp(example.prior) for example in together])}
    for name, regression in regressions().items():
        predictions[name] = np.exp(regression(table, logs, others))
    predictions[CORRECTED] = corrected(
        [rows_of[example.path] for example in known],
        [rows_of[example.path] for example in together],
    )
    predictions["graph network"] = np.concatenate(
        [prediction.times_ns for prediction in all_predictions]
    )
    times = np.exp(np.concatenate([example.logs for example in together]))
    within = np.concatenate([prediction.least_ns for prediction in all_predictions]) <= times
    within &= times <= np.concatenate([prediction.most_ns for prediction in all_predictions])
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


def score_every(path: Path) -> list[dict[str, Any]]:
    """Return the scores of each model on each architecture that it was trained without."""
    graphs = list(read_archives(path))
    kernels = [rows for graph in graphs if (rows := kernel_rows(graph)) is not None]
    examples = [example_of(graph, prior=PRIOR_FEATURE) for graph in graphs]
    scored = []
    for architecture in sorted({kernel.architecture for kernel in kernels}):
        tested = [n for n, kernel in enumerate(kernels) if kernel.architecture == architecture]
        seen = {kernels[n].content for n in tested}
        known = [n for n, kernel in enumerate(kernels) if kernel.content not in seen]
        rows, others = (
            np.concatenate([row_of(examples[n]) for n in part]) for part in (known, tested)
        )
        logs = np.concatenate([kernels[n].logs for n in known])
        predictions = {"roofline": np.concatenate([np.exp(examples[n].prior) for n in tested])}
        for name, regression in regressions().items():
            predictions[name] = np.exp(regression(rows, logs, others))
        predictions[CORRECTED] = corrected(
            [kernels[n] for n in known], [kernels[n] for n in tested]
        )
        times = np.exp(np.concatenate([kernels[n].logs for n in tested]))
        for name, predicted in predictions.items():
            head = {"architecture": architecture, "model": name, "kernels": len(tested)}
            scores = _scored([examples[n] for n in tested], times, predicted)
            scored.append(head | scores | {"covered": None})
    return scored


def means(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the means of scores over architectures, by model."""
    mean_rows = []
    for model in dict.fromkeys(row["model"] for row in rows):
        of_one = [row for row in rows if row["model"] == model]
        count = sum(row["kernels"] for row in of_one)
        head = {"architecture": "mean of each", "model": model, "kernels": count, "covered": None}
        mean_rows.append(
            head | {name: float(np.mean([row[name] for row in of_one])) for name in SCORES}
        )
    return mean_rows


def corrected(known: Sequence[KernelRows], tested: Sequence[KernelRows]) -> Array:
    """Predict times of all configurations of kernels by trees over the bound."""
    operators = operators_of(known)
    trees = fit_trees(known, operators)
    guess = np.concatenate([kernel.guess for kernel in tested])
    times: Array = np.exp(guess + trees.predict(tree_table(tested, operators)))
    return times


def _scored(examples: Sequence[Example], times: Array, predicted: Array) -> dict[str, float]:
    ends = np.cumsum([0, *(len(example.logs) for example in examples)])
    parts = [slice(start, end) for start, end in pairwise(ends)]
    default = ends[:-1]  # the first configuration: one thread, all optimizations
    ranked = [part for part in parts if times[part].min() < times[part].max()]
    return {
        "error": mean_error(times[default], predicted[default]),
        "tau": kendall_tau(times[default], predicted[default]),
        "opa": ordered_pair_accuracy(times[default], predicted[default]),
        "configurations": float(
            np.mean([ordered_pair_accuracy(times[part], predicted[part]) for part in ranked])
        ),
        "top_1": float(np.mean([top_k_error(times[part], predicted[part], 1) for part in parts])),
    }


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Lay rows out in Markdown."""
    names = (*SCORES, "covered")
    head = ["left out", "kernels", "model", "error", "tau", "OPA", "configurations", "top 1"]
    lines = table_head([*head, "covered"])
    for row in rows:
        cells = [row["architecture"], str(row["kernels"]), row["model"]]
        cells += ["" if row[name] is None else f"{row[name]:.3f}" for name in names]
        lines.append(table_row(cells))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learned", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("graphs", type=Path, nargs="?", default=DATA / "kernels.zip")
    parser.add_argument("model", type=Path, nargs="?", default=DATA / "kernels.onnx")
    parser.add_argument("--every", action="store_true", help="leave each architecture out in turn")
    parser.add_argument("--out", type=rows_file)
    arguments = parser.parse_args()
    if arguments.every:
        rows = score_every(arguments.graphs)
    else:
        rows = score(arguments.graphs, arguments.model)
    shown = table([*means(rows), *rows])
    name = "learned_every" if arguments.every else "learned"
    command = f"python -m benchmarks.learned{' --every' if arguments.every else ''}"
    head = f"# Learned costs of kernels\n\n`{command}`"
    write_rows(arguments.out or RESULTS / f"{name}.json", rows, head, shown)
    print(shown)


if __name__ == "__main__":
    main()
