"""A program made ready to run: rewritten, planned, compiled; by NumPy where that can't be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .dag import Program
from .evaluate import run

Heuristic = Literal["cost", "all", "no_redundancy", "none"]


@dataclass(frozen=True)
class Options:
    """How a fused function plans and runs."""

    heuristic: Heuristic = "cost"
    threads: int | None = None


@dataclass
class Prepared:
    """A program, the program after rewriting, and how it runs; `refusal` says why by NumPy."""

    traced: Program
    program: Program
    plan: Any = None
    compiled: Any = None
    refusal: str | None = None

    @property
    def kernels(self) -> int:
        """How many generated kernels run."""
        steps = () if self.compiled is None else self.compiled.steps
        return sum(1 for step in steps if step.kernel is not None)

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the outputs for the inputs' values."""
        if self.compiled is None:
            return run(self.program, inputs)
        return list(self.compiled.run(inputs))


def prepare(program: Program, options: Options) -> Prepared:
    """Return a program ready to run."""
    return Prepared(program, program, refusal="kernels aren't generated yet")
