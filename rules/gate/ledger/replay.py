"""Stored obligations put to a solver again, and compared with what the ledger says of them.

A proof rests on scripts that were unsatisfiable. A replay asks whether they are, by either solver,
and whether they are the scripts that the ledger took the hash of.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ....catalog.errors import TensologError
from ...prover.solve.recheck import ask_cvc5, ask_z3
from ...prover.solve.smt_scripts import Scripts, digest, script_hash
from ..verdict import Verdict
from .ledger import Ledger

if TYPE_CHECKING:
    from ....catalog import Catalog

SolverName = Literal["z3", "cvc5"]
ASK = {"z3": ask_z3, "cvc5": ask_cvc5}
TIMEOUT_S = 20.0


class ReplayError(TensologError):
    """There is nothing to replay, or not what the ledger speaks of."""


@dataclass(frozen=True)
class Replayed:
    """What a solver said of a stored script; `answer` "unsat" is what the proof rests on."""

    rule: str
    script_hash: str
    answer: Literal["unsat", "sat", "unknown"]
    reason: str
    seconds: float

    @property
    def contradicts(self) -> bool:
        """Whether the solver denies what the proof rests on; not knowing denies nothing."""
        return self.answer == "sat"


def group(rule: str, rule_hash: str) -> str:
    """Return the name under which the scripts of a rule are stored."""
    return f"{rule} {rule_hash}"


def store_scripts(scripts: Scripts, verdict: Verdict) -> None:
    """Keep the scripts of a verdict, in place of those of earlier texts of the rule."""
    for name in [name for name in scripts.groups if name.split(" ")[0] == verdict.rule]:
        del scripts.groups[name]
    if verdict.obligations:
        scripts.put(
            group(verdict.rule, verdict.hash),
            (obligation.script for obligation in verdict.obligations),
        )


def stored(
    ledger: Ledger, scripts: Scripts, names: Sequence[str] = ()
) -> Iterator[tuple[str, str]]:
    """Yield rule and script of the proofs in a ledger; of the rules named, or of all.

    Raises ReplayError for a name that is not in the ledger, and where the scripts stored for a
    rule are not those that its proof rests on.
    """
    known = {entry.rule for entry in ledger.entries.values()}
    if missing := [name for name in names if name not in known]:
        raise ReplayError(f"{missing[0]} is not in the ledger: `tensolog rules prove` it first")
    for entry in sorted(ledger.entries.values(), key=lambda e: e.rule):
        if not entry.obligations or (names and entry.rule not in names):
            continue
        stored = scripts.of(group(entry.rule, entry.hash))
        if digest(script_hash(script) for script in stored) != entry.digest:
            state = "are not those that its proof rests on" if stored else "are not stored"
            raise ReplayError(
                f"the obligations of {entry.rule} {state}: run `tensolog rules prove {entry.rule}`"
            )
        for script in stored:
            yield entry.rule, script


def stored_in(catalog: Catalog, names: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield rule and script of the proofs in a catalog; of the rules named, or of all."""
    rows = catalog.sql(
        "SELECT DISTINCT r.name, o.script_hash, s.text "
        "FROM obligation o JOIN rule r USING (rule_hash) LEFT JOIN script s USING (script_hash) "
        "WHERE len($names) = 0 OR r.name IN (SELECT unnest($names)) ORDER BY 1, 2".replace(
            "$names", "?::VARCHAR[]"
        ),
        [list(names), list(names)],
    ).fetchall()
    stored = {row[0] for row in rows}
    if missing := [name for name in names if name not in stored]:
        raise ReplayError(f"the catalog holds no obligation of {missing[0]}")
    for name, expected, text in rows:
        if text is None or script_hash(text) != expected:
            raise ReplayError(f"an obligation of {name} is not what its hash says")
        yield name, text


def replay(
    obligations: Iterable[tuple[str, str]],
    solver: SolverName = "z3",
    timeout: float = TIMEOUT_S,
    progress: Callable[[Replayed], None] | None = None,
) -> tuple[Replayed, ...]:
    """Put stored scripts to a solver; equal ones once. `timeout` is in seconds a script."""
    ask = ASK[solver]
    answers: dict[str, Replayed] = {}
    replayed = []
    for rule, script in obligations:
        name = script_hash(script)
        if name not in answers:
            began = time.perf_counter()
            answer, reason = ask(script, timeout)
            answers[name] = Replayed(rule, name, answer, reason, time.perf_counter() - began)
        answered = answers[name]
        replayed.append(Replayed(rule, name, answered.answer, answered.reason, answered.seconds))
        if progress is not None:
            progress(replayed[-1])
    return tuple(replayed)


def scripts_path(ledger: Path) -> Path:
    """Return where the scripts of a ledger are kept."""
    return ledger.with_name("obligations.xz")
