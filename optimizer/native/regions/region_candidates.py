"""Candidates for regions of a graph: what regions.dl derives for the sinks in question."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from importlib import resources
from weakref import WeakKeyDictionary

from ....catalog.datalog.memory.execution import Evaluator, Prepared
from ....catalog.datalog.memory.program_cache import shipped
from ..loops.affine import Extent
from ..loops.kernel_region import Meanings
from ..loops.reduced_axes import Rows
from .region_facts import frames, region_facts


@dataclass(frozen=True)
class Candidate:
    """Nodes that one kernel may compute, and the frame that it runs over.

    `space` is the frame's shape, `reduced` says which of its axes are reduced.
    """

    space: tuple[Extent, ...]
    reduced: Rows
    nodes: frozenset[int]


class Candidates:
    """What regions.dl derives of one graph."""

    def __init__(self, meanings: Meanings) -> None:
        facts = region_facts(meanings)
        self._derived = Prepared(program(), facts, ["sink"])
        self._frames = {frame.name: frame for frame in frames(meanings.graph)}
        self.computable = frozenset(n for (n,) in self._derived.rows("computable"))
        self.begins = frozenset(n for (n,) in self._derived.rows("begins"))
        self.reducing = frozenset(n for n, *_ in facts["folds"])
        self.slow = frozenset(n for (n,) in facts["slow"])
        self._by_sink: dict[int, list[Candidate]] = {}

    def of(self, sink: int) -> list[Candidate]:
        """Return the candidates that end in a node."""
        if sink not in self._by_sink:
            nodes: dict[str, set[int]] = defaultdict(set)
            for _, frame, number in self._derived({"sink": [(sink,)]}, "region"):
                nodes[frame].add(number)
            self._by_sink[sink] = [
                Candidate(self._frames[name].space, self._frames[name].rows, frozenset(inside))
                for name, inside in nodes.items()
            ]
        return self._by_sink[sink]


@cache
def program() -> Evaluator:
    """Return what derives the relations of regions.dl from facts."""
    return shipped(resources.files(__package__) / "regions.dl")


_of_graphs: WeakKeyDictionary[Meanings, Candidates] = WeakKeyDictionary()


def candidates(meanings: Meanings) -> Candidates:
    """Return the candidates of a graph, which isn't to change any more; derived once."""
    if meanings not in _of_graphs:
        _of_graphs[meanings] = Candidates(meanings)
    return _of_graphs[meanings]
