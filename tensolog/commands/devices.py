"""`tensolog devices`: the machines that plans are made for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..interrupts import on_interrupt
from ..printing import echo
from . import options as shared

if TYPE_CHECKING:
    from ..parallel.devices import Cluster, Link


@click.group()
def devices() -> None:
    """Measure what plans are made for.

    \b
    Example:
      tensolog devices measure -o here.toml
    """


@devices.command(short_help="Measure this machine, or a cluster's workers, and links.")
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many devices: processes on cores of their own.  [default: one for each core]",
)
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    metavar="N",
    help="Cores of each.  [default: all of them, divided by the processes; or 1]",
)
@click.option(
    "--cluster",
    "address",
    metavar="ADDRESS",
    help="Measure the workers of the Dask cluster whose scheduler has this address, as "
    "tcp://10.0.0.1:8786, instead of this machine. They need tensolog, of this version.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE.toml",
    type=click.Path(path_type=Path),
    help="Write the description there as well, to be edited and given to --devices.",
)
@shared.catalog_option
@shared.json_option
@click.option("-q", "--quiet", is_flag=True, help="No progress and no table.")
def measure(
    processes: int | None,
    threads: int | None,
    address: str | None,
    output: Path | None,
    catalog_path: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Measure this machine, or the workers of a cluster, as devices and links.

    Devices are processes on cores of their own, measured while all of them are busy: float32
    operations, memory bandwidth, what starting an operator takes, and what running a stage takes
    beside its operators; and by how much a byte of weights takes longer than with one of them busy.
    A link is what a tensor takes from one process to another by shared memory, or from one worker
    of a cluster to another by the network between them. They become rows of cluster, device and
    link.

    \b
    Examples:
      tensolog devices measure
      tensolog devices measure --processes 2 -o here.toml
      tensolog devices measure --cluster tcp://10.0.0.1:8786 -o cluster.toml
      tensolog sql "SELECT source, target, latency_s, bytes_per_s FROM link"
    """
    from ..progress import Progress

    if address is not None and (processes or threads):
        raise click.UsageError(
            "--processes and --threads are of this machine: workers of a cluster have the cores "
            "that they were started with"
        )
    if output is not None:
        output = shared.output_file(output, content="the description")
    with on_interrupt("nothing was stored"), Progress(quiet=quiet) as progress:
        progress("measuring", 0, 0, "")
        from ..catalog import Catalog
        from ..catalog.files import replacing
        from ..parallel.device_rows import store_cluster
        from ..parallel.devices import to_toml
        from ..parallel.measure import measure_machine

        with Catalog(catalog_path) as catalog:
            shared.refuse_catalog(catalog, output)
            if address is None:
                cluster = measure_machine(processes, threads, tell=progress)
            else:
                from ..parallel.cluster.measured_cluster import measure_cluster

                cluster = measure_cluster(address, tell=progress)
            key = store_cluster(catalog, cluster)
        if output is not None:
            with replacing(output) as file:
                file.write(to_toml(cluster).encode())
    if as_json:
        from dataclasses import asdict

        shared.print_json({"cluster_hash": key, **asdict(cluster)})
    elif not quiet:
        from ..summary import columns
        from ..units import format_size, format_time

        rows = [("device", "cores", "memory", "float32", "memory bandwidth", "an operator", "node")]
        for device in cluster.devices:
            rows.append(
                (
                    device.name,
                    str(device.cores),
                    format_size(device.memory_bytes),
                    f"{device.flops_per_s / 1e9:.3g} GFLOP/s",
                    f"{device.memory_bytes_per_s / 1e9:.3g} GB/s",
                    format_time(device.launch_s * 1e9),
                    device.node,
                )
            )
        echo(columns(rows, right=range(1, 6), indent=""))
        if cluster.links:
            delays = [format_time(link.latency_s * 1e9) for link in _ends(cluster, "latency_s")]
            rates = [f"{link.bytes_per_s / 1e9:.3g}" for link in _ends(cluster, "bytes_per_s")]
            shown = " to ".join(dict.fromkeys(delays)), " to ".join(dict.fromkeys(rates))
            echo(f"links between them: {shown[0]}, {shown[1]} GB/s")


def _ends(cluster: Cluster, quantity: str) -> list[Link]:
    """Return the links that have the least and the most of something."""
    links = sorted(cluster.links, key=lambda link: float(getattr(link, quantity)))
    return [links[0], links[-1]]
