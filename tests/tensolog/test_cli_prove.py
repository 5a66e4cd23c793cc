"""`tensolog rules prove`, `replay`, `impact`, `value`, `mutate` and `import`, on little."""

import json
from types import SimpleNamespace

import pytest
from tensolog.catalog import Catalog
from tensolog.optimizer.explain import rule_value as value_module
from tensolog.optimizer.match.rewrite import Step
from tensolog.optimizer.result.outcome import Candidate
from tensolog.rules import load_rules
from tensolog.rules.gate.ledger import ledger as ledger_module
from tensolog.rules.gate.ledger.ledger import Entry, Ledger

from .test_cli_rules import FALSE, OTHER, at_one


@pytest.fixture
def true_file(tmp_path):
    path = tmp_path / "true.rules"
    path.write_text(OTHER)
    return path


@pytest.fixture
def false_file(tmp_path):
    path = tmp_path / "false.rules"
    path.write_text(FALSE)
    return path


@pytest.fixture
def no_entries(monkeypatch):
    monkeypatch.setattr(ledger_module, "shipped", Ledger)


# ------------------------------------------------------------------------------------ prove


def test_a_rule_of_ones_own_is_proved_and_kept_in_the_catalog(cli, true_file):
    outcome = cli("rules", "prove", true_file, "--jobs", "1")
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith(("proved", "bounded"))
    assert "\n1 rule: 1 " in outcome.out
    query = "SELECT status FROM proof JOIN rule USING (rule_hash)"
    (row,) = json.loads(cli("sql", query, "--format", "json").out)
    assert row["status"] in ("proved", "bounded")
    shown = json.loads(cli("rules", "show", true_file, "--json").out)
    assert shown["ledger"] is None
    assert shown["catalog"]["proof"]["status"] == row["status"]


def test_a_false_rule_is_refuted_with_a_program(cli, false_file):
    said = at_one(cli("rules", "prove", false_file, "--jobs", "1"))
    assert said.startswith("refuted")
    assert "import onnxruntime" in said
    assert "Counterexample" in cli("rules", "show", false_file).out


def test_each_verdict_is_printed_as_it_falls(cli, tmp_path, monkeypatch):
    from tensolog.rules.gate import prover_pool
    from tensolog.rules.gate.verdict import Verdict

    path = tmp_path / "two.rules"
    path.write_text(f"{OTHER}\n{FALSE}")
    printed = []

    def prove_rules(rules, workers, progress, **options):
        for rule in rules:
            progress(rule, Verdict(rule.name, rule.hash, "unknown", "no reason"))
            printed.append(rule.name)
        raise KeyboardInterrupt

    monkeypatch.setattr(prover_pool, "prove_rules", prove_rules)
    outcome = cli("rules", "prove", path)
    assert len(printed) == 2 and outcome.code != 0
    assert [line.split()[1] for line in outcome.out.splitlines()[::2]] == printed


def test_prove_gives_json(cli, false_file):
    (verdict,) = json.loads(at_one(cli("rules", "prove", false_file, "--jobs", "1", "--json")))
    assert verdict["rule"] == "FoldDivision"
    assert verdict["status"] == "refuted"
    assert verdict["counterexample"]["kind"] == "defined"


def test_locked_proves_nothing_and_names_what_has_no_entry(cli, no_entries):
    said = at_one(cli("rules", "prove", "EliminateIdentity", "--locked"))
    assert "EliminateIdentity: the rule has not been put through the gate" in said
    report = json.loads(at_one(cli("rules", "prove", "EliminateIdentity", "--locked", "--json")))
    assert report["problems"][0]["kind"] == "missing"


