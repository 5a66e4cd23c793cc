"""The extraction problem: classes that must be computed, e-nodes that can, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ....catalog.ordering import CycleError as CycleError
from ....catalog.ordering import topological


@dataclass(frozen=True)
class Choice:
    """One way to get a class: an e-node, its cost, and the classes it needs.

    An e-node of several outputs is a choice of several classes, and is paid for once.
    """

    node: int
    cost: float
    needs: tuple[int, ...]


@dataclass(frozen=True)
class Problem:
    """Classes with their choices, and the classes that are asked for; the rest is free."""

    choices: Mapping[int, tuple[Choice, ...]]
    roots: tuple[int, ...]


Selection = Mapping[int, Choice]


def in_order(selection: Selection, roots: Iterable[int]) -> list[int]:
    """Sort the classes that a selection computes, those that are needed first.

    Raises CycleError where there is no such order, KeyError where a class has no choice.
    """
    return topological(roots, lambda class_: selection[class_].needs)


def cost_of(selection: Selection, classes: Iterable[int]) -> float:
    """Add up the e-nodes that are chosen for some classes, each once."""
    chosen = {selection[class_].node: selection[class_].cost for class_ in classes}
    return sum(chosen[node] for node in sorted(chosen))


def reduced(problem: Problem) -> Problem:
    """Leave out what no best selection needs.

    Choices that can't be computed from leaves, that need their own class, or that are no better
    than another one of the class which needs no more. One that gives several classes stays, as it
    may be paid for already.
    """
    possible = _possible(problem)
    shared = _shared(problem)
    choices: dict[int, tuple[Choice, ...]] = {}
    for class_, offered in problem.choices.items():
        if class_ not in possible:
            continue
        useful = [c for c in offered if class_ not in c.needs and possible.issuperset(c.needs)]
        choices[class_] = tuple(_undominated(useful, shared))
    return Problem(choices, problem.roots)


def _possible(problem: Problem) -> set[int]:
    """The classes that some acyclic selection computes."""
    readers: dict[int, list[tuple[int, int]]] = {}
    missing: dict[tuple[int, int], int] = {}
    possible_classes: set[int] = set()
    queue: list[int] = []
    for class_, offered in problem.choices.items():
        for place, choice in enumerate(offered):
            needs = set(choice.needs)
            missing[class_, place] = len(needs)
            for need in needs:
                readers.setdefault(need, []).append((class_, place))
            if not needs and class_ not in possible_classes:
                possible_classes.add(class_)
                queue.append(class_)
    while queue:
        for reader in readers.get(queue.pop(), ()):
            missing[reader] -= 1
            if not missing[reader] and reader[0] not in possible_classes:
                possible_classes.add(reader[0])
                queue.append(reader[0])
    return possible_classes


def _shared(problem: Problem) -> set[int]:
    seen: set[int] = set()
    shared: set[int] = set()
    for offered in problem.choices.values():
        for node in {choice.node for choice in offered}:
            (shared if node in seen else seen).add(node)
    return shared


def _undominated(offered: Sequence[Choice], shared: set[int]) -> list[Choice]:
    """Of equally good choices, the e-node that was made first stays."""
    kept: list[Choice] = []
    for choice in sorted(offered, key=lambda c: (c.cost, len(set(c.needs)), c.node)):
        needs = set(choice.needs)
        if choice.node in shared or not any(needs.issuperset(other.needs) for other in kept):
            kept.append(choice)
    return kept
