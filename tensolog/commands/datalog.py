"""`tensolog datalog`: the embedded Datalog engine on files, as Soufflé runs them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from . import options as shared

FOLDER = click.Path(path_type=Path)


@click.group()
def datalog() -> None:
    """Run or explain a Datalog program in Soufflé's dialect."""


@datalog.command(no_args_is_help=True)
@click.argument("program", metavar="FILE.dl", type=shared.FILE)
@click.option(
    "-F",
    "--facts",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    show_default="the current folder",
    help="Folder of the NAME.facts files.",
)
@click.option(
    "-D",
    "--out",
    metavar="DIR",
    type=FOLDER,
    default=Path(),
    show_default="the current folder",
    help="Folder for the NAME.csv files; made when missing.",
)
@click.option(
    "--engine",
    type=click.Choice(["embedded", "souffle"]),
    default="embedded",
    show_default=True,
    help="'souffle' runs the command of that name, which must be on the PATH.",
)
def run(program: Path, facts: Path, out: Path, engine: str) -> None:
    """Evaluate a program: .input relations from NAME.facts, .output relations to NAME.csv.

    Columns are separated by tabs in both, as Soufflé has them.

    \b
    Examples:
      tensolog datalog run reach.dl --facts facts --out results
      tensolog datalog run reach.dl -F facts -D results --engine souffle
    """
    from ..catalog.datalog.files import run_files

    made = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    try:
        run_files(program, facts, out, engine=engine)
    except BaseException:
        if made:
            with suppress(OSError):
                out.rmdir()
        raise


@datalog.command(no_args_is_help=True)
@click.argument("program", metavar="FILE.dl", type=shared.FILE)
def explain(program: Path) -> None:
    """Show the strata of a program and the SQL that evaluates each.

    \b
    Example:
      tensolog datalog explain reach.dl
    """
    from ..catalog.datalog import explain as explain_program
    from ..catalog.datalog import parse

    click.echo(explain_program(parse(read_text(program), str(program))))


def read_text(path: Path) -> str:
    """Read a text file; bytes that are not UTF-8 are an error of the user's, said in one line."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{path} is not UTF-8 text (byte {error.start})") from error
