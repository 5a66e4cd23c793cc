"""`tensolog rules`: writing, checking, listing, showing and moving rules."""

import json
from pathlib import Path

import pytest
from tensolog.rules import load_rules, parse_rules
from tensolog.rules.load import load_rejected

FALSE = """\
# FoldDivision says that c cancels.
rule FoldDivision
  tags    always
  source  ["a guess"]
  given   a [*s] float64,
          c [*s]
  match
    p = Mul(a, c)
    y = Div(p, c)
  rewrite
    y = a
  equal   rounding
"""
OTHER = """\
# EliminateNegPair2 leaves out two signs.
rule EliminateNegPair2
  tags    always
  source  ["arithmetic"]
  match
    Y = Neg(X)
    Z = Neg(Y)
  rewrite
    Z = X
  equal   exact
"""


@pytest.fixture
def false_file(tmp_path):
    path = tmp_path / "false.rules"
    path.write_text(f"# About this file.\n\n{FALSE}\n{OTHER}")
    return path


def at_one(outcome):
    """A no: exit code 1, an answer on standard output, no traceback."""
    assert outcome.code == 1, outcome.err
    assert "Traceback" not in outcome.err and "error:" not in outcome.err
    return outcome.out


# ------------------------------------------------------------------------------------ names


@pytest.mark.parametrize("command", ["check", "prove", "show", "mutate"])
def test_an_unknown_name_is_answered_with_near_ones(cli, command):
    line = cli("rules", command, "MergeMatMulSharingLeft").refused()
    assert "MergeMatMulsSharingLeft" in line


@pytest.mark.parametrize("command", ["check", "prove", "format", "show", "reject"])
def test_a_file_that_is_not_there_is_an_error(cli, command, tmp_path):
    line = cli("rules", command, tmp_path / "none.rules").refused()
    assert "none.rules does not exist" in line


@pytest.mark.parametrize("command", ["check", "prove", "format", "show", "reject"])
def test_a_file_that_is_no_rule_is_an_error_with_its_place(cli, command, tmp_path):
    path = tmp_path / "bad.rules"
    path.write_text("rule R\n  tags always\n  match\n    Y = Addd(X, c)\n")
    line = cli("rules", command, path).refused()
    assert f"{path}:" in line


@pytest.mark.parametrize("command", ["check", "prove", "format", "show"])
def test_a_file_that_is_no_text_is_an_error(cli, command, tmp_path):
    path = tmp_path / "bad.rules"
    path.write_bytes(b"\xff\xfe\x00rule")
    assert "bad.rules" in cli("rules", command, path).refused()


@pytest.mark.parametrize("command", ["check", "prove"])
def test_all_and_names_exclude_each_other(cli, command):
    assert "exclude" in cli("rules", command, "--all", "EliminateIdentity").refused()


def test_an_empty_file_holds_no_rule(cli, tmp_path):
    path = tmp_path / "empty.rules"
    path.write_text("# nothing yet\n")
    assert "holds no rule" in cli("rules", "check", path).refused()


# -------------------------------------------------------------------------------------- new


def test_a_new_rule_is_well_formed_and_formatted(cli, tmp_path):
    path = tmp_path / "mine.rules"
    assert cli("rules", "new", "EliminateAddOfZero", "--file", path).code == 0
    (rule,) = parse_rules(path.read_text(), str(path))
    assert rule.name == "EliminateAddOfZero" and rule.summary
    assert cli("rules", "format", "--check", path).code == 0


def test_a_new_rule_overwrites_nothing(cli, tmp_path):
    path = tmp_path / "mine.rules"
    path.write_text("keep")
    assert "exists" in cli("rules", "new", "EliminateX", "--file", path).refused()
    assert path.read_text() == "keep"


@pytest.mark.parametrize("name", ["eliminate", "Eliminate-X", "../X", ""])
def test_a_new_rule_needs_a_name(cli, name):
    assert "no name of a rule" in cli("rules", "new", name).refused()


def test_a_new_rule_needs_a_folder(cli, tmp_path):
    path = tmp_path / "none" / "mine.rules"
    assert "not a folder" in cli("rules", "new", "EliminateX", "--file", path).refused()


# ------------------------------------------------------------------------------------ check


