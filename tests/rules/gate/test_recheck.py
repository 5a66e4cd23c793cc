"""A second solver's opinion, and scripts kept by content."""

import lzma

import pytest
from tensolog.rules.prover.solve import recheck as second
from tensolog.rules.prover.solve.recheck import ask_cvc5, ask_z3, recheck, recheck_all
from tensolog.rules.prover.solve.smt_scripts import (
    ScriptError,
    Scripts,
    canonical,
    digest,
    script_hash,
)

from tests.rules.hard_script import HARD

HEAD = "(set-logic ALL)\n(declare-fun x () Int)\n"
UNSAT = f"{HEAD}(assert (> x 0))\n(assert (< x 1))\n(check-sat)\n"
SAT = UNSAT.replace("(< x 1)", "(< x 2)")


@pytest.mark.parametrize("ask", [ask_z3, ask_cvc5])
def test_both_solvers_answer_a_script(ask):
    assert ask(UNSAT, 5.0) == ("unsat", "")
    assert ask(SAT, 5.0) == ("sat", "")


@pytest.mark.parametrize("ask", [ask_z3, ask_cvc5])
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (HARD, "no answer within 0.3 s"),
        (UNSAT.replace("Int", "Integer"), "doesn't take the script"),
        (UNSAT.removesuffix(")\n(check-sat)\n"), "doesn't take the script"),
    ],
    ids=["hard", "undeclared sort", "cut off"],
)
def test_what_a_solver_cannot_answer_is_unknown(ask, script, reason):
    answer, why = ask(script, 0.3)
    assert answer == "unknown"
    assert reason in why


def test_a_script_with_two_answers_is_no_obligation():
    answer, why = ask_cvc5(f"{UNSAT}(check-sat)\n", 2.0)
    assert (answer, why) == ("unknown", "cvc5 doesn't take the script: unsat unsat")


def test_opinions_on_what_is_said_to_be_unsatisfiable():
    assert recheck(UNSAT).opinion == "agree"
    assert recheck(SAT).opinion == "disagree"
    assert recheck(HARD, 0.3).opinion == "unknown"


def test_each_script_is_asked_once():
    asked = []

    def ask(script, timeout):
        asked.append(script)
        return "unsat", ""

    rechecks = recheck_all([UNSAT, SAT, UNSAT, f"; again\n{UNSAT}"], ask=ask)
    assert asked == [UNSAT, SAT]
    assert set(rechecks) == {script_hash(UNSAT), script_hash(SAT)}


def test_after_its_time_nothing_more_is_asked(monkeypatch):
    monkeypatch.setattr(second, "_AGREED", {})
    rechecks = recheck_all([HARD, UNSAT], 0.3, budget=0.2)
    assert rechecks[script_hash(UNSAT)].reason == "there was no time left to ask"
    assert {recheck.opinion for recheck in rechecks.values()} == {"unknown"}
    assert recheck_all([HARD, UNSAT], 0.3, budget=20)[script_hash(UNSAT)].opinion == "agree"


def test_only_an_agreement_is_remembered(monkeypatch):
    asked = []
    real = second.recheck

    def counted(script, timeout, ask):
        asked.append(script)
        return real(script, timeout, ask)

    monkeypatch.setattr(second, "_AGREED", {})
    monkeypatch.setattr(second, "recheck", counted)
    for _ in range(2):
        rechecks = recheck_all([UNSAT, SAT, HARD], 0.3)
        opinions = [rechecks[script_hash(script)].opinion for script in (UNSAT, SAT, HARD)]
        assert opinions == ["agree", "disagree", "unknown"]
    assert asked == [UNSAT, SAT, HARD, SAT, HARD]


def test_without_cvc5_nothing_is_rechecked_and_that_is_said(monkeypatch):
    monkeypatch.setattr(second, "_cvc5", lambda: None)
    answer = recheck(UNSAT)
    assert answer.opinion == "absent"
    assert "pip install cvc5" in answer.reason


# ------------------------------------------------------------------------------------- scripts


def test_what_is_said_about_a_script_is_no_part_of_it():
    noisy = UNSAT.replace(HEAD, f"; made by\n(set-info :status unknown)\n{HEAD}\n").replace(
        "(check-sat)", "(check-sat)  "
    )
    assert canonical(noisy) == UNSAT
    assert canonical(UNSAT.removesuffix("(check-sat)\n")) == UNSAT
    assert script_hash(noisy) == script_hash(UNSAT) != script_hash(SAT)


def test_a_digest_is_of_the_set():
    assert digest(["a", "b"]) == digest(["b", "a", "b"]) != digest(["a"])


def stored() -> Scripts:
    scripts = Scripts()
    scripts.put("one", [UNSAT, HARD, UNSAT])
    scripts.put("two", [SAT, HARD])
    scripts.put("none", [])
    return scripts


def test_scripts_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "scripts.xz"
    stored().write(path)
    read = Scripts.read(path)
    assert read == stored()
    assert read.of("one") == (UNSAT, HARD)
    assert read.of("two") == (SAT, HARD)
    assert read.of("none") == read.of("three") == ()
    assert Scripts.read(tmp_path / "none.xz") == Scripts()


def test_the_file_does_not_depend_on_the_order_of_work(tmp_path):
    first, other = tmp_path / "one.xz", tmp_path / "other.xz"
    stored().write(first)
    scripts = Scripts()
    scripts.put("two", [SAT])
    scripts.put("none", [])
    scripts.put("two", [SAT, f"; noise\n{HARD}"])
    scripts.put("one", [UNSAT, HARD])
    scripts.write(other)
    assert first.read_bytes() == other.read_bytes()


def test_the_file_is_itself_a_script(tmp_path):
    path = tmp_path / "scripts.xz"
    stored().write(path)
    parts = lzma.decompress(path.read_bytes()).decode().split("(reset)\n")[:-1]
    assert [ask_z3(part, 0.3)[0] for part in parts] == ["unsat", "unknown", "sat"]


def damage(path, change):
    path.write_bytes(change(path.read_bytes()))


def rewrite(text, with_text):
    return lambda data: lzma.compress(lzma.decompress(data).replace(text, with_text))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda data: data[:-20], "can't read the scripts"),
        (lambda data: b"x" + data, "can't read the scripts"),
        (rewrite(b"again 1", b"again 7"), "two refers to no script"),
        (rewrite(b"again 1", b"again x"), "two refers to no script"),
        (lambda data: lzma.compress(lzma.decompress(data)[:-20]), "of two has no end"),
    ],
    ids=["cut off", "no xz", "no such number", "no number", "script cut off"],
)
def test_a_damaged_file_of_scripts_is_told(tmp_path, change, reason):
    path = tmp_path / "scripts.xz"
    scripts = stored()
    scripts.put("two", [HARD, SAT])
    scripts.write(path)
    damage(path, change)
    with pytest.raises(ScriptError, match=reason):
        Scripts.read(path)
