"""Regions that a few classes hold together: without these they fall into parts.

The layers of a model are decided together only because some of their choices share a class that
nothing needs otherwise, such as a mask in another form. Whether each such class is computed or not
is tried (cutset conditioning: Dechter, Constraint Processing, 2003, section 10); in each case the
parts are decided one by one, and those that are alike once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations

from ...deadline import checkpoint
from .branch_and_bound import Decision
from .greedy import computed, value_of
from .problem import Choice, Problem, cost_of, reduced
from .regions import Region, parents_of, regions_of
from .repeated_regions import Decisions

# Classes from which a region is cut, the most that it is cut by, and how much of it may be left in
# one part.
LARGE, MOST, PART = 48, 3, 0.5


def decide_cut(
    region: Region, incumbent: Mapping[int, Choice], steps: int, decisions: Decisions
) -> Decision:
    """Return what decide does, by cases of what holds a large region together."""
    shared = cutset(region) if len(region.choices) > LARGE else ()
    if not shared:
        return decisions.of(region, incumbent, steps)
    problem = _problem(region)
    best, cost, bound, spent = dict(incumbent), value_of(region, incumbent), float("inf"), 0
    cases = chain.from_iterable(combinations(shared, n) for n in range(len(shared) + 1))
    for case in cases:
        checkpoint()
        subproblem = _subproblem(problem, case, set(shared) - set(case))
        if subproblem is None:
            continue
        part = _decide_case(region, subproblem, incumbent, steps - spent, decisions)
        spent += part.steps
        bound = min(bound, part.bound)
        if part.cost < cost:
            best, cost = part.selection, part.cost
    decision = Decision(best, cost, min(bound, cost), spent)
    if decision.is_exact:
        return decision
    whole = decisions.of(region, best, max(0, steps - spent))
    return replace(whole, bound=max(whole.bound, decision.bound), steps=whole.steps + spent)


def cutset(region: Region) -> tuple[int, ...]:
    """Return the classes, those with most users first, that leave small parts if they are given.

    None of them where it takes more than a few. Roots are computed anyway, and hold nothing
    together.
    """
    users = parents_of(region.choices)
    inner = sorted(region.inner, key=lambda class_: (-users.get(class_, 0), class_))
    for count in range(1, MOST + 1):
        if _largest_part(region, inner[:count]) <= PART * len(region.choices):
            return tuple(inner[:count])
    return ()


def _largest_part(region: Region, computed_classes: Sequence[int]) -> int:
    """Return how many classes hold together where some of them are computed anyway."""
    above: dict[int, int] = {}

    def leader(key: int) -> int:
        while above.setdefault(key, key) != key:
            above[key] = above[above[key]]
            key = above[key]
        return key

    anyway = {*region.roots, *computed_classes}
    first: dict[int, int] = {}  # of each knot
    for class_, offered in region.choices.items():
        nearby = [~choice.node for choice in offered]
        nearby += [n for choice in offered for n in region.near(choice) if n not in anyway]
        if class_ in region.knot:
            nearby.append(first.setdefault(region.knot[class_], class_))
        for other in nearby:
            above[leader(other)] = leader(class_)
    return max(Counter(leader(class_) for class_ in region.choices).values())


def _problem(region: Region) -> Problem:
    """Return a region as a problem of its own; what it needs of others costs nothing here."""
    choices: dict[int, tuple[Choice, ...]] = {
        class_: tuple(replace(choice, needs=region.near(choice)) for choice in offered)
        for class_, offered in region.choices.items()
    }
    for class_, choice in region.fixed.items():  # part of cycles
        choices[class_] = (replace(choice, cost=0.0, needs=region.near(choice)),)
    return Problem(choices, (*region.roots, *region.fixed))


def _subproblem(problem: Problem, roots: Sequence[int], without: set[int]) -> Problem | None:
    """Return a problem with more roots, without some classes; None where it has no solution."""
    asked = tuple(dict.fromkeys([*problem.roots, *roots]))
    if not without:
        return Problem(problem.choices, asked)
    choices = {
        class_: tuple(choice for choice in offered if without.isdisjoint(choice.needs))
        for class_, offered in problem.choices.items()
        if class_ not in without
    }
    region_ = reduced(Problem(choices, asked))
    return region_ if all(region_.choices.get(root) for root in asked) else None


def _decide_case(
    region: Region,
    problem: Problem,
    incumbent: Mapping[int, Choice],
    steps: int,
    decisions: Decisions,
) -> Decision:
    """Decide a region as a problem with fewer choices, part by part."""
    forced, parts = regions_of(problem)
    selection: dict[int, Choice] = dict(forced)
    bound, spent = cost_of(forced, forced), 0
    for part in parts:
        decision = decisions.of(part, part.part_of(incumbent), max(0, steps - spent))
        spent += decision.steps
        bound += decision.bound
        selection.update(decision.selection)
    chosen = {
        class_: next(
            candidate for candidate in region.choices[class_] if candidate.node == choice.node
        )
        for class_, choice in selection.items()
        if class_ in region.choices
    }
    order = computed(region, chosen)
    if order is None:
        return Decision({}, float("inf"), bound, spent)
    chosen = {class_: chosen[class_] for class_ in order}
    return Decision(chosen, value_of(region, chosen), bound, spent)
