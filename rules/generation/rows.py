"""What a run saw, as rows of the catalog, stored as it goes; and what an earlier run stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ..gate.ledger.proof_tables import store_verdicts
from ..language.parser import parse_rules
from ..language.syntax import Rule
from .candidates import BESIDE

if TYPE_CHECKING:
    from ...catalog import Catalog
    from ..gate.verdict import Verdict
    from .enumeration import Enumeration, Level
    from .findings import Finding, Generation

# The status of what is proved, and open as long as it is not known what it does to rounded numbers.
_PROVED = "proved"
# What is stored as open, and why.
_OPEN = {
    _PROVED: "proved; what it does in floating point is not measured yet",
    "elsewhere": "neither side matches in the model",
}
_LEVEL = ("terms", "undefined", "classes")


@dataclass(frozen=True)
class Judgement:
    """What became of a candidate in an earlier run."""

    status: str
    reason: str
    derived_by: tuple[str, ...]
    rules: tuple[Rule, ...]


Judgements = Mapping[tuple[str, str], Judgement]
"""By the texts of both sides."""


def judgements(catalog: Catalog, run_hash: str) -> Judgements:
    """What an earlier run decided of candidates; nothing where there was none."""
    rows = catalog.sql(
        "SELECT left_term, right_term, status, reason, derived_by, rules "
        "FROM generation_candidate WHERE run_hash = ? AND (status <> 'open' OR len(rules) > 0)",
        [run_hash],
    ).fetchall()
    hashes = sorted({rule_hash for row in rows for rule_hash in row[5]})
    texts = catalog.sql(
        "SELECT rule_hash, text FROM rule WHERE rule_hash IN (SELECT unnest(?::VARCHAR[]))",
        [hashes],
    ).fetchall()
    rules = {text_hash: parse_rules(text, "found.rules")[0] for text_hash, text in texts}
    # Rules of several outputs are made anew of those of one, which are decided anew for it.
    combined = {rule_hash for row in rows if BESIDE in row[0] for rule_hash in row[5]}
    pairs = {rules[rule_hash].name for rule_hash in combined if rule_hash in rules}
    return {
        (left, right): Judgement(
            _PROVED if status == "open" else status,
            "" if status == "open" else reason,
            tuple(derived_by),
            tuple(rules[rule_hash] for rule_hash in rule_hashes),
        )
        for left, right, status, reason, derived_by, rule_hashes in rows
        if all(rule_hash in rules for rule_hash in rule_hashes)
        and BESIDE not in left
        and not pairs & set(derived_by)
    }


class Journal:
    """Stores a run in a catalog: its rows are there at any moment, whatever ends it."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog

    def begin(self, result: Generation) -> None:
        """Forget what an earlier run of the same parameters stored here, and note this one."""
        for table in ("generation_level", "generation_class", "generation_candidate"):
            self.catalog.connection.execute(
                f"DELETE FROM {table} WHERE run_hash = ?", [result.run_hash]
            )
        self.note(result, "running")

    def note(self, result: Generation, status: str) -> None:
        """Say how the run stands."""
        from ..gate.ledger.fingerprints import library

        with self.catalog.transaction():
            self.catalog.connection.execute(
                "DELETE FROM generation_run WHERE run_hash = ?", [result.run_hash]
            )
            self._insert(
                "generation_run",
                [
                    {
                        "run_hash": result.run_hash,
                        "command": result.command,
                        "operators": list(result.operators),
                        "nodes": result.nodes,
                        "inputs": result.inputs,
                        "seed": result.seed,
                        "specifications": library(),
                        "status": status,
                        "time_ns": round(result.seconds * 1e9),
                        "changed_at": datetime.now(UTC).replace(tzinfo=None),
                    }
                ],
            )

    def level(
        self,
        result: Generation,
        level: Level,
        enumeration: Enumeration,
        findings: Sequence[Finding],
    ) -> None:
        """Store a size that was enumerated: its classes, and the candidates it gave."""
        about = {"run_hash": result.run_hash, "nodes": level.nodes}
        with self.catalog.transaction():
            counts = {name: getattr(level, name) for name in _LEVEL}
            row = about | counts | {"equalities": len(level.equalities)}
            self._insert("generation_level", [row | {"complete": level.complete}])
            sizes = (0, 1) if level.nodes == 1 else (level.nodes,)
            self._insert(
                "generation_class",
                [
                    {
                        "run_hash": result.run_hash,
                        "class": number,
                        "nodes": enumeration.sizes[number],
                        "dtype": enumeration.sorts[number].dtype,
                        "shapes": str([list(s) for s in enumeration.sorts[number].shapes]),
                        "term": str(enumeration.term(number)),
                        "fingerprint": enumeration.digests[number].hex(),
                    }
                    for number in range(len(enumeration.terms))
                    if enumeration.sizes[number] in sizes
                ],
            )
            self._candidates(result, findings)

    def findings(
        self,
        result: Generation,
        findings: Sequence[Finding],
        verdicts: Sequence[tuple[Rule, Verdict]] = (),
    ) -> None:
        """Store what became of candidates, and the proofs of rules."""
        with self.catalog.transaction():
            self.catalog.connection.execute(
                "DELETE FROM generation_candidate WHERE run_hash = ? "
                "AND position IN (SELECT unnest(?::INTEGER[]))",
                [result.run_hash, [finding.position for finding in findings]],
            )
            self._candidates(result, findings)
            store_verdicts(self.catalog, verdicts)

    def _candidates(self, result: Generation, findings: Sequence[Finding]) -> None:
        self._insert(
            "generation_candidate",
            [
                {
                    "run_hash": result.run_hash,
                    "position": finding.position,
                    "nodes": finding.nodes,
                    "left_term": finding.candidate.texts[0],
                    "right_term": finding.candidate.texts[1],
                    "operators": list(finding.candidate.operators),
                    "variables": finding.candidate.variables,
                    "status": "open" if finding.status in _OPEN else finding.status,
                    "reason": _OPEN.get(finding.status, finding.reason),
                    "derived_by": list(finding.derived_by),
                    "rules": [rule.hash for rule in finding.rules],
                }
                for finding in findings
            ],
        )

    def _insert(self, table: str, rows: Sequence[Mapping[str, object]]) -> None:
        if rows:
            columns = {column: [row[column] for row in rows] for column in rows[0]}
            self.catalog.insert(table, columns)
