"""`tensolog optimize`: an ONNX model in, a measured faster one out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..interrupts import WRITTEN, answer, on_interrupt, stop_if_interrupted
from . import options as shared

if TYPE_CHECKING:
    from ..catalog import Catalog
    from ..rules import Rule


@click.command(no_args_is_help=True)
@shared.model_argument
@click.option(
    "-o",
    "--output",
    metavar="OUT.onnx",
    type=click.Path(path_type=Path),
    help="Where the result goes; an older file there is replaced.",
)
@click.option("--in-place", is_flag=True, help="Write the result over IN.onnx.")
@shared.target_option
@click.option(
    "--portable", is_flag=True, help="One plain ONNX file that opens anywhere: no native kernels."
)
@shared.threads_option
@click.option(
    "--budget",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Time for everything; reading and verifying may take 10 more.  [default: 30 for measuring "
    "and races, those of a large model 90 alone, and 120 for everything]",
)
@shared.allow_option
@shared.input_shape_option
@click.option(
    "--rules",
    "rule_files",
    metavar="FILE.rules",
    multiple=True,
    type=shared.FILE,
    help="Rules of your own beside the shipped ones; `tensolog rules prove` them first. Repeat.",
)
@click.option("--unproven", is_flag=True, help="Apply rules that are not proved as well.")
@click.option(
    "--search",
    type=click.Choice(["egraph", "gains"]),
    default="egraph",
    show_default=True,
    help="By an e-graph beside single rewrites that gain, or by those alone.",
)
@click.option(
    "--keep",
    metavar="FILE.duckdb",
    type=click.Path(path_type=Path),
    help="Write the plans there as tables, with their costs and steps, and the e-graph.",
)
@shared.catalog_option
@click.option(
    "--report",
    metavar="FILE.html",
    type=click.Path(path_type=Path),
    help="Write an HTML report: graphs, costs, steps, candidates.",
)
@shared.json_option
@click.option(
    "--on-interrupt",
    "when_interrupted",
    type=click.Choice(["discard", "write"]),
    default="discard",
    show_default=True,
    help="What Ctrl-C does: write nothing, or the best plan that was verified and raced by then "
    f"(exit code {WRITTEN}).",
)
@click.option("-q", "--quiet", is_flag=True, help="No progress and no summary.")
def optimize(
    model: Path,
    output: Path | None,
    in_place: bool,
    target: str,
    portable: bool,
    threads: int | None,
    budget: float | None,
    allow: tuple[str, ...],
    input_shapes: shared.Shapes,
    rule_files: tuple[Path, ...],
    unproven: bool,
    search: str,
    keep: Path | None,
    catalog_path: str | None,
    report: Path | None,
    as_json: bool,
    when_interrupted: str,
    quiet: bool,
) -> None:
    """Write a model that computes the same and is not slower.

    Proved rules are matched, the plans they lead to are priced with kernels measured on this
    machine, and the best plans race the original. When none wins beyond the noise, the original is
    kept.

    \b
    Examples:
      tensolog optimize model.onnx -o fast.onnx
      tensolog optimize model.onnx -o fast.onnx --threads 1 --report report.html
      tensolog optimize bert.onnx -o fast.onnx --input-shape input_ids=1,128
      tensolog optimize model.onnx -o fast.onnx --target onnx --allow exact
      tensolog optimize model.onnx -o fast.onnx --rules my.rules
      tensolog optimize model.onnx -o fast.onnx --json | jq .nodes_after
    """
    written = shared.output_file(_output(model, output, in_place), what="the model")
    taken = {model.resolve(), written.resolve()}
    if report is not None:
        report = shared.output_file(report, what="the report")
        if report.resolve() in taken:
            raise click.UsageError("--report names the same file as a model")
        taken.add(report.resolve())
    if keep is not None:
        keep = shared.output_file(keep, what="the plans")
        if keep.resolve() in taken:
            raise click.UsageError("--keep names the same file as a model or the report")

    from ..optimizer.phases import BEST, STEPS
    from ..progress import Progress

    with (
        on_interrupt("no model was written; what was measured is kept"),
        Progress(quiet=quiet, steps=STEPS, best=BEST) as progress,
    ):
        progress("reading", 0, 1, str(model))
        from ..catalog import Catalog
        from ..optimizer import ORIGINAL
        from ..optimizer import optimize as run
        from ..optimizer.setting import MOST_S

        progress.budget_s = MOST_S if budget is None else budget
        with Catalog(catalog_path) as catalog:
            shared.refuse_catalog(catalog, written, report)
            rules = _rules(catalog, rule_files, unproven)
            result = run(
                model,
                target=target,
                portable=portable,
                threads=threads,
                budget=budget,
                allow=allow,
                input_shapes=input_shapes or None,
                catalog=catalog,
                progress=progress,
                rules=rules,
                search=search,
                keep=keep,
                on_interrupt="keep" if when_interrupted == "write" else "raise",
            )
            if result.interrupted:
                answer()
            stop_if_interrupted()
            progress("writing", 0, 1, str(written))
            files = [str(file) for file in result.save(written)]
            if report is not None:
                with on_interrupt(f"{written} was written, the report was not"):
                    result.report(report)
            summary = result.to_json()
    if as_json:
        from ..json_text import json_text

        click.echo(json_text({**summary, "output": str(written), "files": files}))
    elif not quiet:
        from ..summary import kernels_text, summary_text

        click.echo(summary_text(summary, str(model), str(written)), nl=False)
        click.echo(kernels_text(summary, str(model), str(written)), nl=False)
        if beside := [Path(file).name for file in files if file != str(written)]:
            click.echo(f"Keep beside it: {', '.join(beside)}")
    if result.interrupted:
        best = "the original" if result.chosen == ORIGINAL else f"the plan {result.chosen!r}"
        click.echo(f"interrupted; {best}, the best by then, was written to {written}", err=True)
        raise click.exceptions.Exit(WRITTEN)


def _rules(catalog: Catalog, files: tuple[Path, ...], unproven: bool) -> list[Rule]:
    """Choose the rules: shipped ones and those of files, all of them proved, or else allowed."""
    from ..rules import load_rules
    from ..rules.gate.admit import applicable, proved

    own = load_rules(files) if files else ()
    if not unproven:
        held = {rule.hash: rule for rule in proved(own, catalog)}
        if missing := [rule for rule in own if rule.hash not in held]:
            first = min(missing, key=lambda rule: rule.name)
            raise click.ClickException(
                f"{first.name} is not proved: "
                f"run tensolog rules prove {first.path}, or say --unproven"
            )
        own = tuple(held[rule.hash] for rule in own)
    names = {rule.name for rule in own}
    shipped = load_rules() if unproven else applicable()
    return [*own, *(rule for rule in shipped if rule.name not in names)]


def _output(model: Path, output: Path | None, in_place: bool) -> Path:
    """Decide which file is written; the input only when that was asked for."""
    if in_place:
        if output is not None:
            raise click.UsageError("--in-place and -o exclude each other")
        return model
    if output is None:
        raise click.UsageError("say where the result goes: -o OUT.onnx (or --in-place)")
    if output.exists() and output.samefile(model):
        raise click.ClickException(
            f"{output} is the input: name another file, or say --in-place to replace it"
        )
    return output
