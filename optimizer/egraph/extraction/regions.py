"""An extraction problem cut into parts that can be decided one by one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

from .problem import Choice, Problem


@dataclass
class Region:
    """Classes that have to be decided together.

    `roots` are computed in any selection and have several choices; `inner` classes only in some.
    All that a region needs from outside of it is computed anyway. `knot` maps the classes that may
    stand on a cycle to the number of their strongly connected component, `fixed` has the choices
    that are no choices among them.
    """

    roots: list[int]
    inner: set[int] = field(default_factory=set)
    choices: dict[int, tuple[Choice, ...]] = field(default_factory=dict)
    knot: dict[int, int] = field(default_factory=dict)
    fixed: dict[int, Choice] = field(default_factory=dict)
    _near: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def near(self, choice: Choice) -> tuple[int, ...]:
        """What a choice needs of the classes that are decided here, or fixed."""
        nearby = self._near.get(choice.node)
        if nearby is None:
            nearby = tuple(n for n in choice.needs if n in self.choices or n in self.fixed)
            self._near[choice.node] = nearby
        return nearby

    def part_of(self, selection: Mapping[int, Choice]) -> dict[int, Choice]:
        """The choices of a selection, as far as they are choices here, with what they cost here."""
        return {
            class_: choice
            for class_, offered in self.choices.items()
            if class_ in selection
            for choice in offered
            if choice.node == selection[class_].node
        }

    @property
    def classes(self) -> set[int]:
        """All classes that the region decides."""
        return self.inner.union(self.roots)


# How many of the classes that a class can't do without are remembered, the nearest ones.
REMEMBERED = 24


def always_needed(problem: Problem) -> set[int]:
    """Classes that every selection computes.

    What a class can't do without is what all of its choices can't do without; what a choice can't
    do without is what any of its needs can't. Only the nearest of them are remembered, so some
    that are far away may be missed where no chain of near ones leads to them.
    """
    without = {class_: {class_: 0} for class_ in problem.choices}
    for class_ in _needs_first(problem):
        offered = problem.choices[class_]
        if not offered:
            continue
        asked = dict.fromkeys(choice.needs for choice in offered)
        if len(asked) == 1 and len(only := offered[0].needs) == 1:
            without[class_] = _further(class_, without[only[0]])  # sorted as it is
            continue
        common: dict[int, int] | None = None
        for needs in asked:
            distances = dict(without[needs[0]]) if needs else {}
            for need in needs[1:]:
                for other, distance in without[need].items():
                    if distance < distances.get(other, distance + 1):
                        distances[other] = distance
            if common is None:
                common = distances
            else:
                common = {c: max(d, distances[c]) for c, d in common.items() if c in distances}
        near = sorted([(distance, other) for other, distance in (common or {}).items()])
        without[class_] = _further(class_, {other: distance for distance, other in near})
    needed: set[int] = set()
    queue = list(problem.roots)
    while queue:
        class_ = queue.pop()
        if class_ not in needed:
            needed.add(class_)
            queue += without[class_]
            if len(problem.choices[class_]) == 1:  # of many needs, all count
                queue += problem.choices[class_][0].needs
    return needed


def _further(class_: int, needed: Mapping[int, int]) -> dict[int, int]:
    """Itself, and the nearest of what it can't do without, one step further away; both sorted."""
    near = islice(needed.items(), REMEMBERED)
    return {class_: 0} | {other: distance + 1 for other, distance in near if other != class_}


def _needs_first(problem: Problem) -> list[int]:
    """Sort the classes so that needs come first, wherever no cycle is in the way."""
    done: set[int] = set()
    order: list[int] = []
    for root in problem.roots:
        stack = [(root, False)]
        while stack:
            class_, ready = stack.pop()
            if ready:
                order.append(class_)
            elif class_ not in done:
                done.add(class_)
                stack.append((class_, True))
                stack += [(n, False) for c in problem.choices[class_] for n in c.needs]
    return order


