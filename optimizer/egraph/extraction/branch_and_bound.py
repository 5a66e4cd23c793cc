"""Branch and bound over one region: the best selection, or a good one and how far off it may be."""

from __future__ import annotations

from dataclasses import dataclass

from ...deadline import checkpoint
from .greedy import MOST_CLASSES, computed, greedy, improved, shared_out, value_of
from .problem import Choice, Selection
from .regions import Region, parents_of

# Passes over the equations of the lower bound; each one makes it better, none makes it wrong.
PASSES = 12
TOLERANCE = 1e-9
# A step with so many classes open takes twice the time of one with few, and counts as two.
OPEN = 32
# Changes of one class that take about as long as a step in a large region.
CHANGES = 20


@dataclass(frozen=True)
class Decision:
    """A selection for a region, its cost, what no selection is below, and steps spent."""

    selection: dict[int, Choice]
    cost: float
    bound: float
    steps: int

    @property
    def is_exact(self) -> bool:
        """Whether nothing better exists."""
        return self.bound >= self.cost - TOLERANCE * max(1.0, abs(self.cost))


def decide(region: Region, incumbent: Selection, steps: int) -> Decision:
    """Choose for every class of a region; `steps` bounds the choices that are tried.

    `incumbent` is a selection to start from; the result costs no more. Any time it is stopped,
    the bound is the least of what was left unexplored. Without one, nothing may be found: then the
    cost is infinite.
    """
    search = _Search(region, steps)
    best = {c: incumbent[c] for c in region.choices if c in incumbent}
    starts: list[dict[int, Choice]] = [best]
    is_large = len(region.choices) > MOST_CLASSES
    hints = shared_out(region) if is_large else greedy(region)
    starts.append(hints)
    # In a large region a step of the search leads nowhere, and a change of one class still does.
    share = steps if is_large else steps // 4
    changes = CHANGES * share if is_large else share
    start = min(starts, key=lambda s: value_of(region, s))
    selection, unused = improved(region, start, hints, changes)
    search.steps -= share - unused * share // max(1, changes)
    starts.append(selection)
    best = min(starts, key=lambda s: value_of(region, s))
    return search.run(best)