def test_the_template_checks(cli, tmp_path):
    path = tmp_path / "mine.rules"
    cli("rules", "new", "EliminateAddOfZero", "--file", path)
    outcome = cli("rules", "check", path, "--seconds", "0.2")
    assert outcome.code == 0
    assert "sound    EliminateAddOfZero" in outcome.out


def test_check_refutes_with_a_program(cli, false_file):
    said = at_one(cli("rules", "check", false_file, "--seconds", "2"))
    assert "refuted  FoldDivision" in said
    assert "sound    EliminateNegPair2" in said
    assert "import onnxruntime" in said


def test_check_goes_on_after_a_rule_that_cannot_be_looked_at(cli, tmp_path, monkeypatch):
    from tensolog.rules.gate import quick_check

    path = tmp_path / "two.rules"
    path.write_text(f"{OTHER}\n{FALSE}")
    look = quick_check.quick_check

    def broken(rule, seconds):
        if rule.name == "FoldDivision":
            return look(rule, seconds)
        raise RuntimeError("of the runtime")

    monkeypatch.setattr(quick_check, "quick_check", broken)
    said = at_one(cli("rules", "check", path, "--seconds", "2"))
    assert "failed" in said and "RuntimeError: of the runtime" in said
    assert "refuted  FoldDivision" in said and "2 rules of 2" in said


def test_check_takes_a_read_out_of_bounds_for_no_value(cli, tmp_path):
    path = tmp_path / "gather.rules"
    gather = "Gather<axis=0>"
    path.write_text(
        "# PushReluThroughGather reads behind the end.\nrule PushReluThroughGather\n tags explore\n"
        ' source ["derived here"]\n opset >= 13\n given X [3] float32\n'
        f" match\n  Y = Relu({gather}(X, [5]))\n rewrite\n  Y = {gather}(Relu(X), [5])\n"
        " equal exact\n"
    )
    outcome = cli("rules", "check", path, "--seconds", "0.2")
    assert outcome.code == 0, outcome.err
    assert "has its left side ever a value?" in outcome.out


def test_all_errors_of_a_file_are_told(cli, tmp_path):
    path = tmp_path / "wrong.rules"
    path.write_text(f"{OTHER}\nrule A\n tags never\n match\n  Y = Relu(X)\n\nrule B\n tag\n")
    outcome = cli("rules", "check", path)
    start = OTHER.count("\n") + 2
    places = [int(line.split(":")[2]) for line in outcome.err.splitlines()]
    assert outcome.code == 2 and not outcome.out
    assert places == [start, start + 6], outcome.err


def test_check_gives_json(cli, false_file):
    rows = json.loads(at_one(cli("rules", "check", false_file, "--seconds", "2", "--json")))
    assert {row["rule"]: row["status"] for row in rows} == {
        "FoldDivision": "refuted",
        "EliminateNegPair2": "sound",
    }


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("y = a", "y = Transpose(a)"), "on the right"),
        (("y = a", "p2 = Mul(a, c)\n    y = Div(p2, c)"), "same program"),
        (("c [*s]", "c [*s],\n          rank(a) > 3,\n          rank(a) < 2"), "together"),
        (("y = a", "y = Cast<to=1>(a)"), "float32 on the right"),
    ],
)
def test_check_refuses_what_can_be_seen(cli, tmp_path, change, reason):
    path = tmp_path / "false.rules"
    path.write_text(FALSE.replace("a [*s]", "a [m, n]").replace(*change))
    said = at_one(cli("rules", "check", path, "--seconds", "0"))
    assert "refused  FoldDivision" in said
    assert reason in said


def test_check_notes_what_a_reader_would_miss(cli, tmp_path):
    path = tmp_path / "bare.rules"
    path.write_text(OTHER.replace('  source  ["arithmetic"]\n', ""))
    outcome = cli("rules", "check", path, "--seconds", "0")
    assert outcome.code == 0
    assert "no source" in outcome.out


# ----------------------------------------------------------------------------------- format


