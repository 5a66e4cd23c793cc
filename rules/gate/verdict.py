"""What the gate says of a rule."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ..language.rank_bounds import Within

if TYPE_CHECKING:
    from .floating.rounding import Rounding
    from .floating.scalar_bits import Bits
    from .floating.special_values import Special

Status = Literal["proved", "bounded", "refuted", "refused", "unknown"]


@dataclass(frozen=True)
class Case:
    """One statement of a rule and what became of it."""

    title: str
    status: Literal["proved", "open"]
    reason: str
    queries: int
    seconds: float


@dataclass(frozen=True)
class Checked:
    """A query answered with unsat, which a proof rests on, and what a second solver said of it.

    `title` is that of the case. `opinion`: agree, unknown (no answer in time), disagree, or absent
    (not asked). Times are in seconds.
    """

    title: str
    purpose: str
    script: str
    seconds: float
    opinion: Literal["agree", "unknown", "disagree", "absent"]
    recheck_seconds: float


@dataclass(frozen=True)
class Counterexample:
    """Numbers on which the two sides differ, and a program that shows it.

    `kind`: "value", "shape", "type", "undefined" (the target has no value where the source has),
    "defined" (the source has none where the target has one), "floating" (equal as real numbers).
    """

    kind: str
    summary: str
    snippet: str


@dataclass(frozen=True)
class FloatingRecord:
    """What a rule does in floating point.

    `problems` say how it breaks its class or loses accuracy; none: it keeps what it promises, as
    far as was seen. `counterexample` shows the first of them as a program, where it can be run.
    """

    rule: str
    hash: str
    roundings: tuple[Rounding, ...]
    specials: tuple[Special, ...]
    bits: tuple[Bits, ...]
    problems: tuple[str, ...]
    seconds: float
    counterexample: Counterexample | None = None

    @property
    def status(self) -> Literal["exact", "tested", "rounds", "unmeasured", "unsafe", "broken"]:
        """Sum up: bits proved equal, or equal in all runs; rounded; never run; unsafe; broken."""
        verdicts = {rounding.verdict for rounding in self.roundings}
        if "unsafe" in verdicts:
            return "unsafe"
        if self.problems:
            return "broken"
        if self.bits and all(bit.result == "proved" and not bit.finite for bit in self.bits):
            return "exact"
        if not verdicts:
            return "unmeasured"
        kept = all(special.verdict == "kept" for special in self.specials)
        return "tested" if verdicts == {"equal"} and kept else "rounds"

    def summary(self) -> dict[str, object]:
        """Sum the record up for the ledger: the largest ratio by family, what differs, the bits."""
        worst: dict[str, float] = {}
        for rounding in self.roundings:
            if rounding.dtype == "float32":
                worst[rounding.family] = float(f"{rounding.max_ratio:.3g}")
        differ = sorted({special.kind for special in self.specials if special.verdict != "kept"})
        bits = {bit.dtype: bit.result + (" finite" if bit.finite else "") for bit in self.bits}
        return {
            "status": self.status,
            "ratio": worst,
            "differs": differ,
            "bits": bits,
            "problems": list(self.problems),
        }


@dataclass(frozen=True)
class Verdict:
    """The gate's answer.

    proved: equal for all sizes, at all ranks (`ranks` "all"). bounded: at those `within`, which
    `ranks` says in words.
    refuted: with a counterexample that was run. refused: ill-typed, undefined or vacuous as a text,
    or equal as real numbers only, and unsafe in floating point.
    unknown: none of these, and `reason` says why. `conditions` are side conditions under which the
    rule would be proved, as texts of the rule language; empty where it holds as it stands or none
    was found. `algebras` are those in which it was proved: real, integer, boolean. `solver` and
    `rechecker` are the releases used; rechecker None: nothing was rechecked. `floating` is its
    behaviour in floating point, where it was asked for.
    """

    rule: str
    hash: str
    status: Status
    reason: str = ""
    ranks: str = ""
    within: tuple[Within, ...] = ()
    algebras: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    counterexample: Counterexample | None = None
    cases: tuple[Case, ...] = ()
    seconds: float = 0.0
    obligations: tuple[Checked, ...] = field(default=(), repr=False)
    solver: str = ""
    rechecker: str | None = None
    floating: FloatingRecord | None = field(default=None, repr=False)
