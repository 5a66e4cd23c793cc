"""`tensolog costs train` and `show`, `explain --costs`: a network trained, and what it predicts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..interrupts import on_interrupt
from ..printing import echo
from . import options as shared
from .options import SHIPPED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from onnx import ModelProto

    from ..catalog import Catalog
    from ..optimizer.explain.model_costs import PredictedCost


@click.command(short_help="Train a graph network on measured times.")
@click.argument("models", metavar="[IN.onnx…]", nargs=-1, type=shared.FILE)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="ONNX model to write.",
)
@click.option(
    "--kind",
    type=click.Choice(["trees", "network"]),
    default="trees",
    show_default=True,
    help="Boosted trees over the bound of a kernel, or a graph network, which also learns from "
    "graphs of others.",
)
@click.option(
    "--steps", type=click.IntRange(min=1), default=300, show_default=True, help="Training steps."
)
@click.option(
    "--hops",
    type=click.IntRange(min=0),
    metavar="N",
    help="Keep what is N edges from a configurable node at most.  [default: the whole graph]",
)
@click.option(
    "--segment",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    metavar="NODES",
    help="Train larger graphs a segment of so many nodes at a time.",
)
@click.option(
    "--fresh",
    type=click.IntRange(min=1),
    metavar="K",
    help="Segments of a graph that have gradients in a step: fewer take less time and rank worse."
    "  [default: all]",
)
@click.option(
    "--leave-out",
    "left_out",
    multiple=True,
    metavar="NAME",
    help="Train on no graph of this architecture (a model's or graph's name); repeatable.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of all that is random.")
@shared.threads_option
@shared.catalog_option
@shared.json_option
@shared.quiet_option
def train(
    models: Sequence[Path],
    output: Path,
    kind: str,
    steps: int,
    hops: int | None,
    segment: int,
    fresh: int | None,
    left_out: tuple[str, ...],
    seed: int,
    threads: int | None,
    catalog_path: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Train a model of costs on measured times, and write it as an ONNX model.

    With models: on their kernels, as tensolog costs collect measured them. Without: on the graphs
    with timed configurations that the catalog holds (tensolog costs import). Each time a part of
    the architectures is left out; how far predictions are wrong there makes their interval. Trees
    need scikit-learn and networks torch (pip install 'tensolog[learn]'); what is written needs
    neither. optimize --costs predicted uses the trees that ship for a class of processors.

    \b
    Examples:
      tensolog costs train a.onnx b.onnx c.onnx -o costs.onnx
      tensolog costs train --kind network --hops 1 -o layouts.onnx
      tensolog costs train --leave-out bert --leave-out unet -o costs.onnx
    """
    from ..catalog.files import replacing
    from ..optimizer.explain.model_costs import kernels_of_model
    from ..profiles.learning.kernel_costs import load_predictor
    from ..profiles.learning.samples.cost_graphs import load_cost_graphs
    from ..profiles.learning.samples.examples import architecture_of
    from ..profiles.learning.samples.kernel_samples import measured_samples
    from ..profiles.learning.training.ensemble import train_on_graphs, train_on_kernels
    from ..profiles.learning.training.training_options import Training
    from ..profiles.machine import cores, load_machine
    from ..progress import Progress

    if not output.parent.is_dir():
        raise click.BadParameter(f"there is no folder {output.parent}", param_hint="-o")
    options = Training(steps=steps, segment_nodes=segment, fresh=fresh)
    with on_interrupt("nothing was written"), Progress(quiet=quiet) as progress:

        def tell(done: int, total: int) -> None:
            progress("training", done, total, str(output))

        with shared.open_to_read(catalog_path) as catalog:
            if kind == "trees":
                model = _trained_trees(catalog, models, left_out, tell)
            elif models:
                used = cores() if threads is None else threads
                samples = [
                    sample
                    for path in dict.fromkeys(models)
                    if path.stem not in left_out
                    for sample in measured_samples(catalog, path.stem, kernels_of_model(path), used)
                ]
                model = train_on_kernels(
                    samples, load_machine(catalog), used, training=options, seed=seed, progress=tell
                )
            else:
                graphs = (
                    graph
                    for graph in load_cost_graphs(catalog)
                    if architecture_of(graph.path) not in left_out
                )
                model = train_on_graphs(
                    graphs, hops=hops, training=options, seed=seed, progress=tell
                )
        content = model.SerializeToString()
        with replacing(output) as file:
            file.write(content)
    metadata = load_predictor(content).metadata
    interval = metadata["interval"]
    row = {
        "file": str(output),
        "bytes": len(content),
        "graphs": len(metadata["known"]),
        "interval_factor": interval["factor"],
        "left_out": interval["left_out"],
    }
    if as_json:
        shared.print_json(row)
    else:
        echo(
            f"wrote {output}: {len(content):,} bytes, trained on {row['graphs']:,} graphs; of "
            f"{interval['left_out']} left out, {interval['coverage']:.0%} of the times lie within "
            f"{interval['factor']:.2f} times of what is predicted"
        )


