"""The gate's verdicts, and that whatever goes wrong on the way is never a proof."""

import pickle
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from tensolog.catalog import Catalog
from tensolog.rules import parse_rules
from tensolog.rules.gate import prover_pool
from tensolog.rules.gate.counterexample import refute as numbers
from tensolog.rules.gate.gate import prove_rule
from tensolog.rules.gate.inference import preconditions as inference
from tensolog.rules.gate.ledger.ledger import Ledger, admitted
from tensolog.rules.gate.ledger.proof_tables import store_verdicts
from tensolog.rules.gate.ledger.replay import replay, store_scripts, stored
from tensolog.rules.gate.prover_pool import Provers, prove_rules
from tensolog.rules.gate.vacuity import same_program
from tensolog.rules.language.canonical_text import rule_text
from tensolog.rules.language.rank_bounds import Within
from tensolog.rules.prover import prove as core
from tensolog.rules.prover.ranks import induction
from tensolog.rules.prover.ranks.induction import Lifted
from tensolog.rules.prover.solve import recheck as second
from tensolog.rules.prover.solve.smt_scripts import Scripts, script_hash
from tensolog.rules.prover.statement import Outcome, Query

UNSAT = "(set-logic ALL)\n(declare-fun x () Int)\n(assert (> x 0))\n(assert (< x 1))\n(check-sat)\n"
SAT = UNSAT.replace("(< x 1)", "(< x 2)")


def rule_of(given, match, rewrite, name="ReorderSome", equal="rounding"):
    given = f"  given   {given}\n" if given else ""
    lines = "".join(f"    {line}\n" for line in match.split("; "))
    target = "".join(f"    {line}\n" for line in rewrite.split("; "))
    text = (
        f"# {name} is a rule.\nrule {name}\n  tags    explore\n  source  [test]\n{given}"
        f"  match\n{lines}  rewrite\n{target}  equal   {equal}\n"
    )
    (rule,) = parse_rules(text, "some.rules")
    return rule


MATRICES = "A [m, k] float32, B [k, n], C [n, p]"
ASSOCIATIVE = rule_of(
    MATRICES, "Y = MatMul(MatMul(A, B), C)", "Y = MatMul(A, MatMul(B, C))", "ReorderProduct"
)
TWICE = rule_of("X [*s] float32", "Y = Relu(Relu(X))", "Y = Relu(X)", "EliminateRelu")
FALSE = rule_of("X [*s] float32", "Y = Relu(X)", "Y = Abs(X)", "ConvertRelu")
BLOCKS = rule_of(
    "A [m, k] float32, B [k, n], C [m, l], D [l, n]",
    "Y = Add(MatMul(A, B), MatMul(C, D))",
    "Y = MatMul(Concat<axis=1>(A, C), Concat<axis=0>(B, D))",
    "MergeBlocks",
)


def test_a_true_rule_is_proved_and_rechecked():
    verdict = prove_rule(BLOCKS)
    assert (verdict.status, verdict.reason) == ("proved", "")
    assert verdict.algebras == ("real",)
    assert verdict.cases and all(case.status == "proved" for case in verdict.cases)
    assert {obligation.opinion for obligation in verdict.obligations} <= {"agree", "unknown"}
    assert verdict.solver.startswith("z3 ")
    assert verdict.rechecker and verdict.rechecker.startswith("cvc5 ")


def test_a_false_rule_is_refuted_by_a_counterexample_that_runs(tmp_path):
    verdict = prove_rule(FALSE, infer=0)
    assert verdict.status == "refuted"
    assert verdict.counterexample.kind == "value"
    file = tmp_path / "shown.py"
    file.write_text(verdict.counterexample.snippet)
    subprocess.run([sys.executable, str(file)], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (
            rule_of("X [*s] float32", "Y = Relu(Neg(X))", "T = Neg(X); Y = Relu(T)"),
            "both sides are the same program",
        ),
        (
            rule_of("X [n] float32, n > 3, n < 2", "Y = Relu(Relu(X))", "Y = Relu(X)"),
            "can't hold together",
        ),
        (
            rule_of("X [n, m] float32, n > m, m > n", "Y = Relu(Relu(X))", "Y = Relu(X)"),
            "n > m and m > n can't hold together",
        ),
        (rule_of("X [m, n] float32", "Y = Relu(X)", "Y = ReduceMax(X)"), "Y is"),
    ],
    ids=["the same program", "an empty range", "a cycle of bounds", "another shape"],
)
def test_what_is_no_substitution_is_refused(rule, reason):
    verdict = prove_rule(rule, infer=0)
    assert verdict.status == "refused"
    assert reason in verdict.reason


