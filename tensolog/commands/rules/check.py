"""`tensolog rules check`: a quick look at rules, before they are proved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ...printing import echo
from .. import options as shared
from .arguments import chosen, counted, refuse, rules_argument

if TYPE_CHECKING:
    from ...rules.gate.quick_check import QuickCheck


@click.command(no_args_is_help=True)
@rules_argument
@click.option("--all", "everything", is_flag=True, help="All shipped rules.")
@click.option(
    "--seconds",
    type=shared.SECONDS,
    metavar="S",
    default=2.0,
    show_default=True,
    help="Time to look for numbers against each rule.",
)
@shared.json_option
def check(rules: tuple[str, ...], everything: bool, seconds: float, as_json: bool) -> None:
    """Look for what is wrong with rules, quickly; nothing is proved.

    Reads and compiles the text, compares types and shapes of both sides, then runs small instances
    under ONNX Runtime and computes both sides in a prime field. Exits with 1 if a rule is refused
    or refuted; what is merely unusual is noted.

    \b
    Examples:
      tensolog rules check my.rules
      tensolog rules check MergeMatMulsSharingLeft --seconds 10
      tensolog rules check --all --json
    """
    checked_rules = chosen(rules, everything=everything)
    from ...catalog.datalog import parse
    from ...progress import Progress
    from ...rules import compile_program

    parse(compile_program(checked_rules), "the rules given")
    from ...rules.gate.quick_check import QuickCheck, quick_check

    looks = []
    with Progress(quiet=as_json) as progress:
        for done, rule in enumerate(checked_rules):
            progress("checking", done, len(checked_rules), rule.name)
            try:
                looks.append(quick_check(rule, seconds))
            except Exception as error:  # of one rule: the others are looked at all the same
                message = " ".join(f"{type(error).__name__}: {error}".split())
                looks.append(QuickCheck(rule.name, "failed", f"the check failed: {message}"))
            if not as_json:
                _show(looks[-1])
    if as_json:
        shared.print_json(looks)
    else:
        bad = sum(look.status != "sound" for look in looks)
        if bad:
            echo(f"{counted(bad, 'rule')} of {len(looks)} can't stay as it is")
        else:
            echo(
                f"{counted(len(looks), 'rule')}: nothing found against "
                f"{'it' if len(looks) == 1 else 'them'}; next: tensolog rules prove"
            )
    if any(look.status != "sound" for look in looks):
        refuse()


def _show(look: QuickCheck) -> None:
    """Print what was seen of a rule, as soon as it was."""
    from .verdict_text import counterexample_text, indented

    reason = f": {look.reason}" if look.reason else ""
    echo(f"{look.status:<8} {look.rule}{reason}")
    for note in look.notes:
        echo(indented(f"note: {note}"))
    if look.counterexample is not None:
        echo(indented(counterexample_text(look.counterexample)))
