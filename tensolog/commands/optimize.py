"""`tensolog optimize`: an ONNX model in, a measured faster one out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..interrupts import WRITTEN, answer, on_interrupt, stop_if_interrupted
from ..printing import echo, one_line
from . import options as shared

if TYPE_CHECKING:
    from ..catalog import Catalog
    from ..rules import Rule


@click.command(no_args_is_help=True)
@shared.model_argument
@click.option(
    "-o",
    "--output",
    metavar="OUT",
    type=click.Path(),
    help="Where the result goes: OUT.onnx is one file where that is enough, and a folder where "
    "native code or mapped weights belong to it; any other name is a folder. An older result there "
    "is replaced.",
)
@click.option(
    "--in-place", is_flag=True, help="Write the result over IN.onnx, as one portable file."
)
@shared.target_option
@click.option(
    "--portable", is_flag=True, help="One plain ONNX file that opens anywhere: no native kernels."
)
@shared.threads_option
@click.option(
    "--budget",
    type=shared.SECONDS,
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
    "--costs",
    type=click.Choice(["foretold", "predicted", "measured"]),
    default="foretold",
    show_default=True,
    help="What predicted costs are for, where a model of them ships for this class of processors: "
    "to tell of a first gain early; to measure only what may change the choice, too; or nothing. "
    "A race decides.",
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
    output: str | None,
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
    costs: str,
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
    kept. What is written is one thing to move, and tensolog.open_session(OUT) opens it.

    \b
    Examples:
      tensolog optimize model.onnx -o fast
      tensolog optimize model.onnx -o fast.onnx --portable
      tensolog optimize model.onnx -o fast.onnx --threads 1 --report report.html
      tensolog optimize bert.onnx -o fast.onnx --input-shape input_ids=1,128
      tensolog optimize model.onnx -o fast.onnx --target onnx --allow exact
      tensolog optimize model.onnx -o fast.onnx --rules my.rules
      tensolog optimize model.onnx -o fast.onnx --json | jq .nodes_after
    """
    written = _output(model, output, in_place)
    place = shared.output_file(Path(written), content="the model", may_be_folder=True)
    taken = {model.resolve(), place.resolve()}
    if report is not None:
        report = shared.output_file(report, content="the report")
        if report.resolve() in taken:
            raise click.UsageError("--report names the same file as a model")
        taken.add(report.resolve())
    if keep is not None:
        keep = shared.output_file(keep, content="the plans")
        if keep.resolve() in taken:
            raise click.UsageError("--keep names the same file as a model or the report")

    from ..optimizer.phases import BEST, FORETOLD, STEPS
    from ..progress import Progress

    with (
        on_interrupt("no model was written; what was measured is kept"),
        Progress(quiet=quiet, steps=STEPS, best=BEST, foretold=FORETOLD) as progress,
    ):
        progress("reading", 0, 1, str(model))
        from ..catalog.store.staging import stage
        from ..optimizer import ORIGINAL
        from ..optimizer import optimize as run
        from ..optimizer.result.deliverable import check_place
        from ..optimizer.setting import MOST_S

        progress.budget_s = MOST_S if budget is None else budget
        with stage(catalog_path) as catalog:
            shared.refuse_catalog(catalog, place, report, keep)
            if not in_place:
                check_place(written)
            rules = _rules(catalog, rule_files, unproven)
            result = run(
                model,
                target=target,
                portable=portable or in_place,
                threads=threads,
                budget=budget,
                allow=allow,
                input_shapes=input_shapes or None,
                catalog=catalog,
                progress=progress,
                rules=rules,
                search=search,
                costs=costs,
                keep=keep,
                on_interrupt="keep" if when_interrupted == "write" else "raise",
            )
            if result.interrupted:
                answer()
            stop_if_interrupted()
            progress("writing", 0, 1, written)
            files = [str(file) for file in result.save(written)]
            if report is not None:
                with on_interrupt(f"{written} was written, the report was not"):
                    result.report(report)
            result.hand_over()
            summary = result.to_json()
    if as_json:
        form = "folder" if place.is_dir() else "file"
        shared.print_json({**summary, "output": written, "form": form, "files": files})
    elif not quiet:
        from ..summary import files_text, kernels_text, summary_text

        echo(summary_text(summary, str(model), written), nl=False)
        echo(kernels_text(summary, str(model), written), nl=False)
        echo(files_text(written, files, is_folder=place.is_dir()), nl=False)
    if result.interrupted:
        best = "the original" if result.chosen == ORIGINAL else f"the plan {result.chosen!r}"
        where = one_line(str(written))
        click.echo(f"interrupted; {best}, the best by then, was written to {where}", err=True)
        raise click.exceptions.Exit(WRITTEN)


def _rules(catalog: Catalog, files: tuple[Path, ...], unproven: bool) -> list[Rule]:
    """Choose the rules: shipped ones and those of files, all of them proved, or else allowed."""
    from ..rules import load_rules
    from ..rules.gate.ledger.admission import applicable, proved

    rules_of_files = load_rules(files) if files else ()
    if not unproven:
        proved_rules = {rule.hash: rule for rule in proved(rules_of_files, catalog)}
        if missing := [rule for rule in rules_of_files if rule.hash not in proved_rules]:
            first = min(missing, key=lambda rule: rule.name)
            raise click.ClickException(
                f"{first.name} is not proved: "
                f"run tensolog rules prove {first.path}, or say --unproven"
            )
        rules_of_files = tuple(proved_rules[rule.hash] for rule in rules_of_files)
    names = {rule.name for rule in rules_of_files}
    shipped = load_rules() if unproven else applicable()
    return [*rules_of_files, *(rule for rule in shipped if rule.name not in names)]


def _output(model: Path, output: str | None, in_place: bool) -> str:
    """Decide what is written; the input only when that was asked for."""
    if in_place:
        if output is not None:
            raise click.UsageError("--in-place and -o exclude each other")
        return str(model)
    if output is None:
        raise click.UsageError("say where the result goes: -o OUT.onnx (or --in-place)")
    if Path(output).exists() and Path(output).samefile(model):
        raise click.ClickException(
            f"{output} is the input: name another file, or say --in-place to replace it"
        )
    return output
