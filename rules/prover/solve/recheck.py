"""A second solver's opinion: cvc5 reads the scripts that Z3 found unsatisfiable.

An answer to a script, by whichever solver, is worth what the solver is; two that share no code are
less likely to be wrong alike. What a second solver can't decide in time says nothing.
"""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, Literal

from ..work_clock import CVC5_STEPS, DONE, guard, limit, now, steps
from .smt_scripts import canonical, script_hash

Answer = Literal["unsat", "sat", "unknown"]
Opinion = Literal["agree", "unknown", "disagree", "absent"]

TIMEOUT_S = 1.0
_STEPS = "resource::resourceUnitsUsed"
_AGREED: dict[str, Recheck] = {}
ABSENT = (
    "cvc5 is not installed, so that no second solver rechecks the proofs: "
    "pip install cvc5, on a platform that it has wheels for"
)


@dataclass(frozen=True)
class Recheck:
    """What the second solver said of a script that is unsatisfiable by the first.

    `reason` says why it has no opinion: out of time, a script it doesn't understand, not installed.
    """

    script_hash: str
    opinion: Opinion
    reason: str = ""
    seconds: float = 0.0


@cache
def _cvc5() -> ModuleType | None:
    try:
        return importlib.import_module("cvc5")
    except ImportError:
        return None


@cache
def cvc5_release() -> str | None:
    """Return the release of cvc5; None where it is not installed."""
    module = _cvc5()
    if module is None:
        return None
    version = module.Solver(module.TermManager()).getVersion()
    return version.decode() if isinstance(version, bytes) else str(version)


@cache
def z3_release() -> str:
    """Return the release of Z3."""
    module = importlib.import_module("z3")
    return str(module.get_version_string())


def ask_cvc5(script: str, timeout: float = TIMEOUT_S) -> tuple[Answer, str]:
    """Put a script to cvc5; return its answer, and why it is unknown if it is.

    `timeout` is in seconds of work. Raises ModuleNotFoundError where cvc5 is not installed.
    """
    module = _cvc5()
    if module is None:
        raise ModuleNotFoundError(ABSENT)
    solver = module.Solver(module.TermManager())
    solver.setOption("rlimit-per", str(steps(timeout, CVC5_STEPS)))
    solver.setOption("tlimit-per", str(int(1000 * guard(timeout))))
    parser = module.InputParser(solver)
    answers: list[str] = []
    try:
        parser.setStringInput(module.InputLanguage.SMT_LIB_2_6, canonical(script), "script")
        names = parser.getSymbolManager()
        while not (command := parser.nextCommand()).isNull():
            said = str(command.invoke(solver, names)).strip()
            if said:
                answers.append(said)
    except RuntimeError as error:
        return "unknown", f"cvc5 doesn't take the script: {' '.join(str(error).split())}"
    finally:
        DONE.cvc5_steps += _steps_of(solver)
    if answers in (["sat"], ["unsat"]):
        return ("sat" if answers == ["sat"] else "unsat"), ""
    if len(answers) == 1 and answers[0].startswith("unknown"):
        return "unknown", f"cvc5 has no answer within {timeout:g} s"
    return "unknown", f"cvc5 doesn't take the script: {' '.join(answers) or 'no answer'}"


def _steps_of(solver: Any) -> int:
    """Return the steps that a solver of cvc5 counted."""
    return int(solver.getStatistics()[_STEPS]["value"])


def ask_z3(script: str, timeout: float = TIMEOUT_S) -> tuple[Answer, str]:
    """Put a script to Z3; return its answer, and why it is unknown if it is.

    `timeout` is in seconds of work.
    """
    z3 = importlib.import_module("z3")
    solver = z3.Solver()
    limit(solver, timeout)
    try:
        solver.from_string(canonical(script))
    except z3.Z3Exception as error:
        return "unknown", f"Z3 doesn't take the script: {' '.join(str(error).split())}"
    answer = str(solver.check())
    if answer == "unsat":
        return "unsat", ""
    if answer == "sat":
        return "sat", ""
    return "unknown", f"Z3 has no answer within {timeout:g} s ({solver.reason_unknown()})"


def recheck(
    script: str,
    timeout: float = TIMEOUT_S,
    ask: Callable[[str, float], tuple[Answer, str]] = ask_cvc5,
) -> Recheck:
    """Ask for a second opinion on a script that is said to be unsatisfiable."""
    name = script_hash(script)
    if ask is ask_cvc5 and _cvc5() is None:
        return Recheck(name, "absent", ABSENT)
    began = time.perf_counter()
    answer, reason = ask(script, timeout)
    seconds = time.perf_counter() - began
    if answer == "unsat":
        return Recheck(name, "agree", "", seconds)
    if answer == "sat":
        return Recheck(name, "disagree", "a second solver finds it satisfiable", seconds)
    return Recheck(name, "unknown", reason, seconds)


def recheck_all(
    scripts: Iterable[str],
    timeout: float = TIMEOUT_S,
    ask: Callable[[str, float], tuple[Answer, str]] = ask_cvc5,
    *,
    budget: float = math.inf,
) -> dict[str, Recheck]:
    """Recheck scripts, each once; return what was said by the hash of the script.

    After `budget` seconds of work nothing more is asked. Many rules ask the same: what cvc5 once
    agreed to in this process it isn't asked again.
    """
    until = now() + budget
    rechecks: dict[str, Recheck] = {}
    for script in scripts:
        if (name := script_hash(script)) in rechecks:
            continue
        if ask is ask_cvc5 and name in _AGREED:
            rechecks[name] = _AGREED[name]
            continue
        remaining_s = until - now()
        if remaining_s <= 0:
            rechecks[name] = Recheck(name, "unknown", "there was no time left to ask")
            continue
        rechecks[name] = recheck(script, min(timeout, remaining_s), ask)
        if ask is ask_cvc5 and rechecks[name].opinion == "agree":
            _AGREED[name] = rechecks[name]
    return rechecks
