"""`tensolog explain`: which rules fire where, and why the others do not."""

from __future__ import annotations

from pathlib import Path

import click

from . import options as shared


@click.command(no_args_is_help=True)
@shared.model_argument
@click.option("--rule", metavar="NAME", help="This rule only, with every near miss.")
@shared.target_option
@shared.allow_option
@shared.input_shape_option
@shared.json_option
def explain(
    model: Path,
    rule: str | None,
    target: str,
    allow: tuple[str, ...],
    input_shapes: shared.Shapes,
    as_json: bool,
) -> None:
    """Say which rules fire where, and why the others do not.

    A near miss is a place where all conditions of a rule hold but one; it names that condition and
    the values that broke it. Nothing is measured and nothing is written.

    \b
    Examples:
      tensolog explain model.onnx
      tensolog explain model.onnx --rule FoldBatchNormalizationIntoConv
      tensolog explain model.onnx --json | jq '.near_misses[].condition'
    """
    from ..optimizer import explain_model

    explanation = explain_model(
        model, rule=rule, target=target, allow=allow, input_shapes=input_shapes or None
    )
    if as_json:
        from ..json_text import json_text

        click.echo(json_text(explanation.to_json()))
    else:
        click.echo(explanation.text())
