"""Which plans of a model take part in the race over devices.

The plan that the search finds for it, the one for a program that rules lead to (rewritten.py
compares it with the model), and a pipeline over all devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...catalog import Catalog
from ...optimizer.match.rewrite import Step
from ...rules import Rule
from ..deployment.deployment import link_files_beside
from ..deployment.settings import Goal
from ..devices import Cluster, ClusterError
from ..planning import ParallelPlan
from ..planning import plan as find_plan
from ..rewriting.joint import rules_for
from ..search.pipelines import even_pipeline
from ..simulation.simulator import Simulation
from ..simulation.tasks import Plan
from ..simulation.times import Calibration
from ..workload import Workload, slots_of
from .device_crews import runtime_bytes
from .rewritten import difference, why_as_it_is

Tell = Callable[[str, str], None]

_LIMIT_S = 600.0
# How often a program is looked for, each time without the rules of one that computes another thing.
_REWRITES = 3


@dataclass(frozen=True)
class NamedPlan:
    """A plan that races under a name: that of each instance, and the search that it came from."""

    name: str
    instances: tuple[Plan, ...]
    source: ParallelPlan


@dataclass
class DivisionPlans:
    """Plans of the model in a file for a cluster; `reasons` says why some are left out.

    `folder` is for what is written meanwhile. `calibration` is what the model was measured to take
    on one device.
    """

    model: Path
    cluster: Cluster
    goal: Goal
    catalog: Catalog | None
    tell: Tell
    folder: Path
    reasons: list[str]
    calibration: Calibration | None = None
    # Rules that were found to change what the model computes.
    _refused: set[str] = field(default_factory=set)

    def plans(self, workload: Workload, share: float) -> list[NamedPlan]:
        """Return the plans for devices with so much of the memory that the runtime leaves.

        `share` is that part of it. Beside the plan of a rewritten model is that of the model as it
        is. Raises PlanError where nothing fits.
        """
        best = self._checked(workload, _with_memory(self.cluster, runtime_bytes(), share))
        as_it_is = best.as_it_is or best
        plans = [best] if as_it_is is best or not steps_of(best) else [best, as_it_is]
        racing = [
            NamedPlan(
                f"{plan.name}, rewritten" if steps_of(plan) else plan.name,
                tuple(instance.plan for instance in plan.instances),
                plan,
            )
            for plan in plans
        ]
        return racing + _pipeline(as_it_is)

    def not_rewritten(self) -> list[str]:
        """Say why rules were not applied that would have been."""
        return [reason for reason in self.reasons if "not rewritten" in reason]

    def _plan(
        self, workload: Workload, cluster: Cluster, rules: Sequence[Rule] = ()
    ) -> ParallelPlan:
        return find_plan(
            workload,
            cluster,
            goal=self.goal,
            catalog=self.catalog,
            rewrite=rules or False,
            calibration=self.calibration,
            progress=lambda text: self.tell("planning", text),
        )

    def _checked(self, workload: Workload, cluster: Cluster) -> ParallelPlan:
        """Plan for the model or what rules lead to, without those that change what it computes."""
        if why := why_as_it_is(workload):
            self.reasons.append(f"the model was not rewritten: {why}")
            return self._plan(workload, cluster)
        rules = [rule for rule in rules_for(workload) if rule.name not in self._refused]
        inputs, _ = slots_of(workload)
        for _ in range(_REWRITES):
            checked = self._plan(workload, cluster, rules)
            if not (steps := steps_of(checked)):
                return checked
            self.tell("comparing with the original", checked.name)
            place = self.folder / f"compared{len(list(self.folder.iterdir()))}"
            link_files_beside(self.model, place)
            if not (why := difference(self.model, checked, inputs, place, limit_s=_LIMIT_S)):
                return checked
            used = dict.fromkeys(step.rule for step in steps)
            self.reasons.append(f"the model was not rewritten by {', '.join(used)}: {why}")
            self._refused |= used.keys()
            rules = [rule for rule in rules if rule.name not in used]
        return checked.as_it_is or self._plan(workload, cluster)


def steps_of(plan: ParallelPlan | None) -> tuple[Step, ...]:
    """Return the rewrites that led to what a plan divides; none for the model as it is."""
    return () if plan is None or plan.rewriting is None else plan.rewriting.steps


def _pipeline(plan: ParallelPlan) -> list[NamedPlan]:
    """Return a pipeline over all devices of a plan, where they can hold it."""
    problem = plan.problem
    count = len(problem.cluster.devices)
    if not problem.all_linked(range(count)):
        return []
    stages = even_pipeline(problem, count)
    needed_bytes = Simulation(problem, stages).memory_bytes()
    devices = enumerate(problem.cluster.devices)
    if any(needed_bytes.get(n, 0) > device.memory_bytes for n, device in devices):
        return []
    return [NamedPlan(f"pipeline of {count}", (stages,), plan)]


def _with_memory(cluster: Cluster, runtime: int, share: float) -> Cluster:
    """Return devices with that share of the memory that the runtime leaves of theirs."""
    for device in cluster.devices:
        if device.memory_bytes <= runtime:
            raise ClusterError(
                f"{device.name} has {device.memory_bytes / 1e6:.0f} MB, and the runtime alone "
                f"takes {runtime / 1e6:.0f}: give it more"
            )
    return replace(
        cluster,
        devices=tuple(
            replace(device, memory_bytes=max(1, round((device.memory_bytes - runtime) * share)))
            for device in cluster.devices
        ),
    )
