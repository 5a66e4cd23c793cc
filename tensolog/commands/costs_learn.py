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

    from ..profiles.learning.samples.archive import CostGraph

_models = click.argument("models", metavar="IN.onnx…", nargs=-1, required=True, type=shared.FILE)


@click.command(no_args_is_help=True, short_help="Measure the kernels of several models.")
@_models
@shared.threads_option
@click.option(
    "--level",
    type=click.Choice(["disabled", "basic", "extended", "all"]),
    default="all",
    show_default=True,
    help="Optimization level of ONNX Runtime; below all, nothing is computed in blocked layouts.",
)
@click.option(
    "--layouts",
    is_flag=True,
    help="Time whole models too, under up to 64 assignments of layouts each.",
)
@shared.budget_option
@shared.catalog_option
@shared.json_option
@shared.quiet_option
def collect(
    models: Sequence[Path],
    threads: int | None,
    level: str,
    layouts: bool,
    budget: float,
    catalog_path: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Measure the kernels of several models, as far as time allows.

    What was measured once on this machine, under this ONNX Runtime, is not measured again: run it
    anew to go on. The tables device, kernel and measurement say on which machine, under which
    release, with how many threads, how long, and how much the time varied.

    Each kernel is a graph with timed configurations then, which tensolog costs export writes: those
    are the numbers of threads and the levels that it was measured with, in all runs together. With
    --layouts, which has half of the time then, each model is one besides: its configurations say
    which operators compute in blocks of channels, and which as they are.

    \b
    Examples:
      tensolog costs collect resnet.onnx bert.onnx --threads 1 --budget 600
      tensolog costs collect resnet.onnx bert.onnx --threads 1 --level basic
      tensolog costs collect resnet.onnx --threads 1 --layouts --budget 120
    """
    from ..progress import Progress

    rows: list[dict[str, Any]] = []
    with on_interrupt("what was measured is kept"), Progress(quiet=quiet) as progress:
        from ..catalog import Catalog, TensologError
        from ..catalog.store.staging import stage
        from ..optimizer import profile_model
        from ..optimizer.explain.model_costs import kernels_of_model, layouts_of_model
        from ..profiles.learning.samples.cost_graphs import store_cost_graph
        from ..profiles.learning.samples.kernel_samples import measured_graphs

        end = time.monotonic() + (budget / 2 if layouts else budget)
        graphs: list[CostGraph] = []
        with stage(catalog_path) as catalog:
            for model in models:
                progress("reading", 0, 1, str(model))
                try:
                    kernels = profile_model(
                        model,
                        threads=threads,
                        budget=max(end - time.monotonic(), 0.0),
                        level=level,
                        catalog=catalog,
                        progress=progress,
                    )
                    graphs += measured_graphs(catalog, model.stem, kernels_of_model(model))
                    laid = None
                    if layouts:
                        laid = layouts_of_model(
                            model,
                            model.stem,
                            threads=threads,
                            budget=budget / 2 / len(models),
                            catalog=catalog,
                            progress=progress,
                        )
                        graphs += [] if laid is None else [laid]
                except TensologError as error:
                    if str(model) in str(error):
                        raise
                    raise click.ClickException(f"{model}: {error}") from error
                failed = sum(kernel["failure"] is not None for kernel in kernels)
                bounds = sum(kernel["source"] != "measured" for kernel in kernels) - failed
                known = len(kernels) - bounds - failed
                row = {"model": str(model), "measured": known, "left": bounds, "failed": failed}
                if layouts:
                    row["layouts"] = 0 if laid is None else len(laid.arrays["config_runtime"])
                rows.append(row)
        # Not in the staged file: what joins a catalog from there replaces nothing.
        with Catalog(catalog_path) as shared_catalog, shared_catalog.transaction():
            for graph in graphs:
                store_cost_graph(shared_catalog, graph)
    print_rows(rows, as_json)


@click.command(short_help="Say how well costs are predicted.")
@click.argument("models", metavar="[IN.onnx…]", nargs=-1, type=shared.FILE)
@shared.threads_option
@shared.catalog_option
@shared.json_option
@shared.quiet_option
def score(
    models: Sequence[Path],
    threads: int | None,
    catalog_path: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Predict the measured kernels of each model from those of the others.

    Without models: rank the configurations of the graphs of each architecture that the catalog
    holds (tensolog costs import), by what is learned from the other architectures. top 1, 5 and 10
    are the slowdown of the best of so many that are predicted to be best.

    Each model is an architecture that is left out: none of its kernels is trained on. Beside the
    roofline bound there are boosted trees and a perceptron over features of operators'
    specifications, and with torch a graph network over operands, operator and results. error is the
    mean relative one of a kernel, total the sum of the model's kernels
    over what they take, tau and opa say how kernels are ranked (Kendall's tau, ordered pair
    accuracy). covered is the share of kernels whose time lies within the network's 90 % interval.
    'measured again' is what a second measurement would score.

    Nothing is measured: tensolog costs collect does that. It needs scikit-learn
    (pip install 'tensolog[learn]').

    \b
    Examples:
      tensolog costs score resnet.onnx bert.onnx vit.onnx --threads 1
      tensolog costs score *.onnx --threads 1 --json
      tensolog costs score
    """
    from dataclasses import asdict

    from ..optimizer.explain.model_costs import kernels_of_model
    from ..profiles.learning.samples.kernel_samples import measured_samples
    from ..profiles.learning.scores.baselines import score_baselines
    from ..profiles.machine import cores, load_machine
    from ..progress import Progress

    if not models:
        from ..profiles.learning.samples.cost_graphs import load_cost_graphs
        from ..profiles.learning.scores.graph_scores import score_graphs

        with Progress(quiet=quiet) as progress, shared.open_to_read(catalog_path) as catalog:
            ranked = score_graphs(
                load_cost_graphs(catalog),
                progress=lambda done, total: progress("learning", done, total, "architectures"),
            )
        print_rows([asdict(row) for row in ranked], as_json)
        return
    used = cores() if threads is None else threads
    with shared.open_to_read(catalog_path) as catalog:
        machine = load_machine(catalog)
        samples = [
            sample
            for model in dict.fromkeys(models)
            for sample in measured_samples(catalog, str(model), kernels_of_model(model), used)
        ]
    with Progress(quiet=quiet) as progress:
        rows = score_baselines(
            samples,
            machine,
            used,
            progress=lambda done, total: progress(
                "learning", done, total, "architectures left out"
            ),
        )
    print_rows([asdict(row) for row in rows], as_json)


def print_rows(rows: Sequence[dict[str, Any]], as_json: bool) -> None:
    """Print rows of equal keys as a table, or as JSON."""
    if as_json:
        shared.print_json(rows)
        return
    from ..summary import columns

    cells = [tuple(name.replace("_", " ") for name in rows[0])]
    for row in rows:
        cells.append(
            tuple(
                f"{value:.3f}" if isinstance(value, float) else "" if value is None else str(value)
                for value in row.values()
            )
        )
    click.echo(columns(cells, right=range(1, len(cells[0])), indent=""))
