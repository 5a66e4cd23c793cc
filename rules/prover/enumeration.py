"""Which cases of a rule are looked at: choices made one after another, enumerated by replay.

A case is built by a function that asks for each choice as it comes to it. Choices are of three
kinds. Those that move indices (ranks, axes, permutations, lengths of lists) interact with each other,
so all their combinations are tried; so do those that decide what is computed (an operator, an element
type, a bias that may be absent, a way of padding). The two kinds are combined where the other is at
its first option, the richest: which function is applied to an element doesn't depend on where the
element goes. Choices of the third kind, such as the operator set, are combined with all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

Kind = Literal["index", "element", "both"]
T = TypeVar("T")
R = TypeVar("R")


class NoCaseError(Exception):
    """The choices made so far fit no left side: this is no case of the rule."""


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
        self.made: dict[str, Choice] = {}

    def pick(self, name: str, options: Sequence[T], kind: Kind = "index") -> T:
        """Return an option; the same one whenever asked again under this name."""
        if not options:
            raise NoCaseError(f"nothing fits {name}")
        taken = self.fixed.get(name, 0)
        if taken >= len(options):
            raise NoCaseError(f"{name} has fewer options here")
        self.made[name] = Choice(name, kind, taken, len(options), str(options[taken]))
        return options[taken]

    def kind(self, name: str) -> Kind:
        """The kind of a choice; one that was not come to counts as one of elements."""
        return self.made[name].kind if name in self.made else "element"


def cases(build: Callable[[Choices], R]) -> Iterator[R]:
    """Yield what is built under all choices that are to be combined; skip what is no case."""
    base: dict[str, int] = {}
    for choices, result in _every(build, {}, ("index", "both")):
        if result is not None:
            base = base or {one.name: one.taken for one in choices.made.values()}
            yield result
    waiting: list[dict[str, int]] = [{}]
    seen: set[frozenset[tuple[str, int]]] = {frozenset()}
    while waiting:
        element = waiting.pop(0)
        choices, result = _first(build, base, element)
        if result is not None and any(choices.kind(name) == "element" for name in element):
            yield result
        for choice in choices.made.values():
            if choice.kind == "index" or choice.name in element:
                continue
            for other in range(1, choice.count):
                more = {**element, choice.name: other}
                if frozenset(more.items()) not in seen:
                    seen.add(frozenset(more.items()))
                    waiting.append(more)


def _run(build: Callable[[Choices], R], fixed: Mapping[str, int]) -> tuple[Choices, R | None]:
    choices = Choices(fixed)
    try:
        return choices, build(choices)
    except NoCaseError:
        return choices, None


def _every(
    build: Callable[[Choices], R], start: Mapping[str, int], kinds: tuple[Kind, ...]
) -> Iterator[tuple[Choices, R | None]]:
    """Run through all combinations of choices of some kinds, depth first."""
    waiting: list[tuple[dict[str, int], int]] = [(dict(start), 0)]
    while waiting:
        fixed, settled = waiting.pop()
        choices, result = _run(build, fixed)
        yield choices, result
        made = list(choices.made.values())
        more = []
        for at, choice in enumerate(made[settled:], settled):
            if choice.kind not in kinds or choice.name in start:
                continue
            before = {one.name: one.taken for one in made[:at]}
            more += [
                ({**start, **before, choice.name: other}, at + 1)
                for other in range(choice.taken + 1, choice.count)
            ]
        waiting += reversed(more)


def _first(
    build: Callable[[Choices], R], base: Mapping[str, int], element: Mapping[str, int]
) -> tuple[Choices, R | None]:
    """Run the first case with these element choices: at the base, or else wherever there is one."""
    choices, result = _run(build, {**base, **element})
    if result is not None:
        return choices, result
    for other, found in _every(build, element, ("index",)):
        if found is not None:
            return other, found
    return choices, None
