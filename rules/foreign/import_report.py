"""Files of foreign rules put through the gate, and the report on them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..gate.prover_pool import prove_rules
from ..gate.verdict import Verdict
from ..language.parser import parse_rules
from ..language.syntax import Rule
from .attempts import STATUSES, Attempts, Imported, Status
from .equations import read_equations
from .jsonl import read_lines
from .terms import ForeignError, ForeignRule, Problem, lines_of

__all__ = ["Imported", "Report", "import_rules", "read_foreign"]

TIMEOUT_S = 20.0
# A reading whose convolutions have any number of groups is either proved soon or not at all.
HARD_TIMEOUT_S = 4.0
SEARCH_S = 3.0


@dataclass(frozen=True)
class Report:
    """What became of the rules of one file, in its order; `system` is "taso" or "tensat"."""

    path: str
    system: str
    rules: tuple[Imported, ...]

    @property
    def totals(self) -> dict[Status, int]:
        """How many rules have each status."""
        count = Counter(rule.status for rule in self.rules)
        return {status: count[status] for status in STATUSES}

    def record(self) -> dict[str, Any]:
        """The report as JSON has it."""
        return {
            "path": self.path,
            "system": self.system,
            "totals": self.totals,
            "rules": [rule.record() for rule in self.rules],
        }

    def rules_text(self) -> str:
        """The rules that are proved and of use, as a .rules file, each under its origin."""
        return "\n".join(
            _comment(rule, Path(self.path).name) + rule.rule
            for rule in self.rules
            if rule.usable and rule.status in ("proved", "conditional")
        )

    def write(self, path: Path) -> int:
        """Write the rules that are proved and of use; return how many there are."""
        text = self.rules_text()
        path.write_text(text, encoding="utf-8")
        return len(parse_rules(text, str(path)))


def _comment(imported: Imported, origin: str) -> str:
    lines = [f"{imported.name} is line {imported.line} of {origin}."]
    lines += [f"It needs {condition.text}." for condition in imported.conditions]
    return "".join(f"# {line}\n" for line in lines)


def read_foreign(path: Path) -> tuple[str, tuple[ForeignRule | Problem, ...]]:
    """Read a file of either format, told apart by its first line that says something.

    Returns the system, "taso" or "tensat"; ForeignError where the file can't be read at all.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ForeignError(str(path), 1, f"no UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise ForeignError(str(path), 1, f"can't read the rules: {error}") from error
    for line, content in enumerate(lines_of(text), 1):
        content = content.strip()
        if not content or content.startswith(("#", "//")):
            continue
        if content in ("{", "[") or content.startswith("["):
            reason = "JSON over several lines, or a list: rules stand one JSON object to a line"
            raise ForeignError(str(path), line, reason)
        if content.startswith("{"):
            return "taso", read_lines(text)
        if "==" in text:
            return "tensat", read_equations(text)
        reason = "neither rules of TASO (one JSON object to a line) nor equations (`lhs == rhs`)"
        raise ForeignError(str(path), line, reason)
    raise ForeignError(str(path), 1, "the file has no rules")


def import_rules(
    path: Path,
    *,
    workers: int | None = None,
    timeout: float = TIMEOUT_S,
    search: float = SEARCH_S,
    progress: Callable[[Imported], None] | None = None,
) -> Report:
    """Put every rule of a file through the gate, under one reading after the other.

    `timeout` and `search` bound the proof and the search for a counterexample of one reading, in
    seconds. `progress` is called with each rule that is done. ForeignError where the file can't be
    read; what is wrong with a single rule stands in the report.
    """
    system, said = read_foreign(path)
    attempts = [Attempts(statement) for statement in said]
    workers = workers or min(8, os.cpu_count() or 1)
    for attempt in attempts:
        if progress is not None and attempt.done:
            progress(attempt.result())
    while waiting := [attempt for attempt in attempts if not attempt.done]:
        for hard, limit in ((False, timeout), (True, min(timeout, HARD_TIMEOUT_S))):
            chosen = [attempt for attempt in waiting if not attempt.done and attempt.hard == hard]
            _try(chosen, workers, limit, search, progress)
    return Report(str(path), system, tuple(attempt.result() for attempt in attempts))


def _try(
    chosen: list[Attempts],
    workers: int,
    timeout: float,
    search: float,
    progress: Callable[[Imported], None] | None,
) -> None:
    """Put the next reading of some rules through the gate."""
    if not chosen:
        return
    by_name = {attempt.foreign.name: attempt for attempt in chosen}

    def judged(rule: Rule, verdict: Verdict) -> None:
        attempt = by_name[rule.name]
        attempt.verdicts.append(verdict)
        if progress is not None and attempt.done:
            progress(attempt.result())

    rules = [attempt.next() for attempt in chosen]
    prove_rules(rules, workers, judged, timeout=timeout, search=search, infer=False)
