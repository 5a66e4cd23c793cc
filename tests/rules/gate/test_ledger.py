"""The ledger: what voids an entry, and how the file bears being cut, edited and read by others."""

import ast
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tensolog.catalog import Catalog
from tensolog.rules import parse_rules
from tensolog.rules.gate.ledger import fingerprints
from tensolog.rules.gate.ledger import ledger as module
from tensolog.rules.gate.ledger.ledger import Ledger, LedgerError, admitted, locked
from tensolog.rules.gate.ledger.proof_tables import store_ledger, store_verdicts
from tensolog.rules.gate.ledger.replay import (
    ReplayError,
    group,
    replay,
    store_scripts,
    stored,
    stored_in,
)
from tensolog.rules.gate.verdict import Case, Checked, Counterexample, Verdict
from tensolog.rules.language.rank_bounds import Within
from tensolog.rules.prover.solve.smt_scripts import Scripts, script_hash

ROOT = Path(__file__).parents[3]
TEXT = """
# EliminateIdentity drops an Identity.
rule EliminateIdentity
  tags    always
  source  [identity]
  match
    Y = Identity(X)
  rewrite
    Y = X
  equal   exact

# ConvertReluToMax writes Relu out.
rule ConvertReluToMax
  tags    explore
  source  [definition]
  opset   >= 13
  given   X [*s] float32
  match
    Y = Relu(X)
  rewrite
    Y = Max(X, 0)
  equal   exact

# ReorderProduct is associativity.
rule ReorderProduct
  tags    explore
  source  [algebra]
  given   A [m, k], B [k, n], C [n, p]
  match
    Y = MatMul(MatMul(A, B), C)
  rewrite
    Y = MatMul(A, MatMul(B, C))
  equal   rounding
"""
RULES = {rule.name: rule for rule in parse_rules(TEXT, "some.rules")}
UNSAT = "(set-logic ALL)\n(declare-fun x () Int)\n(assert (> x 0))\n(assert (< x 1))\n(check-sat)\n"
SAT = UNSAT.replace("(< x 1)", "(< x 2)")


def proved(rule, script=UNSAT, **changes):
    return replace(
        Verdict(
            rule.name,
            rule.hash,
            "proved",
            ranks="all",
            algebras=("real",),
            cases=(Case("rank 2", "proved", "", 3, 0.25),),
            seconds=0.251,
            obligations=(Checked("rank 2", "sizes agree", script, 0.01, "agree", 0.02),),
            solver="z3 5.4.0",
            rechecker="cvc5 1.4.2",
        ),
        **changes,
    )


REFUTED = Counterexample("value", "3 is not 4 at m = 1", "print(3)")


@pytest.fixture
def ledger():
    ledger_ = Ledger()
    for rule in RULES.values():
        ledger_.record(rule, proved(rule))
    return ledger_


@pytest.fixture
def path(tmp_path, ledger):
    ledger.save(tmp_path / "ledger.jsonl")
    return tmp_path / "ledger.jsonl"


# ---------------------------------------------------------------------------- what voids an entry


def test_proved_rules_are_admitted(path):
    read = Ledger.load(path)
    assert locked(tuple(RULES.values()), read) == []
    assert admitted(tuple(RULES.values()), read) == tuple(RULES.values())


PRINT = """
import json, sys
from pathlib import Path
from tensolog.rules import parse_rules
from tensolog.rules.gate import ledger
assert Path(ledger.__file__).is_relative_to(sys.argv[1]), ledger.__file__
rules = parse_rules(Path(sys.argv[3]).read_text(), "some.rules")
found = ledger.locked(rules, ledger.Ledger.load(Path(sys.argv[2])))
print(json.dumps([[p.rule, p.kind, p.reason] for p in found]))
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the package that a test may edit, to be put back after it."""
    top = tmp_path_factory.mktemp("tree")
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "tensolog", top / "tensolog", ignore=ignore)
    for folder in ("catalog", "profiles", "rules", "optimizer"):
        shutil.copytree(ROOT / folder, top / "tensolog" / folder, ignore=ignore)
    return top


