"""`tensolog datalog`: the embedded Datalog engine on files, as Soufflé runs them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from ..printing import echo
from . import options as shared

FOLDER = click.Path(path_type=Path)


def _definitions(
    _: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """Read `NAME=VALUE`, repeated; the value may be empty or hold `=`."""
    definitions: dict[str, str] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not (name.isascii() and name.isidentifier()):
            raise click.BadParameter(f"{text!r} is not of the form NAME=VALUE", param=option)
        if definitions.setdefault(name, value) != value:
            raise click.BadParameter(f"{name} is defined twice, with two values", param=option)
    return definitions


define_option = click.option(
    "--define",
    metavar="NAME=VALUE",
    multiple=True,
    callback=_definitions,
    help="Define a macro, as #define does. Repeat per macro.",
)


facts_option = click.option(
    "-F",
    "--facts",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="Folder of the NAME.facts files.  [default: the current folder]",
)


@click.group()
def datalog() -> None:
    """Run, explain or question a Datalog program.

    Programs are in Soufflé's dialect, of which docs/datalog.md says which part; their facts are
    your own, or those of a model.

    \b
    Examples:
      tensolog datalog run reach.dl --facts facts --out results
      tensolog datalog explain reach.dl
      tensolog datalog why reach.dl 'reaches("a", "d")' --facts facts
      tensolog datalog export model.onnx -o facts
    """


@datalog.command(no_args_is_help=True, short_help="Evaluate a program on files of facts.")
@click.argument("program", metavar="FILE.dl", type=shared.FILE)
@facts_option
@click.option(
    "-D",
    "--out",
    metavar="DIR",
    type=FOLDER,
    default=Path(),
    help="Folder for the NAME.csv files; made when missing.  [default: the current folder]",
)
@click.option(
    "--engine",
    type=click.Choice(["embedded", "souffle"]),
    default="embedded",
    show_default=True,
    help="'souffle' runs the command of that name, which must be on the PATH.",
)
@click.option(
    "--limit-s",
    metavar="SECONDS",
    type=shared.SECONDS,
    help="End the evaluation after so many seconds; 0: never.  [default: 60 for each recursion "
    "that makes values, since only such may never end]",
)
@click.option(
    "--limit-rows",
    metavar="ROWS",
    type=click.IntRange(min=1),
    help="End the evaluation where a relation, or those recursive with each other, get more rows.",
)
@define_option
def run(
    program: Path,
    facts: Path,
    out: Path,
    engine: str,
    limit_s: float | None,
    limit_rows: int | None,
    define: dict[str, str],
) -> None:
    """Evaluate a program: .input relations from NAME.facts, .output relations to NAME.csv.

    Columns are separated by tabs in both, as Soufflé has them. What .printsize and IO=stdout ask
    for is printed.

    \b
    Examples:
      tensolog datalog run reach.dl --facts facts --out results
      tensolog datalog run reach.dl -F facts -D results --engine souffle
      tensolog datalog run reach.dl -F facts -D results --define DEPTH=3
      tensolog datalog run reach.dl -F facts -D results --limit-s 10
    """
    from ..catalog.datalog.limits import DEFAULT_LIMITS, Limits
    from ..catalog.datalog.program_files import run_files

    if engine == "souffle" and (limit_s is not None or limit_rows is not None):
        raise click.UsageError("--limit-s and --limit-rows are for the embedded engine.")
    growth_s = DEFAULT_LIMITS.growth_s if limit_s is None else None
    limits = Limits(limit_s or None, growth_s, limit_rows)
    is_new = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    try:
        report = run_files(program, facts, out, engine=engine, define=define, limits=limits)
    except BaseException:
        if is_new:
            with suppress(OSError):
                out.rmdir()
        raise
    for note in report.notes:
        click.echo(note, err=True)
    click.echo(report.text, nl=False)


@datalog.command(no_args_is_help=True)
@click.argument("program", metavar="FILE.dl", type=shared.FILE)
@define_option
def explain(program: Path, define: dict[str, str]) -> None:
    """Show the strata of a program and the SQL that evaluates each.

    \b
    Example:
      tensolog datalog explain reach.dl
    """
    from ..catalog.datalog.program_files import explain_file

    click.echo(explain_file(program, define))


@datalog.command(no_args_is_help=True)
@click.argument("program", metavar="FILE.dl", type=shared.FILE)
@click.argument("row")
@facts_option
@define_option
@shared.json_option
def why(program: Path, row: str, facts: Path, define: dict[str, str], as_json: bool) -> None:
    """Say why a row holds, or what keeps it from that.

    ROW is written as a fact is, with values for all columns. Of a row that holds, a clause is shown
    that makes it, and what that stands on; of one that doesn't, the clause that comes nearest, its
    first literal that fails, and why that fails, down to the facts.

    \b
    Examples:
      tensolog datalog why reach.dl 'reaches("a", "d")' --facts facts
      tensolog datalog why facts/regions/regions.dl 'joins(16, 53)' -F facts/regions
    """
    from ..catalog.datalog.program_files import why_in_files

    reason = why_in_files(program, row, facts, define)
    if as_json:
        shared.print_json(reason)
        return
    echo("\n".join(reason.lines()))


@datalog.command(no_args_is_help=True)
@shared.model_argument
@click.option(
    "-o",
    "--output",
    "out",
    metavar="DIR",
    type=FOLDER,
    required=True,
    help="Folder that gets a folder for each program; made when missing.",
)
@shared.input_shape_option
def export(model: Path, out: Path, input_shapes: shared.Shapes) -> None:
    """Write what the optimizer asks about a model as facts.

    DIR/matches tells where rules match, up to what they want of the elements of constants;
    DIR/regions which nodes one generated kernel may compute: of cells, for each sink and each shape
    that it may run over; behind a product; in an attention; for rows that are scattered.
    DIR/layouts tells which values may lie in blocks of channels, and which e-nodes compute them
    there by which rules. Their programs are text: read them, change them, or ask something else of
    the same facts. node_name and value_name say what the numbers of nodes and values are called.

    \b
    Examples:
      tensolog datalog export model.onnx -o facts
      tensolog datalog run facts/regions/regions.dl -F facts/regions -D derived
      tensolog datalog export model.onnx -o facts --input-shape tokens=1,128
    """
    from ..catalog.errors import TensologError
    from ..optimizer.explain.graph_relations import questions, write

    programs = questions(model, input_shapes=input_shapes or None)
    try:
        for question, program in write(programs, out):
            click.echo(
                f"{program.parent}: {question.rows} facts; "
                f"tensolog datalog run {program} -F {program.parent} -D DIR"
            )
    except OSError as error:
        raise TensologError(f"can't write into {out}: {error.strerror}") from None