def test_operands_in_another_order_are_another_program():
    """That they commute is proved, not assumed."""
    rule = rule_of("A [*s] float32, B [*s]", "Y = Sub(Add(A, B), A)", "Y = Sub(Add(B, A), A)")
    assert not same_program(rule)
    assert prove_rule(rule).status == "proved"


@pytest.mark.parametrize(
    ("match", "rewrite"),
    [
        ("Y = Transpose<perm=[1, 0]>(X)", "Y = Transpose<perm=[0, 1]>(X)"),
        ("Y, Z = Split<axis=0>(X, [1, 1])", "Z, Y = Split<axis=0>(X, [1, 1])"),
        ("Y = Sub(X, W)", "Y = Sub(W, X)"),
        ("Y = Add(X, 1)", "Y = Add(X, 2)"),
        ("Y = Relu(X)", "Y = Abs(X)"),
    ],
    ids=["an attribute", "outputs", "operands", "a literal", "an operator"],
)
def test_a_program_that_differs_in_one_thing_is_another(match, rewrite):
    assert not same_program(rule_of("X [2, 2] float32", match, rewrite))


@pytest.mark.parametrize(("place", "status"), [(5, "refused"), (2, "refused"), (1, "proved")])
def test_a_left_side_that_always_reads_out_of_bounds_is_vacuous(place, status):
    match, rewrite = (
        f"Y = Gather<axis=0>(Neg(X), [{place}])",
        f"Y = Neg(Gather<axis=0>(X, [{place}]))",
    )
    verdict = prove_rule(rule_of("X [2, n] float32", match, rewrite), infer=0.0)
    assert verdict.status == status
    assert ("never has a value" in verdict.reason) == (status == "refused")


def test_a_left_side_that_has_values_at_some_sizes_is_not_vacuous():
    match, rewrite = "Y = Gather<axis=0>(Neg(X), I)", "Y = Neg(Gather<axis=0>(X, I))"
    given = "X [m, n] float32, I [k] int64"
    assert prove_rule(rule_of(given, match, rewrite), infer=0.0).status == "proved"
    verdict = prove_rule(rule_of(f"{given}, m = 0", match, rewrite), infer=0.0)
    assert verdict.status == "refused" and "never has a value" in verdict.reason


def test_what_holds_under_a_condition_comes_back_with_it():
    rule = rule_of(
        "A [m, k] float32, B [k, n]", "Y = Add(MatMul(A, B), C)", "Y = Gemm(A, B, C)", "FuseGemm"
    )
    verdict = prove_rule(rule)
    assert verdict.status in ("refused", "refuted")
    assert [condition.split("(")[0] for condition in verdict.conditions] == ["fits"]
    assert prove_rule(rule, infer=0).conditions == ()


def test_a_condition_that_the_gate_does_not_confirm_is_not_given(monkeypatch):
    monkeypatch.setattr(inference, "infer_conditions", lambda rule, seconds: ("n > 0",))
    rule = rule_of(
        "A [m, k] float32, B [k, n]", "Y = Add(MatMul(A, B), C)", "Y = Gemm(A, B, C)", "FuseGemm"
    )
    assert prove_rule(rule).conditions == ()


# --------------------------------------------------------------------------- what is not a proof


def outcome(script, status="proved"):
    return Outcome(status, queries=(Query("a query", script, "unsat", 0.0),))


def test_a_disagreement_of_the_solvers_is_no_proof(monkeypatch):
    """A script that Z3 is said to have found unsatisfiable, and cvc5 finds satisfiable."""
    monkeypatch.setattr(core, "prove", lambda *of: outcome(SAT))
    verdict = prove_rule(ASSOCIATIVE, infer=0)
    assert verdict.status == "unknown"
    assert "Z3 and cvc5 disagree on: a query" in verdict.reason
    assert verdict.algebras == ()


def test_a_counterexample_to_what_was_proved_is_no_proof(monkeypatch):
    """A prover that takes everything for proved, and a rule that is false."""
    monkeypatch.setattr(core, "prove", lambda *of: Outcome("proved"))
    verdict = prove_rule(FALSE, infer=0)
    assert verdict.status == "unknown"
    assert "it was proved, and yet a counterexample was found" in verdict.reason
    assert verdict.algebras == ()


