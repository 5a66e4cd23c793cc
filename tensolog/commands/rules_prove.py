"""`tensolog rules prove`: rules through the gate, and what the ledger says of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..interrupts import on_interrupt
from . import options as shared
from .rules_named import chosen, counted, is_shipped, refuse, rules_argument

if TYPE_CHECKING:
    from ..rules import Rule
    from ..rules.gate.verdict import Verdict


@click.command(no_args_is_help=True)
@rules_argument
@click.option("--all", "everything", is_flag=True, help="All shipped rules.")
@click.option(
    "--locked",
    is_flag=True,
    help="Prove nothing: compare with the ledger, and exit with 1 if a rule has no valid entry.",
)
@click.option(
    "--stale", is_flag=True, help="Only rules that have no valid entry in the ledger yet."
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Rules to prove at a time.  [default: all cores]",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    default=60.0,
    show_default=True,
    help="Time for the proof of one rule.",
)
@click.option("--record", is_flag=True, help="Measure the floating-point behaviour as well.")
@click.option("--no-ledger", is_flag=True, help="Leave the ledger as it is.")
@shared.catalog_option
@shared.json_option
def prove(
    rules: tuple[str, ...],
    everything: bool,
    locked: bool,
    stale: bool,
    jobs: int | None,
    timeout: float,
    record: bool,
    no_ledger: bool,
    catalog_path: str | None,
    as_json: bool,
) -> None:
    """Prove rules for all sizes, or show numbers on which they are wrong.

    Prints for each rule its status, the ranks and algebras of the proof, and the time; where it is
    not proved the reason, a program that shows it, and conditions under which it would be. What was
    found is kept in the catalog, and of shipped rules in the ledger of the repository. Exits with 1
    if a rule is not proved.

    \b
    Examples:
      tensolog rules prove my.rules
      tensolog rules prove --all --stale --jobs 2
      tensolog rules prove --all --locked
    """
    found = chosen(rules, everything=everything or (not rules and (locked or stale)))
    if locked:
        _compare(found, as_json)
        return
    if stale:
        from ..rules.gate.ledger import locked as without_entry

        open_ones = {problem.rule for problem in without_entry(found)}
        found = [rule for rule in found if rule.name in open_ones]
    verdicts = _prove(found, jobs, timeout, record, no_ledger, catalog_path, quiet=as_json)
    if as_json:
        from ..json_text import json_text
        from .rules_shown import verdict_value

        click.echo(json_text([verdict_value(verdict) for verdict in verdicts]))
    else:
        from .rules_shown import verdict_lines

        if verdicts:
            click.echo(verdict_lines(verdicts))
        click.echo(_totals(verdicts))
    if any(verdict.status not in ("proved", "bounded") for verdict in verdicts):
        refuse()


def _compare(rules: Sequence[Rule], as_json: bool) -> None:
    from ..rules.gate.ledger import locked

    problems = locked(rules)
    if as_json:
        from ..json_text import json_text

        rows = [{"rule": p.rule, "kind": p.kind, "reason": p.reason} for p in problems]
        click.echo(json_text({"rules": len(rules), "problems": rows}))
    else:
        for problem in problems:
            click.echo(str(problem))
        if problems:
            click.echo(
                f"{counted(len(problems), 'rule')} of {len(rules)} without a valid proof in the "
                "ledger: run tensolog rules prove --all --stale"
            )
        else:
            click.echo(f"{counted(len(rules), 'rule')} with a valid proof in the ledger")
    if problems:
        refuse()


def _totals(verdicts: Sequence[Verdict]) -> str:
    from collections import Counter

    counts = Counter(verdict.status for verdict in verdicts)
    said = ", ".join(f"{count} {status}" for status, count in counts.items())
    spent = sum(verdict.seconds for verdict in verdicts)
    return f"{counted(len(verdicts), 'rule')}: {said or 'nothing to prove'} ({spent:.1f} s)"


def _prove(
    rules: Sequence[Rule],
    jobs: int | None,
    timeout: float,
    record: bool,
    no_ledger: bool,
    catalog_path: str | None,
    *,
    quiet: bool,
) -> list[Verdict]:
    from ..catalog import Catalog
    from ..profiles.machine import cores
    from ..progress import Progress
    from ..rules.gate.parallel import prove_rules
    from ..rules.gate.record_rows import store_verdicts

    book = None if no_ledger or not any(map(is_shipped, rules)) else _Book()
    done: list[tuple[Rule, Verdict]] = []

    def keep() -> None:
        """Keep what is known by now, whatever ends the command."""
        if book is not None:
            book.close()
        with Catalog(catalog_path) as catalog:
            store_verdicts(catalog, done)

    with Progress(quiet=quiet) as progress:

        def told(rule: Rule, verdict: Verdict) -> None:
            done.append((rule, verdict))
            if book is not None and is_shipped(rule):
                book.enter(rule, verdict, record)
            progress("proving", len(done), len(rules), f"{rule.name}: {verdict.status}")

        progress("proving", 0, len(rules), "")
        with on_interrupt("what was proved by then is kept"):
            try:
                prove_rules(rules, jobs or cores(), told, timeout=timeout)
            finally:
                keep()
    by_hash = {verdict.hash: verdict for _, verdict in done}
    return [by_hash[rule.hash] for rule in rules]


class _Book:
    """The ledger of the shipped rules and its scripts, as files beside the rules."""

    def __init__(self) -> None:
        """Read both."""
        from importlib import resources

        from ..rules.gate.ledger import Ledger
        from ..rules.gate.replay import scripts_beside
        from ..rules.prover.scripts import Scripts

        self.path = Path(str(resources.files("tensolog.rules"))) / "ledger.jsonl"
        self.beside = scripts_beside(self.path)
        self.ledger = Ledger.load(self.path)
        self.scripts = Scripts.read(self.beside)
        shared.output_file(self.path, what="the ledger (or say --no-ledger)")

    def enter(self, rule: Rule, verdict: Verdict, record: bool) -> None:
        """Put a verdict in, with the floating-point record where that is asked for."""
        from ..rules.gate.replay import store_scripts

        floating = _floating(rule) if record else None
        self.ledger.record(rule, verdict, floating)
        store_scripts(self.scripts, verdict)

    def close(self) -> None:
        """Write both, without the entries of rules that are gone."""
        from ..rules import load_rules

        for entry in self.ledger.keep(load_rules()):
            for group in [g for g in self.scripts.groups if g.split(" ")[0] == entry.rule]:
                del self.scripts.groups[group]
        self.ledger.save(self.path)
        self.scripts.write(self.beside)


def _floating(rule: Rule) -> dict[str, object]:
    from ..rules.gate.floating import floating_record

    return floating_record(rule).summary()
