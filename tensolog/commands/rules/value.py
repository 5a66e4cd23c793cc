"""`tensolog rules value`: what rules are worth on models, by the search and the race."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...printing import echo
from .. import options as shared
from .arguments import chosen, rules_argument

if TYPE_CHECKING:
    from ...optimizer.explain.rule_value import Interval, ModelValue
    from ...rules import Rule


@click.command(no_args_is_help=True)
@rules_argument
@click.option(
    "--models",
    metavar="IN.onnx",
    type=shared.FILE,
    multiple=True,
    required=True,
    help="A model to optimize. Repeat.",
)
@click.option(
    "--apart",
    is_flag=True,
    help="Optimize once more without each rule that the winner uses.",
)
@shared.target_option
@shared.threads_option
@shared.budget_option
@shared.allow_option
@shared.input_shape_option
@shared.catalog_option
@shared.json_option
def value(
    rules: tuple[str, ...],
    models: tuple[Path, ...],
    apart: bool,
    target: str,
    threads: int | None,
    budget: float | None,
    allow: tuple[str, ...],
    input_shapes: shared.Shapes,
    catalog_path: str | None,
    as_json: bool,
) -> None:
    """Say what rules gain on models, and where they match.

    Each model is optimized with the rules that are named and the shipped ones, all of them proved;
    without names, the shipped ones are looked at. Printed is the time that the winner takes of the
    original's, and for each rule its matches in the model and in the e-graph, its rewrites in the
    winner, what their kernels cost less, with --apart the time of the winner without that rule, and
    why the winner does without it. The catalog has the same as rows of plan_rule.

    \b
    Examples:
      tensolog rules value --models model.onnx --threads 1
      tensolog rules value mine.rules --models bert.onnx --models unet.onnx --apart
      tensolog rules value SplitMaxPoolByAxis --models yolo.onnx --json
    """
    from ...catalog.store.staging import stage
    from ...optimizer.explain.rule_value import value_of
    from ...progress import Progress
    from ...rules.gate.ledger.admission import applicable

    values: list[ModelValue] = []
    with Progress(quiet=as_json) as progress, stage(catalog_path) as catalog:
        shipped = applicable()
        judged_rules = _proved(chosen(rules), catalog) if rules else list(shipped)
        for model in models:
            values.append(
                value_of(
                    judged_rules,
                    shipped,
                    model,
                    name=str(model),
                    catalog=catalog,
                    leave_one_out=apart,
                    target=target,
                    threads=threads,
                    budget=budget,
                    allow=allow,
                    input_shapes=input_shapes or None,
                    progress=progress,
                )
            )
    if as_json:
        shared.print_json({"models": values})
        return
    echo("\n\n".join("\n".join(value_lines(value)) for value in values))


def _proved(named: list[Rule], catalog: object) -> list[Rule]:
    """Keep rules that are proved; refuse the others, which no plan may use."""
    from ...rules.gate.ledger.admission import proved

    proved_rules = list(proved(named, catalog))  # type: ignore[arg-type]
    names = {rule.name for rule in proved_rules}
    for rule in named:
        if rule.name not in names:
            raise click.ClickException(
                f"{rule.name} is not proved: run tensolog rules prove {rule.path} first"
            )
    return proved_rules


def value_lines(value: ModelValue) -> list[str]:
    """What rules gain on a model, as the command prints it."""
    from ...printing import one_line
    from ...summary import columns

    head = f"{one_line(value.model)} ({value.nodes} nodes): {value.chosen}, "
    head += f"{_ratio(value.winner)} of the original's time"
    if not value.rules:
        return [head, "  none of these rules matches"]
    rows = [("rule", "places", "reached", "applied", "kernels", "without it", "why not")]
    for rule_value in value.rules:
        gain = "" if rule_value.gain_ns is None else _gain(rule_value.gain_ns)
        without = "" if rule_value.without is None else _ratio(rule_value.without)
        rows.append(
            (
                rule_value.rule,
                str(rule_value.places),
                str(rule_value.reached),
                str(rule_value.applied),
                gain,
                without,
                rule_value.why_not,
            )
        )
    return [head, columns(rows, right=(1, 2, 3, 4))]


def _gain(gain_ns: float) -> str:
    from ...units import format_time

    return f"{'-' if gain_ns >= 0 else '+'}{format_time(abs(gain_ns))}"


def _ratio(interval: Interval) -> str:
    if interval.low is None or interval.high is None:
        return f"{interval.ratio:.3f}"
    return f"{interval.ratio:.3f} ({interval.low:.3f} to {interval.high:.3f})"
