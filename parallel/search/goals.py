"""What a plan is for, as a number that is better the smaller it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast, get_args

from ...catalog.errors import TensologError
from ..simulation.simulator import Simulation

Goal = Literal["latency", "throughput", "memory"]


class PlanError(TensologError):
    """No plan can be made of a model, a description of devices and a goal."""


@dataclass(frozen=True)
class Score:
    """How good a plan is: bytes beyond what devices hold, then the goal, then the latency.

    The goal is in seconds of a request (latency), of the busiest device for a request (throughput),
    or in bytes of the fullest device (memory).
    """

    excess_bytes: int
    goal: float
    latency_s: float

    def __lt__(self, other: Score) -> bool:
        return self.key < other.key

    @property
    def key(self) -> tuple[int, float, float]:
        """What scores are compared by: where goals differ by rounding alone, latency decides."""
        return self.excess_bytes, float(f"{self.goal:.9g}"), self.latency_s


def score(simulation: Simulation, goal: Goal) -> Score:
    """Return how good a simulated plan is."""
    problem = simulation.problem
    devices = problem.cluster.devices
    bytes_of: dict[int, int] = {}
    excess = 0
    if goal == "memory" or problem.most_bytes > min(device.memory_bytes for device in devices):
        bytes_of = simulation.memory_bytes()
        excess = sum(
            max(bytes_of.get(n, 0) - device.memory_bytes, 0) for n, device in enumerate(devices)
        )
    if goal == "latency":
        number = simulation.latency_s
    elif goal == "throughput":
        number = simulation.bottleneck_s
    else:
        number = float(max(bytes_of.values(), default=0))
    return Score(excess, number, simulation.latency_s)


def check_goal(goal: str) -> Goal:
    """Return a goal by its name. Raises PlanError for another word."""
    if goal not in get_args(Goal):
        raise PlanError(f"unknown goal {goal!r}: it is one of {', '.join(get_args(Goal))}")
    return cast(Goal, goal)
