"""What a run leaves in the catalog, whatever ends it, and that the same run goes on from there."""

import pytest
from tensolog.catalog import Catalog
from tensolog.catalog.store.staging import stage
from tensolog.optimizer.egraph import equalities
from tensolog.rules import generate
from tensolog.rules.generation import run
from tensolog.rules.generation.rows import Journal, judgements

SETTINGS = {"nodes": 2, "inputs": 1, "known": (), "workers": 1}
OPERATORS = ["Floor", "Ceil"]


class Interrupting:
    """The e-graph, until it is asked for the nth time whether something is derived."""

    def __init__(self, times):
        self.times = times

    def derived_equalities(self, model, pairs, rules):
        self.times -= 1
        if self.times < 0:
            raise KeyboardInterrupt
        return equalities.derived_equalities(model, pairs, rules)

    def derivation(self, model, pairs, rules):
        return equalities.derivation(model, pairs, rules)


def rows(catalog, result):
    return catalog.sql(
        "SELECT left_term || ' = ' || right_term, status, derived_by, len(rules) "
        "FROM generation_candidate WHERE run_hash = ? ORDER BY position",
        [result.run_hash],
    ).fetchall()


def expected_rows(result):
    return [
        (finding.candidate.text, finding.status, list(finding.derived_by), len(finding.rules))
        for finding in result.findings
    ]


@pytest.fixture(scope="module", autouse=True)
def chunks_of_one():
    """Each rule is stored before the next one is proved."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "_CHUNK", 1)
        yield


@pytest.fixture(scope="module")
def whole(chunks_of_one):
    with Catalog(":memory:") as catalog:
        result = generate(OPERATORS, saturation=equalities, journal=Journal(catalog), **SETTINGS)
        yield catalog, result


def test_all_that_was_seen_is_rows(whole):
    catalog, result = whole
    assert result.complete and result.rules
    assert rows(catalog, result) == expected_rows(result)
    levels = catalog.sql(
        "SELECT nodes, terms, classes, equalities FROM generation_level"
    ).fetchall()
    assert levels == [(n.nodes, n.terms, n.classes, len(n.equalities)) for n in result.levels]
    count = catalog.sql("SELECT count(*) FROM generation_class").fetchall()
    assert count == [(1 + sum(level.classes for level in result.levels),)]
    run = catalog.sql("SELECT status, command, operators FROM generation_run").fetchall()
    assert run == [("complete", result.command, ["Floor", "Ceil"])]


def test_a_kept_candidate_leads_to_its_rule_and_proof(whole):
    catalog, result = whole
    kept_rows = catalog.sql(
        "SELECT rule.name, proof.status FROM generation_candidate "
        "JOIN rule ON list_contains(rules, rule.rule_hash) JOIN proof USING (rule_hash) "
        "WHERE list_contains(operators, 'Ceil') AND generation_candidate.status = 'kept'"
    ).fetchall()
    kept = {rule.name for rule in result.rules if "Ceil" in rule.text}
    assert {name for name, _ in kept_rows} == kept
    assert {status for _, status in kept_rows} <= {"proved", "bounded"}


def test_an_interrupted_run_goes_on_where_it_was(whole, tmp_path):
    _, result = whole
    path = tmp_path / "c.duckdb"
    with pytest.raises(KeyboardInterrupt), stage(path) as catalog:
        generate(OPERATORS, saturation=Interrupting(1), journal=Journal(catalog), **SETTINGS)
    with Catalog(path) as catalog:
        decided = judgements(catalog, result.run_hash)
        assert catalog.sql("SELECT status FROM generation_run").fetchall() == [("stopped",)]
        assert ("open",) in catalog.sql(
            "SELECT DISTINCT status FROM generation_candidate"
        ).fetchall()
    assert 0 < len(decided) < len(result.findings)
    with stage(path) as catalog:
        again = generate(
            OPERATORS,
            saturation=equalities,
            journal=Journal(catalog),
            recall=lambda run_hash: decided if run_hash == result.run_hash else {},
            **SETTINGS,
        )
    assert again.run_hash == result.run_hash
    assert expected_rows(again) == expected_rows(result)
    assert [rule.hash for rule in again.rules] == [rule.hash for rule in result.rules]
    with Catalog(path) as catalog:
        assert rows(catalog, again) == expected_rows(result)
        assert catalog.sql("SELECT status FROM generation_run").fetchall() == [("complete",)]
        classes = catalog.sql("SELECT count(*), count(DISTINCT class) FROM generation_class")
        ((count, distinct),) = classes.fetchall()
        assert count == distinct  # the rows of the first run are replaced
