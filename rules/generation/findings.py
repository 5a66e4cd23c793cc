"""What a run finds: candidates with what became of each, and the rules that are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..language.canonical_text import format_rules
from ..language.syntax import Rule
from .candidates import Candidate
from .enumeration import Level
from .wording import Spelling


@dataclass
class Finding:
    """A candidate and what became of it.

    kept: `rules` stand for it, one, or one for each direction. proved: likewise, but what they do
    in floating point was not measured yet. derived: by the rules `derived_by`. refuted, refused,
    unknown: as the gate says, for `reason`. elsewhere: nothing in the program that rules are wanted
    for is an instance of it. open: the budget ended before it.
    """

    candidate: Candidate
    nodes: int
    position: int
    status: str = "open"
    reason: str = ""
    derived_by: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    # More general spellings of the rules that were not decided in the time for a first attempt.
    wider: tuple[tuple[Spelling, Rule], ...] = ()


def with_status(findings: Iterable[Finding], status: str) -> list[Finding]:
    """Those that this became of."""
    return [finding for finding in findings if finding.status == status]


@dataclass
class Generation:
    """What a run saw: levels of the enumeration, findings, and how it ended.

    `from_nothing`: no shipped rules were known. `known_files`: the files of rules that were found
    before. `is_measured`: what rules do in floating point was measured, as far as the budget went.
    `complete`: all terms of the sizes asked for were seen, and no candidate is open.
    """

    operators: tuple[str, ...]
    nodes: int
    inputs: int
    seed: int
    from_nothing: bool
    constants: bool
    run_hash: str
    known_files: tuple[str, ...] = ()
    is_measured: bool = True
    levels: list[Level] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0
    processor_s: float = 0.0
    complete: bool = False

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules found, each proved, none derived by the others and those known before."""
        kept = with_status(self.findings, "kept")
        return tuple(rule for finding in kept for rule in finding.rules)

    @property
    def proved(self) -> tuple[Rule, ...]:
        """Those, and the ones that are still to be measured in floating point."""
        return tuple(rule for finding in self.findings for rule in finding.rules)

    @property
    def totals(self) -> dict[str, int]:
        """The number of findings by status."""
        return dict(Counter(finding.status for finding in self.findings))

    @property
    def command(self) -> str:
        """The command that finds them again."""
        nothing = " --from-nothing" if self.from_nothing else ""
        nothing += " --constants" if self.constants else ""
        nothing += "" if self.is_measured else " --unmeasured"
        nothing += "".join(f" --known {file}" for file in self.known_files)
        return (
            f"tensolog rules generate --operators {','.join(self.operators)} --nodes {self.nodes} "
            f"--inputs {self.inputs} --seed {self.seed}{nothing}"
        )

    @property
    def text(self) -> str:
        """The rules as a file of the rule language."""
        return self.text_of(self.rules)

    def text_of(self, rules: Sequence[Rule]) -> str:
        """Some of the rules as a file of the rule language."""
        head = f"# Found and proved by\n#   {self.command}\n#\n# [generated] by that command.\n\n"
        return head + format_rules(tuple(rules))

    def record(self) -> dict[str, object]:
        """What the run saw, as JSON has it."""
        return {
            "run_hash": self.run_hash,
            "command": self.command,
            "complete": self.complete,
            "seconds": round(self.seconds, 1),
            "processor_s": round(self.processor_s, 1),
            "levels": [
                {
                    "nodes": level.nodes,
                    "terms": level.terms,
                    "classes": level.classes,
                    "equalities": len(level.equalities),
                    "complete": level.complete,
                }
                for level in self.levels
            ],
            "totals": self.totals,
            "candidates": [
                {
                    "equality": finding.candidate.text,
                    "status": finding.status,
                    "reason": finding.reason,
                    "derived_by": list(finding.derived_by),
                    "rules": [rule.name for rule in finding.rules],
                }
                for finding in self.findings
            ],
            "rules": self.text,
        }