def test_locked_names_entries_of_rules_that_are_gone(cli, monkeypatch):
    entry = Entry("EliminateNothing", "0" * 64, "proved")
    monkeypatch.setattr(ledger_module, "shipped", lambda: Ledger({entry.hash: entry}))
    said = at_one(cli("rules", "prove", "--all", "--locked"))
    assert "EliminateNothing: the ledger speaks of it, and there is no such rule" in said
    assert "1 entry of no rule in the ledger: run tensolog rules prove --all --stale" in said
    report = json.loads(at_one(cli("rules", "prove", "--all", "--locked", "--json")))
    assert report["problems"][-1]["kind"] == "orphan"
    assert "EliminateNothing" not in at_one(cli("rules", "prove", "EliminateIdentity", "--locked"))


def test_the_shipped_rules_are_locked(cli):
    assert cli("rules", "prove", "--all", "--locked").code == 0


def test_prove_needs_to_be_told_what(cli):
    assert "--all" in cli("rules", "prove", "--jobs", "1").refused()


# ----------------------------------------------------------------------------------- replay


def test_what_was_proved_is_replayed_from_the_catalog(cli):
    name = "EliminateFlatten"
    assert cli("rules", "prove", name, "--no-ledger", "--jobs", "1").code == 0
    outcome = cli("rules", "replay", name, "--own")
    assert outcome.code == 0, outcome.err
    assert "of 1 rule: " in outcome.out
    assert "unsat" in outcome.out
    answers = json.loads(cli("rules", "replay", "--own", "--json").out)
    assert {answer["answer"] for answer in answers} == {"unsat"}
    assert {answer["rule"] for answer in answers} == {name}


def test_nothing_to_replay_is_an_error(cli, true_file):
    cli("rules", "list")
    assert cli("rules", "replay", "--own").refused()


def test_a_proof_without_questions_is_no_error(cli):
    entries = ledger_module.shipped().entries.values()
    name = next(entry.rule for entry in entries if not entry.obligations)
    outcome = cli("rules", "replay", name)
    assert outcome.code == 0, outcome.err
    assert outcome.out == f"{name}: the proof asks nothing of a solver\n"


def test_replay_of_a_rule_that_is_not_there_is_an_error(cli):
    assert "NoSuchRule" in cli("rules", "replay", "NoSuchRule").refused()


# ----------------------------------------------------------------------------------- impact


def test_impact_says_where_a_rule_fires(cli, small_model):
    outcome = cli("rules", "impact", "EliminateIdentity", small_model, "--budget", "0")
    assert outcome.code == 0, outcome.err
    assert "fires at 1 place" in outcome.out
    assert "at same: 1 -> 0 nodes" in outcome.out


def test_impact_gives_json_for_each_model(cli, small_model, false_file):
    outcome = cli(
        "rules", "impact", false_file, small_model, small_model, "--budget", "0", "--json"
    )
    impact = json.loads(outcome.out)
    assert impact["rule"] == "FoldDivision"
    assert [model["places"] for model in impact["models"]] == [[], []]


def test_impact_of_a_file_that_is_no_model_is_an_error(cli, true_file):
    assert cli("rules", "impact", "EliminateIdentity", true_file).refused()


# ------------------------------------------------------------------------------------ value


def test_value_says_where_rules_match_and_what_the_winner_gains(cli, small_model):
    outcome = cli("rules", "value", "EliminateIdentity", "--models", small_model, "--budget", "0")
    assert outcome.code == 0, outcome.err
    head, _, row = outcome.out.splitlines()
    assert "of the original's time" in head
    assert row.split()[:2] == ["EliminateIdentity", "1"]
    query = "SELECT rule, places FROM plan_rule JOIN plan USING (plan_id)"
    assert json.loads(cli("sql", query, "--format", "json").out) == [
        {"rule": "EliminateIdentity", "places": 1}
    ]


def test_value_gives_json_for_each_model_and_leaves_out_what_does_not_match(cli, small_model):
    arguments = ("--models", small_model, "--budget", "0", "--json")
    (value,) = json.loads(cli("rules", "value", "JoinTiles", *arguments).out)["models"]
    assert (value["rules"], value["chosen"]) == ([], "original")


