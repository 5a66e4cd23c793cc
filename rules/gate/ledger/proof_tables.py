"""What the gate found, as rows of the catalog: proof, proof_case, obligation, script, …"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ....catalog.store.merging import PROOFS
from ...language.syntax import Rule
from ...prover.solve.smt_scripts import canonical, script_hash
from ...rule_tables import store_rules
from ..verdict import FloatingRecord, Verdict
from .fingerprints import normaliser
from .ledger import Entry, Ledger, entry_of, shipped

if TYPE_CHECKING:
    from ....catalog import Catalog

Row = dict[str, object]


def store_verdicts(catalog: Catalog, verdicts: Iterable[tuple[Rule, Verdict]]) -> None:
    """Put rules and what was just found of them into a catalog, in place of what was known."""
    pairs = list(verdicts)
    with catalog.transaction():
        _store_entries(catalog, [(rule, entry_of(rule, verdict)) for rule, verdict in pairs])
        for _, verdict in pairs:
            shown = verdict.counterexample
            if shown is not None:
                catalog.connection.execute(
                    "UPDATE proof SET snippet = ? WHERE rule_hash = ?",
                    [shown.snippet, verdict.hash],
                )
            _insert(catalog, "proof_case", _case_rows(verdict))
            _insert(catalog, "obligation", _obligation_rows(verdict))
            if verdict.floating is not None:
                _store_floating(catalog, verdict.floating)
        _note_status(catalog)
        _store_scripts(
            catalog, [obligation.script for _, v in pairs for obligation in v.obligations]
        )


def store_ledger(catalog: Catalog, rules: Sequence[Rule], ledger: Ledger | None = None) -> None:
    """Put rules, and what a ledger says of those that the catalog knows nothing of, into it.

    Entries that don't hold any longer are left out; cases and obligations are not in a ledger.
    """
    ledger = shipped() if ledger is None else ledger
    with catalog.transaction():
        rows = catalog.sql("SELECT rule_hash FROM proof WHERE prover = ?", [normaliser()])
        known = {name for (name,) in rows.fetchall()}
        entries = [
            (rule, ledger.entries[rule.hash])
            for rule in rules
            if rule.hash in ledger.entries and rule.hash not in known
        ]
        store_rules(catalog, rules)
        _store_entries(catalog, [(r, e) for r, e in entries if ledger.holds(r)])
        _note_status(catalog)


def _note_status(catalog: Catalog) -> None:
    """Say in each row of a rule how far it is proved, as the table of proofs has it now."""
    catalog.connection.execute(
        "UPDATE rule SET proof = status FROM ("
        "  SELECT rule_hash, CASE WHEN prover IS NULL THEN 'unproved' WHEN prover <> ? THEN 'stale'"
        "    ELSE status END AS status FROM rule LEFT JOIN proof USING (rule_hash)"
        ") known WHERE known.rule_hash = rule.rule_hash AND rule.proof IS DISTINCT FROM status",
        [normaliser()],
    )


def _store_entries(catalog: Catalog, entries: Sequence[tuple[Rule, Entry]]) -> None:
    store_rules(catalog, [rule for rule, _ in entries])
    hashes = [rule.hash for rule, _ in entries]
    for table in PROOFS:
        catalog.connection.execute(
            f"DELETE FROM {table} WHERE rule_hash IN (SELECT unnest(?::VARCHAR[]))", [hashes]
        )
    now = datetime.now(UTC).replace(tzinfo=None)
    _insert(catalog, "proof", [_proof_row(entry, now) for _, entry in entries])
    _insert(
        catalog,
        "proof_specification",
        [
            {"rule_hash": entry.hash, "operator": operator, "specification_hash": recorded}
            for _, entry in entries
            for operator, recorded in entry.specifications.items()
        ],
    )


def _proof_row(entry: Entry, now: datetime) -> Row:
    kind, _, summary = entry.counterexample.partition(": ")
    return {
        "rule_hash": entry.hash,
        "status": entry.status,
        "reason": entry.reason,
        "ranks": entry.ranks,
        "within": json.dumps(entry.within),
        "algebras": list(entry.algebras),
        "conditions": list(entry.conditions),
        "counterexample_kind": kind or None,
        "counterexample": summary or None,
        "obligations": entry.obligations,
        "obligations_hash": entry.digest,
        "prover": entry.normaliser,
        "solver": entry.solver,
        "rechecker": entry.rechecker,
        "time_ns": round(entry.seconds * 1e9),
        "proved_at": now,
    }


def _case_rows(verdict: Verdict) -> list[Row]:
    return [
        {
            "rule_hash": verdict.hash,
            "position": position,
            "title": case.title,
            "status": case.status,
            "reason": case.reason,
            "queries": case.queries,
            "time_ns": round(case.seconds * 1e9),
        }
        for position, case in enumerate(verdict.cases)
    ]


def _obligation_rows(verdict: Verdict) -> list[Row]:
    return [
        {
            "rule_hash": verdict.hash,
            "position": position,
            "title": obligation.title,
            "purpose": obligation.purpose,
            "script_hash": script_hash(obligation.script),
            "solver": verdict.solver,
            "result": "unsat",
            "rechecker": None if obligation.opinion == "absent" else verdict.rechecker,
            "recheck": obligation.opinion,
            "time_ns": round(obligation.seconds * 1e9),
            "recheck_ns": round(obligation.recheck_seconds * 1e9),
        }
        for position, obligation in enumerate(verdict.obligations)
    ]


def _store_floating(catalog: Catalog, record: FloatingRecord) -> None:
    about = {"rule_hash": record.hash}
    _insert(
        catalog,
        "floating_behaviour",
        [
            about
            | {
                "dtype": rounding.dtype,
                "family": rounding.family,
                "samples": rounding.samples,
                "source_error": rounding.source_error,
                "target_error": rounding.target_error,
                "max_ratio": rounding.max_ratio,
                "upper_ratio": rounding.upper_ratio,
                "median_ratio": rounding.median_ratio,
                "verdict": rounding.verdict,
                "lost": rounding.lost,
            }
            for rounding in record.roundings
        ],
    )
    _insert(
        catalog,
        "floating_special",
        [
            about
            | {
                "dtype": special.dtype,
                "kind": special.kind,
                "samples": special.samples,
                "verdict": special.verdict,
                "example": special.example,
            }
            for special in record.specials
        ],
    )
    _insert(
        catalog,
        "floating_proof",
        [
            about
            | {
                "dtype": bit_result.dtype,
                "result": bit_result.result,
                "method": bit_result.method,
                "finite": bit_result.finite,
                "reason": bit_result.reason,
                "script_hash": script_hash(bit_result.script) if bit_result.script else None,
                "solver": bit_result.solver or None,
                "time_ns": round(bit_result.seconds * 1e9),
            }
            for bit_result in record.bits
        ],
    )
    _store_scripts(catalog, [bit_result.script for bit_result in record.bits if bit_result.script])


def _store_scripts(catalog: Catalog, scripts: Iterable[str]) -> None:
    texts = {script_hash(script): canonical(script) for script in scripts}
    known = {name for (name,) in catalog.sql("SELECT script_hash FROM script").fetchall()}
    new = {name: text for name, text in texts.items() if name not in known}
    _insert(catalog, "script", [{"script_hash": k, "text": v} for k, v in new.items()])


def _insert(catalog: Catalog, table: str, rows: Sequence[Mapping[str, object]]) -> None:
    if rows:
        catalog.insert(table, {column: [row[column] for row in rows] for column in rows[0]})
