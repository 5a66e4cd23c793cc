"""`tensolog rules impact`: what a rule would do to models, before it is merged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...printing import echo
from .. import completion
from .. import options as shared
from .arguments import counted, named_rule

if TYPE_CHECKING:
    from ...optimizer.explain.impact import Impact

SHOWN = 5


@click.command(no_args_is_help=True)
@click.argument("rule", metavar="FILE.rules|NAME", shell_complete=completion.any_rule)
@click.argument("models", metavar="IN.onnx...", nargs=-1, required=True, type=shared.FILE)
@click.option(
    "--budget",
    type=shared.SECONDS,
    metavar="SECONDS",
    default=10.0,
    show_default=True,
    help="Time for measuring kernels of each model; 0 estimates.",
)
@shared.threads_option
@shared.target_option
@shared.input_shape_option
@shared.catalog_option
@shared.json_option
def impact(
    rule: str,
    models: tuple[Path, ...],
    budget: float,
    threads: int | None,
    target: str,
    input_shapes: shared.Shapes,
    catalog_path: str | None,
    as_json: bool,
) -> None:
    """Say where a rule fires in models, and what it changes in cost.

    The rule need not be proved: no model is changed. Costs are those of kernels measured on this
    machine, and bounds where the budget does not reach. Near misses say what keeps it from firing.

    \b
    Examples:
      tensolog rules impact my.rules model.onnx
      tensolog rules impact MergeMatMulsSharingLeft bert.onnx gpt2.onnx --threads 1
      tensolog rules impact my.rules model.onnx --budget 0 --json
    """
    chosen = named_rule(rule)
    from ...catalog.store.staging import stage
    from ...optimizer.explain.impact import impact_of
    from ...progress import Progress

    impacts: list[Impact] = []
    with Progress(quiet=as_json) as progress, stage(catalog_path) as catalog:
        for model in models:
            impacts.append(
                impact_of(
                    chosen,
                    model,
                    name=str(model),
                    catalog=catalog,
                    budget=budget,
                    threads=threads,
                    target=target,
                    input_shapes=input_shapes or None,
                    progress=progress,
                )
            )
    if as_json:
        from dataclasses import asdict

        rows = [
            {**asdict(item), "gain_ns": item.gain_ns, "measured": item.measured} for item in impacts
        ]
        shared.print_json({"rule": chosen.name, "models": rows})
        return
    echo(f"{chosen.name}: {chosen.summary or 'no summary'}")
    for item in impacts:
        click.echo()
        echo("\n".join(_lines(item)))


def _lines(impact: Impact) -> list[str]:
    from ...printing import one_line
    from ...units import format_time

    head = f"{one_line(impact.model)} ({counted(impact.nodes, 'node')}): "
    if impact.why_not:
        return [head + impact.why_not]
    lines = [head + (f"fires at {counted(len(impact.places), 'place')}" if impact.places else "")]
    if not impact.places:
        lines[0] += "does not fire"
    priced = [place for place in impact.places if place.before_ns is not None]
    if priced:
        how = "measured" if impact.measured else "partly estimated"
        gain = impact.gain_ns
        gain_text = f"{format_time(abs(gain))} {'less' if gain >= 0 else 'more'}"
        share = f"{100 * abs(gain) / impact.model_ns:.1f} % of {format_time(impact.model_ns)}"
        lines.append(f"  kernels: {gain_text} in all, {share} ({how})")
    for place in impact.places[:SHOWN]:
        nodes = ", ".join(one_line(name) for name in place.nodes[:4])
        cost = "cost unknown"
        if place.before_ns is not None and place.after_ns is not None:
            cost = f"{format_time(place.before_ns)} -> {format_time(place.after_ns)}"
        lines.append(f"  at {nodes}: {place.removed} -> {place.added} nodes, {cost}")
    if len(impact.places) > SHOWN:
        lines.append(f"  and at {len(impact.places) - SHOWN} more places")
    if impact.near_misses:
        many = len(impact.near_misses) != 1
        lines.append(f"  {len(impact.near_misses)} near miss{'es' if many else ''}:")
        lines += [f"    {miss}" for miss in impact.near_misses[:SHOWN]]
        if len(impact.near_misses) > SHOWN:
            lines.append(f"    and {len(impact.near_misses) - SHOWN} more")
    return lines
