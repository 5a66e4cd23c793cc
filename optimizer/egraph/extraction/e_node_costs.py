"""What e-nodes cost, and the extraction problem that follows from it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np

from ....profiles.kernel import Kernel
from ...price import Prices, Progress
from ..congruence import NONE
from ..egraph import UNTYPED, EGraph
from ..interning import INPUT
from .problem import Choice, Problem

UNUSABLE = math.inf
# What stands for the time of a kernel of which no more than its bound is known, at worst: an hour.
_UNKNOWN_NS = 3.6e12


class Costs:
    """Nanoseconds of e-nodes by measured kernels, else as predicted, else by their bounds.

    An e-node that is not the model's own counts with the spread of its measurement, since a gain
    within the noise is none. What is neither measured nor predicted when measuring is over is left
    out, unless it was made by a rule that is always an improvement.
    """

    def __init__(self, egraph: EGraph, prices: Prices) -> None:
        self.egraph, self.prices = egraph, prices
        self._measuring_is_over = False
        self._withheld: set[int] = set()
        self._known_ns: dict[int, float] = {}
        self._kernels: dict[int, Kernel] = {}

    @property
    def measuring_is_over(self) -> bool:
        """Whether what nobody measured yet stays so, and is not to be used."""
        return self._measuring_is_over

    def end_measuring(self) -> None:
        """Leave out from now on what nobody measured."""
        self._measuring_is_over = True
        self._known_ns = {}

    def withhold(self, nodes: Iterable[int]) -> None:
        """Leave some e-nodes out from now on, whatever they cost."""
        self._withheld.update(nodes)
        self._known_ns = {}

    def kernel(self, node: int) -> Kernel | None:
        """What an e-node is measured as; None where a size is not known."""
        if node not in self._kernels:
            kernel = kernel_of_e_node(self.egraph, node)
            if kernel is None:  # a size may become known yet
                return None
            self._kernels[node] = kernel
        return self._kernels[node]

    def __call__(self, node: int) -> float:
        """The cost of an e-node in nanoseconds; infinite where it can't be used."""
        if node not in self._known_ns:
            self._known_ns[node] = self._cost(node)
        return self._known_ns[node]

    def _cost(self, node: int) -> float:
        if node in self._withheld:
            return UNUSABLE
        is_own = node in self.egraph.origin
        if self._is_free(node):
            return 0.0  # it is computed in any case
        kernel = self.kernel(node)
        if kernel is None:
            return 0.0 if is_own else UNUSABLE
        cost = self.prices.model.cost(kernel)
        if is_own or kernel.is_constant:
            return cost.ns
        if cost.source != "measured" and self.prices.model.failure(kernel) is not None:
            return UNUSABLE
        if cost.source == "bound" and self.measuring_is_over:
            application = self.egraph.made_by.get(node)
            if application is None or not application.always:
                return UNUSABLE
        return cost.ns + cost.spread_ns

    def against(self, node: int, chosen: Collection[int]) -> float:
        """The cost of an e-node that speaks most against those that are chosen.

        Of these the upper end of what is predicted, of others the lower one: where the chosen ones
        are the cheapest even so, they are whatever the true costs within the intervals.
        """
        cost, kernel = self(node), self.kernel(node)
        if kernel is None or kernel.is_constant or cost == UNUSABLE:
            return cost
        estimate, failure = self.prices.model.cost(kernel), self.prices.model.failure(kernel)
        if estimate.source == "measured" or failure is not None or self._is_free(node):
            return cost
        return min(estimate.most_ns, _UNKNOWN_NS) if node in chosen else estimate.least_ns

    def by_effect(self, nodes: Iterable[int]) -> list[Kernel]:
        """The kernels of e-nodes that nobody measured, those of the widest intervals first.

        What is not even predicted comes before, the largest bounds first.
        """
        often = Counter(kernel for node in nodes if (kernel := self.kernel(node)) is not None)
        costs = {kernel: self.prices.model.cost(kernel) for kernel in often}

        def effect(kernel: Kernel) -> tuple[float, float]:
            cost = costs[kernel]
            return often[kernel] * (cost.most_ns - cost.least_ns), often[kernel] * cost.ns

        return sorted(self.prices.model.unmeasured(often), key=effect, reverse=True)

    def _is_free(self, node: int) -> bool:
        return node in self.egraph.origin and self._is_opaque(node)

    def _is_opaque(self, node: int) -> bool:
        identity = self.egraph.vocabulary.attributes[self.egraph.columns.attribute(node)].identity
        return identity is not None

    def measure(self, nodes: Iterable[int], progress: Progress | None = None) -> bool:
        """Measure the kernels of e-nodes that nobody measured yet, as far as the budget goes.

        Tells whether there were any, and a budget to measure them with.
        """
        return self.measure_kernels(self.unmeasured(nodes), progress)

    def measure_kernels(self, kernels: Sequence[Kernel], progress: Progress | None) -> bool:
        """Measure kernels in their order as `measure` does those of e-nodes."""
        if not kernels or self.prices.remaining_s <= 0:
            return False
        self.prices.measure(kernels, progress)
        self._known_ns = {}
        return True

    def measure_within(self, share: float, nodes: Iterable[int], progress: Progress | None) -> None:
        """Measure the kernels of e-nodes within a share of what is left of the budget."""
        kept_s = self.prices.remaining_s * (1 - share)
        self.prices.remaining_s -= kept_s
        self.measure(nodes, progress)
        self.prices.remaining_s += kept_s

    def unmeasured(self, nodes: Iterable[int]) -> list[Kernel]:
        """The kernels of e-nodes that nobody measured yet, those of the largest bounds first."""
        kernels = [kernel for node in nodes if (kernel := self.kernel(node)) is not None]
        return sorted(self.prices.model.unmeasured(kernels), key=lambda k: -self._bound(k))

    def _bound(self, kernel: Kernel) -> float:
        return self.prices.model.cost(kernel).ns