class _Search:
    """Depth first; a partial selection is left when its bound reaches the best cost so far.

    The bound: what is chosen, and for each class that is needed and open the least that any of
    its choices adds. A class that a choice would bring in has a least cost too, which all choices
    that could need it share evenly, so no cost is counted twice however they share it; in the same
    way an e-node of several outputs is shared by the classes it gives. At the start, when nothing
    is chosen, what is brought in counts with all that it brings in itself.
    """

    def __init__(self, region: Region, steps: int) -> None:
        self.region, self.steps, self.spent = region, steps, 0
        self.roots = set(region.roots)
        gives: dict[int, int] = {}
        for offered in region.choices.values():
            for choice in offered:
                gives[choice.node] = gives.get(choice.node, 0) + 1
        self.cost_share = {
            (class_, choice.node): choice.cost / gives[choice.node]
            for class_, offered in region.choices.items()
            for choice in offered
        }
        self.parents = parents_of(region.choices)
        # For each choice of a class: its own part, its e-node, and what it needs of the region.
        self.offers = {
            class_: [
                (
                    self.cost_share[class_, choice.node],
                    choice.node,
                    tuple(need for need in dict.fromkeys(choice.needs) if need in region.choices),
                )
                for choice in offered
            ]
            for class_, offered in region.choices.items()
        }
        self.share = self._shares(passes=1)
        self.chosen: dict[int, Choice] = {}
        self.paid: dict[int, int] = {}
        self.cost = self.shares = 0.0

    def _shares(self, passes: int) -> dict[int, float]:
        """Class -> the least it costs, divided by the number of choices that could need it.

        With more passes, what it needs itself counts as well, except for the roots, which are
        counted on their own.
        """
        region = self.region
        share = dict.fromkeys(region.choices, 0.0)
        for _ in range(passes):
            before = dict(share)
            for class_ in sorted(share):
                if class_ in self.roots or class_ not in self.parents:
                    continue
                least = min(
                    (
                        cost + sum([before[need] for need in needs])
                        for cost, _, needs in self.offers[class_]
                    ),
                    default=0.0,
                )
                share[class_] = least / self.parents[class_]
            if before == share:
                break
        return share

    def _bound(self, pending: list[int], enough: float = float("inf")) -> float:
        """The larger of two bounds on what any completion costs, or any that is `enough`.

        One counts of each e-node only the shares of the classes that chose it; the other counts
        e-nodes that are chosen in full, and of what is open only what the next choices cost.
        """
        # Most of a search's time passes here: hence no calls, and no lists.
        open_, chosen = set(pending), self.chosen
        share, paid = self.share, self.paid
        shares, nearest = self.shares, self.cost
        for class_ in pending:
            least = next_ = float("inf")
            for cost, node, needs in self.offers[class_]:
                adds = cost
                for need in needs:
                    if need not in chosen and need not in open_:
                        adds += share[need]
                if adds < least:
                    least = adds
                if node in paid:
                    next_ = 0.0
                elif cost < next_:
                    next_ = cost
            if least < float("inf"):
                shares += least
                nearest += next_
                if shares >= enough or nearest >= enough:
                    break
        return max(shares, nearest)

    def _adds(self, added: float, needs: tuple[int, ...], open_: set[int]) -> float:
        """The least that a choice of a class adds, in shares."""
        share, chosen = self.share, self.chosen
        for need in needs:
            if need not in chosen and need not in open_:
                added += share[need]
        return added

    def run(self, best: dict[int, Choice]) -> Decision:
        """Search with an explicit stack of frames: a class, its choices left, what it opened."""
        region = self.region
        best_cost = value_of(region, best)
        unexplored = float("inf")
        pending = list(region.roots)
        root_bound = self._bound(pending)
        if root_bound < best_cost - TOLERANCE:
            shallow, self.share = self.share, self._shares(PASSES)
            root_bound = max(root_bound, self._bound(pending))
            self.share = shallow
        frames: list[tuple[int, list[Choice], list[int]]] = []
        if root_bound < best_cost - TOLERANCE:
            frames.append(self._frame(pending))
        while frames:
            checkpoint()
            class_, untried, pending = frames[-1]
            self._undo(class_)
            if not untried:
                frames.pop()
                continue
            if self.spent >= self.steps:
                for class_, untried, pending in reversed(frames):
                    self._undo(class_)
                    if untried:
                        unexplored = min(unexplored, self._bound([*pending, class_]))
                break
            choice = untried.pop()
            self.spent += 1 + len(pending) // OPEN
            if not self._choose(class_, choice):
                continue
            opened = [
                need
                for need in dict.fromkeys(choice.needs)
                if need in region.choices and need not in self.chosen and need not in pending
            ]
            now_pending = [*pending, *opened]
            enough = best_cost - TOLERANCE
            if self._bound(now_pending, enough) >= enough:
                continue
            if not now_pending:
                best, best_cost = dict(self.chosen), self.cost
                continue
            frames.append(self._frame(now_pending))
        order = computed(region, best)
        if order is None:  # nothing to start from, and nothing found in so few steps
            return Decision({}, float("inf"), max(root_bound, unexplored), self.spent)
        bound = min(best_cost, max(root_bound, min(unexplored, best_cost)))
        return Decision({c: best[c] for c in order}, best_cost, bound, self.spent)

    def _frame(self, pending: list[int]) -> tuple[int, list[Choice], list[int]]:
        """Decide next what was opened last: its choices, the most promising one at the end."""
        class_, rest = pending[-1], pending[:-1]
        open_ = set(pending)
        adds = {node: self._adds(cost, needs, open_) for cost, node, needs in self.offers[class_]}
        untried = sorted(
            self.region.choices[class_], key=lambda choice: (-adds[choice.node], -choice.node)
        )
        return class_, untried, rest

    def _choose(self, class_: int, choice: Choice) -> bool:
        if self._closes_cycle(class_, choice):
            return False
        self.chosen[class_] = choice
        self.shares += self.cost_share[class_, choice.node]
        if choice.node not in self.paid:
            self.cost += choice.cost
        self.paid[choice.node] = self.paid.get(choice.node, 0) + 1
        return True

    def _undo(self, class_: int) -> None:
        choice = self.chosen.pop(class_, None)
        if choice is None:
            return
        self.shares -= self.cost_share[class_, choice.node]
        self.paid[choice.node] -= 1
        if not self.paid[choice.node]:
            del self.paid[choice.node]
            self.cost -= choice.cost

    def _closes_cycle(self, class_: int, choice: Choice) -> bool:
        """Whether what a choice needs already needs the class, as far as is decided."""
        knots = self.region.knot
        if class_ not in knots:
            return False
        stack = [need for need in choice.needs if knots.get(need) == knots[class_]]
        seen = set(stack)
        while stack:
            current = stack.pop()
            if current == class_:
                return True
            chosen = self.chosen.get(current) or self.region.fixed.get(current)
            for need in chosen.needs if chosen else ():
                if need not in seen and knots.get(need) == knots[class_]:
                    seen.add(need)
                    stack.append(need)
        return False
