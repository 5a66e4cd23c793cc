"""`tensolog rules reject`: a false rule is kept, with the numbers that show it."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...printing import echo
from .. import completion
from .. import options as shared
from .arguments import file_of, named_rule

if TYPE_CHECKING:
    from ...rules import Rule
    from ...rules.gate.verdict import Verdict

WIDTH = 98


@click.command(no_args_is_help=True)
@click.argument("rule", metavar="FILE.rules|NAME", shell_complete=completion.any_rule)
@click.option("--why", metavar="TEXT", help="Why, beside the counterexample that is found.")
@shared.timeout_option("to look for a counterexample")
def reject(rule: str, why: str | None, timeout: float) -> None:
    """Move a rule to rejected.rules, its witness in the comment.

    The witness is the counterexample that the gate finds, or what makes the rule unsafe in floating
    point; a rule without one needs --why, and a rule that is proved is not moved. A shipped rule
    goes to tensolog's own rejected.rules, that of a file to the rejected.rules beside it. Both
    files change, or neither does.

    \b
    Examples:
      tensolog rules reject my.rules
      tensolog rules reject MyRule --why "loses all digits where the mean is far above the spread"
    """
    rule_ = named_rule(rule)
    path = file_of(rule_)
    target = path.with_name("rejected.rules")
    if path.name == target.name:
        raise click.ClickException(f"{rule_.name} is rejected already")
    for changed in (path, target):
        shared.output_file(changed, content="the rules")
    from ...rules.gate.prover_pool import prove_rules

    (verdict,) = prove_rules([rule_], 1, timeout=timeout, search=timeout / 2, floating=True)
    witness = _witness(rule_, verdict, why)
    _move(rule_, path, target, witness)
    echo(f"{rule_.name} moved from {path} to {target}")
    echo("\n".join(f"  {line}" for line in witness))


def _witness(rule: Rule, verdict: Verdict, why: str | None) -> list[str]:
    shown = verdict.counterexample
    if verdict.status == "refused":
        text = f"Refused: {verdict.reason}"
    elif shown is not None:
        text = f"Refuted: {shown.summary}"
    elif why is not None:
        text = ""  # true as real numbers, perhaps, and yet no rule to have
    elif verdict.status in ("proved", "bounded"):
        raise click.ClickException(f"{rule.name} is proved; to reject it all the same, say --why")
    else:
        raise click.ClickException(
            f"no counterexample of {rule.name} was found ({verdict.reason}); say --why, "
            "or give more time with --timeout"
        )
    lines = []
    if why:
        lines += textwrap.wrap(f"Rejected: {why}", WIDTH)
    if text:
        lines += textwrap.wrap(text, WIDTH)
    return lines


def _move(rule: Rule, path: Path, target: Path, witness: list[str]) -> None:
    """Write both files beside the old ones, then let both take their places."""
    from ...catalog.files import replace_together
    from ...rules import parse_rules
    from ...rules.language.formatter import cut_rule

    block, rest = cut_rule(path.read_text(encoding="utf-8"), rule)
    head = len(rule.comment.splitlines())
    lines = block.splitlines()
    comment = lines[:head] or [f"# {rule.name} does not hold."]
    block = "\n".join([*comment, *(f"# {line}" for line in witness), *lines[head:]]) + "\n"
    before = target.read_text(encoding="utf-8") if target.exists() else ""
    after = f"{before.rstrip()}\n\n{block}" if before.strip() else block
    parse_rules(after, str(target))
    replaced = []
    try:
        for old, text in ((target, after), (path, rest)):
            new = old.with_name(f".{old.name}.new")
            new.write_text(text, encoding="utf-8")
            replaced.append((new, old))
        replace_together(replaced)
    finally:
        for new, _ in replaced:
            new.unlink(missing_ok=True)
