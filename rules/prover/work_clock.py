"""A clock that counts work instead of time: no verdict depends on how busy a machine is.

It goes on by what was done, in seconds that this takes on one core of a machine of 2024: monomials
written, questions put, steps that solvers count themselves (their `rlimit`). So the same rule under
the same code comes to its limit at the same place, wherever it runs and whatever runs beside it.
The clock is that of the process: one proof at a time goes by it.

A solver may lose count of its steps, in a long division of large numbers for one. The limits in
real time that guard against that are so wide that only such a solver comes to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import z3

# What is done in a second: measured on the shipped rules, where Z3 takes 2 to 8 million steps.
_MONOMIALS = 300_000
_QUESTIONS = 400
Z3_STEPS = 3_000_000
CVC5_STEPS = 1_000_000
# Limits in real time, for what doesn't keep to its limit of steps.
_GUARD_S = 30.0
_GUARD_TIMES = 5.0
# Z3 takes no larger number of steps for a limit.
_MOST_STEPS = (1 << 32) - 1


@dataclass
class Work:
    """What was done in this process since it began."""

    monomials: int = 0
    questions: int = 0
    z3_steps: int = 0
    cvc5_steps: int = 0


DONE = Work()


def now() -> float:
    """Return what the clock shows, in seconds of work; only differences mean anything."""
    return (
        DONE.monomials / _MONOMIALS
        + DONE.questions / _QUESTIONS
        + DONE.z3_steps / Z3_STEPS
        + DONE.cvc5_steps / CVC5_STEPS
    )


def guard(seconds: float) -> float:
    """Return the real time, in seconds, after which so much work is given up at the latest."""
    return _GUARD_S + _GUARD_TIMES * seconds


def steps(seconds: float, rate: int) -> int:
    """Return the steps of a solver that takes so many a second; at least one, for 0 is no limit."""
    return max(1, min(_MOST_STEPS, int(seconds * rate)))


def limit(solver: z3.Solver, seconds: float) -> None:
    """Limit each answer of Z3 to so many seconds of work."""
    solver.set("rlimit", steps(seconds, Z3_STEPS))
    solver.set("timeout", int(1000 * guard(seconds)))


def steps_of(solver: z3.Solver) -> int:
    """Return the steps of a Z3 that was asked nothing else."""
    statistics = solver.statistics()
    is_counted = "rlimit count" in statistics.keys()  # noqa: SIM118 (it is no mapping)
    return int(statistics.get_key_value("rlimit count")) if is_counted else 0