def kernel_of_e_node(egraph: EGraph, node: int) -> Kernel | None:
    """Return what an e-node is measured as; None where a size is not known."""
    columns = egraph.columns
    results = tuple(
        None if value == NONE or egraph.sized[value] == UNTYPED else egraph.sized[value]
        for value in columns.outputs(node)
    )
    attributes, written = egraph.written(node)
    operands = egraph.operands(written, sized=True)
    return egraph.inference.kernel(columns.operator(node), attributes, operands, results)


def problem_of(egraph: EGraph, cost: Callable[[int], float]) -> Problem:
    """The classes that the outputs may need, with every e-node that gives them.

    What is known before the model runs, and what it is given, is free.
    """
    columns = egraph.columns
    givers = givers_of(egraph)
    free = free_classes(egraph)
    roots = [egraph.find(value) for value in egraph.graph.graph_outputs]
    roots = [value for value in dict.fromkeys(roots) if value not in free]
    choices: dict[int, tuple[Choice, ...]] = {}
    choice_of: dict[int, Choice] = {}
    queue = list(roots)
    while queue:
        class_ = queue.pop()
        if class_ in choices:
            continue
        offered = []
        for node in givers.get(class_, ()):
            if node not in choice_of:
                needs = dict.fromkeys(
                    v for v in columns.operands(node) if v != NONE and v not in free
                )
                choice_of[node] = Choice(node, cost(node), tuple(needs))
            if choice_of[node].cost < UNUSABLE:
                offered.append(choice_of[node])
                queue += choice_of[node].needs
        choices[class_] = tuple(offered)
    return Problem(choices, tuple(roots))


def givers_of(egraph: EGraph) -> dict[int, list[int]]:
    """Class -> the living e-nodes that give it and that a model can contain, oldest first."""
    columns = egraph.columns
    real = np.array([not op.is_virtual for op in egraph.vocabulary.operators], bool)
    living = columns.living()
    nodes, _, values = columns.gives(living[real[columns.operators_of(living)]])
    givers: dict[int, list[int]] = {}
    for node, value in zip(nodes.tolist(), values.tolist(), strict=True):
        givers.setdefault(value, []).append(node)
    return givers


def free_classes(egraph: EGraph) -> set[int]:
    """The classes that cost nothing: known before the model runs, or given to it."""
    columns = egraph.columns
    living = columns.living()
    input_operators = [n for n, op in enumerate(egraph.vocabulary.operators) if op.op_type == INPUT]
    leaves = living[np.isin(columns.operators_of(living), input_operators)]
    known = np.flatnonzero(np.array(egraph.known, bool))
    return {*columns.gives(leaves)[2].tolist(), *columns.canonical(known).tolist()}


def original_selection(egraph: EGraph, problem: Problem) -> dict[int, Choice]:
    """The model itself as a selection: for each class its first e-node in the model's order.

    What that e-node reads is computed before it, so the selection is acyclic.
    """
    selection: dict[int, Choice] = {}
    queue = list(problem.roots)
    while queue:
        class_ = queue.pop()
        if class_ in selection:
            continue
        original_choices = [c for c in problem.choices[class_] if c.node in egraph.origin]
        selection[class_] = min(original_choices, key=lambda choice: choice.node)
        queue += selection[class_].needs
    return selection
