"""Only rules with a proof that still holds are applied."""

from dataclasses import replace

import pytest
from tensolog.catalog import Catalog
from tensolog.rules import load_rules
from tensolog.rules.gate.ledger import admission, ledger
from tensolog.rules.gate.ledger.admission import applicable, proved
from tensolog.rules.gate.ledger.ledger import Ledger
from tensolog.rules.gate.ledger.proof_tables import store_verdicts
from tensolog.rules.gate.verdict import Verdict
from tensolog.rules.language.rank_bounds import Within

RULES = load_rules()[:3]


SOME = Within(("rank(X)",), frozenset({(1,), (2,)}))


def verdict(rule, status):
    within = (SOME,) if status == "bounded" else ()
    reason = "" if status == "proved" else "a test says so"
    return Verdict(rule.name, rule.hash, status, reason, within=within)


@pytest.fixture
def entries(monkeypatch):
    """A ledger of its own: one rule proved, one unknown, one not there."""
    ledger_ = Ledger()
    for rule, status in zip(RULES, ("proved", "unknown"), strict=False):
        ledger_.record(rule, verdict(rule, status))
    monkeypatch.setattr(ledger, "shipped", lambda: ledger_)
    return ledger_


def test_the_ledger_decides_which_shipped_rules_are_applied(entries):
    assert applicable() == (RULES[0],)


def test_a_changed_prover_voids_what_it_proved(entries, monkeypatch):
    monkeypatch.setattr(ledger, "normaliser", lambda: "another")
    assert applicable() == ()


def test_rules_of_ones_own_are_admitted_by_the_catalog(entries, monkeypatch):
    with Catalog(":memory:") as catalog:
        assert proved(RULES, catalog) == (RULES[0],)
        verdicts = [
            (RULES[1], verdict(RULES[1], "unknown")),
            (RULES[2], verdict(RULES[2], "bounded")),
        ]
        store_verdicts(catalog, verdicts)
        bounded = replace(RULES[2], proved_for=(SOME,))
        assert proved(RULES, catalog) == (RULES[0], bounded)
        catalog.connection.execute("UPDATE proof_specification SET specification_hash = 'other'")
        assert proved(RULES, catalog) == (RULES[0],)
        monkeypatch.setattr(admission, "normaliser", lambda: "another")
        assert RULES[2].name not in {rule.name for rule in proved(RULES, catalog)}
