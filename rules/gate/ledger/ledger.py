"""The ledger: what the gate found of each rule, as a text file in the repository.

One line a rule, sorted by name, so that a change of one rule changes one line. An entry is found by
the hash of the rule's text and holds as long as what it rests on does: the text of the prover and
the specifications of the rule's operators. `locked` says, without proving anything, which rules
have no entry that holds, and why.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args

from ....catalog.errors import TensologError
from ....catalog.files import replacing
from ...language.rank_bounds import as_record, from_record
from ...language.syntax import Rule
from ...prover.solve.smt_scripts import digest, script_hash
from ..verdict import Status, Verdict
from .fingerprints import library, normaliser, operators, specification_hash, specifications

FORMAT = 1
ADMITTED: tuple[Status, ...] = ("proved", "bounded")
Kind = Literal["missing", "edited", "specification", "normaliser", "verdict"]


class LedgerError(TensologError):
    """A ledger that can't be read: path, line, reason."""

    def __init__(self, path: str, line: int, reason: str) -> None:
        self.path, self.line, self.reason = path, line, reason
        super().__init__(
            f"{path}:{line}: {reason}; restore the ledger, or remove it and run "
            "`tensolog rules prove`"
        )


@dataclass(frozen=True)
class Entry:
    """What was found of a rule, and what that rests on.

    `within` are the ranks and lengths that a bounded rule is proved for, by name (rank_bounds.py).
    `counterexample` is its summary. `obligations` counts the queries, `digest` is the hash of their
    scripts (empty without any), `rechecked` counts the second solver's opinions. `floating` sums up
    the behaviour in floating point. `specifications` are hashes by operator, in the operator sets
    from `opset_from` to `opset_to`. `seconds` is the time it took.
    """

    rule: str
    hash: str
    status: Status
    reason: str = ""
    ranks: str = ""
    within: Mapping[str, object] = field(default_factory=dict)
    algebras: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    counterexample: str = ""
    cases: int = 0
    obligations: int = 0
    digest: str = ""
    rechecked: Mapping[str, int] = field(default_factory=dict)
    floating: Mapping[str, object] = field(default_factory=dict)
    solver: str = ""
    rechecker: str | None = None
    normaliser: str = ""
    opset_from: int | None = None
    opset_to: int | None = None
    specifications: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def __hash__(self) -> int:
        return hash(self.hash)


@dataclass(frozen=True)
class Problem:
    """Why a rule has no entry that holds; `kind` says it in a word."""

    rule: str
    kind: Kind
    reason: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.reason}"


def entry_of(rule: Rule, verdict: Verdict) -> Entry:
    """Return what the ledger keeps of a verdict that was just reached."""
    shown = verdict.counterexample
    floating = {} if verdict.floating is None else verdict.floating.summary()
    scripts = [obligation.script for obligation in verdict.obligations]
    opinions = [obligation.opinion for obligation in verdict.obligations]
    return Entry(
        rule=rule.name,
        hash=rule.hash,
        status=verdict.status,
        reason=verdict.reason,
        ranks=verdict.ranks,
        within=as_record(verdict.within),
        algebras=verdict.algebras,
        conditions=verdict.conditions,
        counterexample=f"{shown.kind}: {shown.summary}" if shown else "",
        cases=len(verdict.cases),
        obligations=len(verdict.obligations),
        digest=digest(map(script_hash, scripts)) if scripts else "",
        rechecked={name: opinions.count(name) for name in sorted(set(opinions))},
        floating=json.loads(json.dumps(floating)),  # as it will be read
        solver=verdict.solver,
        rechecker=verdict.rechecker,
        normaliser=normaliser(),
        opset_from=rule.opset_from,
        opset_to=rule.opset_to,
        specifications=specifications(rule),
        seconds=round(verdict.seconds, 2),
    )


