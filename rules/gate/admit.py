"""Which rules may be applied: those with a proof that still holds, in the ledger or a catalog."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..load import load_rules
from ..syntax import Rule
from .ledger import ADMITTED, admitted
from .versions import normaliser, specifications

if TYPE_CHECKING:
    from ...catalog import Catalog


def applicable() -> tuple[Rule, ...]:
    """Return the shipped rules that may be applied."""
    return admitted(load_rules())


def proved(rules: Sequence[Rule], catalog: Catalog) -> tuple[Rule, ...]:
    """Keep the rules that the ledger admits, or that were proved on this catalog.

    An edit of the rule, of a specification or of the prover voids a proof.
    """
    by_ledger = set(admitted(rules))
    held = {
        name
        for (name,) in catalog.sql(
            "SELECT rule_hash FROM proof "
            "WHERE prover = ? AND status IN (SELECT unnest(?::VARCHAR[]))",
            [normaliser(), list(ADMITTED)],
        ).fetchall()
    }
    return tuple(
        rule
        for rule in rules
        if rule in by_ledger or (rule.hash in held and _unchanged(rule, catalog))
    )


def _unchanged(rule: Rule, catalog: Catalog) -> bool:
    """Whether the operators of a rule mean what they did when it was proved."""
    known = dict(
        catalog.sql(
            "SELECT operator, specification_hash FROM proof_specification WHERE rule_hash = ?",
            [rule.hash],
        ).fetchall()
    )
    return known == specifications(rule)
