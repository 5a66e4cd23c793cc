"""`tensolog rules derive`: which rules say nothing that others don't."""

from __future__ import annotations

import time

import click

from ...printing import echo
from .. import completion
from .. import options as shared
from .arguments import chosen, counted, rules_argument


@click.command(no_args_is_help=True, short_help="Say which rules others derive.")
@rules_argument
@click.option("--all", "everything", is_flag=True, help="All shipped rules.")
@click.option(
    "--by",
    "by",
    metavar="FILE.rules|NAME",
    multiple=True,
    shell_complete=completion.any_rule,
    help="By these rules; without it by the other shipped ones. May be repeated.",
)
@click.option(
    "--budget",
    type=shared.SECONDS_ABOVE_0,
    metavar="SECONDS",
    default=60.0,
    show_default=True,
    help="Time for all of it.",
)
@shared.json_option
def derive(
    rules: tuple[str, ...], everything: bool, by: tuple[str, ...], budget: float, as_json: bool
) -> None:
    """Say which rules follow from others, and from which.

    A rule is drawn at some sizes; others are applied to both sides in an e-graph, for a few rounds.
    Where the sides become equal, the rule is derived, and those are named without which it is not.
    Otherwise it is new, as far as these rounds lead. Of rules with constants that are folded, the
    constants count as unknown.

    \b
    Examples:
      tensolog rules derive --all --by found.rules
      tensolog rules derive EliminateSplitOfConcat MergeAddedConvs
    """
    candidates = chosen(rules, everything=everything)
    from ...optimizer.egraph.redundancy import Redundancy, redundancy
    from ...progress import Progress

    others = chosen(by, everything=not by)
    redundancies: list[Redundancy] = []
    until = time.monotonic() + budget
    with Progress(quiet=as_json, budget_s=budget) as progress:
        for i, rule in enumerate(candidates):
            if time.monotonic() > until:
                break
            progress("deriving", i, len(candidates), rule.name)
            redundancies.append(redundancy(rule, others))
    if as_json:
        shared.print_json(
            {"rules": redundancies, "not_looked_at": len(candidates) - len(redundancies)}
        )
        return
    for item in redundancies:
        if item.status == "derived":
            echo(f"{item.rule}: derived by {item.by()}")
    totals = [
        f"{sum(i.status == s for i in redundancies)} {s}" for s in ("derived", "new", "no instance")
    ]
    echo(f"{counted(len(redundancies), 'rule')}: {', '.join(totals)}")
    if len(redundancies) < len(candidates):
        echo(f"{len(candidates) - len(redundancies)} were not looked at: the budget ended")