def test_value_refuses_a_rule_that_is_not_proved(cli, small_model, true_file):
    outcome = cli("rules", "value", true_file, "--models", small_model, "--budget", "0")
    assert "run tensolog rules prove" in outcome.refused()


def test_value_without_a_rule_is_that_of_a_plan_that_does_without_it(monkeypatch, small_model):
    """The winner with the rule takes half of the time, the one without it 0.8."""

    def optimized(model, *, rules, catalog, **options):
        uses = any(rule.name == "EliminateIdentity" for rule in rules)
        raced = Candidate("plan", 2, "faster", ratio=0.5 if uses else 0.8)
        steps = [Step("EliminateIdentity", ("same",), 1, 0, True, "", cost_before_ns=3.0)] * uses
        return SimpleNamespace(
            plan=steps, candidates=[raced], chosen="plan", nodes_before=3, plan_id=None
        )

    monkeypatch.setattr(value_module, "optimize", optimized)
    asked = [rule for rule in load_rules() if rule.name in ("EliminateIdentity", "JoinTiles")]
    with Catalog(":memory:") as catalog:
        model_value = value_module.value_of(
            asked, (), small_model, name="small", catalog=catalog, leave_one_out=True
        )
    (value,) = model_value.rules
    assert (value.places, value.applied, value.gain_ns) == (1, 1, None)
    assert (model_value.winner.ratio, value.without.ratio) == (0.5, 0.8)


# ----------------------------------------------------------------------------------- mutate


def test_mutate_counts_and_lists(cli):
    outcome = cli("rules", "mutate", "JoinTransposes", "--count", "3", "--jobs", "1")
    assert outcome.code == 0, outcome.err
    assert "FALSE AND ACCEPTED" in outcome.out
    assert outcome.out.startswith("3 mutants of 1 rule, seed 0")


# ----------------------------------------------------------------------------------- import


def test_import_reads_equations(cli, tmp_path):
    path = tmp_path / "equations.txt"
    sides = ("ewadd(input_1,input_2) == ewadd(input_2,input_1)", "relu(input_1) == tanh(input_1)")
    path.write_text("\n".join(sides))
    outcome = cli("rules", "import", path, "--jobs", "1", "--json")
    assert outcome.code == 1, outcome.err  # one is refuted
    report = json.loads(outcome.out)
    assert report["system"] == "tensat"
    assert (report["totals"]["proved"], report["totals"]["refuted"]) == (1, 1)


def test_import_prints_nothing_beside_json(cli, tmp_path):
    path = tmp_path / "equations.txt"
    path.write_text("ewadd(input_1,input_2) == ewadd(input_2,input_1)\n")
    outcome = cli("rules", "import", path, "--jobs", "1", "--json")
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["totals"]["proved"] == 1


def test_import_ends_with_a_no_where_the_file_says_something_wrong(cli, tmp_path):
    path, out = tmp_path / "equations.txt", tmp_path / "some.rules"
    good = "matmul(input_1,matmul(input_2,input_3)) == matmul(matmul(input_1,input_2),input_3)\n"
    path.write_text(good)
    assert cli("rules", "import", path, "--jobs", "1").code == 0
    path.write_text(f"{good}== input_1\n")
    outcome = cli("rules", "import", path, "--jobs", "1", "--out", out)
    assert outcome.code == 1
    assert "2 rules: 1 proved, 1 unreadable" in outcome.out
    assert "the left side is missing" in outcome.out
    assert out.read_text().count("rule ") == 1


def test_import_overwrites_nothing(cli, tmp_path):
    path = tmp_path / "equations.txt"
    path.write_text("ewadd(input_1,input_2) == ewadd(input_2,input_1)\n")
    assert "exists" in cli("rules", "import", path, "--out", path).refused()


def test_import_of_what_holds_no_rules_is_an_error(cli, tmp_path):
    path = tmp_path / "nothing.txt"
    path.write_text("hello\n")
    assert cli("rules", "import", path).refused()