@dataclass
class Ledger:
    """Entries by the hash of the rule.

    `checked` is the hash of the operator library that the entries were last compared with, empty
    where one of them was found to differ: while it stands, no specification need be read.
    """

    entries: dict[str, Entry] = field(default_factory=dict)
    checked: str = ""

    # ---- the file
    @classmethod
    def load(cls, path: Path | None = None) -> Ledger:
        """Read a ledger, the shipped one by default; one that is not there has no entries.

        Raises LedgerError, which names the line, for a file that is damaged.
        """
        try:
            text = _shipped_text() if path is None else path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return cls()
        except (OSError, UnicodeDecodeError) as error:
            raise LedgerError(str(path or "ledger.jsonl"), 1, f"can't be read: {error}") from error
        return cls._parse(text, str(path or "ledger.jsonl"))

    @classmethod
    def _parse(cls, text: str, path: str) -> Ledger:
        lines = text.splitlines()
        if not lines:
            raise LedgerError(path, 1, "is empty")
        head = _object(lines[0], path, 1)
        if head.get("ledger") != FORMAT:
            raise LedgerError(path, 1, f"is no ledger of format {FORMAT}: {lines[0][:60]!r}")
        ledger = cls(checked=str(head.get("checked", "")))
        for number, line in enumerate(lines[1:], 2):
            entry = _entry(_object(line, path, number), path, number)
            if entry.hash in ledger.entries:
                raise LedgerError(path, number, f"{entry.rule} has an entry already")
            ledger.entries[entry.hash] = entry
        return ledger

    def save(self, path: Path) -> None:
        """Write the ledger: all of it, or the file stays as it was."""
        current = library()
        if self.checked != current:
            stale = any(_changed(entry) for entry in self.entries.values())
            self.checked = "" if stale else current
        lines = [json.dumps({"ledger": FORMAT, "checked": self.checked})]
        for entry in sorted(self.entries.values(), key=lambda e: (e.rule, e.hash)):
            kept = {k: v for k, v in asdict(entry).items() if v not in ("", (), {}, None)}
            lines.append(json.dumps(kept, ensure_ascii=False))
        with replacing(path) as file:
            file.write(("\n".join(lines) + "\n").encode())

    # ---- what it says
    def record(self, rule: Rule, verdict: Verdict) -> Entry:
        """Put a verdict in; entries of earlier texts of the rule go.

        A new proof that says what the last one did leaves the entry, times included, as it was; one
        without measurements in floating point keeps those of the last.
        """
        assert verdict.hash == rule.hash, f"the verdict is not one of {rule.name}"
        entry = entry_of(rule, verdict)
        last = self.entries.get(rule.hash)
        if last is not None and verdict.floating is None and entry.status in ADMITTED:
            entry = replace(entry, floating=last.floating)
        if last is not None and replace(last, seconds=entry.seconds) == entry:
            return last
        for stale in [e for e in self.entries.values() if e.rule == rule.name]:
            del self.entries[stale.hash]
        self.entries[rule.hash] = entry
        return entry

    def keep(self, rules: Iterable[Rule]) -> list[Entry]:
        """Drop the entries of rules that are no longer there; return them."""
        names = {rule.name for rule in rules}
        gone = [entry for entry in self.entries.values() if entry.rule not in names]
        for entry in gone:
            del self.entries[entry.hash]
        return gone

    def holds(self, rule: Rule) -> bool:
        """Whether an entry speaks of the rule, and nothing that it rests on has changed."""
        problem = self.problem(rule)
        return problem is None or problem.kind == "verdict"

    def problem(self, rule: Rule) -> Problem | None:
        """Say why no entry admits a rule; None where one does."""
        entry = self.entries.get(rule.hash)
        if entry is None:
            if any(entry.rule == rule.name for entry in self.entries.values()):
                return Problem(rule.name, "edited", "the rule was edited since it was proved")
            return Problem(rule.name, "missing", "the rule has not been put through the gate")
        if entry.normaliser != normaliser():
            reason = "the prover was changed since the rule was proved"
            return Problem(rule.name, "normaliser", reason)
        unknown = set(operators(rule)) - set(entry.specifications)
        changed = sorted(unknown) if unknown else self._changed(entry)
        if changed:
            reason = f"the specification of {', '.join(changed)} was changed since it was proved"
            return Problem(rule.name, "specification", reason)
        if entry.status not in ADMITTED:
            why = entry.counterexample or entry.reason
            return Problem(rule.name, "verdict", f"the rule is {entry.status}: {why}")
        if entry.status == "bounded" and not entry.within:
            return Problem(rule.name, "verdict", "it isn't said for which ranks it is proved")
        return None

    def restricted(self, rule: Rule) -> Rule:
        """Return the rule for those ranks and lengths only that its entry says it is proved for."""
        return replace(rule, proved_for=from_record(self.entries[rule.hash].within))

    def _changed(self, entry: Entry) -> list[str]:
        return [] if self.checked and self.checked == library() else _changed(entry)


