"""`tensolog rules replay`: stored obligations put to a solver again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import click

from ...printing import echo
from .. import completion
from .. import options as shared
from .arguments import counted, refuse


@click.command(short_help="Ask solvers again what the proofs rest on.")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=completion.shipped_rule)
@click.option(
    "--solver",
    type=click.Choice(["z3", "cvc5", "both"]),
    default="z3",
    show_default=True,
    help="Who answers.",
)
@shared.timeout_option("for one question")
@click.option(
    "--own",
    is_flag=True,
    help="What the catalog holds, not what is shipped.",
)
@shared.catalog_option
@shared.json_option
def replay(
    names: tuple[str, ...],
    solver: str,
    timeout: float,
    own: bool,
    catalog_path: str | None,
    as_json: bool,
) -> None:
    """Ask solvers once more what the proofs rest on; nothing is proved anew.

    A proof rests on questions in SMT-LIB whose answer is unsat. They are stored, and compared by
    hash with what the ledger says. Exits with 1 if a solver answers sat.

    \b
    Examples:
      tensolog rules replay
      tensolog rules replay EliminateFlatten --solver both
      tensolog rules replay --own --catalog my.duckdb
    """
    from ...progress import Progress
    from ...rules.gate.ledger.replay import Replayed
    from ...rules.gate.ledger.replay import replay as ask

    scripts = list(_stored(names, own, catalog_path))
    if not scripts and not names:
        raise click.ClickException("nothing is stored: run tensolog rules prove first")
    if not scripts and not as_json:
        # Names that are not known were refused; these are proved by their normal forms alone.
        echo(f"{', '.join(names)}: the proof asks nothing of a solver")
        return
    answered: list[tuple[str, Replayed]] = []
    solvers = ("z3", "cvc5") if solver == "both" else (solver,)
    with Progress(quiet=as_json) as progress:

        def report(replayed: Replayed) -> None:
            progress("replaying", len(answered), len(scripts) * len(solvers), replayed.rule)

        for name in solvers:
            answers = ask(scripts, "cvc5" if name == "cvc5" else "z3", timeout, report)
            answered += [(name, answer) for answer in answers]
    against = [(name, answer) for name, answer in answered if answer.contradicts]
    if as_json:
        rows = [
            {
                "rule": answer.rule,
                "script_hash": answer.script_hash,
                "solver": name,
                "answer": answer.answer,
                "reason": answer.reason,
                "seconds": answer.seconds,
            }
            for name, answer in answered
        ]
        shared.print_json(rows)
    else:
        for name in solvers:
            counts = Counter(answer.answer for solver_, answer in answered if solver_ == name)
            totals = ", ".join(f"{count} {answer}" for answer, count in counts.items())
            rules = counted(len({answer.rule for _, answer in answered}), "rule")
            asked_all = counted(sum(counts.values()), "question")
            echo(f"{name}: {asked_all} of {rules}: {totals}")
        for name, answer in against:
            echo(f"{answer.rule}: {name} says sat to {answer.script_hash[:12]}")
    if against:
        refuse()


def _stored(
    names: tuple[str, ...], own: bool, catalog_path: str | None
) -> Iterable[tuple[str, str]]:
    from ...rules.gate.ledger.replay import scripts_path, stored, stored_in

    if own or catalog_path is not None:
        with shared.open_to_read(catalog_path) as catalog:
            return list(stored_in(catalog, names))
    from importlib import resources

    from ...rules.gate.ledger.ledger import shipped
    from ...rules.prover.solve.smt_scripts import Scripts

    path = Path(str(resources.files("tensolog.rules"))) / "ledger.jsonl"
    return list(stored(shipped(), Scripts.read(scripts_path(path)), names))
