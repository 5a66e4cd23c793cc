"""Kernels for the first plan, and those of later ones: chosen anew only where there is the time."""

from types import SimpleNamespace
from typing import ClassVar

import pytest
from tensolog.optimizer.native import kernel_plans as candidates
from tensolog.optimizer.native.kernel_plans import KernelPlans
from tensolog.optimizer.race.contest import Plan


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

    def carried(self, plans, least):
        return None


@pytest.mark.parametrize(
    ("later", "budget_s", "looked"),
    [
        (("first", "other"), 100.0, ["first"]),  # what races on has them already
        (("other",), 100.0, ["first", "other"]),
        (("other",), 3.0, ["first"]),  # it took two seconds
    ],
)
def test_kernels_are_chosen_anew_only_where_there_is_time(later, budget_s, looked, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(candidates, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(candidates, "Fusing", Fusing)
    monkeypatch.setattr(Fusing, "looked", [])
    monkeypatch.setattr(candidates, "_verified", lambda fusing, plan: [plan])
    known = {name: Plan(name, None) for name in ("first", "other")}
    candidate_files = SimpleNamespace(placed=lambda plan: plan)
    made = KernelPlans(SimpleNamespace(original=Plan("original", None)), candidate_files, None, {})
    for plan in made.first_plans(known["first"], 5.0):
        now[0] += 2.0
        assert plan.name == "kernels on first"
    list(made.plans([known[name] for name in later], (), budget_s))
    assert Fusing.looked == looked
