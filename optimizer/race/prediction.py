"""Which plans need no race: the kernels that the runtime really runs for each, measured, added up.

What a plan's own nodes are expected to cost is another sum (state.py). They are not what runs: the
runtime fuses them, lays convolutions out anew, drops what it can. What it makes of a plan it says
itself (profiles/kernels/runtime_kernels.py). Plans that run the same kernels as another are the
same to the clock, and those that surely take longer are no rivals: neither is raced. Measuring is
for what may still be either.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence

from ...profiles.kernel import Kernel
from ..phases import Phases
from ..price import Prices
from .contest import Contest, Plan

# A plan whose kernels add up to so many times those of the original is not raced. On a quiet
# machine a sum is off by some 15 %; on a busy one, kernels that wait for memory were seen to take
# twice what they take in the model.
HOPELESS = 2.0
# Kernels that are measured before it is asked again whether a plan is still a rival.
AT_ONCE = 8


class Prediction:
    """The kernels that run for the plans of a contest, and their prices."""

    def __init__(
        self,
        contest: Contest,
        prices: Prices,
        phases: Phases,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`prices` are those of kernels that run as they are written."""
        self.contest, self.prices, self.phases = contest, prices, phases
        self._clock = clock
        self._seen: dict[frozenset[tuple[Kernel, int]], Plan] = {}

    def ask(self, plans: Sequence[Plan], budget_s: float) -> None:
        """Let the runtime say what it runs, of as many plans as there is time for."""
        end, longest = self._clock() + budget_s, self.contest.asking_s
        for plan in plans:
            begun = self._clock()
            if plan.run is not None:
                continue
            if begun + longest > end:
                return
            with self.phases("predicting", plan.name):
                plan.run = self.contest.kernels_run(plan)
            longest = max(longest, self._clock() - begun)

    def rivals(self, plans: Sequence[Plan]) -> list[Plan]:
        """Return the plans that may be faster than the original; the others say what keeps them.

        They are measured as far as that decides it, and the budget of the prices goes. Of a plan
        that nobody had the time to ask about nothing is known: it stays.
        """
        original = self.contest.original
        if original.run is None:
            return list(plans)
        self._seen.setdefault(_key(original.run), original)
        distinct = [plan for plan in plans if self._is_news(plan)]
        self._measure(original.run)
        own_ns = self._predicted_ns(original.run)
        for plan in sorted(distinct, key=self._least_ns):
            while own_ns and plan.run is not None:
                ratio = self._least_ns(plan) / own_ns
                if ratio > HOPELESS:
                    plan.refusal = f"predicted to take {ratio:.1f} times as long"
                    break
                if not self._measure(plan.run, AT_ONCE):
                    break
        self._state([original, *plans])
        return [plan for plan in distinct if not plan.refusal]

    def measure(self, plans: Sequence[Plan]) -> None:
        """Measure what runs for plans, as far as the budget goes, and say what they would take."""
        for plan in plans:
            if plan.run is not None:
                self._measure(plan.run)
        self._state(plans)

    def _state(self, plans: Sequence[Plan]) -> None:
        for plan in plans:
            if plan.run is not None:
                plan.predicted_ns = self._predicted_ns(plan.run)

    def _is_news(self, plan: Plan) -> bool:
        """Tell whether no plan before runs the same; where one does, the plan names it."""
        if plan.run is None:
            return True
        same = self._seen.setdefault(_key(plan.run), plan)
        plan.same_kernels_as = "" if same is plan else same.name
        return same is plan

    def _least_ns(self, plan: Plan) -> float:
        """What a plan takes at least: what nobody measured counts with its bound."""
        return 0.0 if plan.run is None else self._sum_ns(plan.run)

    def _predicted_ns(self, run: Counter[Kernel]) -> float | None:
        """What a run takes; None while a kernel is not measured that can be."""
        return None if self.prices.unmeasured(run) else self._sum_ns(run)

    def _sum_ns(self, run: Counter[Kernel]) -> float:
        return sum(self.prices.cost(kernel).ns * often for kernel, often in run.items())

    def _measure(self, run: Counter[Kernel], count: int | None = None) -> bool:
        """Measure up to `count` kernels, those of the largest bounds first; tell if any were."""
        costs = {kernel: self.prices.cost(kernel).ns * often for kernel, often in run.items()}
        open_ = self.prices.unmeasured(sorted(run, key=lambda kernel: -costs[kernel]))[:count]
        if not open_ or self.prices.remaining_s <= 0:
            return False
        with self.phases("measuring"):
            self.prices.measure(
                open_,
                lambda done, total, detail: self.phases.tell("measuring", done, total, detail),
            )
        return True


def _key(run: Counter[Kernel]) -> frozenset[tuple[Kernel, int]]:
    return frozenset(run.items())
