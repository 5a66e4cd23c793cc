"""Which cases of a rule are looked at: choices made one after another, enumerated by replay.

A case is built by a function that asks for each choice as it comes to it. There are four kinds:

- index: ranks, axes, permutations, lengths of lists. They move indices, and interact.
- element: operators and element types. They decide what is computed with elements.
- form: how a node is spelled: a bias that is absent, a way of padding, a negative axis.
- both: the operator set, which may change all of that.

All combinations of all choices are tried where they are few. Where they are many, all of one kind
are (of forms, of three at a time), with every operator set, while the choices of the other kinds
stay at their first option, the richest: which function is applied to an element doesn't depend on
where the element goes. That is so of functions of one element between movements; other operators
are crossed with the choices of an index, and so is each form, with all of them or, where they are
many, with one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal, TypeVar, get_args

# How many combinations of choices a rule may have so that they are all tried.
FEW = 120

Kind = Literal["index", "element", "form", "both"]
T = TypeVar("T")
R = TypeVar("R")


class NoCaseError(Exception):
    """The choices made so far fit no left side: this is no case of the rule."""


class ContradictionError(NoCaseError):
    """What is known of one symbol excludes itself, whatever else is chosen."""


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

    def kind(self, name: str) -> Kind | None:
        """The kind of a choice; None for one that was not come to."""
        return self.made[name].kind if name in self.made else None


# How many choices of a kind may differ from the first option at once.
_AT_ONCE: Mapping[Kind, int] = {"element": 99, "form": 3}
# How many cases an operator may be crossed with one by one. Of more, and of more forms than a rule
# may have, those with so many choices of an index that differ from the first option.
_CROSSED = 500
_BESIDE: Mapping[Kind, int] = {"element": 2, "form": 1}


def cases(
    build: Callable[[Choices], R], crossed: Collection[str] = (), few: int = FEW
) -> Iterator[R]:
    """Yield what is built under all choices that are to be combined; skip what is no case.

    `crossed` names the choices of kind "element" that may matter together with an index. Up to
    `few` combinations are all tried: of all choices, as far as they can be foreseen, or else of one
    form at a time with all choices of an index. Cases of other elements come after the plain ones.
    """
    base: dict[str, int] = {}
    count = 0
    for choices, result in _every(build, {}, ("index", "both")):
        count += 1
        if result is not None:
            base = base or {one.name: one.taken for one in choices.made.values()}
            yield result
    choices, _ = _run(build, base)
    varied = [one for one in choices.made.values() if one.kind in ("element", "form")]
    everything = _everything(build, few) if count * prod(c.count for c in varied) <= few else None
    if everything is not None:
        yield from everything
        return
    for kind, most in _AT_ONCE.items():
        yield from _around(build, base, kind, most)
    options = [(one, {one.name: other}) for one in varied for other in range(1, one.count)]
    for kind, beside in _BESIDE.items():
        alike = [(one, changed) for one, changed in options if one.kind == kind]
        some = [changed for one, changed in alike if kind == "form" or one.name in crossed]
        for changed in some:
            if count * len(some) <= (few if kind == "form" else _CROSSED):
                found = (result for _, result in _every(build, changed, ("index",)))
                yield from (result for result in found if result is not None)
            else:
                yield from _around(build, {**base, **changed}, "index", beside)


def _everything(build: Callable[[Choices], R], few: int) -> list[R] | None:
    """All cases there are, the plain elements first; None where they are more than was foreseen."""
    found: list[tuple[int, R]] = []
    for count, (choices, result) in enumerate(_every(build, {}, get_args(Kind))):
        if count >= 2 * few:
            return None
        if result is not None:
            others = sum(one.kind == "element" and one.taken > 0 for one in choices.made.values())
            found.append((others, result))
    return [result for _, result in sorted(found, key=lambda one: one[0])]


def _around(
    build: Callable[[Choices], R], base: Mapping[str, int], kind: Kind, most: int
) -> Iterator[R]:
    """Yield the cases that differ from the base in choices of one kind."""
    waiting: list[dict[str, int]] = [{}]
    seen: set[frozenset[tuple[str, int]]] = {frozenset()}
    nowhere: set[tuple[str, int]] = set()
    while waiting:
        changed = waiting.pop(0)
        # What fits no case by itself may beside something else, but then at the base.
        choices, result = _first(build, base, changed, nowhere.isdisjoint(changed.items()))
        if result is None and len(changed) == 1:
            nowhere |= set(changed.items())
        if result is not None and any(choices.kind(name) == kind for name in changed):
            yield result
        if len(changed) == most:
            continue
        for choice in choices.made.values():
            if choice.kind not in (kind, "both") or choice.name in changed:
                continue
            for other in range(1, choice.count):
                more = {**changed, choice.name: other}
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
    build: Callable[[Choices], R], base: Mapping[str, int], changed: Mapping[str, int], far: bool
) -> tuple[Choices, R | None]:
    """Run the first case with these choices: at the base, or else, if `far`, wherever one is."""
    choices, result = _run(build, {**base, **changed})
    if result is not None or not far:
        return choices, result
    for other, found in _every(build, changed, ("index",)):
        if found is not None:
            return other, found
    return choices, None
