"""The ledger brought up to date: only what doesn't hold is proved again."""

from dataclasses import replace

import pytest
from tensolog.rules.gate.ledger import renewal as module
from tensolog.rules.gate.ledger.ledger import Ledger, admitted, locked
from tensolog.rules.gate.ledger.renewal import orphans, renew
from tensolog.rules.gate.ledger.replay import ReplayError, replay, scripts_path, stored
from tensolog.rules.prover.solve.smt_scripts import Scripts

from .test_ledger import RULES, SAT, proved


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.jsonl"


@pytest.fixture
def gate(monkeypatch):
    """A gate that proves everything, and remembers what it was asked."""
    asked = []

    def prove_rules(rules, workers, progress, **options):
        asked.extend(rule.name for rule in rules)
        for rule in rules:
            progress(rule, proved(rule))

    monkeypatch.setattr(module, "prove_rules", prove_rules)
    return asked


EVERY = tuple(RULES.values())
NAMES = [rule.name for rule in EVERY]


def test_everything_is_proved_once(path, gate):
    reported = []
    renew(EVERY, path, progress=lambda rule, verdict, entry: reported.append(entry.rule))
    assert gate == reported == NAMES
    renew(EVERY, path)
    assert gate == NAMES
    renew(EVERY, path, again=True)
    assert gate == NAMES * 2
    assert locked(EVERY, Ledger.load(path)) == []


def test_what_does_not_hold_is_proved_again(path, gate):
    ledger = renew(EVERY, path)
    changed = EVERY[1]
    ledger.entries[changed.hash] = replace(ledger.entries[changed.hash], normaliser="old")
    ledger.save(path)
    renew(EVERY, path)
    assert gate == [*NAMES, changed.name]


def test_a_refutation_that_holds_is_not_sought_again(path, gate):
    ledger = renew(EVERY, path)
    ledger.record(EVERY[0], proved(EVERY[0], status="refuted", obligations=()))
    ledger.save(path)
    renew(EVERY, path)
    assert gate == NAMES


def test_scripts_are_kept_beside_the_ledger(path, gate):
    ledger = renew(EVERY, path)
    scripts = Scripts.read(scripts_path(path))
    assert {replayed.answer for replayed in replay(stored(ledger, scripts))} == {"unsat"}


@pytest.mark.parametrize("whole", [False, True])
def test_rules_that_are_gone_go_when_all_are_given(path, gate, whole):
    renew(EVERY, path)
    ledger = Ledger.load(path)
    gone = [] if not whole else NAMES[1:]
    assert sorted(e.rule for e in orphans(EVERY[:1] if whole else EVERY, ledger)) == sorted(gone)
    asked = len(gate)
    ledger = renew((), path, whole=EVERY[:1] if whole else ())
    assert len(gate) == asked
    remaining = 1 if whole else len(EVERY)
    assert len(ledger.entries) == len(Ledger.load(path).entries) == remaining
    assert len(Scripts.read(scripts_path(path)).groups) == remaining


def test_an_interruption_loses_no_verdict(path, monkeypatch):
    def prove_rules(rules, workers, progress, **options):
        progress(rules[0], proved(rules[0]))
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "prove_rules", prove_rules)
    with pytest.raises(KeyboardInterrupt):
        renew(EVERY, path)
    ledger = Ledger.load(path)
    assert admitted(EVERY, ledger) == EVERY[:1]
    assert len(list(stored(ledger, Scripts.read(scripts_path(path))))) == 1


def test_scripts_of_another_proof_are_told(path, gate):
    ledger = renew(EVERY, path)
    ledger.record(EVERY[0], proved(EVERY[0], script=SAT))
    with pytest.raises(ReplayError, match="are not those that its proof rests on"):
        list(stored(ledger, Scripts.read(scripts_path(path))))


def test_what_another_process_proves_meanwhile_stays(path, monkeypatch):
    ours, theirs = EVERY[0], EVERY[1]

    def prove_rules(rules, workers, progress, **options):
        if rules == [ours]:
            renew((theirs,), path)
        for rule in rules:
            progress(rule, proved(rule))

    monkeypatch.setattr(module, "prove_rules", prove_rules)
    ledger = renew((ours,), path)
    assert locked((ours, theirs), ledger) == locked((ours, theirs), Ledger.load(path)) == []
    names = {name.split(" ")[0] for name in Scripts.read(scripts_path(path)).groups}
    assert names == {ours.name, theirs.name}
