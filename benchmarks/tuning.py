"""How well configurations are chosen on a device that nothing was measured on before.

    python -m benchmarks.tuning FOLDER               # files of the benchmark hub, *.json.gz
    python -m benchmarks.tuning FOLDER --unlike      # sources of the device's vendor left out too
    python -m benchmarks.tuning FOLDER --cold        # no sources

Each device of a kernel is left out in turn; the others' times are known in full. Regret is the time
of the best configuration so far over that of the best of all, less one: after some measurements,
and of the 20 that are predicted to be best after all of them. Nothing is measured here: the files
hold times of all configurations (github.com/AutoTuningAssociation/benchmark_hub).
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tensolog.profiles.learning.chooser import choose
from tensolog.profiles.learning.scores.metrics import kendall_tau, ordered_pair_accuracy

from .environment import RESULTS
from .rows import rows_file, table_head, table_row, write_rows

MEASUREMENTS = (1, 5, 10, 20, 30, 50)
PREDICTED = 20


@dataclass(frozen=True)
class Landscape:
    """A kernel's configurations, and their times on each device; infinity where one can't run."""

    kernel: str
    parameters: np.ndarray
    times: Mapping[str, np.ndarray]
    vendors: Mapping[str, str]


def landscapes(folder: Path, kernel: str = "*") -> list[Landscape]:
    """Read the files KERNEL_DEVICE.json.gz of a folder, or those of one kernel."""
    files: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob(f"{kernel}_*.json.gz")):
        name, _, device = path.name.removesuffix(".json.gz").rpartition("_")
        with gzip.open(path, "rt", encoding="utf-8") as file:
            files.setdefault(name, {})[device] = json.load(file)
    return [_landscape(name, devices) for name, devices in files.items()]


def _landscape(kernel: str, devices: Mapping[str, Any]) -> Landscape:
    shared = set.intersection(*(set(device["cache"]) for device in devices.values()))
    first = next(iter(devices.values()))
    names, order = first["tune_params_keys"], sorted(shared)
    rows = [[float(first["cache"][key][name]) for name in names] for key in order]
    times = {
        name: np.array([_time(device["cache"][key]["time"]) for key in order])
        for name, device in devices.items()
    }
    vendors = {name: device["device_name"].split()[0] for name, device in devices.items()}
    return Landscape(kernel, np.array(rows), times, vendors)


def _time(entry: object) -> float:
    """Return a time in ms; the word that stands for one is the reason why there is none."""
    return float(entry) if isinstance(entry, (int, float)) else float("inf")


def left_out(
    landscape: Landscape, device: str, sources: Sequence[str], seeds: Sequence[int]
) -> dict[str, Any]:
    """Choose on one device; return the regret, the worst over seeds."""
    times = landscape.times[device]
    best, rows, ranks = times.min(), [], []
    for seed in seeds:
        choice = choose(
            landscape.parameters,
            [landscape.times[source] for source in sources],
            lambda number: float(times[number]),
            measurements=MEASUREMENTS[-1],
            seed=seed,
        )
        best_times = [choice.times[:count].min() for count in MEASUREMENTS]
        rows.append([*best_times, times[choice.best(PREDICTED)].min()])
        able = np.isfinite(times)
        pair = times[able], choice.predicted[able]
        ranks.append((kendall_tau(*pair), ordered_pair_accuracy(*pair)))
    regret = (np.max(rows, axis=0) / best - 1.0).tolist()
    return {
        "kernel": landscape.kernel,
        "device": device,
        "sources": list(sources),
        "configurations": len(times),
        **{f"after {count}": value for count, value in zip(MEASUREMENTS, regret, strict=False)},
        f"predicted {PREDICTED}": regret[-1],
        "tau": min(tau for tau, _ in ranks),
        "opa": min(accuracy for _, accuracy in ranks),
    }


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Lay rows out in Markdown; regrets in per cent."""
    regrets = [name for name in rows[0] if name.startswith(("after", "predicted"))]
    head = ["kernel", "left out", "known", *regrets, "tau", "OPA"]
    lines = table_head(head)
    for row in rows:
        cells = [row["kernel"], row["device"], ", ".join(row["sources"]) or "none"]
        cells += [f"{row[name]:.1%}" for name in regrets]
        cells += [f"{row['tau']:.2f}", f"{row['opa']:.2f}"]
        lines.append(table_row(cells))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tuning", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folder", type=Path)
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--unlike", action="store_true", help="no source of the same vendor")
    group.add_argument("--cold", action="store_true", help="no source at all")
    parser.add_argument("--seeds", type=int, default=3, help="the worst of so many is told")
    parser.add_argument("--out", type=rows_file, default=RESULTS / "tuning.json")
    arguments = parser.parse_args()
    rows = []
    for landscape in landscapes(arguments.folder):
        for device, vendor in landscape.vendors.items():
            sources = [
                other
                for other, its_vendor in landscape.vendors.items()
                if other != device
                and not arguments.cold
                and not (arguments.unlike and its_vendor == vendor)
            ]
            rows.append(left_out(landscape, device, sources, range(arguments.seeds)))
            print(table(rows[-1:]).splitlines()[-1], flush=True)
    options = "".join(f" --{name}" for name in ("unlike", "cold") if getattr(arguments, name))
    head = (
        "# Configurations chosen on a device left out\n\n"
        f"`python -m benchmarks.tuning FOLDER{options}`, the worst of {arguments.seeds} seeds; "
        "regret in per cent of the best time"
    )
    write_rows(arguments.out, rows, head, table(rows))


if __name__ == "__main__":
    main()
