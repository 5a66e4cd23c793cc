"""What is asked of a model that is to be served, and what is chosen for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..deployment.deployment import BatchAxis
from ..deployment.settings import Goal, Limit
from ..devices import Cluster
from ..runnable_plan import Slot
from .choose import Choice

if TYPE_CHECKING:
    from .over_devices import Division

Progress = Callable[[str, int, int, str], None]
Shapes = Mapping[str, Sequence[int]]

ORIGINAL, OPTIMIZED, REWRITTEN = "original", "optimized", "rewritten"


@dataclass(frozen=True)
class Requirements:
    """The goal and its limits, and within what they are to be reached.

    At most `cores` cores are used, and batches have at most `most_rows` rows; `shapes` gives free
    dimensions by input, `budget_s` is the time for each race.
    """

    goal: Goal
    limits: tuple[Limit, ...]
    cores: int
    most_rows: int
    shapes: Shapes
    budget_s: float
    progress: Progress | None

    @property
    def sizes(self) -> dict[str, tuple[int, ...]]:
        """Give the shapes that were asked for, by input."""
        return {name: tuple(shape) for name, shape in self.shapes.items()}

    def tell(self, phase: str, detail: str) -> None:
        """Report progress."""
        if self.progress is not None:
            self.progress(phase, 0, 0, detail)


@dataclass(frozen=True)
class ServedModel:
    """A model, what it takes and gives, and the setting that is best for it.

    `devices` are those that it was raced over, None where instances of this machine were compared;
    `division` is how it is divided among them, None where the whole model is best.
    """

    model: Path
    variant: str
    axis: BatchAxis
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    choice: Choice
    devices: Cluster | None = None
    division: Division | None = None
