"""The ledger and its scripts brought up to date: what doesn't hold any longer is proved again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ....catalog.files import alone_in
from ...language.syntax import Rule
from ...prover.solve.smt_scripts import Scripts
from ..gate import TIMEOUT_S
from ..prover_pool import prove_rules
from ..verdict import Verdict
from .ledger import Entry, Ledger
from .replay import group, scripts_path, store_scripts

Progress = Callable[[Rule, Verdict, Entry], None]


def shipped_path() -> Path:
    """Return where the ledger of the shipped rules lies."""
    return Path(__file__).parents[2] / "ledger.jsonl"


def renew(
    rules: Sequence[Rule],
    path: Path | None = None,
    *,
    workers: int = 2,
    again: bool = False,
    whole: Sequence[Rule] = (),
    floating: bool = False,
    timeout: float = TIMEOUT_S,
    progress: Progress | None = None,
) -> Ledger:
    """Prove the rules of which no entry holds, or with `again` all, and write ledger and scripts.

    What a rule does in floating point is measured where the ledger doesn't say it of this very
    text, or says that it breaks its class; with `floating` of all. The ledger is written after each
    rule, the scripts at the end: an interruption, which is passed on, loses no verdict; nor does
    another process that renews the same ledger meanwhile. Entries of rules that are not among
    `rules` stay, except those of none of `whole`, if that is given: all the rules there are.
    """
    path = shipped_path() if path is None else path
    ledger = Ledger.load(path)
    Scripts.read(scripts_path(path))  # damage shows before anything is proved
    wanted = [rule for rule in rules if again or not ledger.holds(rule)]
    unmeasured = [rule for rule in wanted if floating or not _keeps_class(ledger, rule)]
    verdicts: list[Verdict] = []

    def keep(rule: Rule, verdict: Verdict) -> None:
        verdicts.append(verdict)
        with alone_in(path.parent):
            current = Ledger.load(path)
            entry = current.record(rule, verdict)
            current.save(path)
        if progress is not None:
            progress(rule, verdict, entry)

    try:
        prove_rules(wanted, workers, keep, timeout=timeout, floating=unmeasured)
    finally:
        ledger = _finished(path, verdicts, whole)
    return ledger


def _finished(path: Path, verdicts: Sequence[Verdict], whole: Sequence[Rule]) -> Ledger:
    """Write the scripts of verdicts, and drop what speaks of no rule; the ledger as it is then."""
    with alone_in(path.parent):
        ledger = Ledger.load(path)
        gone = ledger.keep(whole) if whole else []
        if gone:
            ledger.save(path)
        if gone or verdicts:
            scripts = Scripts.read(scripts_path(path))
            for entry in gone:
                scripts.groups.pop(group(entry.rule, entry.hash), None)
            for verdict in verdicts:
                store_scripts(scripts, verdict)
            scripts.write(scripts_path(path))
    return ledger


def orphans(rules: Iterable[Rule], ledger: Ledger) -> list[Entry]:
    """Return the entries that speak of none of the rules: those were removed, or renamed."""
    names = {rule.name for rule in rules}
    return [entry for entry in ledger.entries.values() if entry.rule not in names]


def _keeps_class(ledger: Ledger, rule: Rule) -> bool:
    """Whether it is known that a rule keeps its class: no matter of the prover."""
    entry = ledger.entries.get(rule.hash)
    return entry is not None and bool(entry.floating) and not entry.floating.get("problems")
