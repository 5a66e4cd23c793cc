"""`tensolog costs collect` and `costs score`: kernels of models measured, and predicted."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..interrupts import on_interrupt
from . import options as shared

if TYPE_CHECKING:
    from collections.abc import Sequence

_models = click.argument("models", metavar="IN.onnx…", nargs=-1, required=True, type=shared.FILE)


@click.command(no_args_is_help=True, short_help="Measure the kernels of several models.")
@_models
@shared.threads_option
@shared.budget_option
@shared.catalog_option
@shared.json_option
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def collect(
    models: Sequence[Path],
    threads: int | None,
    budget: float,
    catalog_path: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Measure the kernels of several models, as far as time allows.

    What was measured once on this machine, under this ONNX Runtime, is not measured again: run it
    anew to go on. The tables device, kernel and measurement say on which machine, under which
    release, with how many threads, how long, and how much the time varied.

    \b
    Example:
      tensolog costs collect resnet.onnx bert.onnx --threads 1 --budget 600
    """
    from ..progress import Progress

    rows: list[dict[str, Any]] = []
    with on_interrupt("what was measured is kept"), Progress(quiet=quiet) as progress:
        from ..catalog.store.staging import stage
        from ..optimizer import profile_model

        end = time.monotonic() + budget
        with stage(catalog_path) as catalog:
            for model in models:
                progress("reading", 0, 1, str(model))
                kernels = profile_model(
                    model,
                    threads=threads,
                    budget=max(end - time.monotonic(), 0.0),
                    catalog=catalog,
                    progress=progress,
                )
                failed = sum(kernel["failure"] is not None for kernel in kernels)
                bounds = sum(kernel["source"] != "measured" for kernel in kernels) - failed
                known = len(kernels) - bounds - failed
                rows.append(
                    {"model": str(model), "measured": known, "left": bounds, "failed": failed}
                )
    _echo(rows, as_json)


@click.command(no_args_is_help=True, short_help="Say how well costs are predicted.")
@_models
@shared.threads_option
@shared.catalog_option
@shared.json_option
def score(
    models: Sequence[Path], threads: int | None, catalog_path: str | None, as_json: bool
) -> None:
    """Predict the measured kernels of each model from those of the others.

    Each model is an architecture that is left out: none of its kernels is trained on. Beside the
    roofline bound there are boosted trees and a perceptron over features of operators'
    specifications. error is the mean relative one of a kernel, total the sum of the model's kernels
    over what they take, tau and opa say how kernels are ranked (Kendall's tau, ordered pair
    accuracy). 'measured again' is what a second measurement would score.

    Nothing is measured: tensolog costs collect does that. It needs scikit-learn
    (pip install 'tensolog[learn]').

    \b
    Examples:
      tensolog costs score resnet.onnx bert.onnx vit.onnx --threads 1
      tensolog costs score *.onnx --threads 1 --json
    """
    from dataclasses import asdict

    from ..optimizer.explain.survey import kernels_of_model
    from ..profiles.learning.baselines import measured_samples, score_baselines
    from ..profiles.machine import cores, load_device

    used = cores() if threads is None else threads
    with shared.open_to_read(catalog_path) as catalog:
        machine = load_device(catalog)
        samples = [
            sample
            for model in dict.fromkeys(models)
            for sample in measured_samples(catalog, str(model), kernels_of_model(model), used)
        ]
    _echo([asdict(row) for row in score_baselines(samples, machine, used)], as_json)


def _echo(rows: Sequence[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        from ..json_text import json_text

        click.echo(json_text(rows))
        return
    from ..summary import columns

    cells = [tuple(name.replace("_", " ") for name in rows[0])]
    for row in rows:
        cells.append(
            tuple(f"{one:.3f}" if isinstance(one, float) else str(one) for one in row.values())
        )
    click.echo(columns(cells, right=range(1, len(cells[0])), indent=""))
