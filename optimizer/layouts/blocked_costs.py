"""What e-nodes cost where the layout of each value is a choice."""

from __future__ import annotations

from ..egraph.extraction.e_node_costs import UNUSABLE, Costs
from .blocking import Blocking
from .operators.convolution_epilogues import is_blocked_by_runtime
from .runtime import NCHWC

REORDERS = ("ReorderInput", "ReorderOutput")
# How many times its bound a reorder counts that nobody measured: they are avoided then.
UNMEASURED = 4.0


class BlockedCosts:
    """Costs where the layout of each value is a choice.

    The cost model takes a convolution that stands alone for one within the runtime's own blocked
    regions, and leaves the reorders out. Here those are e-nodes of their own, so that a convolution
    that the runtime would have to reorder for is charged with them; so is one that nobody measured.
    One in blocks that nobody measured costs what its like outside does. Where that isn't known
    either, it counts with its bound as long as it may be measured yet (until `is_final`).
    """

    is_final = False

    def __init__(self, costs: Costs, blocking: Blocking) -> None:
        self.costs, self.blocking = costs, blocking
        # Of what e-nodes cost, the part that they count, where that is not all.
        self.parts: dict[int, float] = {}

    def __call__(self, node: int) -> float:
        """The cost of an e-node in nanoseconds; infinite where it can't be used."""
        return self._cost(node) * self.parts.get(node, 1.0)

    def _cost(self, node: int) -> float:
        blocking, find = self.blocking, self.blocking.egraph.find
        node = blocking.same.get(node, node)
        twin = blocking.twins.get(node)
        if twin is not None and (self._is_blocked_by_runtime(node) or self._is_open(node)):
            columns = blocking.egraph.columns
            ends = (
                blocking.values.entering.get(find(columns.operands(node)[0])),
                blocking.values.leave_nodes.get(find(columns.outputs(node)[0])),
            )
            within = self._cost(twin) + sum(self._cost(end) for end in ends if end is not None)
            return within if within < UNUSABLE else self.costs(node)
        original = blocking.likes.get(node)
        if original is not None and self._is_open(node):
            like = self._cost(original) if original in blocking.likes else self.costs(original)
            if like < UNUSABLE or self.is_final:
                return like
        cost = self.costs(node)
        return cost * UNMEASURED if self._is_reorder(node) and self._is_open(node) else cost

    def _is_reorder(self, node: int) -> bool:
        egraph = self.blocking.egraph
        op = egraph.vocabulary.operators[egraph.columns.operator(node)]
        return op.domain == NCHWC and op.op_type in REORDERS

    def _is_open(self, node: int) -> bool:
        kernel = self.costs.kernel(node)
        return kernel is not None and self.costs.prices.cost(kernel).source == "bound"

    def _is_blocked_by_runtime(self, node: int) -> bool:
        egraph = self.blocking.egraph
        op = egraph.vocabulary.operators[egraph.columns.operator(node)]
        operands = egraph.columns.operands(node)
        block = self.blocking.values.block
        if op.op_type == "ReduceMean":
            return False
        if op.op_type != "Conv":
            image = self.blocking.values.image(operands[0])
            return image is not None and int(image[1][1]) % block == 0
        type_ = egraph.type(operands[1])
        assert type_ is not None and type_.shape is not None
        attributes = egraph.vocabulary.attributes[egraph.columns.attribute(node)].values
        weights = tuple(int(size) for size in type_.shape)
        return is_blocked_by_runtime(weights, int(attributes.get("group", 1)), block)  # type: ignore[call-overload]
