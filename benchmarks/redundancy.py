"""Which shipped rules say nothing that others don't: by saturation with these alone.

    python -m benchmarks.redundancy [--found FOUND.rules …] [--write TABLE.md]

Each shipped rule is drawn at three choices of sizes; the other shipped ones have to make both sides
one class of an e-graph at each of them, and then those in rules/found/ and in FOUND.rules alone.
Rules that derive one are named, none of them in vain.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tensolog.optimizer.egraph.redundancy import Redundancy, redundancy
from tensolog.rules import Rule, load_rules

from .environment import describe, markdown
from .generation import named_apart


def table(rows: Sequence[Redundancy]) -> list[str]:
    """The rules that are derived, each with those that derive it."""
    derived = [row for row in rows if row.status == "derived"]
    lines = ["| rule | follows from |", "|---|---|"]
    lines += [f"| `{row.rule}` | {row.by('`{}`')} |" for row in derived]
    return lines if derived else ["None."]


def pairs(rows: Sequence[Redundancy]) -> list[str]:
    """Rules that follow from a single other one; those that follow from each other once."""
    single = {row.rule: row.derived_by[0] for row in rows if len(row.derived_by) == 1}
    lines = ["| rule | follows from | and the other way |", "|---|---|---|"]
    for rule, by in single.items():
        mutual = single.get(by) == rule
        if not mutual or rule < by:
            lines.append(f"| `{rule}` | `{by}` | {'yes' if mutual else 'no'} |")
    return lines if single else ["None."]


def _summary(rows: Sequence[Redundancy], title: str) -> str:
    counts = [sum(row.status == status for row in rows) for status in ("derived", "no instance")]
    return f"{title}: {counts[0]} of {len(rows)} ({counts[1]} had no instance to try)."


def main(arguments: Sequence[str] | None = None) -> None:
    """Print, or write, the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--found", nargs="*", type=Path, default=())
    parser.add_argument("--write", type=Path)
    options = parser.parse_args(arguments)
    shipped = load_rules()
    by_found: list[Rule] = [rule for rule in shipped if "generated" in rule.sources]
    by_found = named_apart(
        [*by_found, *(rule for path in options.found for rule in load_rules([path]))]
    )
    written = [rule for rule in shipped if "generated" not in rule.sources]
    by_shipped = [redundancy(rule, shipped) for rule in shipped]
    by_generated = [redundancy(rule, by_found) for rule in written]
    source = f"the {len(by_found)} generated ones alone"
    lines = [
        "# Shipped rules that follow from others",
        "",
        "`python -m benchmarks.redundancy`",
        "",
        _summary(by_shipped, "From other shipped rules"),
        "",
        *table(by_shipped),
        "",
        "Pairs of which one follows from the other alone:",
        "",
        *pairs(by_shipped),
        "",
        _summary(by_generated, f"Of those that were written by hand, from {source}"),
        "",
        *table(by_generated),
    ]
    text = "\n".join([*lines, "", markdown(describe()), ""])
    if options.write is not None:
        options.write.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
