"""Cases that are built once: the same choices come up again and again while cases are enumerated.

A case is built by a function that asks for each choice as it comes to it, and that is all it goes
by. So what it was told decides what it asks next and what it makes in the end: answers that lead
down a path that was taken before lead to what was made there, or to the reason why it is no case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from .enumeration import Choice, Choices, Kind, NoCaseError

T = TypeVar("T")
R = TypeVar("R")


@dataclass
class _Step(Generic[R]):
    """What is asked after some answers, and what follows each answer; or the end of the path."""

    name: str = ""
    after: dict[int, _Step[R]] = field(default_factory=dict)
    choices: dict[str, Choice] = field(default_factory=dict)
    made: R | None = None
    # The class of an error and what it says: the error itself would keep all that was built.
    reason: tuple[type[NoCaseError], tuple[object, ...]] | None = None


class _Asked(Choices):
    """Choices that keep what was asked, one name after another, with the answers."""

    def __init__(self, fixed: Mapping[str, int]) -> None:
        super().__init__(fixed)
        self.path: list[tuple[str, int]] = []

    def pick(self, name: str, options: Sequence[T], kind: Kind = "index") -> T:
        """Return an option; the same one whenever asked again under this name."""
        if name not in self.made and options:
            self.path.append((name, self.fixed.get(name, 0)))
        return super().pick(name, options, kind)


def remembered(build: Callable[[Choices], R]) -> Callable[[Choices], R]:
    """Return a function that builds what `build` does, each case once.

    `build` may be asked for other options under a name that it has asked for: those it gets again.
    """
    root: _Step[R] = _Step()

    def again(choices: Choices) -> R:
        step: _Step[R] | None = root
        while step is not None and step.name:
            step = step.after.get(choices.fixed.get(step.name, 0))
        if step is not None:
            choices.made.update(step.choices)
            if step.reason is not None:
                raise step.reason[0](*step.reason[1])
            if step.made is not None:
                return step.made
        asked = _Asked(choices.fixed)
        asked.made = choices.made
        try:
            made = build(asked)
        except NoCaseError as error:
            end(asked).reason = type(error), error.args
            raise
        end(asked).made = made
        return made

    def end(asked: _Asked) -> _Step[R]:
        step = root
        for name, taken in asked.path:
            step.name = name
            step = step.after.setdefault(taken, _Step())
        step.choices = dict(asked.made)
        return step

    return again
