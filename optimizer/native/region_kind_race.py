"""Kinds of regions raced alone, each against the operators that it replaces, the same ones once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...profiles.races.race import Lap
from ..graph.graph import Graph, TensorType
from ..graph.infer import bound_types
from ..phases import Phases
from ..race.candidate_files import CandidateFiles
from ..race.contest import Contest
from .configured_kinds import ConfiguredKinds
from .kernel import supply
from .kernel_trial import joined, measured_forms
from .library import Library
from .region_kinds import Kind
from .shapes.shapes import Followed

# What each race has at least.
LEAST_S = 0.05


class Alone:
    """What kernels were measured to take beside the operators of their regions.

    Plans of one model share it: what has been raced for one counts for the next.
    """

    def __init__(
        self,
        contest: Contest,
        candidate_files: CandidateFiles,
        phases: Phases,
        configured: ConfiguredKinds | None = None,
    ) -> None:
        self.contest, self.candidate_files, self.phases = contest, candidate_files, phases
        self.configured = configured
        self._openings: dict[str, list[dict[str, Lap]]] = {}

    def race(self, graph: Graph, kinds: Sequence[Kind], library: Library, budget_s: float) -> None:
        """Race kinds of a graph, the forms of one region together, for about `budget_s`."""
        groups = self._groups(kinds)
        types = types_under(graph, self.contest.sizes)
        for i, group in enumerate(groups):
            kernels = [kind.regions[0].kernel for kind in group]
            self.phases.tell("measuring kernels", i, len(groups), kernels[0].name)
            with self.phases("measuring kernels", kernels[0].name):
                supply(graph, kernels)
                # configurations differ by as little as sessions do
                orders = [kernels, kernels[::-1]] if _has_configurations(group) else [kernels]
                races = [
                    measured_forms(
                        graph,
                        group[0].regions[0].region,
                        order,
                        library,
                        types,
                        threads=self.contest.setting.threads,
                        budget_s=max(LEAST_S, budget_s / len(groups)) / len(orders),
                        place=self.candidate_files.place,
                    )
                    for order in orders
                ]
            for kernel in kernels:
                self._openings[kernel.name] = [
                    laps[kernel.name] for laps in races if kernel.name in laps
                ]
        for kind in kinds:
            kind.openings = self._openings[kind.name]
            kind.alone = joined(kind.openings) if kind.openings else None
        if self.configured is not None:
            self.configured.note(kinds)

    def _groups(self, kinds: Sequence[Kind]) -> list[list[Kind]]:
        """Put together what is raced together, without what was raced before."""
        groups: dict[object, list[Kind]] = {}
        chosen = {k.regions[0].region.nodes for k in kinds if k.configuration is not None}
        for name, kind in {kind.name: kind for kind in kinds}.items():
            if name not in self._openings:
                nodes = kind.regions[0].region.nodes
                key = nodes if kind.form or nodes in chosen else name
                groups.setdefault(key, []).append(kind)
        return list(groups.values())


def _has_configurations(group: Sequence[Kind]) -> bool:
    return any(kind.configuration is not None for kind in group)


def types_under(graph: Graph, sizes: Mapping[str, int]) -> dict[int, TensorType]:
    """Give the types under the sizes that free dimensions have, those in blocks as well."""
    bound = graph.copy()
    bound.types = bound_types(graph, sizes)
    if sizes:
        Followed(bound)
    return bound.types