def test_ranks_that_are_not_lifted_bound_the_proof(monkeypatch):
    only = Lifted("len(s) 0", (Within(("len(s)",), frozenset({(0,)})),))
    monkeypatch.setattr(induction, "lift", lambda *of: only)
    verdict = prove_rule(TWICE)
    assert (verdict.status, verdict.ranks, verdict.within) == ("bounded", only.ranks, only.within)
    monkeypatch.undo()
    verdict = prove_rule(TWICE)
    assert (verdict.status, verdict.ranks) == ("proved", "all")


def test_a_search_that_fails_takes_no_proof_away(monkeypatch):
    def broken(*of):
        raise ZeroDivisionError

    monkeypatch.setattr(numbers, "refute", broken)
    assert prove_rule(BLOCKS).status == "proved"


def test_an_agreement_is_a_proof(monkeypatch):
    monkeypatch.setattr(core, "prove", lambda *of: outcome(UNSAT))
    assert prove_rule(ASSOCIATIVE, infer=0).status == "proved"


def test_a_second_solver_that_does_not_know_leaves_the_proof(monkeypatch):
    def unknown(scripts, timeout, *, budget):
        names = [script_hash(s) for s in scripts]
        return {name: second.Recheck(name, "unknown", "no answer", 0.0) for name in names}

    monkeypatch.setattr(second, "recheck_all", unknown)
    verdict = prove_rule(BLOCKS)
    assert verdict.status == "proved"
    assert {obligation.opinion for obligation in verdict.obligations} == {"unknown"}


def test_without_a_second_solver_the_verdict_says_so(monkeypatch):
    monkeypatch.setattr(second, "_cvc5", lambda: None)
    monkeypatch.setattr(second, "_AGREED", {})
    second.cvc5_release.cache_clear()
    try:
        verdict = prove_rule(BLOCKS)
    finally:
        second.cvc5_release.cache_clear()
    assert (verdict.status, verdict.rechecker) == ("proved", None)
    assert {obligation.opinion for obligation in verdict.obligations} == {"absent"}


def test_an_open_case_is_no_proof(monkeypatch):
    monkeypatch.setattr(core, "prove", lambda *of: Outcome("open", "too hard"))
    verdict = prove_rule(ASSOCIATIVE, search=0.5, infer=0)
    assert verdict.status == "unknown"
    assert verdict.reason.endswith("too hard")
    assert [case.status for case in verdict.cases] == ["open"]


def test_one_open_case_of_many_is_no_proof(monkeypatch):
    rule = rule_of("X float32", "Y = Relu(Relu(X))", "Y = Relu(X)")
    real, seen = core.prove, []

    def prove_all_but_the_last(statement, timeout):
        seen.append(statement)
        return real(statement, timeout) if len(seen) < 2 else Outcome("open", "too hard")

    monkeypatch.setattr(core, "prove", prove_all_but_the_last)
    verdict = prove_rule(rule, search=0.5, infer=0)
    assert verdict.status == "unknown"
    assert [case.status for case in verdict.cases] == ["proved", "open"]


def test_cases_that_cannot_arise_are_left_out_but_not_all():
    rule = rule_of("X [*s] float32, rank(X) > 1", "Y = Relu(Relu(X))", "Y = Relu(X)")
    assert prove_rule(rule).status == "proved"
    rule = rule_of("X [*s] float32, rank(X) > 1, rank(X) < 2", "Y = Relu(Relu(X))", "Y = Relu(X)")
    assert prove_rule(rule, infer=0).status in ("refused", "unknown")


def test_a_defect_of_the_prover_is_no_verdict(monkeypatch):
    def broken(statement, timeout):
        raise ZeroDivisionError("in the prover")

    monkeypatch.setattr(core, "prove", broken)
    verdict = prove_rule(ASSOCIATIVE)
    assert verdict.status == "unknown"
    assert verdict.reason == "the prover failed: ZeroDivisionError: in the prover"


def test_no_time_is_no_verdict():
    verdict = prove_rule(ASSOCIATIVE, timeout=0.0, search=0.5, infer=0)
    assert verdict.status == "unknown"
    assert "no time left" in verdict.reason


# ----------------------------------------------------------------------------------- many at once