def _trained_trees(
    catalog: Catalog,
    models: Sequence[Path],
    left_out: tuple[str, ...],
    progress: Callable[[int, int], None],
) -> ModelProto:
    """Train trees on the kernels of models, or of all graphs that the catalog holds."""
    from ..profiles.learning.samples.cost_graphs import load_cost_graphs
    from ..profiles.learning.samples.kernel_rows import kernel_rows
    from ..profiles.learning.training.kernel_trees import train_trees

    described = (kernel_rows(graph) for graph in load_cost_graphs(catalog))
    stems = {path.stem for path in models}
    kernels = [
        rows
        for rows in described
        if rows is not None
        and rows.architecture not in left_out
        and (not models or rows.architecture in stems)
    ]
    return train_trees(kernels, progress=progress)


@click.command(no_args_is_help=True, short_help="Plot predicted against measured times.")
@click.argument("models", metavar="IN.onnx…", nargs=-1, required=True, type=shared.FILE)
@click.option(
    "--costs",
    metavar="FILE",
    required=True,
    type=shared.COSTS,
    help="A model of tensolog costs train, or 'shipped'.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE.svg",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Plot to write.",
)
@shared.threads_option
@shared.catalog_option
def show(
    models: Sequence[Path],
    costs: str,
    output: Path,
    threads: int | None,
    catalog_path: str | None,
) -> None:
    """Plot what a model of costs predicts of kernels against what was measured, as SVG.

    A point is a kernel that was measured on this machine; where it is red, its time lies outside of
    the interval, the band about the diagonal. Nothing is measured.

    \b
    Example:
      tensolog costs show bert.onnx vit.onnx --costs costs.onnx -o costs.svg
    """
    from ..catalog.files import replacing
    from ..profiles.learning.errors import LearningError
    from ..scatter import scatter

    if not output.parent.is_dir():
        raise click.BadParameter(f"there is no folder {output.parent}", param_hint="-o")
    rows: dict[str, PredictedCost] = {}
    factor = 1.0
    for model in dict.fromkeys(models):
        predicted, interval = _predictions(model, costs, threads, {}, catalog_path)
        factor = interval["factor"]
        rows |= {row.kernel: row for row in predicted}
    points = [
        (row.kernel, row.measured_ns, row.predicted_ns, bool(row.is_within))
        for row in rows.values()
        if row.measured_ns is not None
    ]
    if not points:
        raise LearningError(
            "no kernel of these models was measured on this machine with as many threads: "
            "tensolog costs collect measures them"
        )
    inside = sum(within for *_, within in points)
    title = f"{inside} of {len(points)} kernels within {factor:.2f} times of what is predicted"
    with replacing(output) as file:
        file.write(scatter(points, factor, title).encode())
    echo(f"wrote {output}: {title}")


def print_predictions(
    model: Path,
    costs: str,
    threads: int | None,
    input_shapes: shared.Shapes,
    catalog_path: str | None,
    as_json: bool,
) -> None:
    """Print what a model of costs says of another model's kernels, for `explain --costs`."""
    rows, interval = _predictions(model, costs, threads, input_shapes, catalog_path)
    if as_json:
        shared.print_json({"interval": interval, "kernels": rows})
        return
    from ..summary import columns
    from ..units import format_time

    cells = [("kernel", "calls", "predicted", "interval", "measured", "", "nearest trained on")]
    for row in rows:
        outside = row.is_within is False
        cells.append(
            (
                row.kernel,
                str(row.calls),
                format_time(row.predicted_ns),
                f"{format_time(row.least_ns)} to {format_time(row.most_ns)}",
                format_time(row.measured_ns),
                "outside" if outside else "",
                "; ".join(f"{near.label} {format_time(near.time_ns)}" for near in row.nearest)
                or "none of its operators",
            )
        )
    click.echo(columns(cells, right=range(1, 5), indent=""))
    total = format_time(sum(row.calls * row.predicted_ns for row in rows))
    echo(
        f"all calls together: {total} predicted. Of {interval['left_out']} that were left out, "
        f"{interval['coverage']:.0%} of the times lay within the interval. optimize asks this "
        "with --costs predicted, of what ships; a race decides"
    )


def _predictions(
    model: Path,
    costs: str,
    threads: int | None,
    input_shapes: shared.Shapes,
    catalog_path: str | None,
) -> tuple[list[PredictedCost], dict[str, Any]]:
    from ..optimizer.explain.model_costs import predicted_costs
    from ..profiles.learning.kernel_costs import load_predictor, shipped_model

    model_of_costs: bytes | Path | None = Path(costs) if costs != SHIPPED else shipped_model()
    if model_of_costs is None:
        raise click.ClickException(
            "no model of costs ships for this class of processors: make one with tensolog costs "
            "collect and tensolog costs train, and name its file"
        )
    predictor = load_predictor(model_of_costs)
    with shared.open_to_read(catalog_path) as catalog:
        rows = predicted_costs(
            model, predictor, threads=threads, input_shapes=input_shapes or None, catalog=catalog
        )
    return rows, predictor.metadata["interval"]
