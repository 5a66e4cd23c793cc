"""Which cases of a rule are looked at: choices made one after another, enumerated by replay.

A case is built by a function that asks for each choice as it comes to it: ranks, axes, operators,
element types, how a node is spelled. Choices interact: what is true of each option by itself may be
false of two together. So all combinations are looked at. What needs no choice, since it is seen
to say the same whichever way it is said, is not one (axis_notation.py).

Where an argument that speaks of no single case shows the rule (ranks/data_movement.py), cases are
examples of it: then all choices of an index are combined, and of the others one at a time differs
from the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

# How many combinations are built at most.
MOST = 6000

# index: ranks, axes, permutations, lengths of lists; element: operators and element types; form:
# how a node is spelled: a bias that is absent, a way of padding; both: the operator set, which may
# change all of that.
Kind = Literal["index", "element", "form", "both"]
T = TypeVar("T")
R = TypeVar("R")


class NoCaseError(Exception):
    """The choices made so far fit no left side: this is no case of the rule."""


class ContradictionError(NoCaseError):
    """What is known of one symbol excludes itself, whatever else is chosen."""


class TooManyError(Exception):
    """There are more combinations than are built."""


@dataclass(frozen=True)
class Choice:
    """A choice that was made: the option taken of so many, and what it says."""

    name: str
    kind: Kind
    taken: int
    count: int
    text: str


class Choices:
    """The choices of one case: those fixed beforehand, then the first option each."""

    def __init__(self, fixed: Mapping[str, int]) -> None:
        self.fixed = fixed
        self.by_name: dict[str, Choice] = {}

    def pick(self, name: str, options: Sequence[T], kind: Kind = "index") -> T:
        """Return an option; the same one whenever asked again under this name."""
        if not options:
            raise NoCaseError(f"nothing fits {name}")
        taken = self.fixed.get(name, 0)
        if taken >= len(options):
            raise NoCaseError(f"{name} has fewer options here")
        self.by_name[name] = Choice(name, kind, taken, len(options), str(options[taken]))
        return options[taken]


def cases(build: Callable[[Choices], R], most: int = MOST) -> Iterator[R]:
    """Yield what is built under all combinations of choices; skip what is no case.

    The last choice changes first. Raises TooManyError after `most` builds.
    """
    for _, result in _every(build, {}, ("index", "element", "form", "both"), most):
        if result is not None:
            yield result


def examples(build: Callable[[Choices], R], most: int = MOST) -> Iterator[R]:
    """Yield what is built under all choices of an index, and under each other option by itself."""
    base: dict[str, int] | None = None
    for choices, result in _every(build, {}, ("index", "both"), most):
        if result is not None:
            base = base or {choice.name: choice.taken for choice in choices.by_name.values()}
            yield result
    choices, _ = _run(build, base or {})
    for choice in choices.by_name.values():
        if choice.kind in ("element", "form"):
            for other in range(1, choice.count):
                changed = {**(base or {}), choice.name: other}
                changed.pop("opset", None)
                for _, result in _every(build, changed, ("both",), most):
                    if result is not None:
                        yield result


def _run(build: Callable[[Choices], R], fixed: Mapping[str, int]) -> tuple[Choices, R | None]:
    choices = Choices(fixed)
    try:
        return choices, build(choices)
    except NoCaseError:
        return choices, None


def _every(
    build: Callable[[Choices], R], start: Mapping[str, int], kinds: tuple[Kind, ...], most: int
) -> Iterator[tuple[Choices, R | None]]:
    """Run through all combinations of choices of some kinds, depth first."""
    waiting: list[tuple[dict[str, int], int]] = [(dict(start), 0)]
    for _ in range(most):
        if not waiting:
            return
        fixed, settled = waiting.pop()
        choices, result = _run(build, fixed)
        yield choices, result
        choice_list = list(choices.by_name.values())
        for position, choice in enumerate(choice_list[settled:], settled):
            if choice.kind not in kinds or choice.name in start:
                continue
            before = {earlier.name: earlier.taken for earlier in choice_list[:position]}
            waiting += [
                ({**start, **before, choice.name: other}, position + 1)
                for other in reversed(range(choice.taken + 1, choice.count))
            ]
    if waiting:
        raise TooManyError
