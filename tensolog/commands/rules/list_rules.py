"""`tensolog rules list`: the rules, and how far each is proved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .. import options as shared

if TYPE_CHECKING:
    from ...rules import Rule
    from ...rules.gate.ledger.ledger import Ledger


@click.command(
    name="list", short_help="List the shipped rules by family, and how far each is proved."
)
@click.option("--rejected", is_flag=True, help="The rules that were refused instead.")
@shared.json_option
def list_rules(rejected: bool, as_json: bool) -> None:
    """List the shipped rules by family, with the status of their proofs.

    'always' rules never cost anything and run to a fixpoint; of 'explore' rules the measured cost
    decides; a pass of the optimizer asks for 'pass' rules. 'exact' keeps every bit, 'rounding'
    differs by floating-point rounding. 'proved' is for all sizes and ranks, 'bounded' for all sizes
    at the ranks listed; 'stale' was proved before something changed that the proof rests on.

    \b
    Examples:
      tensolog rules list
      tensolog rules list --json | jq '.[] | select(.status != "proved").name'
    """
    from ...rules import load_rules
    from ...rules.gate.ledger.ledger import shipped
    from ...rules.load import load_rejected

    known = sorted(
        load_rejected() if rejected else load_rules(), key=lambda rule: (rule.family, rule.name)
    )
    ledger = shipped()
    rows = [(rule, *status_of(rule, ledger, rejected)) for rule in known]
    if as_json:
        keys = ("name", "family", "tag", "equal", "summary")
        shared.print_json(
            [
                {**{key: getattr(rule, key) for key in keys}, "status": status, "ranks": ranks}
                for rule, status, ranks in rows
            ]
        )
        return
    from ...summary import columns

    head = ("family", "rule", "tags", "equal", "status", "ranks", "what it does")
    lines = [
        (rule.family, rule.name, rule.tag, rule.equal, status, ranks, rule.summary)
        for rule, status, ranks in rows
    ]
    click.echo(columns([head, *lines], indent=""))


def status_of(rule: Rule, ledger: Ledger, rejected: bool) -> tuple[str, str]:
    """Give a rule's status in a word, and the ranks it is proved for."""
    if rejected:
        return "rejected", ""
    problem, entry = ledger.problem(rule), ledger.entries.get(rule.hash)
    if problem is not None and problem.kind in ("missing", "edited"):
        return "unproved", ""
    assert entry is not None
    if problem is not None and problem.kind != "verdict":
        return "stale", entry.ranks
    return entry.status, entry.ranks
