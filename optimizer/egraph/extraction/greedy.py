"""Good selections found fast: greedy by DAG cost, and local changes that pay."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

from .problem import Choice, Selection
from .regions import Region

# The sets that greedy extraction carries along grow with the region; beyond this costs are shared
# out instead.
MOST_CLASSES = 2_000
# Changes that save less are none: costs are added up and taken away many times.
TOLERANCE = 1e-9


def computed(region: Region, selection: Selection) -> list[int] | None:
    """The classes of a region that a selection computes, needs first; None if one needs itself."""
    done: set[int] = set()
    open_: set[int] = set()
    order: list[int] = []
    decided, fixed, near = region.choices, region.fixed, region.near
    for root in region.roots:
        stack = [root]  # a class whose needs are done is there again, inverted
        while stack:
            class_ = stack.pop()
            if class_ < 0:
                done.add(~class_)
                if ~class_ in decided:
                    order.append(~class_)
                continue
            if class_ in done:
                continue
            if class_ in open_:
                return None
            open_.add(class_)
            choice = selection.get(class_) if class_ in decided else fixed.get(class_)
            if choice is None:
                return None
            stack.append(~class_)
            stack += [need for need in near(choice) if need not in done]
    return order


def value_of(region: Region, selection: Selection) -> float:
    """What the e-nodes of a selection cost, each once; infinite where a class needs itself."""
    order = computed(region, selection)
    if order is None:
        return inf
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
        costs: dict[int, float] = {}
        for need in choice.needs:
            if need not in region.choices:
                continue
            if need not in best:
                break
            costs.update(best[need][1])
        else:
            costs[choice.node] = choice.cost
            total = sum(costs.values())
            if class_ not in best or total < best[class_][0] * (1 - 1e-12):
                best[class_] = (total, costs, choice)
                queue.extend(readers.get(class_, ()))
    return {class_: entry[2] for class_, entry in best.items()}


def shared_out(region: Region) -> dict[int, Choice]:
    """Choose per class what costs least if each class is paid for in equal parts by its users.

    In time that grows with the region alone. The selection may be cyclic.
    """
    users: dict[int, set[int]] = {}
    for class_, offered in region.choices.items():
        for choice in offered:
            for need in region.near(choice):
                users.setdefault(need, set()).add(class_)
    ways: dict[int, list[PaidChoice]] = {}
    for class_ in sorted(region.choices):
        ways[class_] = []
        for choice in region.choices[class_]:
            decided = [need for need in choice.needs if need in region.choices]
            ways[class_].append(
                PaidChoice(choice, tuple((need, len(users[need])) for need in decided))
            )
    return cheapest_by_parts(ways)


class PaidChoice(NamedTuple):
    """A choice, and into how many parts the cost of each class is divided that it pays for."""

    choice: Choice
    paid: tuple[tuple[int, int], ...]


def cheapest_by_parts(ways: Mapping[int, Sequence[PaidChoice]]) -> dict[int, Choice]:
    """Choose per class what costs least with its parts of what it needs, to a fixed point.

    A class without a way that can be paid is left out. The selection may be cyclic.
    """
    users: dict[int, list[int]] = {}
    for class_, offered in ways.items():
        for need in {need for way in offered for need, _ in way.paid}:
            users.setdefault(need, []).append(class_)
    least: dict[int, float] = {}
    chosen: dict[int, Choice] = {}
    queue = deque(sorted(ways))
    waiting = set(queue)
    while queue:
        class_ = queue.popleft()
        waiting.discard(class_)
        before = lowest = least.get(class_, inf)
        for choice, paid in ways[class_]:
            total = choice.cost
            for need, parts in paid:
                total += least.get(need, inf) / parts
            if total < lowest * (1 - TOLERANCE):
                lowest, chosen[class_] = total, choice
        if lowest < before:
            least[class_] = lowest
            for user in users.get(class_, ()):
                if user not in waiting:
                    waiting.add(user)
                    queue.append(user)
    return chosen


def improved(
    region: Region, start: Selection, hints: Mapping[int, Choice], steps: int
) -> tuple[dict[int, Choice], int]:
    """Change one class at a time as long as that pays; return the selection and the steps left.

    Classes that a change brings in are computed as `hints` have it.
    """
    if computed(region, start) is None:
        return dict(start), steps
    tally = _Tally(region, _acyclic(region, {**hints, **start}))
    changed = True
    while changed and steps > 0:
        changed = False
        for class_ in reversed(computed(region, tally.selection) or []):
            for choice in region.choices[class_]:
                if choice is tally.selection[class_] or steps <= 0:
                    continue
                steps -= 1
                changed |= tally.change(class_, choice)
    return tally.selection, steps


def _acyclic(region: Region, selection: dict[int, Choice]) -> dict[int, Choice]:
    """Leave out classes until none needs itself; those that the roots need must not."""
    done: set[int] = set()
    open_: set[int] = set()
    acyclic = dict(selection)
    for start in selection:
        stack = [start]
        while stack:
            class_ = stack.pop()
            if class_ < 0:
                done.add(~class_)
                continue
            if class_ in open_:
                continue
            open_.add(class_)
            choice = selection.get(class_) or region.fixed.get(class_)
            stack.append(~class_)
            for need in region.near(choice) if choice else ():
                if need in open_ and need not in done:
                    acyclic.pop(class_, None)
                else:
                    stack.append(need)
    return acyclic


class _Tally:
    """What a selection costs, kept up to date: how often each class is needed, each e-node used."""

    def __init__(self, region: Region, selection: dict[int, Choice]) -> None:
        """`selection` must compute the roots, and no class of it may need itself."""
        self.region, self.selection = region, selection
        self.needed: dict[int, int] = {}
        self.used: dict[int, int] = {}
        self.cost = 0.0
        for root in region.roots:
            self._need(root)

    def change(self, class_: int, choice: Choice) -> bool:
        """Compute a class another way if that is cheaper; tell whether it is."""
        if not self.needed.get(class_) or self._leads_to(choice, class_):
            return False
        before, old = self.cost, self.selection[class_]
        if not self._swap(class_, old, choice) or self.cost >= before * (1 - TOLERANCE):
            self._swap(class_, choice, old)
            self.cost = before
            return False
        return True

    def _swap(self, class_: int, old: Choice, new: Choice) -> bool:
        """Choose `new`; tell whether all that it needs is chosen."""
        self.selection[class_] = new
        self._use(new)
        counted = [self._need(need) for need in self.region.near(new)]  # all are counted
        self._leave(old)
        for need in self.region.near(old):
            self._release(need)
        return all(counted)

    def _need(self, class_: int) -> bool:
        """Count a need of a class, and all needs of what isn't computed yet."""
        is_complete, stack = True, [class_]
        while stack:
            current = stack.pop()
            self.needed[current] = self.needed.get(current, 0) + 1
            if self.needed[current] > 1:
                continue
            choice = self._choice(current)
            if choice is None:
                is_complete = False
                continue
            if current in self.region.choices:
                self._use(choice)
            stack += self.region.near(choice)
        return is_complete

    def _release(self, class_: int) -> None:
        """Take back what `_need` has counted."""
        stack = [class_]
        while stack:
            current = stack.pop()
            self.needed[current] -= 1
            choice = self._choice(current)
            if self.needed[current] or choice is None:
                continue
            if current in self.region.choices:
                self._leave(choice)
            stack += self.region.near(choice)

    def _choice(self, class_: int) -> Choice | None:
        decided = class_ in self.region.choices
        return (self.selection if decided else self.region.fixed).get(class_)

    def _use(self, choice: Choice) -> None:
        self.used[choice.node] = self.used.get(choice.node, 0) + 1
        if self.used[choice.node] == 1:
            self.cost += choice.cost

    def _leave(self, choice: Choice) -> None:
        self.used[choice.node] -= 1
        if not self.used[choice.node]:
            self.cost -= choice.cost

    def _leads_to(self, choice: Choice, class_: int) -> bool:
        """Tell whether what a choice needs is computed of the class."""
        knots = self.region.knot
        if class_ not in knots:
            return False
        stack = [need for need in self.region.near(choice) if knots.get(need) == knots[class_]]
        seen = set(stack)
        while stack:
            current = stack.pop()
            if current == class_:
                return True
            chosen = self._choice(current)
            for need in self.region.near(chosen) if chosen else ():
                if need not in seen and knots.get(need) == knots[class_]:
                    seen.add(need)
                    stack.append(need)
        return False
