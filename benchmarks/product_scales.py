"""How much each feature of a product's configuration counts, learned from measured ratios.

    python -m benchmarks.product_scales tiles.json         # what `benchmarks.tiles collect` wrote

Scales are those under which the ratios are likeliest (gradients by PyTorch), with a prior that most
features count little. They go into `product_scales.json` beside `ranking.py`, whose process
uses them. Shapes that predictions are judged by must not be among those learned from.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from tensolog.optimizer.native.configurations import ranking
from tensolog.optimizer.native.configurations.processor import Processor
from tensolog.optimizer.native.configurations.product_configuration import (
    DEFAULTS,
    ProductConfiguration,
    ProductSizes,
)
from tensolog.optimizer.native.configurations.product_features import COSTS, features
from tensolog.optimizer.native.configurations.ranking import CUT, Scales

from .rows import write_whole
from .tiles import ratio_of

FILE = Path(ranking.__file__).with_name("product_scales.json")
# Logarithms of scales at first, of features in standard deviations, and what the prior expects.
FIRST_SCALE, USUAL_SCALE, FIRST_COST = math.log(0.3), -1.5, math.log(0.1)
RATE = 0.25


def learn(collected: Mapping[str, Any], steps: int) -> Scales:
    """Return the scales of the rows of a file, and say on stderr how likely they are."""
    import torch

    here = Processor(*(collected[field.name] for field in fields(Processor)))
    rows = [
        row
        for row in collected["rows"]
        if row["configuration"] != collected["rows"][0]["configuration"]
    ]
    kernels = [
        (ProductSizes(*row["sizes"]), ProductConfiguration(*row["configuration"])) for row in rows
    ]
    chosen = [features(*kernel, here) for kernel in kernels]
    default = [features(sizes, DEFAULTS[here.level], here) for sizes, _ in kernels]
    table = np.array([list(row.values()) for row in chosen])
    deviations = table.std(axis=0)
    names = [
        name for name, deviation in zip(chosen[0], deviations, strict=True) if deviation > 1e-9
    ]
    scale = deviations[deviations > 1e-9]

    def tensor(values: Any) -> torch.Tensor:
        return torch.as_tensor(np.asarray(values), dtype=torch.float64)

    first, other = (
        tensor([[row[name] for name in names] for row in described]) / tensor(scale)
        for described in (chosen, default)
    )
    costs = tensor(
        [[a[name] - b[name] for name in COSTS] for a, b in zip(chosen, default, strict=True)]
    )
    targets = tensor(np.clip(np.log([ratio_of(row) for row in rows]), -CUT, CUT))
    shapes = np.unique([row["sizes"] for row in rows], axis=0, return_inverse=True)[1].ravel()
    same = tensor(shapes[:, None] == shapes)
    parameters = {
        "features": torch.full((len(names),), FIRST_SCALE, dtype=torch.float64),
        "costs": torch.full((len(COSTS),), FIRST_COST, dtype=torch.float64),
        "deviation": tensor(math.log(0.1)),
        "noise": tensor(math.log(0.01)),
    }
    for value in parameters.values():
        value.requires_grad_(True)
    optimizer = torch.optim.Adam(parameters.values(), lr=RATE)

    def alike(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        first, second = (values * parameters["features"].exp() for values in (first, second))
        squares = (first**2).sum(1)[:, None] + (second**2).sum(1) - 2 * first @ second.T
        scaled = math.sqrt(5.0) * (squares.clamp_min(0.0) + 1e-10).sqrt()
        return (1.0 + scaled + scaled**2 / 3.0) * torch.exp(-scaled)

    for step in range(steps):
        optimizer.zero_grad()
        across = alike(first, other)
        covariance = alike(first, first) + alike(other, other) - across - across.T
        covariance = (2 * parameters["deviation"]).exp() * covariance
        covariance = covariance + costs * (2 * parameters["costs"]).exp() @ costs.T
        noise = (2 * parameters["noise"]).exp()
        eye = torch.eye(len(targets), dtype=torch.float64)
        factor = torch.linalg.cholesky(covariance + noise * (eye + 0.5 * same) + 1e-8 * eye)
        solved = torch.linalg.solve_triangular(factor, targets[:, None], upper=False)
        loss = 0.5 * (solved**2).sum() + factor.diagonal().log().sum()
        prior = 0.5 * ((parameters["features"] - USUAL_SCALE) ** 2).sum()
        (loss + prior).backward()
        optimizer.step()
        print(f"step {step + 1}: {loss.item():.1f}", file=sys.stderr, flush=True)
    scales = {name: value.detach().exp().numpy() for name, value in parameters.items()}
    return Scales(
        float(f"{scales['deviation']:.4g}"),
        float(f"{scales['noise']:.4g}"),
        {
            name: float(f"{value:.4g}")
            for name, value in zip(names, scales["features"] / scale, strict=True)
        },
        {name: float(f"{value:.4g}") for name, value in zip(COSTS, scales["costs"], strict=True)},
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.product_scales")
    parser.description, parser.formatter_class = __doc__, argparse.RawDescriptionHelpFormatter
    parser.add_argument("collected", type=Path)
    parser.add_argument("--steps", type=int, default=40)
    arguments = parser.parse_args()
    collected = json.loads(arguments.collected.read_text(encoding="utf-8"))
    write_whole(FILE, json.dumps(vars(learn(collected, arguments.steps)), indent=1) + "\n")


if __name__ == "__main__":
    main()
