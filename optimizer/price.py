"""Costs of kernels under concrete shapes: measured within a budget, else predicted, else a bound.

The cost of a plan is the sum over its kernels: `Prices.total`, which `State.expected_cost` calls.
The time of a plan as a whole is measured in race/.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from ..profiles.kernel import Kernel
from ..profiles.kernels.costs import Cost, CostModel
from ..profiles.kernels.graph_kernels import kernel_of as extract_kernel
from ..rules import ABSENT
from .graph.convert import node_proto
from .graph.graph import Graph, TensorType

# Constants up to this many elements are part of a kernel: shapes, axes, indices, exponents.
TELLING_ELEMENTS = 64

Progress = Callable[[int, int, str], None]


class Prices:
    """Costs of kernels, measured as far as a budget of seconds goes; shared by all plans."""

    def __init__(
        self, model: CostModel, *, budget_s: float, fused: dict[str, Cost] | None = None
    ) -> None:
        self.model = model
        self.remaining_s = budget_s
        self.spent_s = 0.0
        self.measured = 0
        # Costs of generated kernels, by the names of their operators: each was timed in its region.
        self.fused: dict[str, Cost] = {} if fused is None else fused

    def measure(self, kernels: Iterable[Kernel], progress: Progress | None = None) -> None:
        """Measure the kernels without a stored cost, in the order given, while the budget lasts."""
        distinct = list(dict.fromkeys(kernels))
        todo = [kernel for kernel in distinct if self._is_open(kernel)]
        if todo and self.remaining_s > 0:
            start = time.monotonic()
            try:
                self.measured += self.model.measure(
                    todo, budget_s=self.remaining_s, progress=progress
                )
            finally:
                self.spent_s += (took_s := time.monotonic() - start)
                self.remaining_s -= took_s
        if self.model.predictions is not None:
            self.model.adapt(distinct)

    def unmeasured(self, kernels: Iterable[Kernel]) -> list[Kernel]:
        """List the kernels that can be measured and were not, each once, in the order given."""
        return self.model.unmeasured(kernel for kernel in kernels if self._is_open(kernel))

    def total(self, kernels: Sequence[Kernel]) -> Cost:
        """Return the sum of costs: a bound if one of them is, else predicted if one is."""
        costs = [self.cost(kernel) for kernel in kernels]
        sources = {
            cost.source
            for kernel, cost in zip(kernels, costs, strict=True)
            if not kernel.is_constant
        }
        return Cost(
            ns=sum(cost.ns for cost in costs),
            spread_ns=sum(cost.spread_ns**2 for cost in costs) ** 0.5,
            source=next((word for word in ("bound", "predicted") if word in sources), "measured"),
        )

    def interval_ns(self, kernels: Iterable[Kernel]) -> tuple[float, float]:
        """Return the least and the most nanoseconds of all kernels, by the interval of each."""
        costs = [self.cost(kernel) for kernel in kernels if not kernel.is_constant]
        return sum(cost.least_ns for cost in costs), sum(cost.most_ns for cost in costs)

    def _is_open(self, kernel: Kernel) -> bool:
        return self.cost(kernel).source != "measured"

    def cost(self, kernel: Kernel) -> Cost:
        """Return a kernel's cost: measured, else predicted, else its bound."""
        return self.fused.get(kernel.op_type) or self.model.cost(kernel)


def kernel_of(
    graph: Graph,
    number: int,
    types: Mapping[int, TensorType],
    constants: Collection[int] = (),
) -> Kernel | None:
    """Return a node's kernel; None where a shape is not known under the sizes in `types`.

    `constants` are values that will be constant when the model runs, beside the graph's constants.
    """
    node = graph.nodes[number]
    shapes: dict[str, tuple[str, tuple[int, ...]]] = {}
    fixed: set[str] = set()
    for value in (*node.inputs, *node.outputs):
        if value == ABSENT:
            continue
        if value in graph.constants or value in constants:
            fixed.add(graph.names[value])
        type_ = types.get(value)
        if type_ is None or type_.shape is None:
            continue
        if all(isinstance(size, int) for size in type_.shape):
            shapes[graph.names[value]] = (type_.dtype, tuple(int(size) for size in type_.shape))
    telling = {
        graph.names[value]: value
        for value in node.inputs
        if value in graph.constants and _is_telling(graph, value)
    }
    return extract_kernel(
        node_proto(graph, node),
        shapes,
        lambda name: graph.constant(telling[name]) if name in telling else None,
        {entry.domain: entry.version for entry in graph.base.opset_import},
        fixed.__contains__,
    )


def kernels_of_graph(graph: Graph, types: Mapping[int, TensorType]) -> dict[int, Kernel]:
    """Return the kernel of every node whose shapes are known."""
    kernels = {number: kernel_of(graph, number, types) for number in graph.nodes}
    return {number: kernel for number, kernel in kernels.items() if kernel is not None}


def _is_telling(graph: Graph, value: int) -> bool:
    count = 1
    for size in graph.constants[value].type.shape or ():
        count *= int(size)
    return count <= TELLING_ELEMENTS
