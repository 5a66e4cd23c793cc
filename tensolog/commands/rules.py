"""`tensolog rules`: the substitutions that tensolog knows."""

from __future__ import annotations

from pathlib import Path

import click

from . import options as shared


@click.group()
def rules() -> None:
    """List, show or check rules."""


@rules.command(name="list")
@shared.json_option
def list_rules(as_json: bool) -> None:
    """List the shipped rules by family.

    'always' rules never cost anything and run to a fixpoint; of 'explore' rules the measured cost
    decides. 'exact' keeps every bit, 'rounding' differs by floating-point rounding.

    \b
    Example:
      tensolog rules list
    """
    from ..rules import load_rules

    known = sorted(load_rules(), key=lambda rule: (rule.family, rule.name))
    if as_json:
        from ..json_text import json_text

        keys = ("name", "family", "tag", "equal", "summary")
        click.echo(json_text([{key: getattr(rule, key) for key in keys} for rule in known]))
        return
    from ..summary import columns

    rows = [("family", "rule", "tags", "equal", "what it does")]
    rows += [(rule.family, rule.name, rule.tag, rule.equal, rule.summary) for rule in known]
    click.echo(columns(rows, indent=""))


@rules.command(no_args_is_help=True)
@click.argument("name")
def show(name: str) -> None:
    """Print one rule: what it does, its sources, conditions and text.

    \b
    Example:
      tensolog rules show EliminateIdentity
    """
    import difflib

    from ..rules import load_rules

    known = {rule.name: rule for rule in load_rules()}
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3)
        advice = f"did you mean {' or '.join(near)}?" if near else "see 'tensolog rules list'"
        raise click.ClickException(f"there is no rule {name!r}: {advice}")
    click.echo(known[name].text.rstrip())


@rules.command(no_args_is_help=True)
@click.argument("file", metavar="FILE.rules", type=shared.FILE)
def check(file: Path) -> None:
    """Parse the rules of a file and compile them to Datalog.

    This version checks form only: names, operators, conditions, and that the match compiles. It
    does not prove that both sides are equal.

    \b
    Example:
      tensolog rules check my.rules
    """
    from ..catalog.datalog import parse
    from ..rules import compile_program, parse_rules

    found = parse_rules(_read_text(file), str(file))
    parse(compile_program(found), str(file))
    count = len(found)
    click.echo(f"{file}: {count} rule{'' if count == 1 else 's'}, well-formed (not proved)")


def _read_text(path: Path) -> str:
    """Read a text file; bytes that are not UTF-8 are an error of the user's, said in one line."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{path} is not UTF-8 text (byte {error.start})") from error
