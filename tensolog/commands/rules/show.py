"""`tensolog rules show`: everything that is known about a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ...printing import echo
from .. import completion
from .. import options as shared
from .arguments import named_rule, source_text

if TYPE_CHECKING:
    from ...rules import Rule
    from ...rules.gate.ledger.ledger import Entry, Problem

TABLES = {
    "cases": "SELECT title, status, reason, queries, time_ns FROM proof_case "
    "WHERE rule_hash = ? ORDER BY position",
    "floating_behaviour": "SELECT dtype, family, samples, source_error, target_error, max_ratio, "
    "verdict FROM floating_behaviour WHERE rule_hash = ? ORDER BY ALL",
    "special_values": "SELECT dtype, kind, verdict, example FROM floating_special "
    "WHERE rule_hash = ? ORDER BY ALL",
    "floating_proof": "SELECT dtype, result, reason FROM floating_proof WHERE rule_hash = ?",
}


@click.command(no_args_is_help=True)
@click.argument("name", metavar="NAME|FILE.rules", shell_complete=completion.any_rule)
@click.option("--text", "text_only", is_flag=True, help="The text of the rule alone.")
@shared.catalog_option
@shared.json_option
def show(name: str, text_only: bool, catalog_path: str | None, as_json: bool) -> None:
    """Print one rule: its text, and all that the gate found of it.

    Of a shipped rule the ledger tells the status, ranks, algebras, and the floating-point record;
    what `prove` found here, counterexample and single cases, comes from the catalog.

    \b
    Examples:
      tensolog rules show EliminateIdentity
      tensolog rules show my.rules --json
    """
    rule = named_rule(name)
    if text_only:
        echo(source_text(rule).rstrip())
        return
    from ...rules.gate.ledger.ledger import shipped

    ledger = shipped()
    entry, problem = ledger.entries.get(rule.hash), ledger.problem(rule)
    stored = _stored(rule, catalog_path)
    if as_json:
        shared.print_json(
            {
                "name": rule.name,
                "hash": rule.hash,
                "path": rule.path,
                "family": rule.family,
                "tag": rule.tag,
                "equal": rule.equal,
                "summary": rule.summary,
                "sources": rule.sources,
                "text": source_text(rule),
                "conditions": _conditions(rule),
                "ledger": entry,
                "problem": None if problem is None else problem.reason,
                "catalog": stored,
            }
        )
        return
    echo(source_text(rule).rstrip())
    for title, lines in _sections(rule, entry, problem, stored):
        if lines:
            echo(f"\n{title}")
            echo("\n".join(f"  {line}" for line in lines))


def _conditions(rule: Rule) -> list[str]:
    """What is checked at a place, implied conditions included, in words of the matcher."""
    from ...rules.language.conditions import conditions

    return list(dict.fromkeys(text for condition in conditions(rule) if (text := str(condition))))


def _stored(rule: Rule, catalog_path: str | None) -> dict[str, Any]:
    """Read what the catalog holds of a rule; nothing where there is no catalog yet."""
    from ...catalog import Catalog
    from ...catalog.store.catalog import default_path

    if catalog_path is None and not default_path().exists():
        return {}
    with Catalog(catalog_path, read_only=True) as catalog:
        proof = _rows(catalog, "SELECT * FROM proof WHERE rule_hash = ?", rule.hash)
        proofs: dict[str, Any] = {"proof": proof[0]} if proof else {}
        for title, query in TABLES.items():
            if rows := _rows(catalog, query, rule.hash):
                proofs[title] = rows
        return proofs


def _rows(catalog: Any, query: str, key: str) -> list[dict[str, Any]]:
    return list(catalog.sql(query, [key]).to_arrow_table().to_pylist())


def _sections(
    rule: Rule, entry: Entry | None, problem: Problem | None, stored: dict[str, Any]
) -> list[tuple[str, list[str]]]:
    from ...summary import columns

    proof = stored.get("proof", {})
    return [
        ("Checked where it matches", _conditions(rule)),
        ("Proof", _proof(entry, problem, proof)),
        ("Counterexample", str(proof.get("snippet") or "").rstrip().splitlines()),
        (
            "Cases (as proved here)",
            _table(columns, stored.get("cases"), ("title", "status", "reason")),
        ),
        ("Floating point (ledger)", _floating(entry)),
        (
            "Floating point (measured here; errors against a longer type)",
            _table(columns, stored.get("floating_behaviour")),
        ),
        ("Equal bit by bit?", _table(columns, stored.get("floating_proof"))),
        ("NaN, infinities, -0", _table(columns, stored.get("special_values"))),
    ]


def _proof(entry: Entry | None, problem: Problem | None, proof: dict[str, Any]) -> list[str]:
    from .verdict_text import ranks_text, seconds

    if entry is not None:
        status, reason = entry.status, entry.reason
        ranks, algebras, conditions = entry.ranks, entry.algebras, entry.conditions
        solver, rechecker, took = entry.solver, entry.rechecker, entry.seconds
        questions = entry.obligations
    elif proof:
        status, reason = proof["status"], proof["reason"]
        ranks, algebras, conditions = proof["ranks"], proof["algebras"], proof["conditions"]
        solver, rechecker, took = proof["solver"], proof["rechecker"], proof["time_ns"] / 1e9
        questions = proof["obligations"]
    else:
        return ["none: run tensolog rules prove"]
    lines = [" · ".join(part for part in (status, ranks_text(ranks)) if part)]
    if entry is not None and problem is not None and problem.kind != "verdict":
        lines[0] += f" · stale: {problem.reason}"
    if reason:
        lines.append(reason)
    if algebras:
        lines.append(f"algebras: {', '.join(algebras)}")
    if conditions:
        lines.append(f"it would be proved under: {', '.join(conditions)}")
    if solver:
        checked = f", rechecked by {rechecker}" if rechecker else ""
        lines.append(f"{questions} questions to {solver}{checked}; {seconds(took)}")
    return lines


def _floating(entry: Entry | None) -> list[str]:
    if entry is None:
        return []
    return [f"{key}: {value}" for key, value in entry.floating.items()]


def _table(
    columns: Any, rows: list[dict[str, Any]] | None, keys: tuple[str, ...] = ()
) -> list[str]:
    if not rows:
        return []
    keys = keys or tuple(rows[0])
    cells = [[_cell(row[key]) for key in keys] for row in rows]
    return str(columns([list(keys), *cells], indent="")).splitlines()


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)
