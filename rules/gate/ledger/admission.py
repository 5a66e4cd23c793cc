"""Which rules may be applied: those with a proof that still holds, in the ledger or a catalog."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...language.rank_bounds import from_record
from ...language.syntax import Rule
from ...load import load_rules
from .fingerprints import normaliser, specifications
from .ledger import ADMITTED, admitted

if TYPE_CHECKING:
    from ....catalog import Catalog


def applicable() -> tuple[Rule, ...]:
    """Return the shipped rules that may be applied, those that are bounded within their ranks."""
    return admitted(load_rules())


def proved(rules: Sequence[Rule], catalog: Catalog) -> tuple[Rule, ...]:
    """Keep the rules that the ledger admits, or that were proved on this catalog.

    Those that are bounded are restricted to what they are proved for. An edit of the rule, of a
    specification or of the prover voids a proof.
    """
    by_ledger = {rule.hash: rule for rule in admitted(rules)}
    rows = catalog.sql(
        "SELECT rule_hash, status, within FROM proof "
        "WHERE prover = ? AND status IN (SELECT unnest(?::VARCHAR[]))",
        [normaliser(), list(ADMITTED)],
    ).fetchall()
    recorded = {name: json.loads(within) for name, status, within in rows}
    bounded = {name for name, status, _ in rows if status == "bounded"}
    proved_rules = []
    for rule in rules:
        if rule.hash in by_ledger:
            proved_rules.append(by_ledger[rule.hash])
        elif rule.hash in recorded and _unchanged(rule, catalog):
            within = from_record(recorded[rule.hash])
            if within or rule.hash not in bounded:
                proved_rules.append(replace(rule, proved_for=within))
    return tuple(proved_rules)


def _unchanged(rule: Rule, catalog: Catalog) -> bool:
    """Whether the operators of a rule mean what they did when it was proved."""
    hashes = dict(
        catalog.sql(
            "SELECT operator, specification_hash FROM proof_specification WHERE rule_hash = ?",
            [rule.hash],
        ).fetchall()
    )
    return hashes == specifications(rule)
