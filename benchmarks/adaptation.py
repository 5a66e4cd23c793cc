"""What a few measurements do for predictions on a device that nothing was measured on before.

    python -m benchmarks.adaptation FOLDER           # files of the benchmark hub, *.json.gz

Each device of a kernel is left out in turn. The prediction is the geometric mean over the other
devices; it is adapted (profiles/learning/adaptation.py) to as many configurations as are measured
within 30 s of kernel runs and compilation, one second each, drawn at random. Told are the mean
relative error, Kendall's tau and how many times lie within the 90 % interval, before and after, on
what was not measured. How errors are shared is learned from the other devices, each left out among
them. Nothing is measured here.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tensolog.profiles.learning.adaptation import Adaptation, fit_spread
from tensolog.profiles.learning.chooser import scaled_parameters
from tensolog.profiles.learning.predictor import COVERAGE, conformal_factor
from tensolog.profiles.learning.scores.metrics import kendall_tau, mean_error

from .environment import RESULTS
from .rows import rows_file, table_head, table_row, write_rows
from .tuning import Landscape, landscapes

MEASUREMENTS = (0, 10, 30)
NAMES = ("error", "tau", "covered")


def left_out(landscape: Landscape, device: str, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Predict one device by the others; return a row for each number of measurements."""
    able = np.all([np.isfinite(times) for times in landscape.times.values()], axis=0)
    logs = {name: np.log(times[able]) for name, times in landscape.times.items()}
    places = scaled_parameters(landscape.parameters[able])
    families = np.zeros(len(places), np.int64)
    others = [name for name in logs if name != device]
    predicted = np.mean([logs[name] for name in others], axis=0)
    groups = []
    random = np.random.default_rng(0)
    for name in others:
        rest = [logs[other] for other in others if other != name]
        # With one other device nothing says how far another is from it: a factor of two, say.
        errors = logs[name] - np.mean(rest, axis=0) if rest else np.full(len(places), np.log(2.0))
        drawn = random.permutation(len(places))[:200]
        groups.append((families[drawn], places[drawn], errors[drawn]))
    spread = fit_spread(groups)
    factor = conformal_factor(np.abs(np.concatenate([g[2] for g in groups])), COVERAGE)
    rows = []
    for count in MEASUREMENTS:
        scores = []
        for seed in seeds:
            order = np.random.default_rng(seed).permutation(len(places))
            known, asked = order[:count], order[count:]
            adaptation = Adaptation(spread)
            adaptation.learn(families[known], places[known], (logs[device] - predicted)[known])
            error, narrower = adaptation.correct(families[asked], places[asked])
            predicted_logs, true = predicted[asked] + error, logs[device][asked]
            within = np.abs(true - predicted_logs) <= np.log(factor) * narrower
            scores.append(
                [
                    mean_error(np.exp(true), np.exp(predicted_logs)),
                    kendall_tau(np.exp(true), np.exp(predicted_logs)),
                    within.mean(),
                ]
            )
        means = dict(zip(NAMES, np.mean(scores, axis=0).tolist(), strict=True))
        rows.append({"kernel": landscape.kernel, "device": device, "measured": count} | means)
    return rows


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Lay rows out in Markdown."""
    head = ["kernel", "left out", "measured", "error", "tau", "covered"]
    lines = table_head(head)
    for row in rows:
        cells = [row["kernel"], row["device"], str(row["measured"])]
        cells += [f"{row[name]:.3f}" for name in NAMES]
        lines.append(table_row(cells))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.adaptation", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=5, help="means over so many draws")
    parser.add_argument("--out", type=rows_file, default=RESULTS / "adaptation.json")
    arguments = parser.parse_args()
    rows = [
        row
        for landscape in landscapes(arguments.folder)
        for device in landscape.vendors
        for row in left_out(landscape, device, range(arguments.seeds))
    ]
    head = "# Predictions adapted to a device left out\n\n`python -m benchmarks.adaptation FOLDER`"
    write_rows(arguments.out, rows, head, table(rows))
    print(table(rows))


if __name__ == "__main__":
    main()
