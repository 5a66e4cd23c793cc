"""The ledger and its scripts brought up to date: what doesn't hold any longer is proved again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

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
    rule, the scripts at the end: an interruption, which is passed on, loses no verdict. Entries
    of rules that are not among `rules` stay, except those of none of `whole`, if that is given: all
    the rules there are.
    """
    path = shipped_path() if path is None else path
    ledger = Ledger.load(path)
    scripts = Scripts.read(scripts_path(path))
    wanted = [rule for rule in rules if again or not ledger.holds(rule)]
    unmeasured = [rule for rule in wanted if floating or not _keeps_class(ledger, rule)]
    gone = ledger.keep(whole) if whole else []
    for entry in gone:
        scripts.groups.pop(group(entry.rule, entry.hash), None)

    def keep(rule: Rule, verdict: Verdict) -> None:
        entry = ledger.record(rule, verdict)
        store_scripts(scripts, verdict)
        ledger.save(path)
        if progress is not None:
            progress(rule, verdict, entry)

    try:
        prove_rules(wanted, workers, keep, timeout=timeout, floating=unmeasured)
    finally:
        if gone:
            ledger.save(path)
        if wanted or gone:
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
