"""`tensolog rules prove`: rules through the gate, and what the ledger says of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ...interrupts import on_interrupt
from ...printing import echo
from .. import options as shared
from .arguments import chosen, counted, is_shipped, refuse, rules_argument

if TYPE_CHECKING:
    from ...rules import Rule
    from ...rules.gate.verdict import Verdict


@click.command(no_args_is_help=True, short_help="Prove rules for all sizes, or refute them.")
@rules_argument
@click.option("--all", "everything", is_flag=True, help="All shipped rules.")
@click.option(
    "--locked",
    is_flag=True,
    help="Prove nothing: compare with the ledger, and exit with 1 if a rule has no valid entry, "
    "or an entry no rule.",
)
@click.option(
    "--stale", is_flag=True, help="Only rules that have no valid entry in the ledger yet."
)
@shared.jobs_option
@click.option(
    "--timeout",
    type=shared.SECONDS_ABOVE_0,
    metavar="S",
    default=60.0,
    show_default=True,
    help="Processor time for the proof of one rule. With a counterexample, conditions and what it "
    "does in floating point it takes at most twice as long and 10 s.",
)
@click.option(
    "--record",
    is_flag=True,
    help="Measure in floating point again what the ledger says of a shipped rule already.",
)
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

    What is proved is measured in floating point, and refused where it breaks the class of the rule:
    accuracy that is lost, a NaN in the place of a number.

    Prints for each rule, as soon as it is known, its status, the ranks and algebras of the proof,
    and the time; where it is not proved the reason, a program that shows it, and conditions under
    which it would be. What was
    found is kept in the catalog, and of shipped rules in the ledger of the repository. Exits with 1
    if a rule is not proved.

    \b
    Examples:
      tensolog rules prove my.rules
      tensolog rules prove --all --stale --jobs 2
      tensolog rules prove --all --locked
    """
    chosen_rules = chosen(rules, everything=everything or (not rules and (locked or stale)))
    every = list(chosen_rules) if everything or not rules else []
    if locked:
        _compare(chosen_rules, bool(every), as_json)
        return
    if stale:
        from ...rules.gate.ledger.ledger import Ledger

        ledger = Ledger.load()
        chosen_rules = [rule for rule in chosen_rules if not ledger.holds(rule)]
    verdicts = _prove(
        chosen_rules,
        jobs,
        timeout,
        record,
        no_ledger,
        catalog_path,
        quiet=as_json,
        whole=every,
    )
    if as_json:
        from .verdict_text import verdict_value

        shared.print_json([verdict_value(verdict) for verdict in verdicts])
    else:
        echo(_totals(verdicts))
    if any(verdict.status not in ("proved", "bounded") for verdict in verdicts):
        refuse()


def _compare(rules: Sequence[Rule], whole: bool, as_json: bool) -> None:
    """Say what the ledger lacks, and with the whole set of rules what it has too much."""
    from ...rules.gate.ledger.ledger import locked, shipped
    from ...rules.gate.ledger.renewal import orphans

    problems = locked(rules)
    orphaned = [entry.rule for entry in orphans(rules, shipped())] if whole else []
    if as_json:
        rows = [{"rule": p.rule, "kind": p.kind, "reason": p.reason} for p in problems]
        reason = "the ledger speaks of it, and there is no such rule"
        rows += [{"rule": name, "kind": "orphan", "reason": reason} for name in orphaned]
        shared.print_json({"rules": len(rules), "problems": rows})
    else:
        for problem in problems:
            echo(str(problem))
        for name in orphaned:
            echo(f"{name}: the ledger speaks of it, and there is no such rule")
        if orphaned:
            echo(
                f"{counted(len(orphaned), 'entry', 'entries')} of no rule in the ledger: "
                "run tensolog rules prove --all --stale"
            )
        if problems:
            echo(
                f"{counted(len(problems), 'rule')} of {len(rules)} without a valid proof in the "
                "ledger: run tensolog rules prove --all --stale"
            )
        elif not orphaned:
            echo(f"{counted(len(rules), 'rule')} with a valid proof in the ledger")
    if problems or orphaned:
        refuse()


def _totals(verdicts: Sequence[Verdict]) -> str:
    from collections import Counter

    counts = Counter(verdict.status for verdict in verdicts)
    text = ", ".join(f"{count} {status}" for status, count in counts.items())
    spent = sum(verdict.seconds for verdict in verdicts)
    return f"{counted(len(verdicts), 'rule')}: {text or 'nothing to prove'} ({spent:.1f} s)"


def _prove(
    rules: Sequence[Rule],
    jobs: int | None,
    timeout: float,
    record: bool,
    no_ledger: bool,
    catalog_path: str | None,
    *,
    quiet: bool,
    whole: Sequence[Rule],
) -> list[Verdict]:
    """Prove rules, shipped ones into the ledger; keep what is known whatever ends the command.

    Entries of the ledger that speak of none of `whole`, if that is given, are dropped.
    """
    from ...catalog.store.staging import stage
    from ...profiles.machine import cores
    from ...progress import Progress
    from ...rules.gate.ledger.ledger import Ledger
    from ...rules.gate.ledger.proof_tables import store_verdicts
    from ...rules.gate.ledger.renewal import orphans, renew, shipped_path
    from ...rules.gate.prover_pool import prove_rules
    from .verdict_text import verdict_text

    entered = [] if no_ledger else [rule for rule in rules if is_shipped(rule)]
    others = [rule for rule in rules if rule not in entered]
    has_orphans = bool(whole) and not no_ledger and bool(orphans(whole, Ledger.load()))
    if entered or has_orphans:
        shared.output_file(shipped_path(), content="the ledger (or say --no-ledger)")
    jobs = jobs or cores()
    done: list[tuple[Rule, Verdict]] = []
    longest = max((len(rule.name) for rule in rules), default=0)
    with Progress(quiet=quiet) as progress:

        def report(rule: Rule, verdict: Verdict, *_: object) -> None:
            done.append((rule, verdict))
            if not quiet:
                echo(verdict_text(verdict, longest))
            progress("proving", len(done), len(rules), f"{rule.name}: {verdict.status}")

        progress("proving", 0, len(rules), "")
        with on_interrupt("what was proved by then is kept"):
            try:
                if entered or has_orphans:
                    renew(
                        entered,
                        workers=jobs,
                        again=True,
                        whole=whole,
                        floating=record,
                        timeout=timeout,
                        progress=report,
                    )
                if others:
                    prove_rules(others, jobs, report, timeout=timeout, floating=True)
            finally:
                with stage(catalog_path) as catalog:
                    store_verdicts(catalog, done)
    by_hash = {verdict.hash: verdict for _, verdict in done}
    return [by_hash[rule.hash] for rule in rules]