def test_verdicts_come_in_the_order_of_the_rules():
    reported = []
    rules = [BLOCKS, FALSE, TWICE, ASSOCIATIVE]
    verdicts = prove_rules(rules, 2, lambda rule, verdict: reported.append(verdict), infer=0)
    assert [v.rule for v in verdicts] == [rule.name for rule in rules]
    assert [v.status for v in verdicts] == ["proved", "refuted", "proved", "proved"]
    assert sorted(v.rule for v in reported) == sorted(rule.name for rule in rules)
    assert prove_rules([], 2) == ()


def test_the_same_rule_gives_the_same_obligations():
    """Nothing in them depends on the process: proofs of one text have one digest."""
    first, other = prove_rules([BLOCKS, BLOCKS], 2)
    assert [o.script for o in first.obligations] == [o.script for o in other.obligations]
    assert first.obligations


# A worker that answers as it is told by the names of the rules.
WORKER = """
import os, pickle, sys, time
from tensolog.rules.gate.verdict import Verdict
out = sys.stdout.buffer
pickle.dump("ready", out); out.flush()
while True:
    try:
        rule, options, measured = pickle.load(sys.stdin.buffer)
    except EOFError:
        break
    if rule.name == "ConvertRelu":
        print("out of memory", file=sys.stderr, flush=True)
        os._exit(7)
    if rule.name == "EliminateRelu":
        time.sleep(600)
    pickle.dump((Verdict(rule.name, rule.hash, "proved"), 0.25), out); out.flush()
    if measured:
        os._exit(9)
"""


@pytest.fixture
def strange(monkeypatch):
    monkeypatch.setattr(prover_pool, "COMMAND", (sys.executable, "-c", WORKER))


def test_a_prover_that_hangs_is_ended_and_the_others_go_on(strange):
    verdicts = prove_rules([TWICE, BLOCKS, ASSOCIATIVE], 1, limit=1.0)
    assert [v.status for v in verdicts] == ["unknown", "proved", "proved"]
    assert verdicts[0].reason == "no verdict within 1 s"


def test_a_prover_that_crashes_is_told_and_the_others_go_on(strange):
    verdicts = prove_rules([FALSE, BLOCKS], 1)
    assert [v.status for v in verdicts] == ["unknown", "proved"]
    assert verdicts[0].reason == "the prover ended with code 7: out of memory"


def test_a_measurement_that_crashes_takes_no_proof_away(strange):
    verdicts = prove_rules([BLOCKS, ASSOCIATIVE], 1, floating=True)
    assert [(v.status, v.floating) for v in verdicts] == [("proved", None)] * 2


def test_processor_time_is_that_of_all_processes(strange):
    with Provers(1) as provers:
        provers.prove([BLOCKS])
        assert provers.processor_s == 0.25
        provers.prove([FALSE])  # ends the process
        provers.prove([ASSOCIATIVE])
        assert provers.processor_s == 0.5


def test_what_is_proved_is_measured_in_floating_point():
    # Sums in another order may leave the range.
    (blocks,) = parse_rules(rule_text(BLOCKS) + "  finite_math\n", "some.rules")
    (verdict,) = prove_rules([blocks], 1, floating=True)
    assert verdict.floating.hash == blocks.hash
    ledger = Ledger()
    assert ledger.record(blocks, verdict).floating["status"] == verdict.floating.status
    assert ledger.record(blocks, replace(verdict, ranks="2", floating=None)).floating
    with Catalog(":memory:") as catalog:
        store_verdicts(catalog, [(blocks, verdict)])
        rows = catalog.sql(
            "SELECT dtype, family, max_ratio, b.verdict, s.verdict FROM floating_behaviour b "
            "JOIN floating_special s USING (rule_hash, dtype) JOIN proof USING (rule_hash)"
        ).fetchall()
        assert {row[0] for row in rows} == {"float32"}
        assert len({row[1] for row in rows}) >= 3
        bits = catalog.sql("SELECT dtype, result, method FROM floating_proof").fetchall()
        assert bits == [(bit.dtype, bit.result, bit.method) for bit in verdict.floating.bits]


def test_a_prover_that_cannot_start_is_an_error(monkeypatch):
    monkeypatch.setattr(prover_pool, "COMMAND", (sys.executable, "-c", "import no_such_module"))
    with pytest.raises(RuntimeError, match=r"can't be started: .*no_such_module"):
        prove_rules([BLOCKS], 1)


def test_an_interruption_ends_the_processes(strange, monkeypatch):
    started = []

    class Counted(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)

    monkeypatch.setattr(prover_pool.subprocess, "Popen", Counted)

    def interrupt(rule, verdict):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prove_rules([BLOCKS, TWICE, TWICE], 2, interrupt)  # one sleeps, the other is done
    assert started and all(process.poll() is not None for process in started)


