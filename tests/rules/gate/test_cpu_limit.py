"""That a rule takes no more processor time than was said, whatever it is busy with."""

import signal
import threading
import time

import pytest
from tensolog.rules.gate import gate as module
from tensolog.rules.gate.cpu_limit import OutOfTimeError, limited
from tensolog.rules.gate.gate import prove_rule
from tensolog.rules.load import load_rules
from tensolog.rules.prover.cases import case_split

RULE = next(rule for rule in load_rules() if rule.name == "EliminateIdentity")


def forever(*_):
    while True:
        pass


def test_what_takes_too_long_is_ended():
    with pytest.raises(OutOfTimeError), limited(0.05):
        forever()


def test_nothing_is_ended_afterwards():
    with limited(0.05):
        pass
    begin = time.process_time()
    while time.process_time() < begin + 0.1:
        pass
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_another_thread_has_no_limit():
    done = []

    def work():
        with limited(0.01):
            until = time.thread_time() + 0.05
            while time.thread_time() < until:
                pass
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]


def test_a_rule_whose_cases_take_for_ever_is_unknown(monkeypatch):
    prove_rule(RULE)  # imports what it takes
    monkeypatch.setattr(case_split, "statements", forever)
    monkeypatch.setattr(module, "PROOF_MORE_S", 0.05)
    verdict = prove_rule(RULE, 0.02)
    assert verdict.status == "unknown"
    assert "no verdict within 0.08 s" in verdict.reason


def test_a_verdict_stands_while_conditions_are_sought(monkeypatch):
    from tensolog.rules.gate.inference import preconditions

    monkeypatch.setattr(preconditions, "infer_conditions", forever)
    monkeypatch.setattr(
        module._Gate, "verdict", lambda gate: gate.with_conditions_sought(gate.answer("refuted"))
    )
    monkeypatch.setattr(module, "PROOF_MORE_S", 0.05)
    assert prove_rule(RULE, 0.02).status == "refuted"


def test_a_limit_may_be_named_beside_that_of_the_proof(monkeypatch):
    prove_rule(RULE)  # imports what it takes
    monkeypatch.setattr(case_split, "statements", forever)
    verdict = prove_rule(RULE, 20.0, processor=0.05)
    assert verdict.status == "unknown"
    assert "no verdict within 0.05 s" in verdict.reason