def test_format_spells_rules_and_keeps_the_rest(cli, tmp_path):
    path = tmp_path / "loose.rules"
    loose = FALSE.replace("p = Mul(a, c)", "p   =  Mul( a,c )  # the product")
    path.write_text(f"# A head.\n\n{loose}\n\n# Between.\n\n{OTHER}")
    assert at_one(cli("rules", "format", "--check", path)).startswith("would reformat")
    assert cli("rules", "format", path).code == 0
    text = path.read_text()
    assert text.startswith("# A head.\n\n# FoldDivision says")
    assert "# the product\nrule FoldDivision\n" in text
    assert "\n\n# Between.\n\n# EliminateNegPair2" in text
    assert "    p = Mul(a, c)\n" in text
    assert cli("rules", "format", "--check", path).code == 0
    again = path.read_text()
    assert again == text


@pytest.mark.parametrize("path", sorted(Path("rules").glob("*.rules")), ids=lambda path: path.name)
def test_shipped_rules_are_formatted_and_formatting_changes_no_meaning(path):
    from tensolog.rules.language.formatter import format_file

    text = path.read_text(encoding="utf-8")
    spelled = format_file(text, path.name)
    before, after = parse_rules(text, path.name), parse_rules(spelled, path.name)
    assert [(r.name, r.hash, r.comment) for r in before] == [
        (r.name, r.hash, r.comment) for r in after
    ]
    assert format_file(spelled, path.name) == spelled
    assert spelled == text, "run tensolog rules format rules/*.rules"


# --------------------------------------------------------------------------------- list, show


def test_list_names_every_rule_with_its_status(cli):
    out = cli("rules", "list").out
    for rule in load_rules():
        assert f"  {rule.name}  " in out
    rows = json.loads(cli("rules", "list", "--json").out)
    assert {row["name"] for row in rows} == {rule.name for rule in load_rules()}
    assert {"status", "ranks", "tag", "equal", "summary"} <= set(rows[0])


def test_list_shows_rejected_rules_apart(cli):
    rows = json.loads(cli("rules", "list", "--rejected", "--json").out)
    assert [row["name"] for row in rows] == sorted(rule.name for rule in load_rejected())
    assert {row["status"] for row in rows} <= {"rejected"}


def test_show_tells_text_conditions_and_proof(cli):
    out = cli("rules", "show", "MergeMatMulsSharingLeft").out
    assert "rule MergeMatMulsSharingLeft\n" in out
    assert "W1 has shape [k, n1]" in out
    assert "\nProof\n" in out
    text = cli("rules", "show", "MergeMatMulsSharingLeft", "--text").out
    assert "\nProof\n" not in text and text.startswith("# MergeMatMulsSharingLeft ")
    rule = json.loads(cli("rules", "show", "MergeMatMulsSharingLeft", "--json").out)
    assert rule["name"] == "MergeMatMulsSharingLeft"
    assert rule["text"].strip() == text.strip()


def test_show_needs_one_rule(cli, false_file):
    assert "should hold one rule" in cli("rules", "show", false_file).refused()


# ----------------------------------------------------------------------------------- reject


def test_reject_moves_a_false_rule_with_its_witness(cli, false_file, tmp_path):
    alone = tmp_path / "alone.rules"
    alone.write_text(FALSE)
    outcome = cli("rules", "reject", alone, "--timeout", "6")
    assert outcome.code == 0, outcome.err
    assert alone.read_text() == ""
    (kept,) = parse_rules((tmp_path / "rejected.rules").read_text())
    assert kept.name == "FoldDivision"
    assert "\n# Refuted: " in kept.comment


def test_reject_leaves_other_rules_where_they_are(tmp_path):
    from tensolog.rules.language.formatter import cut_rule

    text = f"# A head.\n\n{FALSE}\n{OTHER}"
    rule, other = parse_rules(text)
    block, rest = cut_rule(text, rule)
    assert block == FALSE
    assert rest == f"# A head.\n\n{OTHER}"
    block, rest = cut_rule(text, other)
    assert block == OTHER
    assert rest == f"# A head.\n\n{FALSE}"


def test_reject_refuses_a_rule_that_holds(cli, tmp_path):
    path = tmp_path / "true.rules"
    path.write_text(OTHER)
    assert "say --why" in cli("rules", "reject", path, "--timeout", "6").refused()
    assert path.read_text() == OTHER
    assert not (tmp_path / "rejected.rules").exists()
    why = "a test says so"
    assert cli("rules", "reject", path, "--timeout", "6", "--why", why).code == 0
    assert f"# Rejected: {why}\n" in (tmp_path / "rejected.rules").read_text()