def _changed(entry: Entry) -> list[str]:
    """Name the operators whose specification is another one than when the rule was proved."""
    return [
        operator
        for operator, recorded in entry.specifications.items()
        if specification_hash(operator, entry.opset_from, entry.opset_to) != recorded
    ]


def _shipped_text() -> str:
    folder = resources.files(__package__.removesuffix(".gate.ledger"))
    return (folder / "ledger.jsonl").read_text(encoding="utf-8")


@cache
def shipped() -> Ledger:
    """Return the ledger of the shipped rules, read once."""
    return Ledger.load()


def locked(rules: Sequence[Rule], ledger: Ledger | None = None) -> list[Problem]:
    """Say of which rules no entry holds, and why; nothing is proved. None: all are admitted."""
    ledger = shipped() if ledger is None else ledger
    problems = [ledger.problem(rule) for rule in rules]
    return [problem for problem in problems if problem is not None]


def admitted(rules: Sequence[Rule], ledger: Ledger | None = None) -> tuple[Rule, ...]:
    """Keep the rules that an entry which holds says to be proved, or bounded.

    Those that are bounded are restricted to what they are proved for.
    """
    ledger = shipped() if ledger is None else ledger
    return tuple(ledger.restricted(rule) for rule in rules if ledger.problem(rule) is None)


# ------------------------------------------------------------------------------- reading a line

_SHAPES: Mapping[str, type | tuple[type, ...]] = {
    "tuple[str, ...]": list,
    "Mapping[str, int]": dict,
    "Mapping[str, object]": dict,
    "Mapping[str, str]": dict,
    "str": str,
    "Status": str,
    "str | None": str,
    "int": int,
    "int | None": int,
    "float": (int, float),
}


def _object(line: str, path: str, number: int) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise LedgerError(path, number, f"is no line of a ledger: {error}") from error
    if not isinstance(value, dict):
        raise LedgerError(path, number, "is no line of a ledger: an object is expected")
    return value


def _entry(read: dict[str, Any], path: str, number: int) -> Entry:
    shapes = {field.name: str(field.type) for field in fields(Entry)}
    for name in ("rule", "hash", "status"):
        if name not in read:
            raise LedgerError(path, number, f"has no {name!r}")
    for name, value in read.items():
        if name not in shapes:
            raise LedgerError(path, number, f"has {name!r}, which this release doesn't know")
        if not isinstance(value, _SHAPES[shapes[name]]) or isinstance(value, bool):
            raise LedgerError(path, number, f"{name!r} is {value!r}")
    if read["status"] not in get_args(Status):
        raise LedgerError(path, number, f"{read['status']!r} is no verdict")
    try:
        from_record(read.get("within", {}))
    except ValueError as error:
        raise LedgerError(path, number, f"'within' is {error}") from error
    lists = {name: tuple(value) for name, value in read.items() if isinstance(value, list)}
    return Entry(**{**read, **lists})
