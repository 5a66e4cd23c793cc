"""Good selections found fast: greedy by DAG cost, and local changes that pay."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from .problem import Choice, Selection
from .regions import Region

# The sets that greedy extraction carries along grow with the region; beyond this it is left out.
MOST_CLASSES = 2_000


def computed(region: Region, selection: Selection) -> list[int] | None:
    """The classes of a region that a selection computes, needs first; None if one needs itself."""
    done: set[int] = set()
    open_: set[int] = set()
    order: list[int] = []
    decided = region.choices
    for root in region.roots:
        stack = [(root, False)]
        while stack:
            class_, ready = stack.pop()
            if class_ in done:
                continue
            if ready:
                done.add(class_)
                if class_ in decided:
                    order.append(class_)
                continue
            if class_ in open_:
                return None
            open_.add(class_)
            stack.append((class_, True))
            choice = selection.get(class_) if class_ in decided else region.fixed.get(class_)
            if choice is None:
                return None
            stack += [
                (need, False)
                for need in choice.needs
                if need not in done and (need in decided or need in region.fixed)
            ]
    return order


def value_of(region: Region, selection: Selection) -> float:
    """What the e-nodes of a selection cost, each once; infinite where a class needs itself."""
    order = computed(region, selection)
    if order is None:
        return float("inf")
    return sum({selection[class_].node: selection[class_].cost for class_ in order}.values())


def greedy(region: Region) -> dict[int, Choice]:
    """Choose per class what costs least with all it needs, what is shared counted once.

    Bottom-up with a set of e-nodes per class (greedy-DAG of extraction-gym). Not optimal, as a
    class doesn't know what others will share; the selection may even be cyclic.
    """
    readers: dict[int, list[tuple[int, Choice]]] = {}
    queue: deque[tuple[int, Choice]] = deque()
    for class_ in sorted(region.choices):
        for choice in region.choices[class_]:
            queue.append((class_, choice))
            for need in choice.needs:
                if need in region.choices:
                    readers.setdefault(need, []).append((class_, choice))
    best: dict[int, tuple[float, dict[int, float], Choice]] = {}
    rounds = 20 * len(queue)
    while queue and rounds:
        rounds -= 1
        class_, choice = queue.popleft()
        held: dict[int, float] = {}
        for need in choice.needs:
            if need not in region.choices:
                continue
            if need not in best:
                break
            held.update(best[need][1])
        else:
            held[choice.node] = choice.cost
            total = sum(held.values())
            if class_ not in best or total < best[class_][0] * (1 - 1e-12):
                best[class_] = (total, held, choice)
                queue.extend(readers.get(class_, ()))
    return {class_: found[2] for class_, found in best.items()}


def improved(
    region: Region, start: Selection, hints: Mapping[int, Choice], steps: int
) -> tuple[dict[int, Choice], int]:
    """Change one class at a time as long as that pays; return the selection and the steps left.

    Classes that a change brings in are computed as `hints` have it.
    """
    selection = {**hints, **start}
    value = value_of(region, selection)
    changed = True
    while changed and steps > 0:
        changed = False
        for class_ in reversed(computed(region, selection) or []):
            for choice in region.choices[class_]:
                if choice is selection[class_] or steps <= 0:
                    continue
                steps -= 1
                trial = {**selection, class_: choice}
                found = value_of(region, trial)
                if found < value * (1 - 1e-12):
                    selection, value, changed = trial, found, True
    return selection, steps
