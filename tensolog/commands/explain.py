"""`tensolog explain`: which rules fire where, and why the others do not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from ..printing import echo
from . import completion
from . import options as shared


@click.command(no_args_is_help=True)
@click.argument("model", metavar="IN.onnx", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--rule",
    metavar="NAME",
    shell_complete=completion.shipped_rule,
    help="This rule only, and why it fires or not.",
)
@click.option(
    "--node",
    metavar="NAME",
    help="This node only: what becomes of it, what else could, at what cost, and why it is not so.",
)
@click.option(
    "--with",
    "other",
    metavar="NAME",
    help="Beside --node: whether one generated kernel of cells and rows may compute that node and "
    "this one, or the condition that keeps them apart.",
)
@click.option(
    "--costs",
    metavar="FILE",
    type=shared.COSTS,
    help="What this model of tensolog costs train says of the kernels, beside what was measured; "
    "'shipped' is the one of this class of processors.",
)
@click.option(
    "--timeline",
    metavar="FILE.svg",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Of a deployment over devices: draw there what runs when, and what is sent.",
)
@shared.target_option
@shared.threads_option
@shared.allow_option
@shared.input_shape_option
@shared.catalog_option
@shared.json_option
def explain(
    model: Path,
    rule: str | None,
    node: str | None,
    other: str | None,
    costs: str | None,
    timeline: Path | None,
    target: str,
    threads: int | None,
    allow: tuple[str, ...],
    input_shapes: shared.Shapes,
    catalog_path: str | None,
    as_json: bool,
) -> None:
    """Say which rules fire where, and why the others do not.

    A near miss is a place where all conditions of a rule hold but one; it names that condition and
    the values that broke it. Nothing is measured and nothing is written: what a node and its
    alternatives cost is what an earlier optimize or profile measured, else a bound. Of a folder
    that deploy wrote it says which setting was chosen, against what, and why.

    \b
    Examples:
      tensolog explain model.onnx
      tensolog explain model.onnx --rule FoldBatchNormalizationIntoConv
      tensolog explain model.onnx --node /layer1/attention/MatMul
      tensolog explain model.onnx --node /layer1/attention/MatMul --rule FoldScaleIntoMatMulWeight
      tensolog explain model.onnx --node /layer1/Add --with /layer1/LayerNormalization
      tensolog explain model.onnx --costs shipped
      tensolog explain plan --timeline plan.svg
      tensolog explain model.onnx --json | jq '.near_misses[].condition'
    """
    if model.is_dir():
        if rule is not None or node is not None or other is not None:
            raise click.UsageError(f"--rule, --node and --with are of a model: {model} is a folder")
        if timeline is not None:
            _draw_timeline(model, timeline)
        _explain_deployment(model, as_json)
        return
    if timeline is not None:
        raise click.UsageError(f"--timeline is of a deployment's folder: {model} is a model")

    if costs is not None:
        if rule is not None or node is not None or other is not None:
            raise click.UsageError("--costs says nothing of a rule or a node: leave those away")
        from .costs_train import print_predictions

        print_predictions(model, costs, threads, input_shapes, catalog_path, as_json)
        return

    from ..optimizer import explain_model, explain_node, explain_region

    if other is not None:
        if node is None or rule is not None:
            raise click.UsageError("--with is of two nodes: name the first with --node, no rule")
        from ..optimizer.explain.reason_text import region_text

        reason = explain_region(model, node, other, input_shapes=input_shapes or None)
        _print(reason.region_json, partial(region_text, reason), as_json)
        return
    if node is not None:
        with shared.open_to_read(catalog_path) as catalog:
            story = explain_node(
                model,
                node,
                rule=rule,
                target=target,
                threads=threads,
                allow=allow,
                input_shapes=input_shapes or None,
                catalog=catalog,
            )
        _print(story.to_json, story.text, as_json)
        return
    explanation = explain_model(
        model, rule=rule, target=target, allow=allow, input_shapes=input_shapes or None
    )
    _print(explanation.to_json, explanation.text, as_json)


def _draw_timeline(folder: Path, output: Path) -> None:
    from ..catalog.files import replacing
    from ..parallel.deployment.deployment import DeploymentError, read_deployment
    from ..parallel.timeline import timeline_svg

    output = shared.output_file(output, content="the timeline")
    plan = read_deployment(folder)
    if plan.timeline is None:
        raise DeploymentError(
            f"{folder} has no timeline: its instances run the whole model ({plan.setting}); "
            "tensolog deploy --devices FILE weighs plans that divide it"
        )
    simulated_ms, measured_ms = plan.timeline.seconds * 1e3, plan.chosen.p50_ms
    title = (
        f"{plan.name}, {plan.setting.plan}: a request takes {simulated_ms:.3g} ms as simulated; "
        f"{measured_ms:.3g} ms as measured with all requests under way"
    )
    with replacing(output) as file:
        file.write(timeline_svg(plan.timeline, title).encode())


def _explain_deployment(folder: Path, as_json: bool) -> None:
    from ..parallel.deployment.deployment import read_deployment

    plan = read_deployment(folder)
    if as_json:
        shared.print_json(plan.to_json())
    else:
        from ..deployment_text import deployment_text

        echo(deployment_text(plan))


def _print(to_json: Callable[[], object], text: Callable[[], str], as_json: bool) -> None:
    if as_json:
        shared.print_json(to_json())
    else:
        echo(text())
