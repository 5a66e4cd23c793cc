"""`tensolog costs train` and `costs show`: a graph network trained, and what it predicts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..interrupts import on_interrupt
from ..printing import echo
from . import options as shared

if TYPE_CHECKING:
    from collections.abc import Sequence


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
@click.option("--seed", type=int, default=0, show_default=True, help="Of all that is random.")
@shared.threads_option
@shared.catalog_option
@shared.json_option
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def train(
    models: Sequence[Path],
    output: Path,
    steps: int,
    hops: int | None,
    segment: int,
    seed: int,
    threads: int | None,
    catalog_path: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Train a graph network on measured times, and write it as an ONNX model.

    With models: on their kernels, as tensolog costs collect measured them. Without: on the graphs
    with timed configurations that the catalog holds (tensolog costs import). Four networks are
    trained, each without a part of the architectures; how far they are wrong there makes the
    interval of a prediction. It needs torch (pip install 'tensolog[learn]'); what it writes does
    not.

    \b
    Examples:
      tensolog costs train a.onnx b.onnx c.onnx --threads 1 -o costs.onnx
      tensolog costs train --hops 1 -o layouts.onnx
    """
    from ..catalog.files import replacing
    from ..optimizer.explain.survey import kernels_of_model
    from ..profiles.learning.cost_graphs import load_cost_graphs
    from ..profiles.learning.ensemble import train_on_graphs, train_on_kernels
    from ..profiles.learning.kernel_samples import measured_samples
    from ..profiles.learning.predictor import CostPredictor
    from ..profiles.learning.training_options import Training
    from ..profiles.machine import cores, load_device
    from ..progress import Progress

    if not output.parent.is_dir():
        raise click.BadParameter(f"there is no folder {output.parent}", param_hint="-o")
    options = Training(steps=steps, segment_nodes=segment)
    with on_interrupt("nothing was written"), Progress(quiet=quiet) as progress:

        def tell(done: int, total: int) -> None:
            progress("training", done, total, str(output))

        with shared.open_to_read(catalog_path) as catalog:
            if models:
                used = cores() if threads is None else threads
                samples = [
                    sample
                    for path in dict.fromkeys(models)
                    for sample in measured_samples(catalog, path.stem, kernels_of_model(path), used)
                ]
                model = train_on_kernels(
                    samples, load_device(catalog), used, training=options, seed=seed, progress=tell
                )
            else:
                graphs = load_cost_graphs(catalog)
                model = train_on_graphs(
                    graphs, hops=hops, training=options, seed=seed, progress=tell
                )
        content = model.SerializeToString()
        with replacing(output) as file:
            file.write(content)
    metadata = CostPredictor(content).metadata
    interval = metadata["interval"]
    row = {
        "file": str(output),
        "bytes": len(content),
        "graphs": len(metadata["known"]),
        "interval_factor": interval["factor"],
        "left_out": interval["left_out"],
    }
    if as_json:
        from ..json_text import json_text

        click.echo(json_text(row))
    else:
        echo(
            f"wrote {output}: {len(content):,} bytes, trained on {row['graphs']:,} graphs; of "
            f"{interval['left_out']} left out, {interval['coverage']:.0%} of the times lie within "
            f"{interval['factor']:.2f} times of what is predicted"
        )
