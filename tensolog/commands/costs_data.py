"""`tensolog costs import` and `costs export`: files of TpuGraphs' format in and out."""

from __future__ import annotations

from pathlib import Path

import click

from ..interrupts import on_interrupt
from ..printing import echo
from . import options as shared


@click.command(name="import", no_args_is_help=True, short_help="Read files of TpuGraphs.")
@click.argument("source", metavar="DIR|ZIP", type=click.Path(exists=True, path_type=Path))
@shared.catalog_option
@shared.json_option
@shared.quiet_option
def import_data(source: Path, catalog_path: str | None, as_json: bool, quiet: bool) -> None:
    """Read the npz files of TpuGraphs in a folder, in a zip file, or one of them, into the catalog.

    All of them are stored, or none: a file that is damaged is refused. A file read before is left
    as it is, or replaces what was read from its path. Nothing in a file is executed.

    \b
    Examples:
      tensolog costs import npz/
      tensolog costs import benchmarks/data/kernels.zip
      tensolog costs import alexnet.npz --json
      tensolog sql "SELECT path, count(*) FROM cost_graph JOIN cost_graph_configuration
                    USING (graph_hash) GROUP BY ALL"
    """
    from ..catalog import Catalog
    from ..profiles.learning.samples.cost_graphs import import_archives
    from ..progress import Progress

    with Progress(quiet=quiet) as progress, Catalog(catalog_path) as catalog:
        outcomes = import_archives(
            catalog, source, lambda done, path: progress("reading", done, 0, path)
        )
    if as_json:
        shared.print_json(outcomes)
    else:
        total = sum(outcomes.values())
        parts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items() if count)
        echo(f"read {total} file{'' if total == 1 else 's'} of {source}: {parts}")


@click.command(name="export", no_args_is_help=True, short_help="Write files of TpuGraphs.")
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@shared.catalog_option
@shared.json_option
@shared.quiet_option
def export_data(folder: Path, catalog_path: str | None, as_json: bool, quiet: bool) -> None:
    """Write the graphs of the catalog as npz files of TpuGraphs below a folder.

    What was imported comes out at the path it had, with equal arrays. Each file is written whole
    or not at all, in the place of one that is there.

    \b
    Example:
      tensolog costs export data/
    """
    from ..profiles.learning.samples.cost_graphs import export_archives, load_cost_graphs
    from ..progress import Progress

    with (
        on_interrupt("what was written by then is whole"),
        Progress(quiet=quiet) as progress,
        shared.open_to_read(catalog_path) as catalog,
    ):
        files = export_archives(
            load_cost_graphs(catalog),
            folder,
            lambda done, path: progress("writing", done, 0, path),
        )
    if as_json:
        shared.print_json({"files": [str(file) for file in files]})
    elif files:
        echo(f"wrote {len(files)} file{'' if len(files) == 1 else 's'} to {folder}")
    else:
        echo("the catalog has no graphs with timed configurations: nothing was written")
