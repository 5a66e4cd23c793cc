"""Verdicts of the gate as text for people and as values for JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...rules.gate.verdict import Counterexample, Verdict


# Columns of a verdict, wide enough for all statuses and for the usual ranks and algebras.
_STATUS, _RANKS, _ALGEBRAS = 7, 9, 13


def verdict_text(verdict: Verdict, width: int) -> str:
    """One line for a rule, its name as wide as said, and under it why it is not proved."""
    line = (
        f"{verdict.status:<{_STATUS}}  {verdict.rule:<{width}}  {_ranks(verdict):<{_RANKS}}  "
        f"{', '.join(verdict.algebras):<{_ALGEBRAS}}  {seconds(verdict.seconds)}"
    )
    return "\n".join([line, *map(indented, why(verdict))])


def why(verdict: Verdict) -> Iterable[str]:
    """Say why a rule is not proved, what shows it, and what would help."""
    if verdict.reason:
        yield verdict.reason
    if verdict.conditions:
        yield "It would be proved under: " + ", ".join(verdict.conditions)
    if verdict.counterexample is not None:
        yield counterexample_text(verdict.counterexample)


def _ranks(verdict: Verdict) -> str:
    if verdict.status not in ("proved", "bounded"):
        return ""
    return ranks_text(verdict.ranks)


def ranks_text(ranks: str) -> str:
    """Say for which ranks a proof holds."""
    return "all ranks" if ranks == "all" else ranks


def counterexample_text(counterexample: Counterexample) -> str:
    """Show a counterexample as the program that prints it."""
    return f"This program shows it:\n\n{indented(counterexample.snippet.rstrip())}\n"


def verdict_value(verdict: Verdict) -> dict[str, Any]:
    """A verdict as JSON has it; the scripts of its obligations are in the catalog."""
    from ...rules.language.rank_bounds import as_record

    shown = verdict.counterexample
    return {
        "rule": verdict.rule,
        "hash": verdict.hash,
        "status": verdict.status,
        "reason": verdict.reason,
        "ranks": verdict.ranks,
        "within": as_record(verdict.within),
        "algebras": verdict.algebras,
        "conditions": verdict.conditions,
        "counterexample": None
        if shown is None
        else {"kind": shown.kind, "summary": shown.summary, "snippet": shown.snippet},
        "cases": [
            {"title": c.title, "status": c.status, "reason": c.reason, "seconds": c.seconds}
            for c in verdict.cases
        ],
        "obligations": len(verdict.obligations),
        "solver": verdict.solver,
        "rechecker": verdict.rechecker,
        "seconds": verdict.seconds,
    }


def seconds(value: float) -> str:
    """A time in seconds."""
    return f"{value:.2f} s"


def indented(text: str) -> str:
    """Set text off from the line above it."""
    return textwrap.indent(text, "    ", lambda line: bool(line.strip()))
