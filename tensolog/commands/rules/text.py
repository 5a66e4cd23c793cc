"""`tensolog rules new` and `format`: rule text, begun and spelled."""

from __future__ import annotations

from pathlib import Path

import click

from ...printing import echo
from .. import completion
from .. import options as shared
from .arguments import counted, readable, refuse

TEMPLATE = """\
# A rule to start from: it holds. Change it line by line; `tensolog rules check` says what is wrong.
# docs/rules.md has the language, docs/contributing-a-rule.md the way from here.
#
# tags     always: never worse, applied wherever it matches; explore: measured cost decides
# source   who says so, named at the head of the file or in quotes; or a derivation in the comment
# opset    >= 13, or 7..17; left out: all
# given    what must hold: shapes bind names, which agree wherever they stand (X [*b, m, k]);
#          element types (float32|float64), const, scalar; conditions such as fits(c, X), c != 0
# match    what is found; a name that both sides bind is an output, the others vanish
# rewrite  what takes its place; or `fold`, for what is computed at optimize time
# equal    exact: every bit; rounding: as real numbers; partial except CONDITION

# {name} leaves out an Add of zero. One sentence on what it does comes first: tables show it.
# Then why it can pay, when it is forbidden, and how it is derived.
rule {name}
  tags    always
  source  ["derived here"]
  given   X [*s] float32|float64,
          c scalar,
          fits(c, X),
          c = 0
  match
    Y = Add(X, c)
  rewrite
    Y = X
  equal   rounding
"""


@click.command(no_args_is_help=True)
@click.argument("name")
@click.option(
    "--file",
    "path",
    metavar="FILE.rules",
    type=click.Path(path_type=Path),
    help="Where to write it.  [default: NAME.rules in the current folder]",
)
def new(name: str, path: Path | None) -> None:
    """Write a rule to start from: a commented one, which checks.

    NAME is made of words with capitals, a verb first, as EliminateAddOfZero is. Nothing is
    overwritten.

    \b
    Examples:
      tensolog rules new EliminateAddOfZero
      tensolog rules new FoldScaleIntoWeight --file my.rules
    """
    if not (name.isascii() and name.isalnum() and name[:1].isupper()):
        raise click.ClickException(
            f"{name!r} is no name of a rule: write words with capitals, as EliminateAddOfZero"
        )
    path = shared.output_file(path or Path(f"{name}.rules"), content="the rule")
    text = TEMPLATE.format(name=name)
    from ...rules import parse_rules

    parse_rules(text, str(path))
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise click.ClickException(f"{path} exists: name another file with --file") from None
    echo(f"{path}: edit it, then: tensolog rules check {path}")


@click.command(name="format", no_args_is_help=True)
@click.argument(
    "files", metavar="FILE.rules...", nargs=-1, required=True, shell_complete=completion.file
)
@click.option("--check", is_flag=True, help="Change nothing; exit with 1 if a file would change.")
def format_files(files: tuple[str, ...], check: bool) -> None:
    """Give the rules of files the one spelling that all rules share.

    Only the blocks of rules are written anew; comments above and between them stay.

    \b
    Examples:
      tensolog rules format my.rules
      tensolog rules format --check rules/*.rules
    """
    from ...catalog.files import replacing
    from ...rules.language.formatter import format_file

    changed = []
    for name in files:
        path = Path(name)
        readable(path)
        before = _text(path)
        after = format_file(before, name)
        if after == before:
            continue
        changed.append(name)
        if not check:
            with replacing(shared.output_file(path, content="the rules")) as file:
                file.write(after.encode())
    for name in changed:
        echo(f"would reformat {name}" if check else f"reformatted {name}")
    if not changed:
        echo(f"{counted(len(files), 'file')} as it should be")
    elif check:
        refuse()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{path} is not UTF-8 text (byte {error.start})") from error
