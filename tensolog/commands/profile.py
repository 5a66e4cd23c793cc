"""`tensolog profile`: measure the kernels of a model on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..interrupts import on_interrupt
from . import options as shared

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command(no_args_is_help=True)
@shared.model_argument
@shared.threads_option
@shared.budget_option
@shared.input_shape_option
@shared.catalog_option
@shared.json_option
@shared.quiet_option
def profile(
    model: Path,
    threads: int | None,
    budget: float,
    input_shapes: shared.Shapes,
    catalog_path: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Measure the kernels of a model.

    A kernel is an operator with its attributes, shapes and dtypes. What was measured once on this
    machine, under this ONNX Runtime, is not measured again; Ctrl-C keeps what was measured so far.
    A cost marked '>=' is not measured: it is a lower bound from the machine's speed.

    \b
    Examples:
      tensolog profile model.onnx
      tensolog profile model.onnx --threads 1 --budget 60
      tensolog profile model.onnx --json
    """
    from ..progress import Progress

    with (
        on_interrupt("what was measured is kept"),
        Progress(quiet=quiet) as progress,
    ):
        progress("reading", 0, 1, str(model))
        from ..catalog.store.staging import stage
        from ..optimizer import profile_model

        with stage(catalog_path) as catalog:
            rows = profile_model(
                model,
                threads=threads,
                budget=budget,
                input_shapes=input_shapes or None,
                catalog=catalog,
                progress=progress,
            )
    if as_json:
        shared.print_json(rows)
    else:
        click.echo(_table(rows))


def _table(rows: Sequence[dict[str, Any]]) -> str:
    from ..summary import columns
    from ..units import format_time

    total = sum(row["median_ns"] * row["calls"] for row in rows) or 1.0
    cells = [("kernel", "calls", "median", "spread", "total", "share")]
    for row in sorted(rows, key=lambda row: -row["median_ns"] * row["calls"]):
        bound = "" if row["source"] == "measured" else ">= "
        cost = row["median_ns"] * row["calls"]
        cells.append(
            (
                row["kernel"],
                str(row["calls"]),
                bound + format_time(row["median_ns"]),
                format_time(row["spread_ns"]) if not bound else "",
                format_time(cost),
                f"{cost / total:.1%}",
            )
        )
    return columns(cells, right=range(1, 6), indent="")
