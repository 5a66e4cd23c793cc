"""Kernels for the first plan, and those of later ones: chosen anew only where there is the time."""

from types import SimpleNamespace
from typing import ClassVar

import pytest
from tensolog.optimizer.native import kernel_plans as candidates
from tensolog.optimizer.native import kernel_selection
from tensolog.optimizer.native.kernel_plans import KernelPlans
from tensolog.optimizer.race.contest import Plan

# What the prediction of a plan is that saves much by rules alone.
LEAN_NS = 1.0


class Fusing:
    """Stands for the kernels of one plan: one plan with them, none carried."""

    looked: ClassVar[list[str]] = []

    def __init__(self, base, *_):
        self.base, self.kinds, self.phases = base, [], None
        self.compiling_s = 0.0

    def look(self, budget_s):
        self.looked.append(self.base.name)

    def plans(self, budget_s):
        return [Plan(f"kernels on {self.base.name}", None)]

    def leaner(self, plans, least):
        return next((plan for plan in plans if plan.predicted_ns == LEAN_NS), None)

    def carried(self, plans, least):
        return None


@pytest.mark.parametrize(
    ("later", "budget_s", "looked"),
    [
        (("first", "other"), 100.0, ["first"]),  # what races on has them already
        (("other",), 100.0, ["first", "other"]),
        (("other",), 3.0, ["first"]),  # it took two seconds
        (("first", "lean"), 100.0, ["first", "lean"]),  # rules leave little there
        (("first", "lean"), 1.5, ["first"]),
    ],
)
def test_kernels_are_chosen_anew_only_where_there_is_time(later, budget_s, looked, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(candidates, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(candidates, "Fusing", Fusing)
    monkeypatch.setattr(Fusing, "looked", [])
    monkeypatch.setattr(candidates, "_verified", lambda fusing, plan: [plan])
    known = {name: Plan(name, None) for name in ("first", "other", "lean")}
    known["lean"].predicted_ns = LEAN_NS
    candidate_files = SimpleNamespace(placed=lambda plan: plan)
    kernel_plans = KernelPlans(
        SimpleNamespace(original=Plan("original", None)), candidate_files, None, {}
    )
    for plan in kernel_plans.first_plans(known["first"], 5.0):
        now[0] += 2.0
        assert plan.name == "kernels on first"
    list(kernel_plans.plans([known[name] for name in later], (), budget_s))
    assert Fusing.looked == looked


@pytest.mark.parametrize(
    ("predicted_ns", "chosen"),
    [
        ((900.0, 700.0), "lean"),
        ((900.0, 980.0), None),
        ((None, 700.0), "lean"),
        ((None, None), None),
    ],
)
def test_kernels_go_where_rules_save_much_of_what_kernels_leave(predicted_ns, chosen):
    """Of 1,000 ns kernels leave 200: saving 100 is half of that, which is not enough here."""
    base = Plan("first", None, predicted_ns=1000.0)
    fusing = kernel_selection.Fusing(base, None, None, None, None)
    fusing.chosen = [SimpleNamespace(gain_ns=800.0)]
    plans = [
        Plan(name, None, predicted_ns=ns)
        for name, ns in zip(("other", "lean"), predicted_ns, strict=True)
    ]
    leaner = fusing.leaner([base, *plans], 0.6)
    assert (leaner and leaner.name) == chosen