OPS = "tensolog/catalog/operators/"
EVERY = list(RULES)
CHANGES = {
    "nothing": ("", "", "", [], ""),
    "a rule": ("rules", "Max(X, 0)", "Max(X, 1)", ["ConvertReluToMax"], "edited"),
    "the types of a rule": ("rules", "float32", "float64", ["ConvertReluToMax"], "edited"),
    "a condition of a rule": ("rules", "C [n, p]", "C [n, p], m > 1", ["ReorderProduct"], "edited"),
    "a comment of a rule": ("rules", "writes Relu out", "is a definition", [], ""),
    "spacing of a rule": ("rules", "Max(X, 0)", "Max( X,  0 )", [], ""),
    "an operator's specification": (
        OPS + "activation.ops",
        "op Relu (X [*s]) -> Y [*s]",
        "op Relu (X [*t]) -> Y [*t]",
        ["ConvertReluToMax"],
        "specification",
    ),
    "another operator's specification": (
        OPS + "activation.ops",
        "op Selu (X [*s]) -> Y [*s]",
        "op Selu (X [*t]) -> Y [*t]",
        [],
        "",
    ),
    "a comment of the specifications": (OPS + "contraction.ops", "#", "# ", [], ""),
    "a module of the prover": (
        "tensolog/rules/prover/statement.py",
        "class Statement:",
        "class Statement:  # new",
        EVERY,
        "normaliser",
    ),
    "a module in a folder of the prover": (
        "tensolog/rules/prover/normal/sums.py",
        "class Place:",
        "class Place:  # new",
        EVERY,
        "normaliser",
    ),
    "the expansion of specifications": (
        OPS + "expand.py",
        "class Definition:",
        "class Definition:  # new",
        EVERY,
        "normaliser",
    ),
    "what a rule's conditions are": (
        "tensolog/rules/language/conditions.py",
        "from __future__",
        "# new\nfrom __future__",
        EVERY,
        "normaliser",
    ),
    "a module that nothing is proved with": (
        "tensolog/rules/compiler/failed_conditions.py",
        "from __future__",
        "# new\nfrom __future__",
        [],
        "",
    ),
    "a verdict": ("ledger", '"status": "proved"', '"status": "unknown"', EVERY[:1], "verdict"),
    "the name of an entry": ("ledger", "Relu", "Elu", ["ConvertReluToMax"], "specification"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_entry_is_void_where_what_it_rests_on_changed(change, tree, path, tmp_path):
    place, old, new, names, kind = CHANGES[change]
    rules = tmp_path / "some.rules"
    rules.write_text(TEXT)
    edited = {"": rules, "rules": rules, "ledger": path}.get(place, tree / place)
    text = edited.read_text()
    assert old in text
    if change == "a verdict":  # of the first rule alone
        lines = text.splitlines(keepends=True)
        position = next(i for i, line in enumerate(lines) if EVERY[0] in line)
        lines[position] = lines[position].replace(old, new)
        edited.write_text("".join(lines))
    elif change == "the name of an entry":  # an operator that the entry knows nothing of
        edited.write_text(text.replace('"Relu": ', '"Elu": '))
    else:
        edited.write_text(text.replace(old, new, 1))
    try:
        run = subprocess.run(
            [sys.executable, "-P", "-c", PRINT, str(tree), str(path), str(rules)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
        )
    finally:
        edited.write_text(text)
    problems = json.loads(run.stdout)
    assert sorted(rule for rule, _, _ in problems) == sorted(names)
    assert {k for _, k, _ in problems} == ({kind} if kind else set())


def test_a_rule_without_an_entry_is_told(ledger):
    rule = RULES["ReorderProduct"]
    del ledger.entries[rule.hash]
    assert [str(p) for p in locked([rule], ledger)] == [
        "ReorderProduct: the rule has not been put through the gate"
    ]
    assert admitted([rule], ledger) == ()


@pytest.mark.parametrize("status", ["refuted", "refused", "unknown"])
def test_only_a_proof_admits(ledger, status):
    rule = RULES["ReorderProduct"]
    ledger.record(rule, proved(rule, status=status, reason="for a reason"))
    assert admitted([rule], ledger) == ()
    (problem,) = locked([rule], ledger)
    assert str(problem) == f"ReorderProduct: the rule is {status}: for a reason"


def test_a_bounded_rule_is_admitted_as_such(ledger):
    rule = RULES["ReorderProduct"]
    within = (Within(("rank(X)",), frozenset({(2,), (3,)})),)
    entry = ledger.record(rule, proved(rule, status="bounded", within=within))
    assert entry.within == {"rank(X)": [2, 3]}
    (restricted,) = admitted([rule], ledger)
    assert restricted == replace(rule, proved_for=within)
    assert restricted != rule


def test_a_bounded_rule_that_says_no_ranks_is_not_admitted(ledger):
    rule = RULES["ReorderProduct"]
    ledger.record(rule, proved(rule, status="bounded", ranks="2 to 5"))
    assert admitted([rule], ledger) == ()
    (problem,) = locked([rule], ledger)
    assert problem.reason == "it isn't said for which ranks it is proved"


def test_what_the_prover_imports_is_all_in_its_version():
    """Follow the imports of the prover: what statements are made of voids them when edited."""
    waiting = sorted((ROOT / "rules" / "prover").rglob("*.py"))
    seen = set(waiting)
    while waiting:
        file = waiting.pop()
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = file.parents[node.level - 1]
                base = base.joinpath(*(node.module or "").split(".")) if node.module else base
                names = [base.with_suffix(".py"), *(base / f"{a.name}.py" for a in node.names)]
                if not base.with_suffix(".py").exists():
                    names.append(base / "__init__.py")
                for name in names:
                    if name.exists() and name not in seen:
                        seen.add(name)
                        waiting.append(name)
    for folder, listed in (
        ("rules/language", fingerprints.LANGUAGE),
        ("catalog/terms", fingerprints.TERMS),
        ("catalog/operators", fingerprints.OPERATORS),
    ):
        used = {p.name for p in seen if p.parent == ROOT / folder} - {"__init__.py"}
        missing = used - set(listed) - set(fingerprints.INDIFFERENT)
        assert not missing, f"{folder}: list them in fingerprints.py"
        assert {name for name in listed if name.endswith(".py")} <= used, folder


def test_the_shipped_ledger_is_read_without_a_solver():
    code = (
        "import sys; from tensolog.rules.gate.ledger import shipped; shipped();"
        "print(*sorted(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"z3", "cvc5"} & set(run.stdout.split())


# -------------------------------------------------------------------------------------- the file


def test_the_ledger_is_read_as_it_was_written(path, ledger):
    read = Ledger.load(path)
    assert read == ledger
    before = path.read_bytes()
    read.save(path)
    assert path.read_bytes() == before
    names = [json.loads(line)["rule"] for line in path.read_text().splitlines()[1:]]
    assert names == sorted(RULES)


def test_one_proof_changes_one_line(path, ledger):
    before = path.read_text().splitlines()
    rule = RULES["ReorderProduct"]
    ledger.record(rule, proved(rule, script=SAT))
    ledger.save(path)
    after = path.read_text().splitlines()
    assert [a != b for a, b in zip(before, after, strict=True)] == [False, False, False, True]


def test_a_proof_that_says_the_same_keeps_its_time(ledger):
    rule = RULES["ReorderProduct"]
    assert ledger.record(rule, proved(rule, seconds=9.0)).seconds == 0.25
    assert ledger.record(rule, proved(rule, seconds=9.0, ranks="2")).seconds == 9.0


def test_an_edited_rule_leaves_one_entry(ledger):
    text = TEXT.replace("Max(X, 0)", "Max(0, X)")
    rule = next(r for r in parse_rules(text, "some.rules") if r.name == "ConvertReluToMax")
    ledger.record(rule, proved(rule))
    assert [e.hash for e in ledger.entries.values() if e.rule == rule.name] == [rule.hash]


def test_entries_of_rules_that_are_gone_are_dropped(ledger):
    kept = [RULES["ReorderProduct"]]
    gone = ledger.keep(kept)
    assert sorted(entry.rule for entry in gone) == ["ConvertReluToMax", "EliminateIdentity"]
    assert [entry.rule for entry in ledger.entries.values()] == ["ReorderProduct"]


def test_a_ledger_that_is_not_there_has_no_entries(tmp_path):
    assert Ledger.load(tmp_path / "none.jsonl") == Ledger()


LINE = 3


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda line: line[:40], "is no line of a ledger"),
        (lambda line: "<<<<<<< HEAD", "is no line of a ledger"),
        (lambda line: "", "is no line of a ledger"),
        (lambda line: "[1]", "an object is expected"),
        (lambda line: line.replace('"rule"', '"name"'), "has no 'rule'"),
        (lambda line: line.replace('"ranks"', '"Ranks"'), "doesn't know"),
        (lambda line: line.replace('"proved"', '"true"'), "'true' is no verdict"),
        (lambda line: line.replace('"proved"', "true"), "'status' is True"),
        (lambda line: line.replace('["real"]', '"real"'), "'algebras' is 'real'"),
        (lambda line: line[:-1] + ', "within": {"X": [1]}}', "'within' is 'X': [1]"),
        (lambda line: line.replace("EliminateIdentity", "X") + "\n" + line, "an entry already"),
    ],
    ids=[
        "cut off",
        "a conflict",
        "an empty line",
        "a list",
        "no name",
        "an unknown field",
        "an unknown verdict",
        "no text",
        "no list",
        "no lengths",
        "twice",
    ],
)
def test_a_damaged_ledger_names_the_line(path, change, reason):
    lines = path.read_text().splitlines()
    lines[LINE - 1] = change(lines[LINE - 1])
    path.write_text("\n".join(lines) + "\n")
    line_number = LINE + 1 if "already" in reason else LINE
    with pytest.raises(LedgerError) as raised:
        Ledger.load(path)
    assert str(raised.value).startswith(f"{path}:{line_number}: ")
    assert reason in str(raised.value)
    assert "restore the ledger" in str(raised.value)


@pytest.mark.parametrize("head", ["", "{}", '{"ledger": 99}', "x"])
def test_a_file_that_is_no_ledger_is_told(path, head):
    path.write_text(head)
    with pytest.raises(LedgerError, match=r"ledger.jsonl:1: "):
        Ledger.load(path)


def test_a_ledger_is_written_whole_or_not_at_all(path, ledger, monkeypatch):
    before = path.read_bytes()
    rule = RULES["ReorderProduct"]
    ledger.record(rule, proved(rule, ranks="2"))

    def broken(self, target):
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", broken)
    with pytest.raises(OSError, match="no space"):
        ledger.save(path)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["ledger.jsonl"]


def test_specifications_are_compared_when_the_library_changed(path, monkeypatch):
    """Only the hash of the whole library may spare the comparison."""
    read = Ledger.load(path)
    assert read.checked == fingerprints.library()
    rule = RULES["ConvertReluToMax"]
    monkeypatch.setattr(module, "specification_hash", lambda *of: "another")
    assert locked([rule], read) == []
    monkeypatch.setattr(module, "library", lambda: "another")
    assert [problem.kind for problem in locked([rule], read)] == ["specification"]
    read.save(path)
    assert Ledger.load(path).checked == ""  # what differs now must not count as compared


# ------------------------------------------------------------------------------------- replaying


@pytest.fixture
def scripts():
    scripts_ = Scripts()
    for rule in RULES.values():
        store_scripts(scripts_, proved(rule))
    return scripts_


@pytest.mark.parametrize("solver", ["z3", "cvc5"])
def test_a_replay_asks_again(ledger, scripts, solver):
    answers = replay(stored(ledger, scripts), solver)
    assert [(answer.rule, answer.answer) for answer in answers] == [
        (n, "unsat") for n in sorted(RULES)
    ]
    assert not any(answer.contradicts for answer in answers)


@pytest.mark.parametrize("solver", ["z3", "cvc5"])
def test_a_replay_catches_a_forged_proof(ledger, scripts, solver):
    """A satisfiable script that was put down as unsatisfiable, in both files."""
    forged = proved(RULES["ReorderProduct"], script=SAT)
    ledger.record(RULES["ReorderProduct"], forged)
    store_scripts(scripts, forged)
    answers = replay(stored(ledger, scripts), solver)
    assert [answer.rule for answer in answers if answer.contradicts] == ["ReorderProduct"]


def test_a_replay_catches_scripts_that_were_exchanged(ledger, scripts):
    rule = RULES["ReorderProduct"]
    scripts.put(group(rule.name, rule.hash), [UNSAT.replace("(< x 1)", "(< x 0)")])
    with pytest.raises(ReplayError, match="of ReorderProduct are not those that its proof rests"):
        list(stored(ledger, scripts))


def test_a_replay_misses_what_is_not_stored(ledger, scripts):
    rule = RULES["ReorderProduct"]
    del scripts.groups[group(rule.name, rule.hash)]
    with pytest.raises(ReplayError, match="the obligations of ReorderProduct are not stored"):
        list(stored(ledger, scripts))
    assert [rule for rule, _ in stored(ledger, scripts, ["EliminateIdentity"])] == [
        "EliminateIdentity"
    ]


def test_a_replay_of_a_rule_that_is_not_known(ledger, scripts):
    with pytest.raises(ReplayError, match="NoSuchRule is not in the ledger"):
        list(stored(ledger, scripts, ["NoSuchRule"]))


def test_scripts_of_an_earlier_text_go(scripts):
    text = TEXT.replace("Max(X, 0)", "Max(0, X)")
    rule = next(r for r in parse_rules(text, "some.rules") if r.name == "ConvertReluToMax")
    store_scripts(scripts, proved(rule))
    assert [name for name in scripts.groups if rule.name in name] == [group(rule.name, rule.hash)]


# ----------------------------------------------------------------------------------- the catalog


def test_the_record_is_rows():
    rule = RULES["ReorderProduct"]
    with Catalog(":memory:") as catalog:
        for _ in range(2):  # the second proof takes the place of the first
            store_verdicts(catalog, [(rule, proved(rule))])
        assert catalog.sql(
            "SELECT name, status, ranks, algebras, obligations, solver, rechecker, time_ns "
            "FROM proof JOIN rule USING (rule_hash)"
        ).fetchall() == [
            ("ReorderProduct", "proved", "all", ["real"], 1, "z3 5.4.0", "cvc5 1.4.2", 250_000_000)
        ]
        assert catalog.sql("SELECT title, status, queries FROM proof_case").fetchall() == [
            ("rank 2", "proved", 3)
        ]
        assert catalog.sql(
            "SELECT purpose, result, recheck, text FROM obligation JOIN script USING (script_hash)"
        ).fetchall() == [("sizes agree", "unsat", "agree", UNSAT)]
        assert catalog.sql(
            "SELECT operator, specification_hash FROM proof_specification"
        ).fetchall() == list(fingerprints.specifications(rule).items())
        assert list(stored_in(catalog)) == [("ReorderProduct", UNSAT)]
        with pytest.raises(ReplayError, match="holds no obligation of EliminateIdentity"):
            list(stored_in(catalog, ["EliminateIdentity"]))
        catalog.connection.execute("UPDATE script SET text = ?", [SAT])
        with pytest.raises(ReplayError, match="not what its hash says"):
            list(stored_in(catalog))


def test_a_refutation_is_a_row_with_its_program():
    rule = RULES["ReorderProduct"]
    verdict = proved(
        rule, status="refuted", counterexample=REFUTED, obligations=(), conditions=("m = 1",)
    )
    with Catalog(":memory:") as catalog:
        store_verdicts(catalog, [(rule, verdict)])
        assert catalog.sql(
            "SELECT status, counterexample_kind, counterexample, snippet, conditions FROM proof"
        ).fetchall() == [("refuted", "value", "3 is not 4 at m = 1", "print(3)", ["m = 1"])]


def test_the_ledger_stands_beside_the_rules_in_a_catalog(ledger):
    changed, fresh = RULES["ConvertReluToMax"], RULES["ReorderProduct"]
    ledger.entries[changed.hash] = replace(ledger.entries[changed.hash], normaliser="old")
    with Catalog(":memory:") as catalog:
        store_verdicts(catalog, [(fresh, proved(fresh, ranks="2"))])
        store_ledger(catalog, tuple(RULES.values()), ledger)
        assert catalog.sql(
            "SELECT name, ranks FROM rule LEFT JOIN proof USING (rule_hash) ORDER BY name"
        ).fetchall() == [
            ("ConvertReluToMax", None),
            ("EliminateIdentity", "all"),
            ("ReorderProduct", "2"),
        ]


def test_scripts_are_rows_once():
    with Catalog(":memory:") as catalog:
        store_verdicts(catalog, [(rule, proved(rule)) for rule in RULES.values()])
        assert catalog.sql("SELECT script_hash FROM script").fetchall() == [(script_hash(UNSAT),)]
        assert catalog.sql("SELECT count(*) FROM obligation").fetchall() == [(len(RULES),)]
