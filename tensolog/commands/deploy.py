"""`tensolog deploy`: a model in, the best way to serve it on this machine out."""

from __future__ import annotations

from pathlib import Path

import click

from ..interrupts import on_interrupt, stop_if_interrupted
from ..printing import echo
from . import completion
from . import options as shared


@click.command(no_args_is_help=True)
@click.argument("model", metavar="IN.onnx", type=click.Path(exists=True, path_type=Path))
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    required=True,
    type=click.Path(path_type=Path),
    help="The folder that is written: plan.json, and the model. An older deployment is replaced.",
)
@click.option(
    "--goal",
    type=click.Choice(["throughput", "latency"]),
    default="throughput",
    show_default=True,
    help="Rows in a second, or the time of the smallest batch.",
)
@click.option(
    "--limit",
    "limits",
    metavar="LIMIT",
    multiple=True,
    help="What has to hold: 'p99 < 50 ms' (or p50, p90) for a batch while all instances are busy, "
    "'throughput > 100 /s', 'memory < 2 GB'. Repeat.",
)
@click.option(
    "--devices",
    metavar="auto|FILE.toml",
    shell_complete=completion.file,
    help="'auto' weighs instances against plans that divide the model among processes of this "
    "machine. A description with one device says which cores may be used, with several, which "
    "processes the model may be divided among, each with cores and memory of its own. One that "
    "devices measure --cluster wrote deploys on the workers of that cluster.  "
    "[default: instances on all cores]",
)
@click.option(
    "--max-batch",
    type=click.IntRange(min=1),
    default=32,
    show_default=True,
    metavar="ROWS",
    help="The largest batch that is tried, where the model's batch is free.",
)
@click.option(
    "--budget",
    type=shared.SECONDS,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Time for measuring; small models need less, and take less.",
)
@click.option(
    "--optimize",
    "optimizes",
    is_flag=True,
    help="Optimize the model for the threads chosen, and deploy the result where it wins.",
)
@shared.input_shape_option
@shared.catalog_option
@shared.json_option
@click.option("-q", "--quiet", is_flag=True, help="No progress and no summary.")
def deploy(
    model: Path,
    output: Path,
    goal: str,
    limits: tuple[str, ...],
    devices: str | None,
    max_batch: int,
    budget: float,
    optimizes: bool,
    input_shapes: shared.Shapes,
    catalog_path: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Choose how a model is served on this machine.

    IN.onnx is a model, or a result folder of optimize. Few settings are measured, all instances of
    each at a time; the best ones race in turns, and one instance with all cores takes part, so that
    nothing slower is chosen. No more cores are used than the affinity mask and the container allow.
    tensolog.open_parallel(DIR).run(feeds) and tensolog serve DIR serve what is written.

    \b
    Examples:
      tensolog deploy model.onnx -o plan
      tensolog deploy model.onnx --goal latency -o plan
      tensolog deploy model.onnx --limit 'p99 < 50 ms' --optimize -o plan
      tensolog deploy bert.onnx --input-shape input_ids=1,128 --max-batch 16 -o plan
      tensolog deploy model.onnx --devices auto -o plan
      tensolog deploy model.onnx --devices cluster.toml -o plan
      tensolog deploy model.onnx -o plan --json | jq .setting
      tensolog sql "SELECT instances, threads, batch, rows_per_s, why_not FROM deployment_setting"
    """
    from ..progress import Progress

    with (
        on_interrupt("nothing was written"),
        Progress(quiet=quiet) as progress,
    ):
        progress("reading", 0, 1, str(model))
        from ..parallel.choosing.deploy import deploy as run
        from ..parallel.devices import read_cluster

        cluster = None if devices in (None, "auto") else read_cluster(devices)
        is_several = cluster is not None and (cluster.scheduler or len(cluster.devices) > 1)
        several = cluster if is_several else None
        is_divided = several is not None or devices == "auto"
        if is_divided and optimizes:
            raise click.UsageError(
                "--optimize is for instances: optimize first, deploy the result over devices"
            )
        cores = None if cluster is None or is_divided else cluster.devices[0].cores
        from ..catalog.store.staging import stage

        with stage(catalog_path) as catalog:
            plan = run(
                model,
                output,
                goal=goal,
                limits=limits,
                cores=cores,
                most_rows=max_batch,
                input_shapes=input_shapes or None,
                budget=budget,
                optimize=optimizes,
                devices="auto" if devices == "auto" else several,
                catalog=catalog,
                progress=progress,
            )
        stop_if_interrupted()
    if as_json:
        shared.print_json({**plan.to_json(), "output": str(plan.folder)})
    elif not quiet:
        from ..deployment_text import deployment_text

        echo(deployment_text(plan))
