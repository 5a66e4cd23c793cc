"""`tensolog rules mutate`: does the gate notice a slip of the pen?"""

from __future__ import annotations

import click

from ...printing import echo
from .. import options as shared
from .arguments import chosen, counted, refuse, rules_argument


@click.command(short_help="Test the gate with rules that were changed in one place.")
@rules_argument
@click.option(
    "--count",
    type=click.IntRange(min=1),
    metavar="N",
    default=300,
    show_default=True,
    help="Mutants to draw.",
)
@click.option("--seed", type=int, metavar="S", default=0, show_default=True, help="Other mutants.")
@shared.jobs_option_of("Mutants")
@shared.timeout_option("for the proof of one mutant")
@shared.json_option
def mutate(
    rules: tuple[str, ...],
    count: int,
    seed: int,
    jobs: int | None,
    timeout: float,
    as_json: bool,
) -> None:
    """Change rules in one place each and see whether the gate still lets them pass.

    Mutants are made of the rules named, or of all shipped ones: entries swapped, bounds off by one,
    conditions dropped, operators exchanged. Each goes through the gate; each that is proved is
    searched for numbers that refute it, by means of their own. Exits with 1 if there are such
    numbers for one: a false rule was accepted.

    \b
    Examples:
      tensolog rules mutate --count 300
      tensolog rules mutate MergeMatMulsSharingLeft --count 40 --seed 7
    """
    chosen_rules = chosen(rules, everything=not rules)
    from ...profiles.machine import cores
    from ...progress import Progress
    from ...rules.gate.mutation_campaign import FATES
    from ...rules.gate.mutation_campaign import mutate as run

    with Progress(quiet=as_json) as progress:
        campaign = run(
            chosen_rules, count, seed, jobs=jobs or cores(), timeout=timeout, progress=progress
        )
    counts = campaign.count()
    if as_json:
        rows = [
            {
                "rule": judgement.mutant.original,
                "change": judgement.mutant.change,
                "fate": judgement.fate,
                "reason": judgement.reason,
                "text": judgement.mutant.text,
                "seconds": judgement.seconds,
            }
            for judgement in campaign.judged
        ]
        shared.print_json({"seed": seed, "counts": counts, "mutants": rows})
    else:
        descriptions = {
            "static": "are no rules, or refused for their form",
            "refuted": "refuted with numbers",
            "unknown": "neither proved nor refuted",
            "equivalent": "proved, and nothing speaks against them",
            "accepted": "FALSE AND ACCEPTED",
        }
        drawn = counted(len(campaign.judged), "mutant")
        echo(f"{drawn} of {counted(len(chosen_rules), 'rule')}, seed {seed}")
        for fate in FATES:
            echo(f"  {counts[fate]:>5} {descriptions[fate]}")
        for fate in ("accepted", "equivalent", "unknown"):
            shown = campaign.of(fate)
            if shown:
                echo(f"\n{fate}:")
            for judgement in shown:
                why = f" ({judgement.reason})" if judgement.reason else ""
                echo(f"  {judgement.mutant.original}: {judgement.mutant.change}{why}")
    if counts["accepted"]:
        refuse()
