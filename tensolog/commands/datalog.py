"""`tensolog datalog`: the embedded Datalog engine on files, as Soufflé runs them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

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


@click.group()
def datalog() -> None:
    """Run or explain a Datalog program in Soufflé's dialect.

    docs/datalog.md says which part of the dialect it is.

    \b
    Examples:
      tensolog datalog run reach.dl --facts facts --out results
      tensolog datalog explain reach.dl
    """


@datalog.command(no_args_is_help=True, short_help="Evaluate a program on files of facts.")
@click.argument("program", metavar="FILE.dl", type=shared.FILE)
@click.option(
    "-F",
    "--facts",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="Folder of the NAME.facts files.  [default: the current folder]",
)
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
    made = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    try:
        report = run_files(program, facts, out, engine=engine, define=define, limits=limits)
    except BaseException:
        if made:
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