INTERRUPTED = """
import pickle, signal, sys
from pathlib import Path
from tensolog.rules.gate.ledger import Ledger
from tensolog.rules.gate.prover_pool import prove_rules

def main():
    # What a shell starts in the background ignores it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    rules = pickle.loads(Path(sys.argv[1]).read_bytes())
    path = Path(sys.argv[2])
    ledger = Ledger.load(path)

    def keep(rule, verdict):
        ledger.record(rule, verdict)
        ledger.save(path)
        print(rule.name, flush=True)

    prove_rules(rules, 2, keep)

main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_interrupted_proving_leaves_the_ledger_intact(tmp_path):
    rules = [
        rule_of(
            MATRICES,
            f"Y = MatMul(MatMul(A, B), Mul(C, {i}))",
            f"Y = MatMul(A, MatMul(B, Mul(C, {i})))",
            f"ReorderProduct{i}",
        )
        for i in range(40)
    ]
    (tmp_path / "rules").write_bytes(pickle.dumps(rules))
    path = tmp_path / "ledger.jsonl"
    with (tmp_path / "complaint").open("w+") as complaint:
        process = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTED, str(tmp_path / "rules"), str(path)],
            stdout=subprocess.PIPE,
            stderr=complaint,
            text=True,
        )
        done = [process.stdout.readline().strip() for _ in range(3)]
        process.send_signal(signal.SIGINT)
        # not `communicate`, which knows nothing of lines that were read ahead
        done += process.stdout.read().split()
        assert process.wait(timeout=60) != 0
        complaint.seek(0)
        assert "KeyboardInterrupt" in complaint.read()
    assert 3 <= len(done) < len(rules)
    ledger = Ledger.load(path)
    kept = {entry.rule for entry in ledger.entries.values()}
    assert set(done) <= kept and len(kept) <= len(done) + 1
    assert {rule.name for rule in admitted(rules, ledger)} == kept


# ---------------------------------------------------------------------------------- all together


def test_what_was_proved_can_be_replayed_by_both_solvers(tmp_path):
    verdict = prove_rule(BLOCKS)
    ledger, scripts = Ledger(), Scripts()
    ledger.record(BLOCKS, verdict)
    store_scripts(scripts, verdict)
    ledger.save(tmp_path / "ledger.jsonl")
    scripts.write(tmp_path / "obligations.xz")
    ledger = Ledger.load(tmp_path / "ledger.jsonl")
    scripts = Scripts.read(tmp_path / "obligations.xz")
    for solver in ("z3", "cvc5"):
        queries = replay(stored(ledger, scripts, [BLOCKS.name]), solver)
        assert queries and {query.answer for query in queries} == {"unsat"}


@pytest.mark.parametrize(
    ("expression", "status"), [("Min(R, 127)", "refuted"), ("Neg(Neg(R))", "proved")]
)
def test_what_saturates_is_looked_at_in_each_type(expression, status):
    """No int8 is above 127, and some uint8 are."""
    given = "A [m, k] uint8, B [k, n] uint8, a [] float32, b [] float32, c [] float32, "
    given += "x [] uint8, y [] uint8, z [] int8|uint8"
    product = "Cast<to=1>(QLinearMatMul(A, a, x, B, b, y, c, z))"
    rule = rule_of(given, f"R = {product}; Y = {expression}", f"Y = {product}", "EliminateMin")
    assert prove_rule(rule, 5, infer=0).status == status


@pytest.mark.parametrize(
    ("given", "match", "rewrite", "status", "reason"),
    [
        ("X [*s] int8", "Y = Add(X, 3)", "Y = Sub(X, 300)", "refused", "300, which is no int8"),
        ("X [*s] int8", "Y = Min(X, 300)", "Y = X", "unknown", "300 is no int8"),
        ("X [*s] uint8", "Y = Less(X, -1)", "Y = Less(X, 0)", "unknown", "-1 is no uint8"),
        ("X [*s] int8", "Y = Add(X, 127)", "Y = Sub(X, -127)", "proved", ""),
    ],
)
def test_a_number_that_its_type_does_not_hold_is_named(given, match, rewrite, status, reason):
    verdict = prove_rule(rule_of(given, match, rewrite), infer=0.0)
    assert verdict.status == status and verdict.reason.endswith(reason)
