"""Growth: matches derived, applied and closed under congruence, round by round, within a budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ....rules import Rule
from ...deadline import remaining_s
from ..egraph import EGraph
from ..provenance import Application
from .application import apply_matches
from .chains import Chains
from .e_matching import EMatcher, operators_in, reachable

SATURATED = "saturated"
OUT_OF_TIME = "the time for it is over"

Report = Callable[[str, int, int, str], None]


@dataclass(frozen=True)
class Budget:
    """Limits of growth. Those that count decide alike on any machine; seconds, of the
    processor, are the last resort, as is the share of the time that the search has left.

    `nodes` is the number of e-nodes that do not depend on constants alone, or `factor` times that
    of all at the start if that is more; `matches` is what one rule may have in a round before it
    pauses. All of them are looked at within a round, too: after every rule that was asked, and
    after every `step` matches that were applied.
    """

    rounds: int = 8
    nodes: int = 2_000
    factor: int = 6
    matches: int = 1_000
    seconds: float = 10.0
    share: float = 0.4
    step: int = 2_000


@dataclass
class Growth:
    """What came of it: every match applied, sizes round by round, and why it stopped."""

    applications: list[Application] = field(default_factory=list)
    sizes: list[tuple[int, int, int]] = field(default_factory=list)  # matches, e-nodes, classes
    ended: str = ""
    paused: tuple[str, ...] = ()  # rules with matches left that nobody applied
    capped: tuple[str, ...] = ()  # rules of which a round looked at a part of the candidates

    @property
    def is_saturated(self) -> bool:
        """Whether no rule leads anywhere new."""
        return self.ended == SATURATED


def saturate(
    egraph: EGraph,
    rules: Sequence[Rule],
    budget: Budget | None = None,
    progress: Report | None = None,
    *,
    rounding: bool = True,
    distinct: bool = True,
) -> Growth:
    """Apply rules until nothing is new or the budget is spent.

    With `rounding`, sums and products of floats may be reordered. Unless `distinct`, two nodes of a
    rule's left side may be one e-node: that says more of what is equal, and of plans little.
    """
    budget = budget or Budget()
    growth = Growth()
    usable = reachable(rules, operators_in(egraph))
    matcher = EMatcher(egraph, usable, budget.matches, distinct=distinct)
    most = max(budget.nodes, budget.factor * egraph.columns.size)
    deadline = time.process_time() + budget.seconds
    late = time.monotonic() + budget.share * remaining_s()

    def is_late() -> bool:
        return time.process_time() > deadline or time.monotonic() > late

    chains = Chains(rounding=rounding)
    for round_ in range(budget.rounds):
        egraph.columns.now += 1
        growth.applications += chains.update(egraph)
        matches = matcher.find(round_, is_late)
        if not matches and not matcher.paused and not is_late():
            growth.ended = _all_looked_into(matcher.capped)
            break
        for start in range(0, max(1, len(matches)), budget.step):
            growth.applications += apply_matches(egraph, matches[start : start + budget.step])
            if egraph.working() > most or is_late():
                break
        size = (len(matches), len(egraph.columns.living()), egraph.columns.classes)
        growth.sizes.append(size)
        if progress is not None:
            progress("searching", round_ + 1, budget.rounds, f"{size[1]} e-nodes")
        work = egraph.working()
        if work > most:
            growth.ended = f"{work} e-nodes are more than {most}"
            break
        if time.process_time() > deadline:
            growth.ended = f"{budget.seconds} seconds are over"
            break
        if time.monotonic() > late:
            growth.ended = OUT_OF_TIME
            break
    growth.ended = growth.ended or f"{budget.rounds} rounds are over"
    growth.paused, growth.capped = matcher.paused, matcher.capped
    return growth


def _all_looked_into(capped: Sequence[str]) -> str:
    """Why growth ends where no round finds anything new."""
    return f"of {', '.join(capped)} not all was looked at" if capped else SATURATED