def regions_of(problem: Problem) -> tuple[dict[int, Choice], list[Region]]:
    """The choices that are forced, and the regions that are left to decide.

    Regions overlap in no class, no e-node and no possible cycle, so the best selection of each
    makes the best selection of all. E-nodes that are forced are paid for: they cost nothing there.
    """
    needed = always_needed(problem)
    knots = knots_of(problem)
    forced = {c: problem.choices[c][0] for c in sorted(needed) if len(problem.choices[c]) == 1}
    paid = {choice.node for choice in forced.values()}
    open_ = [c for c in sorted(needed) if len(problem.choices[c]) > 1]
    groups = _Groups()
    for root in open_:
        groups.add(("class", root))
        if root in knots:
            groups.join(("class", root), ("knot", knots[root]))
        stack, seen = [root], {root}
        while stack:
            class_ = stack.pop()
            for choice in problem.choices[class_]:
                groups.join(("class", root), ("node", choice.node))
                for need in choice.needs:
                    if need in needed or need in seen:
                        continue
                    seen.add(need)
                    is_new = groups.join(("class", root), ("class", need))
                    if need in knots:
                        groups.join(("class", root), ("knot", knots[need]))
                    if is_new:
                        stack.append(need)
    regions_by_leader: dict[object, Region] = {}
    for class_ in sorted(key for kind, key in groups.members() if kind == "class"):
        region = regions_by_leader.setdefault(groups.leader(("class", class_)), Region([]))
        if class_ in needed:
            region.roots.append(class_)
        else:
            region.inner.add(class_)
        region.choices[class_] = tuple(
            replace(choice, cost=0.0) if choice.node in paid else choice
            for choice in problem.choices[class_]
        )
    by_knot: dict[int, Region] = {}
    for region in regions_by_leader.values():
        for class_ in region.classes & set(knots):
            region.knot[class_] = knots[class_]
            by_knot[knots[class_]] = region
    for class_, knot in knots.items():
        if class_ in forced and knot in by_knot:
            by_knot[knot].fixed[class_] = forced[class_]
            by_knot[knot].knot[class_] = knot
    return forced, list(regions_by_leader.values())


def knots_of(problem: Problem) -> dict[int, int]:
    """Class -> number of its strongly connected component, for those of two classes or more.

    Tarjan's algorithm (SIAM J. Comput. 1, 1972) without recursion.
    """
    needs = {
        class_: sorted({need for choice in offered for need in choice.needs})
        for class_, offered in problem.choices.items()
    }
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    knots: dict[int, int] = {}
    for start in needs:
        if start in index:
            continue
        work: list[tuple[int, int]] = [(start, 0)]
        while work:
            class_, place = work.pop()
            if place == 0:
                index[class_] = low[class_] = len(index)
                stack.append(class_)
                on_stack.add(class_)
            for position in range(place, len(needs[class_])):
                need = needs[class_][position]
                if need not in index:
                    work += [(class_, position + 1), (need, 0)]
                    break
                if need in on_stack:
                    low[class_] = min(low[class_], index[need])
            else:
                if work:
                    above = work[-1][0]
                    low[above] = min(low[above], low[class_])
                if low[class_] == index[class_]:
                    members: list[int] = []
                    while not members or members[-1] != class_:
                        members.append(stack.pop())
                    on_stack.difference_update(members)
                    if len(members) > 1:
                        knots.update((member, class_) for member in members)
    return knots


Key = tuple[str, int]


class _Groups:
    """Things that have to be decided together."""

    def __init__(self) -> None:
        self._above: dict[Key, Key] = {}

    def add(self, key: Key) -> None:
        """Make a group of one, unless it is in one already."""
        self._above.setdefault(key, key)

    def leader(self, key: Key) -> Key:
        """What stands for the group of a thing."""
        while self._above[key] != key:
            self._above[key] = self._above[self._above[key]]
            key = self._above[key]
        return key

    def join(self, a: Key, b: Key) -> bool:
        """Unite two groups; tell whether `b` was in none before."""
        is_new = b not in self._above
        self.add(b)
        self._above[self.leader(b)] = self.leader(a)
        return is_new

    def members(self) -> Iterable[Key]:
        """All things in groups."""
        return self._above.keys()


def parents_of(choices: Mapping[int, tuple[Choice, ...]]) -> dict[int, int]:
    """How many choices need each class."""
    counts: dict[int, int] = {}
    for offered in choices.values():
        for choice in offered:
            for need in set(choice.needs):
                counts[need] = counts.get(need, 0) + 1
    return counts
